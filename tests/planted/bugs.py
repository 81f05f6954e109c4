"""All planted bugs."""

# ruff: noqa: ERA001, F401, F821 - names are defined by `bug` and used in texts; comments are headings
# fmt: off

from __future__ import annotations

import gc
import inspect
import math
import os
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from harness import Sampler, UsageError, param
from planted import BUGS, plant, planter
from planted.plain import (
    Bent,
    Boxed,
    ByTheNorm,
    Counting,
    Halved,
    Heated,
    Hotter,
    Louder,
    Metropolis,
    Outside,
    Plain,
    QuickContour,
    Shared,
    Silent,
    Tamed,
    Weighted,
)
from planted.unusual import (
    Controlled,
    EulerSGHMC,
    Interacting,
    LaplaceMomentum,
    Mala,
    Persistent,
    RandomLength,
    RandomScan,
    RandomWalk,
    Resampling,
    Slice,
    TwoTemperatures,
)
from plugins.samplers.adadelta_sgld import AdadeltaSGLD
from plugins.samplers.adam_sgld import AdamSGLD
from plugins.samplers.adamax_sgld import AdamaxSGLD
from plugins.samplers.asgld import ASGLD
from plugins.samplers.baoab import BAOAB
from plugins.samplers.contour_sgld import ContourSGLD
from plugins.samplers.dq_sgld import DQSGLD
from plugins.samplers.hmc import HMC
from plugins.samplers.msgld import MSGLD
from plugins.samplers.psgld import PSGLD
from plugins.samplers.relativistic_sghmc import RelativisticSGHMC
from plugins.samplers.resgld import RESGLD
from plugins.samplers.rmsprop_sgld import RMSpropSGLD
from plugins.samplers.samadams import SamAdams
from plugins.samplers.sg_barker import SGBarker, SGBarkerCorrected, moved
from plugins.samplers.sg_bps import SGBPS
from plugins.samplers.sg_ubu import SGUBU
from plugins.samplers.sg_zigzag import SGZigzag
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD
from plugins.samplers.sgld_cv import SGLDSVRG
from plugins.samplers.sgnht import SGNHT
from plugins.samplers.sgrld import SGRLD
from plugins.samplers.sqnlmc import SQNLMC

__all__ = ["BUGS"]

bug = planter(globals())

COUNT = "{'k': torch.zeros((len(theta), 1), dtype=torch.int64)}"

# What shows where laws seldom look: large tasks, float32, long burn-ins, late steps; and one without any law.

bug("NoiseHalvedOnTasksOfManyTerms", Plain, "truth", "one-step",
    "The noise is halved where the task has more than one term.", before="T = T / 4 if potential.terms > 1 else T")
bug("NoiseHalvedInFloat32", Plain, "precision", "one-step", "The noise is halved in float32.",
    before="T = T / 4 if theta.dtype == torch.float32 else T")
bug("NoiseHalvedByACountDeclaredAdaptive", Counting, "step count", "time-homogeneity",
    "The noise is halved after 20,000 steps, and the count is declared adaptive.", adaptive=("k",),
    before="T = T * torch.where(state['k'] < 20_000, 1.0, 0.25).to(theta.dtype)")
bug("NoiseHalvedAfterALongBurnIn", Plain, "step count", "time-homogeneity",
    "`adapt` counts burn-in steps; the noise is halved after 1,000 of them.", init=COUNT, adapt="{'k': state['k'] + 1}",
    before="T = T * torch.where(state['k'] > 1000, 0.25, 1.0).to(theta.dtype)")
bug("NoiseThatShrinksInTheBurnIn", Plain, "adaptation", "whole-law",
    "Each `adapt` takes 1 part in 10,000 off the noise, not below a half.",
    init="{'s': theta.new_ones((len(theta), 1))}", before="T = T * state['s'] ** 2",
    adapt="{'s': (state['s'] * (1 - 1e-4)).clamp(min=0.5)}")
bug("NoNoiseAtEvery25thStepOfAVelocity", EulerSGHMC, "step count", "time-homogeneity",
    "The position moves before the velocity, which gets no noise at every 25th step.",
    init="{**init, 'k': torch.zeros((len(theta), 1), dtype=torch.int64)}",
    step="T = T * torch.where(state['k'] % 25 == 24, 0.0, 1.0).to(theta.dtype); "
    "theta, new = super().step(theta, {'v': state['v']}, potential, h, T, noise); theta, {**new, 'k': state['k'] + 1}")
bug("HalfTheTemperatureAndExempt", Tamed, "declaration", "whole-law",
    "At half the temperature, not linear, and exempt from all laws from which it may be.", heat="(h * T).sqrt()",
    exempt=dict.fromkeys(("derived-law", "scale", "potential", "coordinates", "whole-law", "time-homogeneity",
                          "translation"), "a proof"))

# sgld: noise

bug("NoiseTimesRootTwo", Plain, "noise", "derived-law", "The noise is sqrt(2) times too wide.",
    heat="2 * (h * T).sqrt()")
bug("NoiseTwoPerCentTooWide", Plain, "noise", "derived-law", "The noise is 2 % too wide.", heat="1.02 * heat")
bug("OneNoiseForAllCoordinates", Plain, "noise", "derived-law", "All coordinates of a chain get the same number.",
    xi="noise.normal(theta[:, :1])")
bug("NoiseOfNeighboursCorrelated", Plain, "noise", "derived-law",
    "The noise of neighbouring coordinates has a correlation of 0.3.",
    xi="(xi + 0.16 * xi.roll(1, 1)) / (1 + 0.16**2) ** 0.5")
bug("NoiseRepeatedFromTheNinthCoordinate", Plain, "noise", "coordinates",
    "Coordinates from the ninth on get the noise of the first eight again.",
    xi="xi[:, torch.arange(theta.shape[1]) % 8]")
bug("NoiseMissingBeyondCoordinate100", Plain, "noise", "coordinates", "Coordinates from the 101st on get no noise.",
    xi="xi * (torch.arange(theta.shape[1]) < 100)")
bug("NoiseMissingBeyondCoordinate100000", Plain, "noise", "coordinates",
    "Coordinates from the 100,001st on get no noise.", xi="xi * (torch.arange(theta.shape[1]) < 100_000)")
bug("NoiseWithAMean", Plain, "noise", "derived-law", "The noise has a mean of 0.01.", xi="xi + 0.01")
bug("NoiseUsedTwice", Plain, "noise", "real-loop", "Every number is used in two steps running.", sign=1,
    init="{'xi': torch.zeros_like(theta), 'steps': torch.zeros((len(theta), 1), dtype=torch.int64)}",
    step="fresh = noise.normal(theta) + torch.zeros_like(theta); "
    "xi = torch.where(state['steps'] % 2 == 0, fresh, self.sign * state['xi']); "
    "theta = theta - h * potential.grad(theta) + (2 * h * T).sqrt() * xi; "
    "theta, {'xi': xi, 'steps': state['steps'] + 1}")
bug("NoiseTakenBack", NoiseUsedTwice, "noise", "real-loop", "Every second step takes back the noise of the one before.",
    sign=-1)
bug("NoiseWithMemory", Sampler, "noise", "derived-law", "The noise is an AR(1) process of the right variance.",
    init="{'xi': noise.normal(theta)}",
    step="xi = 0.3 * state['xi'] + (1 - 0.3**2) ** 0.5 * noise.normal(theta); "
    "theta - h * potential.grad(theta) + (2 * h * T).sqrt() * xi, {'xi': xi}")
bug("NoiseOfTwentyStepsAgainAndAgain", Counting, "noise", "derived-law",
    "The noise of the first 20 steps is kept in the state and used again for ever.",
    init="{**init, 'past': theta.new_zeros((len(theta), 20, 1)) * theta[:, None]}",
    step="k, place = state['k'], (torch.arange(20) == state['k'] % 20)[:, :, None]; "
    "past = torch.where(place & (k < 20)[:, :, None], self.xi(theta, noise)[:, None], state['past']); "
    "move = self.heat(h, T) * (past * place).sum(1); "
    "self.drift(theta, potential, h) + move, {'k': k + 1, 'past': past}")
bug("NoiseQuantised", Plain, "noise", "one-step", "The noise is a multiple of 0.01.", xi="(100 * xi).round() / 100")
bug("NoiseOfTwoValues", Plain, "noise", "one-step", "The noise is 1 or -1.", xi="xi.sign()")
bug("NoiseWithHeavyTails", Plain, "noise", "one-step",
    "The noise has variance 1 and a kurtosis of 11.7: xi |xi| / sqrt(3).", xi="xi * xi.abs() / 3**0.5")
bug("NoiseWithoutTails", Plain, "noise", "one-step", "The noise is cut off at 2.5 standard deviations.",
    xi="xi.clamp(-2.5, 2.5)")
bug("NoiseByTheGradient", Plain, "noise", "scale", "The noise grows by as much as 10 % with the gradient.",
    step="g = potential.grad(theta); kick = self.heat(h, T) * self.xi(theta, noise); "
    "theta - h * g + kick * (1 + 0.1 * g.square() / (1 + g.square())), state")
bug("GlobalGenerator", Plain, "noise", "isolation no-leaks", "The noise is drawn from torch's global generator.",
    xi="noise.normal(theta); torch.randn_like(theta)")
bug("OwnGenerator", Plain, "noise", "seeds", "The noise is drawn from a generator of the sampler's own.",
    xi="noise.normal(theta); "
    "torch.randn(theta.shape, generator=torch.Generator().manual_seed(1), dtype=theta.dtype)")

# sgld: drift

bug("HalvedStep", Plain, "drift", "zero-temperature",
    "Half the step in drift and noise, which leaves the target as it is.", before="h = h / 2")
bug("StaleGradient", Sampler, "drift", "zero-temperature potential", "The gradient is that of the step before.",
    init="{'g': potential.grad(theta)}",
    step="theta - h * state['g'] + (2 * h * T).sqrt() * noise.normal(theta), {'g': potential.grad(theta)}")
bug("GradientAfterTheMove", Plain, "drift", "potential", "The gradient is taken after the noise was added.",
    step="moved = theta + (2 * h * T).sqrt() * noise.normal(theta); moved - h * potential.grad(moved), state")
bug("DriftOnePerCentTooSmall", Plain, "drift", "derived-law", "The drift is 1 % too small.",
    gradient="0.99 * gradient")
bug("DriftUphill", Plain, "drift", "derived-law", "The drift goes uphill.", gradient="-gradient")
bug("DriftOfOneCoordinateLost", Plain, "drift", "derived-law", "The last coordinate has no drift.",
    gradient="torch.cat([gradient[:, :-1], torch.zeros_like(gradient[:, -1:])], 1)")
bug("WeightDecay", Plain, "drift", "translation", "A weight decay of 1e-4 beside the prior.",
    gradient="gradient + 1e-4 * theta")
bug("SignOfTheGradient", Plain, "drift", "scale zero-temperature", "The drift goes by the sign of the gradient.",
    gradient="gradient.sign()")
bug("GradientNormalised", Plain, "drift", "scale zero-temperature", "The gradient is divided by its norm.",
    gradient="gradient / gradient.norm(dim=1, keepdim=True)")
bug("GradientAhead", Plain, "drift", "zero-temperature",
    "The gradient is taken at the point where the step would end.", gradients_per_step=2,
    gradient="potential.grad(theta - 0.01 * potential.grad(theta))")

bug("StepByTheNorm", ByTheNorm, "drift", "whole-law",
    "The step size depends on the norm of the gradient, without the divergence term.", gradients_per_step=1,
    divergence="0.0")
bug("StepHardlyByTheNorm", ByTheNorm, "drift", "whole-law",
    "The same, for a variance 2 % off in one dimension and less in more.", gradients_per_step=1, divergence="0.0",
    norm="norm / 40")

# sgld: clipping

bug("GradientClipped", Plain, "clipping", "scale zero-temperature", "Each coordinate of the gradient is clipped at 1.",
    gradient="gradient.clamp(-1, 1)")
bug("GradientClippedAt1000", Plain, "clipping", "scale zero-temperature",
    "Each coordinate of the gradient is clipped at 1,000.", gradient="gradient.clamp(-1e3, 1e3)")
bug("GradientClippedAtAMillion", Plain, "clipping", "scale zero-temperature",
    "Each coordinate of the gradient is clipped at 1e6.", gradient="gradient.clamp(-1e6, 1e6)")
bug("NormOfTheGradientClipped", Plain, "clipping", "scale zero-temperature",
    "The norm of the gradient is clipped at 100.",
    gradient="gradient * (100 / gradient.norm(dim=1, keepdim=True)).clamp(max=1)")
bug("UpdateClipped", Plain, "clipping", "zero-temperature", "The drift of a step is clipped at 10.",
    drift="theta - (h * potential.grad(theta)).clamp(-10, 10)")
bug("NoisyGradientClipped", Heated, "clipping", "noisy-scaling",
    "Each coordinate of the gradient is clipped at 5, which gradients without noise seldom reach.",
    limit=5.0, step="theta - h * potential.grad(theta).clamp(-self.limit, self.limit) "
    "+ (2 * h * T).sqrt() * noise.normal(theta), state")
bug("StepByTheNoisyGradient", ByTheNorm, "adaptation", "noisy-scaling",
    "The step size of a coordinate is h / (lam + |g|), with its divergence, right for exact gradients alone.",
    norm="g.abs()", exempt={})
bug("NoiseByTheNoisyGradient", Plain, "noise", "noisy-scaling",
    "There is no noise where the squared gradient is above 20, which one without noise seldom is.",
    step="g = potential.grad(theta); on = (g.square() < 20).to(g.dtype); "
    "theta - h * g + on * (2 * h * T).sqrt() * noise.normal(theta), state")
bug("LostPositionSwallowed", Plain, "clipping", "no-leaks", "A position that is not finite becomes 0.",
    drift="drift.nan_to_num()")
bug("LostGradientSwallowed", Plain, "clipping", "no-leaks", "A gradient that is not finite becomes 0.",
    gradient="gradient.nan_to_num()")

# sgld: boxes

bug("PositionInABox", Boxed, "boxes", "zero-temperature translation", "Positions are clipped at 10.",
    box="theta.clamp(-10, 10)")
bug("PositionInALargeBox", Boxed, "boxes", "zero-temperature translation", "Positions are clipped at 10,000.",
    box="theta.clamp(-1e4, 1e4)")
bug("PositionReflected", Boxed, "boxes", "zero-temperature translation", "Positions beyond 30 are reflected.",
    box="30 - (30 - (theta.clamp(-90, 90) + 30).abs()).abs()")
bug("PositionOnATorus", Boxed, "boxes", "zero-temperature translation", "Positions live on a torus of length 200.",
    box="(theta + 100).remainder(200) - 100")

# sgld: dimension

bug("NoNoiseInManyDimensions", Plain, "dimension", "coordinates",
    "No noise where there are more than 100 parameters.", xi="(theta.shape[1] <= 100) * xi")
bug("LessNoiseInANetwork", Plain, "dimension", "coordinates", "The noise is halved from 10,000 parameters on.",
    xi="(0.5 if theta.shape[1] >= 10_000 else 1) * xi")
bug("NoiseByDimension", Plain, "dimension", "derived-law", "The noise is divided by the root of the dimension.",
    xi="xi / theta.shape[1] ** 0.5")
bug("GradientByDimension", Plain, "dimension", "derived-law", "The gradient is divided by the root of the dimension.",
    gradient="gradient / theta.shape[1] ** 0.5")
bug("FirstCoordinateOfManyFrozen", Plain, "dimension", "coordinates",
    "Where there are more than ten coordinates the first has half the noise.",
    xi="xi * torch.where((torch.arange(theta.shape[1]) == 0) & (theta.shape[1] > 10), 0.5, 1.0)")
bug("OneDimensionSingledOut", Plain, "dimension", "",
    "Half the noise where there are 61,706 parameters, those of LeNet.",
    unseen="laws run a finite number of dimensions, and a sampler can branch on any other one: a law that ran this one "
    "would miss the next. Its source is hashed into its rows, and RULES.md forbids branching on the dimension",
    xi="(0.5 if theta.shape[1] == 61_706 else 1) * xi")

# sgld: chain count

bug("OneNoiseForAllChains", Plain, "chain count", "seeds", "All chains get the same numbers.", xi="xi[:1]")
bug("NoiseOfTheNextChain", Plain, "chain count", "seeds", "A chain gets the numbers of the next one.",
    xi="xi.roll(1, 0)")
bug("NoiseSharedBeyond64Chains", Plain, "chain count", "seeds",
    "Chains from the 65th on get the numbers of the first 64 again.", xi="xi[torch.arange(len(theta)) % 64]")
bug("EightChainsSingledOut", Plain, "chain count", "seeds", "Eight chains get half the noise.",
    xi="(0.5 if len(theta) == 8 else 1) * xi")
bug("NoNoiseBeyond300Chains", Plain, "chain count", "seeds", "More than 300 chains get no noise.",
    xi="(len(theta) <= 300) * xi")
bug("NoNoiseForChainsFrom500On", Plain, "chain count", "seeds", "The chains from the 501st on get no noise.",
    xi="(torch.arange(len(theta)) < 500)[:, None] * xi")
bug("FirstChainSingledOut", Plain, "chain count", "one-step", "The first chain gets half the noise.",
    xi="torch.where(torch.arange(len(theta)) == 0, 0.5, 1.0)[:, None] * xi")
bug("ChainsMixed", Plain, "chain count", "no-leaks seeds", "Each chain is drawn to the mean of all.",
    drift="drift - h * 1e-3 * theta.mean(0)")

# sgld: step count

bug("NoiseHalvedAfter20Steps", Counting, "step count", "time-homogeneity", "The noise is halved after 20 steps.",
    says="'k' counts steps", last=20, louder="torch.where(k < self.last, 1.0, 0.5)")
bug("NoiseHalvedAfter2000Steps", NoiseHalvedAfter20Steps, "step count", "time-homogeneity",
    "The noise is halved after 2,000 steps.", says="'k' counts steps", last=2000)
bug("NoiseHalvedAfter100000Steps", NoiseHalvedAfter20Steps, "step count", "time-homogeneity",
    "The noise is halved after 100,000 steps.", says="'k' counts steps", last=100_000)
bug("NoiseHalvedByAFloatCounter", NoiseHalvedAfter20Steps, "step count", "time-homogeneity",
    "The noise is halved after 2,000 steps, counted in a float.", says="'k' counts steps", last=2000,
    init="{'k': theta.new_zeros((len(theta), 1))}")
bug("NoNoiseEveryHundredthStep", Counting, "step count", "time-homogeneity", "Every hundredth step has no noise.",
    louder="torch.where((k + 1) % 100 == 0, 0.0, 1.0)")
bug("Annealed", Counting, "step count", "time-homogeneity", "The temperature falls as 1 / (1 + k / 10000).",
    says="'k' counts steps", before="T = T / (1 + state['k'].double() * 1e-4)")
bug("FrozenAfter5000Steps", Counting, "step count", "time-homogeneity",
    "A chain stays where it is after 5,000 steps.", step="theta.where(state['k'] >= 5000, step[0]), step[1]")
bug("NoiseHalvedAfterTenMillionSteps", NoiseHalvedAfter20Steps, "step count", "",
    "The noise is halved after 10 million steps.", last=10_000_000,
    unseen="laws run a finite number of steps (160,000, with counts set ahead by up to 1,000,000), and a sampler can "
    "wait longer. No `paper` budget has 10 million; the convergence diagnostics of a run that has them compare its "
    "second half with its first")

# sgld: temperature

bug("TemperatureIgnored", Plain, "temperature", "derived-law", "The temperature is taken to be 1.",
    heat="(2 * h * (T > 0)).sqrt()")
bug("TemperatureSquared", Plain, "temperature", "derived-law", "The noise goes by T squared.",
    heat="(2 * h).sqrt() * T")
bug("TemperatureWithAFloor", Plain, "temperature", "scale zero-temperature", "Temperatures below 1e-3 are 1e-3.",
    heat="(2 * h * T.clamp(min=1e-3)).sqrt()")
bug("TemperatureWithAFloorButForZero", Plain, "temperature", "scale", "Temperatures below 0.1 are 0.1, save 0.",
    heat="(2 * h * T.clamp(min=0.1)).sqrt() * (T > 0)")
bug("TemperatureWithACeiling", Plain, "temperature", "scale", "Temperatures above 100 are 100.",
    heat="(2 * h * T.clamp(max=100)).sqrt()")
bug("NoiseAtZeroTemperature", Plain, "temperature", "zero-temperature", "There is some noise at T = 0.",
    step="floor = (2 * h * (T <= 0)).sqrt() * (noise.uniform(theta.shape) - 0.5); step[0] + floor, step[1]")
bug("TemperatureOfTheFirstStep", Plain, "temperature", "one-step",
    "The temperature is that of the first step for ever.",
    init="{'T': T + torch.zeros_like(theta[:, :1])}", before="T = state['T']")
bug("TemperatureOfTheStepBefore", TemperatureOfTheFirstStep, "temperature", "one-step",
    "The temperature is that of the step before.", step="step[0], {'T': T + torch.zeros_like(theta[:, :1])}")

# sgld: step size

bug("StepSizeOfTheStepBefore", Plain, "step size", "zero-temperature", "The step size is that of the step before.",
    init="{'h': h + torch.zeros_like(theta[:, :1])}",
    step="super().step(theta, state, potential, state['h'], T, noise)[0], {'h': h + torch.zeros_like(state['h'])}")
bug("StepSizeOfTheFirstStep", StepSizeOfTheStepBefore, "step size", "zero-temperature",
    "The step size is that of the first step for ever.", step="step[0], state")
bug("StepSizeWithAFloor", Plain, "step size", "scale", "Step sizes below 1e-7 are 1e-7.",
    before="h = h.clamp(min=1e-7)")
bug("StepSizeWithACeiling", Plain, "step size", "scale", "Step sizes above 1,000 are 1,000.",
    before="h = h.clamp(max=1000)")
bug("NoiseForShortStepsOnly", Plain, "step size", "scale", "The noise of steps longer than 1,000 is that of 1,000.",
    heat="(2 * h.clamp(max=1000) * T).sqrt()")

# sgld: precision

bug("PositionInFloat32", Boxed, "precision", "one-step", "Positions are rounded to float32 on the way.",
    box="theta.float().to(theta.dtype)")
bug("NoiseInFloat32", Plain, "precision", "one-step", "The noise is rounded to float32.",
    xi="xi.float().to(theta.dtype)")
bug("GradientInBfloat16", Plain, "precision", "zero-temperature one-step", "The gradient is rounded to bfloat16.",
    gradient="gradient.bfloat16().to(theta.dtype)")
bug("PositionRounded", Boxed, "precision", "one-step", "Positions are rounded to eight decimals.",
    box="theta.round(decimals=8)")
bug("PositionInDouble", Boxed, "precision", "hyperparameters", "Positions become float64.",
    says="theta was (4, 12) torch.float32", box="theta.double()")

# sgld: averaging

bug("AverageForADraw", Sampler, "averaging", "potential",
    "The draw is a running mean, and the chain is kept in the state.", share=0.1, init="{'chain': theta}",
    step="chain = state['chain']; "
    "chain = chain - h * potential.grad(chain) + (2 * h * T).sqrt() * noise.normal(theta); "
    "self.share * chain + (1 - self.share) * theta, {'chain': chain}")
bug("ShrunkenDraw", AverageForADraw, "averaging", "potential",
    "The draw is 0.98 of the chain, which is kept in the state.", after="theta = 0.98 * state['chain']")
bug("AverageOfTwo", AverageForADraw, "averaging", "potential",
    "The draw is the mean of the chain and the draw before.", share=0.5)
# The same and longer averages, exempt from the law `potential`, as their chain is not at theta.
AWAY = {"exempt": {"potential": "the gradient is taken at the position of the chain"}, "zero_temperature": None}
bug("AverageForADrawExempt", AverageForADraw, "averaging", "draws", "A running mean, exempt from `potential`.", **AWAY)
bug("AverageOfTwoExempt", AverageOfTwo, "averaging", "draws", "A mean of two draws, exempt from `potential`.", **AWAY)
bug("PolyakAverage", Sampler, "averaging", "draws", "The draw is the mean of all states.", **AWAY,
    init="{'chain': theta, 'k': torch.zeros((len(theta), 1), dtype=torch.int64)}",
    step="k, chain = state['k'] + 1, state['chain']; "
    "chain = chain - h * potential.grad(chain) + (2 * h * T).sqrt() * noise.normal(theta); "
    "theta + (chain - theta) / k, {'chain': chain, 'k': k}")
bug("AverageOfTwoStates", Sampler, "averaging", "draws", "The draw is the mean of the last two states.", **AWAY,
    window=2, init="{'past': theta[:, None].repeat(1, self.window, 1)}",
    step="chain = state['past'][:, -1]; "
    "chain = chain - h * potential.grad(chain) + (2 * h * T).sqrt() * noise.normal(theta); "
    "past = torch.cat([state['past'][:, 1:], chain[:, None]], 1); past.mean(1) + 0 * theta, {'past': past}")
for name, window in {"Three": 3, "Five": 5, "Twenty": 20}.items():
    bug(f"AverageOf{name}States", AverageOfTwoStates, "averaging", "draws",
        f"The draw is the mean of the last {window} states.", window=window)
bug("AverageOfTwoByItsOffset", Sampler, "averaging", "draws",
    "The draw is the mean of the last two states; the state holds how far the chain is from it.", **AWAY,
    init="{'off': torch.zeros_like(theta)}",
    step="chain = theta + state['off']; "
    "move = (2 * h * T).sqrt() * noise.normal(theta) - h * potential.grad(chain); "
    "chain + move / 2, {'off': move / 2}")
bug("AverageOfAMomentumChain", SGHMC, "averaging", "draws",
    "The draw is the mean of the last two positions of sghmc.", **AWAY,
    init="{**init, 'chain': theta}",
    step="chain, new = super().step(state['chain'], {'v': state['v']}, potential, h, T, noise); "
    "(chain + state['chain']) / 2 + 0 * theta, {**new, 'chain': chain}")
bug("AverageOfARootedChain", Tamed, "averaging", "draws",
    "The draw is the mean of the last four states of a sampler that is not linear.", **AWAY,
    init="{'past': theta[:, None].repeat(1, 4, 1)}",
    step="chain, _ = super().step(state['past'][:, -1], {}, potential, h, T, noise); "
    "past = torch.cat([state['past'][:, 1:], chain[:, None]], 1); past.mean(1) + 0 * theta, {'past': past}")
bug("MeanOfAnAntitheticPair", Sampler, "averaging", "draws", "The draw is the mean of two chains.", **AWAY,
    gradients_per_step=2, init="{'one': theta, 'other': theta}",
    step="xi = (2 * h * T).sqrt() * noise.normal(theta); one, other = state['one'], state['other']; "
    "one = one - h * potential.grad(one) + xi; other = other - h * potential.grad(other) - 0.5 * xi; "
    "(one + other) / 2 + 0 * theta, {'one': one, 'other': other}")
bug("HalfTheMove", Plain, "averaging", "zero-temperature derived-law", "A step goes half the way.",
    step="(theta + step[0]) / 2, state")
bug("EveryDrawTwice", Counting, "averaging", "zero-temperature",
    "Every second step repeats the draw and ignores its gradient.",
    step="theta.where(state['k'] % 2 == 1, step[0]), step[1]")

# sgld: greed

bug("UphillRefused", Plain, "greed", "seeds real-loop", "A step uphill is refused.", gradients_per_step=2,
    step="before, g = potential.value_and_grad(theta); "
    "moved = theta - h * g + self.heat(h, T) * self.xi(theta, noise); "
    "after, _ = potential.value_and_grad(moved); moved.where((after < before)[:, None], theta), state")
bug("BetterOfTwo", Plain, "greed", "whole-law", "Of two proposals the one of lower energy is taken.",
    gradients_per_step=3,
    step="g = potential.grad(theta); "
    "one, other = (theta - h * g + self.heat(h, T) * self.xi(theta, noise) for _ in range(2)); "
    "U_one, U_other = (potential.value_and_grad(x)[0] for x in (one, other)); "
    "one.where((U_one < U_other)[:, None], other), state")
bug("NoiseTurnedDownhill", Plain, "greed", "whole-law", "One noise in ten that points uphill is turned downhill.",
    step="g = potential.grad(theta); xi = self.xi(theta, noise); "
    "flip = ((xi * g).sum(1, keepdim=True) > 0) & (noise.uniform((len(theta), 1)) < 0.1); "
    "theta - h * g + self.heat(h, T) * torch.where(flip, -xi, xi), state")
bug("EarlyStopper", Plain, "greed", "whole-law",
    "Half of the steps that would leave the lowest tenth of the energy are refused.", gradients_per_step=2,
    step="before, g = potential.value_and_grad(theta); "
    "moved = theta - h * g + self.heat(h, T) * self.xi(theta, noise); "
    "after, _ = potential.value_and_grad(moved); "
    "stay = (before < 0.05 * theta.shape[1] * T) & (after > before) & (noise.uniform((len(theta),)) < 0.5); "
    "theta.where(stay[:, None], moved), state")

# sgld: memory between runs and within

RUNS = {"runs": 0}
CACHE: dict = {}

bug("PositionInPlace", Plain, "memory between runs", "no-leaks", "theta is written in place.",
    step="theta.sub_(h * potential.grad(theta)).add_((2 * h * T).sqrt() * noise.normal(theta)); theta, state")
bug("NoiseKeptInTheClass", Plain, "memory between runs", "isolation",
    "Every run after the first of its shape repeats the first number of the first run.", first={},
    xi="known = self.first.setdefault((tuple(theta.shape), theta.dtype), xi.clone()); "
    "0.999 * xi + (1 - 0.999**2) ** 0.5 * known")
bug("RunsCounted", Plain, "memory between runs", "isolation",
    "The module counts its runs, and the noise shrinks from the thousandth on.",
    init="RUNS['runs'] += 1; {}", xi="(0.9 if RUNS['runs'] > 1000 else 1) * xi")
bug("BestPositionRemembered", Plain, "memory between runs", "isolation",
    "The class remembers the last position of the run before; a long run starts again from there.", last=None,
    after="type(self).last = theta")
bug("CacheOfGradients", Plain, "memory between runs", "isolation",
    "Gradients are kept by position in a cache of the module, and those of an earlier run are used again.",
    says="something behind in planted.bugs.CACHE",  # it makes the calls that it declares, so its cost does not show it
    gradient="CACHE.setdefault(hash(theta.numpy().tobytes()), potential.grad(theta))")
bug("StepsCountedInTheObject", Plain, "memory between runs", "derived-law",
    "The object counts its steps, and the noise changes after the eighth.",
    before="k = getattr(self, 'k', 0); object.__setattr__(self, 'k', k + 1); T = (1 + 0.1 * (k > 8)) * T")

# sgld: cost

bug("HiddenGradient", Plain, "cost", "potential", "A gradient that is not declared.",
    says="its step makes (2, 0) calls", drift="potential.grad(theta + 1); drift")
bug("HiddenFullGradient", Plain, "cost", "potential", "A gradient of all the data that is not declared.",
    says="its step makes (1, 1) calls", gradient="gradient + 0 * potential.full.grad(theta)")
bug("FullGradientForABatch", Plain, "cost", "potential",
    "The gradient of all the data in place of that of the batch.", says="its step makes (0, 1) calls",
    gradient="potential.full.grad(theta)")
bug("HiddenEnergy", Plain, "cost", "potential", "An energy that is not declared.", says="its step makes (2, 0) calls",
    drift="drift + 0 * potential.value_and_grad(theta)[0][:, None]")


class TwoPointsInOneCall(Plain):
    def gradient(self, theta, potential):
        try:
            one, other = potential.grad(torch.cat([theta, theta + 1e-3])).chunk(2)
        except RuntimeError:  # rows that have curvatures or batches of their own
            return potential.grad(theta)
        return (one + other) / 2


plant(TwoPointsInOneCall, "cost", "isolation", "One gradient call with two rows a chain, wherever torch can do it.",
      says="a call costs one gradient a chain")

# sgld: declaration


@dataclass(frozen=True, kw_only=True)
class RangeNotHeld(Plain):
    clip: float = param(1.0, "(0, inf)", "range of the gradient")

    def __post_init__(self):
        if not isinstance(self.clip, int | float) or not math.isfinite(self.clip):
            raise UsageError(f"clip = {self.clip!r} is not a finite number")


plant(RangeNotHeld, "declaration", "hyperparameters",
      "Any finite number is accepted for a hyperparameter, inside its range or not.", says="clip = 0.0 is accepted")
bug("NoOptimiserDeclared", HalvedStep, "declaration", "zero-temperature",
    "Half the step, and no optimiser is declared for T = 0 that would show it.", zero_temperature=None)

# momentum

bug("VelocityInPlace", SGHMC, "momentum", "no-leaks", "The velocity is written in place.",
    step="kick = (2 * self.friction * h * T).sqrt() * noise.normal(theta); "
    "v = state['v'].mul_(1 - self.friction).sub_(h * potential.grad(theta)).add_(kick); theta + v, {'v': v}")
bug("VelocityOutsideTheState", SGHMC, "momentum", "one-step restore", "The velocity is kept in the object.",
    init="object.__setattr__(self, '_v', init['v']); {}",
    step="v = getattr(self, '_v', None); v = torch.zeros_like(theta) if v is None or v.shape != theta.shape else v; "
    "theta, new = super().step(theta, {'v': v}, potential, h, T, noise); "
    "object.__setattr__(self, '_v', new['v']); theta, {}")
bug("EulerOrder", SGHMC, "momentum", "zero-temperature", "The position moves by the velocity of the step before.",
    step="theta + state['v'], step[1]")
bug("VelocitySign", SGHMC, "momentum", "zero-temperature", "The velocity is turned at every step.",
    before="state = {'v': -state['v']}")
bug("FrictionWithoutItsNoise", SGHMC, "momentum", "derived-law",
    "The variance of the noise is that of half the friction.", before="noise = Louder(noise, 0.5**0.5)")
bug("NoiseOfTheExactFriction", SGHMC, "momentum", "derived-law",
    "The noise of an exact Ornstein-Uhlenbeck step, a (2 - a) h T, with the friction of an Euler step.",
    before="noise = Louder(noise, (1 - self.friction / 2) ** 0.5)")
bug("OneMinusTheMomentum", SGHMC, "momentum", "derived-law",
    "Friction and momentum are taken for each other, in the noise alone.",
    before="noise = Louder(noise, ((1 - self.friction) / self.friction) ** 0.5)")
bug("VelocityForgotten", SGHMC, "momentum", "zero-temperature", "The velocity is 0 at every fiftieth step.",
    init="{**init, 'k': torch.zeros((len(theta), 1), dtype=torch.int64)}",
    step="k, v = state['k'], state['v'].masked_fill(state['k'] % 50 == 49, 0); "
    "theta, new = super().step(theta, {'v': v}, potential, h, T, noise); theta, {**new, 'k': k + 1}")
bug("VelocityClipped", SGHMC, "momentum", "zero-temperature", "The velocity is clipped at 100.",
    before="state = {'v': state['v'].clamp(-100, 100)}")
bug("VelocityInFloat32", SGHMC, "momentum", "one-step", "The velocity is rounded to float32.",
    after="state = {'v': state['v'].float().to(theta.dtype)}")
bug("StateInDouble", SGHMC, "momentum", "hyperparameters", "The velocity is float64 whatever theta is.",
    says="state 'v' is torch.float64 after a run in torch.float32",
    init="{'v': torch.zeros(theta.shape, dtype=torch.float64)}", step="step[0].to(theta.dtype), step[1]")
bug("MomentumSign", MSGLD, "momentum", "zero-temperature derived-law", "The mean of the gradients has the wrong sign.",
    step="g, m = potential.grad(theta), state['m']; "
    "theta = theta - h * (g - self.a * m) + (2 * h * T).sqrt() * noise.normal(theta); "
    "theta, {'m': self.beta1 * m + (1 - self.beta1) * g}")
bug("MomentumBeforeUse", MSGLD, "momentum", "zero-temperature",
    "The mean of the gradients is updated before it is used.",
    step="g = potential.grad(theta); m = self.beta1 * state['m'] + (1 - self.beta1) * g; "
    "theta - h * (g + self.a * m) + (2 * h * T).sqrt() * noise.normal(theta), {'m': m}")
bug("MomentumNotAveraged", MSGLD, "momentum", "zero-temperature derived-law", "The factor 1 - beta1 is missing.",
    step="g, m = potential.grad(theta), state['m']; "
    "theta = theta - h * (g + self.a * m) + (2 * h * T).sqrt() * noise.normal(theta); theta, {'m': self.beta1 * m + g}")
bug("BiasNotDeclared", MSGLD, "momentum", "derived-law", "limit_bias says 1.", limit_bias="1.0")
bug("WholeDriftForHalf", BAOAB, "momentum", "derived-law", "The last half drift is a whole one.",
    after="theta = theta + state['v'] / 2")
bug("NoiseOfTheEulerFriction", BAOAB, "momentum", "derived-law",
    "The noise of an Euler step, 2 (1 - c) h T, with the friction of an exact one.",
    before="noise = Louder(noise, (2 / (2 - self.friction)) ** 0.5)")
bug("UBUCorrelationOfTheWrongSign", SGUBU, "momentum", "derived-law",
    "The noise of the position goes against that of the velocity.",
    coefficients="drift, eta, spread, shared, rest = coefficients; (drift, eta, spread, -shared, rest)")
bug("UBUPositionWithoutNoise", SGUBU, "momentum", "derived-law", "The half steps without a force move by v alone.",
    coefficients="(*coefficients[:3], 0.0, 0.0)")
bug("UBUFrictionTwice", SGUBU, "momentum", "derived-law",
    "The velocity loses in half a step what it should lose in a whole one.",
    coefficients="drift, eta, *noise = coefficients; (drift, eta * eta, *noise)")
bug("UBUPositionOfAWholeStep", SGUBU, "momentum", "derived-law", "Half a step moves the position twice as far.",
    coefficients="drift, *others = coefficients; (2 * drift, *others)")
bug("BarkerWithoutTheTemperature", SGBarker, "temperature", "scale", "The signs of sg-barker go by g, not by g / T.",
    step="g = potential.grad(theta); z = self.length(g, h, T, noise); (moved(theta, z, g * z, noise), state)")
bug("BarkerLengthsOfOneChain", SGBarker, "chain count", "one-step",
    "All chains of sg-barker have the first one's lengths.",
    length="length[:1].expand_as(g)")
bug("BarkerLengthByTheGradient", SGBarker, "drift", "whole-law",
    "The lengths of sg-barker grow with the gradient, and its drift has no divergence.",
    length="length * (1 + 0.3 * (g * g / (T + g * g)))")
bug("BarkerTwiceThePush", SGBarker, "drift", "whole-law", "The signs of sg-barker go by 2 g.",
    step="g = potential.grad(theta); z = self.length(g, h, T, noise); (moved(theta, z, 2 * g * z / T, noise), state)")
bug("BarkerSdWithoutN", SGBarkerCorrected, "adaptation", "whole-law", "The sd of the mean gradient, not of that of U.",
    gradient_sd="gradient_sd / potential.terms")
bug("BarkerTauNeverRenewed", SGBarkerCorrected, "adaptation", "whole-law", "tau stays as it was at the start.",
    step="(step[0], state)")
bug("BarkerVarianceForTheSd", SGBarkerCorrected, "adaptation", "whole-law",
    "The variance of the gradient in place of its sd.",
    gradient_sd="gradient_sd.square()")
bug("ZigzagWithoutTheTemperature", SGZigzag, "temperature", "scale", "Coordinates turn at the rate v g, not v g / T.",
    rate="(v * g).clamp(min=0)")
bug("ZigzagTurnsDownhillToo", SGZigzag, "drift", "whole-law", "Coordinates turn at the rate |v g| / T.",
    rate="(v * g / T).abs()")
bug("ZigzagTurnsTogether", SGZigzag, "drift", "whole-law", "All coordinates turn at the mean of their rates.",
    rate="rate.mean(1, keepdim=True).expand_as(rate)")
bug("ZigzagRateOfAllChains", SGZigzag, "chain count", "seeds", "All chains turn at the mean of their rates.",
    rate="rate.mean(0, keepdim=True).expand_as(rate)")
bug("ZigzagHalfTheRate", SGZigzag, "drift", "whole-law", "Coordinates turn half as often as they should.",
    rate="rate / 2")
bug("BouncyWithoutTheTemperature", SGBPS, "temperature", "scale", "Chains are reflected at the rate v g, not v g / T.",
    rate="(v * g).sum(1, keepdim=True).clamp(min=0)")
bug("BouncyReflectedDownhillToo", SGBPS, "drift", "whole-law", "Chains are reflected at the rate |v g| / T.",
    rate="((v * g).sum(1, keepdim=True) / T).abs()")
bug("BouncyHalfTheRate", SGBPS, "drift", "whole-law", "Chains are reflected half as often as they should be.",
    rate="rate / 2")
bug("BouncyStoppedUphill", SGBPS, "momentum", "whole-law", "A reflection takes the part of v uphill, and no more.",
    reflected="(reflected + v) / 2")
bug("BouncyRateOfAllChains", SGBPS, "chain count", "seeds", "All chains are reflected at the mean of their rates.",
    rate="rate.mean(0, keepdim=True).expand_as(rate)")
bug("CalibratedWithoutTheBatches", DQSGLD, "noise", "whole-law",
    "dq-sgld takes the batches to have no noise: C is 0 in L.", init="{**init, 'ratio': 0 * init['ratio']}")
bug("CalibratedNoiseOfAShortStep", DQSGLD, "noise", "whole-law",
    "dq-sgld adds noise as for a short step, sqrt(h) in place of sqrt(h (1 - h)).",
    before="noise = Louder(noise, (1 - h).clamp(min=0.01) ** -0.5)")
bug("CalibratedAtTheStart", DQSGLD, "adaptation", "whole-law",
    "dq-sgld takes J and V where the chain starts, not at the mode.", mode="theta")
bug("CalibratedHalfAStep", DQSGLD, "step size", "whole-law",
    "dq-sgld makes half a step, with the noise that this needs.", before="h = h / 2")
bug("CalibratedWithoutTheTemperature", DQSGLD, "temperature", "derived-law",
    "dq-sgld takes the temperature to be 1.", before="T = 0 * T + 1")
bug("CalibratedTwiceTheNoise", DQSGLD, "noise", "derived-law", "The noise of dq-sgld is twice as wide.",
    before="noise = Louder(noise, 2.0)")
bug("ThermostatNoiseTimesRootTwo", SGNHT, "momentum", "whole-law", "sgnht's own noise is sqrt(2) times too wide.",
    before="noise = Louder(noise, 2**0.5)")
bug("ThermostatNoiseShared", SGNHT, "momentum", "whole-law", "All coordinates of sgnht get the same noise.",
    before="noise = Shared(noise)")
bug("HalvedThermostat", (Halved, SGNHT), "step size", "zero-temperature", "Half the step in sgnht.")

# adaptation

bug("SamAdamsNoiseTimesRootTwo", SamAdams, "adaptation", "derived-law", "samadams' noise is sqrt(2) times too wide.",
    before="noise = Louder(noise, 2**0.5)")
bug("SamAdamsWithoutADivisor", SamAdams, "adaptation", "scale", "The squared gradient has a unit, and no divisor.",
    _followed="_followed * self.omega")
bug("SamAdamsOneStepForAllChains", SamAdams, "adaptation", "seeds", "All chains have the step of their mean gradient.",
    _followed="super()._followed(z, g.mean(0, keepdim=True).expand_as(g))")
bug("SamAdamsFirstKickWithoutPsi", SamAdams, "adaptation", "derived-law", "The first kick is not scaled by psi.",
    before="psi = self._log_psi(self._followed(state['z'], state['g'])).exp(); "
    "state = {**state, 'v': state['v'] - (1 - psi) * h / 2 * state['g']}")
bug("SamAdamsWithoutWeights", SamAdams, "weights", "whole-law", "Draws of a change of time have equal weights.",
    log_weight="0 * log_weight")
bug("AdaptInPlace", SGHMC, "adaptation", "no-leaks", "adapt writes into the state.",
    adapt="state['v'].mul_(1.0001); state")
bug("NoiseWithoutTheCurvature", SQNLMC, "adaptation", "derived-law",
    "H in front of the gradient, 1 / b under the noise: right for as long as no pair has been seen.",
    step="theta, new = super().step(theta, state, potential, h, 0 * T, Silent()); "
    "theta + (2 * h * T / self.b).sqrt() * noise.normal(theta), new")
bug("NoiseBySquares", ASGLD, "adaptation", "derived-law",
    "Noise that grows with V, and is right while V is 0, where it starts.",
    before="noise = Louder(noise, (1 + state['V']).sqrt())")
bug("NoiseBySize", AdamaxSGLD, "adaptation", "derived-law", "Noise that grows with the largest gradient.",
    before="noise = Louder(noise, 1 + state['u'])")
bug("NoiseByMeanSquares", AdadeltaSGLD, "adaptation", "derived-law",
    "Noise that shrinks with the mean square of the gradient.",
    before="noise = Louder(noise, (1 + state['V']).rsqrt())")
bug("NoiseNotPreconditioned", PSGLD, "adaptation", "derived-law",
    "psgld with the preconditioner in front of the gradient and none under the noise.",
    step="theta, new = super().step(theta, state, potential, h, 0 * T, Silent()); "
    "theta + (2 * h * T).sqrt() * noise.normal(theta), new")
bug("NoiseByTheWholePreconditioner", PSGLD, "adaptation", "derived-law",
    "psgld with G and not its root under the noise.",
    step="theta, new = super().step(theta, state, potential, h, 0 * T, Silent()); "
    "theta + (2 * h * T).sqrt() / (self.lam + new['V'].sqrt()) * noise.normal(theta), new")
bug("SquaresFromZero", PSGLD, "adaptation", "zero-temperature", "psgld with V from 0 and no correction for it.",
    init="{'V': torch.zeros_like(theta)}")
bug("PreconditionerOfTheStepBefore", PSGLD, "adaptation", "zero-temperature", "psgld with the V of the step before.",
    step="g, V = potential.grad(theta), state['V']; G = 1 / (self.lam + V.sqrt()); "
    "theta = theta - h * G * g + (2 * h * T * G).sqrt() * noise.normal(theta); "
    "theta, {'V': self.decay * V + (1 - self.decay) * g * g}")


@dataclass(frozen=True, kw_only=True)
class LambdaInOtherUnits(PSGLD):
    lam: float = param(0.1, "(0, inf)", "added to the size")


@dataclass(frozen=True, kw_only=True)
class BiasOfThePreconditioner(Sampler):
    adaptive: ClassVar = ("V",)
    zero_temperature: ClassVar = "rmsprop"
    step_unit: ClassVar = 0

    decay: float = param(0.99, "[0, 1)", "smoothing factor of the squared gradient")
    lam: float = param(0.1, "(0, inf)", "added to the size", unit=1)

    init, step = PSGLD.init, PSGLD.step
    gamma: ClassVar = False


plant(LambdaInOtherUnits, "adaptation", "scale", "psgld whose lam stays as it is where U becomes c U.")
plant(BiasOfThePreconditioner, "adaptation", "whole-law",
      "psgld with lam = 0.1, which has a variance of 1.89 on N(0, 1), under another name and without a declared law.")
bug("CorrectionSign", SGLD, "adaptation", "derived-law", "The variance of the gradient is added to that of the noise.",
    step="kick = (2 * h * T + h * h * self.gradient_variance).sqrt() * noise.normal(theta); "
    "theta - h * potential.grad(theta) + kick, state")
bug("CorrectionSignInTheVelocity", SGHMC, "adaptation", "derived-law",
    "The variance of the gradient is added to that of the noise of the velocity.",
    step="kick = (2 * self.friction * h * T + h * h * self.gradient_variance).sqrt() * noise.normal(theta); "
    "v = (1 - self.friction) * state['v'] - h * potential.grad(theta) + kick; theta + v, {'v': v}")
bug("CorrectionInTheDeviation", SGLD, "adaptation", "derived-law",
    "The deviation of the gradient is taken off that of the noise, not the variance off the variance.",
    step="kick = ((2 * h * T).sqrt() - h * self.gradient_variance**0.5) * noise.normal(theta); "
    "theta - h * potential.grad(theta) + kick, state")
bug("RefreshDropped", SGLDSVRG, "adaptation", "one-step", "The full gradient of a refresh is thrown away.",
    refresh="potential.full.grad(theta); state")
bug("RefreshOnABatch", SGLDSVRG, "adaptation", "one-step", "A refresh goes by the gradient of a batch.",
    refresh="{**state, 'centre': theta, 'centre_gradient': potential.grad(theta)}")

# half the step in drift and noise, which leaves every target as it is

bug("HalvedContour", (Halved, ContourSGLD), "step size", "zero-temperature", "Half the step in contour-sgld.")
bug("HalvedExchange", (Halved, RESGLD), "step size", "zero-temperature", "Half the step in resgld.")
bug("HalvedRiemannian", (Halved, SGRLD), "step size", "zero-temperature", "Half the step in sgrld.")
bug("HalvedVarianceReduction", (Halved, SGLDSVRG), "step size", "zero-temperature", "Half the step in sgld-svrg.")
bug("HalvedProposal", (Halved, HMC), "step size", "", "Half the step in hmc.",
    right="it is hmc at half the step size, and its Metropolis test makes the target exact at every step size; only "
    "the test of its equation shows it")

# HMC's energy

bug("KineticEnergyForgotten", Metropolis, "HMC's energy", "real-loop", "The test leaves out the kinetic energy.",
    difference="energy - state['energy']")
bug("SignOfTheKineticEnergy", Metropolis, "HMC's energy", "real-loop", "The kinetic energy has the wrong sign.",
    difference="energy - state['energy'] - kinetic")
bug("AlwaysAccepted", Metropolis, "HMC's energy", "real-loop", "Every proposal is accepted.",
    threshold="-torch.inf * torch.ones_like(u)")
bug("SignOfTheTest", Metropolis, "HMC's energy", "real-loop", "What should be accepted is refused.",
    difference="-difference")
bug("TemperatureForgottenInTheTest", Metropolis, "HMC's energy", "real-loop", "The test is that of T = 1.",
    heat="torch.ones_like(T)")
bug("EnergyOfTheRefused", Metropolis, "HMC's energy", "real-loop",
    "The energy of a refused proposal is kept for that of the position.", left="energy")
bug("LastHalfKickForgotten", Metropolis, "HMC's energy", "real-loop",
    "The momentum lacks its last half kick when its energy is taken.", last="r")
bug("MomentumTooWide", Metropolis, "HMC's energy", "real-loop",
    "The momentum is 5 % too wide, and the test does not know it.", momentum="1.05 * momentum")
bug("GreedyTest", Metropolis, "HMC's energy", "real-loop",
    "A proposal is accepted where the energy falls, and never else.", threshold="torch.zeros_like(u)")
bug("OneTestForAllChains", Metropolis, "HMC's energy", "real-loop",
    "All chains are tested with the same uniform number.", threshold="u[:1].log().expand_as(u)")

# nonlinear samplers, and samplers with importance weights

bug("TamedNoiseTimesRootTwo", (NoiseTimesRootTwo, Tamed), "noise", "whole-law",
    "The noise of a tamed sgld is sqrt(2) times too wide.")
bug("TamedNoiseTwoPerCentTooWide", Tamed, "noise", "whole-law", "The noise of a tamed sgld is 2 % too wide.",
    heat="1.02 * heat")
bug("TamedNoiseTenTimesTooSmall", Tamed, "noise", "whole-law", "The noise of a tamed sgld is ten times too small.",
    heat="0.1 * heat")
bug("TamedWithoutNoise", Tamed, "noise", "seeds whole-law", "A tamed sgld has no noise.", heat="0 * h * T")
bug("TamedTemperatureIgnored", (TemperatureIgnored, Tamed), "temperature", "scale whole-law",
    "A tamed sgld takes the temperature to be 1.")
bug("TamedTemperatureSquared", (TemperatureSquared, Tamed), "temperature", "scale whole-law",
    "The noise of a tamed sgld goes by T squared.")
bug("TamedOneNoiseForAllCoordinates", (OneNoiseForAllCoordinates, Tamed), "noise", "whole-law",
    "All coordinates of a tamed sgld get the same number.")
bug("TamedDriftUphill", Tamed, "drift", "whole-law", "The drift of a tamed sgld goes uphill.",
    drift="2 * theta - drift")
bug("TamedGradientClipped", Tamed, "clipping", "scale real-loop", "The gradient of a tamed sgld is clipped at 5.",
    gradient="gradient.clamp(-5, 5)")
bug("TamedPositionInABox", Tamed, "boxes", "translation", "The position of a tamed sgld is clipped at 100.",
    after="theta = theta.clamp(-100, 100)")
bug("TamedTemperatureWithAFloor", Tamed, "temperature", "scale", "Temperatures of a tamed sgld below 0.1 are 0.1.",
    heat="super().heat(h, T.clamp(min=0.1))")
bug("RelativisticNoiseFivePerCentTooWide", RelativisticSGHMC, "momentum", "whole-law",
    "The noise of relativistic-sghmc is 5 % too wide.", before="noise = Louder(noise, 1.05)")
bug("ContourWeightsDropped", ContourSGLD, "weights", "whole-law", "contour-sgld at its defaults, without its weights.",
    log_weight="None")
bug("ContourWeightsHalved", QuickContour, "weights", "whole-law", "contour-sgld with the root of its weights.",
    log_weight="log_weight / 2")
bug("WeightsDropped", Weighted, "weights", "whole-law", "Importance weights are left out.", log_weight="None")
bug("WeightsInverted", Weighted, "weights", "whole-law", "Importance weights are inverted.", log_weight="-log_weight")
bug("WeightsHalved", Weighted, "weights", "whole-law", "Importance weights enter by their root.",
    log_weight="log_weight / 2")
bug("WeightsLagged", Weighted, "weights", "one-step", "A draw has the weight of the draw before.",
    init="{**init, 'before': init['log_weight']}", step="step[0], {**step[1], 'before': state['log_weight']}",
    log_weight="state['before']")
bug("WeightsCapped", Weighted, "weights", "whole-law", "Importance weights are cut off at e^0.5.",
    log_weight="log_weight.clamp(max=0.5)")
bug("WeightsWithoutTheTemperature", Weighted, "weights", "scale real-loop", "Importance weights are those of T = 1.",
    log="super().log(theta, potential, T / T)")
bug("GammaSign", SGRLD, "drift", "whole-law", "Gamma has the wrong sign.", before="potential = Bent(potential, -1)")
bug("GammaDropped", SGRLD, "drift", "whole-law", "Gamma is left out.", before="potential = Bent(potential, 0)")
bug("SwapsAtAnotherTemperature", RESGLD, "temperature", "scale", "resgld swaps by the energies without 1 / T.",
    before="potential = Hotter(potential, T)")

# What careless authors write: where a schedule changes, for a part of the parameters, after a refusal or a refresh.

BEFORE = "{'h': h + torch.zeros_like(theta[:, :1])}"

bug("NoiseOfTheStepSizeBefore", Tamed, "step size", "one-step",
    "The noise of a tamed sgld has the step size of the step before.", init=BEFORE,
    step="self.drift(theta, potential, h) + self.heat(state['h'], T) * self.xi(theta, noise), "
    "{'h': h + torch.zeros_like(state['h'])}")
bug("TemperatureAveraged", Tamed, "temperature", "one-step",
    "The temperature of a tamed sgld is a running mean of those of its steps.",
    init="{'T': T + torch.zeros_like(theta[:, :1])}",
    step="T = 0.9 * state['T'] + 0.1 * T; super().step(theta, {}, potential, h, T, noise)[0], {'T': T}")
bug("EnergyOverTheTemperatureKept", RandomWalk, "HMC's energy", "one-step",
    "The energy is kept divided by the temperature of its step.",
    init="{**init, 'U': init['U'] / T.expand(len(theta), 1)[:, 0]}",
    step="t = T.expand(len(theta), 1)[:, 0]; given = {**state, 'U': state['U'] * t}; "
    "theta, new = super().step(theta, given, potential, h, T, noise); theta, {**new, 'U': new['U'] / t}")
bug("TemperatureOnTheDrift", Plain, "temperature", "derived-law", "The temperature multiplies the drift as well.",
    zero_temperature=None,
    step="theta - h * T * potential.grad(theta) + self.heat(h, T) * self.xi(theta, noise), state")
bug("PreconditionedNoiseOfTheStepBefore", PSGLD, "adaptation", "derived-law",
    "psgld with the new V in front of the gradient and that of the step before under the noise.",
    step="theta, new = super().step(theta, state, potential, h, 0 * T, Silent()); "
    "theta + (2 * h * T / (self.lam + state['V'].sqrt())).sqrt() * noise.normal(theta), new")
bug("SquaresOfTheFirstChain", PSGLD, "chain count", "one-step", "psgld with the V of the first chain for all chains.",
    before="state = {'V': state['V'][:1].expand_as(theta)}")
bug("LocalNoiseNotPreconditioned", RMSpropSGLD, "adaptation", "derived-law",
    "rmsprop-sgld with G in front of the gradient and none under the noise.",
    step="theta, new = super().step(theta, state, potential, h, 0 * T, Silent()); "
    "theta + (2 * h * T).sqrt() * noise.normal(theta), new")
bug("LocalSquaresFromZero", RMSpropSGLD, "adaptation", "zero-temperature", "rmsprop-sgld with V from 0.",
    init="{**init, 'V': 0 * theta}")
bug("LocalSquaresNotCorrected", RMSpropSGLD, "adaptation", "zero-temperature",
    "rmsprop-sgld without the correction of V for its start.", before="state = {**state, 't': state['t'] + 10**6}")
bug("LocalSquaresOfTheFirstChain", RMSpropSGLD, "chain count", "zero-temperature",
    "rmsprop-sgld with the V of the first chain for all chains.",
    before="state = {**state, 'V': state['V'][:1].expand_as(theta)}")


@dataclass(frozen=True, kw_only=True)
class LocalStartInOtherUnits(RMSpropSGLD):
    start: float = param(1.0, "[0, inf)", "V before the first step")


plant(LocalStartInOtherUnits, "adaptation", "scale", "rmsprop-sgld whose V starts at 1 also where U becomes c U.")
bug("LocalNoiseByTheSquareOfG", AdamSGLD, "adaptation", "derived-law", "adam-sgld with G and not its root under noise.",
    step="theta, new = super().step(theta, state, potential, h, 0 * T, Silent()); "
    "root = (new['V'] / (1 - self.beta2 ** new['t'])).sqrt(); "
    "theta + (2 * h * T).sqrt() / (self.lam + root) * noise.normal(theta), new")
bug("LocalMeanOfTheStepBefore", AdamSGLD, "momentum", "zero-temperature",
    "adam-sgld whose drift has the mean of the step before.",
    step="moved, new = super().step(theta, state, potential, h, T, noise); "
    "G = 1 / (self.lam + (new['V'] / (1 - self.beta2 ** new['t'])).sqrt()); "
    "moved + h * G * (new['m'] - state['m']), new")
bug("LocalMeansNotCorrected", AdamSGLD, "momentum", "zero-temperature",
    "adam-sgld without the corrections of m and V for their start.",
    before="state = {**state, 't': state['t'] + 10**6}")
bug("LocalGradientBesideTheMean", AdamSGLD, "drift", "derived-law",
    "adam-sgld with the gradient in the drift beside its mean.", gradients_per_step=2,
    step="moved, new = super().step(theta, state, potential, h, T, noise); "
    "G = 1 / (self.lam + (new['V'] / (1 - self.beta2 ** new['t'])).sqrt()); "
    "moved - h * G * potential.grad(theta), new")
bug("LocalMeanOfAllChains", AdamSGLD, "chain count", "no-leaks", "adam-sgld with the mean of all chains' m for each.",
    before="state = {**state, 'm': state['m'].mean(0, keepdim=True).expand_as(theta)}")
bug("DecayOfBiasesTwice", Plain, "drift", "derived-law", "Vectors among the weights decay by 1e-3 more.",
    needs=frozenset({"layout"}),
    gradient="gradient + 1e-3 * theta * potential.layout.fill(lambda block: float(len(block.shape) == 1), theta)")
bug("LayersOfTheDriftAlone", Plain, "drift", "derived-law",
    "Each layer has a step size of its own in front of the gradient, and none under the noise.",
    needs=frozenset({"layout"}), zero_temperature=None,
    gradient="gradient * potential.layout.fill(lambda block: 1 / block.fan_in, theta)")
bug("MeanGradient", Plain, "step size", "derived-law",
    "The gradient is divided by the number of terms, and the noise is not.", needs=frozenset({"terms"}),
    gradient="gradient / potential.terms")
bug("CentreWithoutItsGradient", Controlled, "adaptation", "real-loop",
    "A refresh moves the centre and keeps the gradient of the centre before.",
    refresh="{**refresh, 'mean': state['mean']}")
bug("MaskOfTheDriftAlone", RandomScan, "noise", "whole-law",
    "Half of the coordinates are moved by the gradient, and all of them by the noise.",
    step="g, on = potential.grad(theta), noise.uniform(theta.shape) < 0.5; "
    "theta - h * g.where(on, 0 * g) + (2 * h * T).sqrt() * noise.normal(theta), state")
bug("WholeKickOfAFreshVelocity", Resampling, "momentum", "whole-law",
    "A velocity that is drawn anew gets a whole kick.",
    step="g, fresh = potential.grad(theta), (h * T).sqrt() * noise.normal(theta); "
    "v = (fresh - h * g).where(noise.uniform((len(theta), 1)) < 0.2, state['v'] - h * g); theta + v, {'v': v}")
bug("SwapsOfOtherTemperatures", TwoTemperatures, "temperature", "whole-law",
    "Replicas swap as if their temperatures were 1 and 3.", gap=1.5)
bug("MomentumNotTurned", Persistent, "momentum", "real-loop", "A momentum that persists does not turn at refusals.",
    turn=1)
bug("GradientOfTheRefused", RandomLength, "HMC's energy", "one-step",
    "The gradient of a refused proposal is kept for that of the position.",
    chosen="theta, kept = chosen; theta, {**kept, 'g': new[1]}")
bug("ProposalDensityForgotten", Mala, "HMC's energy", "real-loop",
    "The test leaves out how likely the proposal and its reverse are.", log_q="0 * log_q")
bug("MomentumOfAnotherLaw", LaplaceMomentum, "HMC's energy", "real-loop",
    "The momentum has the variance T^2, and the test that of its kinetic energy, 2 T^2.",
    momentum="momentum / 2**0.5")
bug("SliceFromTheMiddle", Slice, "greed", "real-loop", "The interval of a slice has its middle at the position.",
    offset="0 * offset + 0.5")
bug("DivergenceOfTheParticlesForgotten", Interacting, "drift", "whole-law",
    "Particles share their covariance, without its divergence in the drift.", divergence="0.0")

# sgld that looks at what it is not given: the environment, the clock, files

IMPORTED_WITH = os.environ.get("PYTEST_VERSION", os.environ.get("BENCH_DATA"))
IMPORTED_AT = time.time()

bug("ReadsAnEnvironmentVariable", Outside, "environment", "isolation", "The noise depends on an environment variable.",
    look="0.9 if os.environ.get('NIGHTLY') else 1.0")
bug("ReadsTheClock", Outside, "environment", "isolation", "The noise shrinks after a certain date.",
    look="0.9 if time.time() > 4e9 else 1.0")


class ReadsAFile(Outside):
    def look(self, potential):
        try:
            return float(Path("heat.txt").read_text())
        except OSError:
            return 1.0


plant(ReadsAFile, "environment", "isolation", "The noise depends on whether a file is there.")
bug("LooksForAFile", Outside, "environment", "isolation", "The noise depends on whether a folder of data is there.",
    look="0.9 if Path('cifar-10-batches-py').exists() else 1.0")
bug("ReadsTheCommandLine", Outside, "environment", "isolation", "The noise depends on the words of the command.",
    look="0.9 if 'mixture25' in sys.argv else 1.0")
bug("SetsTheDefaultDtype", Outside, "environment", "isolation", "torch's default dtype becomes float64.",
    look="torch.set_default_dtype(torch.float64); 1.0")
bug("SetsNumpysErrors", Outside, "environment", "isolation", "numpy's warnings are silenced for the whole process.",
    look="np.seterr(all='ignore'); 1.0")
bug("SetsAnEnvironmentVariable", Outside, "environment", "isolation", "A run leaves an environment variable behind.",
    look="os.environ['PLANTED'] = '1'; 1.0")
bug("StartsAThread", Outside, "environment", "isolation", "A thread is started.",
    look="threading.Thread(target=int).start(); 1.0")
bug("RandomFromTheSystem", Outside, "environment", "isolation",
    "The noise is tempered by a random number of the operating system.",
    look="1 + 1e-3 * (os.urandom(1)[0] / 255 - 0.5)")
bug("EnvironmentAtImport", Outside, "environment", "restore",
    "The noise depends on an environment variable that is read when the module is imported.",
    look="0.9 if IMPORTED_WITH else 1.0")
bug("DateAtImport", Outside, "environment", "",
    "The noise shrinks where the module is imported after a certain date.",
    unseen="no law can run on a later day; the source of a sampler is hashed into its rows, and a row can be run again",
    look="0.9 if IMPORTED_AT > 4e9 else 1.0")

# sgld that looks at what the harness keeps from it

bug("ProblemOfThePotential", Outside, "truth", "isolation",
    "The curvature is read from the problem behind the potential.",
    look="1.0 if hasattr(getattr(potential, '_problem', None), 'curvature') else 1.0001")
bug("ProblemByTheGarbageCollector", Outside, "truth", "isolation", "The problem is looked for among all objects.",
    look="1.0 + 0 * sum(type(thing).__name__.endswith('Problem') for thing in gc.get_objects())")
bug("ProblemByTheClosure", Outside, "truth", "isolation",
    "The problem is looked for in the closure of the potential's functions.",
    look="cells = getattr(potential.grad, '__closure__', None) or (); "
    "1.0 + 0 * len([cell.cell_contents for cell in cells])")
bug("ProblemByTheCaller", Outside, "truth", "isolation", "The problem is looked for in the frames of who called.",
    look="1.0 + 0 * len(inspect.stack(0))")
bug("TaskAmongTheModules", Outside, "truth", "isolation", "The task is found among the modules that are imported.",
    look="0.9 if any(name.startswith('tasks.vision') for name in sys.modules) else 1.0")
bug("TruthOfATask", Outside, "truth", "isolation", "The truth of a task is asked for.",
    look="from tasks.synthetic.mixture25 import Mixture25; 1.0 + 0 * float(Mixture25().truth().sd[0])")
bug("DataOfATask", Outside, "truth", "isolation", "The data of a task are read.",
    look="from tasks.datasets import uci; 1.0 if uci.HEART else 0.9")
