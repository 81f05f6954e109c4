"""SG-Barker: its signs by hand, its variance by quadrature, and what the correction does to gradient noise."""

import math

import numpy as np
import pytest
import torch
from kernels import Line, scalars, stepped
from numpy.polynomial.hermite_e import hermegauss

from plugins.samplers.laws.barker import SGBarkerCorrectedLaw
from plugins.samplers.sg_barker import SGBarker, SGBarkerCorrected

SHAPE = (4, 3)
QUARTIC = Line(lambda x: x.square().square() / 4, lambda x: x * x.square())


def test_a_step_by_hand():
    h, T = 0.05, 1.7
    rng = np.random.default_rng(3)
    theta, xi, u = rng.standard_normal(SHAPE), rng.standard_normal(SHAPE), rng.random(SHAPE)
    moved, _ = stepped(SGBarker(spread=0.2), theta, {}, QUARTIC.potential(), h, T, xi, u)
    z = np.sqrt(2 * h * T) * (1 + 0.2 * np.sign(theta) * xi)
    up = u < 1 / (1 + np.exp(z * theta**3 / T))
    assert up.any()
    assert not up.all()
    np.testing.assert_allclose(moved, theta + np.where(up, z, -z), rtol=1e-13)


def test_a_wild_gradient_does_not_throw_the_chain_and_a_lost_one_is_seen():
    class Wild:
        def __init__(self, g):
            self.g = g

        def grad(self, x):
            return 0 * x + self.g

    h, T = scalars(0.02, 1.0)
    theta = torch.zeros((2, 3), dtype=torch.float64)
    quiet = type("Quiet", (), {"normal": lambda _, x: 0 * x, "uniform": lambda _, s: torch.full(s, 0.5).double()})()
    for g, expected in ((1e300, -0.2), (-1e300, 0.2), (math.nan, math.nan)):
        moved = SGBarker().step(theta, {}, Wild(g), h, T, quiet)[0]
        assert moved[0, 0].item() == pytest.approx(expected, nan_ok=True)


def variance(x, V=0.0, *, corrected=False):
    """Of theta on N(0, 1) at h = x with lengths z: a birth-death chain on multiples of z, normal gradient noise."""
    z = math.sqrt(2 * x)
    noise, weights = hermegauss(41)
    a = 1.702 / math.sqrt(1.702**2 - 2 * x * V) if corrected else 1.0
    means = []
    for offset in np.arange(0.0, 1.0, 0.25):  # a chain keeps its place between the multiples
        grid = (np.arange(-math.ceil(8 / z), math.ceil(8 / z)) + offset) * z
        up = (1 / (1 + np.exp(a * z * (grid[:, None] + math.sqrt(V) * noise)))) @ (weights / weights.sum())
        log_law = np.concatenate([[0.0], np.cumsum(np.log(up[:-1] / (1 - up[1:])))])  # detailed balance
        law = np.exp(log_law - log_law.max())
        means.append(law @ grid**2 / law.sum())
    return float(np.mean(means))


def simulated(sampler, x, V, steps, chains=1000):
    """E theta^2 on N(0, 1), with gradients of the variance V whose scores say so."""
    rng = np.random.default_rng(4)
    draw = lambda *shape: torch.from_numpy(rng.standard_normal(shape))  # noqa: E731

    class Random:
        normal = staticmethod(lambda like: draw(*like.shape))
        uniform = staticmethod(lambda shape: torch.from_numpy(rng.random(tuple(shape))))

    class Noisy:
        terms = 10**9
        two = math.sqrt(V) / terms * torch.tensor([[[-1.0], [1.0]]], dtype=torch.float64)  # N^2 var / n = V

        def scores(self, theta):
            return self.two.expand(len(theta), -1, -1)

        def grad(self, theta):
            return theta + math.sqrt(V) * draw(*theta.shape)

    h, T = scalars(x, 1.0)
    theta, squares = draw(chains, 1), []
    state = sampler.init(theta, Noisy(), h, T, Random())
    for k in range(steps):
        theta, state = sampler.step(theta, state, Noisy(), h, T, Random())
        if k >= steps // 10:
            squares.append(theta.square().mean())
    return float(torch.stack(squares).mean())


@pytest.mark.parametrize("x", [0.01, 0.1, 0.5, 1.0, 2.0])
def test_with_fixed_lengths_the_variance_is_one_and_half_of_x(x):
    assert variance(x) == pytest.approx(1 + x / 2, abs=2e-3)


def test_random_lengths_add_a_little():
    assert simulated(SGBarker(), 1.0, 0.0, 400) == pytest.approx(1.52, abs=0.02)


@pytest.mark.parametrize(("corrected", "excess"), [(False, 0.5), (True, 0.155)])
def test_noise_adds_to_the_variance_in_proportion_to_h(corrected, excess):
    x, V = 0.002, 10.0
    assert (variance(x, V, corrected=corrected) - variance(x)) / (x * V) == pytest.approx(excess, rel=0.03)


def test_the_correction_leaves_a_third_of_the_excess():
    x, V = 0.005, 10.0
    excess = [variance(x, V, corrected=corrected) - variance(x) for corrected in (False, True)]
    assert excess[1] / excess[0] == pytest.approx(0.31, abs=0.01)


def test_runs_have_the_variance_by_quadrature():
    x, V = 0.05, 10.0
    assert simulated(SGBarker(spread=0.0), x, V, 600) == pytest.approx(variance(x, V), rel=0.03)
    corrected = simulated(SGBarkerCorrected(spread=0.0), x, V, 600)
    assert corrected == pytest.approx(variance(x, V, corrected=True), rel=0.03)
    assert corrected < 0.95 * variance(x, V)


def test_the_law_of_the_corrected_form_sees_another_bound():
    class Uncorrected(SGBarkerCorrected):
        def gradient_sd(self, potential, theta):
            return 0.5 * super().gradient_sd(potential, theta)

    SGBarkerCorrectedLaw().check(SGBarkerCorrected())
    with pytest.raises(AssertionError, match="tau is off"):
        SGBarkerCorrectedLaw().check(Uncorrected())
