"""Right samplers that are unusual: no law of `bench check` may find anything wrong with them."""

# ruff: noqa: F821 - names are defined by `defined` and used in texts
# fmt: off

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from harness import Sampler, param
from planted import maker
from planted.plain import ByTheNorm, Counting, Heated, Plain

defined = maker(globals())

# sgld that counts its steps, in a float and in an integer.
defined("FloatCounter", Counting, init="{'k': theta.new_zeros((len(theta), 1))}")
defined("IntegerCounter", Counting)
# The mean of the noise of this step and the one before: Leimkuhler and Matthews 2013.
defined("LeimkuhlerMatthews", Plain, init="{'xi': noise.normal(theta)}",
     step="xi = noise.normal(theta).expand_as(theta); "
     "theta - h * potential.grad(theta) + (2 * h * T).sqrt() * (xi + state['xi']) / 2, {'xi': xi}")


class OBABO(Sampler):
    """The textbook's splitting, with the gradient kept at the end of a step for the first kick of the next."""

    gradient_at: ClassVar = "end"
    share = 0.9

    @staticmethod
    def zero_temperature(sampler, theta, memory, g, h):
        root = sampler.share**0.5
        last = root * (memory["v"] - memory["h"] / 2 * g) if memory else 0 * g  # the kick that ended the step before
        v = root * last - h / 2 * g
        return theta + v, {"v": v, "h": h}

    def init(self, theta, potential, h, T, noise):
        return {"v": (h * T).sqrt() * noise.normal(theta), "g": potential.grad(theta)}

    def step(self, theta, state, potential, h, T, noise):
        root, heat = self.share**0.5, ((1 - self.share) * h * T).sqrt()
        v = root * state["v"] + heat * noise.normal(theta)
        v = v - h / 2 * state["g"]
        theta = theta + v
        g = potential.grad(theta)
        v = v - h / 2 * g
        return theta, {"v": root * v + heat * noise.normal(theta), "g": g}


# Position Verlet with friction: the gradient is taken half way between two draws.
defined("ABOBA", Sampler, zero_temperature=None, exempt={"potential": "the gradient is taken at the half-way position"},
     init="{'v': (h * T).sqrt() * noise.normal(theta)}",
     step="x = theta + state['v'] / 2; kick = h / 2 * potential.grad(x); "
     "v = 0.9 * (state['v'] - kick) + (0.19 * h * T).sqrt() * noise.normal(theta) - kick; x + v / 2, {'v': v}")
# Unadjusted: a normal move whose sign goes by the gradient. Livingstone and Zanella 2022. `0 * g`: a gradient that is
# lost loses the chain.
defined("Barker", Heated, step="move = (2 * h * T).sqrt() * noise.normal(theta); g = potential.grad(theta); "
     "ahead = noise.uniform(theta.shape) < torch.sigmoid(-move * g / T); "
     "theta + move.where(ahead, -move) + 0 * g, state")


class EulerSGHMC(Sampler):
    """SGHMC in the order of posteriors: the position moves by the velocity that the step began with."""

    alpha = 0.3

    @staticmethod
    def zero_temperature(sampler, theta, memory, g, h):
        v = memory.get("v", 0 * g)
        return theta + v, {"v": (1 - sampler.alpha) * v - h * g}

    def init(self, theta, potential, h, T, noise):
        return {"v": (h * T).sqrt() * noise.normal(theta)}

    def step(self, theta, state, potential, h, T, noise):
        kick = (2 * self.alpha * h * T).sqrt() * noise.normal(theta)
        return theta + state["v"], {"v": (1 - self.alpha) * state["v"] - h * potential.grad(theta) + kick}

    def limit_bias(self):
        return 1.0


# EulerSGHMC with its velocity in units of sqrt(h T): the noise of the velocity has no T in it.
defined("VelocityWithoutT", Heated, alpha=0.3, init="{'v': noise.normal(theta)}",
     step="push = (2 * self.alpha) ** 0.5 * noise.normal(theta) - (h / T).sqrt() * potential.grad(theta); "
     "theta + (h * T).sqrt() * state['v'], {'v': (1 - self.alpha) * state['v'] + push}")
# Leapfrog steps without a test, the velocity drawn anew with probability 0.2: randomised Hamiltonian dynamics. A fresh
# velocity gets half a kick. With a whole one the variance would tend to 1 - 0.2 / 2.
defined("Resampling", Heated, init="{'v': (h * T).sqrt() * noise.normal(theta)}",
     step="g, fresh = potential.grad(theta), (h * T).sqrt() * noise.normal(theta); "
     "v = (fresh - h / 2 * g).where(noise.uniform((len(theta), 1)) < 0.2, state['v'] - h * g); "
     "theta + v, {'v': v}")
# sgld with the constant matrix 1 + e e' / D in front of the gradient, and its root under the noise.
defined("Preconditioned", Sampler, zero_temperature=staticmethod(
        lambda _, theta, memory, g, h: (theta - h * (g + g.mean(1, keepdim=True)), memory)),
     step="g, xi = potential.grad(theta), noise.normal(theta).expand_as(theta); "
     "push = xi + (2**0.5 - 1) * xi.mean(1, keepdim=True); "
     "theta - h * (g + g.mean(1, keepdim=True)) + (2 * h * T).sqrt() * push, state")


class Diagonal(Sampler):
    """sgld with a step size of its own for every coordinate."""

    exempt: ClassVar = {"coordinates": "each coordinate has a step size of its own"}

    @staticmethod
    def zero_temperature(sampler, theta, memory, g, h):
        return theta - h * sampler.sizes(theta) * g, memory

    def sizes(self, theta):
        return 1 / (1 + torch.arange(theta.shape[1]).to(theta) % 3)

    def step(self, theta, state, potential, h, T, noise):
        M = self.sizes(theta)
        return theta - h * M * potential.grad(theta) + (2 * h * T * M).sqrt() * noise.normal(theta), state


# sgld that makes its normal numbers of uniform ones.
defined("BoxMuller", (Heated, Plain), xi="radius = (-2 * (1 - noise.uniform(theta.shape)).log()).sqrt(); "
     "(radius * (2 * torch.pi * noise.uniform(theta.shape)).cos()).to(theta.dtype)")
# sgld with a second replica in its state that is driven by the same noise with the other sign.
defined("Antithetic", Sampler, gradients_per_step=2, init="{'other': theta}",
     step="xi, other = (2 * h * T).sqrt() * noise.normal(theta), state['other']; "
     "theta - h * potential.grad(theta) + xi, {'other': other - h * potential.grad(other) - xi}")


@dataclass(frozen=True, kw_only=True)
class Mala(Heated):
    """Metropolis-adjusted Langevin on the full potential."""

    gradients_per_step: ClassVar = 0
    full_gradients_per_step: ClassVar = 1

    scale: float = param(1.0, "(0, inf)", "factor on the step size")

    def init(self, theta, potential, h, T, noise):
        U, g = potential.full.value_and_grad(theta)
        return {"U": U, "g": g}

    def step(self, theta, state, potential, h, T, noise):
        h = self.scale * h
        U, g = state["U"], state["g"]
        x = theta - h * g + (2 * h * T).sqrt() * noise.normal(theta)
        U_x, g_x = potential.full.value_and_grad(x)
        there, back = x - theta + h * g, theta - x + h * g_x
        log_q = ((there.square() - back.square()) / (4 * h)).sum(1, keepdim=True)
        accept = noise.uniform((len(theta), 1)).log() < ((U - U_x)[:, None] + log_q) / T
        accept = accept | ~theta.isfinite().all(1, keepdim=True)
        return x.where(accept, theta), {"U": U_x.where(accept[:, 0], U), "g": g_x.where(accept, g)}


# sgld that moves each coordinate with probability one half.
defined("RandomScan", Heated, step="move = -h * potential.grad(theta) + (2 * h * T).sqrt() * noise.normal(theta); "
     "torch.where(noise.uniform(theta.shape) < 0.5, theta + move, theta + 0 * move), state")
# sgld that asks for all that a potential offers beside gradients, and makes nothing of the scores and the metric.
defined("Curious", Plain, needs=frozenset({"terms", "scores", "metric", "layout"}), gradients_per_step=2,
     zero_temperature=staticmethod(lambda _, theta, memory, g, h: (theta - h * g, memory)),
     exempt={"zero-temperature": "the rule is told the gradient in the metric"},
     step="mass = potential.layout.fill(lambda block: 0.0 * block.fan_in, theta) + 0 * potential.terms; "
     "nothing = 0 * (potential.scores(theta).sum(1) + potential.metric(theta)[1]); "
     "theta, state = super().step(theta, state, potential, h, T, noise); theta + mass + nothing, state")
# sgld with the mean of two gradient calls at one place.
defined("TwoGradients", Plain, gradients_per_step=2, gradient="(gradient + potential.grad(theta)) / 2")
# Two steps of half the size in one, each with a gradient of its own.
defined("TwoHalfSteps", Plain, gradients_per_step=2,
     exempt={"zero-temperature": "the second of its gradients is taken where no rule is told of it"},
     step="theta, _ = super().step(theta, state, potential, h / 2, T, noise); "
     "super().step(theta, state, potential, h / 2, T, noise)")

UNUSUAL = [
    Plain, FloatCounter, IntegerCounter, LeimkuhlerMatthews, OBABO, ABOBA, Barker, EulerSGHMC, VelocityWithoutT,
    Resampling, Preconditioned, Diagonal, BoxMuller, Antithetic, Mala, Curious, RandomScan, TwoGradients, TwoHalfSteps,
    ByTheNorm,
]
