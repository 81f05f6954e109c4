import numpy as np
import pytest
from scipy.signal import lfilter

from harness.analysis.diagnostics import bulk_ess, ess_of_autocorrelation, tail_ess
from tasks.regression.series import reference_ess

pytestmark = pytest.mark.numbers


def ar1(phi, shape, seed=0):
    """Stationary AR(1) chains of mean 0 and sd 1, time first."""
    noise = np.random.default_rng(seed).normal(size=shape)
    noise[1:] *= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=0)


def slow_reference_ess(x, mean, sd, cut):
    n, total = len(x), 0.0
    for s in range(1, n):
        rho = sum((x[t] - mean) * (x[t - s] - mean) for t in range(s, n)) / (sd**2 * (n - s))
        if rho < cut:
            break
        total += (1 - s / n) * rho
    return n / (1 + 2 * total)


@pytest.mark.parametrize(("phi", "expected"), [(0.5, 1740), (0.9, 277), (0.99, 26.9)])
def test_exact_autocorrelation_of_ar1_gives_the_known_values(phi, expected):
    ess = ess_of_autocorrelation(phi ** np.arange(5000), cut=0.05)
    assert ess == pytest.approx(expected, abs=0.51 if expected > 100 else 0.051)


def test_fft_equals_the_double_loop():
    x = 3.0 + 2.0 * ar1(0.8, (60, 3, 2), seed=1)
    mean, sd = np.array([2.8, 3.1]), np.array([2.2, 1.9])
    ess = reference_ess(x, mean, sd, cut=0.1)
    expected = [[slow_reference_ess(x[:, c, d], mean[d], sd[d], 0.1) for d in range(2)] for c in range(3)]
    np.testing.assert_allclose(ess, expected, rtol=1e-10)


def test_frozen_chains():
    x = np.zeros((5000, 2))
    x[:, 1] = 1.0
    at_mean, off_mean = reference_ess(x, 0.0, 1.0)
    assert at_mean == 5000
    assert off_mean == pytest.approx(1.0, rel=1e-6)


def test_anticorrelated_draws_do_not_exceed_n():
    assert reference_ess(ar1(-0.9, (2000,)), 0.0, 1.0) == 2000


def test_a_diverged_chain_is_nan_and_leaves_its_neighbours_alone():
    x = ar1(0.5, (500, 2))
    clean = reference_ess(x, 0.0, 1.0)
    x[100:, 0] = np.inf
    broken = reference_ess(x, 0.0, 1.0)
    assert np.isnan(broken[0])
    assert broken[1] == clean[1]


def waves(n, chains):
    t = np.arange(float(n))[:, None] + 37 * np.arange(chains)
    return np.sin(t**2 / 7) + 0.5 * np.sin(t / 3)


@pytest.mark.parametrize(
    ("draws", "bulk", "tail"),
    [
        (waves(200, 4), 362.3223742014049, 488.6481793846965),
        (waves(101, 3), 172.90540645395734, 204.30299548115605),
        (waves(121, 1), 67.19687975269134, 47.252127346834996),
        (waves(9, 2), 19.265919722494797, 16),
        (np.cumsum(waves(90, 2), axis=0), 3.0376859490563928, 12.001939707427466),
        (waves(80, 2) > 0.3, 141.07178330461585, 141.0717833046159),
        (waves(80, 2) < 1.42, 171.76364456472706, 160),
        (np.cumprod(-np.ones((41, 2)), axis=0) + 0.1 * waves(41, 2), 152.24719895935547, 94.09905163329819),
    ],
    ids=["even", "odd", "an order statistic", "short", "slow", "two values", "two values, rare", "alternating"],
)
def test_bulk_and_tail_ess_agree_with_arviz(draws, bulk, tail):
    # az.ess(draws.T, method="bulk") and "tail" of these very arrays, with arviz 0.23.4
    assert bulk_ess(draws[:, :, None])[0] == pytest.approx(bulk, rel=1e-9)
    assert tail_ess(draws[:, :, None])[0] == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize("function", [bulk_ess, tail_ess])
def test_constant_and_diverged_coordinates_are_nan(function):
    x = ar1(0.5, (100, 2, 4), seed=6)
    clean = function(x)
    x[:, :, 0] = 0.1
    x[50, 1, 1] = np.nan
    x[50:, 0, 2] = np.inf
    np.testing.assert_array_equal(function(x), [np.nan, np.nan, np.nan, clean[3]])


@pytest.mark.parametrize("function", [bulk_ess, tail_ess])
def test_too_few_draws_or_a_missing_axis_are_errors(function):
    with pytest.raises(ValueError, match="at least 4 draws"):
        function(np.zeros((3, 2, 1)))
    with pytest.raises(ValueError, match=r"\(n, C, D\)"):
        function(np.zeros((10, 2)))


@pytest.mark.parametrize("n", [40, 41, 61, 101, 121])
def test_tail_ess_is_that_of_arviz_where_a_quantile_is_a_draw(n):
    arrays = pytest.importorskip("arviz_stats.base").array_stats
    for chain in np.random.default_rng(n).normal(size=(20, n)):
        expected = arrays.ess(chain[None], chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95))
        assert tail_ess(chain[:, None, None])[0] == pytest.approx(expected, rel=1e-9)
