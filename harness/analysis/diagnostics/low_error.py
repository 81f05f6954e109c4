"""Data passes to low error: the work until the running averages of a typical chain are right, and stay right.

    b2_f(t) = (running weighted average of f over one chain's first t kept draws - E f)^2 / Var(f)

for f = z and z^2 (z = (x - mean) / sd), and for f = x and x^2 beside them, contracted over the directions by max and by
mean. The headline is the cost at which the median of that curve over chains x seeds falls below 0.01 for the last time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from harness.analysis.diagnostics.arrays import Array, IntArray, State
from harness.analysis.diagnostics.sums import DrawSums


class LowError:
    """The b2 curves of the chains of one run, computed while the draws come in.

    sums: sums of the draws, to which `update` adds. z3, z4: E z^3 and E z^4 along their K directions. grid: increasing
    counts of kept draws, at which the running averages are recorded. The sums of w, w z and w (z^2 - 1) are sufficient,
    because all four averages follow from them: the error of x is sd times that of z (so b2_x equals b2_z), and that of
    x^2 is 2 mean sd (error of z) + sd^2 (error of z^2). Raises ValueError for a grid that does not increase from 1 or
    more, for blocks of another shape, and for z4 <= 1: z^2 is then constant, so an error in it has no scale.
    """

    def __init__(self, sums: DrawSums, z3: Array, z4: Array, grid: ArrayLike) -> None:
        if not (np.isfinite([z3, z4]).all() and (z4 > 1).all()):
            raise ValueError(f"z3 = E z^3 and z4 = E z^4 must be finite, and z4 must exceed 1, got {z3} and {z4}")
        self.sums = sums
        self.mean, sd = sums.directions @ sums.mean, sums.sd
        self.var_z2 = z4 - 1.0
        self.var_x2 = 4 * self.mean**2 * sd**2 + 4 * self.mean * sd**3 * z3 + sd**4 * self.var_z2
        self.grid: IntArray = np.array(grid, dtype=np.int64)
        if self.grid.ndim != 1 or not self.grid.size or self.grid[0] < 1 or (np.diff(self.grid) < 1).any():
            raise ValueError(f"grid must be an increasing list of counts from 1 on, got {self.grid}")
        self._count = 0
        self._curves: Array = np.full((len(CURVES), 0, len(self.grid)), np.nan)

    def update(self, draws: ArrayLike, weights: ArrayLike) -> None:
        """Add kept draws (B, C, D) with weights (B, C). Cutting them into other blocks changes only rounding."""
        x, w = np.asarray(draws), np.asarray(weights)
        points = np.searchsorted(self.grid, [self._count, self._count + len(x)], side="right")
        start = 0
        for point in range(*points):
            stop = int(self.grid[point]) - self._count
            self.sums.update(x[start:stop], w[start:stop])
            if not self._curves.shape[1]:
                self._curves = np.full((len(CURVES), x.shape[1], len(self.grid)), np.nan)
            self._curves[:, :, point] = self._b2()
            start = stop
        self.sums.update(x[start:], w[start:])
        self._count += len(x)

    def _b2(self) -> Array:
        """Return the eight curves after the draws so far: (8, C).

        A value that is not finite is inf, which is never low.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            z, z2 = self._averages()
            x2 = 2 * self.mean * self.sums.sd * z + self.sums.sd**2 * z2
            b2_z = z**2
            b2 = np.stack([b2_z, z2**2 / self.var_z2, b2_z, x2**2 / self.var_x2])
            contracted = np.stack([b2.max(axis=2), b2.mean(axis=2)], axis=1).reshape(len(CURVES), -1)
        return np.where(np.isfinite(contracted), contracted, np.inf)

    def _averages(self) -> tuple[Array, Array]:
        weight = self.sums.weight[:, None]
        return self.sums.z / weight, self.sums.z2 / weight

    def curves(self) -> dict[str, Array]:
        """Return b2 by name (`CURVES`), each (C, len(grid)): NaN at counts not reached, inf after a divergence."""
        return {name: self._curves[i].copy() for i, name in enumerate(CURVES)}

    def final_errors(self) -> Array:
        """Return the errors of the averages of z, then of z^2, over all draws so far, in sds of these: (C, 2 K).

        Their squares are the b2 of each direction. They are not finite if a chain diverged.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            z, z2 = self._averages()
        return np.concatenate([z, z2 / np.sqrt(self.var_z2)], axis=1)

    def state(self) -> State:
        """Return everything that `load` needs to continue exactly, as arrays, except for the state of the sums."""
        return {"grid": self.grid.copy(), "count": np.array(self._count), "curves": self._curves.copy()}

    def load(self, state: State) -> None:
        """Continue from `state()`. Raises ValueError if it was taken with another grid."""
        if not np.array_equal(state["grid"], self.grid):
            raise ValueError("this state was taken with another grid")
        self._count, self._curves = int(state["count"]), np.array(state["curves"])


CURVES = tuple(f"b2_{f}_{contraction}" for f in ("z", "z2", "x", "x2") for contraction in ("max", "mean"))
"""The names of the curves, in the order of `LowError`'s storage."""
