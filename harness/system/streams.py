"""The standard streams of a process. A stream that is closed or full, or whose reader has ended, does not stop work.

What cannot be written is dropped, and the first error of stdout is kept for the end of the command, see `unwritten`.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import Any

from harness.system.text import harmless

STDERR = 2


class _Descriptor(io.FileIO):
    """A standard stream, open for writing. `error` is the first error of a write; what it did not write is dropped."""

    error: OSError | None = None

    def write(self, content: Any) -> int:
        """Write bytes and return their number, or that of all of them after an error."""
        try:
            while (written := super().write(content)) is None:  # it does not block, and its reader is slow
                select.select([], [self], [])
        except OSError as error:
            self.error = self.error or error
            return len(content)
        return written


def secure() -> None:
    """Make stdin, stdout and stderr of this process valid, and their writes safe. An entry point calls this first.

    The descriptor of a closed stream would be given to the next file that is opened, and what is printed would go into
    that file. Characters that the encoding of a stream lacks are replaced.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # the lowest number that is free is this one; writes to stdout will fail, as they did before
            opened = os.open(os.devnull, os.O_WRONLY if number == STDERR else os.O_RDONLY)
            os.set_inheritable(opened, True)
    for number, name in ((1, "stdout"), (STDERR, "stderr")):
        raw, encoding = _Descriptor(number, "w", closefd=False), getattr(getattr(sys, name), "encoding", None)
        lines = name == "stderr" or raw.isatty()
        stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors="replace", line_buffering=lines)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def unwritten() -> OSError | None:
    """Flush stdout; return why something that was printed to it could not be written, or None."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.error if isinstance(raw, _Descriptor) else None


def say(message: str) -> None:
    """Print progress or a note to stderr. Results go to stdout."""
    sys.stderr.write(harmless(message, "\n\t") + "\n")
    sys.stderr.flush()


def has_colour() -> bool:
    """Return whether to use colours: not if NO_COLOR is set (https://no-color.org) or the terminal is "dumb"."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
