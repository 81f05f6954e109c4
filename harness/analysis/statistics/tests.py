"""Tests of a paired difference over seeds, the intervals that follow from them, and how many seeds decide."""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.analysis.statistics.intervals import as_values, bias_bounds, log_scale, t_multiplier

POWER = 0.8
"""The probability with which a stated number of seeds decides."""
ROUNDING = 1e-6
"""Differences that vary by less than this share of the largest one are equal."""
COUNTS = (*range(3, 200), *range(200, 1000, 10), *range(1000, 10_001, 100))
"""The numbers of seeds that `PairedTest.seeds_to_decide` considers."""
FEWEST_RARE = 30
"""Fewest seeds for a verdict where seeds may fail rarely: of a row that fails in 10 % of seeds, all 30 succeed with
probability .04. tests/statistical/test_verdicts.py has the simulation."""
FLIP, ALIKE = 1 / 2, 1 / 4
"""The share of signs, and the probability that of two equal rows a seed of the one succeeds and of the other fails."""

Array = NDArray[np.float64]
Ends = tuple[float | None, float | None]


@dataclass(frozen=True)
class PairedTest:
    """A two-sided test of "no difference" from n seeds, and the intervals that follow from it.

    p         of a difference of zero
    method    the test and what it assumes
    estimate  the difference, or the logarithm of a ratio
    seeds     n
    error     the standard error of the estimate; 0 where the seeds do not vary
    chance    p is not below 2 chance^n: the probability that equal rows differ alike in all n seeds by chance
    interval  the kind of its intervals: "t", "bootstrap t", "equal", "none"
    ends      of the interval of all differences that the test does not reject at 1 - level: p < 1 - level exactly where
              it excludes zero; None where the test can reject none
    fewest    fewer seeds than these have no verdict
    """

    p: float
    method: str
    estimate: float
    seeds: int
    error: float = 0.0
    chance: float = 0.0
    interval: str = "none"
    ends: Callable[[float], Ends] = field(default=lambda _: (None, None), compare=False, repr=False)
    fewest: int = 2

    def detectable(self, level: float) -> float:
        """Return the least difference whose interval excludes zero with probability `POWER`, at this error.

        Zero where the seeds do not vary, and infinite where they are too few for this level.
        """
        if self.seeds < self._fewest(level):
            return math.inf
        return self.error * _detectable_errors(self.seeds, level) if self.error else 0.0

    def _fewest(self, level: float) -> int:
        """The fewest seeds with which p can be below 1 - level."""
        return max(self.fewest, math.floor(math.log((1 - level) / 2, self.chance)) + 1 if self.chance else 2)

    def seeds_to_decide(self, level: float, margin: float | None = None) -> int | None:
        """Return how many seeds decide with probability `POWER` if they vary as these do; more, if these do not decide.

        Decided is a difference whose interval excludes zero, or lies within +-margin. None if 10,000 are too few.
        """
        more = 0 if self.p < 1 - level or within(self.ends(level), margin) else self.seeds + 1
        if not self.error:
            return max(self._fewest(level), more) if self.chance and (self.estimate or margin) else None
        effect, spread = abs(self.estimate) / self.error, math.sqrt(self.seeds)
        limit = None if margin is None else margin / self.error
        fewest = self._fewest(level)

        def decides(seeds: int) -> bool:
            if seeds < fewest:
                return False
            scale = math.sqrt(seeds) / spread
            return float(power(effect * scale, seeds, level, None if limit is None else limit * scale)) >= POWER

        index = bisect.bisect_left(COUNTS, True, key=decides)
        return max(COUNTS[index], more) if index < len(COUNTS) else None

    def chance_to_decide(self, seeds: int, level: float, margin: float | None = None) -> float:
        """Return the probability that so many new seeds decide, over what these n leave open of difference and spread.

        The spread sigma of a seed has the law s sqrt((n - 1) / chi2(n - 1)), and given it the difference is
        N(estimate, sigma^2 / n): the posterior of flat priors of the difference and of log sigma. With five seeds it
        is far from certain, so that the probability is below `POWER` at `seeds_to_decide` as a rule.
        """
        if seeds < self._fewest(level):
            return 0.0
        if not self.error:
            needed = self.seeds_to_decide(level, margin)
            return float(needed is not None and needed <= seeds)
        from scipy.special import ndtri

        scales, weights = _error_scales(self.seeds - 1, nodes=24)
        share, _ = np.polynomial.legendre.leggauss(24)
        errors = self.error / scales[:, None]  # of a mean of these n seeds, (24, 1)
        differences = self.estimate + errors * ndtri((1 + share) / 2)
        errors = errors * math.sqrt(self.seeds / seeds)
        decides = power(differences / errors, seeds, level, None if margin is None else margin / errors)
        return float(weights @ decides @ weights)


def within(ends: Ends, margin: float | None) -> bool:
    """Return whether an interval lies wholly within +-margin."""
    low, high = ends
    return margin is not None and low is not None and high is not None and -margin < low and high < margin


def power(effect: ArrayLike, seeds: int, level: float, margin: ArrayLike | None = None) -> Array:
    """Return the probability that a t interval excludes zero or lies within +-margin.

    Effect and margin are in standard errors, of any shapes that broadcast. It is the mean over the distribution of the
    error's estimate.
    """
    from scipy.special import ndtr

    scales, weights = _error_scales(seeds - 1)
    half = t_multiplier(seeds - 1, level) * scales
    of_effect = np.asarray(effect)[..., None]
    decided = ndtr(of_effect - half) + ndtr(-of_effect - half)
    if margin is not None:  # an interval shorter than the margin cannot reach from zero to beyond it
        limit = np.asarray(margin)[..., None]
        within = ndtr(limit - half - of_effect) - ndtr(half - limit - of_effect)
        decided = np.where(2 * half < limit, 1.0, decided + np.maximum(within, 0.0))
    return np.asarray(decided @ weights)


@functools.lru_cache(maxsize=256)
def _detectable_errors(seeds: int, level: float) -> float:
    low, high = 0.0, 1.0
    while power(high, seeds, level) < POWER:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle, seeds, level) < POWER else (low, middle)
    return high


@functools.lru_cache(maxsize=len(COUNTS))
def _error_scales(df: int, nodes: int = 64) -> tuple[Array, Array]:
    """Return estimates of a unit standard deviation with df degrees of freedom, and their weights (Gauss-Legendre)."""
    from scipy.special import gammaincinv

    share, weight = np.polynomial.legendre.leggauss(nodes)
    return np.sqrt(2 * gammaincinv(df / 2, (1 + share) / 2) / df), weight / 2


def paired_test(differences: ArrayLike, chance: float = ALIKE) -> PairedTest:
    """Test n differences (n,) by a paired t: t = mean / (s / sqrt(n)), with n - 1 degrees of freedom.

    It assumes normal differences. If each seed of a row succeeds or fails, two equal rows differ alike in all n seeds
    with probability 2 / 4^n at most, whatever t is, so p is not below 2 chance^n. Differences that are equal, to
    `ROUNDING`, have no t: p is that of sign flips, 2 / 2^n, the share of the patterns of signs with as large a sum, and
    the interval is their common value. One seed has no test. Raises ValueError for no differences or one that is not
    finite.
    """
    d = _finite(differences)
    n, mean = len(d), float(d.mean())
    least, greatest = float(d.min()), float(d.max())
    if n == 1:
        return PairedTest(1.0, "no test: one seed", mean, n)
    if _are_equal(d):
        flips = 2 * FLIP**n
        return PairedTest(
            flips if mean else 1.0, "sign flips of equal differences", mean, n, chance=FLIP, interval="equal",
            ends=lambda level: (least, greatest) if flips < 1 - level else (None, None),
        )  # fmt: skip
    return _t(mean, float(d.std(ddof=1)) / math.sqrt(n), n, "paired t, assumes normal differences", chance)


def paired_p(differences: Array) -> Array:
    """Return the p of `paired_test` of each row of finite differences (m, n), (m,)."""
    n, means = differences.shape[1], differences.mean(axis=1)
    if n == 1:
        return np.ones(len(differences))
    equal = _are_equal(differences)
    error = np.where(equal, 1.0, differences.std(axis=1, ddof=1)) / math.sqrt(n)
    p = np.maximum(t_p(np.abs(means) / error, n), 2 * ALIKE**n)
    return np.where(equal, np.where(means == 0, 1.0, 2 * FLIP**n), p)


def _are_equal(differences: Array) -> Array:
    """Return whether differences (..., n) are equal, to `ROUNDING`."""
    least, greatest = differences.min(axis=-1), differences.max(axis=-1)
    return np.asarray(greatest - least <= ROUNDING * np.maximum(-least, greatest))


def unpaired_test(a: ArrayLike, b: ArrayLike) -> PairedTest:
    """Test the difference of the means of two sets of seeds (n,) and (m,), which have no seed in common.

    t with the error of Welch (1947) and min(n, m) - 1 degrees of freedom, which is never too many.
    """
    x, y = _finite(a), _finite(b)
    n, mean = min(len(x), len(y)), float(x.mean() - y.mean())
    error = math.hypot(*(side.std(ddof=1) / math.sqrt(len(side)) for side in (x, y))) if n > 1 else 0.0
    if not error:
        return PairedTest(1.0, "no test: no variance and no pairs", mean, n)
    return _t(mean, error, n, "t of unpaired seeds")


def with_signed_ranks(tested: PairedTest, differences: ArrayLike) -> PairedTest:
    """Return the test with a p that is not below that of Wilcoxon's signed ranks of n differences (n,).

    That p is exact for two rows of one law, however rarely a seed fails and however large its error then is: there a t
    test calls equal rows different if one of them failed more often by chance. With n seeds it is at least 2 / 2^n.
    Below `FEWEST_RARE` seeds p is 1, because a row may be far worse by failures that no seed shows.
    """
    d = _finite(differences)
    few = len(d) < FEWEST_RARE
    ranks, least_p = signed_rank_p(d), 1.0 if few else 2 * FLIP ** len(d)

    def ends(level: float) -> Ends:
        low, high = tested.ends(level) if least_p < 1 - level else (None, None)
        if low is None or high is None or ranks < 1 - level:
            return low, high
        return min(low, 0.0), max(high, 0.0)

    method = f"{tested.method}; not below Wilcoxon's signed-rank test"
    if few:
        method = f"no test: fewer than {FEWEST_RARE} seeds, which may fail rarely"
    p = max(tested.p, ranks, least_p)
    return replace(tested, p=p, method=method, chance=FLIP, fewest=FEWEST_RARE, ends=ends)


def signed_rank_p(differences: Array) -> float:
    """Return the exact two-sided p of Wilcoxon's signed ranks of differences (n,); equal ones share their mean rank.

    The sum of the ranks of positive differences is compared with its law under random signs, given the ranks. Zeros are
    left out. SciPy's is exact without ties alone, and counts of modes have many.
    """
    d = differences[differences != 0]
    _, of_value, counts = np.unique(np.abs(d), return_inverse=True, return_counts=True)
    doubled = (2 * counts.cumsum() - counts + 1)[of_value]  # the first rank of equal values, and the last
    law = _law_of_signs(tuple(sorted(doubled.tolist())))
    away = abs(2 * doubled[d > 0].sum() - doubled.sum())
    return float(min(1.0, law[abs(2 * np.arange(len(law)) - doubled.sum()) >= away].sum()))


@functools.lru_cache(maxsize=256)
def _law_of_signs(ranks: tuple[int, ...]) -> Array:
    """Return the law of the sum of ranks that count with probability 1/2 each; without ties all pairs have the same."""
    law = np.ones(1)
    for rank in ranks:
        law = (np.pad(law, (0, rank)) + np.pad(law, (rank, 0))) / 2
    return law


def _t(mean: float, error: float, n: int, method: str, chance: float = ALIKE) -> PairedTest:
    least_p = 2 * chance**n

    def ends(level: float) -> Ends:
        if least_p >= 1 - level:
            return None, None
        half = t_multiplier(n - 1, level) * error
        return mean - half, mean + half

    return PairedTest(max(float(t_p(abs(mean) / error, n)), least_p), method, mean, n, error, chance, "t", ends)


def bootstrap_t(estimate: float, replicates: ArrayLike, seeds: int) -> PairedTest:
    """Test by a t test that a statistic is zero, from bootstrap replicates (B,) over n seeds. Its intervals are

        low = min(l - t s, l - b - t s, q(-u)),  high = max(l + t s, l - b + t s, q(u)),  u = t sqrt(n / (n - 1))

    with l the estimate, t, s and b of `bootstrap_interval`, and q(u) the replicates' quantile at the probability
    Phi(u). If the replicates are normal, q(u) is l + t s; if a cost is infinite in some of them, their sd says little
    and q is wider. p is 1 less the greatest level at which the interval excludes zero. Replicates that do not differ
    are tested as n equal differences by `paired_test`. ValueError for values that are not finite or one seed.
    """
    from scipy.special import ndtr, ndtri

    ordered = np.sort(_finite(replicates))
    if seeds < 2 or not math.isfinite(estimate):
        raise ValueError(f"a test needs two seeds and a finite estimate, got {seeds} and {estimate}")
    if ordered[0] == ordered[-1]:
        return paired_test(np.full(seeds, estimate))
    least, greatest = bias_bounds(estimate, ordered)
    widened = math.sqrt(seeds / (seeds - 1))
    error = float(ordered.std()) * widened
    beyond = [float(ndtri(1 - share)) / widened for share in ((ordered <= 0).mean(), (ordered >= 0).mean())]
    z = max(0.0, min(least / error, beyond[0]), min(-greatest / error, beyond[1]))

    def ends(level: float) -> Ends:
        multiplier = t_multiplier(seeds - 1, level)
        left_out = max(math.ceil(float(ndtr(-multiplier * widened)) * len(ordered) - 1e-9) - 1, 0)
        return (
            min(least - multiplier * error, float(ordered[left_out])),
            max(greatest + multiplier * error, float(ordered[-1 - left_out])),
        )

    method = "t, standard error by bootstrap over seeds"
    return PairedTest(float(t_p(z, seeds)), method, estimate, seeds, error, 0.0, "bootstrap t", ends)


def log_ratio_test(a: Array, b: Array, seeds: int) -> PairedTest:
    """Test whether log(a / b) is zero, from replicates over the same seeds (B + 1,); the last is the statistic.

    Replicates over other seeds are `unpaired`.
    If A exists (is neither zero nor infinite) in a replicate in which B does not, an end is infinite if B itself does
    not exist, or if the end is beyond every ratio of two values that exist.
    """
    ratios = log_ratios(a, b)
    tested = bootstrap_t(float(ratios[-1]), ratios[:-1], seeds)
    exist_a, exist_b = ((side > 0) & (side < math.inf) for side in (a, b))
    unlike = exist_a != exist_b
    if not unlike.any():
        return tested
    reach = float(np.abs(ratios[~unlike]).max(initial=0.0))
    below, above = unlike & (a < b), unlike & (a > b)

    def ends(level: float) -> Ends:
        low, high = tested.ends(level)
        if low is not None and below.any() and (below[-1] or low < -reach):
            low = -math.inf
        if high is not None and above.any() and (above[-1] or high > reach):
            high = math.inf
        return low, high

    return replace(tested, ends=ends)


def unpaired(replicates: Array) -> Array:
    """Return replicates (B + 1,) in another order, but for the last: nothing pairs them with those of other seeds."""
    return np.append(np.roll(replicates[:-1], 1), replicates[-1:])


def log_ratios(a: ArrayLike, b: ArrayLike) -> Array:
    """Return log(a / b) of values that are not negative.

    Infinite values count as twice the greatest finite one of both sides, zeros as half the least positive one.
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    logs, _ = log_scale(np.stack([x, y]))
    return logs[0] - logs[1]


def t_p(statistic: ArrayLike, seeds: int) -> Array:
    """Return the two-sided p of t statistics of n seeds."""
    from scipy.special import stdtr  # as scipy.stats.t.sf, which takes longer to import

    return np.asarray(2 * stdtr(seeds - 1, -np.asarray(statistic)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p of one family, in the order given: max over j <= i of (m - j + 1) p_(j), at most 1.

    Raises ValueError unless every p lies in [0, 1]. Source: Holm (1979).
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p values must lie in [0, 1], got {list(p_values)}")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return [float(value) for value in adjusted]


def most_failures(failed: int, runs: int, level: float = 0.95) -> float:
    """Return the exact one-sided upper bound of a share of which `failed` of `runs` were seen.

    It is above the share with probability `level` at least (Clopper and Pearson 1934): .45 for 0 of 5, .26 for 0 of 10.
    """
    from scipy.special import betaincinv  # as scipy.stats.beta.ppf, which takes longer to import

    return 1.0 if failed >= runs else float(betaincinv(failed + 1, runs - failed, level))


def _finite(differences: ArrayLike) -> Array:
    d = as_values(differences)
    if not np.isfinite(d).all():
        raise ValueError("differences must be finite")
    return d
