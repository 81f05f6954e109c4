"""Which parts of runs/ need no reading: those where nothing came or went since the database lacked nothing of them.

A part is the folder of the run keys with the same first two digits. Its *stamp* is a digest of the names, inodes,
change times, links and sizes of the folders of its runs, so an attempt that comes, goes or takes another's place
changes it, however it was copied: only the kernel sets a change time. Attempts that had no result are read again all
the same.

Stamps are kept beside the database, in results.settled.json, and count only for that very file. A clock ticks, so a
stamp of folders that changed a moment ago could stay the same through another change: it is no stamp yet.
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
"""Seconds: no file system's time is coarser."""


@dataclass(frozen=True)
class Settled:
    """The parts whose stamp is that of before, with what the stamps are now; "" is "not yet".

    version   of the schema that the database had then, "" where it is not that very file. A sender of a folder cannot
              know what inode and change time its files will have here: this tells a database that was checked here.
    """

    parts: frozenset[str] = frozenset()
    stamps: dict[str, str] = field(default_factory=dict)
    database: list[int] = field(default_factory=list)
    version: str = ""


def look(results: Path, database: Path) -> Settled:
    """What is settled. To be asked before the database and the runs are read: what changes meanwhile is seen later."""
    identity = _identity(database)
    now = {part: _stamp(f"{results}/runs/{part}") for part in folders(f"{results}/runs")}
    kept = read_json(_file(database)) or {}
    same = kept if identity and kept.get("database") == identity else {}
    known, version = same.get("parts"), same.get("schema")
    known = known if isinstance(known, dict) else {}
    parts = frozenset(part for part, stamp in now.items() if stamp and known.get(part) == stamp)
    return Settled(parts, now, identity, version if isinstance(version, str) else "")


def keep(found: Settled, database: Path, troubled: AbstractSet[str], version: str) -> None:
    """Note that the database, as it was and is, lacks nothing of any part but the troubled ones, and its version."""
    parts = {part: stamp for part, stamp in found.stamps.items() if stamp and part not in troubled}
    new = parts.keys() != found.parts or version != found.version
    if found.database and new and _identity(database) == found.database:
        with suppress(OSError):  # a folder that cannot be written to is read in full each time
            write_json(_file(database), {"database": found.database, "schema": version, "parts": parts})


def _file(database: Path) -> Path:
    return database.with_name(f"{database.stem}.settled.json")


def _identity(database: Path) -> list[int]:
    """What tells this state of the database's file from any other; empty where nothing does yet."""
    try:
        found = database.stat()
    except OSError:
        return []
    if database.with_name(f"{database.name}.wal").exists() or _young(found.st_ctime_ns):
        return []
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def _stamp(folder: str) -> str:
    try:
        entries = sorted(_entries(folder))
    except OSError:  # one went away meanwhile
        return ""
    if _young(max((changed for _, _, changed, _, _ in entries), default=0)):
        return ""
    return hashlib.sha256(repr(entries).encode()).hexdigest()


def _entries(folder: str) -> Iterator[tuple[str, int, int, int, int]]:
    """Name, inode, change time in ns, links and size of what is in a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            found = entry.stat()
            yield entry.name, found.st_ino, found.st_ctime_ns, found.st_nlink, found.st_size


def _young(changed: int) -> bool:
    """Whether a change is so recent that another one may get the same time; or from the future, by a clock set back."""
    return changed > time.time_ns() - int(MARGIN * 1e9)
