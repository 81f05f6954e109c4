"""What lies in the results folder: attempt directories, and locks that say which of them a worker holds."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def attempts(results: Path) -> dict[str, str]:
    """Attempt -> its directory below `results`, for everything under runs/<key[:2]>/<key>/<attempt>.

    By text, not by Path objects: of thousands of runs, making those would cost more than reading the directories.
    """
    top = f"{results}/"
    return {
        attempt: f"runs/{shard}/{key}/{attempt}"
        for shard in _directories(f"{top}runs")
        for key in _directories(f"{top}runs/{shard}")
        for attempt in _directories(f"{top}runs/{shard}/{key}")
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


def _directories(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
    except OSError:  # gone meanwhile, or not ours to read
        return []
