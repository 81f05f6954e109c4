"""`bench gc`: files in a results folder that no command needs any more, and their deletion while workers may run.

Results, attempts that a worker could resume, and all files of a run whose lock is held are kept. So is everything that
this program did not write, judged by name and kind: a folder counts as an attempt if it has the name of one and
contains only ordinary files with the names that workers write. Links are never followed: every folder is opened step by
step from the results folder, each one relative to its parent.

A file is deleted at once. An attempt is first renamed into the trash folder, and its files are deleted there: whenever
this is interrupted, an attempt is either complete or deleted. The trash folder stays until the deleted attempts are
removed from the database: while it exists, the next refresh rebuilds the database if attempts are missing.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from harness import Bench, DataError, Result, RunError
from harness.contracts import user_files
from harness.reporting import table
from harness.reporting.scoring.cache import FOLDER as FIGURES
from harness.reports import Store
from harness.results import FINAL, KEY, NAME, PARTS, RESUMABLE, WORK, Ledger, Status, commit, rescored
from harness.results.ledger.ledger import TRASH
from harness.system import count, locks, read_json
from harness.system.files import is_abandoned
from plugins.upkeep.temporary import IN_ATTEMPT, TEMPORARY

LOCK_TIMEOUT_SECONDS = 1.0
MARKS = ("copied", "seal")
"""Suffixes of the files beside an attempt that say whose it is."""
_IN_ATTEMPT = re.compile(IN_ATTEMPT)
_KEY = KEY.pattern
_FIGURE = re.compile(rf"[\w-]+\.({_KEY})\.json")
_LOCK = re.compile(rf"({_KEY}|gc|submit)\.lock")
_NOTICE = re.compile(rf"{_KEY}\.notice")
_EXCHANGE = re.compile("[0-9a-f]{16}")
_OUTPUT = re.compile(r"[0-9a-f]{16}\.log")


def gc(
    bench: Bench,
    delete: Annotated[bool, typer.Option("--delete", help="Delete what is listed.")] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="Also failed attempts of runs that a later attempt finished.")
    ] = False,
) -> Result:
    """List what can be deleted from the results folder, and why; with --delete, delete it.

    It keeps results, attempts that can be resumed, runs with a running worker, and all files and folders that do not
    have the names and structure that bench writes. Links are not followed. If it is interrupted, repeat the command.

    Examples:
        bench gc
        bench gc --delete
    """
    ledger = bench.ledger
    ledger.check_version()
    items = find(ledger, failed=failed)
    notes: list[str] = []
    if delete and items:
        if ledger.locks.is_symlink():
            raise DataError(f"{ledger.locks} is a link, and nothing is deleted through a link; replace it by a folder")
        ledger.locks.mkdir(exist_ok=True)
        with locks.lock_file(ledger.lock("gc"), LOCK_TIMEOUT_SECONDS):
            items, notes = remove(ledger, items, failed=failed)
            notes += _forget(ledger)
    rows = [{"path": str(item.path.relative_to(ledger.root)), "bytes": item.bytes, "why": item.why} for item in items]
    total = f"{count(len(items), 'thing')}, {sum(item.bytes for item in items) / 1e6:,.1f} MB"
    total += " deleted" if delete else "; nothing was deleted, `bench gc --delete` does that"
    tables = [table(rows, ["path", "why", "bytes"])] if rows else []
    return Result(tables, rows, notes=[*(f"note: {note}" for note in notes), total], changed=delete)


def _forget(ledger: Ledger) -> list[str]:
    """Remove the deleted attempts from the database, then delete the trash folder; return notes."""
    notes: list[str] = []
    trash = ledger.root / TRASH
    store = Store(ledger.root)
    if store.path.exists() and trash.exists():
        notes = store.refresh()
    if not store.aside:
        with suppress(OSError):
            trash.rmdir()
    return notes


@dataclass(frozen=True)
class Garbage:
    """A deletable file or folder, its size in bytes, and the reason. `run` is the key of its run, if any."""

    path: Path
    bytes: int
    why: str
    run: str = ""


def find(ledger: Ledger, *, failed: bool = False) -> list[Garbage]:
    """Return all that can be deleted; with `failed` also failed attempts of runs that a later attempt finished."""
    of_runs = [
        item
        for key in ledger.all_keys()
        if not ledger.held(key)
        for item in _of_run(ledger, key, failed=failed)
    ]  # fmt: skip
    others = (_of_locks(ledger), _of_figures(ledger), _of_files(ledger), _of_jobs(ledger), _of_root(ledger.root))
    return [*of_runs, *itertools.chain(*others)]


def remove(ledger: Ledger, items: Sequence[Garbage], *, failed: bool = False) -> tuple[list[Garbage], list[str]]:
    """Delete what was found and is still deletable; return the deleted items, and notes on the others.

    If attempts were deleted, an empty trash folder is left: delete it (`rmdir`) after updating the database.
    """
    gone: list[Garbage] = []
    notes: list[str] = []
    by_run: dict[str, set[Path]] = {}
    for item in items:
        if item.run:
            by_run.setdefault(item.run, set()).add(item.path)
    for key, paths in by_run.items():
        try:
            with ledger.hold(key, LOCK_TIMEOUT_SECONDS):
                commit.settle(ledger.folder(key))
                now = [item for item in _of_run(ledger, key, failed=failed) if item.path in paths]
                _delete(ledger.root, now, gone, notes)
        except RunError as error:
            notes.append(f"left alone: run {error}")
    for item in (item for item in items if item.path.suffix == ".lock"):
        with suppress(RunError), locks.lock_file(item.path, 0):
            gone.append(item)
    trash = [item for item in items if item.path.name == TRASH]
    rest = [item for item in items if not item.run and item.path.suffix != ".lock" and item not in trash]
    _delete(ledger.root, rest, gone, notes)
    _empty_trash(ledger.root, notes)
    return [*gone, *([] if _entries(ledger.root, TRASH) else trash)], notes


def _of_run(ledger: Ledger, key: str, *, failed: bool) -> Iterator[Garbage]:
    folder = ("runs", key[:2], key)
    yield from _temporary(ledger.root, folder, key)
    folders = {
        name: _files(ledger.root, *folder, name)
        for name, about in _entries(ledger.root, *folder).items()
        if NAME.fullmatch(name) and stat.S_ISDIR(about.st_mode)
    }
    for name, size in _ordinary(ledger.root, *folder):
        attempt, _, kind = name.rpartition(".")
        if kind in MARKS and NAME.fullmatch(attempt) and attempt not in folders:
            yield Garbage(ledger.root.joinpath(*folder, name), size, "the mark of an attempt that is gone", key)
    results = {a.id: a.read_result() for a in ledger.attempts(key) if a.id in folders}
    final = [name for name, (result, _) in results.items() if result and result["status"] in FINAL]
    for name, files in folders.items():
        path = ledger.root.joinpath(*folder, name)
        if files is None:
            continue
        if name not in results:
            yield Garbage(path, sum(files.values()), "a folder that never became an attempt", key)
            continue
        result, damage = results[name]
        status = Status.DAMAGED if damage else result["status"] if result else "unfinished"
        if final and name not in final and (failed or result is None):
            yield Garbage(path, sum(files.values()), f"{status}; {final[-1]} finished the run", key)
            continue
        yield from _temporary(ledger.root, (*folder, name), key)
        concluded = result is not None and (bool(final) or status not in RESUMABLE)
        newer, damaged = rescored.read(path)
        for file, size in files.items():
            if concluded and file in WORK:
                yield Garbage(path / file, size, "for going on, and there is a result", key)
            elif file.startswith("rescored-") and not damaged and file not in (newer or {}).get("files", ()):
                yield Garbage(path / file, size, "curves that were computed again since", key)


def _temporary(root: Path, folder: tuple[str, ...], run: str = "") -> Iterator[Garbage]:
    """Yield what has a temporary name in a folder, and is stale."""
    rows = [row for row in TEMPORARY if re.fullmatch(row.parent, "/".join(folder))]
    for name, about in _entries(root, *folder).items() if rows else ():
        row = next((row for row in rows if re.fullmatch(row.name, name)), None)
        if row is None or time.time() - about.st_mtime < row.seconds:
            continue
        if row.folder and stat.S_ISDIR(about.st_mode):
            sizes = _files(root, *folder, name)
        else:
            sizes = {name: about.st_size} if not row.folder and stat.S_ISREG(about.st_mode) else None
        if sizes is not None:
            yield Garbage(root.joinpath(*folder, name), sum(sizes.values()), row.why, run)


def _of_locks(ledger: Ledger) -> Iterator[Garbage]:
    """Yield lock files that no process holds, and progress files of workers that have ended."""
    for name, size in _ordinary(ledger.root, "locks"):
        path = ledger.locks / name
        if _LOCK.fullmatch(name) and not locks.held(path):
            yield Garbage(path, size, "a lock that no process holds")
        elif _NOTICE.fullmatch(name) and not locks.held(path.with_suffix(".lock")):
            yield Garbage(path, size, "the progress file of a worker that has ended")


def _of_figures(ledger: Ledger) -> Iterator[Garbage]:
    """Yield data that reports computed from runs that no longer exist."""
    keys = set(ledger.all_keys())
    for name, size in _ordinary(ledger.root, FIGURES):
        match = _FIGURE.fullmatch(name)
        if match and match[1] not in keys:
            yield Garbage(ledger.root / FIGURES / name, size, "kept by a report for a run that is gone")


def _of_files(ledger: Ledger) -> Iterator[Garbage]:
    """Yield copies of the user's files that no run here names."""
    if any((ledger.root / "jobs").glob("*.json")) or any(locks.held(path) for path in ledger.locks.glob("*.lock")):
        return  # a run that is under way may need a file before it has an attempt here
    copies = {name: size for name, size in _ordinary(ledger.root, user_files.FOLDER) if KEY.fullmatch(name)}
    for key in ledger.all_keys() if copies else ():
        for attempt in ledger.attempts(key):
            spec = read_json(attempt.path / "spec.json") or {}
            for params in (spec[part].get("params") for part in PARTS if isinstance(spec.get(part), dict)):
                for file in user_files.named_in(params) if isinstance(params, dict) else ():
                    copies.pop(file.partition(":")[2], None)
    for name, size in copies.items():
        if is_abandoned(ledger.root / user_files.FOLDER / name):  # a command that has just begun makes its runs later
            yield Garbage(ledger.root / user_files.FOLDER / name, size, "a file of the user that no run names")


def _of_jobs(ledger: Ledger) -> Iterator[Garbage]:
    """Yield the files that agents left in exchanges of jobs that are over, and the kept output of those that failed."""
    for name, size in _ordinary(ledger.root, "jobs"):
        if _OUTPUT.fullmatch(name):
            yield Garbage(ledger.root / "jobs" / name, size, "the output of a job that failed")
    for name in _folders(ledger.root, "jobs"):
        if not _EXCHANGE.fullmatch(name) or (ledger.root / f"jobs/{name}.json").exists():
            continue
        for file, size in _ordinary(ledger.root, "jobs", name):
            path = ledger.root / "jobs" / name / file
            if not file.startswith(".") and is_abandoned(path):
                yield Garbage(path, size, "left in the exchange of a job that is over")


def _of_root(root: Path) -> Iterator[Garbage]:
    """Yield what has temporary names outside the runs, and what an interrupted deletion left."""
    places = [(), *((name,) for name in _folders(root) if name != "runs")]
    for folder in [*places, *((top, name) for top in ("nights", "jobs") for name in _folders(root, top))]:
        yield from _temporary(root, folder)
    top = _entries(root)
    if TRASH in top and stat.S_ISDIR(top[TRASH].st_mode):
        files = [_files(root, TRASH, name) or {} for name in _entries(root, TRASH)]
        yield Garbage(root / TRASH, sum(sum(each.values()) for each in files), "left by an interrupted deletion")


def _folders(root: Path, *parts: str) -> list[str]:
    return [name for name, about in _entries(root, *parts).items() if stat.S_ISDIR(about.st_mode)]


def _delete(root: Path, items: Sequence[Garbage], gone: list[Garbage], notes: list[str]) -> None:
    for item in items:
        *parents, name = item.path.relative_to(root).parts
        try:
            _delete_one(root, parents, name)
            gone.append(item)
        except OSError as error:
            notes.append(f"{item.path} could not be deleted: {error.strerror or error}")


def _delete_one(root: Path, parents: Sequence[str], name: str) -> None:
    """Delete a file, or a folder of files; move an attempt to the trash folder."""
    with _opened(root, *parents) as folder:
        if NAME.fullmatch(name):
            with suppress(FileExistsError):
                (root / TRASH).mkdir()
            with _opened(root, TRASH) as trash:
                os.rename(name, name, src_dir_fd=folder, dst_dir_fd=trash)
                os.fsync(trash)
            for kind in MARKS:
                with suppress(FileNotFoundError):
                    os.unlink(f"{name}.{kind}", dir_fd=folder)
        elif name in _folders(root, *parents):
            with _opened(root, *parents, name) as inner:
                for file in _entries(root, *parents, name):
                    os.unlink(file, dir_fd=inner)
            os.rmdir(name, dir_fd=folder)
        else:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)


def _empty_trash(root: Path, notes: list[str]) -> None:
    """Delete the attempts in the trash folder; other files stay."""
    for name in _entries(root, TRASH):
        try:
            files = _files(root, TRASH, name) if NAME.fullmatch(name) else None
            if files is None:
                notes.append(f"left alone: {root / TRASH / name}, which is not an attempt")
                continue
            with _opened(root, TRASH, name) as folder:
                for file in files:
                    os.unlink(file, dir_fd=folder)
            with _opened(root, TRASH) as trash:
                os.rmdir(name, dir_fd=trash)
        except OSError as error:
            notes.append(f"{root / TRASH / name} could not be deleted: {error.strerror or error}")


@contextmanager
def _opened(root: Path, *parts: str) -> Iterator[int]:
    """Yield a descriptor of a folder below the results folder; raise `OSError` for a link.

    Only the results folder itself may be a link.
    """
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _entries(root: Path, *parts: str) -> dict[str, os.stat_result]:
    """Return the entries of a folder by name; {} if it does not exist or is reached by a link."""
    stats = {}
    with suppress(OSError), _opened(root, *parts) as folder, os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # deleted in the meantime
                stats[entry.name] = entry.stat(follow_symlinks=False)
    return dict(sorted(stats.items()))


def _ordinary(root: Path, *parts: str) -> list[tuple[str, int]]:
    entries = _entries(root, *parts).items()
    return [(name, about.st_size) for name, about in entries if stat.S_ISREG(about.st_mode)]


def _files(root: Path, *parts: str) -> dict[str, int] | None:
    """Return the files of an attempt's folder and their sizes; None if it contains anything else."""
    entries = _entries(root, *parts)
    ordinary = all(_IN_ATTEMPT.fullmatch(name) and stat.S_ISREG(about.st_mode) for name, about in entries.items())
    return {name: about.st_size for name, about in entries.items()} if ordinary else None
