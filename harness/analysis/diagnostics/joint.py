"""Whether a sampler's law is the target's in every direction at once: the sums of a run, and the gate over seeds.

Marginal moments do not detect correlations, and moments do not detect shapes. With y the draw in units of the truth
(centred and whitened: mean 0, covariance I under the target), the gate looks at

- |E y|, the Mahalanobis norm of the mean error: the error of the worst direction's mean, in sds of that direction;
- the least and greatest eigenvalue of E y y', about the *true* mean: the variance of the worst directions, 1 if right
  (about the sample's own mean it would be too small by a factor 1 - 1/ESS, for exact draws too);
- if the truth states quantiles, the distance of the distribution functions along the directions, a Cramer-von Mises
  distance averaged over projections (Kim, Balakrishnan and Wasserman 2020): the root mean square of F - p.

Each is the extreme of many directions. In a finite sample, even of exact draws, it is therefore too extreme (the
Marchenko-Pastur law), by an amount that depends on how the effective size differs between directions. So each has an
interval whose two ends err to the outside, by cross-validation over seeds: `norm_interval`, `eigenvalue_intervals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from harness.analysis.diagnostics.arrays import Array
from harness.analysis.diagnostics.sums import DrawSums
from harness.analysis.statistics import mean_interval

MEAN_LIMIT = 0.1
RATIO_LOW, RATIO_HIGH = 0.8, 1.25
DISTANCE_LIMIT = 0.02
"""The value for a normal whose variance is off by the limit: log(1.25) / 2 sqrt(int x^2 phi^3 dx) = 0.112 x 0.175."""
_ROUNDING = 1e-12
_TINY = 1e-300


class JointMoments:
    """The quantities that the gate looks at, from the sums of one run.

    They are averages of y = S^-1/2 (x - mean), with S the truth's covariance, and distribution functions at the truth's
    quantiles. The symmetric root has no arbitrary signs, so the y of runs with slightly different truths are
    comparable.
    """

    def __init__(self, sums: DrawSums) -> None:
        self.sums = sums
        values, vectors = np.linalg.eigh(sums.covariance)
        self.whiten = vectors / np.sqrt(values) @ vectors.T

    def mean_error(self) -> Array:
        """Return E y (D,)."""
        return np.asarray(self.sums.pairs[0, 1:] @ self.whiten / self.sums.pairs[0, 0])

    def second_moment(self) -> Array:
        """Return E y y' (D, D)."""
        return np.asarray(self.whiten @ self.sums.pairs[1:, 1:] @ self.whiten / self.sums.pairs[0, 0])

    def distribution_error(self) -> Array:
        """Return F - p of all chains together at the quantiles of levels p, divided by sqrt(K m): (K m,).

        Its norm is the root mean square. Empty without quantiles.
        """
        errors = self.sums.below.sum(axis=0)[:, :-1].cumsum(axis=1) / self.sums.pairs[0, 0] - self._levels()
        return np.asarray(errors.ravel() / np.sqrt(max(errors.size, 1)))

    def chain_errors(self) -> Array:
        """Return (F - p) / sqrt(p (1 - p)) of each chain, (C, K m): errors of the averages of I(v x <= q), in sds."""
        p, below = self._levels(), self.sums.below
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = below[:, :, :-1].cumsum(axis=2) / below.sum(axis=2, keepdims=True) - p
        return np.asarray((errors / np.sqrt(p * (1 - p))).reshape(len(below), -1))

    def _levels(self) -> Array:
        points = self.sums.below.shape[2] - 1
        return (np.arange(points) + 0.5) / max(points, 1)


class Bracket(NamedTuple):
    """An extreme over directions: its value on held-out seeds, and an interval whose ends err to the outside."""

    value: float
    low: float
    high: float


def norm_interval(errors: ArrayLike) -> Bracket:
    """Return the interval of |E e| from errors e_s (S, F) of seeds s; its ends are those of two different t intervals.

    The low end is that of e_s along the mean direction of the *other* seeds. That direction is independent of e_s, so
    these values are at most |E e| in expectation, and 0 if there is no error. The high end is that of e_s along the
    mean direction of all seeds. The mean of these values is the norm of the mean of e_s: at least |E e| in expectation.
    """
    e = np.asarray(errors, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        total = e.sum(axis=0)
        others = total - e
        held_out = (e * others).sum(axis=1) / np.maximum(np.linalg.norm(others, axis=1), _TINY)
        common = total if total.any() else e[0]
        along = e @ common / np.maximum(np.linalg.norm(common), _TINY)
    return Bracket(*np.maximum(_between(held_out, along), 0.0).tolist())


def eigenvalue_intervals(moments: ArrayLike) -> tuple[Bracket, Bracket]:
    """Return the intervals of the least and the greatest eigenvalue of E M, from matrices M_s (S, D, D) of seeds s.

    As in `norm_interval`: u' M_s u along the extreme eigenvector u of the mean of the *other* seeds is in expectation
    inside the range of eigenvalues. Along the extreme eigenvector of the mean of all seeds, the mean of u' M_s u is the
    extreme eigenvalue of that mean, which in expectation is outside (the greatest eigenvalue is convex, by Jensen).
    """
    m = np.asarray(moments, dtype=np.float64)
    if not np.isfinite(m).all():
        missing = Bracket(np.nan, np.nan, np.nan)
        return missing, missing
    total = m.sum(axis=0)
    others = np.linalg.eigh(total - m).eigenvectors
    common = np.linalg.eigh(total).eigenvectors
    held_out = [np.einsum("si,sij,sj->s", others[:, :, k], m, others[:, :, k]) for k in (0, -1)]
    along = [np.einsum("i,sij,j->s", common[:, k], m, common[:, k]) for k in (0, -1)]
    negated = _between(-held_out[0], -along[0])
    return Bracket(-negated.value, -negated.high, -negated.low), _between(held_out[1], along[1])


def _between(held_out: Array, along: Array) -> Bracket:
    if len(held_out) < 2 or not np.isfinite([held_out, along]).all():
        return Bracket(float(along.mean()), np.nan, np.nan)
    inner, outer = mean_interval(held_out), mean_interval(along)
    assert inner.low is not None
    assert outer.high is not None
    return Bracket(inner.mean, inner.low, outer.high)


class Gate(NamedTuple):
    """Whether metrics that a wrong law inflates may be ranked, with the reason."""

    verdict: Literal["ok", "biased", "undetermined"]
    reason: str


class Limits(NamedTuple):
    """A criterion of the gate: its name as a metric, its description, the limits for its interval, and its unit."""

    metric: str
    what: str
    low: float
    high: float
    unit: str


MEAN = Limits("worst_mean_error", "the mean's error in the worst direction", -np.inf, MEAN_LIMIT, " sd")
LEAST = Limits("least_variance", "variance in the narrowest direction", RATIO_LOW, np.inf, " of the truth's")
GREATEST = Limits("greatest_variance", "variance in the widest direction", -np.inf, RATIO_HIGH, " of the truth's")
WITHIN = Limits("", "variance within a mode", RATIO_LOW, RATIO_HIGH, " of the truth's")
DISTANCE = Limits("distribution_error", "distance of the distribution functions", -np.inf, DISTANCE_LIMIT, "")


def gate(findings: Sequence[tuple[Limits, Bracket]]) -> Gate:
    """Return the verdict on all criteria, with the reason.

    ok: every interval is inside its limits. biased: at least one is wholly outside. undetermined: otherwise, and if an
    interval does not exist (NaN). The reason names the criterion that decides.
    """
    for limits, bracket in findings:
        if bracket.low > limits.high + _ROUNDING or bracket.high < limits.low - _ROUNDING:
            return Gate("biased", _describe(limits, bracket, "wholly outside"))
    for limits, bracket in findings:
        if np.isnan(bracket.low + bracket.high):
            return Gate("undetermined", _describe(limits, bracket, "no interval to compare with"))
    for limits, bracket in findings:
        if bracket.low < limits.low - _ROUNDING or bracket.high > limits.high + _ROUNDING:
            return Gate("undetermined", _describe(limits, bracket, "not inside"))
    return Gate("ok", "; ".join(_describe(limits, bracket, "inside") for limits, bracket in findings))


def _describe(limits: Limits, bracket: Bracket, relation: str) -> str:
    ends = [f"{end:g}" for end in (limits.low, limits.high) if np.isfinite(end)]
    limit = f"[{ends[0]}, {ends[1]}]" if len(ends) == 2 else f"{'at most' if limits.low < 0 else 'at least'} {ends[0]}"
    value = f"{bracket.value:.3g} [{bracket.low:.3g}, {bracket.high:.3g}]{limits.unit}"
    return f"{limits.what} is {value}, {relation} {limit}"
