"""Errors of mean and variance, coordinate by coordinate, in units of the truth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from harness.analysis.diagnostics.arrays import Array, State, as_block, check_chains
from harness.analysis.diagnostics.moments import Moments


def mean_error(mean: ArrayLike, truth: Moments) -> Array:
    """(sample mean - true mean) / true sd, coordinates last."""
    return np.asarray((np.asarray(mean) - truth.mean) / truth.sd)


def variance_ratio(variance: ArrayLike, truth: Moments) -> Array:
    """Sample variance (about the sample's own mean) / true variance, coordinates last."""
    return np.asarray(np.asarray(variance) / truth.sd**2)


class MeanVariance(NamedTuple):
    """Weighted mean and variance."""

    mean: Array
    variance: Array


class RunningMoments:
    """Weighted mean and variance of draws (B, C, D), streamed by Chan's exact merge of (sum w, mean, M2).

    variance = M2 / (W - sum w^2 / W), the usual divisor n - 1 where all weights are 1; NaN before the second
    draw. A draw that is not finite makes its chain's numbers so.
    """

    def __init__(self) -> None:
        self._parts: Parts | None = None

    def update(self, draws: ArrayLike, weights: ArrayLike) -> None:
        """Add a block of draws (B, C, D) with weights (B, C)."""
        x, w = as_block(draws, weights)
        if not len(x):
            return
        weight, column = w.sum(axis=0)[:, None], w[..., None]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            mean = np.where(weight == 0, 0.0, (column * x).sum(axis=0) / weight)
            squares = (column * (x - mean) ** 2).sum(axis=0)
        self._add(Parts(weight, (column**2).sum(axis=0), mean, squares))

    def _add(self, new: Parts) -> None:
        if self._parts is not None:
            check_chains(len(self._parts.mean), len(new.mean))
        self._parts = new if self._parts is None else combine(self._parts, new)

    def per_chain(self) -> MeanVariance:
        """Mean and variance of each chain: (C, D) each. ValueError before the first draw."""
        return self._seen().finish()

    def pooled(self) -> MeanVariance:
        """Mean and variance of all chains together, about their common mean: (D,) each."""
        parts = self._seen()
        total = parts.chain(0)
        for c in range(1, len(parts.mean)):
            total = combine(total, parts.chain(c))
        mean, variance = total.finish()
        return MeanVariance(mean[0], variance[0])

    def _seen(self) -> Parts:
        if self._parts is None:
            raise ValueError("no draws yet")
        return self._parts

    def state(self) -> State:
        """Everything that `load` needs to go on exactly, as arrays; empty before the first draw."""
        if self._parts is None:
            return {}
        return {name: np.array(value) for name, value in self._parts._asdict().items()}

    def load(self, state: State) -> None:
        """Go on from `state()`."""
        self._parts = Parts(**{name: np.array(value) for name, value in state.items()}) if state else None


class Parts(NamedTuple):
    """Sums over some draws of C chains: weight and its square (C, 1), mean and M2 (C, D)."""

    weight: Array
    weight2: Array
    mean: Array
    squares: Array

    def chain(self, c: int) -> Parts:
        """The sums of chain c alone."""
        return Parts(*(part[c : c + 1] for part in self))

    def finish(self) -> MeanVariance:
        """Mean, NaN without weight, and variance, NaN without two draws of positive weight."""
        with np.errstate(invalid="ignore", divide="ignore"):
            divisor = self.weight - self.weight2 / self.weight
            variance = np.where(divisor > 0, self.squares / divisor, np.nan)
        return MeanVariance(np.where(self.weight > 0, self.mean, np.nan), variance)


def combine(a: Parts, b: Parts) -> Parts:
    """The sums over the draws of a and b together. Source: Chan, Golub and LeVeque (1983)."""
    weight = a.weight + b.weight
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = np.where(weight == 0, 0.0, b.weight / weight)
        step = b.mean - a.mean
        squares = a.squares + b.squares + step**2 * a.weight * share
        return Parts(weight, a.weight2 + b.weight2, a.mean + step * share, squares)
