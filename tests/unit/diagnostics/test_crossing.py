import numpy as np
import pytest

from harness.analysis.diagnostics import bootstrap_low_error, passes_to_low_error

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


def test_the_bootstrap_resamples_seeds_not_rows():
    # 8 seeds of 5 rows: four cross at 2, four at 4. Seed medians move much more than row medians would.
    early, late = [1, 0, 0, 0, 0], [1, 1, 1, 0, 0]
    curves = np.array([early] * 20 + [late] * 20, dtype=float)
    seeds = np.arange(40) // 5
    replicates = bootstrap_low_error(curves, COST, seeds)
    assert set(replicates) == {2.0, 4.0}
    # P(fewer than half of the rows are early) etc.: late wins ties, since the median averages 0 and 1.
    expected = 0.5 + 70 / 256 / 2  # binomial(8, 1/2) <= 4
    assert np.mean(replicates == 4.0) == pytest.approx(expected, abs=5 * np.sqrt(0.25 / len(replicates)))
    result = passes_to_low_error(curves, COST, seeds)
    assert result.low < 2.0 < result.value == 4.0 < result.high
