"""The one function that publishes below `runs/`: hold the run, look again, write aside, publish exclusively, release.

A result that was made here is claimed before it gets its name, by a file `runs/ab/KEY/N.json` that only one process can
create: {"attempt": its name, "result": SHA-256 of its result.json}. So a run has one result even if two commands did it
at once because their kernel locks do not reach each other; the attempt of the second is moved to `conflicts/`. A claim
stands as long as its result is as it was written. If a command was killed between claim and name, the next settles it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from harness.results.ledger import seals
from harness.results.ledger.attempt import (
    NAME,
    RESULT,
    WORK,
    Attempt,
    checksum,
    is_permanent,
    is_thinned,
)
from harness.results.ledger.ledger import CHANGED, CONFLICTS, Ledger
from harness.results.records import FINAL, RESUMABLE, AttemptResult
from harness.system.columns import document
from harness.system.files import (
    aside,
    create,
    holds,
    json_bytes,
    read_json,
    sealed,
    sync_folder,
    write_folder,
    write_new,
    write_whole,
)

PATIENCE = 10.0
"""Seconds to wait for the lock of a run; `bench gc` and the start of a worker hold it for less than one."""

Content = bytes | Iterable[bytes]


def publish(
    attempt: Attempt,
    files: Mapping[str, Content],
    *,
    copied: Literal["", "own", "theirs"] = "",
    patience: float = PATIENCE,
) -> Attempt:
    """Add files to an attempt, which may be new, and return the attempt that counts as the result of its run.

    An attempt keeps the result that it has. Another result comes after all other files; unless it is `copied` from a
    folder of the same owner or of others, it is exclusive: if the run has a result that was made here, this attempt is
    moved to `conflicts/`, and the other one is returned. An attempt of others is marked, and not sealed, and no worker
    goes on with it. Raises `HeldError` if another process holds the run, and `LostError` if its folder was replaced.
    """
    run = attempt.path.parent
    with Ledger(run.parents[2]).hold(run.name, patience) as (_, folder):
        folder.check()
        settle(run)
        new = {name: files[name] for name in sorted(files, key=_order)}
        if concluded := (attempt.path / RESULT).exists():  # its files stay as they are
            mark_changed(attempt)
            new = {n: c for n, c in new.items() if n.startswith("rescored") or not (attempt.path / n).exists()}
            if copied == "theirs" and not attempt.marked:  # what others made of a result that was made here
                new = {n: c for n, c in new.items() if not n.startswith("rescored")}
        new = _vouched(attempt, files, new, copied)
        if copied and RESULT in new:
            for path in attempt.path.glob("*"):  # of an unfinished attempt here, whose draws may have other bits
                if is_permanent(path.name) and path.name not in new:
                    path.unlink()
        result = None if copied else new.pop(RESULT, None)
        if not attempt.path.exists():
            write_folder(attempt.path, new)
        else:
            for name, content in new.items():
                write_whole(attempt.path / name, content)
        counting = attempt if result is None else _conclude(run, attempt, b"".join(_parts(result)))
        stored = counting is attempt and attempt.result()
        for name in WORK if stored and stored["status"] not in RESUMABLE else ():
            (attempt.path / name).unlink(missing_ok=True)
        if concluded:  # again, for machines that do not see who holds the run
            mark_changed(attempt)
        return counting


def _vouched(
    attempt: Attempt, files: Mapping[str, Content], new: Mapping[str, Content], copied: str
) -> dict[str, Content]:
    """Mark an attempt of others, or seal the records of any other one; return the `new` ones of its files.

    Of the owner's copy of a result that is here already, which is the same, the record is sealed too.
    """
    if copied == "theirs" and not (attempt.path / RESULT).exists():
        create(attempt.copied_mark, copied.encode())
    elif copied == "own":
        attempt.copied_mark.unlink(missing_ok=True)
    if attempt.marked:
        return dict(new)
    names = files.keys() if copied == "own" else new.keys()
    records = {name: b"".join(_parts(files[name])) for name in seals.SEALED if name in names}
    seals.seal(attempt.path, records)
    return {**new, **{name: record for name, record in records.items() if name in new}}


def conclude(attempt: Attempt, result: AttemptResult) -> Attempt:
    """Publish the result of an attempt, with the checksums of its other files and its own: it is final from here on.

    Returns the attempt that counts for the run. Raises `ValueError` if the attempt is already concluded, or if it was
    executed in another mode than its run's.
    """
    if (attempt.path / RESULT).exists():
        raise ValueError(f"{attempt.path} is already concluded")
    if result.executed not in (None, mode := (read_json(attempt.path / "spec.json") or {}).get("compile")):
        raise ValueError(f"{attempt.path} was executed {result.executed}, and its run is {mode}")
    files = {path.name: checksum(path) for path in sorted(attempt.path.iterdir()) if is_permanent(path.name)}
    content = json_bytes(sealed(document(replace(result, attempt=attempt.id, files=files))))
    attempt.event("finished" if result.status in FINAL else "failed", status=result.status)
    return publish(attempt, {RESULT: content})


def second(counting: Attempt) -> str:
    """Return what to say of a run of which another attempt counts."""
    return (
        f"another command finished this run in the meantime; attempt {counting.id} counts, and the result of this one "
        "is in conflicts/"
    )


def settle(run: Path) -> None:
    """Give each claimed result that is still aside its name. The caller holds the run."""
    for number in itertools.count(1):
        if not (run / f"{number}.json").exists():
            return
        _claimed(run, number)


def _conclude(run: Path, attempt: Attempt, content: bytes) -> Attempt:
    """Give an attempt its result, or move the attempt aside if the run has one; return the attempt that counts."""
    digest = hashlib.sha256(content).hexdigest()
    waiting = aside(attempt.path / RESULT, digest[:16])
    waiting.unlink(missing_ok=True)
    write_new(waiting, content)
    record = json.loads(content)
    other = _other(run, attempt, record, digest) if record["status"] in FINAL else None
    if other is None:
        _name(waiting, attempt.path / RESULT)
        return attempt
    kept = move_aside(attempt, digest)
    _name(kept / waiting.name, kept / RESULT)
    return other


def aside_path(attempt: Attempt, digest: str, root: Path) -> Path:
    """Return where an attempt whose result.json has this SHA-256 is kept in a results folder if it does not count."""
    return root / CONFLICTS / f"{attempt.path.parent.name[:12]}-{attempt.id}-{digest[:12]}"


def move_aside(attempt: Attempt, digest: str) -> Path:
    """Move an attempt that does not count to `conflicts/`; return where it is. The caller holds the run."""
    mark_changed(attempt)
    kept = aside_path(attempt, digest, attempt.path.parents[3])
    kept.parent.mkdir(exist_ok=True)
    attempt.copied_mark.unlink(missing_ok=True)
    if kept.exists():  # moved there before: it is the same result
        shutil.rmtree(attempt.path)
    else:
        attempt.path.rename(kept)
    return kept


def _other(run: Path, attempt: Attempt, record: Mapping[str, Any], digest: str) -> Attempt | None:
    """Claim the result of a run for an attempt, or return the attempt that has one made here, with as many draws."""
    for other in Ledger(run.parents[2]).attempts(run.name):
        if other.id != attempt.id and _does_for(other, record):
            return other
    for number in itertools.count(1):
        if create(run / f"{number}.json", json_bytes({"attempt": attempt.id, "result": digest})):
            return None
        claimed = _claimed(run, number)
        if claimed is not None and (claimed.id == attempt.id or _does_for(claimed, record)):
            return claimed if claimed.id != attempt.id else None
    return None


def _does_for(other: Attempt, record: Mapping[str, Any]) -> bool:
    result = other.result()
    whole = result is not None and result["status"] in FINAL and not other.copied
    return whole and (is_thinned(record) or not is_thinned(result or {}))


def _claimed(run: Path, number: int) -> Attempt | None:
    """Return the attempt of a claim that stands, once its result has its name."""
    claim = read_json(run / f"{number}.json") or {}
    name, digest = str(claim.get("attempt")), str(claim.get("result"))
    if not NAME.fullmatch(name):
        return None
    path = run / name / RESULT
    waiting = aside(path, digest[:16])
    named = Attempt(path.parent)
    if not path.exists() and holds(waiting, digest):
        _name(waiting, path)
    return named if holds(path, digest) else None


def _name(waiting: Path, path: Path) -> None:
    """Give a result its name, unless another process has just done it."""
    with suppress(FileNotFoundError):
        waiting.replace(path)
        sync_folder(path.parent)


def _parts(content: Content) -> Iterable[bytes]:
    return (content,) if isinstance(content, bytes) else content


def mark_changed(attempt: Attempt) -> None:
    """Have the database read an attempt again. The mark stays while the run is held, so it may come first."""
    marks = attempt.path.parents[3] / CHANGED
    marks.mkdir(exist_ok=True)
    (marks / f"{attempt.path.parent.name}.{attempt.id}.{secrets.token_hex(4)}").touch()  # each change has its own


def _order(name: str) -> tuple[int, str]:
    """Sort checkpoints after the draws that they refer to; then spec.json, which makes an attempt; a result is last."""
    late = (*reversed(WORK[1:]), "spec.json", RESULT)
    return (late.index(name) + 1 if name in late else 0), name
