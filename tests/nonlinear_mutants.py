"""Right samplers that are not linear, and the same with one planted bug each: what the long-run check must see."""

from __future__ import annotations

from mutants import NoiseTimesRootTwo, OneNoiseForAllCoordinates, Plain, TemperatureIgnored, TemperatureSquared


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


SEEN_BY = {
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
