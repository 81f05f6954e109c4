"""The union of results folders by run and attempt, for `bench merge`.

An attempt is checked as `bench ingest --verify` checks it, copied to a temporary folder while its checksums are
computed, and renamed into place: after an interruption it is either complete or absent. If both folders have an
attempt, files that are missing here are added, and of two `rescored.json` the one with the higher versions of metrics
stays; nothing else is replaced. An unfinished attempt is replaced by the same attempt if that has gone further. If an
attempt has two results, the one that was made here is among the runs, or of two copied ones the one with the smaller
checksum, and the other is kept in `conflicts/`, which no command reads.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness import BenchError, DataError
from harness.contracts import user_files
from harness.results import (
    FILE_NAMES,
    FINAL,
    KEY,
    KEY_VERSION,
    NAME,
    PARTS,
    RESULT,
    WORK,
    Attempt,
    Ledger,
    checksum,
    commit,
    reader,
    rescored,
)
from harness.system import columns, harmless, locks, read_json, write_folder, write_whole
from harness.system.files import regular
from plugins.sharing import published
from plugins.upkeep import verification

BLOCK = 2**20
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
    unfinished attempts of others that have no result, which are left out
    conflicts  a row for each run whose finished attempts have different numbers
    own_results  whether the folders are the owner's: their results count as made here
    """

    copied: int = 0
    completed: int = 0
    present: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    unfinished: int = 0
    conflicts: dict[tuple[str, str], Row] = field(default_factory=dict)
    own_results: bool = False

    def origin(self, attempt: Attempt) -> Literal["own", "theirs"]:
        """Return whose the results of an attempt in another folder are."""
        return "own" if self.own_results and not attempt.copied else "theirs"


def merge(source: Path, here: Ledger, merged: Merged) -> None:
    """Copy the attempts of `source` into this results folder, and record in `found` what happened.

    `source` is not changed. Raise `DataError` if it is not a results folder that this version reads.
    """
    there = _opened(source, here)
    for key in _keys(there, merged):
        attempts = [*_attempts(there, key, merged)]
        held = there.held(key)
        for attempt in attempts:
            where = f"{source / 'runs' / key[:2] / key[:12]}.../{attempt.id}"
            if held and not os.path.lexists(attempt.path / RESULT):
                merged.running.append(where)
            elif why := _refusal(attempt, key, here, merged):
                merged.refused.append((where, why))
        if attempts:
            _compare(here, key, merged)


def _keep_files(attempt: Attempt, here: Ledger) -> None:
    """Copy the user's files that the settings of a run name, if the other folder has them."""
    spec = read_json(attempt.path / "spec.json") or {}
    for params in (spec[part].get("params") for part in PARTS if isinstance(spec.get(part), dict)):
        for file in user_files.named_in(params) if isinstance(params, dict) else ():
            name = f"{user_files.FOLDER}/{file.partition(':')[2]}"
            source, copy = attempt.path.parents[3] / name, here.root / name
            if os.path.lexists(source) and not copy.exists():
                with regular(source):  # an error about the source names it
                    pass
                copy.parent.mkdir(exist_ok=True)
                write_whole(copy, _content(source, copy.name))


def _opened(source: Path, here: Ledger) -> Ledger:
    there = Ledger(source)
    there.check_version()
    if not source.is_dir():
        raise DataError("there is no such folder")
    if published.is_exported(source):
        raise DataError(
            "it is an exported folder, which has rows but not the files of attempts; to have the rows of both in "
            "one folder, export both to it: `bench export --out DIR` adds to what DIR has"
        )
    if not there.runs.is_dir():
        raise DataError("it is no results folder: it contains no runs/")
    if source.resolve() == here.root.resolve():
        raise DataError("it is the results folder that is merged into")
    return there


def _refusal(attempt: Attempt, key: str, here: Ledger, merged: Merged) -> str:
    """Merge one attempt; return why it was left out, or "". Raise `DataError` if this folder cannot be written."""
    try:
        _merge(attempt, key, here, merged)
        _keep_files(attempt, here)
    except (BenchError, columns.Malformed) as error:
        return str(error)
    except OSError as error:
        if error.filename and Path(error.filename).is_relative_to(here.root):
            raise DataError(f"{error.filename} cannot be written: {error.strerror}") from error
        return f"{Path(error.filename or '').name}: {error.strerror or error}"
    return ""


def _keys(there: Ledger, merged: Merged) -> Iterator[str]:
    """Yield the keys of a folder; refuse anything else among its runs by name."""
    for shard in _folders(there.runs, merged):
        for key in _folders(there.runs / shard, merged):
            if KEY.fullmatch(key) and key.startswith(shard) and len(shard) == 2:
                yield key
            else:
                merged.refused.append((_shown(there.runs / shard / key), "its name is not the key of a run"))


def _attempts(there: Ledger, key: str, merged: Merged) -> Iterator[Attempt]:
    for name in _folders(there.folder(key), merged):
        path = there.folder(key) / name
        if not NAME.fullmatch(name):
            merged.refused.append((_shown(path), "its name is not that of an attempt"))
        elif os.path.lexists(path / "spec.json"):  # without it a folder is not an attempt yet
            yield Attempt(path)


def _folders(path: Path, merged: Merged) -> list[str]:
    """Return the sorted names of the folders in a folder; refuse links, and skip hidden ones of unfinished writes."""
    names = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_symlink():
                    merged.refused.append((_shown(path / entry.name), "a link, which is not followed"))
                elif entry.is_dir() and not entry.name.startswith("."):
                    names.append(entry.name)
    except OSError as error:
        merged.refused.append((_shown(path), f"cannot be read: {error.strerror}"))
    return sorted(names)


def _shown(path: Path) -> str:
    return harmless(str(path))[:200]


def _merge(attempt: Attempt, key: str, here: Ledger, merged: Merged) -> None:
    """Merge one attempt; raise an error and change nothing if the attempt is not complete."""
    local, whose = Attempt(here.folder(key) / attempt.id), merged.origin(attempt)
    if _same(attempt, local) and not (whose == "own" and local.copied):
        merged.present += 1
        return
    if whose == "theirs" and not os.path.lexists(attempt.path / RESULT):
        merged.unfinished += 1  # a checkpoint holds sums that nobody here has made, and the rest would be run here
        return
    files = _files(attempt, key)
    try:
        with here.hold(key, commit.PATIENCE):
            _merge_held(attempt, local, key, files, merged)
    except locks.HeldError as error:
        raise DataError("a worker writes to this run here; merge again when it has finished") from error


def _merge_held(attempt: Attempt, local: Attempt, key: str, files: Mapping[str, str], merged: Merged) -> None:
    """Merge one attempt into a run that this process holds, after another look at it."""
    result, mine = (_digest(folder.path / RESULT) for folder in (attempt, local))
    if not os.path.lexists(local.path / "spec.json"):
        commit.publish(local, _contents(attempt, files), copied=merged.origin(attempt) if result is not None else "")
        merged.copied += 1
    elif result is not None and mine is not None and result != mine:
        counting, other = sorted(
            (local, attempt),
            key=lambda one: _rank(one, copied=one.copied or (one is attempt and not merged.own_results)),
        )
        merged.conflicts[key, attempt.id] = _row(key, counting, other, "the attempt itself")
        if counting is local:
            kept = commit.aside_path(local, result, local.path.parents[3])
            kept.parent.mkdir(exist_ok=True)
            if not kept.is_dir():
                write_folder(kept, _contents(attempt, files))
        else:
            commit.move_aside(local, mine)
            commit.publish(local, _contents(attempt, files), copied=merged.origin(attempt))
        merged.present += 1
    elif mine is None and (result is not None or attempt.last_step() > local.last_step()):
        whole = {name: b"".join(content) for name, content in _contents(attempt, files).items()}
        commit.publish(local, whole, copied=merged.origin(attempt) if result is not None else "")
        merged.completed += 1
    elif result is not None and merged.origin(attempt) == "own" and local.copied:
        for path in local.path.glob("rescored*"):  # of whoever sent the copy
            path.unlink()
        commit.publish(local, _contents(attempt, files), copied="own")
        merged.completed += 1
    elif added := _added(attempt, local, files, rescores=local.copied or merged.origin(attempt) == "own"):
        commit.publish(local, _contents(attempt, added))
        merged.completed += 1
    else:
        merged.present += 1


def _same(attempt: Attempt, local: Attempt) -> bool:
    """Return whether this folder has the finished attempt already, by its result and the names of its files."""
    result = _digest(attempt.path / RESULT)
    if result is None or result != _digest(local.path / RESULT):
        return False
    if _digest(attempt.path / rescored.FILE) not in (None, _digest(local.path / rescored.FILE)):
        return False
    return all(os.path.lexists(local.path / name) for name in OMITTED if os.path.lexists(attempt.path / name))


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
    digests = {"spec.json": "", "environment.json": "", "events.jsonl": "", **listed, **dict.fromkeys(WORK, "")}
    if result is not None:
        digests[RESULT] = ""
        record = None if newer else rescored.read(attempt.path)[0]
        digests |= {**record["files"], rescored.FILE: ""} if record else {}
    wrong = [name for name in digests if not re.fullmatch(FILE_NAMES, name)]
    if wrong:
        raise DataError(f"result.json lists {harmless(wrong[0])!r:.80}, which is no file of an attempt")
    return {name: digest for name, digest in digests.items() if os.path.lexists(attempt.path / name)}


def _rank(attempt: Attempt, *, copied: bool) -> tuple[bool, bool, str]:
    """Return the key by which the one of two results of an attempt that counts comes first."""
    return attempt.result() is None, copied, _digest(attempt.path / RESULT) or ""


def _added(attempt: Attempt, local: Attempt, files: Mapping[str, str], *, rescores: bool) -> dict[str, str]:
    """Return the files that this folder lacks of a finished attempt, and with `rescores` newer metrics."""
    added = {name: files[name] for name in OMITTED & files.keys() if not os.path.lexists(local.path / name)}
    theirs, mine = rescored.read(attempt.path)[0], rescored.read(local.path)[0]
    if rescores and rescored.FILE in files and theirs is not None and _recency(theirs) > _recency(mine):
        added |= {name: files[name] for name in (*theirs["files"], rescored.FILE)}
    return added


def _recency(record: Mapping[str, Any] | None) -> tuple[int, str]:
    """Return the key that decides which of two records of `bench rescore` counts: by the versions of its metrics."""
    return (sum(int(metric["version"]) for metric in record["metrics"]), str(record["sha256"])) if record else (-1, "")


def _contents(attempt: Attempt, files: Mapping[str, str]) -> dict[str, Iterator[bytes]]:
    return {name: _content(attempt.path / name, digest) for name, digest in files.items()}


def _content(path: Path, digest: str) -> Iterator[bytes]:
    """Yield a file block by block; raise `DataError` at its end if its checksum differs."""
    total = hashlib.sha256()
    with regular(path) as stream:
        while block := stream.read(BLOCK):
            total.update(block)
            yield block
    if digest and total.hexdigest() != digest:
        raise DataError(f"{path.name} is altered: its checksum does not match the recorded one")


def _digest(path: Path) -> str | None:
    """Return the checksum of a file; None if it does not exist or is not an ordinary file."""
    try:
        return checksum(path)
    except OSError:
        return None


def _compare(here: Ledger, key: str, merged: Merged) -> None:
    """Report finished attempts at a run here whose numbers differ from those of the attempt that counts."""
    finished = [a for a in here.attempts(key) if (result := a.result()) is not None and result["status"] in FINAL]
    counting = here.standing(key).attempt
    for other in finished:
        if counting and other.id != counting.id and (row := _row(key, counting, other, "")) is not None:
            merged.conflicts[key, other.id] = row


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
    numbers = {"status": result.get("status")}
    for metric in result.get("metrics") or ():
        if isinstance(metric, dict):
            numbers[f"{metric.get('name')} {metric.get('version') or ''}".rstrip()] = metric.get("value")
    return numbers


def _relative_distance(a: Any, b: Any) -> float:
    """Return the relative distance of two values."""
    if not all(isinstance(x, int | float) for x in (a, b)):
        return float("inf")
    return float(abs(a - b) / max(abs(a), abs(b), 1e-300))
