"""Samplers with one planted bug each, and the laws of `bench check` that must see it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from harness import param
from plugins.samplers.msgld import MSGLD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD
from plugins.samplers.sgld_cv import SGLDSVRG
from plugins.samplers.sqnlmc import SQNLMC


class Plain(SGLD):
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


class VelocityInPlace(SGHMC):
    def step(self, theta, state, potential, h, T, noise):
        kick = (2 * self.friction * h * T).sqrt() * noise.normal(theta)
        v = state["v"].mul_(1 - self.friction).sub_(h * potential.grad(theta)).add_(kick)
        return theta + v, {"v": v}


class AdaptInPlace(SGHMC):
    def adapt(self, state, h, T):
        state["v"].mul_(1.0001)
        return state


class VelocityOutsideTheState(SGHMC):
    def init(self, theta, potential, h, T, noise):
        object.__setattr__(self, "_v", super().init(theta, potential, h, T, noise)["v"])
        return {}

    def step(self, theta, state, potential, h, T, noise):
        v = getattr(self, "_v", None)
        if v is None or v.shape != theta.shape:
            v = torch.zeros_like(theta)
        theta, new = super().step(theta, {"v": v}, potential, h, T, noise)
        object.__setattr__(self, "_v", new["v"])
        return theta, {}


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


class EulerOrder(SGHMC):
    def step(self, theta, state, potential, h, T, noise):
        moved = theta + state["v"]
        return moved, super().step(theta, state, potential, h, T, noise)[1]


class VelocitySign(SGHMC):
    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, {"v": -state["v"]}, potential, h, T, noise)


class MomentumSign(MSGLD):
    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        theta = theta - h * (g - self.a * state["m"]) + (2 * h * T).sqrt() * noise.normal(theta)
        return theta, {"m": self.beta1 * state["m"] + (1 - self.beta1) * g}


class MomentumBeforeUse(MSGLD):
    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        m = self.beta1 * state["m"] + (1 - self.beta1) * g
        return theta - h * (g + self.a * m) + (2 * h * T).sqrt() * noise.normal(theta), {"m": m}


class MomentumNotAveraged(MSGLD):
    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        theta = theta - h * (g + self.a * state["m"]) + (2 * h * T).sqrt() * noise.normal(theta)
        return theta, {"m": self.beta1 * state["m"] + g}


class BiasNotDeclared(MSGLD):
    def limit_bias(self):
        return 1.0


class GradientClipped(Plain):
    def drift(self, theta, potential, h):
        return theta - h * potential.grad(theta).clamp(-1, 1)


class NoiseWithoutTheCurvature(SQNLMC):
    """H in front of the gradient, 1 / b under the noise: right for as long as no pair has been seen."""

    def step(self, theta, state, potential, h, T, noise):
        theta, new = super().step(theta, state, potential, h, 0 * T, _Silent())
        return theta + (2 * h * T / self.b).sqrt() * noise.normal(theta), new


class _Silent:
    def normal(self, like):
        return torch.zeros_like(like)


class StateInDouble(SGHMC):
    def init(self, theta, potential, h, T, noise):
        return {"v": torch.zeros(theta.shape, dtype=torch.float64)}


@dataclass(frozen=True, kw_only=True)
class RangeNotHeld(Plain):
    clip: float = param(1.0, "(0, inf)", "range of the gradient")

    def __post_init__(self):
        object.__setattr__(self, "clip", float(self.clip))


class RefreshDropped(SGLDSVRG):
    def refresh(self, theta, state, potential):
        potential.full.grad(theta)
        return state


class RefreshOnABatch(SGLDSVRG):
    def refresh(self, theta, state, potential):
        return {**state, "centre": theta, "centre_gradient": potential.grad(theta)}


SEEN_BY = {
    RefreshDropped: {"one-step"},
    RefreshOnABatch: {"one-step"},
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
    VelocityInPlace: {"no-leaks"},
    AdaptInPlace: {"no-leaks"},
    VelocityOutsideTheState: {"restore"},
    HiddenGradient: {"potential"},
    HiddenFullGradient: {"potential"},
    GradientAfterTheMove: {"potential"},
    LostPositionSwallowed: {"no-leaks"},
    LostGradientSwallowed: {"no-leaks"},
    EulerOrder: {"zero-temperature"},
    VelocitySign: {"zero-temperature"},
    MomentumSign: {"zero-temperature", "derived-law"},
    MomentumBeforeUse: {"zero-temperature"},
    MomentumNotAveraged: {"zero-temperature", "derived-law"},
    BiasNotDeclared: {"derived-law"},
    NoiseWithoutTheCurvature: {"derived-law"},
    GradientClipped: {"scale", "zero-temperature", "real-loop"},
    StateInDouble: {"hyperparameters"},
    RangeNotHeld: {"hyperparameters"},
}
