from __future__ import annotations

import numpy as np
import pytest

from harness.statistics import mean_interval, t_multiplier


@pytest.mark.parametrize(("n", "multiplier"), [(3, 4.30), (5, 2.78), (10, 2.26)])
def test_t_multipliers(n, multiplier):
    assert t_multiplier(n - 1) == pytest.approx(multiplier, abs=0.005)


def test_by_hand():
    interval = mean_interval([1.0, 2.0, 6.0])
    half = 4.302653 * np.sqrt(7.0) / np.sqrt(3.0)  # s^2 = (4 + 1 + 9) / 2
    assert interval.kind == "t"
    assert interval.mean == pytest.approx(3.0)
    assert (interval.low, interval.high) == (pytest.approx(3.0 - half), pytest.approx(3.0 + half))


def test_a_higher_level_is_wider():
    assert mean_interval([1.0, 2.0], 0.99).high > mean_interval([1.0, 2.0], 0.95).high


@pytest.mark.statistical
@pytest.mark.parametrize("n", [3, 5, 10])
def test_covers_the_mean_at_its_level(n):
    repeats = 2000
    samples = np.random.default_rng(n).normal(7.0, 3.0, size=(repeats, n))
    intervals = [mean_interval(row) for row in samples]
    covered = np.mean([i.low <= 7.0 <= i.high for i in intervals])
    assert covered == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / repeats))


def test_one_seed_has_no_interval():
    interval = mean_interval([3.0])
    assert (interval.mean, interval.low, interval.high, interval.kind) == (3.0, None, None, "none")


@pytest.mark.parametrize("value", [1.0, 0.1, np.inf])
def test_no_variance_prints_the_range(value):
    interval = mean_interval([value] * 3)
    assert (interval.mean, interval.low, interval.high, interval.kind) == (value, value, value, "range")


def test_never_among_the_values_prints_the_range():
    interval = mean_interval([10.0, np.inf, 20.0])
    assert (interval.mean, interval.low, interval.high, interval.kind) == (np.inf, 10.0, np.inf, "range")


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], [1.0, np.nan]])
def test_refuses_what_is_no_list_of_values(values):
    with pytest.raises(ValueError, match="values must"):
        mean_interval(values)
