"""ngvi: where it stays, that its bound rises, that its covariances stay covariances, that it draws from q."""

import pytest
import torch
from kernels import Noise, scalars

from plugins.samplers.ngvi import NGVI

MEAN = torch.tensor([1.0, -2.0], dtype=torch.float64)
PRECISION = torch.tensor([[2.0, 0.6], [0.6, 1.0]], dtype=torch.float64)


class Gaussian:
    terms = 1

    def value_and_grad(self, x):
        push = (x - MEAN) @ PRECISION
        return ((x - MEAN) * push).sum(1) / 2, push


class Mixture:
    """Two unlike components, which a mixture of two can be exactly."""

    terms = 1
    means = torch.tensor([[-2.0, 0.0], [2.0, 1.0]], dtype=torch.float64)
    shares = torch.tensor([0.7, 0.3], dtype=torch.float64)

    def value_and_grad(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            apart = (x[:, None] - self.means).square().sum(2)
            U = -torch.logsumexp(self.shares.log() - apart / 2, dim=1)
            (g,) = torch.autograd.grad(U.sum(), x)
        return U.detach(), g


def fitted(sampler, potential, h, T, steps, chains, seed=1, watch=None):
    noise = Noise(seed)
    rate, heat = scalars(h, T)
    theta = torch.zeros((chains, 2), dtype=torch.float64)
    state = sampler.init(theta, potential, rate, heat, noise)
    for k in range(steps):
        theta, state = sampler.step(theta, state, potential, rate, heat, noise)
        if watch:
            watch(k, theta, state)
    return theta, state


@pytest.mark.slow
def test_one_component_comes_to_the_gaussian_itself():
    """The noise of the estimates biases P in proportion to h: at 0.02 by 3 %; two rates take that off."""
    T = 3.0
    (mu, P), (mu_half, P_half) = (settled(h, T) for h in (0.02, 0.01))
    torch.testing.assert_close(2 * mu_half - mu, MEAN, atol=0.03 * T**0.5, rtol=0)
    torch.testing.assert_close((2 * P_half - P) * T, PRECISION, atol=0.03, rtol=0)


def settled(h, T):
    """Time averages of mu and P of one component once it has settled."""
    sums = {"mu": 0, "P": 0, "count": 0}

    def watch(k, _, state):
        if k >= 12 / h:
            sums["mu"] += state["mu"][:, 0].mean(0)
            sums["P"] += state["P"][:, 0].mean(0)
            sums["count"] += 1

    fitted(NGVI(components=1), Gaussian(), h, T, round(32 / h), 400, watch=watch)
    return sums["mu"] / sums["count"], sums["P"] / sums["count"]


def test_a_huge_step_leaves_the_precision_positive_definite():
    _, state = fitted(NGVI(components=3), Mixture(), 0.5, 1.0, 30, 50)
    assert (torch.linalg.eigvalsh(state["P"]) > 0).all()


def test_positions_are_draws_from_q():
    """Given the state after a step, theta has the mean and covariance of q, chain by chain alike."""
    chains = 40_000
    theta, state = fitted(NGVI(components=1), Gaussian(), 1e-9, 1.0, 1, chains)
    white = theta - state["mu"][:, 0]
    torch.testing.assert_close(white.T @ white / chains, torch.eye(2, dtype=torch.float64), atol=0.03, rtol=0)


def test_components_are_chosen_by_their_shares():
    chains = 40_000
    sampler = NGVI(components=3)
    shares = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64)
    means = torch.tensor([[-100.0, 0], [0, 0], [100, 0]], dtype=torch.float64)
    state = {"mu": means.expand(chains, 3, 2).clone(), "log_pi": shares.log().expand(chains, 3).clone(),
             "P": torch.eye(2, dtype=torch.float64).expand(chains, 3, 2, 2).clone()}  # fmt: skip
    theta = torch.zeros((chains, 2), dtype=torch.float64)
    drawn, _ = sampler.step(theta, state, Gaussian(), *scalars(1e-12, 1.0), Noise(3))
    shares_drawn = torch.stack([(drawn[:, 0] - m).abs() < 20 for m in means[:, 0]]).double().mean(1)
    torch.testing.assert_close(shares_drawn, shares, atol=4 * (0.25 / chains) ** 0.5, rtol=0)
