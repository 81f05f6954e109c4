from __future__ import annotations

import numpy as np
import pytest

from harness.analysis.diagnostics import RunningMoments


@pytest.fixture
def block():
    rng = np.random.default_rng(0)
    return rng.normal(5.0, 2.0, size=(200, 3, 2)), rng.uniform(0.1, 2.0, size=(200, 3))


def fill(draws, weights, sizes):
    moments, start = RunningMoments(), 0
    for size in sizes:
        moments.update(draws[start : start + size], weights[start : start + size])
        start += size
    return moments


@pytest.mark.parametrize("sizes", [[200], [1] * 200, [0, 150, 50], [7] * 28 + [4]])
def test_unit_weights_give_the_usual_mean_and_variance(block, sizes):
    draws, weights = block
    moments = fill(draws, np.ones_like(weights), sizes)
    np.testing.assert_allclose(moments.per_chain().mean, draws.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.per_chain().variance, draws.var(axis=0, ddof=1), rtol=1e-12)
    np.testing.assert_allclose(moments.pooled().mean, draws.mean(axis=(0, 1)), rtol=1e-12)
    np.testing.assert_allclose(moments.pooled().variance, draws.var(axis=(0, 1), ddof=1), rtol=1e-12)


@pytest.mark.parametrize("sizes", [[200], [1] * 200, [13, 187]])
def test_weights_follow_the_definition(block, sizes):
    draws, weights = block
    moments = fill(draws, weights, sizes)
    for c in range(3):
        expected = np.cov(draws[:, c].T, aweights=weights[:, c])
        np.testing.assert_allclose(moments.per_chain().variance[c], np.diag(expected), rtol=1e-12)
        average = np.average(draws[:, c], axis=0, weights=weights[:, c])
        np.testing.assert_allclose(moments.per_chain().mean[c], average, rtol=1e-12)
    pooled = np.cov(draws.reshape(-1, 2).T, aweights=weights.ravel())
    np.testing.assert_allclose(moments.pooled().variance, np.diag(pooled), rtol=1e-12)


def test_a_large_offset_costs_no_accuracy():
    z = np.random.default_rng(1).normal(size=(10_000, 1, 1))
    moments = fill(z + 1e8, np.ones((10_000, 1)), [100] * 100)
    assert moments.per_chain().variance[0, 0] == pytest.approx(z.var(ddof=1), rel=1e-6)


def test_state_round_trip_is_exact_and_independent(block):
    draws, weights = block
    first, second = fill(draws, weights, [90]), RunningMoments()
    saved = first.state()
    second.load(saved)
    for moments in (first, second):
        moments.update(draws[90:], weights[90:])
    for name, array in first.state().items():
        np.testing.assert_array_equal(second.state()[name], array)
        assert not np.array_equal(saved[name], array)
    empty = RunningMoments()
    empty.load(RunningMoments().state())
    with pytest.raises(ValueError, match="no draws"):
        empty.pooled()


def test_no_variance_from_one_draw_and_none_of_a_chain_without_weight():
    moments = fill(np.ones((2, 2, 1)), np.array([[1.0, 0.0], [0.0, 0.0]]), [1, 1])
    np.testing.assert_array_equal(moments.per_chain().mean, [[1.0], [np.nan]])
    np.testing.assert_array_equal(moments.per_chain().variance, [[np.nan], [np.nan]])


def test_a_diverged_chain_leaves_the_others_alone(block):
    draws, weights = block
    broken = draws.copy()
    broken[100:, 0] = np.inf
    moments = fill(broken, weights, [50] * 4)
    assert not np.isfinite(moments.per_chain().mean[0]).any()
    np.testing.assert_array_equal(
        moments.per_chain().variance[1:], fill(draws, weights, [50] * 4).per_chain().variance[1:]
    )
