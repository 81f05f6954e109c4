"""The shapes that all diagnostics share: blocks of draws (B, C, D) with weights (B, C)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
State = dict[str, NDArray[Any]]
"""The state of an accumulator in a checkpoint: plain arrays, copied when saved and when loaded."""


def as_block(draws: ArrayLike, weights: ArrayLike, dim: int | None = None) -> tuple[Array, Array]:
    """Return a block as float64: draws (B, C, D), weights (B, C). Raises ValueError for any other shape."""
    x, w = np.asarray(draws, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if x.ndim != 3:
        raise ValueError(f"draws must have shape (B, C, D), got {x.shape}")
    if w.shape != x.shape[:2]:
        raise ValueError(f"weights must have shape {x.shape[:2]} to go with draws {x.shape}, got {w.shape}")
    if dim is not None and x.shape[2] != dim:
        raise ValueError(f"draws have {x.shape[2]} coordinates, expected {dim}")
    return x, w
