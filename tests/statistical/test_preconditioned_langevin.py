"""sgfs, sgrld and sqnlmc: their steps by hand, and the laws that their preconditioners were made for."""

import numpy as np
import pytest
import torch
from kernels import Line, as_h_vanishes, stationary, step_kernel, stepped, tensor
from scipy.linalg import solve_discrete_lyapunov

from harness.engine.linear import derive
from harness.engine.stepping.potential import BoundPotential, CountingPotential
from plugins.samplers.sgfs import SGFS
from plugins.samplers.sgrld import SGRLD
from plugins.samplers.sqnlmc import SQNLMC, known

C, D = 4, 3
PRECISION = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.7]])


class Quadratic:
    """U = theta' A theta / 2 with N = 12 terms; the scores of a batch of n = 4 are given, and so is the metric."""

    def __init__(self, scores=None, metric=None):
        self.given, self.divergence = scores, np.arange(D) - 1.0
        self.inverse = metric

    def gradient(self, theta, batch):
        return theta @ tensor(PRECISION) + (0 if batch is None else batch["slope"])

    def scores(self, theta, batch):
        return tensor(np.broadcast_to(self.given, (len(theta), *self.given.shape[-2:])))

    def metric(self, theta):
        return tensor(self.inverse).expand(len(theta), D, D), tensor(self.divergence).expand(len(theta), D)

    def potential(self, slope=None):
        return BoundPotential(self, 12, None if slope is None else {"slope": tensor(slope)})


@pytest.fixture
def rng():
    return np.random.default_rng(17)


@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("h", [0.003, 40.0])
def test_a_step_of_sgfs(rng, h, T):
    theta, xi = rng.standard_normal((2, C, D))
    scores, old = rng.standard_normal((C, 4, D)), np.eye(D) * np.ones((C, 1, 1))
    b, t = 0.7, 3.0
    state = {"I": old, "t": np.full((C, 1, 1), t - 1)}
    position, state = stepped(SGFS(b=b), theta, state, Quadratic(scores).potential(), h, T, xi)
    for c in range(C):
        fisher = (1 - 1 / t) * old[c] + 1 / t * np.cov(scores[c].T)
        gamma, epsilon = (12 + 4) / 4, 2 * h
        eta = np.sqrt(4 * b * T / epsilon) * xi[c]
        inverse = np.linalg.inv(gamma * 12 * fisher + 4 * b / epsilon * np.eye(D))
        np.testing.assert_allclose(position[c], theta[c] - 2 * inverse @ (PRECISION @ theta[c] - eta), rtol=1e-11)
        np.testing.assert_allclose(state["I"][c], fisher, rtol=1e-12, atol=1e-14)
    assert (state["t"] == t).all()


def linear(step, n):
    """The matrix of a linear function of rows."""
    return step(np.eye(n)).T - step(np.zeros((n, n))).T


def fisher_scoring(h, T=1.0, b=1.0, noise=1.0):
    """The stationary covariance of sgfs where I = A / N is known and the batch of n = 4 adds `noise` (N / n) A."""
    root = np.linalg.cholesky(PRECISION / 12)
    corners = np.sqrt(3 / 4) * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    problem = Quadratic(corners @ root.T)
    assert np.cov(problem.given.T) == pytest.approx(PRECISION / 12)

    def step(theta, xi, slope):
        state = {"I": np.broadcast_to(PRECISION / 12, (D, D, D)), "t": np.ones((D, 1, 1))}
        return stepped(SGFS(b=b), theta, state, problem.potential(slope), h, T, xi)[0]

    zero = np.zeros((D, D))
    A = linear(lambda e: step(e, zero, zero), D)
    B = linear(lambda e: step(zero, e, zero), D)
    G = linear(lambda e: step(zero, zero, e), D)
    return solve_discrete_lyapunov(A, B @ B.T + noise * 12 / 4 * G @ PRECISION @ G.T)


@pytest.mark.parametrize("h", [1e-4, 0.1, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("b", [0.1, 5.0])
def test_sgfs_samples_a_gaussian_exactly_at_every_step_size(h, b):
    np.testing.assert_allclose(fisher_scoring(h, b=b), np.linalg.inv(PRECISION), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("h", [0.003, 0.4])
def test_a_step_of_sgrld(rng, h, T):
    theta, xi = rng.standard_normal((2, C, D))
    root = np.array([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [-1.0, 0.3, 0.7]])
    problem = Quadratic(metric=root @ root.T)
    position, _ = stepped(SGRLD(), theta, {}, problem.potential(), h, T, xi)
    drift = -root @ root.T @ PRECISION @ theta.T + T * problem.divergence[:, None]
    np.testing.assert_allclose(position, (theta.T + h * drift + np.sqrt(2 * h * T) * root @ xi.T).T, rtol=1e-11)


@pytest.mark.parametrize("h", [1e-3, 0.1, 1.9])
@pytest.mark.parametrize("T", [0.5, 1.0, 3.0])
def test_in_the_metric_of_the_hessian_sgrld_has_one_law_in_every_direction(h, T):
    """The Gaussian of the laws has its Hessian as metric."""
    P = derive(SGRLD(), h, T, (0.01, 1.0, 300.0)).stationary()
    np.testing.assert_allclose(P, np.diag(T / (1 - h / 2) / np.array([0.01, 1.0, 300.0])), rtol=1e-9, atol=1e-12)


POINTS = np.exp(np.arange(-5.0, 3.21, 0.02))
"""The kernel is smooth in log theta, in which h = 0.04 at T = 1 has an sd of 0.28."""


def gamma_moments(sampler, gamma_term, T):
    """E theta and E theta^2 as h -> 0 on U = theta - 2 log theta, in the metric G = 1 / theta^2."""
    problem = Line(
        lambda x: x - 2 * x.log(), lambda x: 1 - 2 / x, lambda x: (x.square(), gamma_term * 2 * x)
    )  # fmt: skip

    def moments(h):
        matrix = step_kernel(sampler, problem, POINTS, h, T) * POINTS
        law = stationary(matrix / matrix.sum(1, keepdims=True))
        return np.array([law @ POINTS, law @ POINTS**2])

    return as_h_vanishes(moments, 0.02)


@pytest.mark.parametrize("T", [0.5, 1.0, 2.0])
def test_sgrld_samples_a_gamma_law_by_quadrature(T):
    """exp(-U/T) is the gamma law of shape 1 + 2/T and scale T."""
    shape = 1 + 2 / T
    exact = np.array([shape * T, shape * (shape + 1) * T**2])
    np.testing.assert_allclose(gamma_moments(SGRLD(), 1.0, T), exact, rtol=2e-3)
    without = gamma_moments(SGRLD(), 0.0, T)
    assert (np.abs(without / exact - 1) > 0.2).all()


def bfgs(pairs, b):
    H = np.eye(D) / b
    for s, y in pairs:
        V = np.eye(D) - np.outer(y, s) / (y @ s)
        H = V.T @ H @ V + np.outer(s, s) / (y @ s)
    return H


def inverse_hessian(sampler, pairs):
    """S S' by the product of its factors."""
    rows = np.array([*(s for s, _ in pairs), *(y for _, y in pairs)])
    S = np.eye(D) / np.sqrt(sampler.b)
    for (s, _), (per_ys, q) in zip(pairs, sampler.factors(known([tensor([rows])])), strict=True):
        S = S - np.outer(per_ys.item() * s, q[0, : len(rows)].numpy() @ rows) @ S
    return S @ S.T


@pytest.mark.parametrize("b", [0.3, 1.0, 20.0])
def test_the_factors_of_sqnlmc_make_the_bfgs_matrix(rng, b):
    sampler = SQNLMC(memory=5, b=b)
    pairs = [(s, PRECISION @ s) for s in rng.standard_normal((3, D))]
    H = inverse_hessian(sampler, pairs)
    np.testing.assert_allclose(H, bfgs(pairs, b), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(H @ pairs[-1][1], pairs[-1][0], rtol=1e-9)


def test_a_pair_that_bends_the_wrong_way_is_left_out(rng):
    s, other = rng.standard_normal((2, D))
    good, bad, none = (s, PRECISION @ s), (other, -other), (np.zeros(D), np.zeros(D))
    inverse = inverse_hessian(SQNLMC(memory=5, b=2.0), [none, good, bad])
    np.testing.assert_allclose(inverse, bfgs([good], 2.0), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("T", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("h", [0.003, 0.4])
def test_a_step_of_sqnlmc(rng, h, T):
    theta, xi = rng.standard_normal((2, 1, D))
    past, s = rng.standard_normal((2, 1, 3, D))
    s = s[:, :2]
    state = {"past": past, "s": s, "y": s @ PRECISION}
    slope = rng.standard_normal((1, D))
    position, left = stepped(SQNLMC(memory=4, b=2.0), theta, state, Quadratic().potential(slope), h, T, xi)
    start, H = past[0, 0], bfgs([(one, PRECISION @ one) for one in s[0]], 2.0)
    mean = start - h * H @ (PRECISION @ start + slope[0])
    if T:
        np.testing.assert_allclose(position[0] - mean, np.sqrt(2 * h * T) * root_of(H, s[0]) @ xi[0], rtol=1e-9)
    else:
        np.testing.assert_allclose(position[0], mean + 0 * xi[0], rtol=1e-9)
    np.testing.assert_allclose(left["past"][0], [past[0, 1], past[0, 2], theta[0]])
    np.testing.assert_allclose(left["s"][0], [s[0, 1], theta[0] - start])
    np.testing.assert_allclose(left["y"][0], [PRECISION @ s[0, 1], PRECISION @ (theta[0] - start)], rtol=1e-12)


def root_of(H, s):
    """S of the product form, by its definition in matrices; S S' = H."""
    B, S = 2.0 * np.eye(D), np.eye(D) / np.sqrt(2.0)
    for one in s:
        y, Bs = PRECISION @ one, B @ one
        q = y - np.sqrt((y @ one) / (one @ Bs)) * Bs
        S = (np.eye(D) - np.outer(one / (y @ one), q)) @ S
        B = np.linalg.inv(S @ S.T)
    np.testing.assert_allclose(S @ S.T, H, rtol=1e-9, atol=1e-11)
    return S


def test_what_a_step_of_sqnlmc_asks_for():
    potential = CountingPotential(Quadratic(), 12)
    h = T = tensor(0.1)
    theta = torch.ones((2, D), dtype=torch.float64)
    sampler = SQNLMC()
    state = sampler.init(theta, potential, h, T, None)
    assert potential.take_counts() == (0, 0)
    stepped(sampler, theta.numpy(), {k: v.numpy() for k, v in state.items()}, potential, 0.1, 1.0, np.zeros((2, D)))
    assert potential.take_counts() == (2, 0)
