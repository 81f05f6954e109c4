"""Bugs that show where laws seldom look: large tasks, float32, long burn-ins, late steps; and one without any law."""

from __future__ import annotations

from typing import ClassVar

import torch

from planted import planted
from planted.plain import Counting, Plain, Tamed
from planted.unusual import EulerSGHMC


@planted("truth", "one-step")
class NoiseHalvedOnTasksOfManyTerms(Plain):
    """The noise is halved where the task has more than one term."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T / 4 if potential.terms > 1 else T, noise)


@planted("precision", "one-step")
class NoiseHalvedInFloat32(Plain):
    """The noise is halved in float32."""

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, T / 4 if theta.dtype == torch.float32 else T, noise)


@planted("step count", "time-homogeneity")
class NoiseHalvedByACountDeclaredAdaptive(Counting):
    """The noise is halved after 20,000 steps, and the count is declared adaptive."""

    adaptive: ClassVar = ("k",)

    def at(self, k, theta, potential, h, T, noise):
        return super().at(k, theta, potential, h, T * torch.where(k < 20_000, 1.0, 0.25).to(theta.dtype), noise)


@planted("step count", "time-homogeneity")
class NoiseHalvedAfterALongBurnIn(Plain):
    """`adapt` counts burn-in steps; the noise is halved after 1,000 of them."""

    def init(self, theta, potential, h, T, noise):
        return {"k": torch.zeros((len(theta), 1), dtype=torch.int64)}

    def step(self, theta, state, potential, h, T, noise):
        T = T * torch.where(state["k"] > 1000, 0.25, 1.0).to(theta.dtype)
        return super().step(theta, {}, potential, h, T, noise)[0], state

    def adapt(self, state, h, T):
        return {"k": state["k"] + 1}


@planted("adaptation", "whole-law")
class NoiseThatShrinksInTheBurnIn(Plain):
    """Each `adapt` takes 1 part in 10,000 off the noise, not below a half."""

    def init(self, theta, potential, h, T, noise):
        return {"s": theta.new_ones((len(theta), 1))}

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, {}, potential, h, T * state["s"] ** 2, noise)[0], state

    def adapt(self, state, h, T):
        return {"s": (state["s"] * (1 - 1e-4)).clamp(min=0.5)}


@planted("step count", "time-homogeneity")
class NoNoiseAtEvery25thStepOfAVelocity(EulerSGHMC):
    """The position moves before the velocity, which gets no noise at every 25th step."""

    def init(self, theta, potential, h, T, noise):
        return {**super().init(theta, potential, h, T, noise), "k": torch.zeros((len(theta), 1), dtype=torch.int64)}

    def step(self, theta, state, potential, h, T, noise):
        T = T * torch.where(state["k"] % 25 == 24, 0.0, 1.0).to(theta.dtype)
        theta, new = super().step(theta, {"v": state["v"]}, potential, h, T, noise)
        return theta, {**new, "k": state["k"] + 1}


@planted("declaration", "whole-law")
class HalfTheTemperatureAndExempt(Tamed):
    """At half the temperature, not linear, and exempt from all laws from which it may be."""

    exempt: ClassVar = dict.fromkeys(
        ("derived-law", "scale", "potential", "coordinates", "whole-law", "time-homogeneity", "translation"), "a proof"
    )

    def heat(self, h, T):
        return (h * T).sqrt()
