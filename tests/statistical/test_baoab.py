"""BAOAB: its step by hand, the published splitting it is equal to, and its exact variance at every step size."""

import numpy as np
import pytest
from kernels import Line, stepped

from harness.engine.linear import stability_limit, stationary_variance
from plugins.samplers.baoab import BAOAB

SHAPE = (4, 3)
QUARTIC = Line(lambda x: x.square().square() / 4, lambda x: x * x.square())


@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("h", [0.003, 0.4])
def test_a_step_by_hand(h, T):
    theta, v, xi = np.random.default_rng(1).standard_normal((3, *SHAPE))
    position, state = stepped(BAOAB(friction=0.3), theta, {"v": v}, QUARTIC.potential(), h, T, xi)
    kicked = v - h * theta**3
    after = 0.7 * kicked + np.sqrt((1 - 0.7**2) * h * T) * xi
    np.testing.assert_allclose(position, theta + kicked / 2 + after / 2, rtol=1e-13)
    np.testing.assert_allclose(state["v"], after, rtol=1e-13)


def test_the_positions_are_those_of_the_splitting_with_half_kicks():
    """B A O A B with the gradient at either end of a step, as published; half a kick stands between the velocities."""
    h, T, c, steps = 0.05, 1.3, 0.8, 50
    rng = np.random.default_rng(2)
    theta, v = rng.standard_normal((2, *SHAPE))
    x, state = theta, {"v": v + h / 2 * theta**3}
    for xi in rng.standard_normal((steps, *SHAPE)):
        v = v - h / 2 * theta**3
        theta = theta + v / 2
        v = c * v + np.sqrt((1 - c**2) * h * T) * xi
        theta = theta + v / 2
        v = v - h / 2 * theta**3
        x, state = stepped(BAOAB(friction=1 - c), x, state, QUARTIC.potential(), h, T, xi)
        np.testing.assert_allclose(x, theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(state["v"] - h / 2 * x**3, v, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("x", [1e-3, 0.1, 1.0, 3.9])
@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
def test_theta_has_the_variance_of_the_target_at_every_step_size(alpha, x, T):
    assert stationary_variance(BAOAB(friction=alpha), x, T) == pytest.approx(T, rel=1e-8)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 1.0])
def test_stable_up_to_four(alpha):
    assert stability_limit(BAOAB(friction=alpha)) == pytest.approx(4.0, rel=1e-9)
