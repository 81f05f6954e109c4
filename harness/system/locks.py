"""Kernel locks held by workers. The kernel frees them when a process ends, so nothing has to be cleaned up.

The holder deletes a lock file when it releases the lock. A process that has locked a file whose name is gone by then
tries again, so two processes never hold the lock of one name. If another process deletes or replaces the file or
folder, `Lock.lost` is true for the holder. The next process takes over what a killed holder left.

In a results folder whose ledger.json says so, leases replace the kernel locks on lock files.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from harness.system import leases
from harness.system.errors import DataError, RunError, why
from harness.system.files import parse_json, read_json, read_record

RETRY_SECONDS = 0.1
"""Seconds between two attempts to take a lock."""
PARTS = 8
"""Number of locks of a device, and so the largest number of processes that can share it."""


class HeldError(RunError):
    """A lock that another process holds; the message says who."""


class LostError(DataError):
    """The folder that a worker writes to is no longer the one that it locked."""


class Lock(Protocol):
    """A file or folder that this process holds."""

    @property
    def path(self) -> Path:
        """The path of the file or folder."""

    def lost(self) -> bool:
        """Return whether this process no longer holds the file or folder at the path."""

    def check(self) -> None:
        """Raise `LostError` if the lock is lost."""


@dataclass(frozen=True)
class _KernelLock:
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


@dataclass(frozen=True)
class _LeaseLock:
    """A lock file that is a lease, or the folder that the lease stands for, open as `descriptor`."""

    path: Path
    lease: leases.Lease
    descriptor: int | None = None

    def lost(self) -> bool:
        if self.lease.lost():
            return True
        try:
            return self.descriptor is not None and not os.path.samestat(os.lstat(self.path), os.fstat(self.descriptor))
        except FileNotFoundError:
            return True
        except OSError:  # out of reach: the lease decides when that has lasted too long
            return False

    def check(self) -> None:
        if self.lost():
            reason = self.lease.reason
            lost = f"the lease {self.lease.path} {reason}" if reason else f"{self.path} was deleted or replaced"
            raise LostError(
                f"{lost}; the worker stopped and wrote no more. Repeat the command to resume from the latest checkpoint"
            )


@contextmanager
def _leased_file(path: Path, patience: float) -> Iterator[Lock]:
    lease = leases.take(path, patience)
    if lease is None:
        raise HeldError(f"{path.stem} is held by {holder(path)}")
    try:
        yield _LeaseLock(path, lease)
    finally:
        leases.give_back(lease)


@contextmanager
def lock_file(path: Path, patience: float) -> Iterator[Lock]:
    """Hold the lock file at `path`, waiting up to `patience` seconds. Raises `HeldError`, which names the holder."""
    if leased(path.parent.parent):
        with _leased_file(path, patience) as file:
            yield file
        return
    lock = _locked(path, os.O_RDWR | os.O_CREAT, patience)
    if lock is None:
        raise HeldError(f"{path.stem} is held by {holder(path)}")
    with _released(lock, path.unlink, lock.descriptor):
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
def lock_folder(path: Path, patience: float, file: Lock | None = None) -> Iterator[Lock]:
    """Hold a folder itself. It is made if it is missing, and deleted if it is empty at the end. Raises `HeldError`.

    If its lock `file` is a lease, that lease alone holds the folder.
    """
    if isinstance(file, _LeaseLock):
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        leased_folder = _LeaseLock(path, file.lease, descriptor)
        with _released(leased_folder, path.rmdir, descriptor):
            yield leased_folder
        return
    lock = _locked(path, os.O_DIRECTORY, patience)
    if lock is None:
        raise HeldError(f"{path} is held by another process, whose lock file was deleted; wait until it has stopped")
    with _released(lock, path.rmdir, lock.descriptor):
        yield lock


@contextmanager
def _released(lock: Lock, delete: Callable[[], None], descriptor: int) -> Iterator[None]:
    """Delete the locked file at the end, unless another process replaced it, and release the lock."""
    try:
        yield
    finally:
        with suppress(OSError):
            if not lock.lost():
                delete()
        os.close(descriptor)


def _locked(path: Path, flags: int, patience: float) -> _KernelLock | None:
    """Lock a file or folder; returns None if another process holds it for longer than `patience` seconds."""
    folder = path if flags & os.O_DIRECTORY else path.parent
    deadline = time.monotonic() + patience
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = _KernelLock(path, os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666))
        except FileNotFoundError:  # the last holder has just deleted the folder
            pass
        except OSError as error:
            raise RunError(f"{path} cannot be locked ({error.strerror}); delete it, or make it accessible") from error
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
def lock_device(identity: str, device: str, patience: float, shares: int = 1) -> Iterator[None]:
    """Hold one of `shares` equal parts of a device against all processes of this machine, whatever results they write.

    `identity` is the name of the device that all of them use (a GPU's UUID), `device` its name in messages. A device
    has `PARTS` locks. The whole device takes all of them and half of it takes half of them, so no process gets a part
    that another one uses. A lock is a socket bound to a name in Linux's abstract namespace: it is not a file, is open
    to all users, and is freed by the kernel when the process ends. Containers with separate networks do not see each
    other's locks.
    """
    names = [f"\0sgmcmc-bench/device/{identity}{f'/{part}' if part else ''}" for part in range(PARTS)]
    deadline = time.monotonic() + patience
    while True:
        with ExitStack() as stack:
            taken: list[str] = []
            for name in names:
                lock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                if len(taken) < PARTS // shares and _bind(lock, name, device):
                    taken.append(name)
            if len(taken) == PARTS // shares:
                yield
                return
            holder = _device_holder(next(name for name in names if name not in taken))
        if time.monotonic() > deadline:
            raise HeldError(f"{device} is held by {holder}")
        time.sleep(RETRY_SECONDS * random.Random().uniform(1, 2))  # two processes with a part each must not meet again


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
    if path.suffix == ".lock" and leased(path.parent.parent):
        os.close(descriptor)
        return leases.held(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def leased(results: Path) -> bool:
    """Return whether the lock files of a results folder are leases, as its ledger.json says.

    Raises `RunError` if the folder is out of reach.
    """
    try:
        return parse_json(read_record(results / "ledger.json")).get("locks") == "leases"
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        raise RunError(f"{results} is out of reach ({why(error)}); repeat the command once it can be read") from error


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
