"""Notices: how far a worker is, in one small file beside its locks, for `bench status`.

A notice is replaced every few seconds and never synced, and errors in writing it are ignored. It counts only while the
process that it names holds the lock beside it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from harness.system.files import write_json

Send = Callable[[str, dict[str, Any]], None]
"""A function that is called for each message of a worker, with its kind and its content."""

EVERY_SECONDS = 2.0


class Notice:
    """The notice of one worker; as a context manager, it deletes its file at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record: dict[str, Any] = {"host": socket.gethostname(), "pid": os.getpid()}
        self._written = -EVERY_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def update(self, changes: Mapping[str, Any]) -> None:
        """Record changes. The file is replaced unless that happened less than `EVERY_SECONDS` ago."""
        self.record |= changes
        now = time.monotonic()
        if now - self._written < EVERY_SECONDS:
            return
        self._written = now
        with suppress(OSError):
            write_json(self.path, {**self.record, "time": time.time()}, sync=False)

    def hearing(self, send: Send) -> Send:
        """Return a function that calls `send` and also records progress messages."""

        def send_and_record(kind: str, payload: dict[str, Any]) -> None:
            send(kind, payload)
            if kind == "progress":
                self.update({name: payload.get(name) for name in ("position", "steps", "rate")})

        return send_and_record


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as a text of ranges: 0-3,7 for 0, 1, 2, 3 and 7."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
