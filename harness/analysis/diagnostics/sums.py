"""Sums over the draws of a run, from which the errors of its averages follow.

They take one pass over the draws, in C++ if it can be compiled. The mean and the covariance S are those of the truth.
d = x - mean, and z = v d / sd along each of K directions v, with sd^2 = v' S v.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from harness.analysis.diagnostics import counting
from harness.analysis.diagnostics.arrays import Array, State, as_block

BINS = 4096
"""The largest number of bins by which the place of a number among the quantiles is found."""
BY_LIBRARY = 64
"""Number of coordinates above which the matrix products of a library are faster."""
AT_ONCE = 2048
"""Number of draws, of all chains, whose projections are computed at once by a library."""
MAX_RANDOM = 32
PER_DIMENSION = 4
_EQUAL = 1e-9
_INDEPENDENT = 1e-3
"""Least norm of what a projected axis adds to those before it."""
_BY_CHAIN = ("weight", "weight2", "z", "z2", "below")


class DrawSums:
    """The sums of the chains of one run, for mean (D,), covariance (D, D) and directions (K, D).

    quantiles: those of v x, (K, m), increasing, or None.

    weight   (C,)            of w, the weights
    weight2  (C,)            of w^2
    z        (C, K)          of w z
    z2       (C, K)          of w (z^2 - 1)
    pairs    (D + 1, D + 1)  of w (1, d) (1, d)', over all chains
    below    (C, K, m + 1)   of w, by the place of v x among the quantiles: the first cell is up to the first quantile

    A draw that is not finite makes its chain's sums not finite; if it is NaN, it is counted in the last cell.
    """

    def __init__(self, mean: Array, covariance: Array, directions: Array, quantiles: Array | None = None) -> None:
        given = mean, covariance, directions, np.empty((len(directions), 0)) if quantiles is None else quantiles
        self.mean, self.covariance, self.directions, cuts = (np.ascontiguousarray(a, np.float64) for a in given)
        self.sd = np.sqrt((self.directions @ covariance * self.directions).sum(axis=1))
        self._along: Array = self.directions / self.sd[:, None]
        self._axes = len(self.mean) if np.array_equal(self.directions[: len(self.mean)], np.eye(len(self.mean))) else 0
        self.cuts: Array = (cuts - (self.directions @ self.mean)[:, None]) / self.sd[:, None]
        self._memory = np.empty(0)
        self._allocate(0)

    def _allocate(self, chains: int) -> None:
        self.weight, self.weight2 = np.zeros(chains), np.zeros(chains)
        self.z, self.z2 = np.zeros((2, chains, len(self.directions)))
        self.pairs = np.zeros((1 + len(self.mean),) * 2)
        self.below = np.zeros((chains, len(self.cuts), self.cuts.shape[1] + 1))

    def update(self, draws: ArrayLike, weights: ArrayLike) -> None:
        """Add draws (B, C, D) with weights (B, C). Cutting them into other blocks changes only rounding."""
        x, w = as_block(draws, weights, len(self.mean))
        if not len(x):
            return
        if not len(self.weight):
            self._allocate(x.shape[1])
        if len(self.weight) != x.shape[1]:
            raise ValueError(f"this block has {x.shape[1]} chains, the blocks before it had {len(self.weight)}")
        with np.errstate(over="ignore", invalid="ignore"):
            if counting.code() is None:
                self._add(x, w)
            else:
                self._add_compiled(x, w)

    def _add(self, x: Array, w: Array) -> None:
        chains, directions, cells = self.below.shape
        d = x - self.mean
        z = d @ self._along.T
        one = w[..., None] * z
        cell = np.stack([np.searchsorted(c, z[:, :, k]) for k, c in enumerate(self.cuts)], axis=2)
        cell += cells * np.arange(chains * directions).reshape(chains, directions)
        below = np.bincount(cell.ravel(), np.repeat(w.ravel(), directions), self.below.size)
        self.below += below.reshape(self.below.shape)
        self.weight += w.sum(axis=0)
        self.weight2 += (w**2).sum(axis=0)
        self.z += one.sum(axis=0)
        self.z2 += (one * z - w[..., None]).sum(axis=0)
        flat = np.concatenate([np.ones((*w.shape, 1)), d], axis=2).reshape(w.size, -1)
        self.pairs += (flat * w.reshape(-1, 1)).T @ flat

    def _add_compiled(self, x: Array, w: Array) -> None:
        """Add as `_add` does.

        With many coordinates the products are those of a library, of so few draws at a time that they, and the counts
        of their chains, stay in the cache.
        """
        if len(self.mean) <= BY_LIBRARY:
            self._count(x, w, slice(None), projected=False)
            return
        high = min(len(w), AT_ONCE // counting.LANES)
        wide = AT_ONCE // high // counting.LANES * counting.LANES
        for chain, draw in itertools.product(range(0, w.shape[1], wide), range(0, len(w), high)):
            chains, draws = slice(chain, chain + wide), slice(draw, draw + high)
            block_weights = np.ascontiguousarray(w[draws, chains])
            self._count(self._multiply(x[draws, chains], block_weights), block_weights, chains, projected=True)

    def _multiply(self, x: Array, w: Array) -> Array:
        """Add to `pairs`, and return z (K, B C)."""
        wide, tall = 1 + len(self.mean), len(self.directions)
        if self._memory.size < w.size * (wide + tall):
            self._memory = np.empty(w.size * (wide + tall))  # kept, as new pages cost as much as the products
        flat = self._memory[: w.size * wide].reshape(w.size, wide)
        z = self._memory[w.size * wide :][: w.size * tall].reshape(tall, w.size)
        flat[:, 0] = 1.0
        d = np.subtract(x.reshape(w.size, -1), self.mean, out=flat[:, 1:])
        along, axes = self._along, self._axes
        np.multiply(d.T[:axes], along.diagonal()[:axes, None], out=z[:axes])
        np.matmul(along[axes:], d.T, out=z[axes:])
        if (w != 1).any():
            flat *= np.sqrt(w).reshape(-1, 1)
        self.pairs += flat.T @ flat  # of one array and its transpose: half of the products
        return z

    def _count(self, values: Array, w: Array, counted: slice, *, projected: bool) -> None:
        """Add the draws of some chains to all sums, or their projections to all but `pairs`.

        If there are few chains, several draws are added side by side, as if they were of more chains.
        """
        (draws, chains), few = w.shape, max(1, counting.LANES // w.shape[1])
        whole = draws // few * few
        for part, n in ((slice(0, whole), few), (slice(whole, draws), 1)):
            block_weights = w[part].reshape(-1, n * chains)
            if projected:
                rows = values.reshape(-1, draws, chains)[:, part]
            else:
                rows = values[part].reshape(-1, n * chains, len(self.mean))
            sums = [getattr(self, name)[counted] for name in _BY_CHAIN]
            targets = sums if n == 1 else [np.zeros((n, *total.shape)) for total in sums]
            count, points, bins, crowded, along, *tables = self._tables
            counting.call(
                counting.code().add, np.ascontiguousarray(rows), block_weights, *counting.steps(block_weights),
                *block_weights.shape, len(self.mean), count, points, bins, crowded,
                None if projected else along, *tables, self.mean, *targets, None if projected else self.pairs,
            )  # fmt: skip
            if n > 1:
                for total, added in zip(sums, targets, strict=True):
                    np.add(total, added.sum(axis=0), out=total)

    @functools.cached_property
    def _tables(self) -> tuple[Any, ...]:
        """The directions and quantiles in the form that the C++ code needs."""
        count, points = self.cuts.shape
        along = np.pad(self._along, ((0, -count % counting.TOGETHER), (0, 0)))
        cuts = np.pad(self.cuts, ((0, 0), (0, 1)), constant_values=np.inf)
        gaps = np.diff(self.cuts, axis=1)
        span = gaps.sum(axis=1)
        bins = min(BINS, 2 + int((span / gaps.min(axis=1, initial=np.inf, where=gaps > 0)).max(initial=0.0)))
        scale = bins / np.where(span > 0, span, 1.0)
        first, inside = np.zeros((count, bins), dtype=np.int64), np.zeros((count, bins))
        crowded = 0
        for k in range(count):
            low = float(cuts[k, 0])
            crowded |= counting.call(
                counting.code().tabulate, cuts[k], points, low, float(scale[k]), bins, first[k], inside[k]
            )
        return count, points, bins, crowded, along, cuts, cuts[:, 0].copy(), scale, first, inside

    def state(self) -> State:
        """Return everything that `load` needs to continue exactly, as arrays."""
        return {name: getattr(self, name).copy() for name in (*_BY_CHAIN, "pairs")}

    def load(self, state: State) -> None:
        """Continue from `state()`. Raises ValueError if it was taken with another number of directions."""
        if state["z"].shape[1] != len(self.directions):
            raise ValueError(f"this state has {state['z'].shape[1]} directions, not {len(self.directions)}")
        for name in (*_BY_CHAIN, "pairs"):
            setattr(self, name, np.array(state[name]))


def pooled_errors(sums: DrawSums) -> tuple[Array, Array]:
    """Return the errors of all chains together, (D,) each: (mean - true mean) / true sd, and variance / true variance.

    The variance is about the draws' own mean, with the divisor W - sum w^2 / W, which is n - 1 if all weights are 1. It
    is NaN before the second draw.
    """
    weight, dim = sums.weight.sum(), len(sums.mean)  # the first D directions are the axes
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = sums.z[:, :dim].sum(axis=0) / weight
        about_truth = sums.z2[:, :dim].sum(axis=0) / weight + 1
        divisor = 1 - sums.weight2.sum() / weight**2
        ratio = np.where(divisor > 0, (about_truth - error**2).clip(min=0) / divisor, np.nan)
    return np.asarray(error), ratio


def _axes(s: Array) -> tuple[Array, Array]:
    """Return the eigenvalues and eigenvectors (columns) of a matrix, the same on every processor.

    The eigenvectors of a repeated eigenvalue are any basis of their space, another one on another processor. Here they
    are made of the coordinate axes, projected on the space and orthonormalised in their order.
    """
    values, vectors = np.linalg.eigh(s)
    starts = np.flatnonzero(np.diff(values, prepend=-np.inf) > _EQUAL * np.abs(values).max())
    for space in (vectors[:, start:stop] for start, stop in itertools.pairwise([*starts, len(values)])):
        count = space.shape[1]
        chosen: list[Array] = []
        for axis in space @ space.T if count > 1 else ():
            rest = axis - sum((np.dot(axis, one) * one for one in chosen), start=np.zeros(len(s)))
            if len(chosen) < count and (norm := np.linalg.norm(rest)) > _INDEPENDENT:
                chosen.append(rest / norm)
        if len(chosen) == count:
            space[:] = np.stack(chosen, axis=1)
    return values, vectors


def directions(covariance: ArrayLike) -> Array:
    """Return unit vectors (K, D): D coordinate axes, the principal axes of the covariance S (D, D), and random ones.

    The random ones are S^-1/2 u, normalised, with u uniform on the sphere: if variances differ, u itself would detect
    errors only along the largest of them. There are min(32, 4 D), the same in every run. A vector that equals an
    earlier one up to its sign is left out, so K = 1 if D = 1. Signs are fixed: the first of the largest entries is
    positive.
    """
    s = np.asarray(covariance, dtype=np.float64)
    dim = len(s)
    values, vectors = _axes(s)
    spread = np.random.default_rng(0).standard_normal((min(MAX_RANDOM, PER_DIMENSION * dim), dim))
    units = np.concatenate([np.eye(dim), vectors.T, spread / np.sqrt(values) @ vectors.T])
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    sizes = np.abs(units)
    largest = (sizes > (1 - _EQUAL) * sizes.max(axis=1, keepdims=True)).argmax(axis=1)
    units *= np.sign(np.take_along_axis(units, largest[:, None], axis=1))
    repeats = np.triu(np.abs(units @ units.T) > 1 - _EQUAL, k=1).any(axis=0)
    return np.asarray(units[~repeats])
