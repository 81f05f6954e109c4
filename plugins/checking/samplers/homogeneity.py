"""Law 13: at constant h and T the law of a step does not depend on the number of steps taken before it.

There are two checks. *Clocks* are state entries that advance alike in all chains whatever the noise is, as a count of
steps does; `adapt` is called after each step, so its counts are among them. Each clock is set ahead, and the result of
a step, the new state included, must not change. If the sampler's law declares a clock (`SamplerLaw.clocks`), its effect
must vanish: from 10^4 to 10^9 steps on, it may be 10 / sqrt(steps). *The long run* has STEPS steps of the harness's own
loop, cut into WINDOWS; the means of x^2, of x and of the squared move of a step in each window must equal those over
the other windows. The difference is taken within each chain, so the spread among chains is its error. STEPS is ten
times the 16,000 of the longest budget of the other laws, and more than the 150,000 of the `paper` budgets of the
synthetic tasks.

The windows begin after a burn-in. Samplers with entries named in `adaptive` have as many steps as these need to settle
at a constant gradient; samplers that weight their draws have the first ADAPTING share of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from harness import Sampler, linear
from harness.engine import Loop, named
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import (
    LEVEL,
    WATCHED,
    Array,
    Broken,
    Law,
    Skip,
    State,
    distance,
    draws,
    finish,
    random_script,
    safe_x,
    streams,
    trajectory,
    two_sided,
    weights,
    worst,
)
from plugins.checking.sampler_law import law_of
from plugins.checking.samplers.whole import FEW, goes_by_energy
from plugins.checking.simulation import DIM
from plugins.checking.slow import PATIENCE

STEPS = 160_000
WINDOWS = 32
CHAINS = 32
EVERY = 50
"""Period, in steps, with which pairs of consecutive draws are kept."""

VANISHING = tuple(10**power for power in range(4, 10))
"""Numbers of steps at which the effect of a declared clock is tested. Running means give the latest value a share of
1 / t, stochastic approximation one of t^-.8, and the beta^t of a bias correction is 0 sooner."""

ADAPTING = 0.25
CLOSE = 1e-3
"""An entry has settled when it is this near (relative) to its limit: a law that is 1e-3 off does not matter for the
windows, whose standard error is some 3e-3."""

FORGETTING = 500
"""Burn-in of other samplers, which start close to their law; changes after it are detected."""

AHEAD = (*range(1, 257), 1_000, 2_000, 5_000, 20_000, 100_000, 150_000, 1_000_000)
"""Steps by which a clock is set ahead: all of the first 256, so that nothing done at every n-th step is missed."""

ROUNDING = 1e-12
"""Relative difference of sums of the same numbers."""


def check(sampler: Sampler, seed: int = 1) -> None:
    """Check the clocks and the long run; raise `Skip` if no stationary law is declared."""
    clocks(sampler)
    if sampler.limit_bias() is None:
        raise Skip("it declares no stationary law; its counts of steps, if any, change nothing")
    long_run(sampler, seed)


def clocks(sampler: Sampler) -> None:
    """Set every clock ahead, alone, and check that nothing but the clocks changes."""
    D, rows = 3, 4
    h = safe_x(sampler, 0.3) / 2.0
    probe = linear.Probe(sampler, h, 1.0, (1.0,) * D)
    generator = torch.Generator().manual_seed(0)
    theta = torch.randn((rows, D), generator=generator, dtype=torch.float64)
    states: list[State] = []
    potential = linear.QuadraticPotential(torch.ones(D, dtype=torch.float64))
    with torch.no_grad():
        state = sampler.init(theta, potential, probe.h, probe.T, linear.ScriptedNoise())
        for _ in range(WATCHED):
            state = sampler.adapt(dict(state), probe.h, probe.T)
            states.append(state)
            script = random_script(probe.slots, rows, generator)
            theta, state = sampler.step(theta, dict(state), potential, probe.h, probe.T,
                                        linear.ScriptedNoise(script))  # fmt: skip
        script = random_script(probe.slots, rows, generator)

        paces = {name: pace for name in state if (pace := _pace([earlier[name] for earlier in states])) is not None}

        def answer(name: str, ahead: int) -> dict[str, Tensor]:
            given = {**state, name: state[name] + (ahead * paces[name]).to(state[name].dtype)}
            moved, new = sampler.step(theta, given, potential, probe.h, probe.T, linear.ScriptedNoise(script))
            return named(moved, {other: leaf.double() for other, leaf in new.items() if other not in paces})

        declared = law_of(sampler).clocks
        for name in paces:
            pairs = [(0, steps, 1e-12) for steps in AHEAD]
            if name in declared:
                pairs = [(first, 9 * first, 10 / first**0.5) for first in VANISHING]
                pairs += [(VANISHING[-1], steps, 10 / VANISHING[-1] ** 0.5) for steps in AHEAD]
            for first, steps, allowed in pairs:
                expected, later = answer(name, first), answer(name, first + steps)
                for other, leaf in expected.items():
                    gap = 0.0 if torch.equal(later[other], leaf) else distance(later[other], leaf)
                    if not gap < allowed:
                        raise Broken(
                            f"state {name!r} counts steps, and {first + steps} steps later the same step from the same "
                            f"place gives another {other} (relative difference {gap:.2g}): its law depends on the "
                            "number of steps; a step that depends on its turn, as among blocks, keeps the turn in the "
                            f"state, k modulo n or a mask, with n at most {WATCHED}"
                        )


def _pace(values: list[Tensor]) -> Tensor | None:
    """Return the gain of an entry per step, or None if that differs between chains or steps or is 0."""
    gains = torch.stack([b.double() - a.double() for a, b in pairwise(values)])
    pace = gains[0, :1]
    if not gains.numel() or not bool(pace.any()) or not bool(((gains - pace).abs() <= 1e-9 * pace.abs().max()).all()):
        return None
    return pace


@dataclass(frozen=True)
class Windows:
    """The mean of each chain in each window (W, C), by statistic, with the weights of the sampler."""

    means: dict[str, Array]

    def p_values(self) -> dict[str, float]:
        """Return the p-value of each window against the others, by a sentence that names statistic and window."""
        by_window = {}
        for name, means in self.means.items():
            count, chains = means.shape
            gaps = (means - means.mean(0)) * count / (count - 1)
            errors = gaps.std(axis=1, ddof=1) / np.sqrt(chains)
            for w, (gap, error) in enumerate(zip(gaps.mean(1), errors, strict=True)):
                fixed = max(abs(gap), error) < ROUNDING * abs(means).max()  # for example, a step of constant length
                p = 1.0 if fixed else two_sided(abs(gap), error, chains - 1)
                by_window[f"{name} in window {w + 1} of {count} is off by {gap:.3g} +- {error:.2g}"] = p
        return by_window


def long_run(sampler: Sampler, seed: int) -> None:
    """Check that all windows agree, at LEVEL by Bonferroni; if not, look again with four times as many chains."""
    p_values = windows(sampler, seed, CHAINS).p_values()
    level = LEVEL / 2 / len(p_values)
    name, p = worst(p_values)
    if p > 100 * level:  # not grey: no more chains are needed
        return
    if p > level:
        p_values = windows(sampler, seed + 1000, 4 * CHAINS).p_values()
        name, p = worst(p_values)
    if p < level:
        raise Broken(f"over {STEPS} steps at constant h and T, {name}: p = {p:.2g} among {len(p_values)}")


def _burn_in(sampler: Sampler) -> int:
    """Return the steps that are left out of the windows: adaptive entries settle in them after a gradient doubles."""
    longest = round(ADAPTING * STEPS)
    if type(sampler).log_weight is not Sampler.log_weight:
        return longest
    if law_of(sampler).clocks:  # running means: the latest value has a share of 1 / t
        return 10 * FORGETTING
    if not sampler.adaptive:
        return FORGETTING
    probe = linear.Probe(sampler, safe_x(sampler, 0.1), 1.0, (1.0,))
    flat = linear.QuadraticPotential(torch.zeros(1, dtype=torch.float64), torch.full((1, 1), 2.0, dtype=torch.float64))
    theta, state, path = torch.zeros((1, 1), dtype=torch.float64), probe.start, []
    with torch.no_grad():
        for _ in range(PATIENCE):
            _, state = sampler.step(theta, dict(state), flat, probe.h, probe.T, linear.ScriptedNoise())
            path.append(torch.cat([state[name].double().flatten() for name in linear.held(sampler, state)]))
    entries = torch.stack(path)
    near = ((entries - entries[-1]).abs() <= CLOSE * entries[-1].abs()).all(1)
    settled = PATIENCE - int(near.flip(0).long().cumprod(0).sum())
    return longest if settled > 0.9 * PATIENCE else max(settled, FORGETTING)


def windows(sampler: Sampler, seed: int, chains: int) -> Windows:
    """Run `chains` chains on a standard normal, with noisy gradients if the sampler has no noise of its own."""
    few = goes_by_energy(sampler)
    dim = FEW if few else DIM
    noise = 0.0 if sampler.limit_bias() else 1.0
    step = np.arange(STEPS)
    burn_in = _burn_in(sampler)
    keep = (step >= burn_in) & (step % EVERY >= EVERY - 2)
    path = trajectory(np.full(STEPS, safe_x(sampler, 0.1)), 1.0, burn_in, keep)
    task = GaussianTask(curvatures=(1.0,) * dim, variance=noise)
    running = finish(Loop(task, sampler, path, streams(chains, seed), chains))
    (run,) = running.runs
    if run.divergence is not None:
        raise Broken(f"a chain goes to infinity at step {run.divergence.step} of {STEPS}")
    first, second = (draws(running)[start::2].numpy() for start in (0, 1))
    shares = weights(running)[1::2].numpy()
    values = {
        "mean of x^2": np.square(second).mean(2), "mean of x": second.mean(2),
        "mean of the squared move of a step": np.square(second - first).mean(2),
    }  # fmt: skip
    pieces = np.array_split(np.arange(len(second)), WINDOWS)
    return Windows(
        {name: np.stack([(shares[p] * of[p]).sum(0) / shares[p].sum(0) for p in pieces]) for name, of in values.items()}
    )


LAW = Law(
    13, "time-homogeneity", check,
    "a step that counts: noise, step size or momentum that change with the number of steps",
)  # fmt: skip
