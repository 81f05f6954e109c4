from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm, rankdata

from harness.analysis.diagnostics import bulk_ess, ess_mse, ess_of_autocorrelation, reference_ess, tail_ess


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


def slow_multichain_ess(x):
    """The formula of ArviZ on x (n, M) with plain loops: initial positive, then monotone, sequence of pairs."""
    n, chains = x.shape
    centred = x - x.mean(axis=0)
    within = x.var(axis=0, ddof=1).mean()
    total = within * (n - 1) / n + (x.mean(axis=0).var(ddof=1) if chains > 1 else 0)
    acov = [np.mean([centred[s:, c] @ centred[: n - s, c] / n for c in range(chains)]) for s in range(n)]
    rho = [1.0] + [1 - (within - a) / total for a in acov[1:]]
    tau, smallest, k = -1.0, np.inf, 0
    while 2 * k + 1 < n - 3 and rho[2 * k] + rho[2 * k + 1] > 0:
        smallest = min(smallest, rho[2 * k] + rho[2 * k + 1])
        tau += 2 * smallest
        k += 1
    tau += max(rho[2 * k], 0.0)
    return n * chains / max(tau, 1 / np.log10(n * chains))


def halves(x):
    half = len(x) // 2
    return np.hstack([x[:half], x[-half:]])


@pytest.mark.parametrize(("phi", "expected"), [(0.5, 1740), (0.9, 277), (0.99, 26.9)])
def test_exact_autocorrelation_of_ar1_gives_the_known_values(phi, expected):
    ess = ess_of_autocorrelation(phi ** np.arange(5000), cut=0.05)
    assert ess == pytest.approx(expected, abs=0.51 if expected > 100 else 0.051)


@pytest.mark.parametrize("phi", [0.5, 0.9, 0.99])
def test_without_the_cut_the_values_are_those_of_the_whole_sum(phi):
    expected = 5000 * (1 - phi) / (1 + phi)
    # the factor 1 - s/n takes a share of about tau / n = 1 / expected off tau
    assert ess_of_autocorrelation(phi ** np.arange(5000), cut=0.0) == pytest.approx(expected, rel=1 / expected)


@pytest.mark.statistical
@pytest.mark.parametrize(("phi", "lags"), [(0.5, 0), (0.9, 2)])
def test_simulated_ar1_scores_the_theoretical_ess(phi, lags):
    n = 200_000
    ess = np.concatenate([reference_ess(ar1(phi, (n, 8), seed), 0.0, 1.0) for seed in range(8)])
    expected = ess_of_autocorrelation(phi ** np.arange(n))
    error = 5 * ess.std(ddof=1) / np.sqrt(len(ess))  # 5 standard errors: false alarms below 1e-5
    # Where rho falls slowly (phi = .9: by .005 a lag, with noise of .01) noise moves the cut by a few lags,
    # each worth 2 * 0.05 / tau.
    tolerance = error + lags * 0.1 * expected**2 / n
    assert tolerance < 0.035 * expected  # the cut itself is worth 5 %
    assert abs(ess.mean() - expected) < tolerance


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


@pytest.mark.parametrize(("phi", "n", "chains"), [(0.5, 200, 4), (0.9, 201, 3), (-0.5, 100, 2), (0.97, 150, 1)])
def test_bulk_ess_equals_plain_loops(phi, n, chains):
    x = ar1(phi, (n, chains, 2), seed=2)
    for d in range(2):
        split = halves(x[:, :, d])
        scores = norm.ppf((rankdata(split) - 3 / 8) / (split.size + 1 / 4)).reshape(split.shape)
        assert bulk_ess(x)[d] == pytest.approx(slow_multichain_ess(scores), rel=1e-9)


@pytest.mark.parametrize("phi", [0.3, 0.9])
def test_tail_ess_equals_plain_loops(phi):
    x = ar1(phi, (200, 4, 2), seed=3)
    for d in range(2):
        split = halves(x[:, :, d])
        both = [slow_multichain_ess((split <= np.quantile(split, q)).astype(float)) for q in (0.05, 0.95)]
        assert tail_ess(x)[d] == pytest.approx(min(both), rel=1e-9)


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


@pytest.mark.statistical
def test_bulk_ess_of_ar1_is_near_n_times_1_minus_phi_over_1_plus_phi():
    n, chains, phi = 5000, 4, 0.6
    ess = bulk_ess(ar1(phi, (n, chains, 40), seed=4))
    assert ess.mean() == pytest.approx(n * chains * (1 - phi) / (1 + phi), rel=0.04)


def test_bulk_ess_is_blind_to_monotone_transformation():
    x = ar1(0.7, (300, 4, 1), seed=5)
    np.testing.assert_allclose(bulk_ess(np.exp(3 * x)), bulk_ess(x), rtol=1e-12)


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


def test_ess_mse_is_one_over_the_mean_squared_error():
    np.testing.assert_allclose(ess_mse([[0.1, 0.0], [-0.3, 0.0]]), [1 / 0.05, np.inf])


@pytest.mark.statistical
def test_ess_mse_of_exact_draws_is_n_and_a_frozen_chain_gains_nothing():
    n, replicates = 400, 4000
    errors = np.random.default_rng(7).normal(size=(replicates, 2)) / np.sqrt(n)
    errors[:, 1] = np.random.default_rng(8).normal(size=replicates)  # frozen at one exact draw
    ess = ess_mse(errors)
    tolerance = 5 * np.sqrt(2 / replicates)  # relative sd of a mean of squares
    assert ess[0] == pytest.approx(n, rel=tolerance)
    assert ess[1] == pytest.approx(1.0, rel=tolerance)
