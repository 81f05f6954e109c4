"""Tests of a paired difference over seeds, for the claims of the papers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.analysis.statistics.intervals import as_values, bias_bounds, t_multiplier

EXACT_UP_TO = 16
MONTE_CARLO_DRAWS = 99_999
PERMUTATION_SEEDS = 10
"""The fewest seeds for a permutation test of a claim: the least p is then 0.002."""


@dataclass(frozen=True)
class PairedTest:
    """A two-sided test of "no difference" from n seeds, and the interval that follows from it.

    p         of a difference of zero
    low, high ends of the interval of all differences that the test does not reject at `level`: p < 1 - level exactly
              where it excludes zero; None where the test can reject none
    method    the test and what it assumes
    interval  the interval's kind: "t 95 % (x2.26)", "sign flips 95 %", "bootstrap t 95 % (x2.26)", "none"
    """

    p: float
    low: float | None
    high: float | None
    method: str
    interval: str


def paired_test(differences: ArrayLike, level: float = 0.95) -> PairedTest:
    """Test n differences (n,): by sign flips from 10 seeds on, and with fewer by a paired t test.

    A difference is claimed only if p < .05 after `holm` over the table's claims; otherwise it is undecided.
    """
    return (sign_flip if len(_finite(differences)) >= PERMUTATION_SEEDS else paired_t)(differences, level)


def sign_flip(differences: ArrayLike, level: float = 0.95) -> PairedTest:
    """Return p = the share of the 2^n sign patterns with |sum| at least that of the differences (n,), for n <= 16.

    For more, p comes from 99,999 random patterns with a fixed seed and the pattern that changes no sign. It assumes
    only that each difference is as likely as its negative. The least p is 2^(1-n): .25, .0625, .002 at 3, 5, 10.
    Raises ValueError for no differences or one that is not finite.

    The interval inverts the test. Below the mean, flipping the signs of d_i - delta for i in F gives at least as large
    a |sum| if delta is at least the mean of d over F or that over the other seeds; the share of patterns whose smaller
    mean is at most delta is therefore p(delta). Above the mean it is the larger one (Hartigan 1969, "Using subsample
    values as typical values"). Five seeds have no 95 % interval.
    """
    d = _finite(differences)
    n = len(d)
    flipped = _all_patterns(n) if n <= EXACT_UP_TO else _random_patterns(n)
    sums = np.stack([flipped @ d, (1 - flipped) @ d])
    sums[np.abs(sums) <= 1e-12 * float(np.abs(d).sum())] = 0.0  # zero but for rounding, and ties count
    sizes = flipped.sum(axis=1)
    means = sums / np.maximum([sizes, n - sizes], 1)
    whole = (sizes == 0) | (sizes == n)
    least, greatest = np.where(whole, -np.inf, means.min(axis=0)), np.where(whole, np.inf, means.max(axis=0))
    p = min(float((least <= 0).mean()), float((greatest >= 0).mean()))
    how = "exact" if n <= EXACT_UP_TO else f"{MONTE_CARLO_DRAWS} patterns"
    method = f"sign-flip permutation test, {how}"
    kept = math.ceil((1 - level) * len(flipped) - 1e-9) - 1
    low, high = float(np.sort(least)[kept]), float(-np.sort(-greatest)[kept])
    if math.isinf(low):
        return PairedTest(p, None, None, method, "none")
    return PairedTest(p, low, high, method, f"sign flips {100 * level:g} %")


def paired_t(differences: ArrayLike, level: float = 0.95) -> PairedTest:
    """Test differences (n,) by a paired t test, with its interval.

    t = mean / (s / sqrt(n)), with n - 1 degrees of freedom.

    It assumes normal differences. One difference, or several without variance, have no t: p is 1, and method says so.
    Raises ValueError for no differences or one that is not finite.
    """
    d = _finite(differences)
    n = len(d)
    if n == 1:
        return PairedTest(1.0, None, None, "no test: one seed", "none")
    if d.min() == d.max():
        return PairedTest(1.0, None, None, "no test: the differences have no variance", "none")
    mean, error = float(d.mean()), float(d.std(ddof=1)) / math.sqrt(n)
    half = t_multiplier(n - 1, level) * error
    return PairedTest(
        _t_p(abs(mean) / error, n),
        mean - half,
        mean + half,
        "paired t, assumes normal differences",
        _kind("t", n, level),
    )


def bootstrap_t(estimate: float, replicates: ArrayLike, seeds: int, level: float = 0.95) -> PairedTest:
    """Test by a t test that a statistic is zero, from bootstrap replicates (B,) over n seeds, with its interval:

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
        return paired_test(np.full(seeds, estimate), level)
    least, greatest = bias_bounds(estimate, ordered)
    widened = math.sqrt(seeds / (seeds - 1))
    error, multiplier = float(ordered.std()) * widened, t_multiplier(seeds - 1, level)
    beyond = [float(ndtri(1 - share)) / widened for share in ((ordered <= 0).mean(), (ordered >= 0).mean())]
    z = max(0.0, min(least / error, beyond[0]), min(-greatest / error, beyond[1]))
    kept = max(math.ceil(float(ndtr(-multiplier * widened)) * len(ordered) - 1e-9) - 1, 0)
    low = min(least - multiplier * error, float(ordered[kept]))
    high = max(greatest + multiplier * error, float(ordered[-1 - kept]))
    method = "t, standard error by bootstrap over seeds"
    return PairedTest(_t_p(z, seeds), low, high, method, _kind("bootstrap t", seeds, level))


def _t_p(statistic: float, seeds: int) -> float:
    from scipy.special import stdtr  # as scipy.stats.t.sf, which takes longer to import

    return float(2 * stdtr(seeds - 1, -statistic))


def _kind(name: str, seeds: int, level: float) -> str:
    return f"{name} {100 * level:g} % (x{t_multiplier(seeds - 1, level):.2f})"


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


def _all_patterns(n: int) -> NDArray[np.int64]:
    """Which signs are flipped: (2^n, n) of 0 and 1."""
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1


def _random_patterns(n: int) -> NDArray[np.int64]:
    drawn = 1 - np.random.default_rng(0).integers(2, size=(MONTE_CARLO_DRAWS, n))
    return np.concatenate([np.zeros((1, n), dtype=np.int64), drawn])


def _finite(differences: ArrayLike) -> NDArray[np.float64]:
    d = as_values(differences)
    if not np.isfinite(d).all():
        raise ValueError("differences must be finite")
    return d
