from types import SimpleNamespace

import numpy as np
import pytest

from harness.analysis.diagnostics import CURVES, DrawSums, LowError

pytestmark = pytest.mark.numbers

GRID = np.array([1, 2, 5, 10, 64, 65, 200])


@pytest.fixture
def truth():
    x = np.random.default_rng(9).gamma(3.0, size=(500, 3)) * [1.0, 4.0, 0.2] - 1.0
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    moments = {"z3": (z**3).mean(axis=0), "z4": (z**4).mean(axis=0), "var_x2": (x**2).var(axis=0)}
    return SimpleNamespace(mean=x.mean(axis=0), sd=x.std(axis=0), **moments)


@pytest.fixture
def block():
    rng = np.random.default_rng(0)
    return rng.gamma(3.0, size=(200, 4, 3)) - 1.0, rng.uniform(0.1, 2.0, size=(200, 4))


def one_shot(draws, weights, f, true_mean, true_var):
    """b2 (C, D) from the definition, on the whole array at once."""
    average = (weights[..., None] * f(draws)).sum(axis=0) / weights.sum(axis=0)[:, None]
    return (average - true_mean) ** 2 / true_var


def along_the_axes(truth, grid=GRID):
    return LowError(DrawSums(truth.mean, np.diag(truth.sd**2), np.eye(len(truth.mean))), truth.z3, truth.z4, grid)


def streamed(truth, draws, weights, sizes, grid=GRID):
    accumulator = along_the_axes(truth, grid)
    start = 0
    for size in sizes:
        accumulator.update(draws[start : start + size], weights[start : start + size])
        start += size
    return accumulator


def test_curves_follow_the_definition_for_all_four_functions(truth, block):
    draws, weights = block
    curves = streamed(truth, draws, weights, [200]).curves()
    functions = {
        "z": (lambda x: (x - truth.mean) / truth.sd, 0.0, 1.0),
        "z2": (lambda x: ((x - truth.mean) / truth.sd) ** 2, 1.0, truth.z4 - 1),
        "x": (lambda x: x, truth.mean, truth.sd**2),
        "x2": (lambda x: x**2, truth.mean**2 + truth.sd**2, truth.var_x2),
    }
    assert set(curves) == set(CURVES)
    for name, (f, mean, var) in functions.items():
        for k, t in enumerate(GRID):
            b2 = one_shot(draws[:t], weights[:t], f, mean, var)
            np.testing.assert_allclose(curves[f"b2_{name}_max"][:, k], b2.max(axis=1), rtol=1e-9)
            np.testing.assert_allclose(curves[f"b2_{name}_mean"][:, k], b2.mean(axis=1), rtol=1e-9)


@pytest.mark.parametrize("sizes", [[1] * 200, [64, 1, 135], [65, 135], [7] * 28 + [4], [0, 200, 0]])
def test_blocking_does_not_matter(truth, block, sizes):
    whole, parts = streamed(truth, *block, [200]), streamed(truth, *block, sizes)
    for name, curve in whole.curves().items():
        np.testing.assert_allclose(parts.curves()[name], curve, rtol=1e-10)
    np.testing.assert_allclose(parts.final_errors(), whole.final_errors(), rtol=1e-10)


def test_counts_not_reached_are_nan(truth, block):
    curve = streamed(truth, *block, [64]).curves()["b2_z_max"]
    assert np.isfinite(curve[:, :5]).all()
    assert np.isnan(curve[:, 5:]).all()


def test_state_round_trip_is_exact_and_independent(truth, block):
    draws, weights = block
    first = streamed(truth, draws, weights, [70])
    saved, sums = first.state(), first.sums.state()
    second = along_the_axes(truth)
    second.load(saved)
    second.sums.load(sums)
    first.update(draws[70:], weights[70:])
    second.update(draws[70:], weights[70:])
    for name, array in first.state().items():
        np.testing.assert_array_equal(second.state()[name], array)
    assert saved["count"] == 70
    assert np.isnan(saved["curves"][:, :, -1]).all()


def test_a_state_of_another_grid_is_refused(truth):
    with pytest.raises(ValueError, match="another grid"):
        along_the_axes(truth).load(along_the_axes(truth, [1, 2]).state())


@pytest.mark.parametrize("z4", [1.0, np.nan])
def test_impossible_moments_are_refused(truth, z4):
    truth.z4[1] = z4
    with pytest.raises(ValueError, match="z4 must exceed 1"):
        along_the_axes(truth)


def test_a_diverged_chain_is_far_from_low_and_leaves_the_others_alone(truth, block):
    draws, weights = block
    clean = streamed(truth, draws, weights, [200]).curves()["b2_z_max"]
    broken = draws.copy()
    broken[30:, 1], broken[60, 2] = np.nan, 1e200
    curve = streamed(truth, broken, weights, [200]).curves()["b2_z_max"]
    assert np.isfinite(curve[1, :4]).all()
    assert np.isinf(curve[1, 4:]).all()
    assert np.isinf(curve[2, 4:]).all()
    np.testing.assert_array_equal(curve[[0, 3]], clean[[0, 3]])


def test_sums_stay_accurate_far_from_the_origin():
    truth = SimpleNamespace(mean=np.array([1e6]), sd=np.ones(1), z3=np.zeros(1), z4=np.full(1, 3.0))
    z = np.random.default_rng(2).normal(size=(100_000, 1, 1))
    z -= z.mean()
    accumulator = along_the_axes(truth, [100_000])
    for part in np.split(z + 1e6, 100):
        accumulator.update(part, np.ones(part.shape[:2]))
    assert accumulator.curves()["b2_z_max"][0, 0] < 1e-20
