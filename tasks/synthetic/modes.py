"""Which modes of a mixture were found, with their mass and spread, added up over the chains of one run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness import diagnostics

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
State = dict[str, NDArray[Any]]

UNVISITED = -1

CHUNK = 4096
"""Number of draws that are processed together: this times the number of modes fits into a processor's cache."""


class ModeCounts:
    """Counts of draws at M known modes, pooled over the chains of one run.

    means: (M, D). radius: a draw within it (<=) of a centre visits that mode. variance: the true variance of a
    coordinate within a mode, one number or (M,). Coverage counts draws; masses and shares weight them. Coverage alone
    rewards over-dispersion: read it with `share_within_r`, `mode_mass_tv` and `within_mode_variance_ratio`. A draw that
    is not finite belongs to no mode and no mass, but its weight counts in the denominator of `share_within_r`; a draw
    whose weight is not finite does not count at all. Results are NaN if there were no draws to count.
    """

    def __init__(self, means: ArrayLike, radius: float, variance: ArrayLike) -> None:
        self.means: Array = np.array(means, dtype=np.float64)
        if self.means.ndim != 2 or not self.means.size:
            raise ValueError(f"means must have shape (M, D), got {self.means.shape}")
        modes = len(self.means)
        self.variance: Array = np.broadcast_to(np.asarray(variance, dtype=np.float64), (modes,))
        self.radius = float(radius)
        if not (self.radius > 0 and (self.variance > 0).all()):
            raise ValueError(f"radius and variance must be positive, got {radius} and {self.variance}")
        gaps = np.square(self.means[:, None] - self.means).sum(axis=2)[~np.eye(modes, dtype=bool)]
        self._apart = bool((gaps > 4 * self.radius**2).all())
        self.counts: IntArray = np.zeros(modes, dtype=np.int64)
        """Number of draws within the radius of each mode (M,)."""
        self.mass: Array = np.zeros(modes)
        """Weight of the draws that are nearest to each mode (M,)."""
        self.squares: Array = np.zeros(modes)
        """Weighted sum of squared distances to the centre of the nearest mode, for each mode (M,)."""
        self.first_visit: IntArray = np.full(modes, UNVISITED, dtype=np.int64)
        """Step of the first draw within the radius of each mode (M,), -1 if there is none."""
        self._within: Array = np.zeros(())
        self._total: Array = np.zeros(())

    def update(self, draws: ArrayLike, weights: ArrayLike, steps: ArrayLike) -> None:
        """Add draws (B, C, D) with weights (B, C), made at steps (B,), which never decrease."""
        x, w = diagnostics.as_block(draws, weights, self.means.shape[1])
        when = np.asarray(steps, dtype=np.int64)
        if when.shape != x.shape[:1]:
            raise ValueError(f"steps must have shape {x.shape[:1]}, got {when.shape}")
        counting = diagnostics.counting
        if self._apart and (code := counting.code()) is not None:
            added, start = np.zeros(2), -np.square(self.means).sum(axis=1) / 2
            counting.call(
                code.modes, np.ascontiguousarray(x), w, *counting.steps(w), np.ascontiguousarray(when), w.size,
                x.shape[1], x.shape[2], self.means, start, len(self.means), self.radius**2,
                self.mass, self.squares, self.counts, self.first_visit, added,
            )  # fmt: skip
            self._within, self._total = self._within + added[0], self._total + added[1]
            return
        flat, weight, step = x.reshape(-1, x.shape[2]), w.ravel(), np.repeat(when, x.shape[1])
        good = np.isfinite(flat).all(axis=1) & np.isfinite(weight)
        if not good.all():
            self._total += weight[np.isfinite(weight) & ~good].sum()
            flat, weight, step = flat[good], weight[good], step[good]
        for start in range(0, len(flat), CHUNK):
            part = slice(start, start + CHUNK)
            self._add(flat[part], weight[part], step[part])

    def _add(self, flat: Array, weight: Array, step: IntArray) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            closeness = flat @ self.means.T - np.square(self.means).sum(axis=1) / 2
            which = closeness.argmax(axis=1)
            distance2 = np.square(flat - self.means[which]).sum(axis=1)
            self.squares += np.bincount(which, weight * distance2, len(self.means))
        self.mass += np.bincount(which, weight, len(self.means))
        self._total += weight.sum()
        self._within += weight[distance2 <= self.radius**2].sum()
        for modes, draws in self._visits(flat, which, distance2):
            self.counts += np.bincount(modes, minlength=len(self.means))
            new = np.flatnonzero(self.first_visit[modes] == UNVISITED)
            new_modes, first = np.unique(modes[new], return_index=True)
            self.first_visit[new_modes] = step[draws[new[first]]]

    def _visits(self, flat: Array, which: IntArray, distance2: Array) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the visits (modes, draws), with the draws in order.

        A draw visits several modes only if these are close.
        """
        if self._apart:
            draws = np.flatnonzero(distance2 <= self.radius**2)
            yield which[draws], draws
            return
        for mode, centre in enumerate(self.means):
            with np.errstate(over="ignore"):
                draws = np.flatnonzero(np.square(flat - centre).sum(axis=1) <= self.radius**2)
            yield np.full(len(draws), mode), draws

    def modes_covered(self, n: int) -> int:
        """Return the number of modes with *more than* n draws within the radius."""
        return int((self.counts > n).sum())

    def mode_mass_tv(self, weights: ArrayLike) -> float:
        """Return the total variation between the weight shares of the draws by nearest mode and the true ones (M,)."""
        with np.errstate(invalid="ignore"):
            return float(0.5 * np.abs(self.mass / self.mass.sum() - np.asarray(weights)).sum())

    def within_mode_variance_ratio(self) -> float:
        """Return the mean squared distance (per coordinate) to the nearest centre / true variance within the mode.

        It is 1 for exact draws of modes that do not overlap; 4.7 for the paper's csgld at step size .09 on mixture25.
        """
        with np.errstate(invalid="ignore"):
            return float((self.squares / self.variance).sum() / (self.means.shape[1] * self.mass.sum()))

    def share_within_r(self) -> float:
        """Return the weight share of draws within the radius of a mode; .647 for exact draws of mixture25 at .25."""
        with np.errstate(invalid="ignore"):
            return float(self._within / self._total)

    def last_mode_first_visit(self) -> int | None:
        """Return the step at which the last of all modes was first visited; None (censored) if one was not visited."""
        return None if (self.first_visit == UNVISITED).any() else int(self.first_visit.max())

    def state(self) -> State:
        """Return everything that `load` needs to continue exactly, as arrays."""
        return {name: np.array(getattr(self, attribute)) for name, attribute in _STATE.items()}

    def load(self, state: State) -> None:
        """Continue from `state()`. Raises ValueError if it was taken with another number of modes."""
        if state["counts"].shape != self.counts.shape:
            raise ValueError(f"this state has {len(state['counts'])} modes, expected {len(self.means)}")
        for name, attribute in _STATE.items():
            setattr(self, attribute, np.array(state[name]))


_STATE = {name.lstrip("_"): name for name in ("counts", "mass", "squares", "first_visit", "_within", "_total")}
