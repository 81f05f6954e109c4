"""Atomic writes: a file is written aside, synced and renamed. Also sets of files, and records with a checksum.

All writes except the growing files of an attempt go through here. A file *aside* is named `.NAME.0123456789abcdef`
until it is complete; only a killed process leaves such a file.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any

from harness.system.errors import DataError
from harness.system.text import is_text

SEAL = "sha256"
FILES = "files"
"""In a manifest: the SHA-256 of each file of the set, by its path below the manifest's folder."""
ABANDONED_SECONDS = 3600.0
"""No write takes this long: an older file aside was left by a killed process."""
ENDING = "([0-9a-f]{16})"
"""Pattern of the end of a name aside: random, or the start of a checksum."""
MAX_BYTES = 2**24
"""Limit of a record or a log: the worst of this size takes 400 MB when parsed. The longest so far has 0.1 MB."""

MAX_MEMBER_BYTES = 2**30
"""Of a file of a set: a shard of exported results has 50 MB at most."""


def aside(path: Path, token: str = "") -> Path:
    """The path aside of `path`: with a random token unless one is given."""
    return path.with_name(f".{path.name}.{token or secrets.token_hex(8)}")


def is_abandoned(path: Path) -> bool:
    """Whether a file aside is older than any write takes. Process ids do not help: containers have their own."""
    return time.time() - path.lstat().st_mtime > ABANDONED_SECONDS


def sweep(path: Path) -> None:
    """Delete files that killed processes left aside of `path`."""
    for found in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with suppress(OSError):
            if is_abandoned(found) and re.fullmatch(ENDING, found.name.rpartition(".")[2]):
                shutil.rmtree(found) if found.is_dir() and not found.is_symlink() else found.unlink()


def write_whole(path: Path, content: bytes | Iterable[bytes], *, sync: bool = True) -> None:
    """Write `content` to `path` atomically: readers, and a crash, see all of it or the previous content.

    An error leaves nothing behind, and an `OSError` names `path`. Without `sync` this holds for a killed process but
    not for a power failure.
    """
    new = aside(path)
    try:
        with _naming(path):
            _write(new, content, sync=sync)
            new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
    if sync:
        _sync(path.parent)


def write_json(path: Path, record: Mapping[str, Any], *, sync: bool = True) -> None:
    """`write_whole` for a record; NaN is refused, because JSON has none."""
    write_whole(path, json.dumps(record, indent=1, sort_keys=True, allow_nan=False).encode(), sync=sync)


def write_set(folder: Path, files: Mapping[str, bytes], manifest: str = "", **about: Any) -> None:
    """Write files that belong together, by path below `folder`: none is replaced before all are written and synced.

    With the name of a `manifest`, a file of `about` and the checksums, a kill or an error at any point leaves the old
    set or the new one for `read_set`: the manifest decides, and it is replaced when the new files are complete. The
    next `write_set` finishes what was left. The caller holds `alone(folder)`.
    """
    digests = {name: _sha256(content) for name, content in files.items()}
    if manifest:
        _finish(folder, manifest)
    new: dict[Path, Path] = {}
    try:
        for name, content in files.items():
            path = folder / name
            with _naming(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                if not holds(path, digests[name]):
                    new[path] = aside(path, digests[name][:16] if manifest else "")
                    new[path].unlink(missing_ok=True)
                    _write(new[path], content)
        for parent in {path.parent for path in new}:
            _sync(parent)
        if manifest:
            write_json(folder / manifest, sealed({**about, FILES: digests}))
    except BaseException:
        replaced = manifest and listed_digests(read_json(folder / manifest)) == digests  # the new set counts already
        for written in () if replaced else new.values():
            with suppress(OSError):
                written.unlink()
        raise
    for path, written in new.items():
        with _naming(path):
            written.replace(path)
    for parent in {path.parent for path in new}:
        _sync(parent)


def read_set(folder: Path, manifest: str, names: Container[str] | None = None) -> dict[str, bytes] | None:
    """The files of a set by name, as `write_set` was given them; None where there is no manifest.

    With `names`, only the files with these names are read. Raises `ValueError` that says what is wrong where the
    manifest or a file is damaged, altered or missing.
    """
    if not os.path.lexists(folder / manifest):
        return None
    digests = listed_digests(read_json(folder / manifest))
    if not digests:
        raise ValueError(f"{manifest} is damaged")
    asked = {name: digest for name, digest in digests.items() if names is None or name in names}
    found = {name: _member(folder / name, digest) for name, digest in asked.items()}
    wrong = [name for name, content in found.items() if content is None]
    if wrong:
        what = ", ".join(f"{name} is {'altered' if (folder / name).exists() else 'missing'}" for name in wrong)
        raise ValueError(f"{what}, by the checksums in {manifest}")
    return {name: content for name, content in found.items() if content is not None}


def check_set(folder: Path, manifest: str) -> dict[str, str] | None:
    """The checksum of each file of a set, by name; None where there is no manifest. One file at a time is in memory.

    Raises `ValueError` as `read_set` does, for the first file that does not match.
    """
    if read_set(folder, manifest, ()) is None:
        return None
    digests = listed_digests(read_json(folder / manifest))
    for name in digests:
        read_set(folder, manifest, {name})
    return digests


def placed_set(folder: Path, manifest: str) -> dict[str, Any]:
    """A manifest, where each file of its set is in place as it was written; {} where one is not."""
    record = read_json(folder / manifest) or {}
    digests = listed_digests(record)
    return record if digests and all(holds(folder / name, digest) for name, digest in digests.items()) else {}


def write_folder(folder: Path, files: Mapping[str, bytes | Iterable[bytes]]) -> None:
    """Make a new folder with these files, by path below it: it is there as a whole or not at all.

    Raises `FileExistsError` where there is something of that name. The parent must exist.
    """
    if os.path.lexists(folder):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    sweep(folder)
    new = aside(folder)
    try:
        for name, content in files.items():
            with _naming(folder / name):
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                _write(new / name, content)
        for inner, _, _ in os.walk(new):
            _sync(Path(inner))
        with _naming(folder):
            new.rename(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    _sync(folder.parent)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Prevent other commands from writing a set into `folder`, by a kernel lock on the folder itself.

    Raises `DataError` if another command holds it. On a file system without locks it has no effect.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"another command writes to {folder} now; give this one again when it is done") from None
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, content: bytes | Iterable[bytes], *, sync: bool = True) -> None:
    """Write a file that must not exist yet, not even as a link."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        for part in (content,) if isinstance(content, bytes) else content:
            left = memoryview(part)
            while left:
                left = left[os.write(descriptor, left) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    """Sync the names in a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with _naming(folder):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let an `OSError` name the target file, not the one aside."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _finish(folder: Path, manifest: str) -> None:
    """Put the files of a set in place if it was complete when its writer was killed."""
    for name, digest in listed_digests(read_json(folder / manifest)).items():
        path = folder / name
        written = aside(path, digest[:16])
        if not holds(path, digest) and holds(written, digest):
            with _naming(path):
                written.replace(path)
        sweep(path)
    sweep(folder / manifest)


def listed_digests(record: Mapping[str, Any] | None) -> dict[str, str]:
    """The checksums of a manifest, by name; {} if it is damaged or names a file outside its folder."""
    digests = (record or {}).get(FILES)
    if record is None or not seal_holds(record) or not isinstance(digests, dict):
        return {}
    within = all(".." not in (place := PurePosixPath(name)).parts and not place.is_absolute() for name in digests)
    return digests if within and all(isinstance(digest, str) for digest in digests.values()) else {}


def _member(path: Path, digest: str) -> bytes | None:
    """The content of a file of a set, in place or still aside (its writer was killed, or is still running)."""
    for place in (path, aside(path, digest[:16]), path):
        with suppress(OSError):
            content = read_bytes(place, MAX_MEMBER_BYTES)
            if _sha256(content) == digest:
                return content
    return None


def holds(path: Path, digest: str) -> bool:
    """Whether an ordinary file has this checksum."""
    try:
        return _sha256(read_bytes(path)) == digest
    except OSError:
        return False


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def regular(path: Path | str) -> BufferedReader:
    """An ordinary file, open for reading; `OSError` for a pipe (may block), a device (may never end) or a link (may
    lead anywhere).
    """
    return os.fdopen(_opened(path)[0], "rb")


def read_record(path: Path | str) -> bytes:
    """`read_bytes` with a limit, for a file to be parsed: the parsed record fits into memory."""
    return read_bytes(path, MAX_BYTES)


def read_bytes(path: Path | str, most: int | None = None) -> bytes:
    """The content of an ordinary file; `OSError` as of `regular`, and where it has more than `most` bytes.

    Without a stream: of thousands of small files, those would take most time.
    """
    descriptor, size = _opened(path)
    try:
        if most is not None and size > most:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, at most {most:,} are read", str(path))
        content = os.read(descriptor, size + 1)
        while len(content) != size and (more := os.read(descriptor, 2**26)):  # it is large, or changed meanwhile
            content += more
    finally:
        os.close(descriptor)
    return content


def _opened(path: Path | str) -> tuple[int, int]:
    """A descriptor of an ordinary file, and its size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.EINVAL, "a link, which is not followed", str(path)) from None
        raise
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode):
        return descriptor, found.st_size
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not an ordinary file", str(path))


def read_json(path: Path) -> dict[str, Any] | None:
    """The record at `path`; None if it is missing, truncated or not an object."""
    try:
        return parse_json(read_record(path))
    except (OSError, ValueError):
        return None


def parse_json(content: bytes) -> dict[str, Any]:
    """A JSON object; `ValueError` for anything else, and for NaN, infinity and lone surrogates."""
    try:
        record = _DECODER.decode(content.decode())
    except RecursionError as error:
        raise ValueError(str(error)) from None
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - of the content, not of an argument
    if _HALF.search(content) and not is_text(json.dumps(record, ensure_ascii=False)):
        raise ValueError("it contains half a character, which is not text")
    return record


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""A surrogate, half of a character, as JSON escapes it: alone it is not text."""


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with the checksum of its other entries, under `sha256`."""
    return {**record, SEAL: _digest(record)}


def seal_holds(record: Mapping[str, Any]) -> bool:
    """Whether a record matches its checksum. A record without one, as earlier versions wrote them, passes."""
    return SEAL not in record or record[SEAL] == _digest(record)


def _digest(record: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in record.items() if name != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
