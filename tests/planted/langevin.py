"""sgld with one planted bug each, by kind."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from harness import Sampler, UsageError, param
from planted import planted
from planted.plain import Counting, Plain

# noise


@planted("noise", "derived-law")
class NoiseTimesRootTwo(Plain):
    """The noise is sqrt(2) times too wide."""

    def heat(self, h, T):
        return 2 * (h * T).sqrt()


@planted("noise", "derived-law")
class NoiseTwoPerCentTooWide(Plain):
    """The noise is 2 % too wide."""

    def heat(self, h, T):
        return 1.02 * (2 * h * T).sqrt()


@planted("noise", "derived-law")
class OneNoiseForAllCoordinates(Plain):
    """All coordinates of a chain get the same number."""

    def xi(self, theta, noise):
        return noise.normal(theta[:, :1])


@planted("noise", "derived-law")
class NoiseOfNeighboursCorrelated(Plain):
    """The noise of neighbouring coordinates has a correlation of 0.3."""

    def xi(self, theta, noise):
        xi = super().xi(theta, noise)
        return (xi + 0.16 * xi.roll(1, 1)) / (1 + 0.16**2) ** 0.5


@planted("noise", "coordinates")
class NoiseRepeatedFromTheNinthCoordinate(Plain):
    """Coordinates from the ninth on get the noise of the first eight again."""

    def xi(self, theta, noise):
        return super().xi(theta, noise)[:, torch.arange(theta.shape[1]) % 8]


@planted("noise", "coordinates")
class NoiseMissingBeyondCoordinate100(Plain):
    """Coordinates from the 101st on get no noise."""

    def xi(self, theta, noise):
        return super().xi(theta, noise) * (torch.arange(theta.shape[1]) < 100)


@planted("noise", "coordinates")
class NoiseMissingBeyondCoordinate100000(Plain):
    """Coordinates from the 100,001st on get no noise."""

    def xi(self, theta, noise):
        return super().xi(theta, noise) * (torch.arange(theta.shape[1]) < 100_000)


@planted("noise", "derived-law")
class NoiseWithAMean(Plain):
    """The noise has a mean of 0.01."""

    def xi(self, theta, noise):
        return super().xi(theta, noise) + 0.01


@planted("noise", "real-loop")
class NoiseUsedTwice(Sampler):
    """Every number is used in two steps running."""

    def init(self, theta, potential, h, T, noise):
        return {"xi": torch.zeros_like(theta), "steps": torch.zeros((len(theta), 1), dtype=torch.int64)}

    def step(self, theta, state, potential, h, T, noise):
        fresh = noise.normal(theta) + torch.zeros_like(theta)
        xi = torch.where(state["steps"] % 2 == 0, fresh, state["xi"])
        theta = theta - h * potential.grad(theta) + (2 * h * T).sqrt() * xi
        return theta, {"xi": xi, "steps": state["steps"] + 1}


@planted("noise", "real-loop")
class NoiseTakenBack(NoiseUsedTwice):
    """Every second step takes back the noise of the one before."""

    def step(self, theta, state, potential, h, T, noise):
        fresh = noise.normal(theta) + torch.zeros_like(theta)
        xi = torch.where(state["steps"] % 2 == 0, fresh, -state["xi"])
        theta = theta - h * potential.grad(theta) + (2 * h * T).sqrt() * xi
        return theta, {"xi": xi, "steps": state["steps"] + 1}


@planted("noise", "derived-law")
class NoiseWithMemory(Sampler):
    """The noise is an AR(1) process of the right variance."""

    def init(self, theta, potential, h, T, noise):
        return {"xi": noise.normal(theta)}

    def step(self, theta, state, potential, h, T, noise):
        xi = 0.3 * state["xi"] + (1 - 0.3**2) ** 0.5 * noise.normal(theta)
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * xi, {"xi": xi}


@planted("noise", "derived-law")
class NoiseOfTwentyStepsAgainAndAgain(Counting):
    """The noise of the first 20 steps is kept in the state and used again for ever."""

    def init(self, theta, potential, h, T, noise):
        return {
            **super().init(theta, potential, h, T, noise),
            "past": theta.new_zeros((len(theta), 20, 1)) * theta[:, None],
        }

    def step(self, theta, state, potential, h, T, noise):
        k, place = state["k"], (torch.arange(20) == state["k"] % 20)[:, :, None]
        past = torch.where(place & (k < 20)[:, :, None], self.xi(theta, noise)[:, None], state["past"])
        xi = (past * place).sum(1)
        return self.drift(theta, potential, h) + self.heat(h, T) * xi, {"k": k + 1, "past": past}


@planted("noise", "one-step")
class NoiseQuantised(Plain):
    """The noise is a multiple of 0.01."""

    def xi(self, theta, noise):
        return (100 * super().xi(theta, noise)).round() / 100


@planted("noise", "one-step")
class NoiseOfTwoValues(Plain):
    """The noise is 1 or -1."""

    def xi(self, theta, noise):
        return super().xi(theta, noise).sign()


@planted("noise", "one-step")
class NoiseWithHeavyTails(Plain):
    """The noise has variance 1 and a kurtosis of 11.7: xi |xi| / sqrt(3)."""

    def xi(self, theta, noise):
        xi = super().xi(theta, noise)
        return xi * xi.abs() / 3**0.5


@planted("noise", "one-step")
class NoiseWithoutTails(Plain):
    """The noise is cut off at 2.5 standard deviations."""

    def xi(self, theta, noise):
        return super().xi(theta, noise).clamp(-2.5, 2.5)


@planted("noise", "scale")
class NoiseByTheGradient(Plain):
    """The noise grows by as much as 10 % with the gradient."""

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        return theta - h * g + self.heat(h, T) * (1 + 0.1 * g.square() / (1 + g.square())) * self.xi(
            theta, noise
        ), state


@planted("noise", "no-leaks")
class GlobalGenerator(Plain):
    """The noise is drawn from torch's global generator."""

    def xi(self, theta, noise):
        noise.normal(theta)
        return torch.randn_like(theta)


@planted("noise", "seeds")
class OwnGenerator(Plain):
    """The noise is drawn from a generator of the sampler's own."""

    def xi(self, theta, noise):
        noise.normal(theta)
        return torch.randn(theta.shape, generator=torch.Generator().manual_seed(1), dtype=theta.dtype)


# drift


@planted("drift", "zero-temperature")
class HalvedStep(Plain):
    """Half the step in drift and noise, which leaves the target as it is."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h / 2, T, noise)


@planted("drift", "zero-temperature", "potential")
class StaleGradient(Sampler):
    """The gradient is that of the step before."""

    def init(self, theta, potential, h, T, noise):
        return {"g": potential.grad(theta)}

    def step(self, theta, state, potential, h, T, noise):
        return theta - h * state["g"] + (2 * h * T).sqrt() * noise.normal(theta), {"g": potential.grad(theta)}


@planted("drift", "potential")
class GradientAfterTheMove(Plain):
    """The gradient is taken after the noise was added."""

    def step(self, theta, state, potential, h, T, noise):
        moved = theta + (2 * h * T).sqrt() * noise.normal(theta)
        return moved - h * potential.grad(moved), state


@planted("drift", "derived-law")
class DriftOnePerCentTooSmall(Plain):
    """The drift is 1 % too small."""

    def gradient(self, theta, potential):
        return 0.99 * potential.grad(theta)


@planted("drift", "derived-law")
class DriftUphill(Plain):
    """The drift goes uphill."""

    def gradient(self, theta, potential):
        return -potential.grad(theta)


@planted("drift", "derived-law")
class DriftOfOneCoordinateLost(Plain):
    """The last coordinate has no drift."""

    def gradient(self, theta, potential):
        g = potential.grad(theta)
        return torch.cat([g[:, :-1], torch.zeros_like(g[:, -1:])], 1)


@planted("drift", "translation", "zero-temperature", "scale")
class WeightDecay(Plain):
    """A weight decay of 1e-4 beside the prior."""

    def gradient(self, theta, potential):
        return potential.grad(theta) + 1e-4 * theta


@planted("drift", "scale", "zero-temperature")
class SignOfTheGradient(Plain):
    """The drift goes by the sign of the gradient."""

    def gradient(self, theta, potential):
        return potential.grad(theta).sign()


@planted("drift", "scale", "zero-temperature")
class GradientNormalised(Plain):
    """The gradient is divided by its norm."""

    def gradient(self, theta, potential):
        g = potential.grad(theta)
        return g / g.norm(dim=1, keepdim=True)


@planted("drift", "zero-temperature")
class GradientAhead(Plain):
    """The gradient is taken at the point where the step would end."""

    gradients_per_step = 2

    def gradient(self, theta, potential):
        return potential.grad(theta - 0.01 * potential.grad(theta))


# clipping


@planted("clipping", "scale", "zero-temperature")
class GradientClipped(Plain):
    """Each coordinate of the gradient is clipped at 1."""

    limit = 1.0

    def gradient(self, theta, potential):
        return potential.grad(theta).clamp(-self.limit, self.limit)


@planted("clipping", "scale", "zero-temperature")
class GradientClippedAt1000(GradientClipped):
    """Each coordinate of the gradient is clipped at 1,000."""

    limit = 1e3


@planted("clipping", "scale", "zero-temperature")
class GradientClippedAtAMillion(GradientClipped):
    """Each coordinate of the gradient is clipped at 1e6."""

    limit = 1e6


@planted("clipping", "scale", "zero-temperature")
class NormOfTheGradientClipped(Plain):
    """The norm of the gradient is clipped at 100."""

    def gradient(self, theta, potential):
        g = potential.grad(theta)
        return g * (100 / g.norm(dim=1, keepdim=True)).clamp(max=1)


@planted("clipping", "zero-temperature")
class UpdateClipped(Plain):
    """The drift of a step is clipped at 10."""

    def drift(self, theta, potential, h):
        return theta - (h * potential.grad(theta)).clamp(-10, 10)


@planted("clipping", "no-leaks")
class LostPositionSwallowed(Plain):
    """A position that is not finite becomes 0."""

    def drift(self, theta, potential, h):
        return super().drift(theta, potential, h).nan_to_num()


@planted("clipping", "no-leaks")
class LostGradientSwallowed(Plain):
    """A gradient that is not finite becomes 0."""

    def gradient(self, theta, potential):
        return potential.grad(theta).nan_to_num()


# boxes


class Boxed(Plain):
    side = 10.0

    def box(self, theta):
        return theta.clamp(-self.side, self.side)

    def step(self, theta, state, potential, h, T, noise):
        theta, state = super().step(theta, state, potential, h, T, noise)
        return self.box(theta), state


@planted("boxes", "zero-temperature", "translation")
class PositionInABox(Boxed):
    """Positions are clipped at 10."""


@planted("boxes", "zero-temperature", "translation")
class PositionInALargeBox(Boxed):
    """Positions are clipped at 10,000."""

    side = 1e4


@planted("boxes", "zero-temperature", "translation")
class PositionReflected(Boxed):
    """Positions beyond 30 are reflected."""

    def box(self, theta):
        return 30 - (30 - (theta.clamp(-90, 90) + 30).abs()).abs()


@planted("boxes", "zero-temperature", "translation")
class PositionOnATorus(Boxed):
    """Positions live on a torus of length 200."""

    def box(self, theta):
        return (theta + 100).remainder(200) - 100


# dimension


@planted("dimension", "coordinates")
class NoNoiseInManyDimensions(Plain):
    """No noise where there are more than 100 parameters."""

    def xi(self, theta, noise):
        return (theta.shape[1] <= 100) * super().xi(theta, noise)


@planted("dimension", "coordinates")
class LessNoiseInANetwork(Plain):
    """The noise is halved from 10,000 parameters on."""

    def xi(self, theta, noise):
        return (0.5 if theta.shape[1] >= 10_000 else 1) * super().xi(theta, noise)


@planted("dimension", "derived-law")
class NoiseByDimension(Plain):
    """The noise is divided by the root of the dimension."""

    def xi(self, theta, noise):
        return super().xi(theta, noise) / theta.shape[1] ** 0.5


@planted("dimension", "derived-law")
class GradientByDimension(Plain):
    """The gradient is divided by the root of the dimension."""

    def gradient(self, theta, potential):
        return potential.grad(theta) / theta.shape[1] ** 0.5


@planted("dimension", "coordinates")
class FirstCoordinateOfManyFrozen(Plain):
    """Where there are more than ten coordinates the first has half the noise."""

    def xi(self, theta, noise):
        less = (torch.arange(theta.shape[1]) == 0) & (theta.shape[1] > 10)
        return super().xi(theta, noise) * torch.where(less, 0.5, 1.0)


@planted(
    "dimension",
    unseen="laws run a finite number of dimensions, and a sampler can branch on any other one: a law that ran this one "
    "would miss the next. Its source is hashed into its rows, and RULES.md forbids branching on the dimension",
)
class OneDimensionSingledOut(Plain):
    """Half the noise where there are 61,706 parameters, those of LeNet."""

    def xi(self, theta, noise):
        return (0.5 if theta.shape[1] == 61_706 else 1) * super().xi(theta, noise)


# chain count


@planted("chain count", "seeds")
class OneNoiseForAllChains(Plain):
    """All chains get the same numbers."""

    def xi(self, theta, noise):
        return super().xi(theta, noise)[:1]


@planted("chain count", "seeds")
class NoiseOfTheNextChain(Plain):
    """A chain gets the numbers of the next one."""

    def xi(self, theta, noise):
        return super().xi(theta, noise).roll(1, 0)


@planted("chain count", "seeds")
class NoiseSharedBeyond64Chains(Plain):
    """Chains from the 65th on get the numbers of the first 64 again."""

    def xi(self, theta, noise):
        return super().xi(theta, noise)[torch.arange(len(theta)) % 64]


@planted("chain count", "seeds")
class EightChainsSingledOut(Plain):
    """Eight chains get half the noise."""

    def xi(self, theta, noise):
        return (0.5 if len(theta) == 8 else 1) * super().xi(theta, noise)


@planted("chain count", "seeds")
class NoNoiseBeyond300Chains(Plain):
    """More than 300 chains get no noise."""

    def xi(self, theta, noise):
        return (len(theta) <= 300) * super().xi(theta, noise)


@planted("chain count", "seeds")
class NoNoiseForChainsFrom500On(Plain):
    """The chains from the 501st on get no noise."""

    def xi(self, theta, noise):
        return (torch.arange(len(theta)) < 500)[:, None] * super().xi(theta, noise)


@planted("chain count", "one-step")
class FirstChainSingledOut(Plain):
    """The first chain gets half the noise."""

    def xi(self, theta, noise):
        return torch.where(torch.arange(len(theta)) == 0, 0.5, 1.0)[:, None] * super().xi(theta, noise)


@planted("chain count", "no-leaks", "seeds")
class ChainsMixed(Plain):
    """Each chain is drawn to the mean of all."""

    def drift(self, theta, potential, h):
        return super().drift(theta, potential, h) - h * 1e-3 * theta.mean(0)


# step count


@planted("step count", "time-homogeneity")
class NoiseHalvedAfter20Steps(Counting):
    """The noise is halved after 20 steps."""

    last = 20

    def at(self, k, theta, potential, h, T, noise):
        xi = torch.where(k < self.last, 1.0, 0.5) * self.xi(theta, noise)
        return self.drift(theta, potential, h) + self.heat(h, T) * xi, {}


@planted("step count", "time-homogeneity")
class NoiseHalvedAfter2000Steps(NoiseHalvedAfter20Steps):
    """The noise is halved after 2,000 steps."""

    last = 2000


@planted("step count", "time-homogeneity")
class NoiseHalvedAfter100000Steps(NoiseHalvedAfter20Steps):
    """The noise is halved after 100,000 steps."""

    last = 100_000


@planted("step count", "time-homogeneity")
class NoiseHalvedByAFloatCounter(Plain):
    """The noise is halved after 2,000 steps, counted in a float."""

    def init(self, theta, potential, h, T, noise):
        return {"k": theta.new_zeros((len(theta), 1))}

    def step(self, theta, state, potential, h, T, noise):
        xi = torch.where(state["k"] < 2000, 1.0, 0.5) * self.xi(theta, noise)
        return self.drift(theta, potential, h) + self.heat(h, T) * xi, {"k": state["k"] + 1}


@planted("step count", "time-homogeneity")
class NoNoiseEveryHundredthStep(Counting):
    """Every hundredth step has no noise."""

    def at(self, k, theta, potential, h, T, noise):
        xi = torch.where((k + 1) % 100 == 0, 0.0, 1.0) * self.xi(theta, noise)
        return self.drift(theta, potential, h) + self.heat(h, T) * xi, {}


@planted("step count", "time-homogeneity", says="'k' counts steps")
class Annealed(Counting):
    """The temperature falls as 1 / (1 + k / 10000)."""

    def at(self, k, theta, potential, h, T, noise):
        return Plain.step(self, theta, {}, potential, h, T / (1 + k.double() * 1e-4), noise)


@planted("step count", "time-homogeneity")
class FrozenAfter5000Steps(Counting):
    """A chain stays where it is after 5,000 steps."""

    def at(self, k, theta, potential, h, T, noise):
        return theta.where(k >= 5000, Plain.step(self, theta, {}, potential, h, T, noise)[0]), {}


@planted(
    "step count",
    unseen="laws run a finite number of steps (160,000, with counts set ahead by up to 1,000,000), and a sampler can "
    "wait longer. No `paper` budget has 10 million; the convergence diagnostics of a run that has them compare its "
    "second half with its first",
)
class NoiseHalvedAfterTenMillionSteps(NoiseHalvedAfter20Steps):
    """The noise is halved after 10 million steps."""

    last = 10_000_000


# temperature


@planted("temperature", "derived-law")
class TemperatureIgnored(Plain):
    """The temperature is taken to be 1."""

    def heat(self, h, T):
        return (2 * h * (T > 0)).sqrt()


@planted("temperature", "derived-law")
class TemperatureSquared(Plain):
    """The noise goes by T squared."""

    def heat(self, h, T):
        return (2 * h).sqrt() * T


@planted("temperature", "scale", "zero-temperature")
class TemperatureWithAFloor(Plain):
    """Temperatures below 1e-3 are 1e-3."""

    def heat(self, h, T):
        return (2 * h * T.clamp(min=1e-3)).sqrt()


@planted("temperature", "scale")
class TemperatureWithAFloorButForZero(Plain):
    """Temperatures below 0.1 are 0.1, save 0."""

    def heat(self, h, T):
        return (2 * h * T.clamp(min=0.1)).sqrt() * (T > 0)


@planted("temperature", "scale")
class TemperatureWithACeiling(Plain):
    """Temperatures above 100 are 100."""

    def heat(self, h, T):
        return (2 * h * T.clamp(max=100)).sqrt()


@planted("temperature", "zero-temperature")
class NoiseAtZeroTemperature(Plain):
    """There is some noise at T = 0."""

    def step(self, theta, state, potential, h, T, noise):
        floor = (2 * h * (T <= 0)).sqrt() * (noise.uniform(theta.shape) - 0.5)
        theta, state = super().step(theta, state, potential, h, T, noise)
        return theta + floor, state


@planted("temperature", "one-step")
class TemperatureOfTheFirstStep(Plain):
    """The temperature is that of the first step for ever."""

    def init(self, theta, potential, h, T, noise):
        return {"T": T + torch.zeros_like(theta[:, :1])}

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, {}, potential, h, state["T"], noise)[0], state


@planted("temperature", "one-step")
class TemperatureOfTheStepBefore(TemperatureOfTheFirstStep):
    """The temperature is that of the step before."""

    def step(self, theta, state, potential, h, T, noise):
        theta = super().step(theta, state, potential, h, T, noise)[0]
        return theta, {"T": T + torch.zeros_like(theta[:, :1])}


# step size


@planted("step size", "zero-temperature")
class StepSizeOfTheStepBefore(Sampler):
    """The step size is that of the step before."""

    def init(self, theta, potential, h, T, noise):
        return {"h": h + torch.zeros_like(theta[:, :1])}

    def step(self, theta, state, potential, h, T, noise):
        old = state["h"]
        theta = theta - old * potential.grad(theta) + (2 * old * T).sqrt() * noise.normal(theta)
        return theta, {"h": h + torch.zeros_like(old)}


@planted("step size", "zero-temperature")
class StepSizeOfTheFirstStep(StepSizeOfTheStepBefore):
    """The step size is that of the first step for ever."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T, noise)[0], state


@planted("step size", "scale")
class StepSizeWithAFloor(Plain):
    """Step sizes below 1e-7 are 1e-7."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h.clamp(min=1e-7), T, noise)


@planted("step size", "scale")
class StepSizeWithACeiling(Plain):
    """Step sizes above 1,000 are 1,000."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h.clamp(max=1000), T, noise)


@planted("step size", "scale")
class NoiseForShortStepsOnly(Plain):
    """The noise of steps longer than 1,000 is that of 1,000."""

    def heat(self, h, T):
        return (2 * h.clamp(max=1000) * T).sqrt()


# precision


@planted("precision", "one-step")
class PositionInFloat32(Boxed):
    """Positions are rounded to float32 on the way."""

    def box(self, theta):
        return theta.float().to(theta.dtype)


@planted("precision", "one-step")
class NoiseInFloat32(Plain):
    """The noise is rounded to float32."""

    def xi(self, theta, noise):
        return super().xi(theta, noise).float().to(theta.dtype)


@planted("precision", "zero-temperature", "one-step")
class GradientInBfloat16(Plain):
    """The gradient is rounded to bfloat16."""

    def gradient(self, theta, potential):
        return potential.grad(theta).bfloat16().to(theta.dtype)


@planted("precision", "one-step")
class PositionRounded(Boxed):
    """Positions are rounded to eight decimals."""

    def box(self, theta):
        return theta.round(decimals=8)


@planted("precision", "hyperparameters", says="theta was (4, 12) torch.float32")
class PositionInDouble(Boxed):
    """Positions become float64."""

    def box(self, theta):
        return theta.double()


# averaging


@planted("averaging", "potential")
class AverageForADraw(Sampler):
    """The draw is a running mean, and the chain is kept in the state."""

    share = 0.1

    def init(self, theta, potential, h, T, noise):
        return {"chain": theta}

    def step(self, theta, state, potential, h, T, noise):
        chain = state["chain"]
        chain = chain - h * potential.grad(chain) + (2 * h * T).sqrt() * noise.normal(theta)
        return self.share * chain + (1 - self.share) * theta, {"chain": chain}


@planted("averaging", "potential")
class ShrunkenDraw(AverageForADraw):
    """The draw is 0.98 of the chain, which is kept in the state."""

    def step(self, theta, state, potential, h, T, noise):
        _, state = super().step(theta, state, potential, h, T, noise)
        return 0.98 * state["chain"], state


@planted("averaging", "potential")
class AverageOfTwo(AverageForADraw):
    """The draw is the mean of the chain and the draw before."""

    share = 0.5


@planted("averaging", "zero-temperature", "derived-law")
class HalfTheMove(Plain):
    """A step goes half the way."""

    def step(self, theta, state, potential, h, T, noise):
        return (theta + super().step(theta, state, potential, h, T, noise)[0]) / 2, state


@planted("averaging", "zero-temperature")
class EveryDrawTwice(Counting):
    """Every second step repeats the draw and ignores its gradient."""

    def at(self, k, theta, potential, h, T, noise):
        return theta.where(k % 2 == 1, Plain.step(self, theta, {}, potential, h, T, noise)[0]), {}


# greed


@planted("greed", "seeds", "real-loop")
class UphillRefused(Plain):
    """A step uphill is refused."""

    gradients_per_step = 2

    def step(self, theta, state, potential, h, T, noise):
        before, g = potential.value_and_grad(theta)
        moved = theta - h * g + self.heat(h, T) * self.xi(theta, noise)
        after, _ = potential.value_and_grad(moved)
        return moved.where((after < before)[:, None], theta), state


@planted("greed", "whole-law")
class BetterOfTwo(Plain):
    """Of two proposals the one of lower energy is taken."""

    gradients_per_step = 3

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        one, other = (theta - h * g + self.heat(h, T) * self.xi(theta, noise) for _ in range(2))
        U_one, U_other = (potential.value_and_grad(x)[0] for x in (one, other))
        return one.where((U_one < U_other)[:, None], other), state


@planted("greed", "whole-law")
class NoiseTurnedDownhill(Plain):
    """One noise in ten that points uphill is turned downhill."""

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        xi = self.xi(theta, noise)
        flip = ((xi * g).sum(1, keepdim=True) > 0) & (noise.uniform((len(theta), 1)) < 0.1)
        return theta - h * g + self.heat(h, T) * torch.where(flip, -xi, xi), state


@planted("greed", "whole-law")
class EarlyStopper(Plain):
    """Half of the steps that would leave the lowest tenth of the energy are refused."""

    gradients_per_step = 2

    def step(self, theta, state, potential, h, T, noise):
        before, g = potential.value_and_grad(theta)
        moved = theta - h * g + self.heat(h, T) * self.xi(theta, noise)
        after, _ = potential.value_and_grad(moved)
        stay = (before < 0.05 * theta.shape[1] * T) & (after > before) & (noise.uniform((len(theta),)) < 0.5)
        return theta.where(stay[:, None], moved), state


# memory between runs and within


@planted("memory between runs", "no-leaks")
class PositionInPlace(Sampler):
    """theta is written in place."""

    def step(self, theta, state, potential, h, T, noise):
        theta.sub_(h * potential.grad(theta)).add_((2 * h * T).sqrt() * noise.normal(theta))
        return theta, state


@planted("memory between runs", "isolation")
class NoiseKeptInTheClass(Plain):
    """Every run after the first of its shape repeats the first number of the first run."""

    first: dict = {}  # noqa: RUF012 - the bug

    def xi(self, theta, noise):
        xi = super().xi(theta, noise)
        known = self.first.setdefault((tuple(theta.shape), theta.dtype), xi.clone())
        return 0.999 * xi + (1 - 0.999**2) ** 0.5 * known


@planted("memory between runs", "isolation")
class RunsCounted(Plain):
    """The module counts its runs, and the noise shrinks from the thousandth on."""

    def init(self, theta, potential, h, T, noise):
        COUNT["runs"] += 1
        return {}

    def xi(self, theta, noise):
        return (0.9 if COUNT["runs"] > 1000 else 1) * super().xi(theta, noise)


COUNT = {"runs": 0}


@planted("memory between runs", "isolation")
class BestPositionRemembered(Plain):
    """The class remembers the last position of the run before; a long run starts again from there."""

    last = None

    def step(self, theta, state, potential, h, T, noise):
        theta, state = super().step(theta, state, potential, h, T, noise)
        type(self).last = theta
        return theta, state


@planted("memory between runs", "isolation", says="something behind in planted.langevin.CACHE")
class CacheOfGradients(Plain):
    """Gradients are kept by position in a cache of the module, and those of an earlier run are used again.

    It makes the calls that it declares all the same, so that its cost does not show it.
    """

    def gradient(self, theta, potential):
        return CACHE.setdefault(hash(theta.numpy().tobytes()), potential.grad(theta))


CACHE: dict = {}


@planted("memory between runs", "derived-law")
class StepsCountedInTheObject(Plain):
    """The object counts its steps, and the noise changes after the eighth."""

    def step(self, theta, state, potential, h, T, noise):
        k = getattr(self, "k", 0)
        object.__setattr__(self, "k", k + 1)
        return super().step(theta, state, potential, h, (1 + 0.1 * (k > 8)) * T, noise)


# cost


@planted("cost", "potential", says="its step makes (2, 0) calls")
class HiddenGradient(Plain):
    """A gradient that is not declared."""

    def drift(self, theta, potential, h):
        potential.grad(theta + 1)
        return super().drift(theta, potential, h)


@planted("cost", "potential", says="its step makes (1, 1) calls")
class HiddenFullGradient(Plain):
    """A gradient of all the data that is not declared."""

    def gradient(self, theta, potential):
        return potential.grad(theta) + 0 * potential.full.grad(theta)


@planted("cost", "potential", says="its step makes (0, 1) calls")
class FullGradientForABatch(Plain):
    """The gradient of all the data in place of that of the batch."""

    def gradient(self, theta, potential):
        return potential.full.grad(theta)


@planted("cost", "potential", says="its step makes (2, 0) calls")
class HiddenEnergy(Plain):
    """An energy that is not declared."""

    def drift(self, theta, potential, h):
        return super().drift(theta, potential, h) + 0 * potential.value_and_grad(theta)[0][:, None]


@planted("cost", "isolation", says="a call costs one gradient a chain")
class TwoPointsInOneCall(Plain):
    """One gradient call with two rows a chain, wherever torch can do it."""

    def gradient(self, theta, potential):
        try:
            one, other = potential.grad(torch.cat([theta, theta + 1e-3])).chunk(2)
        except RuntimeError:  # rows that have curvatures or batches of their own
            return potential.grad(theta)
        return (one + other) / 2


# declaration


@planted("declaration", "hyperparameters", says="clip = 0.0 is accepted")
@dataclass(frozen=True, kw_only=True)
class RangeNotHeld(Plain):
    """Any finite number is accepted for a hyperparameter, inside its range or not."""

    clip: float = param(1.0, "(0, inf)", "range of the gradient")

    def __post_init__(self):
        if not isinstance(self.clip, int | float) or not math.isfinite(self.clip):
            raise UsageError(f"clip = {self.clip!r} is not a finite number")


@planted("declaration", "zero-temperature")
class NoOptimiserDeclared(HalvedStep):
    """Half the step, and no optimiser is declared for T = 0 that would show it."""

    zero_temperature = None
