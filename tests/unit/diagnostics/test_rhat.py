import numpy as np
import pytest
from scipy.stats import norm, rankdata

from harness.analysis.diagnostics import rank_normalised_split_rhat

pytestmark = pytest.mark.numbers


def slow_rhat(x):
    """x (n, C): the definition of Vehtari et al., one coordinate, no shared code."""
    half = len(x) // 2
    split = np.hstack([x[:half], x[-half:]])
    rhats = []
    for y in (split, np.abs(split - np.median(split))):
        z = norm.ppf((rankdata(y) - 3 / 8) / (y.size + 1 / 4)).reshape(y.shape)
        between = half * np.var(z.mean(axis=0), ddof=1)
        within = np.mean(np.var(z, axis=0, ddof=1))
        rhats.append(np.sqrt(((half - 1) / half * within + between / half) / within))
    return max(rhats)


@pytest.mark.parametrize(("n", "chains"), [(100, 4), (101, 2), (50, 1)])
def test_equals_the_definition(n, chains):
    x = np.random.default_rng(0).standard_t(2, size=(n, chains, 3)) + np.arange(chains)[:, None]
    expected = [slow_rhat(x[:, :, d]) for d in range(3)]
    np.testing.assert_allclose(rank_normalised_split_rhat(x), expected, rtol=1e-12)


def test_sees_location_spread_and_drift_and_passes_equal_chains():
    x = np.random.default_rng(1).normal(size=(1000, 4, 4))
    x[:, 0, 1] += 1.0
    x[:, 0, 2] *= 3.0
    x[:, :, 3] += np.linspace(0, 2, 1000)[:, None]
    equal, location, spread, drift = rank_normalised_split_rhat(x)
    assert equal < 1.01
    assert min(location, spread, drift) > 1.05


def test_infinite_variance_is_no_obstacle():
    x = np.random.default_rng(2).standard_cauchy(size=(1000, 4, 1))
    assert rank_normalised_split_rhat(x)[0] < 1.01


def test_degenerate_coordinates():
    x = np.random.default_rng(3).normal(size=(100, 2, 5))
    clean = rank_normalised_split_rhat(x)[4]
    x[:, :, 0] = 0.1
    x[:, :, 1] = [1.0, 2.0]
    x[3, 0, 2] = np.nan
    x[:, :, 3] = np.tile([[-1.0], [1.0]], (50, 2))
    constant, stuck, broken, two_valued, plain = rank_normalised_split_rhat(x)
    assert np.isnan(constant)
    assert np.isinf(stuck)
    assert np.isnan(broken)
    assert two_valued == pytest.approx(1.0, abs=0.02)
    assert plain == clean
