"""Powers of N, n, lr and T in what was measured, and the usual slip that has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from plugins.temperature.measure import BATCH, FACTOR, FEWER, SILENT, TERMS, Estimate, Pilot, Run

NEAR = 0.25
"""Largest distance of a measured power from a multiple of 1/2."""
BIAS = 0.08
"""Relative error of a measured constant, beside three standard errors: that of a step size above 0."""
SIMPLE = (1.0, 2.0, 0.5, 4.0, 0.25)
STEEP, SHARED, SWINGS = 0.25, 4.0, 1.5
"""From these on a temperature depends on the curvature, noise is shared by the weights, and there is a momentum."""
CERTAIN = 5.0
"""Standard errors from which on there is a prior."""


class Law(NamedTuple):
    """constant N^rows n^batch lr^step T^asked; a power is NaN if the measurements have none."""

    constant: float
    rows: float
    batch: float
    step: float = 0.0
    asked: float = 0.0

    def __str__(self) -> str:
        """Return it as a formula."""
        if math.isnan(sum(self.powers)):
            return "no power of N, n, lr and T"
        powers = {"N": self.rows, "n": self.batch, "lr": self.step, "T": self.asked}
        above = [_power(name, power) for name, power in powers.items() if power > 0]
        below = [_power(name, -power) for name, power in powers.items() if power < 0]
        constant = f"{self.constant:.3g}"
        above = above if above and constant == "1" else [constant, *above]
        return " ".join(above) + "".join(f" / {part}" for part in below)

    @property
    def powers(self) -> tuple[float, float, float, float]:
        return self.rows, self.batch, self.step, self.asked


@dataclass(frozen=True)
class Finding:
    """What a loop samples.

    temperature, gradient  their laws; the gradient is the first step over lr grad U
    prior                  law of the precision of a normal prior about 0; None if there is none
    uniform                whether one temperature holds for all curvatures
    shared                 whether the weights have one noise
    silent                 whether the loop adds no noise: its temperature is that of minibatches
    momentum               1/(1 - m)
    right                  whether it samples exp(-U/T) at the T that it was asked for, 1 if it has none
    cause                  the usual slip that has this temperature, and what to do; "" if none is known
    about_prior            what is wrong or unusual about the prior, or ""
    """

    temperature: Law
    measured: Estimate
    gradient: Law
    prior: Law | None
    uniform: bool
    shared: bool
    silent: bool
    momentum: float
    right: bool
    cause: str
    about_prior: str


def find(pilot: Pilot, runs: Sequence[Run], stated: float | None = None) -> Finding:
    """Return what a pilot and its runs say; `stated` is the prior precision that the loop is meant to have."""
    first, more, slower, fewer, *colder = runs
    silent = first.batch < first.terms  # then all runs have minibatches, which are its only noise
    batch = _power_of(pilot.of_batch, pilot.gradient, BATCH / TERMS)
    rows = _power_of(pilot.of_more, pilot.gradient, FACTOR) - batch
    gradient = Law(_constant(pilot.gradient, TERMS**rows * TERMS**batch), rows, batch)
    step = _power_of(first.temperature, slower.temperature, FEWER)
    per_row = _power_of(more.temperature, first.temperature, FACTOR)
    if silent:
        per_batch = _power_of(first.temperature, fewer.temperature, FEWER)
    else:
        per_batch, per_row = -batch, per_row + batch
    asked = _power_of(first.temperature, colder[0].temperature, FEWER) if colder else 0.0
    scale = TERMS**per_row * first.batch**per_batch * first.lr**step
    temperature = Law(_constant(first.temperature, scale), per_row, per_batch, step, asked)
    prior = _prior(first, more, fewer)
    uniform = abs(first.slope.value) < max(STEEP, 4 * first.slope.error)
    shared = first.shared > SHARED and not silent
    at_target = temperature.powers == (0.0, 0.0, 0.0, float(bool(colder))) and temperature.constant == 1
    right = at_target and uniform and not shared and not silent
    cause = "" if right else _cause(temperature, gradient, uniform, shared, silent, pilot.momentum, bool(colder))
    about_prior = _about_prior(prior, stated)
    return Finding(
        temperature, first.temperature, gradient, prior, uniform, shared, silent, pilot.momentum,
        right and not (about_prior and stated is not None), cause, about_prior,
    )  # fmt: skip


def _cause(
    T: Law, gradient: Law, uniform: bool, shared: bool, silent: bool, momentum: float, asks: bool
) -> str:  # fmt: skip
    """Return the usual slip with this temperature, and what to do; "" if none is known."""
    if silent:
        return "it adds no noise: an optimiser; its draws move by minibatches alone, which sample no exp(-U/T)"
    if shared:
        return "all weights get the same random number: draw noise of the shape of each parameter"
    if not uniform:
        return (
            "the temperature depends on the curvature: steps that are scaled or clipped need noise scaled alike, its "
            "variance 2 lr times the scale, and a term for the scale's derivative; `bench check` tests a sampler for it"
        )
    if asks and T.asked != 1:
        return {
            0.0: "the noise does not depend on the temperature: its variance has to be 2 lr T",
            2.0: "the noise is multiplied by T: its variance has to be 2 lr T, its standard deviation sqrt(2 lr T)",
        }.get(T.asked, "")
    powers = T.rows, T.batch, T.step
    mean = gradient.rows == -1 and gradient.batch == 0
    if powers == (0.0, 0.0, 0.0):
        return _constant_cause(T.constant, gradient.constant, momentum)
    return {
        (1.0, 0.0, 0.0): "the loss is a mean over rows: multiply it by N, or divide the variance of the noise by N"
        if mean
        else "the variance of the noise is N times too large",
        (1.0, -1.0, 0.0): "the loss is the sum over a minibatch: multiply it by N / n",
        (0.0, 1.0, 0.0): "the mean over a minibatch is multiplied by N / n: multiply it by N, or the sum by N / n",
        (-1.0, 0.0, 0.0): "the loss is a sum over all rows and is multiplied by N once more"
        if gradient.rows > 0
        else "the variance of the noise is divided by N, but the loss is a sum",
        (0.0, 0.0, 1.0): "the standard deviation of the noise is lr: it has to be sqrt(2 lr)",
        (
            0,
            0,
            2,
        ): "noise of variance 2 lr is added to the gradient, which lr multiplies: its variance has to be 2 / lr",
        (0.0, 0.0, -1.0): "the variance of the noise does not depend on lr: it has to be 2 lr",
    }.get(powers, "")


def _constant_cause(constant: float, gradient: float, momentum: float) -> str:
    if momentum > SWINGS:
        return (
            f"with a momentum of {1 - 1 / momentum:.2g} the noise has to be added to the momentum, with the variance "
            f"2 (1 - m) lr: measured is {constant:.3g} times that"
        )
    if constant == 0.5:
        return (
            "the loss is twice -log p: a mean squared error without its 1/2"
            if gradient == 2
            else "the variance of the noise is lr: it has to be 2 lr"
        )
    if constant == 2:
        return "the loss is half of -log p" if gradient == 0.5 else "the variance of the noise is 4 lr, not 2 lr"
    return f"the variance of the noise is {constant:.3g} times what these steps need"


def _about_prior(prior: Law | None, stated: float | None) -> str:
    """Return what is unusual about the prior, that it depends on N or n, or that it is not the stated one."""
    if prior is not None and prior.rows == 1 and prior.batch == 0:
        return (
            f"the precision of the prior is {prior}, and so grows with the data: divide by N a weight decay on the "
            "mean loss, or a prior inside it"
        )
    if prior is not None and (prior.rows or prior.batch):
        return f"the precision of the prior is {prior}: add it to the loss once, after the likelihood is multiplied"
    if stated is not None and not math.isclose(stated, prior.constant if prior else 0.0, rel_tol=BIAS, abs_tol=0.05):
        return f"the precision of the prior is {prior or 'zero'}, not {stated:g} as the file states"
    return ""


def _prior(first: Run, more: Run, fewer: Run) -> Law | None:
    if first.prior.value < CERTAIN * first.prior.error or first.prior.value < 1e-3:
        return None
    batch = _power_of(fewer.prior, first.prior, fewer.batch / first.batch)
    rows = _power_of(more.prior, first.prior, FACTOR) - batch * (more.batch != first.batch)
    return Law(_constant(first.prior, first.terms**rows * first.batch**batch), rows, batch)


def _power_of(one: Estimate, other: Estimate, factor: float) -> float:
    """Return the power of a quantity that differs by a factor; NaN if it is no multiple of 1/2."""
    if not (one.value > SILENT**2 and other.value > SILENT**2):
        return math.nan
    power = math.log(one.value / other.value) / math.log(factor)
    rounded = round(2 * power) / 2
    return rounded + 0.0 if abs(power - rounded) < NEAR else math.nan


def _constant(measured: Estimate, scale: float) -> float:
    """Return a simple number if the measured one is that within its error."""
    value, error = measured.value / scale, 3 * measured.error / scale
    return next((simple for simple in SIMPLE if abs(value / simple - 1) < BIAS + error / simple), value)


def _power(name: str, power: float) -> str:
    return name if power == 1 else f"{name}^{power:g}"
