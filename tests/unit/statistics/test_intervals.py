import numpy as np
import pytest

from harness.analysis.statistics import bootstrap_interval, mean_interval

pytestmark = pytest.mark.numbers

HALF = 4.302653 * np.sqrt(7.0) / np.sqrt(3.0)
"""Of the t interval of 1, 2 and 6: s^2 = (4 + 1 + 9) / 2."""


@pytest.mark.parametrize(
    ("values", "low", "mean", "high", "kind"),
    [
        ([1.0, 2.0, 6.0], 3 - HALF, 3.0, 3 + HALF, "t"),
        ([3.0], None, 3.0, None, "none"),
        ([1.0] * 3, 1.0, 1.0, 1.0, "range"),
        ([0.1] * 3, 0.1, 0.1, 0.1, "range"),
        ([np.inf] * 3, np.inf, np.inf, np.inf, "range"),
        ([10.0, np.inf, 20.0], 10.0, np.inf, np.inf, "range"),
        ([1e200, -1e200, 3e200], -np.inf, 1e200, np.inf, "t"),  # without a warning
    ],
)
def test_an_interval_by_hand(values, low, mean, high, kind):
    interval = mean_interval(values)
    assert (interval.low, interval.mean, interval.high) == pytest.approx((low, mean, high))
    assert interval.kind == kind


def test_a_bootstrap_interval_of_logarithms_is_the_t_interval_of_a_mean():
    logs = np.random.default_rng(2).normal(size=6)
    drawn = np.random.default_rng(3).integers(6, size=(200_000, 6))
    low, high = bootstrap_interval(np.exp(logs.mean()), np.exp(logs[drawn].mean(axis=1)), 6)
    known = mean_interval(logs)
    # 200,000 replicates: their sd to 0.2 %, their mean to 0.002 sd, times 1 / (sqrt 2 - 1)
    width = np.log(high / low) / 2
    assert width == pytest.approx((known.high - known.low) / 2, rel=0.01)
    assert np.log(low * high) / 2 == pytest.approx(known.mean, abs=0.01 * width)


def test_ends_beyond_what_was_measured_are_never_or_zero():
    assert bootstrap_interval(2.0, [2.0, 2.0], 5) == (2.0, 2.0)
    assert bootstrap_interval(np.inf, [np.inf, np.inf], 5) == (np.inf, np.inf)
    low, high = bootstrap_interval(3.0, [1.0, 3.0, np.inf, 3.0], 5)
    assert low < 1.0
    assert high == np.inf
    assert bootstrap_interval(1.0, [0.0, 1.0, 2.0], 5)[0] == 0.0
    assert bootstrap_interval(1e300, [1e300, 1e100, 1e308], 5)[1] == np.inf
    for point, replicates, seeds in ((1.0, [1.0], 1), (-1.0, [1.0], 5), (1.0, [np.nan], 5)):
        with pytest.raises(ValueError, match=r"two seeds|NaN"):
            bootstrap_interval(point, replicates, seeds)
