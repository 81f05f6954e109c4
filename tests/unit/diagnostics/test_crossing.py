import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.diagnostics import bootstrap_low_error, last_crossing, passes_to_low_error
from harness.analysis.diagnostics.crossing import RESAMPLES, THRESHOLD
from harness.analysis.statistics import bootstrap_interval

pytestmark = pytest.mark.numbers

COST = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def same_rows(curve, rows=32):
    return np.tile(np.asarray(curve, dtype=float), (rows, 1)), np.arange(rows) // 4


def value_of(curve, rows=32):
    curves, seeds = same_rows(curve, rows)
    return passes_to_low_error(curves, COST, seeds).value


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([1, 0.1, 0.009, 0.008, 0.001], 3.0),
        ([1, 0.001, 0.5, 0.008, 0.001], 4.0),  # the dip at 2 does not count: the last crossing does
        ([0.001, 0.001, 0.001, 0.001, 0.001], 1.0),
        ([1, 0.1, 0.001, 0.001, 0.02], np.inf),
        ([1, 1, 1, 1, 0.01], 5.0),  # at the threshold is low
    ],
)
def test_last_crossing(curve, expected):
    assert value_of(curve) == expected


def test_it_is_the_crossing_of_the_median_curve_not_the_median_of_crossings():
    # Each row is high at one point of its own: no row's own crossing is 1, and the median is always low.
    curves = np.full((40, 5), 0.001)
    curves[np.arange(40), np.arange(40) % 4] = 1.0
    result = passes_to_low_error(curves, COST, np.arange(40))
    assert result.value == 1.0
    assert result.share == 1.0


def test_fewer_than_32_chains_give_no_value_but_a_reason():
    curves, seeds = same_rows([1, 1, 0, 0, 0], rows=31)
    result = passes_to_low_error(curves, COST, seeds)
    assert (result.value, result.low, result.high) == (None, None, None)
    assert result.reason is not None
    assert "31 chains" in result.reason
    assert result.share == 1.0


def test_points_past_the_end_of_every_row_are_cut_and_a_short_row_is_not_low():
    curves, seeds = same_rows([1, 1, 0, 0, np.nan], rows=40)
    assert passes_to_low_error(curves, COST, seeds).value == 3.0
    curves[:21, 3] = np.nan
    result = passes_to_low_error(curves, COST, seeds)
    assert result.value == np.inf
    assert result.share == pytest.approx(19 / 40)


B2 = st.sampled_from([0.0, 0.004, THRESHOLD, np.nextafter(THRESHOLD, 1), 0.012, 0.016, 0.5, np.inf, np.nan])


def by_medians(curves, cost, seeds):
    rows = [np.flatnonzero(seeds == seed) for seed in np.unique(seeds)]
    drawn = np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))
    chosen = (curves[np.concatenate([rows[i] for i in picks])] for picks in drawn)
    with np.errstate(over="ignore"):  # the mean of two infinite ones
        return np.array([last_crossing(np.median(part, axis=0), cost, THRESHOLD) for part in chosen])


@settings(max_examples=15, deadline=None)
@given(data=st.data(), seeds=st.lists(st.integers(0, 4), min_size=1, max_size=9), points=st.integers(1, 4))
def test_it_is_the_crossing_of_medians_of_resampled_rows(data, seeds, points):
    row = st.lists(B2, min_size=points, max_size=points)
    curves = np.array(data.draw(st.lists(row, min_size=len(seeds), max_size=len(seeds))))
    curves[:, -1] = np.nan_to_num(curves[:, -1], nan=np.inf)  # so that no point is cut off
    cost, seeds = np.arange(1.0, points + 1), np.array(seeds)
    expected = by_medians(np.where(np.isnan(curves), np.inf, curves), cost, seeds)
    np.testing.assert_array_equal(bootstrap_low_error(curves, cost, seeds), expected)


def test_the_interval_is_of_the_replicates():
    curves = np.random.default_rng(1).choice([0.001, 0.5], size=(40, 6))
    cost, seeds = np.arange(6.0), np.arange(40) // 4
    crossing = passes_to_low_error(curves, cost, seeds)
    np.testing.assert_array_equal(crossing.replicates, bootstrap_low_error(curves, cost, seeds))
    ends = bootstrap_interval(crossing.value, crossing.replicates, 10)
    assert (crossing.low, crossing.high) == tuple(end if end <= 5 else np.inf for end in ends)
