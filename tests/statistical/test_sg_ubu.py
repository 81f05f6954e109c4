"""SG-UBU: half a step without a force against the exact solution of its equation, its variance and its order."""

import math

import numpy as np
import pytest
from kernels import Line, stepped
from scipy.linalg import expm, solve_discrete_lyapunov

from harness.engine.linear import stability_limit, stationary_variance
from plugins.samplers.sg_ubu import SGUBU

SHAPE = (4, 3)
QUARTIC = Line(lambda x: x.square().square() / 4, lambda x: x * x.square())


def solved(gamma, time):
    """The matrix and the covariance of dx = v dt, dv = -gamma v dt + sqrt(2 gamma) dW after `time` (Van Loan 1978)."""
    drift, noise = np.array([[0.0, 1.0], [0.0, -gamma]]), np.diag([0.0, 2 * gamma])
    both = expm(np.block([[-drift, noise], [np.zeros((2, 2)), drift.T]]) * time)
    matrix = both[2:, 2:].T
    return matrix, matrix @ both[:2, 2:]


@pytest.mark.parametrize("T", [0.5, 3.0])
@pytest.mark.parametrize("alpha", [0.01, 0.3, 0.99])
def test_a_step_is_a_kick_between_exact_half_steps(alpha, T):
    h = 0.04
    epsilon, gamma = math.sqrt(h), -math.log(1 - alpha) / math.sqrt(h)
    matrix, covariance = solved(gamma, epsilon / 2)
    scale = np.diag([1.0, epsilon])  # v is a displacement
    matrix = scale @ matrix @ np.linalg.inv(scale)
    covariance = T * scale @ covariance @ scale
    # xi moves v and theta, the other normal theta alone
    root = np.linalg.cholesky(covariance[::-1, ::-1])[::-1]
    theta, v, *noise = np.random.default_rng(1).standard_normal((6, *SHAPE))
    position, state = stepped(SGUBU(friction=alpha), theta, {"v": v}, QUARTIC.potential(), h, T, *noise)
    z = np.stack([theta, v])
    for half in (0, 1):
        z = np.einsum("ij,j...->i...", matrix, z) + np.einsum("ij,j...->i...", root, np.stack(noise[2 * half :][:2]))
        z[1] -= 0.0 if half else h * z[0] ** 3
    np.testing.assert_allclose(position, z[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state["v"], z[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("x", [1e-3, 0.1, 1.0, 3.5])
@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.9])
def test_theta_has_the_variance_of_the_exact_half_steps(alpha, x):
    half, noise = solved(-math.log(1 - alpha), 0.5)
    kick = np.array([[1.0, 0.0], [-x, 1.0]])
    A = half @ kick @ half
    P = solve_discrete_lyapunov(A, half @ kick @ noise @ (half @ kick).T + noise)
    assert stationary_variance(SGUBU(friction=alpha), x, 1.5) == pytest.approx(1.5 * x * P[0, 0], rel=1e-7)


def first_order(alpha):
    """c of the docstring: the variance is 1 - c x + ..."""
    k, eta2 = -math.log(1 - alpha), 1 - alpha
    return ((1 - eta2) + k * (1 - 4 * math.sqrt(eta2) + eta2) / 2) / (k * k * (1 - eta2))


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9])
def test_the_variance_is_too_small_in_the_first_order_of_h(alpha):
    x = 1e-4
    assert (1 - stationary_variance(SGUBU(friction=alpha), x, 1.0)) / x == pytest.approx(first_order(alpha), rel=1e-4)


def test_at_small_friction_a_sixth_of_x_is_missing():
    assert first_order(0.003) == pytest.approx(1 / 6, rel=1e-3)
    for x in (0.1, 1.0, 2.0, 3.6):
        assert stationary_variance(SGUBU(), x, 1.0) == pytest.approx(1 - x / 6, rel=0.01)


def test_the_bias_is_of_the_second_order():
    """In epsilon, at a fixed gamma = 1."""
    biases = [stationary_variance(SGUBU(friction=1 - math.exp(-e)), e * e, 1.0) - 1 for e in (0.2, 0.1, 0.05)]
    assert biases[0] / biases[1] == pytest.approx(4, rel=2e-3)
    assert biases[1] / biases[2] == pytest.approx(4, rel=1e-3)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9])
def test_stable_beyond_four(alpha):
    k, eta2 = -math.log(1 - alpha), 1 - alpha
    limit = 2 * k * (1 + eta2) / (1 - eta2)
    assert stability_limit(SGUBU(friction=alpha)) == pytest.approx(limit, rel=1e-7)
    assert limit > 4
