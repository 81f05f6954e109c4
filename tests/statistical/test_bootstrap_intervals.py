"""What is printed as a 95 % interval of a statistic over chains x seeds holds the truth about that often."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from harness.analysis.diagnostics import passes_to_low_error
from harness.analysis.diagnostics.crossing import last_crossing
from harness.reporting.scoring.accuracy import median_size, worst
from harness.reporting.scoring.estimates import bootstrap_ends, resampled_means

AXIS = np.unique(np.geomspace(5, 1000, 60).astype(int)).astype(float)
CHAINS = 8


def errors(draw, size, dim, widest=1.0):
    """Errors of averages, (R, D), with an effect of the seed that its chains share; the first direction's are wider."""
    own, shared = draw.normal(size=(size, CHAINS, dim)), draw.normal(size=(size, 1, dim))
    scale = np.where(np.arange(dim) == 0, widest, 1.0)
    return (0.1 * scale * (own + 0.5 * shared)).reshape(size * CHAINS, dim)


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
    found = passes_to_low_error(curves(draw, size), AXIS, np.repeat(np.arange(size), CHAINS))
    return found.low <= LIMIT <= found.high


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
