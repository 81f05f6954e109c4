"""Processes by what they were started with."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def running():
    """The command line of each process, by its id."""
    commands = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                    line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    commands[int(folder.name)] = line.decode(errors="replace").strip()
    return commands


def environment_of(pid):
    """What a process had as its environment when it started; {} where that cannot be read."""
    with suppress(OSError):
        pairs = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        return dict(pair.partition("=")[::2] for pair in pairs)
    return {}


def parent_of(pid):
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def kill(pid, number):
    """Send a signal; one that comes too late is no error."""
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
