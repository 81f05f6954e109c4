"""Kernel locks held by workers: freed by the kernel at death, so nothing has to be cleaned up.

A lock's file goes when the lock is given back, and only then, by the holder. A process that had opened the file before
sees, once the lock is its own, that the file has no name any more, and begins anew (filelock does that): so two never
hold files of one name. What a killed holder leaves is taken over by the next.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import filelock

from harness.errors import RunError
from harness.ledger.files import read_json

RETRY_SECONDS = 0.1
"""Between two tries for a device that is held."""


class HeldError(RunError):
    """A lock that another process holds; the message says who."""


@contextmanager
def hold(path: Path, patience: float) -> Iterator[None]:
    """Hold the lock at `path`, waiting up to `patience` seconds; raises `HeldError` with the holder's name."""
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=patience)
    except filelock.Timeout:
        raise HeldError(f"{path.stem} is held by {holder(path)}") from None
    try:
        record = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": datetime.now(UTC).isoformat("T", "seconds"),
        }
        with suppress(OSError):  # a full disk: the text is for messages only
            path.write_text(json.dumps(record))
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        lock.release()


@contextmanager
def hold_device(identity: str, device: str, patience: float) -> Iterator[None]:
    """Hold a device for this process, against every other process of this machine and whatever their results folders.

    `identity` is what all of them call the device by (a GPU's UUID), `device` what messages call it. The lock is a
    socket bound to a name in Linux's abstract namespace: no file, open to all users, freed by the kernel when the
    process ends. Containers with a network of their own do not see each other's locks.
    """
    name = f"\0sgmcmc-bench/device/{identity}"
    deadline = time.monotonic() + patience
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        while True:
            try:
                lock.bind(name)
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise RunError(f"{device} cannot be locked ({error.strerror})") from error
            if time.monotonic() > deadline:
                raise HeldError(f"{device} is held by {_device_holder(name)}")
            time.sleep(RETRY_SECONDS)
        lock.listen()
        yield


def _device_holder(name: str) -> str:
    """Which process bound a name, in words; for messages only."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(name)
            pid, user, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return "another process"
    return f"process {pid} of user {user}"


def holder(path: Path) -> str:
    """Who wrote the lock file last, in words; for messages only."""
    record = read_json(path) or {}
    if not {"pid", "host", "since"} <= record.keys():
        return "another process"
    return f"process {record['pid']} on {record['host']} since {record['since']}"


def held(path: Path) -> bool:
    """Whether a process holds the lock at `path` now.

    Asked by a shared lock on a read-only descriptor: two who ask do not meet, and nothing is made or changed.
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
