"""Relativistic sghmc: its step by hand, the law of its momentum by quadrature, its limits, and its bound on speed."""

import numpy as np
import pytest
from kernels import Line, as_h_vanishes, kernel, stationary, stepped
from scipy.integrate import quad

from plugins.samplers.relativistic_sghmc import RelativisticSGHMC
from plugins.samplers.sghmc import SGHMC

SHAPE = (4, 3)
FLAT = Line(lambda x: 0 * x, lambda x: 0 * x)
CUBE = Line(lambda x: x.square().square() / 4, lambda x: x * x.square())
CLIFF = Line(lambda x: 1e9 * x, lambda x: 1e9 + 0 * x)


@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("h", [0.003, 0.4])
def test_a_step_by_hand(h, T):
    theta, p, xi = np.random.default_rng(5).standard_normal((3, *SHAPE))
    m, c, friction = 0.8, 1.7, 0.6
    sampler = RelativisticSGHMC(mass=m, c=c, friction=friction)
    position, state = stepped(sampler, theta, {"p": p}, CUBE.potential(), h, T, xi)

    def velocity(p):
        return p / (m * np.sqrt((p**2).sum(1, keepdims=True) / (m**2 * c**2) + 1))

    e = np.sqrt(h)
    new = p - e * theta**3 - e * friction * velocity(p) + np.sqrt(2 * e * friction * T) * xi
    np.testing.assert_allclose(state["p"], new, rtol=1e-12)
    np.testing.assert_allclose(position, theta + e * velocity(new), rtol=1e-12)


def test_the_velocity_is_the_gradient_of_the_kinetic_energy():
    m, c, p = 0.8, 1.7, np.array([0.3, -1.2, 2.0])
    sampler = RelativisticSGHMC(mass=m, c=c, friction=0.6)
    drift = stepped(sampler, np.zeros((1, 3)), {"p": p[None]}, FLAT.potential(), 1e-12, 0.0, np.zeros((1, 3)))[0]

    def kinetic(p):
        return m * c**2 * np.sqrt((p**2).sum() / (m * c) ** 2 + 1)

    slope = [(kinetic(p + e) - kinetic(p - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(drift[0] / 1e-6, slope, rtol=1e-5)


def test_no_step_is_longer_than_light_is_fast():
    rng = np.random.default_rng(6)
    sampler, h = RelativisticSGHMC(c=0.3, mass=0.01), 0.04
    theta, state = np.zeros(SHAPE), {"p": np.zeros(SHAPE)}
    for _ in range(20):
        new, state = stepped(sampler, theta, state, CLIFF.potential(), h, 1.0, rng.standard_normal(SHAPE))
        length = np.sqrt(np.square(new - theta).sum(1))
        assert (length <= np.sqrt(h) * 0.3 * (1 + 1e-12)).all()
        theta = new
    assert (length > np.sqrt(h) * 0.3 * 0.999).all()


@pytest.mark.parametrize("T", [0.5, 3.0])
def test_at_slow_speeds_it_is_sghmc(T):
    """v = epsilon p / m, h / m and friction epsilon D / m."""
    m, friction, h = 0.7, 0.9, 0.05
    theta, p, xi = np.random.default_rng(8).standard_normal((3, *SHAPE))
    e = np.sqrt(h)
    fast = RelativisticSGHMC(mass=m, c=1e7, friction=friction)
    position, state = stepped(fast, theta, {"p": p}, CUBE.potential(), h, T, xi)
    sghmc = SGHMC(friction=e * friction / m)
    expected, v = stepped(sghmc, theta, {"v": e * p / m}, CUBE.potential(), h / m, T, xi)
    np.testing.assert_allclose(position, expected, rtol=1e-11)
    np.testing.assert_allclose(e * state["p"] / m, v["v"], rtol=1e-11)


@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(("m", "c"), [(1.0, 1.0), (2.0, 0.3), (0.3, 5.0)])
def test_the_momentum_has_its_law_by_quadrature(m, c, T):
    """Where U is flat p walks by itself; its law is proportional to exp(-K(p) / T), not to a Gaussian."""
    sampler = RelativisticSGHMC(mass=m, c=c, friction=1.0)

    def density(p):
        return np.exp(-m * c**2 * (np.sqrt(p**2 / (m * c) ** 2 + 1) - 1) / T)

    end = 13 * max(np.sqrt(m * T), T / c)
    mass, first, second = (quad(lambda p, k=k: p**k * density(p), 0, 3 * end, limit=200)[0] for k in (0, 1, 2))
    exact = np.array([first, second]) / mass
    grid = np.linspace(-end, end, 601)[:, None]

    def moments(e):  # h = epsilon^2, and the error is of the first order in epsilon
        p, h = grid, e**2
        still, pushed = (
            stepped(sampler, 0 * p, {"p": p}, FLAT.potential(), h, T, xi)[1]["p"] for xi in (0 * p, np.ones_like(p))
        )
        law = stationary(kernel(still[:, 0], (pushed - still)[:, 0], grid[:, 0]))
        return np.array([law @ np.abs(grid[:, 0]), law @ grid[:, 0] ** 2])

    np.testing.assert_allclose(as_h_vanishes(moments, 0.2 * m), exact, rtol=5e-3)
