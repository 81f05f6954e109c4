"""rmsprop-sgld and adam-sgld: the algorithms as published, in the units of a mean loss, and the law with V at rest."""

import math

import kernels
import numpy as np
import pytest
from kernels import Noise, scalars

from harness.engine.linear import settled, stability_limit, stationary_variance
from plugins.samplers.adam import Adam
from plugins.samplers.adam_sgld import AdamSGLD
from plugins.samplers.psgld import PSGLD
from plugins.samplers.rmsprop_sgld import PUBLISHED, RMSpropSGLD, published

SHAPE = (4, 3)
SAMPLERS = {"rmsprop-sgld": RMSpropSGLD, "adam-sgld": AdamSGLD}
N, EPSILON = PUBLISHED["dln-1k"]
N_BETA = N / math.log(N)
GIVEN = published("dln-1k")
H = GIVEN["schedule.step_size"]
UNITS = {name.removeprefix("sampler."): value for name, value in GIVEN.items() if name.startswith("sampler.")}


def as_published(w, slopes, xi, gamma, *, adam, b1=0.9, b2=0.99, a=0.1):
    """Positions by algorithms 2 and 3 of arXiv 2507.21449: the loss L is a mean, its gradient at step k slopes[k](w).

    Written from the equations; of code that follows the paper we saw danmackinlay/lambda_hat, which has no licence.
    """
    start, m, v, path = w, np.zeros_like(w), np.ones_like(w), []
    for t, (slope, eta) in enumerate(zip(slopes, xi, strict=True), start=1):
        g = slope(w)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        epsilon = EPSILON / (np.sqrt(v / (1 - b2**t)) + a)
        drift = m / (1 - b1**t) if adam else g
        w = w - epsilon / 2 * (gamma * (w - start) + N_BETA * drift) + np.sqrt(epsilon) * eta
        path.append(w)
    return np.array(path)


class Posterior:
    """U = n beta L + gamma |theta - start|^2 / 2 on a minibatch."""

    terms = 1

    def __init__(self, slope, gamma, start):
        self.slope, self.gamma, self.start = slope, gamma, start

    def grad(self, x):
        return kernels.tensor(N_BETA * self.slope(x.numpy()) + self.gamma * (x.numpy() - self.start))


def both(name, gamma, steps=400):
    """The path as published and ours, on linear regression with a minibatch of 5 rows a step."""
    rng = np.random.default_rng(8)
    start, true = rng.standard_normal((2, *SHAPE))
    rows, xi = rng.standard_normal((steps, 5, SHAPE[1])) * 10, rng.standard_normal((steps, *SHAPE))
    slopes = [lambda w, x=x: 2 * (w - true) @ x.T @ x / len(x) for x in rows]
    sampler = SAMPLERS[name](**UNITS)
    h, T = scalars(H, 1.0)
    theta, path = start, []
    state = {name: leaf.numpy() for name, leaf in sampler.init(kernels.tensor(start), None, h, T, Noise()).items()}
    for slope, eta in zip(slopes, xi, strict=True):
        theta, state = kernels.stepped(sampler, theta, state, Posterior(slope, gamma, start), H, 1.0, eta)
        path.append(theta)
    return as_published(start, slopes, xi, gamma, adam=name == "adam-sgld"), np.array(path)


@pytest.mark.parametrize("name", SAMPLERS)
def test_steps_are_those_published(name):
    theirs, ours = both(name, gamma=0.0)
    assert np.abs(theirs[-1] - theirs[0]).max() > 0.1
    np.testing.assert_allclose(ours, theirs, rtol=1e-8)


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_prior_in_the_means_changes_little(name):
    theirs, ours = both(name, gamma=1.0)
    off = np.abs(ours - theirs).max()
    assert 1e-12 < off < 1e-4 * np.abs(theirs - theirs[0]).max()


def test_rmsprop_sgld_becomes_psgld():
    theta, xi, V = np.random.default_rng(3).standard_normal((3, *SHAPE))
    g = kernels.Fixed(theta)
    mine, other = RMSpropSGLD(decay=0.9, lam=0.2), PSGLD(decay=0.9, lam=0.2)
    psgld, _ = kernels.stepped(other, theta, {"V": V**2}, g, 0.03, 1.7, xi)
    late, _ = kernels.stepped(mine, theta, {"V": V**2, "t": np.full((4, 1), 500)}, g, 0.03, 1.7, xi)
    np.testing.assert_allclose(late, psgld, rtol=1e-12)
    first, _ = kernels.stepped(mine, theta, {"V": np.ones(SHAPE), "t": np.zeros((4, 1), int)}, g, 0.03, 1.7, xi)
    G = 1 / (0.2 + np.sqrt(9 + theta**2))
    np.testing.assert_allclose(first, theta - 0.03 * G * theta + np.sqrt(2 * 0.03 * 1.7 * G) * xi, rtol=1e-12)


@pytest.mark.parametrize(("beta1", "beta2"), [(0.9, 0.99), (0.0, 0.0)])
def test_adam_sgld_from_zero_is_adam_at_temperature_0(beta1, beta2):
    theta, h, T = kernels.tensor(np.ones(SHAPE)), *scalars(0.01, 0.0)
    settings = {"beta1": beta1, "beta2": beta2, "lam": 0.1}
    samplers = (AdamSGLD(**settings, start=0.0), Adam(**settings))
    chains = [(sampler, theta, sampler.init(theta, None, h, T, None)) for sampler in samplers]
    for slope in np.random.default_rng(4).standard_normal((30, *SHAPE)):
        chains = [
            (sampler, *sampler.step(x, state, kernels.Fixed(slope), h, T, kernels.Noise()))
            for sampler, x, state in chains
        ]
    np.testing.assert_allclose(chains[0][1], chains[1][1], rtol=1e-12)


@pytest.mark.parametrize("beta1", [0.0, 0.5, 0.9])
def test_the_variance_of_adam_sgld_with_v_at_rest(beta1):
    """T / lambda (1 + (x y / 2) / (1 - x / 2y)), y = (1 + beta1) / (1 - beta1), x = h G lambda; V is 1."""
    sampler = settled(AdamSGLD(beta1=beta1, beta2=0.9, lam=0.25), 1e-14, 300)
    G, y = 1 / (0.25 + math.sqrt(0.9)), (1 + beta1) / (1 - beta1)
    assert stability_limit(sampler) * G == pytest.approx(2 * y, rel=1e-6)
    for x in (1e-3, 0.3, 1.5):
        expected = 1.3 * (1 + x * y / 2 / (1 - x / (2 * y)))
        assert stationary_variance(sampler, x / G, 1.3) == pytest.approx(expected, rel=1e-6)
