"""Tests of a paired difference over seeds, for the claims of the papers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.analysis.statistics.intervals import as_values

EXACT_UP_TO = 16
MONTE_CARLO_DRAWS = 99_999
PERMUTATION_SEEDS = 10
"""The fewest seeds for a permutation test of a claim: the least p is then 0.002."""


@dataclass(frozen=True)
class PairedTest:
    """The two-sided p of "no difference" from n paired differences; method says what p assumes."""

    p: float
    mean: float
    n: int
    method: str


def paired_test(differences: ArrayLike) -> PairedTest:
    """Test n differences (n,): by sign flips from 10 seeds on, and with fewer by a paired t test.

    A difference is claimed only if p < .05 after `holm` over the table's claims; otherwise it is undecided.
    """
    return sign_flip(differences) if len(_finite(differences)) >= PERMUTATION_SEEDS else paired_t(differences)


def sign_flip(differences: ArrayLike) -> PairedTest:
    """Return p = the share of the 2^n sign patterns with |sum| at least that of the differences (n,), for n <= 16.

    For more, p comes from 99,999 random patterns with a fixed seed: (1 + hits) / (1 + patterns). It assumes only that
    each difference is as likely as its negative. The least p is 2^(1-n): .25, .0625, .002 at 3, 5, 10. Raises
    ValueError for no differences or one that is not finite.
    """
    d = _finite(differences)
    n, observed = len(d), abs(float(d.sum()))
    exact = n <= EXACT_UP_TO
    signs = _all_signs(n) if exact else _random_signs(n)
    # Patterns that differ only by rounding are ties, and ties count as hits.
    hits = int((np.abs(signs @ d) >= observed - 1e-12 * float(np.abs(d).sum())).sum())
    p = hits / len(signs) if exact else (1 + hits) / (1 + len(signs))
    how = "exact" if exact else f"{MONTE_CARLO_DRAWS} patterns"
    return PairedTest(p, float(d.mean()), n, f"sign-flip permutation test, {how}")


def paired_t(differences: ArrayLike) -> PairedTest:
    """Test differences (n,) by a paired t test: t = mean / (s / sqrt(n)), n - 1 degrees of freedom.

    It assumes normal differences. One difference, or several without variance, have no t: p is 1, and method says so.
    Raises ValueError for no differences or one that is not finite.
    """
    from scipy.stats import t

    d = _finite(differences)
    n, mean = len(d), float(d.mean())
    if n == 1:
        return PairedTest(1.0, mean, n, "no test: one seed")
    if d.min() == d.max():
        return PairedTest(1.0, mean, n, "no test: the differences have no variance")
    statistic = mean / (float(d.std(ddof=1)) / float(np.sqrt(n)))
    return PairedTest(float(2 * t.sf(abs(statistic), n - 1)), mean, n, "paired t, assumes normal differences")


def same_mean(a: ArrayLike, b: ArrayLike) -> float:
    """Return the two-sided p of "one mean" for two samples (n,) and (m,): Student's t of pooled variance.

    t = (mean a - mean b) / (s sqrt(1/n + 1/m)) with n + m - 2 degrees of freedom, on the logarithms if all values are
    positive. It assumes normal values of one variance, and that members of a and b that belong together are not
    negatively correlated: with a positive correlation it rejects less often. If only one of the samples varies, or
    neither does and they differ, there is no t: p is then 1 / C(n + m, m), the least that a permutation gives. Raises
    ValueError for fewer than three values in all.
    """
    from scipy.stats import t

    x, y = _finite(a), _finite(b)
    n, m = len(x), len(y)
    if n + m < 3:
        raise ValueError("two samples need three values in all")
    if min(x.min(), y.min()) > 0:
        x, y = np.log(x), np.log(y)
    apart = abs(float(x.mean() - y.mean()))
    if apart <= 1e-12 * max(abs(float(x.mean())), abs(float(y.mean()))):
        return 1.0
    spread = float(((x - x.mean()) ** 2).sum() + ((y - y.mean()) ** 2).sum())
    if spread <= (1e-12 * apart) ** 2 or np.ptp(x) == 0:
        return 1 / math.comb(n + m, m)
    return float(2 * t.sf(apart / math.sqrt(spread / (n + m - 2) * (1 / n + 1 / m)), n + m - 2))


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


def _all_signs(n: int) -> NDArray[np.int64]:
    return ((np.arange(2**n)[:, None] >> np.arange(n)) & 1) * 2 - 1


def _random_signs(n: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(2, size=(MONTE_CARLO_DRAWS, n)) * 2 - 1


def _finite(differences: ArrayLike) -> NDArray[np.float64]:
    d = as_values(differences)
    if not np.isfinite(d).all():
        raise ValueError("differences must be finite")
    return d
