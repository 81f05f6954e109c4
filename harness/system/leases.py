"""Leases: files that lock a run where kernel locks do not work, as on network file systems.

A lease is a file with the name of its holder and a random token. A thread of the holder renews it every `BEAT_SECONDS`
by setting its modification time. Another process takes it over once it has seen no change of the file for
`LEASE_SECONDS` on its own clock, so the clocks of the machines may differ. A holder that was stopped, or could not
reach the folder, reads the token to learn whether it still holds the lease. Two processes may work for a moment, so a
process that takes a lease over writes to a folder of its own.

filelock's SoftFileLease takes over by exchanging two names (up to 4.2.11 at least). NFS and most FUSE file systems
refuse that, and the lease of a dead holder then stays for ever. Here the file is renamed aside.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from secrets import token_hex

from harness.system.errors import RunError, why
from harness.system.files import aside, parse_json

BEAT_SECONDS = 5.0
LEASE_SECONDS = 45.0
"""Seconds without a change after which a lease is taken over. Eight renewals may fail; a holder that cannot reach the
folder for a minute loses its lease.
"""
SKEW_SECONDS = 300.0
"""How far the clocks of machines may differ. Only `held` uses it, which has no time to watch."""
RETRY_SECONDS = 0.2
LOOK_AGAIN_SECONDS = 0.5
"""Seconds after which a holder looks for its lease again: a contender may have renamed it aside and put it back."""

State = tuple[bytes, int]
"""The content of a lease's file, and its modification time in nanoseconds."""


class Lease:
    """A lease that this process took; `lost` says when it no longer holds it."""

    def __init__(self, path: Path, token: str) -> None:
        self.path = path
        self.reason = ""
        self._token = token
        self._renewed = _clock()

    def lost(self) -> bool:
        """Return whether the lease was deleted or taken over, or was out of reach so long that it may have been."""
        if not self.reason and _clock() - self._renewed > 2 * BEAT_SECONDS:  # not taken over earlier
            self.renew()
        return bool(self.reason)

    def renew(self) -> None:
        """Set the file's modification time if it is still this lease, or `reason` if the lease is lost."""
        ours = self.is_ours()
        if ours:
            try:
                os.utime(self.path)
                self._renewed = _clock()
            except OSError:
                ours = None
        silent = _clock() - self._renewed
        if ours is False:
            self.reason = "was taken over by another process, or deleted"
        elif ours is None and silent > LEASE_SECONDS:
            self.reason = f"could not be renewed for {silent:.0f} s, as its folder was out of reach"

    def is_ours(self) -> bool | None:
        """Return whether the file has this lease's token, or None if it cannot be read."""
        for pause in (LOOK_AGAIN_SECONDS, 0.0):
            try:
                state = _state(self.path)
            except OSError:
                return None
            if state is not None and _record(state).get("token") == self._token:
                return True
            time.sleep(pause)
        return False


def take(path: Path, patience: float) -> Lease | None:
    """Take the lease at `path`; returns None if its holder renews it and keeps it for longer than `patience` seconds.

    A lease that is not renewed is waited for until it has expired, whatever the patience. Raises `RunError` if the file
    cannot be written.
    """
    deadline = _clock() + patience
    first: State | None = None
    try:
        while True:
            lease = _create(path)
            if lease is not None:
                _start_renewing(lease)
                return lease
            state = watch(path)
            if state is None:
                continue
            first = first or state
            if _is_dead(state) or _clock() - _watched[path][1] > LEASE_SECONDS:
                _remove(path, state)
            elif _clock() > deadline and state != first:
                return None
            else:
                time.sleep(RETRY_SECONDS)
    except OSError as error:
        raise RunError(f"{path} cannot be written ({why(error)}); delete it, or make it accessible") from error


def give_back(lease: Lease) -> None:
    """Release a lease: delete its file if this process still holds it."""
    with _guard:
        _leases.discard(lease)
    with suppress(OSError):
        if lease.is_ours():
            lease.path.unlink()


def watch(path: Path) -> State | None:
    """Return the state of a lease, or None if there is none. The time without a change counts from the first look."""
    state = _state(path)
    if state is None:
        _watched.pop(path, None)
    elif path not in _watched or _watched[path][0] != state:
        _watched[path] = state, _clock()
    return state


def held(path: Path) -> bool:
    """Return whether a lease is likely to be held now, by its time and, on this machine, its process.

    For messages only.
    """
    try:
        state = _state(path)
    except OSError:
        return False
    if state is None or _is_dead(state):
        return False
    return abs(time.time() - state[1] / 1e9) < LEASE_SECONDS + SKEW_SECONDS


_watched: dict[Path, tuple[State, float]] = {}
_guard = threading.Lock()
_leases: set[Lease] = set()
_threads: list[threading.Thread] = []


def _forget() -> None:
    """Forget the leases in a forked process: they belong to its parent."""
    global _guard  # noqa: PLW0603 - a thread of the parent may hold it
    _guard = threading.Lock()
    _leases.clear()
    _threads.clear()


os.register_at_fork(after_in_child=_forget)


def _start_renewing(lease: Lease) -> None:
    with _guard:
        _leases.add(lease)
        if not _threads:
            _threads.append(threading.Thread(target=_renew, name="leases", daemon=True))
            _threads[0].start()


def _renew() -> None:
    """Renew all leases of this process until it has none."""
    while True:
        time.sleep(BEAT_SECONDS)
        with _guard:
            leases = list(_leases)
            if not leases:
                _threads.clear()
                return
        for lease in leases:
            if not lease.reason:
                lease.renew()


def _create(path: Path) -> Lease | None:
    """Make a new lease, or return None if there is one.

    Exclusive creation of a file is atomic on NFS too, since version 3.
    """
    token = token_hex(8)
    record = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": datetime.now(UTC).isoformat("T", "seconds"),
        "machine": _machine(),
        "token": token,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return None
    try:
        os.write(descriptor, json.dumps(record).encode())
    finally:
        os.close(descriptor)
    return Lease(path, token)


def _remove(path: Path, state: State) -> None:
    """Remove an expired lease. A lease that another process made in its place in the meantime is put back."""
    if _state(path) != state:
        return
    place = aside(path)
    try:
        path.rename(place)
    except FileNotFoundError:
        return
    if _state(place) != state:
        with suppress(OSError):
            os.link(place, path)
    place.unlink(missing_ok=True)


def _state(path: Path) -> State | None:
    """Return the state of a lease's file, or None if there is none.

    Opening it makes a network file system ask its server.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.read(descriptor, 4096), os.fstat(descriptor).st_mtime_ns
    finally:
        os.close(descriptor)


def _record(state: State) -> dict[str, object]:
    try:
        return parse_json(state[0])
    except ValueError:
        return {}


def _is_dead(state: State) -> bool:
    """Return whether the holder was a process of this machine that has ended."""
    record = _record(state)
    pid = record.get("pid")
    if not isinstance(pid, int) or pid <= 0 or not _machine() or record.get("machine") != _machine():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


@cache
def _machine() -> str:
    """Return a text that only processes which see each other's process ids share; "" if it is not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _clock() -> float:
    """Return the seconds of a clock that nobody can set; on Linux they include the time that the machine slept."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
