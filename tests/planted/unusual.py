"""Right samplers that are unusual: no law of `bench check` may find anything wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from harness import Sampler, UsageError, param
from planted.plain import Plain


class FloatCounter(Plain):
    """sgld that counts its steps in a float."""

    def init(self, theta, potential, h, T, noise):
        return {"k": theta.new_zeros((len(theta), 1))}

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, {}, potential, h, T, noise)[0], {"k": state["k"] + 1}


class IntegerCounter(Plain):
    """sgld that counts its steps in an integer."""

    def init(self, theta, potential, h, T, noise):
        return {"k": torch.zeros((len(theta), 1), dtype=torch.int64)}

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, {}, potential, h, T, noise)[0], {"k": state["k"] + 1}


class LeimkuhlerMatthews(Plain):
    """The mean of the noise of this step and the one before: Leimkuhler and Matthews 2013."""

    def init(self, theta, potential, h, T, noise):
        return {"xi": noise.normal(theta)}

    def step(self, theta, state, potential, h, T, noise):
        xi = noise.normal(theta).expand_as(theta)
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * (xi + state["xi"]) / 2, {"xi": xi}


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


class Barker(Sampler):
    """Unadjusted: a normal move whose sign goes by the gradient. Livingstone and Zanella 2022."""

    zero_temperature = None

    def step(self, theta, state, potential, h, T, noise):
        move = (2 * h * T).sqrt() * noise.normal(theta)
        g = potential.grad(theta)
        ahead = noise.uniform(theta.shape) < torch.sigmoid(-move * g / T)
        return theta + move.where(ahead, -move) + 0 * g, state  # a gradient that is lost loses the chain

    def check_steps(self, h, T):
        if min(T) <= 0:
            raise UsageError("no T = 0")


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


class VelocityWithoutT(Sampler):
    """EulerSGHMC with its velocity in units of sqrt(h T): the noise of the velocity has no T in it."""

    alpha = 0.3
    zero_temperature = None

    def init(self, theta, potential, h, T, noise):
        return {"v": noise.normal(theta)}

    def step(self, theta, state, potential, h, T, noise):
        push = (2 * self.alpha) ** 0.5 * noise.normal(theta) - (h / T).sqrt() * potential.grad(theta)
        return theta + (h * T).sqrt() * state["v"], {"v": (1 - self.alpha) * state["v"] + push}

    def check_steps(self, h, T):
        if min(T) <= 0:
            raise UsageError("it divides by T")


class Resampling(Sampler):
    """Leapfrog steps without a test, the velocity drawn anew with probability 0.2: randomised Hamiltonian dynamics."""

    zero_temperature = None

    def init(self, theta, potential, h, T, noise):
        return {"v": (h * T).sqrt() * noise.normal(theta)}

    def step(self, theta, state, potential, h, T, noise):
        fresh = (h * T).sqrt() * noise.normal(theta)
        v = fresh.where(noise.uniform((len(theta), 1)) < 0.2, state["v"]) - h * potential.grad(theta)
        return theta + v, {"v": v}

    def check_steps(self, h, T):
        if min(T) <= 0:
            raise UsageError("it chooses at random at T = 0 as well")


class Preconditioned(Sampler):
    """sgld with the constant matrix 1 + e e' / D in front of the gradient, and its root under the noise."""

    @staticmethod
    def zero_temperature(_sampler, theta, memory, g, h):
        return theta - h * (g + g.mean(1, keepdim=True)), memory

    def step(self, theta, state, potential, h, T, noise):
        g, xi = potential.grad(theta), noise.normal(theta).expand_as(theta)
        push = xi + (2**0.5 - 1) * xi.mean(1, keepdim=True)
        return theta - h * (g + g.mean(1, keepdim=True)) + (2 * h * T).sqrt() * push, state


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


class BoxMuller(Plain):
    """sgld that makes its normal numbers of uniform ones."""

    zero_temperature = None

    def xi(self, theta, noise):
        radius = (-2 * (1 - noise.uniform(theta.shape)).log()).sqrt()
        return (radius * (2 * torch.pi * noise.uniform(theta.shape)).cos()).to(theta.dtype)

    def check_steps(self, h, T):
        if min(T) <= 0:
            raise UsageError("its numbers are drawn at T = 0 as well")


class Antithetic(Sampler):
    """sgld with a second replica in its state that is driven by the same noise with the other sign."""

    gradients_per_step = 2

    def init(self, theta, potential, h, T, noise):
        return {"other": theta}

    def step(self, theta, state, potential, h, T, noise):
        xi = (2 * h * T).sqrt() * noise.normal(theta)
        other = state["other"]
        return theta - h * potential.grad(theta) + xi, {"other": other - h * potential.grad(other) - xi}


@dataclass(frozen=True, kw_only=True)
class Mala(Sampler):
    """Metropolis-adjusted Langevin on the full potential."""

    gradients_per_step: ClassVar = 0
    full_gradients_per_step: ClassVar = 1
    zero_temperature: ClassVar = None

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

    def check_steps(self, h, T):
        if min(T) <= 0:
            raise UsageError("no T = 0")


class RandomScan(Sampler):
    """sgld that moves each coordinate with probability one half."""

    zero_temperature = None

    def step(self, theta, state, potential, h, T, noise):
        move = -h * potential.grad(theta) + (2 * h * T).sqrt() * noise.normal(theta)
        return torch.where(noise.uniform(theta.shape) < 0.5, theta + move, theta + 0 * move), state

    def check_steps(self, h, T):
        if min(T) <= 0:
            raise UsageError("it chooses at random at T = 0 as well")


class TwoGradients(Sampler):
    """sgld with the mean of two gradient calls at one place."""

    gradients_per_step = 2

    def step(self, theta, state, potential, h, T, noise):
        g = (potential.grad(theta) + potential.grad(theta)) / 2
        return theta - h * g + (2 * h * T).sqrt() * noise.normal(theta), state


class TwoHalfSteps(Sampler):
    """Two steps of half the size in one, each with a gradient of its own."""

    gradients_per_step = 2

    exempt: ClassVar = {"zero-temperature": "the second of its gradients is taken where no rule is told of it"}

    def step(self, theta, state, potential, h, T, noise):
        for _ in range(2):
            theta = theta - h / 2 * potential.grad(theta) + (h * T).sqrt() * noise.normal(theta)
        return theta, state


UNUSUAL = [
    Plain, FloatCounter, IntegerCounter, LeimkuhlerMatthews, OBABO, Barker, EulerSGHMC, VelocityWithoutT, Resampling,
    Preconditioned, Diagonal, BoxMuller, Antithetic, Mala, RandomScan, TwoGradients, TwoHalfSteps,
]  # fmt: skip
