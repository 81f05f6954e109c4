"""Chains one by one: the median of a row, the share of those that failed, and how often its bound holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.analysis.statistics import most_failures
from harness.reporting.scoring.accuracy import chain_estimates, failed_shares, medians

pytestmark = pytest.mark.numbers


def test_medians_are_those_of_resampled_chains():
    values, seeds = np.array([3.0, 1.0, 2.0, 9.0, 8.0, 7.0]), np.repeat([4, 9], 3)
    *drawn, whole = medians(values, seeds)
    assert whole == 3.0
    assert set(drawn) == {2.0, 3.0, 8.0}  # of twice the first seed, of both, of twice the second


def test_a_chain_failed_above_ten_times_the_median():
    shares = failed_shares({0: np.array([1.0, 1.0, 9.9, 10.1]), 1: np.array([1.0, 1.0, 1.0, math.inf])})
    assert shares == {0: 0.25, 1: 0.25}


def test_chains_that_are_not_finite_failed_also_where_the_median_is_not():
    assert failed_shares({0: np.array([1.0, 1.0]), 1: np.array([math.inf, math.inf])}) == {0: 0.0, 1: 1.0}
    assert failed_shares({0: np.array([1.0, math.inf]), 1: np.array([math.inf, math.inf])}) == {0: 0.5, 1: 1.0}


@pytest.mark.parametrize("seeds", [5, 30])
def test_where_none_failed_the_bound_is_three_over_n(seeds):
    errors = 0.1 + np.random.default_rng(0).random((8 * seeds, 3)) / 100
    share = chain_estimates(errors, np.repeat(np.arange(seeds), 8), seeds)["failed_chains"]
    assert (share.mean, share.high) == (0.0, most_failures(0, seeds))
    assert share.high == pytest.approx(3 / seeds, rel=0.3)


@pytest.mark.parametrize("together", [True, False], ids=["whole seeds", "chains one by one"])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("seeds", [5, 20])
def test_the_bound_holds_in_95_percent_of_rows(seeds, share, together):
    draw, times = np.random.default_rng([seeds, together]), 2_000
    failed = draw.random((times, seeds, 1 if together else 8)) < share
    bounds = [most_failures(math.ceil(row.mean(axis=1).sum() - 1e-9), seeds) for row in failed]
    assert np.mean(np.array(bounds) < share) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / times)
