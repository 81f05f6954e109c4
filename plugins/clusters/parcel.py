"""Parcels: tar archives of files by name, which carry runs and attempts between machines."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

from harness import DataError
from harness.results import FILE_NAMES, KEY, NAME, RESULT, WORK, Attempt, Ledger, commit
from harness.results.ledger.attempt import result_damage
from harness.system import parse_json

HOLD_SECONDS = 1.0
"""How long to wait for a worker that holds the run. It may hold it for days."""
_ATTEMPT = re.compile(rf"attempt-({KEY.pattern})-({NAME.pattern})\.tar")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files by name. The same files give the same bytes."""
    in_memory = io.BytesIO()
    with tarfile.open(fileobj=in_memory, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return in_memory.getvalue()


def unpack(content: bytes) -> dict[str, bytes]:
    """Return the files of an archive by name.

    `DataError` if the archive is damaged, or holds anything but files with plain names.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            files = {}
            for member in archive:
                if not (member.isreg() and _NAME.fullmatch(member.name)):
                    raise DataError(f"a parcel holds {member.name!r:.80}, which is not a file with a plain name")
                stream = archive.extractfile(member)
                files[member.name] = stream.read() if stream else b""
            return files
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise DataError(f"a parcel is damaged: {error}") from error


def attempt_name(key: str, attempt: Attempt) -> str:
    """Return the name of an attempt's parcel in an exchange."""
    return f"attempt-{key}-{attempt.id}.tar"


def named_attempt(name: str) -> tuple[str, str] | None:
    """Return the run key and the attempt id from the name of an attempt's parcel, or None for any other name."""
    match = _ATTEMPT.fullmatch(name)
    return (match[1], match[2]) if match else None


def attempt_files(attempt: Attempt) -> dict[str, bytes]:
    """Return the files of an attempt, even while its worker writes.

    Checkpoints are read before the draws that they refer to.
    """
    contents = {}
    for name in (*reversed(WORK), *sorted(path.name for path in attempt.path.iterdir())):
        if name not in contents and re.fullmatch(FILE_NAMES, name):
            with suppress(FileNotFoundError):
                contents[name] = (attempt.path / name).read_bytes()
    return contents


def receive(
    ledger: Ledger, key: str, attempt_id: str, files: Mapping[str, bytes], copied: Literal["", "theirs"] = ""
) -> Attempt:
    """Put an attempt that an agent sent into a results folder, or update the unfinished one that is there.

    `copied` says that a launcher brought it which is not ours, so that it does not count as made here.
    Returns the attempt that counts for the run if this one is final. `DataError` if its result does not match its
    files, `HeldError` if a worker writes to the run.
    """
    wrong = [name for name in files if not re.fullmatch(FILE_NAMES, name)]
    if wrong or "spec.json" not in files:
        problem = f"unknown files {wrong}" if wrong else "no spec.json"
        raise DataError(f"attempt {attempt_id} of run {key[:12]} was not sent correctly: {problem}")
    _check(attempt_id, files)
    attempt = Attempt(ledger.folder(key) / attempt_id)
    with ledger.hold(key, HOLD_SECONDS):
        events = attempt.path / "events.jsonl"
        older = events.exists() and events.stat().st_size > len(files.get("events.jsonl", b""))
        return attempt if older and RESULT not in files else commit.publish(attempt, files, copied=copied)


def _check(attempt_id: str, files: Mapping[str, bytes]) -> None:
    if "result.json" not in files:
        return
    try:
        result = parse_json(files["result.json"])
        damage = result_damage(result, attempt_id)
    except ValueError as error:
        result, damage = {}, str(error)
    listed = {} if damage else result["files"]
    wrong = [name for name, digest in listed.items() if hashlib.sha256(files.get(name, b"")).hexdigest() != digest]
    if damage or wrong:
        raise DataError(f"attempt {attempt_id} arrived damaged: {damage or ', '.join(wrong)}")
