"""What lies in the results folder: attempt directories, and locks that say which of them a worker holds."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


def attempts(results: Path) -> dict[str, str]:
    """Attempt -> its directory below `results`, for everything under runs/<key[:2]>/<key>/<attempt>."""
    return {
        attempt: f"runs/{shard}/{key}/{attempt}"
        for shard in _directories(results / "runs")
        for key in _directories(results / "runs" / shard)
        for attempt in _directories(results / "runs" / shard / key)
    }


def held(results: Path, key: str) -> bool:
    """Whether a worker holds the kernel lock of a run.

    Asked by a shared lock on a read-only descriptor: two who ask do not meet, and nothing is made or changed.
    """
    try:
        descriptor = os.open(results / "locks" / f"{key}.lock", os.O_RDONLY | os.O_CLOEXEC)
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


def _directories(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if not e.name.startswith(".") and e.is_dir()]
    except OSError:  # gone meanwhile, or not ours to read
        return
    yield from sorted(names)
