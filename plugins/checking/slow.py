"""The law of a sampler whose adaptive entries follow the gradient, as h goes to 0: derived from `step`.

As h goes to 0 the position moves slowly compared with the state, which settles to the value that belongs to the current
position. So a coordinate with gradient g = U'(x) follows

    dx = (s(g) T U''(x) - b(g)) dt + sqrt(2 T d(g)) dW,      law  p(x) = exp(int (s T U'' - b) / (T d) dx) / d,

where b is its mean velocity and d the variance that its noise adds in the long run, over 2 T, both per unit of h. s T
is the average move caused by the noise where gradients have the slope 1: a momentum that still carries the noise meets
entries that have followed it by then; without such a memory s is 0. All three come from `step` without Monte Carlo: at
a constant gradient g the state is iterated until it is constant, and the response of the position to one unit of noise
is followed until it is complete. This is correct for exact gradients, whose law it is; with noisy gradients the entries
follow the noise as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from harness import Sampler, linear
from plugins.checking.law import Array, State
from plugins.checking.targets import GRID

SLOPES = np.geomspace(1e-9, 3e4, 400)
"""Magnitudes of the gradient at which b and d are found. Between them, 8 % apart, b/g and log d are taken as linear in
log g: this is off by (.08)^2 / 8 = 8e-4 times their second derivative, which is 1/4 at most where they pass from one
power law to another."""

PATIENCE = 20_000
"""Steps that the entries have to settle: with beta2 = .999 all but 2e-9 of the start is forgotten."""

STILL = 1e-6
"""Largest relative change of an entry over the last tenth of these steps."""


BEND = 1e-3


class Unsettled(Exception):  # noqa: N818 - a finding
    """The entries do not settle within PATIENCE steps; the message names them."""


@dataclass(frozen=True, eq=False)
class SlowLimit:
    """b, d and s at SLOPES; b and s are odd in g and d even."""

    b: Array
    d: Array
    s: Array

    def density(self, gradient: Array, T: float) -> Array:
        """Return the law of a coordinate with this gradient on GRID, as probabilities of its points."""
        log_slope = np.log(np.maximum(np.abs(gradient), SLOPES[0]))
        b = gradient * np.interp(log_slope, np.log(SLOPES), self.b / SLOPES)
        d = np.exp(np.interp(log_slope, np.log(SLOPES), np.log(self.d)))
        s = np.sign(gradient) * np.interp(log_slope, np.log(SLOPES), self.s * SLOPES) / np.exp(log_slope)
        push = b / (T * d) - s * np.gradient(gradient, GRID) / d
        walk = np.concatenate([[0.0], np.cumsum((push[1:] + push[:-1]) / 2 * np.diff(GRID))])
        log_p = -walk - np.log(d)
        p = np.exp(log_p - log_p.max())
        return p / p.sum()


def slow_limit(sampler: Sampler, T: float = 1.0) -> SlowLimit:
    """Return b, d and s of a sampler; raise `Unsettled` if its entries do not settle."""
    probe = linear.Probe(sampler, linear.RESTING, T, (1.0,))
    slopes = torch.from_numpy(SLOPES)[:, None]
    with torch.no_grad():
        state = _settled(probe, slopes)
        still = _move(probe, state, slopes, None)
        velocity = still[0]
        variance, carried = torch.zeros_like(velocity), torch.zeros_like(velocity)
        unit = float(np.sqrt(linear.RESTING * T))
        for k in range(probe.noise_size):
            reach, steps = _reach(probe, state, slopes, k, unit)
            variance = variance + reach.square()
            carried = carried + _carried(probe, state, slopes, k, reach, steps)
    b = -velocity[:, 0].numpy() / linear.RESTING
    d = variance[:, 0].numpy() / (2 * linear.RESTING * T)
    return SlowLimit(b, d, carried[:, 0].numpy() / (linear.RESTING * T))


def _move(probe: linear.Probe, state: State, slopes: Tensor, noise: list[Tensor] | None) -> tuple[Tensor, State]:
    """Take one step from theta = 0 under a constant gradient."""
    flat = linear.QuadraticPotential(torch.zeros(1, dtype=torch.float64), slopes)
    zero = torch.zeros_like(slopes)
    if noise is None:
        noise = [torch.zeros((len(slopes), *slot.shape), dtype=slot.dtype) for slot in probe.slots]
    return probe.sampler.step(zero, dict(state), flat, probe.h, probe.T, linear.ScriptedNoise(noise))


def _settled(probe: linear.Probe, slopes: Tensor) -> State:
    flat = linear.QuadraticPotential(torch.zeros(1, dtype=torch.float64), slopes)
    state = probe.sampler.init(torch.zeros_like(slopes), flat, probe.h, probe.T, linear.ScriptedNoise())
    before = state
    for step in range(PATIENCE):
        if step == PATIENCE * 9 // 10:
            before = state
        was = state
        _, state = _move(probe, state, slopes, None)
        if step % 100 == 0 and all(torch.equal(leaf, was[name]) for name, leaf in state.items()):
            return state
    moving = [
        name for name in linear.held(probe.sampler, state)
        if state[name].is_floating_point()
        and bool(((state[name] - before[name]).abs() > STILL * state[name].abs() + 1e-300).any())
    ]  # fmt: skip
    if moving:
        raise Unsettled(f"{', '.join(moving)} still move after {PATIENCE} steps at a constant gradient")
    return state


def _script(probe: linear.Probe, rows: int, k: int, value: float) -> list[Tensor]:
    """Return the noise of a step: `value` for the k-th number, 0 for the others."""
    script = [torch.zeros((rows, *slot.shape), dtype=slot.dtype) for slot in probe.slots]
    rest = k
    for values in script:
        flat = values.reshape(rows, -1)
        if rest < flat.shape[1]:
            flat[:, rest] = value
            break
        rest -= flat.shape[1]
    return script


def _carried(probe: linear.Probe, state: State, slopes: Tensor, k: int, reach: Tensor, steps: int) -> Tensor:
    """Return the average move of the position by units of the k-th noise of both signs, with gradients of slope 1.

    The slope used is such that these moves change the gradient by the share BEND of itself; the result is divided by
    the slope.
    """
    bend = BEND * slopes / reach.abs().clamp(min=1e-300)
    still = _move(probe, state, slopes, None)[0]
    moved = []
    for sign in (1.0, -1.0):
        step, now = _move(probe, state, slopes, _script(probe, len(slopes), k, sign))
        position = step - still
        for _ in range(steps):
            step, now = _move(probe, now, slopes + bend * position, None)
            position = position + step - still
        moved.append(position)
    return (moved[0] + moved[1]) / 2 / bend


def _reach(probe: linear.Probe, state: State, slopes: Tensor, k: int, unit: float) -> tuple[Tensor, int]:
    """Return the move (G, 1) of the position by one unit of the k-th noise, adaptive entries held, and its steps."""
    script = _script(probe, len(slopes), k, 1.0)
    kicked, base = _move(probe, state, slopes, script), _move(probe, state, slopes, None)
    total = kicked[0] - base[0]
    free = {name: kicked[1][name] - base[1][name] for name in probe.free}
    if not free or all(not bool(leaf.any()) for leaf in free.values()):
        return total, 0
    steps = 0
    while steps < PATIENCE:
        steps += 1  # the rest of the response, through what the noise left in the state
        shifted = {**state, **{name: state[name] + leaf for name, leaf in free.items()}}
        moved, after = _move(probe, shifted, slopes, None)
        total = total + moved - base[0]
        free = {name: after[name] - base[1][name] for name in probe.free}
        if all(float(leaf.abs().max()) < 1e-9 * unit for leaf in free.values()):
            break
    return total, steps
