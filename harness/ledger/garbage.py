"""What lies in a results folder and nobody will ask for again, and how it is taken away beside launchers that run.

Nothing goes that has a result, that a worker could go on with, or that is of a run whose lock is held. What is of a run
is looked at once more and deleted while its lock is held here; a lock's file goes as its holder gives it back.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.ledger.attempt import FINAL, RESUMABLE, WORK, Attempt
from harness.ledger.ledger import Ledger
from harness.ledger.locks import HeldError, held, hold

PATIENCE_SECONDS = 1.0
_LEFTOVER = re.compile(r"\..+[.-](\d+)(\.duckdb(\.wal)?)?")
_DAMAGED = "results.duckdb.damaged-*"
_HOUR, _MINUTE = 3600.0, 60.0


@dataclass(frozen=True)
class Garbage:
    """A file or folder that can go: its size in bytes, and why. `run` is the run that it belongs to, if any."""

    path: Path
    bytes: int
    why: str
    run: str = ""
    is_attempt: bool = False


def find(ledger: Ledger, *, failed: bool = False) -> list[Garbage]:
    """All that can go; with `failed` also the failed attempts at runs that a later attempt finished."""
    of_runs = [
        item
        for key in ledger.all_keys()
        if not held(ledger.lock(key))
        for item in _of_run(ledger, key, failed=failed)
    ]  # fmt: skip
    return [*of_runs, *_of_locks(ledger), *_of_root(ledger.root)]


def remove(ledger: Ledger, found: Sequence[Garbage], *, failed: bool = False) -> tuple[list[Garbage], list[str]]:
    """Delete what was found and still can go; returns what went, and notes on what did not."""
    gone: list[Garbage] = []
    notes: list[str] = []
    by_run: dict[str, set[Path]] = {}
    for item in found:
        if item.run:
            by_run.setdefault(item.run, set()).add(item.path)
    for key, paths in by_run.items():
        try:
            with hold(ledger.lock(key), PATIENCE_SECONDS):
                now = [item for item in _of_run(ledger, key, failed=failed) if item.path in paths]
                _delete(now, gone, notes)
                with suppress(OSError):
                    (ledger.runs / key[:2] / key).rmdir()  # if that was all
        except HeldError as error:
            notes.append(f"left alone: run {error}")
    for item in (item for item in found if item.path.suffix == ".lock"):
        with suppress(HeldError), hold(item.path, 0):
            gone.append(item)
    _delete([item for item in found if not item.run and item.path.suffix != ".lock"], gone, notes)
    return gone, notes


def _of_run(ledger: Ledger, key: str, *, failed: bool) -> Iterator[Garbage]:
    folder = ledger.runs / key[:2] / key
    results = {attempt.path: attempt.read_result() for attempt in ledger.attempts(key)}
    final = [path.name for path, (result, _) in results.items() if result and result["status"] in FINAL]
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.is_symlink() or not path.is_dir():
            continue
        if path not in results:
            yield Garbage(path, _size(path), "a folder that never became an attempt", key)
            continue
        result, damage = results[path]
        status = "damaged" if damage else result["status"] if result else "unfinished"
        if final and path.name not in final and (failed or result is None):
            yield Garbage(path, _size(path), f"{status}; {final[-1]} finished the run", key, is_attempt=True)
        else:
            resumable = not final and status in RESUMABLE
            yield from _within(Attempt(path), key, concluded=result is not None and not resumable)


def _within(attempt: Attempt, key: str, *, concluded: bool) -> Iterator[Garbage]:
    for path in sorted(attempt.path.iterdir()):
        if concluded and path.name in WORK:
            yield Garbage(path, _size(path), "for going on, and there is a result", key)
        elif _LEFTOVER.fullmatch(path.name):
            yield Garbage(path, _size(path), "left by an interrupted write", key)


def _of_locks(ledger: Ledger) -> Iterator[Garbage]:
    """Lock files that nobody holds, and notices of workers that are gone."""
    for path in sorted(ledger.locks.glob("*")):
        if path.suffix == ".lock" and not held(path):
            yield Garbage(path, _size(path), "a lock that nobody holds")
        elif path.suffix == ".notice" and not held(path.with_suffix(".lock")):
            yield Garbage(path, _size(path), "the notice of a worker that is gone")


def _of_root(root: Path) -> Iterator[Garbage]:
    """What interrupted writes left outside the runs, and databases that were damaged and set aside."""
    for path in sorted(p for folder in (root, root / "locks", root / "rates") for p in folder.glob(".*")):
        match = _LEFTOVER.fullmatch(path.name)
        if match and path.is_file() and _abandoned(path, int(match[1])):
            yield Garbage(path, _size(path), "left by an interrupted write")
    for path in sorted(root.glob(_DAMAGED)):
        yield Garbage(path, _size(path), "a damaged database, set aside when it was rebuilt")


def _abandoned(path: Path, pid: int) -> bool:
    """Whether the process that wrote a file is gone. One in another container has a number that says nothing here."""
    try:
        age = time.time() - path.stat().st_mtime
        os.kill(pid, 0)
    except ProcessLookupError:
        return age > _MINUTE
    except (OSError, OverflowError):
        return False
    return age > _HOUR


def _delete(items: Sequence[Garbage], gone: list[Garbage], notes: list[str]) -> None:
    for item in items:
        try:
            if item.path.is_dir():
                (item.path / "spec.json").unlink(missing_ok=True)  # first: what is left of it is no attempt any more
                shutil.rmtree(item.path)
            else:
                item.path.unlink(missing_ok=True)
            gone.append(item)
        except OSError as error:
            notes.append(f"{item.path} could not be deleted: {error.strerror or error}")


def _size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; what goes meanwhile counts as nothing."""
    members = path.rglob("*") if path.is_dir() else [path]
    total = 0
    for member in members:
        with suppress(OSError):
            total += member.lstat().st_size if not member.is_dir() else 0
    return total
