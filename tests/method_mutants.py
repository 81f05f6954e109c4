"""Samplers other than sgld with one planted bug each, and the laws of `bench check` that must see it."""

from __future__ import annotations

import torch

from plugins.samplers.adadelta_sgld import AdadeltaSGLD
from plugins.samplers.adamax_sgld import AdamaxSGLD
from plugins.samplers.asgld import ASGLD
from plugins.samplers.contour_sgld import ContourSGLD
from plugins.samplers.msgld import MSGLD
from plugins.samplers.resgld import RESGLD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD
from plugins.samplers.sgld_cv import SGLDSVRG
from plugins.samplers.sgnht import SGNHT
from plugins.samplers.sgrld import SGRLD
from plugins.samplers.sqnlmc import SQNLMC


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


class RefreshDropped(SGLDSVRG):
    def refresh(self, theta, state, potential):
        potential.full.grad(theta)
        return state


class RefreshOnABatch(SGLDSVRG):
    def refresh(self, theta, state, potential):
        return {**state, "centre": theta, "centre_gradient": potential.grad(theta)}


class NoiseBySquares(ASGLD):
    """Noise that is right while V is 0, where it starts."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T, _Louder(noise, (1 + state["V"]).sqrt()))


class NoiseBySize(AdamaxSGLD):
    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T, _Louder(noise, 1 + state["u"]))


class NoiseByMeanSquares(AdadeltaSGLD):
    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T, _Louder(noise, (1 + state["V"]).rsqrt()))


class _Louder:
    def __init__(self, noise, factor):
        self.noise, self.factor = noise, factor

    def normal(self, like):
        return self.factor * self.noise.normal(like)


class CorrectionSign(SGLD):
    def step(self, theta, state, potential, h, T, noise):
        kick = (2 * h * T + h * h * self.gradient_variance).sqrt() * noise.normal(theta)
        return theta - h * potential.grad(theta) + kick, state


class CorrectionSignInTheVelocity(SGHMC):
    def step(self, theta, state, potential, h, T, noise):
        kick = (2 * self.friction * h * T + h * h * self.gradient_variance).sqrt() * noise.normal(theta)
        v = (1 - self.friction) * state["v"] - h * potential.grad(theta) + kick
        return theta + v, {"v": v}


class CorrectionInTheDeviation(SGLD):
    def step(self, theta, state, potential, h, T, noise):
        kick = ((2 * h * T).sqrt() - h * self.gradient_variance**0.5) * noise.normal(theta)
        return theta - h * potential.grad(theta) + kick, state


class Halved:
    """Before a sampler among the bases: half the step in drift and noise, which leaves every target as it is."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h / 2, T, noise)


class HalvedContour(Halved, ContourSGLD):
    pass


class HalvedExchange(Halved, RESGLD):
    pass


class HalvedRiemannian(Halved, SGRLD):
    pass


class HalvedThermostat(Halved, SGNHT):
    pass


class HalvedVarianceReduction(Halved, SGLDSVRG):
    pass


SEEN_BY = {
    VelocityInPlace: {"no-leaks"},
    AdaptInPlace: {"no-leaks"},
    VelocityOutsideTheState: {"restore"},
    EulerOrder: {"zero-temperature"},
    VelocitySign: {"zero-temperature"},
    MomentumSign: {"zero-temperature", "derived-law"},
    MomentumBeforeUse: {"zero-temperature"},
    MomentumNotAveraged: {"zero-temperature", "derived-law"},
    BiasNotDeclared: {"derived-law"},
    NoiseWithoutTheCurvature: {"derived-law"},
    StateInDouble: {"hyperparameters"},
    RefreshDropped: {"one-step"},
    RefreshOnABatch: {"one-step"},
    NoiseBySquares: {"derived-law"},
    NoiseBySize: {"derived-law"},
    NoiseByMeanSquares: {"derived-law"},
    CorrectionSign: {"derived-law"},
    CorrectionSignInTheVelocity: {"derived-law"},
    CorrectionInTheDeviation: {"derived-law"},
    HalvedContour: {"zero-temperature"},
    HalvedExchange: {"zero-temperature"},
    HalvedRiemannian: {"zero-temperature"},
    HalvedThermostat: {"zero-temperature"},
    HalvedVarianceReduction: {"zero-temperature"},
}
