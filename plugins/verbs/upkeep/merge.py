"""The union of results folders by run and attempt, for `bench merge`.

An attempt is checked as `bench ingest --verify` checks it, copied to a temporary folder while its checksums are
computed, and renamed into place: after an interruption it is either complete or absent. If both folders have an
attempt, files that are missing here are added, and the later of two `rescored.json` stays; nothing else is replaced. An
unfinished attempt is replaced by the same attempt if that has gone further. If an attempt has two results, the one that
ended later is among the runs, and the other is kept in `conflicts/`, which no command reads: so the order of merging
does not matter.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.results import verification
from harness.results.ledger import rescored
from harness.results.ledger.attempt import FILE_NAMES, WORK, Attempt, checksum
from harness.results.ledger.ledger import KEY, Ledger
from harness.results.records import FINAL
from harness.results.spec import KEY_VERSION
from harness.results.store import reader
from harness.results.store.published import MANIFEST
from harness.runs import parcel
from harness.system.columns import Malformed
from harness.system.errors import BenchError, DataError
from harness.system.files import read_json, regular, write_folder, write_whole
from harness.system.text import harmless
from plugins.verbs.upkeep.lookup import NAME

BLOCK = 2**20
PATIENCE = 10.0
"""Seconds to wait for the lock of a run here; `bench gc` and the start of a worker hold it for less than one."""
OMITTED = {"draws.safetensors", "arrays.safetensors"}
"""Files of a finished attempt that its owner may have deleted: no report reads them."""

Row = dict[str, Any]


@dataclass
class Merged:
    """The result of a merge.

    copied     attempts that were not here
    completed  attempts that were here, and to which the other folder added something
    present    attempts that were here already
    refused    (place, reason) for what was left out
    running    attempts that a worker writes to
    conflicts  a row for each run whose finished attempts have different numbers
    changed    attempts here that the database has to read again
    """

    copied: int = 0
    completed: int = 0
    present: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    conflicts: dict[tuple[str, str], Row] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)


def merge(source: Path, here: Ledger, found: Merged) -> None:
    """Copy the attempts of `source` into this results folder, and record in `found` what happened.

    `source` is not changed. Raise `DataError` if it is not a results folder that this version reads.
    """
    there = _opened(source, here)
    for key in _keys(there, found):
        attempts = [*_attempts(there, key, found)]
        held = there.held(key)
        for attempt in attempts:
            place = f"{source / 'runs' / key[:2] / key[:12]}.../{attempt.id}"
            if held and not os.path.lexists(attempt.path / "result.json"):
                found.running.append(place)
            elif why := _refusal(attempt, key, here, found):
                found.refused.append((place, why))
        if attempts:
            _compare(here, key, found)


def _opened(source: Path, here: Ledger) -> Ledger:
    there = Ledger(source)
    there.check_version()
    if not source.is_dir():
        raise DataError("there is no such folder")
    if (source / MANIFEST).exists() and not there.runs.is_dir():
        raise DataError(
            "it is an exported folder, which has rows but not the files of attempts; to have the rows of both in "
            "one folder, export both to it: `bench export --out DIR` adds to what DIR has"
        )
    if not there.runs.is_dir():
        raise DataError("it is no results folder: it contains no runs/")
    if source.resolve() == here.root.resolve():
        raise DataError("it is the results folder that is merged into")
    return there


def _refusal(attempt: Attempt, key: str, here: Ledger, found: Merged) -> str:
    """Merge one attempt; return why it was left out, or "". Raise `DataError` if this folder cannot be written."""
    try:
        _merge(attempt, key, here, found)
    except (BenchError, Malformed) as error:
        return str(error)
    except OSError as error:
        if error.filename and Path(error.filename).is_relative_to(here.root):
            raise DataError(f"{error.filename} cannot be written: {error.strerror}") from error
        return f"{Path(error.filename or '').name}: {error.strerror or error}"
    return ""


def _keys(there: Ledger, found: Merged) -> Iterator[str]:
    """Yield the keys of a folder; refuse anything else among its runs by name."""
    for shard in _folders(there.runs, found):
        for key in _folders(there.runs / shard, found):
            if KEY.fullmatch(key) and key.startswith(shard) and len(shard) == 2:
                yield key
            else:
                found.refused.append((_shown(there.runs / shard / key), "its name is not the key of a run"))


def _attempts(there: Ledger, key: str, found: Merged) -> Iterator[Attempt]:
    for name in _folders(there.folder(key), found):
        path = there.folder(key) / name
        if not NAME.fullmatch(name):
            found.refused.append((_shown(path), "its name is not that of an attempt"))
        elif os.path.lexists(path / "spec.json"):  # without it a folder is not an attempt yet
            yield Attempt(path)


def _folders(path: Path, found: Merged) -> list[str]:
    """Return the sorted names of the folders in a folder; refuse links, and skip hidden ones of unfinished writes."""
    names = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_symlink():
                    found.refused.append((_shown(path / entry.name), "a link, which is not followed"))
                elif entry.is_dir() and not entry.name.startswith("."):
                    names.append(entry.name)
    except OSError as error:
        found.refused.append((_shown(path), f"cannot be read: {error.strerror}"))
    return sorted(names)


def _shown(path: Path) -> str:
    return harmless(str(path))[:200]


def _merge(attempt: Attempt, key: str, here: Ledger, found: Merged) -> None:
    """Merge one attempt; raise an error and change nothing if the attempt is not complete."""
    own = Attempt(here.folder(key) / attempt.id)
    known = os.path.lexists(own.path / "spec.json")
    if known and _same(attempt, own):
        found.present += 1
        return
    files = _files(attempt, key)
    if not known:
        with here.hold(key, PATIENCE):
            if own.path.is_dir():  # left by a worker that was killed immediately: it has no spec.json
                raise DataError(f"{own.path} is there without spec.json; delete it, then merge again")
            write_folder(own.path, {name: _content(attempt.path / name, digest) for name, digest in files.items()})
        found.copied += 1
        return
    result, mine = (_bytes(folder.path / "result.json") for folder in (attempt, own))
    if result is not None and mine is not None and result != mine:
        other, counts = sorted((own, attempt), key=_ended)
        found.conflicts[key, attempt.id] = _row(key, counts, other, "the attempt itself")
        _keep_both(attempt, own, key, files, here)
        if counts is attempt:
            found.changed.append(attempt.id)
        found.present += 1
        return
    before = found.completed
    if mine is None and (result is not None or attempt.last_step() > own.last_step()):
        if here.held(key):
            raise DataError("a worker writes to this run here; merge again when it has finished")
        whole = {name: b"".join(_content(attempt.path / name, digest)) for name, digest in files.items()}
        found.completed += parcel.place(here, key, attempt.id, whole)
    elif result is not None and mine is not None:
        with here.hold(key, PATIENCE):
            found.completed += _complete(attempt, own, files)
    if found.completed > before:
        found.changed.append(attempt.id)
    else:
        found.present += 1


def _ended(attempt: Attempt) -> tuple[str, str]:
    """Return the key that decides which result of an attempt counts, whoever merges; a damaged one never does."""
    result = attempt.result()
    return (str(result.get("finished")), _bytes(attempt.path / "result.json") or "") if result else ("", "")


def _keep_both(attempt: Attempt, own: Attempt, key: str, files: Mapping[str, str], here: Ledger) -> None:
    """Put the result that counts among the runs and the other one into `conflicts/`, as complete folders."""
    here.conflicts.mkdir(exist_ok=True)
    theirs, mine = (
        here.conflicts / f"{key[:12]}-{one.id}-{(_bytes(one.path / 'result.json') or '')[:12]}"
        for one in (attempt, own)
    )
    with here.hold(key, PATIENCE):
        if not theirs.is_dir():
            write_folder(theirs, {name: _content(attempt.path / name, digest) for name, digest in files.items()})
        if _ended(attempt) > _ended(own):
            if mine.is_dir():  # left by an earlier merge that was interrupted: it is the same result
                shutil.rmtree(mine)
            own.path.rename(mine)
            theirs.rename(own.path)


def _same(attempt: Attempt, own: Attempt) -> bool:
    """Return whether this folder has the finished attempt already, by its result and the names of its files."""
    result = _bytes(attempt.path / "result.json")
    if result is None or result != _bytes(own.path / "result.json"):
        return False
    if _bytes(attempt.path / rescored.FILE) not in (None, _bytes(own.path / rescored.FILE)):
        return False
    return all(os.path.lexists(own.path / name) for name in OMITTED if os.path.lexists(attempt.path / name))


def _files(attempt: Attempt, key: str) -> dict[str, str]:
    """Return the files to copy, with their recorded checksums or ""; raise `DataError` if the attempt is damaged."""
    spec = read_json(attempt.path / "spec.json") or {}
    if isinstance(version := spec.get("key_version"), int) and version > KEY_VERSION:
        raise DataError(f"a newer version of sgmcmc-bench wrote it (key version {version}); upgrade")
    newer = False
    for damage in verification.of_attempt(key, attempt):
        if damage.path.name.startswith("rescored"):
            newer = True  # the result itself is not damaged, and is copied
        elif not (damage.path.name in OMITTED and damage.what == "is missing"):
            raise DataError(f"{damage.path.name} {damage.what}")
    results = attempt.path.parents[3]
    reader.read(results, str(attempt.path.relative_to(results)))  # do not copy what could not be ingested here
    result = attempt.result()
    listed: Mapping[str, str] = (result or {}).get("files") or {}
    found = {"spec.json": "", "environment.json": "", "events.jsonl": "", **listed, **dict.fromkeys(WORK, "")}
    if result is not None:
        found["result.json"] = ""
        record = None if newer else rescored.read(attempt.path)[0]
        found |= {**record["files"], rescored.FILE: ""} if record else {}
    wrong = [name for name in found if not re.fullmatch(FILE_NAMES, name)]
    if wrong:
        raise DataError(f"result.json lists {harmless(wrong[0])!r:.80}, which is no file of an attempt")
    return {name: digest for name, digest in found.items() if os.path.lexists(attempt.path / name)}


def _complete(attempt: Attempt, own: Attempt, files: Mapping[str, str]) -> bool:
    """Add missing files and newer metrics of `bench rescore`; return whether there were any."""
    added = [name for name in OMITTED & files.keys() if not os.path.lexists(own.path / name)]
    for name in added:
        write_whole(own.path / name, _content(attempt.path / name, files[name]))
    theirs, mine = rescored.read(attempt.path)[0], rescored.read(own.path)[0]
    if rescored.FILE not in files or theirs is None or _recency(theirs) <= _recency(mine):
        return bool(added)
    for name in (*theirs["files"], rescored.FILE):
        write_whole(own.path / name, _content(attempt.path / name, files[name]))
    for name in (mine or {}).get("files", {}):
        if name not in theirs["files"]:
            with suppress(OSError):
                (own.path / name).unlink()
    return True


def _recency(record: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return the key that decides which of two records of `bench rescore` is later, whoever merges."""
    return (str(record.get("time")), str(record.get("sha256"))) if record else ("", "")


def _content(path: Path, digest: str) -> Iterator[bytes]:
    """Yield a file block by block; raise `DataError` at its end if its checksum differs."""
    total = hashlib.sha256()
    with regular(path) as stream:
        while block := stream.read(BLOCK):
            total.update(block)
            yield block
    if digest and total.hexdigest() != digest:
        raise DataError(f"{path.name} is altered: its checksum does not match the recorded one")


def _bytes(path: Path) -> str | None:
    """Return the checksum of a file; None if it does not exist or is not an ordinary file."""
    try:
        return checksum(path)
    except OSError:
        return None


def _compare(here: Ledger, key: str, found: Merged) -> None:
    """Report finished attempts at a run here whose numbers differ from those of the attempt that counts."""
    finished = [a for a in here.attempts(key) if (result := a.result()) is not None and result["status"] in FINAL]
    for other in finished[:-1]:
        if (row := _row(key, finished[-1], other, "")) is not None:
            found.conflicts[key, other.id] = row


def _row(key: str, counts: Attempt, other: Attempt, what: str) -> Any:
    """Return how the numbers of two attempts differ; None if they are equal and `what` is empty."""
    a, b = (attempt.result() or {} for attempt in (counts, other))
    first, second = _numbers(a), _numbers(b)
    differing = [name for name in first.keys() & second.keys() if first[name] != second[name]]
    if not differing and not what:
        return None
    name = min(differing, default="", key=lambda n: (n != "status", -_relative_distance(first[n], second[n]), n))
    spec = read_json(counts.path / "spec.json") or {}
    task = spec.get("task")
    machines = [(read_json(attempt.path / "environment.json") or {}).get("id") for attempt in (counts, other)]
    return {
        "run_key": key, "method": spec.get("method"), "task": task.get("name") if isinstance(task, dict) else None,
        "seed": spec.get("seed"), "counts": counts.id, "other": other.id, "metric": name or what,
        "value": first.get(name), "value_other": second.get(name), "differing": len(differing),
        "same_environment": machines[0] == machines[1],
    }  # fmt: skip


def _numbers(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status and, by name and version, the metrics of a result."""
    found = {"status": result.get("status")}
    for metric in result.get("metrics") or ():
        if isinstance(metric, dict):
            found[f"{metric.get('name')} {metric.get('version') or ''}".rstrip()] = metric.get("value")
    return found


def _relative_distance(a: Any, b: Any) -> float:
    """Return the relative distance of two values."""
    if not all(isinstance(x, int | float) for x in (a, b)):
        return float("inf")
    return float(abs(a - b) / max(abs(a), abs(b), 1e-300))
