"""The parts of runs/ that need not be read: nothing was added or removed since the database was complete for them.

A part is the folder of the run keys with the same first two digits. Its *stamp* is a digest of the names, inodes,
change times, links and sizes of the folders of its runs. An attempt that is added, removed or replaced changes it,
however it was copied: only the kernel sets a change time. Attempts that had no result are read again in any case.

Stamps are kept beside the database, in results.settled.json, and count only for that very file. Clocks advance in
ticks, so folders that changed a moment ago could change again and keep their stamp: they have no stamp yet.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.results.ledger.ledger import folders
from harness.system.files import read_json, write_json

MARGIN = 2.0
"""Seconds; no file system's times are coarser."""


@dataclass(frozen=True)
class Settled:
    """The parts whose stamps have not changed, and the stamps of all parts now; "" stands for "not yet".

    `version` is that of the schema which the database had then, or "" if the database is not that very file. The sender
    of a folder cannot know which inode and change time its files will get here: a database with a version was checked
    here.
    """

    parts: frozenset[str] = frozenset()
    stamps: dict[str, str] = field(default_factory=dict)
    database: list[int] = field(default_factory=list)
    version: str = ""


def look(results: Path, database: Path) -> Settled:
    """Return what is settled. Call this before reading the database and the runs, so that no later change is missed."""
    identity = _identity(database)
    now = {part: _stamp(f"{results}/runs/{part}") for part in folders(f"{results}/runs")}
    kept = read_json(_file(database)) or {}
    same = kept if identity and kept.get("database") == identity else {}
    known, version = same.get("parts"), same.get("schema")
    known = known if isinstance(known, dict) else {}
    parts = frozenset(part for part, stamp in now.items() if stamp and known.get(part) == stamp)
    return Settled(parts, now, identity, version if isinstance(version, str) else "")


def keep(settled: Settled, database: Path, troubled: AbstractSet[str], version: str) -> None:
    """Note the schema's version, and that the unchanged database lacks nothing of any part but the troubled ones."""
    parts = {part: stamp for part, stamp in settled.stamps.items() if stamp and part not in troubled}
    new = parts.keys() != settled.parts or version != settled.version
    if settled.database and new and _identity(database) == settled.database:
        with suppress(OSError):  # if the folder cannot be written to, it is read in full each time
            write_json(_file(database), {"database": settled.database, "schema": version, "parts": parts})


def _file(database: Path) -> Path:
    return database.with_name(f"{database.stem}.settled.json")


def _identity(database: Path) -> list[int]:
    """Return numbers that distinguish this state of the database's file from any other; empty if none do yet."""
    try:
        status = database.stat()
    except OSError:
        return []
    if database.with_name(f"{database.name}.wal").exists() or _is_recent(status.st_ctime_ns):
        return []
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _stamp(folder: str) -> str:
    try:
        entries = sorted(_entries(folder))
    except OSError:  # one was deleted in the meantime
        return ""
    if _is_recent(max((changed for _, _, changed, _, _ in entries), default=0)):
        return ""
    return hashlib.sha256(repr(entries).encode()).hexdigest()


def _entries(folder: str) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield the name, inode, change time in ns, links and size of each entry of a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat()
            yield entry.name, status.st_ino, status.st_ctime_ns, status.st_nlink, status.st_size


def _is_recent(changed: int) -> bool:
    """Return whether a change is so recent that another one may get the same time, or lies in the future.

    A change lies in the future if a clock was set back.
    """
    return changed > time.time_ns() - int(MARGIN * 1e9)
