"""What is counted for every draw: its place among quantiles, its nearest centre. By C++, with NumPy's numbers."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.diagnostics.arrays import Array, IntArray
from harness.system.cpp import CompilerError, built

SOURCE = Path(__file__).with_suffix(".cpp")


def below(z: Array, weights: Array, cuts: Array) -> Array:
    """The weight (B, C) of the numbers z (B, C) of each chain below each of the cuts (m,), cell by cell: (C, m + 1)."""
    chains, cells = z.shape[1], len(cuts) + 1
    if (code := _code()) is None:
        place = np.searchsorted(cuts, z) + cells * np.arange(chains)
        found = np.bincount(place.ravel(), weights.ravel(), minlength=cells * chains)
        return found.reshape(chains, cells).astype(np.float64)  # integers, where there are no draws
    counts = np.zeros((chains, cells))
    z, weights, cuts = map(np.ascontiguousarray, (z, weights, cuts))
    code.below(*_arguments(z, weights, len(z), chains, cuts, len(cuts), counts))
    return counts


def nearest(x: Array, centres: Array) -> IntArray:
    """Which of the centres (M, D) is nearest to each x (n, D): that with the largest <x, mu> - |mu|^2 / 2."""
    start = -np.square(centres).sum(axis=1) / 2
    if (code := _code()) is None:
        closeness = np.broadcast_to(start, (len(x), len(centres)))
        for d, column in enumerate(centres.T):
            closeness = closeness + x[:, d : d + 1] * column
        return closeness.argmax(axis=1)
    found = np.empty(len(x), dtype=np.int64)
    x, centres = map(np.ascontiguousarray, (x, centres))
    code.nearest(*_arguments(x, *x.shape, centres, start, len(centres), found))
    return found


def _code() -> Any:
    try:
        return built(SOURCE.read_text(encoding="utf-8"))
    except CompilerError:
        return None


def _arguments(*values: Any) -> list[Any]:
    return [ctypes.c_void_p(v.ctypes.data) if isinstance(v, np.ndarray) else ctypes.c_long(v) for v in values]
