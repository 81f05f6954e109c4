"""Samplers with momentum, adaptation or a Metropolis test, with one planted bug each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from harness import Sampler, param
from planted import planted
from plugins.samplers.adadelta_sgld import AdadeltaSGLD
from plugins.samplers.adamax_sgld import AdamaxSGLD
from plugins.samplers.asgld import ASGLD
from plugins.samplers.baoab import BAOAB
from plugins.samplers.contour_sgld import ContourSGLD
from plugins.samplers.hmc import HMC
from plugins.samplers.msgld import MSGLD
from plugins.samplers.psgld import PSGLD
from plugins.samplers.resgld import RESGLD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD
from plugins.samplers.sgld_cv import SGLDSVRG
from plugins.samplers.sgnht import SGNHT
from plugins.samplers.sgrld import SGRLD
from plugins.samplers.sqnlmc import SQNLMC

# momentum


@planted("momentum", "no-leaks")
class VelocityInPlace(SGHMC):
    """The velocity is written in place."""

    def step(self, theta, state, potential, h, T, noise):
        kick = (2 * self.friction * h * T).sqrt() * noise.normal(theta)
        v = state["v"].mul_(1 - self.friction).sub_(h * potential.grad(theta)).add_(kick)
        return theta + v, {"v": v}


@planted("momentum", "one-step", "restore")
class VelocityOutsideTheState(SGHMC):
    """The velocity is kept in the object."""

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


@planted("momentum", "zero-temperature")
class EulerOrder(SGHMC):
    """The position moves by the velocity of the step before."""

    def step(self, theta, state, potential, h, T, noise):
        moved = theta + state["v"]
        return moved, super().step(theta, state, potential, h, T, noise)[1]


@planted("momentum", "zero-temperature")
class VelocitySign(SGHMC):
    """The velocity is turned at every step."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, {"v": -state["v"]}, potential, h, T, noise)


@planted("momentum", "derived-law")
class FrictionWithoutItsNoise(SGHMC):
    """The variance of the noise is that of half the friction."""

    def step(self, theta, state, potential, h, T, noise):
        kick = (self.friction * h * T).sqrt() * noise.normal(theta)
        v = (1 - self.friction) * state["v"] - h * potential.grad(theta) + kick
        return theta + v, {"v": v}


@planted("momentum", "derived-law")
class NoiseOfTheExactFriction(SGHMC):
    """The noise of an exact Ornstein-Uhlenbeck step, a (2 - a) h T, with the friction of an Euler step."""

    def step(self, theta, state, potential, h, T, noise):
        a = self.friction
        kick = (a * (2 - a) * h * T).sqrt() * noise.normal(theta)
        v = (1 - a) * state["v"] - h * potential.grad(theta) + kick
        return theta + v, {"v": v}


@planted("momentum", "derived-law")
class OneMinusTheMomentum(SGHMC):
    """Friction and momentum are taken for each other, in the noise alone."""

    def step(self, theta, state, potential, h, T, noise):
        kick = (2 * (1 - self.friction) * h * T).sqrt() * noise.normal(theta)
        v = (1 - self.friction) * state["v"] - h * potential.grad(theta) + kick
        return theta + v, {"v": v}


@planted("momentum", "zero-temperature")
class VelocityForgotten(SGHMC):
    """The velocity is 0 at every fiftieth step."""

    def init(self, theta, potential, h, T, noise):
        start = super().init(theta, potential, h, T, noise)
        return {**start, "k": torch.zeros((len(theta), 1), dtype=torch.int64)}

    def step(self, theta, state, potential, h, T, noise):
        v = state["v"].masked_fill(state["k"] % 50 == 49, 0)
        theta, new = super().step(theta, {"v": v}, potential, h, T, noise)
        return theta, {**new, "k": state["k"] + 1}


@planted("momentum", "zero-temperature")
class VelocityClipped(SGHMC):
    """The velocity is clipped at 100."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, {"v": state["v"].clamp(-100, 100)}, potential, h, T, noise)


@planted("momentum", "one-step")
class VelocityInFloat32(SGHMC):
    """The velocity is rounded to float32."""

    def step(self, theta, state, potential, h, T, noise):
        theta, new = super().step(theta, state, potential, h, T, noise)
        return theta, {"v": new["v"].float().to(theta.dtype)}


@planted("momentum", "hyperparameters", says="state 'v' is torch.float64 after a run in torch.float32")
class StateInDouble(SGHMC):
    """The velocity is float64 whatever theta is."""

    def init(self, theta, potential, h, T, noise):
        return {"v": torch.zeros(theta.shape, dtype=torch.float64)}

    def step(self, theta, state, potential, h, T, noise):
        moved, new = super().step(theta, state, potential, h, T, noise)
        return moved.to(theta.dtype), new


@planted("momentum", "zero-temperature", "derived-law")
class MomentumSign(MSGLD):
    """The mean of the gradients has the wrong sign."""

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        theta = theta - h * (g - self.a * state["m"]) + (2 * h * T).sqrt() * noise.normal(theta)
        return theta, {"m": self.beta1 * state["m"] + (1 - self.beta1) * g}


@planted("momentum", "zero-temperature")
class MomentumBeforeUse(MSGLD):
    """The mean of the gradients is updated before it is used."""

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        m = self.beta1 * state["m"] + (1 - self.beta1) * g
        return theta - h * (g + self.a * m) + (2 * h * T).sqrt() * noise.normal(theta), {"m": m}


@planted("momentum", "zero-temperature", "derived-law")
class MomentumNotAveraged(MSGLD):
    """The factor 1 - beta1 is missing."""

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        theta = theta - h * (g + self.a * state["m"]) + (2 * h * T).sqrt() * noise.normal(theta)
        return theta, {"m": self.beta1 * state["m"] + g}


@planted("momentum", "derived-law")
class BiasNotDeclared(MSGLD):
    """limit_bias says 1."""

    def limit_bias(self):
        return 1.0


@planted("momentum", "derived-law")
class WholeDriftForHalf(BAOAB):
    """The last half drift is a whole one."""

    def step(self, theta, state, potential, h, T, noise):
        c = 1 - self.friction
        v = state["v"] - h * potential.grad(theta)
        theta = theta + v / 2
        v = c * v + ((1 - c * c) * h * T).sqrt() * noise.normal(theta)
        return theta + v, {"v": v}


@planted("momentum", "derived-law")
class NoiseOfTheEulerFriction(BAOAB):
    """The noise of an Euler step, 2 (1 - c) h T, with the friction of an exact one."""

    def step(self, theta, state, potential, h, T, noise):
        c = 1 - self.friction
        v = state["v"] - h * potential.grad(theta)
        theta = theta + v / 2
        v = c * v + (2 * (1 - c) * h * T).sqrt() * noise.normal(theta)
        return theta + v / 2, {"v": v}


@planted("momentum", "whole-law")
class ThermostatNoiseTimesRootTwo(SGNHT):
    """sgnht's own noise is sqrt(2) times too wide."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T, Louder(noise, 2**0.5))


@planted("momentum", "whole-law")
class ThermostatNoiseShared(SGNHT):
    """All coordinates of sgnht get the same noise."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T, Shared(noise))


@planted("step size", "zero-temperature")
class HalvedThermostat(SGNHT):
    """Half the step in sgnht."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h / 2, T, noise)


class Louder:
    def __init__(self, noise, factor):
        self.noise, self.factor = noise, factor

    def normal(self, like):
        return self.factor * self.noise.normal(like)

    def uniform(self, shape):
        return self.noise.uniform(shape)


class Shared:
    def __init__(self, noise):
        self.noise = noise

    def normal(self, like):
        return self.noise.normal(like[:, :1])


class Silent:
    def normal(self, like):
        return torch.zeros_like(like)


# adaptation


@planted("adaptation", "no-leaks")
class AdaptInPlace(SGHMC):
    """adapt writes into the state."""

    def adapt(self, state, h, T):
        state["v"].mul_(1.0001)
        return state


@planted("adaptation", "derived-law")
class NoiseWithoutTheCurvature(SQNLMC):
    """H in front of the gradient, 1 / b under the noise: right for as long as no pair has been seen."""

    def step(self, theta, state, potential, h, T, noise):
        theta, new = super().step(theta, state, potential, h, 0 * T, Silent())
        return theta + (2 * h * T / self.b).sqrt() * noise.normal(theta), new


@planted("adaptation", "derived-law")
class NoiseBySquares(ASGLD):
    """Noise that grows with V, and is right while V is 0, where it starts."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T, Louder(noise, (1 + state["V"]).sqrt()))


@planted("adaptation", "derived-law")
class NoiseBySize(AdamaxSGLD):
    """Noise that grows with the largest gradient."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T, Louder(noise, 1 + state["u"]))


@planted("adaptation", "derived-law")
class NoiseByMeanSquares(AdadeltaSGLD):
    """Noise that shrinks with the mean square of the gradient."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T, Louder(noise, (1 + state["V"]).rsqrt()))


@planted("adaptation", "derived-law")
class NoiseNotPreconditioned(PSGLD):
    """psgld with the preconditioner in front of the gradient and none under the noise."""

    def step(self, theta, state, potential, h, T, noise):
        moved, new = super().step(theta, state, potential, h, 0 * T, Silent())
        return moved + (2 * h * T).sqrt() * noise.normal(theta), new


@planted("adaptation", "derived-law")
class NoiseByTheWholePreconditioner(PSGLD):
    """psgld with G and not its root under the noise."""

    def step(self, theta, state, potential, h, T, noise):
        moved, new = super().step(theta, state, potential, h, 0 * T, Silent())
        G = 1 / (self.lam + new["V"].sqrt())
        return moved + (2 * h * T).sqrt() * G * noise.normal(theta), new


@planted("adaptation", "zero-temperature")
class SquaresFromZero(PSGLD):
    """psgld with V from 0 and no correction for it."""

    def init(self, theta, potential, h, T, noise):
        return {"V": torch.zeros_like(theta)}


@planted("adaptation", "zero-temperature")
class PreconditionerOfTheStepBefore(PSGLD):
    """psgld with the V of the step before."""

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        G = 1 / (self.lam + state["V"].sqrt())
        V = self.decay * state["V"] + (1 - self.decay) * g * g
        return theta - h * G * g + (2 * h * T * G).sqrt() * noise.normal(theta), {"V": V}


@planted("adaptation", "scale")
@dataclass(frozen=True, kw_only=True)
class LambdaInOtherUnits(PSGLD):
    """psgld whose lam stays as it is where U becomes c U."""

    lam: float = param(0.1, "(0, inf)", "added to the size")

    def rescale(self, c):
        return self, 1.0


@planted("adaptation", "whole-law")
@dataclass(frozen=True, kw_only=True)
class BiasOfThePreconditioner(Sampler):
    """psgld with lam = 0.1, which has a variance of 1.53 on N(0, 1), under another name and without a declared law."""

    adaptive: ClassVar = ("V",)
    zero_temperature: ClassVar = "rmsprop"

    decay: float = param(0.99, "[0, 1)", "smoothing factor of the squared gradient")
    lam: float = param(0.1, "(0, inf)", "added to the size")

    init, step = PSGLD.init, PSGLD.step
    gamma: ClassVar = False

    def rescale(self, c):
        return replace(self, lam=c * self.lam), 1.0


@planted("adaptation", "derived-law")
class CorrectionSign(SGLD):
    """The variance of the gradient is added to that of the noise."""

    def step(self, theta, state, potential, h, T, noise):
        kick = (2 * h * T + h * h * self.gradient_variance).sqrt() * noise.normal(theta)
        return theta - h * potential.grad(theta) + kick, state


@planted("adaptation", "derived-law")
class CorrectionSignInTheVelocity(SGHMC):
    """The variance of the gradient is added to that of the noise of the velocity."""

    def step(self, theta, state, potential, h, T, noise):
        kick = (2 * self.friction * h * T + h * h * self.gradient_variance).sqrt() * noise.normal(theta)
        v = (1 - self.friction) * state["v"] - h * potential.grad(theta) + kick
        return theta + v, {"v": v}


@planted("adaptation", "derived-law")
class CorrectionInTheDeviation(SGLD):
    """The deviation of the gradient is taken off that of the noise, not the variance off the variance."""

    def step(self, theta, state, potential, h, T, noise):
        kick = ((2 * h * T).sqrt() - h * self.gradient_variance**0.5) * noise.normal(theta)
        return theta - h * potential.grad(theta) + kick, state


@planted("adaptation", "one-step")
class RefreshDropped(SGLDSVRG):
    """The full gradient of a refresh is thrown away."""

    def refresh(self, theta, state, potential):
        potential.full.grad(theta)
        return state


@planted("adaptation", "one-step")
class RefreshOnABatch(SGLDSVRG):
    """A refresh goes by the gradient of a batch."""

    def refresh(self, theta, state, potential):
        return {**state, "centre": theta, "centre_gradient": potential.grad(theta)}


class Halved:
    """Before a sampler among the bases: half the step in drift and noise, which leaves every target as it is."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h / 2, T, noise)


@planted("step size", "zero-temperature")
class HalvedContour(Halved, ContourSGLD):
    """Half the step in contour-sgld."""


@planted("step size", "zero-temperature")
class HalvedExchange(Halved, RESGLD):
    """Half the step in resgld."""


@planted("step size", "zero-temperature")
class HalvedRiemannian(Halved, SGRLD):
    """Half the step in sgrld."""


@planted("step size", "zero-temperature")
class HalvedVarianceReduction(Halved, SGLDSVRG):
    """Half the step in sgld-svrg."""


@planted(
    "step size",
    right="it is hmc at half the step size, and its Metropolis test makes the target exact at every step size; only "
    "the test of its equation shows it",
)
class HalvedProposal(Halved, HMC):
    """Half the step in hmc."""


# HMC's energy


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


@planted("HMC's energy", "real-loop")
class KineticEnergyForgotten(Metropolis):
    """The test leaves out the kinetic energy."""

    def difference(self, energy, state, kinetic):
        return energy - state["energy"]


@planted("HMC's energy", "real-loop")
class SignOfTheKineticEnergy(Metropolis):
    """The kinetic energy has the wrong sign."""

    def difference(self, energy, state, kinetic):
        return energy - state["energy"] - kinetic


@planted("HMC's energy", "real-loop")
class AlwaysAccepted(Metropolis):
    """Every proposal is accepted."""

    def threshold(self, u):
        return -torch.inf * torch.ones_like(u)


@planted("HMC's energy", "real-loop")
class SignOfTheTest(Metropolis):
    """What should be accepted is refused."""

    def difference(self, energy, state, kinetic):
        return -super().difference(energy, state, kinetic)


@planted("HMC's energy", "real-loop")
class TemperatureForgottenInTheTest(Metropolis):
    """The test is that of T = 1."""

    def heat(self, T):
        return torch.ones_like(T)


@planted("HMC's energy", "real-loop")
class EnergyOfTheRefused(Metropolis):
    """The energy of a refused proposal is kept for that of the position."""

    def left(self, moved, energy, state):
        return energy


@planted("HMC's energy", "real-loop")
class LastHalfKickForgotten(Metropolis):
    """The momentum lacks its last half kick when its energy is taken."""

    def last(self, r, epsilon, gradient):
        return r


@planted("HMC's energy", "real-loop")
class MomentumTooWide(Metropolis):
    """The momentum is 5 % too wide, and the test does not know it."""

    def momentum(self, theta, T, noise):
        return 1.05 * super().momentum(theta, T, noise)


@planted("HMC's energy", "real-loop")
class GreedyTest(Metropolis):
    """A proposal is accepted where the energy falls, and never else."""

    def threshold(self, u):
        return torch.zeros_like(u)


@planted("HMC's energy", "real-loop")
class OneTestForAllChains(Metropolis):
    """All chains are tested with the same uniform number."""

    def threshold(self, u):
        return u[:1].log().expand_as(u)
