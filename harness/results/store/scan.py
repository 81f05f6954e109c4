"""The attempt directories in a results folder."""

from __future__ import annotations

import os
from collections.abc import Set as AbstractSet
from pathlib import Path

from harness.results.ledger.ledger import KEY


def attempts(results: Path, settled: AbstractSet[str] = frozenset()) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Attempt -> its directory below `results`, for everything under runs/<key[:2]>/<key>/<attempt>; and directories
    there that are no run's, such as a copy of one, with the reason. Several of one name are copies too, but for one.

    Parts (`key[:2]`) that are settled are left out. Links are not followed.
    By text, not by Path objects: of thousands of runs, making those would cost more than reading the directories.
    """
    top = f"{results}/"
    found: dict[str, list[str]] = {}
    strange: dict[str, str] = {}
    for shard in _directories(f"{top}runs"):
        for key in _directories(f"{top}runs/{shard}") if shard not in settled else []:
            run = f"runs/{shard}/{key}"
            if not KEY.fullmatch(key) or not key.startswith(shard):
                strange[run] = "its name is not a run's key, after the first digits that its folder is named by"
                continue
            for attempt in _directories(f"{top}{run}"):
                found.setdefault(attempt, []).append(f"{run}/{attempt}")
    return found, strange


def _directories(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
            )
    except OSError:  # gone meanwhile, or not ours to read
        return []
