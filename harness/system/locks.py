"""Kernel locks held by workers. The kernel frees them when a process ends, so nothing has to be cleaned up.

The holder deletes a lock file when it releases the lock. A process that has locked a file whose name is gone by then
tries again, so two processes never hold the lock of one name. If another process deletes or replaces the file or
folder, `Lock.lost` is true for the holder. The next process takes over what a killed holder left.

On some network file systems a kernel lock does not reach other machines. Locks only save work: what counts as the
result of a run is decided when it is published (`harness.results.ledger.commit`).
"""

from __future__ import annotations

import errno
import fcntl
import functools
import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.system.errors import DataError, RunError
from harness.system.files import read_json

RETRY_SECONDS = 0.1
"""Seconds between two attempts to take a lock."""


class HeldError(RunError):
    """A lock that another process holds; the message says who."""


class LostError(DataError):
    """The folder that a worker writes to is no longer the one that it locked."""


@dataclass(frozen=True)
class Lock:
    """A file or folder that this process holds."""

    path: Path
    descriptor: int

    def lost(self) -> bool:
        """Return whether the path no longer names the locked file, because that was deleted, moved or replaced."""
        try:
            return not os.path.samestat(os.lstat(self.path), os.fstat(self.descriptor))
        except OSError:
            return True

    def check(self) -> None:
        """Raise `LostError` if the path no longer names the locked file."""
        if self.lost():
            raise LostError(
                f"{self.path} was deleted or replaced while a worker wrote to it; the worker stopped and wrote no more "
                "there. Repeat the command to resume from the latest checkpoint"
            )


@contextmanager
def lock_file(path: Path, patience: float) -> Iterator[Lock]:
    """Hold the lock file at `path`, waiting up to `patience` seconds. Raises `HeldError`, which names the holder."""
    lock = _locked(path, os.O_RDWR | os.O_CREAT, patience)
    if lock is None:
        raise HeldError(f"{path.stem} is held by {holder(path)}")
    with _released(lock, path.unlink):
        record = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": datetime.now(UTC).isoformat("T", "seconds"),
        }
        with suppress(OSError):  # a full disk: the text is for messages only
            os.ftruncate(lock.descriptor, 0)
            os.pwrite(lock.descriptor, json.dumps(record).encode(), 0)
        yield lock


@contextmanager
def lock_folder(path: Path, patience: float) -> Iterator[Lock]:
    """Hold a folder itself. It is made if it is missing, and deleted if it is empty at the end. Raises `HeldError`."""
    lock = _locked(path, os.O_DIRECTORY, patience)
    if lock is None:
        raise HeldError(f"{path} is held by another process, whose lock file was deleted; wait until it has stopped")
    with _released(lock, path.rmdir):
        yield lock


@contextmanager
def _released(lock: Lock, delete: Callable[[], None]) -> Iterator[None]:
    """Delete the locked file at the end, unless another process replaced it, and release the lock."""
    try:
        yield
    finally:
        with suppress(OSError):
            if not lock.lost():
                delete()
        os.close(lock.descriptor)


def _locked(path: Path, flags: int, patience: float) -> Lock | None:
    """Lock a file or folder; returns None if another process holds it for longer than `patience` seconds."""
    folder = path if flags & os.O_DIRECTORY else path.parent
    deadline = time.monotonic() + patience
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = Lock(path, os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666))
        except FileNotFoundError:  # the last holder has just deleted the folder
            pass
        except OSError as error:
            # mkdir found the folder, which the last holder deleted before mkdir looked whether it is one.
            if not isinstance(error, FileExistsError) or (os.path.lexists(folder) and not folder.is_dir()):
                raise RunError(
                    f"{path} cannot be locked ({error.strerror}); delete it, or make it accessible"
                ) from error
        else:
            with suppress(BlockingIOError):
                fcntl.flock(lock.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not lock.lost():
                    return lock
            os.close(lock.descriptor)
        if time.monotonic() > deadline:
            return None
        time.sleep(RETRY_SECONDS)


@contextmanager
def lock_device(identity: str, device: str, patience: float) -> Iterator[None]:
    """Hold a device against all processes of this machine, whatever results folders they write to.

    `identity` is the name of the device that all of them use (a GPU's UUID), `device` its name in messages. The lock is
    a socket bound to a name in Linux's abstract namespace: it is not a file, is open to all users, and is freed by the
    kernel when the process ends. Containers with separate networks do not see each other's locks.
    """
    name = f"\0sgmcmc-bench/device/{identity}"
    deadline = time.monotonic() + patience
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        while not _bind(lock, name, device):
            if time.monotonic() > deadline:
                raise HeldError(f"{device} is held by {_device_holder(name)}")
            time.sleep(RETRY_SECONDS)
        yield


def _bind(lock: socket.socket, name: str, device: str) -> bool:
    """Bind a socket to a name and listen, so that others can see who holds it.

    Returns False if another process has the name.
    """
    try:
        lock.bind(name)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise RunError(f"{device} cannot be locked ({error.strerror})") from error
    lock.listen()
    return True


def _device_holder(name: str) -> str:
    """Return a description of the process that bound a name; for messages only."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.setblocking(False)
        try:
            client.connect(name)
            pid, user, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return "another process"
    return f"process {pid} of user {user}"


def holder(path: Path) -> str:
    """Return a description of the process that wrote the lock file last; for messages only."""
    record = read_json(path) or {}
    if not {"pid", "host", "since"} <= record.keys():
        return "another process"
    return f"process {record['pid']} on {record['host']} since {record['since']}"


def held(path: Path) -> bool:
    """Return whether a process holds the lock at `path` now.

    The test is a shared lock on a read-only descriptor: two tests do not disturb each other, and nothing is changed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


@functools.cache
def kernel() -> str:
    """Return a text that differs between kernels, whose locks may not reach each other, and each time one starts."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def excludes(folder: Path) -> bool:
    """Return whether a kernel lock on a folder prevents a second lock through another descriptor."""
    with ExitStack() as stack:
        for _ in range(2):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            except OSError:
                return False
    return False
