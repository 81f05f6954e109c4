"""By how much the numbers of some runs of a row differ from those of others, and whether significantly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from harness import statistics
from harness.results import Status, reader
from plugins.sharing.submission import Array

LEVEL = 0.01
"""Level of the test of sent against fresh runs: the share of honest rows that it refuses, by Holm over the numbers.
Rows of densities are tested twice: fresh runs are compared with moved ones too.

With five sent and five fresh runs, drawn from 200 seeds each of three samplers on gaussian2d, mixture5 and blr-heart,
it refuses up to 1 % of honest rows. It detects a joint error that was divided by 5 in 9 to 89 % of rows, and by 10 in
27 to 100 %: what it overlooks does not rank.
"""
FEWEST = 3
"""Least number of sent runs for this test."""
FINISHED = "share of finished runs"


class Contradiction(Exception):  # noqa: N818 - a finding
    """The numbers of a row are not those that the code here gives; the message says which. If that is the code that
    made the row, the row is false.
    """


def numbers_of(records: Sequence[reader.Record]) -> dict[str, list[float | None]]:
    """Return the numbers of runs that are compared, by name."""
    numbers: dict[str, list[float | None]] = {}
    for record in records:
        curves = {of_curve(curve.name): mean_square(curve.y) for curve in record.curves}
        for name, value in ({row["name"]: row["value"] for row in record.rows["metric"]} | curves).items():
            numbers.setdefault(name, []).append(value)
    return {**numbers, FINISHED: [float(record.row["status"] == Status.DONE) for record in records]}


def of_curve(name: str) -> str:
    """Return the name of the number that stands for a curve."""
    return f"mean square of curve {name}"


def mean_square(y: Array) -> float | None:
    """Return the mean square of a curve over its finite values; None if it has none."""
    values = y[np.isfinite(y)]
    return float(np.mean(values**2)) if values.size else None


def _finite(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and np.isfinite(value)]


def agreement(
    there: Mapping[str, Sequence[float | None]], here: Mapping[str, Sequence[float | None]], those: str, these: str
) -> str:
    """Return by how much numbers of runs differ from those of others; raise `Contradiction` if significantly.

    Where some runs do not have a number, the share of runs that have it is compared too. If all of one side have it and
    none of the other, at least `FEWEST` of each, that contradicts without a test: a number that half of all runs have
    does so in 1 of 512 comparisons of five with five.
    """
    pairs = {name: (there.get(name, []), values) for name, values in here.items()}
    present = {
        name: (_present(a), _present(b)) for name, (a, b) in pairs.items() if {*_present([*a, *b])} == {0.0, 1.0}
    }
    for name, (a, b) in present.items():
        if min(len(a), len(b)) >= FEWEST and {*a} ^ {*b} == {0.0, 1.0}:
            missing = those if not any(a) else these
            raise Contradiction(
                f"{these} have other numbers: {name} has no value in the {missing}, and has in the others"
            )
    pairs |= {f"share of runs with a value of {name}": pair for name, pair in present.items()}
    finite = {name: (_finite(a), _finite(b)) for name, (a, b) in pairs.items()}
    family = {name: same_mean(a, b) for name, (a, b) in finite.items() if len(a) >= FEWEST and b}
    if not family:
        return f"; fewer than {FEWEST} {those} can be compared with them"
    worst = min(family, key=lambda name: family[name])
    adjusted = min(statistics.holm([*family.values()]))
    means = [float(np.mean(values)) for values in finite[worst]]
    finding = f"{worst} is {means[0]:.3g} in {those} and {means[1]:.3g} in {these}, p = {adjusted:.2g}"
    finding += f" after Holm over {len(family)} numbers"
    if adjusted < LEVEL:
        raise Contradiction(f"{these} have other numbers: {finding}")
    return f", without a significant difference: {finding}"


def _present(values: Sequence[float | None]) -> list[float]:
    return [float(value is not None and np.isfinite(value)) for value in values]


def same_mean(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p of "one mean" for two samples (n,) and (m,): Student's t of pooled variance.

    t = (mean a - mean b) / (s sqrt(1/n + 1/m)) with n + m - 2 degrees of freedom, on the logarithms if all values are
    positive. It assumes normal values of one variance, and that members of a and b that belong together are not
    negatively correlated: with a positive correlation it rejects less often. If one of the samples does not vary,
    as numbers of rare events do not, there is no t: p is then that of a permutation test of the means.
    """
    from scipy.stats import permutation_test, t

    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    n, m = len(x), len(y)
    if min(x.min(), y.min()) > 0:
        x, y = np.log(x), np.log(y)
    apart = abs(float(x.mean() - y.mean()))
    if apart <= 1e-12 * max(abs(float(x.mean())), abs(float(y.mean()))):
        return 1.0
    spread = float(((x - x.mean()) ** 2).sum() + ((y - y.mean()) ** 2).sum())
    constant = spread <= (1e-12 * apart) ** 2 or np.ptp(x) == 0 or (m > 1 and np.ptp(y) == 0)
    if constant and min(n, m) == 1:
        return 1 / (n + m)
    if constant:
        drawn = permutation_test(
            (x, y), lambda a, b, axis: a.mean(axis) - b.mean(axis), vectorized=True,
            random_state=np.random.default_rng(0),
        )  # fmt: skip
        return float(drawn.pvalue)
    return float(2 * t.sf(apart / math.sqrt(spread / (n + m - 2) * (1 / n + 1 / m)), n + m - 2))
