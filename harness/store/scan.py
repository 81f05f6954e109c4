"""What lies in the results folder: the attempt directories."""

from __future__ import annotations

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


def _directories(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
    except OSError:  # gone meanwhile, or not ours to read
        return []
