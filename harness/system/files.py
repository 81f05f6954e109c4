"""Atomic writes: a file is written under another name, synced and renamed.

Also sets of files, and records with a checksum. All writes except those to the growing files of an attempt go through
this module. Until a file is complete, it is written *aside*, under the name `.NAME.0123456789abcdef`; only a killed
process leaves such a file behind.
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

from harness.system.errors import DataError, UsageError
from harness.system.text import is_text

SEAL = "sha256"
"""The entry of a sealed record with the SHA-256 of the others."""
FILES = "files"
"""The entry of a manifest that holds the SHA-256 of each file of the set, by its path below the manifest's folder."""
ABANDONED_SECONDS = 3600.0
"""No write takes this long: an older file aside was left by a killed process."""
ENDING = "([0-9a-f]{16})"
"""A pattern for the end of the name of a file aside: random digits, or the start of a checksum."""
MAX_BYTES = 2**24
"""The largest record or log that is read; parsing the worst one of this size takes 400 MB. The longest so far has 0.1
MB.
"""

MAX_MEMBER_BYTES = 2**30
"""The largest file of a set that is read; a shard of exported results has at most 50 MB."""


def user_path(path: str | Path) -> Path:
    """Return a path that a user gave, with the home folder in place of a leading ~, which no shell replaces in quotes.

    Raises `UsageError` if that home folder is not known.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{path}: {str(error).rstrip('.').lower()}; write out the path") from error


def aside(path: Path, token: str = "") -> Path:
    """Return the path for a file aside of `path`, with a random token unless one is given."""
    return path.with_name(f".{path.name}.{token or secrets.token_hex(8)}")


def is_abandoned(path: Path) -> bool:
    """Return whether a file aside is older than any write takes. Process ids do not help: containers have their own."""
    return time.time() - path.lstat().st_mtime > ABANDONED_SECONDS


def sweep(path: Path) -> None:
    """Delete the files aside of `path` that killed processes left."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with suppress(OSError):
            if is_abandoned(leftover) and re.fullmatch(ENDING, leftover.name.rpartition(".")[2]):
                shutil.rmtree(leftover) if leftover.is_dir() and not leftover.is_symlink() else leftover.unlink()


def write_whole(path: Path, content: bytes | Iterable[bytes], *, sync: bool = True) -> None:
    """Write `content` to `path` atomically: readers, also after a crash, see either all of it or the previous content.

    An error leaves nothing behind, and an `OSError` names `path`. Without `sync`, this holds if the process is killed
    but not after a power failure.
    """
    new = aside(path)
    try:
        with _naming(path):
            write_new(new, content, sync=sync)
            new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
    if sync:
        sync_folder(path.parent)


def write_json(path: Path, record: Mapping[str, Any], *, sync: bool = True) -> None:
    """Write a record with `write_whole`. Raises `ValueError` for NaN, which JSON does not have."""
    write_whole(path, json_bytes(record), sync=sync)


def json_bytes(record: Mapping[str, Any]) -> bytes:
    """Return a record as the content of a file. Raises `ValueError` for NaN, which JSON does not have."""
    return json.dumps(record, indent=1, sort_keys=True, allow_nan=False).encode()


def create(path: Path, content: bytes, *, mode: int = 0o666) -> bool:
    """Write a small file that must not exist yet; returns False if it does. Of several processes only one succeeds."""
    new = aside(path)
    try:
        with _naming(path):
            write_new(new, content, mode=mode)
            try:
                os.link(new, path)
            except FileExistsError:
                return False
            except OSError:  # a file system without hard links
                write_new(path, content, mode=mode)
    except FileExistsError:
        return False
    finally:
        new.unlink(missing_ok=True)
    return True


def write_set(folder: Path, files: Mapping[str, bytes], manifest: str = "", **about: Any) -> None:
    """Write files that belong together, by path below `folder`. No file is replaced before all are written and synced.

    `manifest` names a file in which `about` and the checksums are stored. With it, `read_set` finds either the old set
    or the new one, even after a kill or an error at any point: the manifest decides, and it is replaced when the new
    files are complete. The next `write_set` completes an interrupted one. The caller holds `alone(folder)`.
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
                    write_new(new[path], content)
        for parent in {path.parent for path in new}:
            sync_folder(parent)
        if manifest:
            write_json(folder / manifest, sealed({**about, FILES: digests}))
    except BaseException:
        replaced = manifest and listed_digests(read_json(folder / manifest)) == digests  # the new set is valid already
        for written in () if replaced else new.values():
            with suppress(OSError):
                written.unlink()
        raise
    for path, written in new.items():
        with _naming(path):
            written.replace(path)
    for parent in {path.parent for path in new}:
        sync_folder(parent)


def read_set(folder: Path, manifest: str, names: Container[str] | None = None) -> dict[str, bytes] | None:
    """Return the files of a set by name, as they were given to `write_set`, or None if there is no manifest.

    With `names`, only the files with these names are read. Raises `ValueError`, which says what is wrong, if the
    manifest or a file is damaged, altered or missing.
    """
    if not os.path.lexists(folder / manifest):
        return None
    digests = listed_digests(read_json(folder / manifest))
    if not digests:
        raise ValueError(f"{manifest} is damaged")
    asked = {name: digest for name, digest in digests.items() if names is None or name in names}
    contents = {name: _member(folder / name, digest) for name, digest in asked.items()}
    wrong = [name for name, content in contents.items() if content is None]
    if wrong:
        what = ", ".join(f"{name} is {'altered' if (folder / name).exists() else 'missing'}" for name in wrong)
        raise ValueError(f"{what}, by the checksums in {manifest}")
    return {name: content for name, content in contents.items() if content is not None}


def write_folder(folder: Path, files: Mapping[str, bytes | Iterable[bytes]]) -> None:
    """Make a new folder with these files, by path below it; the folder appears complete or not at all.

    The parent must exist. Raises `FileExistsError` if something of that name exists already.
    """
    if os.path.lexists(folder):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    sweep(folder)
    new = aside(folder)
    try:
        for name, content in files.items():
            with _naming(folder / name):
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                write_new(new / name, content)
        for inner, _, _ in os.walk(new):
            sync_folder(Path(inner))
        with _naming(folder):
            new.rename(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    sync_folder(folder.parent)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Prevent other commands from writing a set into `folder`, by a kernel lock on the folder itself.

    Raises `DataError` if another command holds the lock. On a file system without locks this has no effect.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"another command writes to {folder} now; repeat this one when it is done") from None
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)


def write_new(path: Path, content: bytes | Iterable[bytes], *, sync: bool = True, mode: int = 0o666) -> None:
    """Write a file that must not exist yet, not even as a link."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        for part in (content,) if isinstance(content, bytes) else content:
            left = memoryview(part)
            while left:
                left = left[os.write(descriptor, left) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with _naming(folder):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Make an `OSError` name the target file instead of the file aside."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _finish(folder: Path, manifest: str) -> None:
    """Move the files of a set into place if the set was complete when its writer was killed."""
    for name, digest in listed_digests(read_json(folder / manifest)).items():
        path = folder / name
        written = aside(path, digest[:16])
        if not holds(path, digest) and holds(written, digest):
            with _naming(path):
                written.replace(path)
        sweep(path)
    sweep(folder / manifest)


def listed_digests(record: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the checksums in a manifest, by name, or {} if it is damaged or names a file outside its folder."""
    digests = (record or {}).get(FILES)
    if record is None or not seal_holds(record) or not isinstance(digests, dict):
        return {}
    within = all(".." not in (member := PurePosixPath(name)).parts and not member.is_absolute() for name in digests)
    return digests if within and all(isinstance(digest, str) for digest in digests.values()) else {}


def _member(path: Path, digest: str) -> bytes | None:
    """Return the content of a file of a set, or None. It may still be aside: its writer was killed, or is running."""
    for candidate in (path, aside(path, digest[:16]), path):
        with suppress(OSError):
            content = read_bytes(candidate, MAX_MEMBER_BYTES)
            if _sha256(content) == digest:
                return content
    return None


def holds(path: Path, digest: str) -> bool:
    """Return whether `path` is an ordinary file with this checksum."""
    try:
        return _sha256(read_bytes(path)) == digest
    except OSError:
        return False


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def regular(path: Path | str) -> BufferedReader:
    """Open an ordinary file for reading.

    Raises `OSError` for a pipe (which may block), a device (which may never end) or a link (which may lead anywhere).
    """
    return os.fdopen(_opened(path)[0], "rb")


def read_record(path: Path | str) -> bytes:
    """Return the content of a file that will be parsed. Its size is limited, so that the record fits into memory."""
    return read_bytes(path, MAX_BYTES)


def read_bytes(path: Path | str, most: int | None = None) -> bytes:
    """Return the content of an ordinary file. Raises `OSError` as `regular` does, and if it has more than `most` bytes.

    No stream is opened: for thousands of small files, that would take most of the time.
    """
    descriptor, size = _opened(path)
    try:
        if most is not None and size > most:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, at most {most:,} are read", str(path))
        content = os.read(descriptor, size + 1)
        while len(content) != size and (more := os.read(descriptor, 2**26)):  # the file is large, or has changed
            content += more
    finally:
        os.close(descriptor)
    return content


def _opened(path: Path | str) -> tuple[int, int]:
    """Open an ordinary file; returns its descriptor and its size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.EINVAL, "a link, which is not followed", str(path)) from None
        raise
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status.st_size
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not an ordinary file", str(path))


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the record at `path`, or None if it is missing, truncated or not an object."""
    try:
        return parse_json(read_record(path))
    except (OSError, ValueError):
        return None


def parse_json(content: bytes) -> dict[str, Any]:
    """Return a JSON object. Raises `ValueError` for anything else, and for NaN, infinity and lone surrogates."""
    try:
        record = _DECODER.decode(content.decode())
    except RecursionError as error:
        raise ValueError(str(error)) from None
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - the content is wrong, not an argument's type
    if _SURROGATE.search(content) and not is_text(json.dumps(record, ensure_ascii=False)):
        raise ValueError("it contains half a character, which is not text")
    return record


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""Matches a surrogate, which is half of a character, as JSON escapes it. A lone surrogate is not text."""


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with the checksum of its other entries under `sha256`."""
    return {**record, SEAL: _digest(record)}


def seal_holds(record: Mapping[str, Any]) -> bool:
    """Return whether a record matches its checksum. A record without one, as earlier versions wrote it, passes."""
    return SEAL not in record or record[SEAL] == _digest(record)


def _digest(record: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in record.items() if name != SEAL}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
