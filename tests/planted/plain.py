"""Right samplers in parts, so that a bug is the one part that it spoils."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from harness import Sampler, UsageError, param
from plugins.samplers.contour_sgld import ContourSGLD
from plugins.samplers.hmc import HMC


class Plain(Sampler):
    """sgld: theta - h g + sqrt(2 h T) xi."""

    def gradient(self, theta, potential):
        return potential.grad(theta)

    def drift(self, theta, potential, h):
        return theta - h * self.gradient(theta, potential)

    def heat(self, h, T):
        return (2 * h * T).sqrt()

    def xi(self, theta, noise):
        return noise.normal(theta).expand_as(theta)

    def step(self, theta, state, potential, h, T, noise):
        return self.drift(theta, potential, h) + self.heat(h, T) * self.xi(theta, noise), state


class Counting(Plain):
    """sgld that counts its steps in its state, to no purpose."""

    def init(self, theta, potential, h, T, noise):
        return {"k": torch.zeros((len(theta), 1), dtype=torch.int64)}

    def louder(self, k):
        return 1.0

    def step(self, theta, state, potential, h, T, noise):
        xi = self.louder(state["k"]) * self.xi(theta, noise)
        return self.drift(theta, potential, h) + self.heat(h, T) * xi, {"k": state["k"] + 1}


class Boxed(Plain):
    """sgld with a place for what happens to a position after a step."""

    def box(self, theta):
        return theta

    def step(self, theta, state, potential, h, T, noise):
        return self.box(super().step(theta, state, potential, h, T, noise)[0]), state


class Outside(Plain):
    """sgld with a place where it looks at something outside."""

    def look(self, potential):
        """A factor on the noise, 1 most of the time."""
        return 1.0

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T * self.look(potential), noise)


class Halved:
    """Before a sampler among the bases: half the step in drift and noise, which leaves every target as it is."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h / 2, T, noise)


class Heated(Sampler):
    """Before a sampler among the bases: it has no T = 0."""

    zero_temperature = None

    def check_steps(self, h, T):
        if min(T) <= 0:
            raise UsageError("no T = 0")


class Tamed(Plain):
    """Not linear, and right: the drift h g / (1 + h |g|) is h g as h -> 0."""

    zero_temperature = None

    def drift(self, theta, potential, h):
        g = self.gradient(theta, potential)
        return theta - h * g / (1 + h * g.abs())


@dataclass(frozen=True, kw_only=True)
class ByTheNorm(Heated):
    """sgld with the step size h / (lam + |g|), and the divergence of that by a difference quotient."""

    exempt: ClassVar = {"noisy-scaling": "its step size is of the gradient of the same minibatch"}
    gradients_per_step = 2
    step_unit = 0

    lam: float = param(1.0, "(0, inf)", "added to the norm of the gradient", unit=1)

    def norm(self, g):
        return g.square().sum(1, keepdim=True).sqrt()

    def divergence(self, theta, potential, g, norm):
        ahead = 0.01 * g / norm.clamp(min=1e-300)
        return -(potential.grad(theta + ahead) - g) / 0.01 / (self.lam + norm).square()

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        norm = self.norm(g)
        share = h / (self.lam + norm)
        drift = h * T * self.divergence(theta, potential, g, norm) - share * g
        return theta + drift + (2 * share * T).sqrt() * noise.normal(theta), state


class Weighted(Heated, Tamed):
    """Not linear, and right: it samples exp(-1.25 U/T) and gives each draw the weight exp(0.25 U/T)."""

    gradients_per_step = 2
    power = 0.25

    def init(self, theta, potential, h, T, noise):
        return {"log_weight": self.log(theta, potential, T)}

    def step(self, theta, state, potential, h, T, noise):
        theta = self.drift(theta, potential, 1.25 * h) + self.heat(h, T) * self.xi(theta, noise)
        return theta, {"log_weight": self.log(theta, potential, T)}

    def log(self, theta, potential, T):
        return (self.power * potential.value_and_grad(theta)[0][:, None] / T)[:, 0]

    def log_weight(self, state):
        return state["log_weight"]


@dataclass(frozen=True, kw_only=True)
class QuickContour(ContourSGLD):
    """Learns the landscape within some hundred steps of the law, so that its weights matter, and then so slowly that
    the chain follows: a rate that stays high biases the draws by more the smaller the step is.
    """

    bins: int = param(20, "[2, 100000]", "m")
    high: float = param(40.0, unit=1, meaning="upper end")
    fastest: float = param(0.02, "(0, 1)", "w1")
    decay: float = param(3.0, "(0, inf)", "w2")


@dataclass(frozen=True, kw_only=True)
class Metropolis(HMC):
    """hmc with parts that can be spoiled."""

    jitter: float = param(0.0, "[0, 1)", "share by which the step size varies")
    leapfrog: int = param(3, "[1, 1000]", "L")

    def momentum(self, theta, T, noise):
        return T.sqrt() * noise.normal(theta)

    def difference(self, energy, state, kinetic):
        return energy - state["energy"] + kinetic

    def threshold(self, u):
        return u.log()

    def heat(self, T):
        return T

    def left(self, moved, energy, state):
        return energy.where(moved, state["energy"])

    def step(self, theta, state, potential, h, T, noise):
        momentum = self.momentum(theta, T, noise)
        threshold = self.threshold(noise.uniform((len(theta), 1)))
        epsilon, full = h.sqrt(), potential.full
        r = momentum - epsilon / 2 * state["gradient"]
        x = theta + epsilon * r
        for _ in range(self.leapfrog - 1):
            r = r - epsilon * full.grad(x)
            x = x + epsilon * r
        energy, gradient = full.value_and_grad(x)
        r = self.last(r, epsilon, gradient)
        kinetic = (r.square().sum(1) - momentum.square().sum(1)) / 2
        moved = threshold < -self.difference(energy, state, kinetic)[:, None] / self.heat(T)
        moved = moved | ~theta.isfinite().all(1, keepdim=True)
        return x.where(moved, theta), {
            **state,
            "energy": self.left(moved[:, 0], energy, state),
            "gradient": gradient.where(moved, state["gradient"]),
        }

    def last(self, r, epsilon, gradient):
        return r - epsilon / 2 * gradient

    def adapt(self, state, h, T):
        return state


class Louder:
    """Noise that is `factor` times as wide."""

    def __init__(self, noise, factor):
        self.noise, self.factor = noise, factor

    def normal(self, like):
        return self.factor * self.noise.normal(like)

    def uniform(self, shape):
        return self.noise.uniform(shape)


class Shared:
    """The same noise for all coordinates."""

    def __init__(self, noise):
        self.noise = noise

    def normal(self, like):
        return self.noise.normal(like[:, :1])


class Silent:
    """No noise."""

    def normal(self, like):
        return torch.zeros_like(like)


class Bent:
    """A potential whose metric has another Gamma."""

    def __init__(self, potential, factor):
        self.potential, self.factor = potential, factor

    def grad(self, x):
        return self.potential.grad(x)

    def metric(self, x):
        D, gamma = self.potential.metric(x)
        return D, self.factor * gamma


class Hotter:
    """A potential whose energy is multiplied by T: what 1 / T would take off again."""

    def __init__(self, potential, T):
        self.potential, self.T = potential, T

    def value_and_grad(self, x):
        U, g = self.potential.value_and_grad(x)
        return self.T.squeeze() * U, g
