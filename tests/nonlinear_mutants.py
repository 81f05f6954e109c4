"""Right samplers that are not linear, and the same with one planted bug each: what the long-run check must see."""

from __future__ import annotations

from dataclasses import dataclass

from mutants import NoiseTimesRootTwo, OneNoiseForAllCoordinates, Plain, TemperatureIgnored, TemperatureSquared

from harness import param
from plugins.samplers.contour_sgld import ContourSGLD
from plugins.samplers.sgrld import SGRLD


class Tamed(Plain):
    """Not linear, and right: the drift h g / (1 + h |g|) is h g as h -> 0."""

    zero_temperature = None

    def drift(self, theta, potential, h):
        g = potential.grad(theta)
        return theta - h * g / (1 + h * g.abs())


class TamedNoiseTimesRootTwo(NoiseTimesRootTwo, Tamed):
    pass


class TamedNoiseTenTimesTooSmall(Tamed):
    def heat(self, h, T):
        return 0.1 * super().heat(h, T)


class TamedWithoutNoise(Tamed):
    def heat(self, h, T):
        return 0 * h * T


class TamedTemperatureIgnored(TemperatureIgnored, Tamed):
    pass


class TamedTemperatureSquared(TemperatureSquared, Tamed):
    pass


class TamedOneNoiseForAllCoordinates(OneNoiseForAllCoordinates, Tamed):
    pass


class TamedDriftUphill(Tamed):
    def drift(self, theta, potential, h):
        return 2 * theta - super().drift(theta, potential, h)


class Weighted(Tamed):
    """Not linear, and right: it samples exp(-1.25 U/T) and gives each draw the weight exp(0.25 U/T)."""

    gradients_per_step = 2

    def init(self, theta, potential, h, T, noise):
        return {"log_weight": 0.25 * potential.value_and_grad(theta)[0] / T}

    def step(self, theta, state, potential, h, T, noise):
        theta = self.drift(theta, potential, 1.25 * h) + self.heat(h, T) * self.xi(theta, noise)
        return theta, {"log_weight": 0.25 * potential.value_and_grad(theta)[0] / T}

    def log_weight(self, state):
        return state["log_weight"]


class WeightsDropped(Weighted):
    def log_weight(self, state):
        return None


class WeightsInverted(Weighted):
    def log_weight(self, state):
        return -state["log_weight"]


@dataclass(frozen=True, kw_only=True)
class QuickContour(ContourSGLD):
    """Learns the landscape within the few thousand steps of the law, so that its weights matter."""

    bins: int = param(20, "[2, 100000]", "m")
    high: float = param(40.0, meaning="upper end")
    fastest: float = param(0.02, "(0, 1)", "w1")
    decay: float = param(100.0, "(0, inf)", "w2")


class ContourWeightsDropped(ContourSGLD):
    """At the defaults, as an author's would be: slow to learn, and seen all the same."""

    def log_weight(self, state):
        return None


class _Bent:
    """A potential whose metric has another Gamma."""

    def __init__(self, potential, factor):
        self.potential, self.factor = potential, factor

    def grad(self, x):
        return self.potential.grad(x)

    def metric(self, x):
        D, gamma = self.potential.metric(x)
        return D, self.factor * gamma


class GammaSign(SGRLD):
    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, _Bent(potential, -1), h, T, noise)


class GammaDropped(SGRLD):
    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, _Bent(potential, 0), h, T, noise)


SEEN_BY = {
    ContourWeightsDropped: {"real-loop"},
    GammaSign: {"real-loop"},
    GammaDropped: {"real-loop"},
    TamedNoiseTimesRootTwo: {"real-loop"},
    TamedNoiseTenTimesTooSmall: {"real-loop"},
    TamedWithoutNoise: {"real-loop"},
    TamedTemperatureIgnored: {"real-loop"},
    TamedTemperatureSquared: {"real-loop"},
    TamedOneNoiseForAllCoordinates: {"real-loop"},
    TamedDriftUphill: {"real-loop"},
    WeightsDropped: {"real-loop"},
    WeightsInverted: {"real-loop"},
}
