"""What is printed as a 95 % interval, of a statistic over chains x seeds or of a comparison, holds the truth about that
often.
"""

import numpy as np
import pytest
from scipy.stats import binom

from harness.analysis.diagnostics import passes_to_low_error
from harness.analysis.diagnostics.crossing import last_crossing
from harness.analysis.statistics import paired_test
from harness.reporting.scoring.accuracy import ESS_MSE, JOINT, LOW_ERROR, median_size, worst
from harness.reporting.scoring.estimates import bootstrap_ends, resampled_means
from harness.reporting.scoring.ratios import ratio_test, statistic

AXIS = np.unique(np.geomspace(5, 1000, 60).astype(int)).astype(float)
CHAINS = 8


def errors(draw, size, dim, widest=1.0):
    """Errors of averages, (R, D), with an effect of the seed that its chains share; the first direction's are wider."""
    each, shared = draw.normal(size=(size, CHAINS, dim)), draw.normal(size=(size, 1, dim))
    scale = np.where(np.arange(dim) == 0, widest, 1.0)
    return (0.1 * scale * (each + 0.5 * shared)).reshape(size * CHAINS, dim)


def curves(draw, size):
    """b2 of running averages of independent draws in three coordinates, with an effect of the seed."""
    steps = draw.normal(size=(size * CHAINS, 3, len(AXIS))) * np.sqrt(np.diff(AXIS, prepend=0.0))
    luck = np.repeat(np.exp(0.3 * draw.normal(size=size)), CHAINS)
    return luck[:, None] * ((steps.cumsum(axis=2) / AXIS) ** 2).max(axis=1)


def of_squares(statistic, truth, **how):
    def holds(draw, size):
        squares, seeds = errors(draw, size, **how) ** 2, np.repeat(np.arange(size), CHAINS)
        point = float(statistic(squares.mean(axis=0)))
        low, high, _ = bootstrap_ends(point, statistic(resampled_means(squares, seeds)), size)
        return low <= truth <= high

    return holds


def cost(draw, size):
    passes = passes_to_low_error(curves(draw, size), AXIS, np.repeat(np.arange(size), CHAINS))
    return passes.low <= LIMIT <= passes.high


LIMIT = last_crossing(np.median(curves(np.random.default_rng(0), 400), axis=0), AXIS, 0.01)
"""Of 3,200 chains: to within a point or two of the axis, as the intervals are."""
CASES = {
    "joint error, one worst direction": of_squares(worst, 9 * 0.0125, dim=10, widest=3.0),
    "joint error, ten equal directions": of_squares(worst, 0.0125, dim=10),
    "effective size": of_squares(median_size, 1 / 0.0125, dim=10),
    "cost": cost,
}


@pytest.mark.statistical
@pytest.mark.parametrize("size", [5, 10])
@pytest.mark.parametrize("case", CASES)
def test_an_interval_holds_the_truth_in_nine_of_ten_at_least(case, size):
    draw = np.random.default_rng([1, size])
    share = np.mean([CASES[case](draw, size) for _ in range(200)])
    assert share >= binom.ppf(1e-3 / 8, 200, 0.9) / 200, share


def ten(draw, size):
    return errors(draw, size, 10)


def one(draw, size):
    """The same joint error as `ten`, but all in one direction."""
    return errors(draw, size, 10) * np.where(np.arange(10) == 0, 1.0, 0.3)


def low(points, diverged=0.0):
    """Curves by a budget that ends after so many points; if they are few, the error is often not low by then."""

    def drawn(draw, size):
        lost = np.repeat(draw.random(size) < diverged, CHAINS)
        return np.where(lost[:, None], np.inf, curves(draw, size)[:, :points])

    return drawn


RATIOS = {
    "joint error, the same law": (JOINT, ten, ten, 1.0),
    "joint error, as large in one direction as in ten": (JOINT, ten, one, 1.0),
    "joint error, three times as large": (JOINT, one, one, 3.0),
    "effective size": (ESS_MSE, ten, ten, 1.0),
    "cost": (LOW_ERROR, low(60), low(60), 1.0),
    "cost, often never reached": (LOW_ERROR, low(40), low(40), 1.0),
    "cost, half of the seeds diverge": (LOW_ERROR, low(60, 0.5), low(60, 0.5), 1.0),
}
"""Metric, errors of A and of B, and what those of A are multiplied by."""


def by_seed(metric, rows, size):
    """The rows (R, n) as curves (C, k, n) of each seed: low error has two, here equal."""
    return np.split(np.stack([rows] * (2 if metric == LOW_ERROR else 1), axis=1), size)


@pytest.mark.statistical
@pytest.mark.parametrize("size", [3, 5, 10])
@pytest.mark.parametrize("case", RATIOS)
def test_an_interval_of_a_ratio_holds_it_in_95_per_cent(case, size):
    metric, a, b, factor = RATIOS[case]
    draw, times, missed = np.random.default_rng([2, size]), 200, 0
    for _ in range(times):
        sides = [by_seed(metric, side, size) for side in (factor * a(draw, size), b(draw, size))]
        axis = AXIS[: sides[0][0].shape[-1]]
        if all(np.isinf(statistic(np.concatenate(side), axis, metric)) for side in sides):
            continue  # there is no ratio
        tested = ratio_test(metric, axis, *sides)
        truth = np.log(factor**2)
        missed += tested.low is not None and not tested.low <= truth <= tested.high
    assert missed <= binom.isf(1e-3 / 21, times, 0.05), missed


@pytest.mark.statistical
@pytest.mark.parametrize("size", [3, 5, 9, 10, 14])
@pytest.mark.parametrize("law", ["normal", "t, 3 df", "uniform"])
def test_an_interval_of_a_difference_holds_it_in_95_per_cent(law, size):
    """Sign flips assume symmetry alone, from ten seeds on; a t below that, of normal differences."""
    draw, times = np.random.default_rng([3, size]), 500
    draws = {
        "normal": draw.normal(size=(times, size)),
        "t, 3 df": draw.standard_t(3, size=(times, size)),
        "uniform": draw.uniform(-1, 1, size=(times, size)),
    }[law]
    missed = 0
    for differences in 2.0 + draws:
        tested = paired_test(differences)
        missed += not tested.low <= 2.0 <= tested.high
    least, most = binom.ppf(1e-4, times, 0.05), binom.isf(1e-4, times, 0.05)
    assert missed <= most
    assert missed >= least or size < 10
