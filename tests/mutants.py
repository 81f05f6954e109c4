"""sgld with one planted bug each, and the laws of `bench check` that must see it. Other samplers: `method_mutants`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from harness import Sampler, param
from plugins.samplers.sgld import SGLD


class Plain(Sampler):
    """theta - drift h g + sqrt(2 h T) xi in parts that a mutant can spoil one at a time."""

    def drift(self, theta, potential, h):
        return theta - h * potential.grad(theta)

    def heat(self, h, T):
        return (2 * h * T).sqrt()

    def xi(self, theta, noise):
        return noise.normal(theta)

    def step(self, theta, state, potential, h, T, noise):
        xi = self.xi(theta, noise)
        return self.drift(theta, potential, h) + self.heat(h, T) * xi, state


class NoiseTimesRootTwo(Plain):
    def heat(self, h, T):
        return 2 * (h * T).sqrt()


class NoiseTwoPerCentTooWide(Plain):
    def heat(self, h, T):
        return 1.02 * (2 * h * T).sqrt()


class TemperatureIgnored(Plain):
    def heat(self, h, T):
        return (2 * h * (T > 0)).sqrt()


class TemperatureSquared(Plain):
    def heat(self, h, T):
        return (2 * h).sqrt() * T


class HalvedStep(Plain):
    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h / 2, T, noise)


class StaleGradient(SGLD):
    def init(self, theta, potential, h, T, noise):
        return {"g": potential.grad(theta)}

    def step(self, theta, state, potential, h, T, noise):
        return theta - h * state["g"] + (2 * h * T).sqrt() * noise.normal(theta), {"g": potential.grad(theta)}


class GlobalGenerator(Plain):
    def xi(self, theta, noise):
        noise.normal(theta)
        return torch.randn_like(theta)


class OwnGenerator(Plain):
    def xi(self, theta, noise):
        noise.normal(theta)
        return torch.randn(theta.shape, generator=torch.Generator().manual_seed(1), dtype=theta.dtype)


class OneNoiseForAllCoordinates(Plain):
    def xi(self, theta, noise):
        return noise.normal(theta[:, :1])


class OneNoiseForAllChains(Plain):
    def xi(self, theta, noise):
        xi = noise.normal(theta)
        return xi[:1] if xi.ndim else xi


class NoiseUsedTwice(SGLD):
    def init(self, theta, potential, h, T, noise):
        return {"xi": torch.zeros_like(theta), "steps": torch.zeros((len(theta), 1), dtype=torch.int64)}

    def step(self, theta, state, potential, h, T, noise):
        fresh = noise.normal(theta) + torch.zeros_like(theta)
        xi = torch.where(state["steps"] % 2 == 0, fresh, state["xi"])
        theta = theta - h * potential.grad(theta) + (2 * h * T).sqrt() * xi
        return theta, {"xi": xi, "steps": state["steps"] + 1}


class StepSizeOfTheStepBefore(SGLD):
    def init(self, theta, potential, h, T, noise):
        return {"h": h + torch.zeros_like(theta[:, :1])}

    def step(self, theta, state, potential, h, T, noise):
        old = state["h"]
        theta = theta - old * potential.grad(theta) + (2 * old * T).sqrt() * noise.normal(theta)
        return theta, {"h": h + torch.zeros_like(old)}


class NoiseAtZeroTemperature(Plain):
    def step(self, theta, state, potential, h, T, noise):
        floor = (2 * h * (T <= 0)).sqrt() * (noise.uniform(theta.shape) - 0.5)
        theta, state = super().step(theta, state, potential, h, T, noise)
        return theta + floor, state


class FlooredTemperature(Plain):
    def heat(self, h, T):
        return (2 * h * T.clamp(min=1e-3)).sqrt()


class ChainsMixed(Plain):
    def drift(self, theta, potential, h):
        return theta - h * potential.grad(theta) - h * 1e-3 * theta.mean(0)


class PositionInPlace(SGLD):
    def step(self, theta, state, potential, h, T, noise):
        theta.sub_(h * potential.grad(theta)).add_((2 * h * T).sqrt() * noise.normal(theta))
        return theta, state


class HiddenGradient(Plain):
    def drift(self, theta, potential, h):
        potential.grad(theta + 1)
        return super().drift(theta, potential, h)


class HiddenFullGradient(Plain):
    def drift(self, theta, potential, h):
        return theta - h * (potential.grad(theta) + 0 * potential.full.grad(theta))


class GradientAfterTheMove(Plain):
    def step(self, theta, state, potential, h, T, noise):
        moved = theta + (2 * h * T).sqrt() * noise.normal(theta)
        return moved - h * potential.grad(moved), state


class LostPositionSwallowed(Plain):
    def drift(self, theta, potential, h):
        return super().drift(theta, potential, h).nan_to_num()


class LostGradientSwallowed(Plain):
    def drift(self, theta, potential, h):
        return theta - h * potential.grad(theta).nan_to_num()


class GradientClipped(Plain):
    def drift(self, theta, potential, h):
        return theta - h * potential.grad(theta).clamp(-1, 1)


@dataclass(frozen=True, kw_only=True)
class RangeNotHeld(Plain):
    clip: float = param(1.0, "(0, inf)", "range of the gradient")

    def __post_init__(self):
        object.__setattr__(self, "clip", float(self.clip))


SEEN_BY = {
    NoiseTimesRootTwo: {"derived-law"},
    NoiseTwoPerCentTooWide: {"derived-law"},
    TemperatureIgnored: {"derived-law"},
    TemperatureSquared: {"derived-law"},
    HalvedStep: {"zero-temperature"},
    StaleGradient: {"zero-temperature", "potential"},
    GlobalGenerator: {"no-leaks"},
    OwnGenerator: {"seeds"},
    OneNoiseForAllCoordinates: {"derived-law"},
    OneNoiseForAllChains: {"seeds"},
    NoiseUsedTwice: {"real-loop"},
    StepSizeOfTheStepBefore: {"zero-temperature"},
    NoiseAtZeroTemperature: {"zero-temperature"},
    FlooredTemperature: {"zero-temperature"},
    ChainsMixed: {"no-leaks", "seeds"},
    PositionInPlace: {"no-leaks"},
    HiddenGradient: {"potential"},
    HiddenFullGradient: {"potential"},
    GradientAfterTheMove: {"potential"},
    LostPositionSwallowed: {"no-leaks"},
    LostGradientSwallowed: {"no-leaks"},
    GradientClipped: {"scale", "zero-temperature", "real-loop"},
    RangeNotHeld: {"hyperparameters"},
}
