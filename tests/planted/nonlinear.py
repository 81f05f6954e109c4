"""Nonlinear samplers, and samplers with importance weights, with one planted bug each."""

from __future__ import annotations

from planted import planted
from planted.langevin import NoiseTimesRootTwo, OneNoiseForAllCoordinates, TemperatureIgnored, TemperatureSquared
from planted.momentum import Louder
from planted.plain import QuickContour, Tamed, Weighted
from plugins.samplers.contour_sgld import ContourSGLD
from plugins.samplers.relativistic_sghmc import RelativisticSGHMC
from plugins.samplers.resgld import RESGLD
from plugins.samplers.sgrld import SGRLD


@planted("noise", "whole-law")
class TamedNoiseTimesRootTwo(NoiseTimesRootTwo, Tamed):
    """The noise of a tamed sgld is sqrt(2) times too wide."""


@planted("noise", "whole-law")
class TamedNoiseTwoPerCentTooWide(Tamed):
    """The noise of a tamed sgld is 2 % too wide."""

    def heat(self, h, T):
        return 1.02 * super().heat(h, T)


@planted("noise", "whole-law")
class TamedNoiseTenTimesTooSmall(Tamed):
    """The noise of a tamed sgld is ten times too small."""

    def heat(self, h, T):
        return 0.1 * super().heat(h, T)


@planted("noise", "seeds", "whole-law")
class TamedWithoutNoise(Tamed):
    """A tamed sgld has no noise."""

    def heat(self, h, T):
        return 0 * h * T


@planted("temperature", "scale", "whole-law")
class TamedTemperatureIgnored(TemperatureIgnored, Tamed):
    """A tamed sgld takes the temperature to be 1."""


@planted("temperature", "scale", "whole-law")
class TamedTemperatureSquared(TemperatureSquared, Tamed):
    """The noise of a tamed sgld goes by T squared."""


@planted("noise", "whole-law")
class TamedOneNoiseForAllCoordinates(OneNoiseForAllCoordinates, Tamed):
    """All coordinates of a tamed sgld get the same number."""


@planted("drift", "whole-law")
class TamedDriftUphill(Tamed):
    """The drift of a tamed sgld goes uphill."""

    def drift(self, theta, potential, h):
        return 2 * theta - super().drift(theta, potential, h)


@planted("clipping", "scale", "real-loop")
class TamedGradientClipped(Tamed):
    """The gradient of a tamed sgld is clipped at 5."""

    def gradient(self, theta, potential):
        return potential.grad(theta).clamp(-5, 5)


@planted("boxes", "translation")
class TamedPositionInABox(Tamed):
    """The position of a tamed sgld is clipped at 100."""

    def step(self, theta, state, potential, h, T, noise):
        theta, state = super().step(theta, state, potential, h, T, noise)
        return theta.clamp(-100, 100), state


@planted("temperature", "scale")
class TamedTemperatureWithAFloor(Tamed):
    """Temperatures of a tamed sgld below 0.1 are 0.1."""

    def heat(self, h, T):
        return super().heat(h, T.clamp(min=0.1))


@planted("momentum", "whole-law")
class RelativisticNoiseFivePerCentTooWide(RelativisticSGHMC):
    """The noise of relativistic-sghmc is 5 % too wide."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T, Louder(noise, 1.05))


@planted("weights", "whole-law")
class ContourWeightsDropped(ContourSGLD):
    """contour-sgld at its defaults, without its weights."""

    def log_weight(self, state):
        return None


@planted("weights", "whole-law")
class ContourWeightsHalved(QuickContour):
    """contour-sgld with the root of its weights."""

    def log_weight(self, state):
        return state["log_weight"] / 2


@planted("weights", "whole-law")
class WeightsDropped(Weighted):
    """Importance weights are left out."""

    def log_weight(self, state):
        return None


@planted("weights", "whole-law")
class WeightsInverted(Weighted):
    """Importance weights are inverted."""

    def log_weight(self, state):
        return -state["log_weight"]


@planted("weights", "whole-law")
class WeightsHalved(Weighted):
    """Importance weights enter by their root."""

    def log_weight(self, state):
        return state["log_weight"] / 2


@planted("weights", "one-step")
class WeightsLagged(Weighted):
    """A draw has the weight of the draw before."""

    def init(self, theta, potential, h, T, noise):
        state = super().init(theta, potential, h, T, noise)
        return {**state, "before": state["log_weight"]}

    def step(self, theta, state, potential, h, T, noise):
        theta, new = super().step(theta, {"log_weight": state["log_weight"]}, potential, h, T, noise)
        return theta, {**new, "before": state["log_weight"]}

    def log_weight(self, state):
        return state["before"]


@planted("weights", "whole-law")
class WeightsCapped(Weighted):
    """Importance weights are cut off at e^0.5."""

    def log_weight(self, state):
        return state["log_weight"].clamp(max=0.5)


@planted("weights", "scale", "real-loop")
class WeightsWithoutTheTemperature(Weighted):
    """Importance weights are those of T = 1."""

    def log(self, theta, potential, T):
        return super().log(theta, potential, T / T)


class Bent:
    """A potential whose metric has another Gamma."""

    def __init__(self, potential, factor):
        self.potential, self.factor = potential, factor

    def grad(self, x):
        return self.potential.grad(x)

    def metric(self, x):
        D, gamma = self.potential.metric(x)
        return D, self.factor * gamma


@planted("drift", "whole-law")
class GammaSign(SGRLD):
    """Gamma has the wrong sign."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, Bent(potential, -1), h, T, noise)


@planted("drift", "whole-law")
class GammaDropped(SGRLD):
    """Gamma is left out."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, Bent(potential, 0), h, T, noise)


@planted("temperature", "scale")
class SwapsAtAnotherTemperature(RESGLD):
    """resgld swaps by the energies without 1 / T."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, Hotter(potential, T), h, T, noise)


class Hotter:
    """A potential whose energy is multiplied by T: what 1 / T would take off again."""

    def __init__(self, potential, T):
        self.potential, self.T = potential, T

    def value_and_grad(self, x):
        U, g = self.potential.value_and_grad(x)
        return self.T.squeeze() * U, g
