"""Seals: which results were made in this results folder.

A seal is the HMAC-SHA-256, with the 32 random bytes of `seal.key` in the folder, of the run, the attempt, the name and
the SHA-256 of a record. `<attempt>.seal` beside the attempt has one a line. The key is no secret from the owner: a seal
distinguishes what was made here from what was copied.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.system.errors import DataError
from harness.system.files import create, read_bytes, sync_folder

KEY_FILE = "seal.key"
SEALED = ("result.json", "rescored.json")
"""The records that state numbers. A result lists the checksums of the attempt's other files."""


def key_of(root: Path) -> bytes | None:
    """Return the key of a results folder; None if it has none (an earlier version made it), or not for this user."""
    try:
        key = read_bytes(root / KEY_FILE)
    except (FileNotFoundError, PermissionError):
        return None
    if len(key) != 32:
        raise DataError(f"{root / KEY_FILE} is damaged: restore it from a copy, or see docs/sharing.md")
    return key


def introduce(root: Path, made_here: Iterable[Path]) -> None:
    """Seal the attempts that were made in a folder without a key, and give it a key, last, so that a kill is harmless.

    Whoever may write to the folder may read the key.
    """
    key = secrets.token_bytes(32)
    for folder in made_here:
        _append(folder, key, {name: read_bytes(folder / name) for name in SEALED if (folder / name).is_file()})
    create(root / KEY_FILE, key, mode=0o600 | (root.stat().st_mode & 0o022) << 1)


def seal(folder: Path, records: Mapping[str, bytes]) -> None:
    """Seal records of an attempt, by name, before they are published; without a key, they have no seals."""
    if records and (key := key_of(folder.parents[3])):
        _append(folder, key, records)


def holds(folder: Path) -> bool:
    """Return whether all records of an attempt have a seal, or its results folder has no key."""
    if not (key := key_of(folder.parents[3])):
        return True
    path = _file(folder)
    seals = read_bytes(path).decode(errors="replace").split() if path.exists() else []
    there = [name for name in SEALED if os.path.lexists(folder / name)]
    return all(_seal(folder, key, name, read_bytes(folder / name)) in seals for name in there)


def _append(folder: Path, key: bytes, records: Mapping[str, bytes]) -> None:
    with _file(folder).open("a") as stream:  # a line that a crash cut off spoils no other
        stream.write("".join(f"\n{_seal(folder, key, name, record)}" for name, record in records.items()))
        stream.flush()
        os.fsync(stream.fileno())
    sync_folder(folder.parent)


def _file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.seal")


def _seal(folder: Path, key: bytes, name: str, record: bytes) -> str:
    about = f"{folder.parent.name}/{folder.name}/{name}:{hashlib.sha256(record).hexdigest()}"
    return hmac.new(key, about.encode(), "sha256").hexdigest()
