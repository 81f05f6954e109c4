"""Files that are either whole or not there: written aside, synced, renamed. Records that carry their own checksum."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

SEAL = "sha256"


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path` so that a reader, or a crash, sees all of it or nothing."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """`write_whole` for a record; NaN is refused, JSON has none."""
    write_whole(path, json.dumps(record, indent=1, sort_keys=True, allow_nan=False).encode())


def regular(path: Path | str) -> BufferedReader:
    """An ordinary file, open for reading. A pipe would block and a device might never end: both are an `OSError`."""
    return os.fdopen(_opened(path)[0], "rb")


def read_bytes(path: Path | str) -> bytes:
    """The content of an ordinary file. Without a stream: of thousands of small files, those would take most time."""
    descriptor, size = _opened(path)
    try:
        content = os.read(descriptor, size + 1)
        while len(content) != size and (more := os.read(descriptor, 2**26)):  # it is large, or changed meanwhile
            content += more
    finally:
        os.close(descriptor)
    return content


def _opened(path: Path | str) -> tuple[int, int]:
    """A descriptor of an ordinary file, and its size."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode):
        return descriptor, found.st_size
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not an ordinary file", str(path))


def read_json(path: Path) -> dict[str, Any] | None:
    """The record at `path`; None where it is missing, cut off or no object."""
    try:
        record = json.loads(read_bytes(path))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with the checksum of all the rest of it, under `sha256`."""
    return {**record, SEAL: _digest(record)}


def seal_holds(record: Mapping[str, Any]) -> bool:
    """Whether a record is what was sealed. One without a seal, as earlier versions wrote them, passes."""
    return SEAL not in record or record[SEAL] == _digest(record)


def _digest(record: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in record.items() if name != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
