"""Files of the user that settings name: identified by the SHA-256 of their content, while no path is recorded.

The value of such a setting is "sha256:..." in run keys and records, and the path of a file with this content in the
objects that plugins get. Runs read the copy in `files/` of their results folder, whose name is the checksum: what
happens to the user's file after the plan does not matter.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from harness.system.errors import DataError, UsageError, why
from harness.system.files import regular, write_whole

FOLDER = "files"
"""The folder of a results folder that has the copies."""
MOST_BYTES = 2**30
"""The largest file. Larger ones are data sets: a task declares them as `DataFile`s."""
IDENTIFIED = re.compile("sha256:([0-9a-f]{64})")

FOLDERS: list[Path] = []
"""Folders with copies, in the order in which this process searches them."""
KNOWN: dict[str, str] = {}
"""Files that this command was given, by checksum."""


def identify(name: str, label: str) -> str:
    """Return "sha256:..." for the path of a file, relative to the current folder or with ~; or such a text as it is.

    Raise `UsageError` that begins with `label` if there is no such file, or if it cannot be read or is too large.
    """
    if IDENTIFIED.fullmatch(name):
        return name
    try:
        path = Path(name).expanduser().resolve()
        with regular(path) as stream:
            about = os.fstat(stream.fileno())
        if about.st_size > MOST_BYTES:
            raise UsageError(
                f"{label} = {name!r:.200} has {about.st_size:,} bytes, at most {MOST_BYTES:,} are allowed; "
                "a task declares larger files as `datasets`"
            )
        digest = _checksum(path, about.st_size, about.st_mtime_ns, about.st_ino)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no such user, or links in a circle
        what = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UsageError(f"{label} = {name!r:.200} is not a file that can be read: {what}") from None
    KNOWN[digest] = str(path)
    return f"sha256:{digest}"


def locate(identified: str) -> str:
    """Return the path of a file with this content; raise `DataError` if no known file has it now."""
    digest = identified.partition(":")[2]
    for path in (*(folder / digest for folder in FOLDERS), Path(KNOWN.get(digest, ""))):
        with suppress(OSError):
            about = path.stat()
            if _checksum(path, about.st_size, about.st_mtime_ns, about.st_ino) == digest:
                return str(path)
    where = f", or copy it to {FOLDERS[0] / digest}" if FOLDERS else ""
    raise DataError(
        f"the file with the SHA-256 {digest} is needed, and is not here; name it by --set, as in "
        f"--set task.file=PATH{where}"
    )


def named_in(params: Mapping[str, Any]) -> list[str]:
    """Return the identified files among the values of settings."""
    return [value for value in params.values() if isinstance(value, str) and IDENTIFIED.fullmatch(value)]


def keep(identified: str, folder: Path) -> None:
    """Copy the file with this content into a folder, under its checksum, unless it is there.

    Raise `DataError` if no known file has this content, if it changes while it is copied, or if it cannot be written.
    """
    source, digest = Path(locate(identified)), identified.partition(":")[2]
    if source == folder / digest:
        with suppress(OSError):
            os.utime(source)  # `bench gc` keeps what was asked for a moment ago
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with regular(source) as stream:
            write_whole(folder / digest, _verified(stream, digest))
    except OSError as error:
        raise DataError(f"{folder / digest} cannot be written: {why(error)}") from error


def _verified(stream: IO[bytes], digest: str) -> Iterator[bytes]:
    """Yield the content of a stream part by part; at its end raise `DataError` if its SHA-256 is another one."""
    total = hashlib.sha256()
    while part := stream.read(2**20):
        total.update(part)
        yield part
    if total.hexdigest() != digest:
        raise DataError(f"the file with the SHA-256 {digest} changed while it was read; give the command again")


@functools.lru_cache(maxsize=1000)
def _checksum(path: Path, *_about: int) -> str:
    """Return the SHA-256 of an ordinary file; it is computed again if one of the other arguments changes."""
    with regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
