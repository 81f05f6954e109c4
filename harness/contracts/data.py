"""Data files: where they are searched for, and how they are checked.

A file is searched for under BENCH_DATA or, if that is not set, in the user's cache. The layout below that root is
torchvision's, plus `uci/`. A file is used only if its SHA-256 is the declared one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.system import cache
from harness.system.errors import DataError, PluginError
from harness.system.files import user_path


@dataclass(frozen=True)
class DataFile:
    """One file of a data set: its path below the data root, its checksum, its size in bytes, and its public addresses.

    archive  if the addresses offer a tar archive that contains the file under `path`: the SHA-256 of the archive
    """

    dataset: str
    path: str
    sha256: str
    size: int
    urls: tuple[str, ...]
    licence: str = ""
    archive: str = ""

    def __post_init__(self) -> None:
        """Raise `PluginError` if the path leads out of the data root, because it is absolute or contains ".."."""
        path = PurePosixPath(self.path)
        if path.is_absolute() or ".." in path.parts or str(path) != self.path or path == PurePosixPath():
            raise PluginError(
                f"data set {self.dataset!r:.80}: {self.path!r:.80} is not the path of a file below the data root, "
                'as "uci/heart.dat" is'
            )


def data_root() -> Path:
    """Return the data root: BENCH_DATA, or a folder in the user's cache if that is not set."""
    chosen = os.environ.get("BENCH_DATA")
    return user_path(chosen) if chosen else cache.of_user() / "data"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, as hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def problem(file: DataFile) -> str | None:
    """Return what is wrong with the local copy of a file, such as "missing" or "truncated ...", or None."""
    path = data_root() / file.path
    try:
        size = path.stat().st_size
        if size < file.size:
            return f"truncated ({size} of {file.size} bytes)"
        sha256 = digest(path)
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"unreadable ({error.strerror})"
    if sha256 != file.sha256:
        return f"altered (SHA-256 {sha256[:12]}..., expected {file.sha256[:12]}...)"
    return None


class DataFileError(DataError):
    """A file of a data set is missing, or is not the declared one."""


def locate(file: DataFile) -> Path:
    """Return the path of the local copy of a file; raise `DataFileError` if it is missing or not the declared one."""
    wrong = problem(file)
    if wrong is None:
        return data_root() / file.path
    raise DataFileError(
        f"data set {file.dataset}: {data_root() / file.path} is {wrong}; "
        f"`bench data fetch {file.dataset}` downloads it, or set BENCH_DATA to the folder that contains it"
    )


def checksum(files: Sequence[DataFile]) -> str:
    """Return one SHA-256 for all files of a task, computed from their declared checksums: part of the run key."""
    text = "\n".join(f"{file.path} {file.sha256}" for file in sorted(files, key=lambda f: f.path))
    return hashlib.sha256(text.encode()).hexdigest() if files else ""
