"""A cache of texts in the user's cache folder, each stored under a key. An entry may disappear at any time."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from harness.system.errors import DataError
from harness.system.files import SEAL, read_json, seal_holds, sealed, user_path, write_json


def folder(kind: str) -> Path:
    """Return the folder for one kind of entries: in `BENCH_CACHE` if that is set, else in the user's cache folder."""
    named = os.environ.get("BENCH_CACHE")
    return (user_path(named) if named else of_user()) / kind


def of_user() -> Path:
    """Return the user's cache folder, or one among the temporary files if the user has no home, as in containers."""
    import platformdirs

    try:
        path = Path(platformdirs.user_cache_dir("sgmcmc-bench"))
    except RuntimeError:
        return temporary()
    return path if path.is_absolute() else temporary()


def temporary() -> Path:
    """Return this user's folder among the temporary files, where anyone can make files; it is made if it is missing.

    Raises `DataError` unless it is a folder of this user, and no link, in which nobody else can write.
    """
    path = Path(tempfile.gettempdir()) / f"sgmcmc-bench-{os.getuid()}"
    with suppress(OSError):
        path.mkdir(mode=0o700)
    with suppress(FileNotFoundError):  # nothing can be made there, so nothing is cached
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise DataError(
                f"{path} is not a folder in which only you can write; delete it, or name folders of your own by "
                "BENCH_CACHE and BENCH_DATA"
            )
    return path


def read(kind: str, key: str) -> str | None:
    """Return the text stored under a key, or None if it is missing or does not match its checksum."""
    record = read_json(_path(kind, key)) or {}
    text = record.get("fact")
    return text if isinstance(text, str) and SEAL in record and seal_holds(record) else None


def keep(kind: str, key: str, text: str) -> None:
    """Store a text under a key. An `OSError` is ignored, because a cache that cannot be written only costs time."""
    path = _path(kind, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, sealed({"fact": text}), sync=False)
    except OSError:
        return


def _path(kind: str, key: str) -> Path:
    return folder(kind) / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
