"""Right samplers in parts, so that a bug is the one part that it spoils."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from harness import Sampler, UsageError, param
from plugins.samplers.contour_sgld import ContourSGLD


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

    def step(self, theta, state, potential, h, T, noise):
        theta, _ = self.at(state["k"], theta, potential, h, T, noise)
        return theta, {"k": state["k"] + 1}

    def at(self, k, theta, potential, h, T, noise):
        return Plain.step(self, theta, {}, potential, h, T, noise)


class Tamed(Plain):
    """Not linear, and right: the drift h g / (1 + h |g|) is h g as h -> 0."""

    zero_temperature = None

    def drift(self, theta, potential, h):
        g = self.gradient(theta, potential)
        return theta - h * g / (1 + h * g.abs())


class Weighted(Tamed):
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

    def check_steps(self, h, T):
        if min(T) <= 0:
            raise UsageError("no weights at T = 0")


@dataclass(frozen=True, kw_only=True)
class QuickContour(ContourSGLD):
    """Learns the landscape within the few thousand steps of the law, so that its weights matter."""

    bins: int = param(20, "[2, 100000]", "m")
    high: float = param(40.0, meaning="upper end")
    fastest: float = param(0.02, "(0, 1)", "w1")
    decay: float = param(100.0, "(0, inf)", "w2")
