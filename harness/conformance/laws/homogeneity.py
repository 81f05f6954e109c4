"""Law 13: at constant h and T the law of a step does not depend on how many steps were taken.

Two checks. *Clocks* are state entries that run alike in all chains whatever the noise is, as a count of steps does.
Each is set ahead, and the answer of a step must stay what it was. *The long run*: STEPS steps of the harness's own
loop, cut into WINDOWS; the mean of x^2, of x and of the squared move of a step in each window must equal that over the
others. The difference is taken within each chain, so the spread among chains is its error. STEPS is ten times the
16,000 of the longest budget of the other laws and more than the 150,000 of the `paper` budgets of the synthetic tasks.

Samplers with entries named in `adaptive`, or that go by the energy, get the first ADAPTING share of the run to settle.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from harness.conformance.gaussian import GaussianTask, Recorder
from harness.conformance.law import Broken, Law, Skip, distance, finish, heat, safe_x, streams
from harness.conformance.laws.whole import DIM, FEW, LEVEL, goes_by_energy
from harness.conformance.linear import Probe, ScriptedNoise
from harness.loop import Loop
from harness.schedule import Trajectory
from harness.stepping import BoundPotential

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.sampler import Sampler, State

    Array = NDArray[np.float64]

STEPS = 160_000
WINDOWS = 32
CHAINS = 32
EVERY = 50
"""Steps between two pairs of neighbouring draws that are kept."""

ADAPTING = 0.25
FORGETTING = 500
"""Steps that others get to forget their start, from which they are not far: what changes later than that is seen."""

AHEAD = (*range(1, 257), 1_000, 2_000, 5_000, 20_000, 100_000, 150_000, 1_000_000)
"""Steps that a clock is set ahead by: every one of the first 256, so that nothing done at every n-th step is missed."""

WATCHED = 12
"""Steps in which clocks are told from other entries."""


def check(sampler: Sampler, seed: int = 1) -> None:
    """Clocks set ahead, and the long run."""
    clocks(sampler)
    if sampler.limit_bias() is None:
        raise Skip("it declares no stationary law; its counts of steps, if any, change nothing")
    long_run(sampler, seed)


def clocks(sampler: Sampler) -> None:
    """Set every clock ahead, alone: no answer may change but the clock's own."""
    D, rows = 3, 4
    h = safe_x(sampler, 0.3) / 2.0
    probe = Probe(sampler, h, heat(sampler, 1.0), (1.0,) * D)
    generator = torch.Generator().manual_seed(0)
    theta = torch.randn((rows, D), generator=generator, dtype=torch.float64)
    states: list[State] = []
    problem = GaussianTask(curvatures=(1.0,) * D).build(streams(rows), "cpu")
    with torch.no_grad():
        state = sampler.init(theta, BoundPotential(problem, 1), probe.h, probe.T, ScriptedNoise())
        for _ in range(WATCHED):
            states.append(state)
            script = [_numbers(slot.kind, (rows, *slot.shape), generator) for slot in probe.slots]
            theta, state = sampler.step(theta, dict(state), BoundPotential(problem, 1), probe.h, probe.T,
                                        ScriptedNoise(script))  # fmt: skip
        script = [_numbers(slot.kind, (rows, *slot.shape), generator) for slot in probe.slots]

        def answer(given: State) -> Tensor:
            return sampler.step(theta, given, BoundPotential(problem, 1), probe.h, probe.T, ScriptedNoise(script))[0]

        expected = answer(dict(state))
        for name in state:
            pace = _pace([earlier[name] for earlier in states])
            if pace is None or name in sampler.adaptive:
                continue
            for steps in AHEAD:
                moved = state[name] + (steps * pace).to(state[name].dtype)
                gap = distance(answer({**state, name: moved}), expected)
                if not gap < 1e-12:
                    raise Broken(
                        f"state {name!r} counts steps, and {steps} steps later the same step from the same place moves "
                        f"otherwise, by {gap:.2g} (relative): its law depends on the number of steps"
                    )


def _pace(values: list[Tensor]) -> Tensor | None:
    """What an entry gains at every step, where that is the same in all chains and steps and not 0."""
    gains = torch.stack([b.double() - a.double() for a, b in pairwise(values)])
    pace = gains[0, :1]
    if not gains.numel() or not bool(pace.any()) or not bool(((gains - pace).abs() <= 1e-9 * pace.abs().max()).all()):
        return None
    return pace


def _numbers(kind: str, size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return (torch.randn if kind == "normal" else torch.rand)(size, generator=generator, dtype=torch.float64)


@dataclass(frozen=True)
class Windows:
    """The means of each chain in each window (W, C), by statistic, weighted as the sampler says."""

    means: dict[str, Array]

    def p_values(self) -> dict[str, float]:
        """Of each window against the others, by statistic."""
        from scipy.stats import t

        found = {}
        for name, means in self.means.items():
            count, chains = means.shape
            gaps = (means - means.mean(0)) * count / (count - 1)
            errors = gaps.std(axis=1, ddof=1) / np.sqrt(chains)
            for w, (gap, error) in enumerate(zip(gaps.mean(1), errors, strict=True)):
                p = float(2 * t.sf(abs(gap) / error, chains - 1)) if error > 0 else float(gap == 0)
                found[f"{name} in window {w + 1} of {count} is off by {gap:.3g} +- {error:.2g}"] = p
        return found


def long_run(sampler: Sampler, seed: int) -> None:
    """All windows alike, at LEVEL by Bonferroni; what fails is looked at again with four times as many chains."""
    found = windows(sampler, seed, CHAINS).p_values()
    level = LEVEL / 2 / len(found)
    if min(found.values()) > 100 * level:  # grey from here on: more chains decide
        return
    name, p = min(found.items(), key=lambda item: item[1])
    if p > level:
        found = windows(sampler, seed + 1000, 4 * CHAINS).p_values()
        name, p = min(found.items(), key=lambda item: item[1])
    if p < level:
        raise Broken(f"over {STEPS} steps at constant h and T, {name}: p = {p:.2g} among {len(found)}")


def windows(sampler: Sampler, seed: int, chains: int) -> Windows:
    """The long run of so many chains on a standard normal, with noisy gradients where they are all there is to see."""
    few = goes_by_energy(sampler)
    dim = FEW if few else DIM
    noise = 0.0 if sampler.limit_bias() else 1.0
    place = np.arange(STEPS)
    burning = place < (ADAPTING * STEPS if sampler.adaptive or few else FORGETTING)
    keep = ~burning & (place % EVERY >= EVERY - 2)
    path = Trajectory(
        step_size=np.full(STEPS, safe_x(sampler, 0.1)), temperature=np.ones(STEPS), keep=keep, evaluate=keep,
        cycle=np.zeros(STEPS, dtype=np.int64), burn_in=burning,
    )  # fmt: skip
    task = GaussianTask(curvatures=(1.0,) * dim, variance=noise)
    running = finish(Loop(task, sampler, path, streams(chains, seed), chains))
    (run,) = running.runs
    if run.divergence is not None:
        raise Broken(f"a chain goes to infinity at step {run.divergence.step} of {STEPS}")
    recorder = run.observer
    assert isinstance(recorder, Recorder)
    draws, weights = recorder.draws().numpy(), torch.cat(recorder.weights).numpy()
    first, second, weights = draws[::2], draws[1::2], weights[1::2]
    values = {
        "mean of x^2": np.square(second).mean(2), "mean of x": second.mean(2),
        "mean of the squared move of a step": np.square(second - first).mean(2),
    }  # fmt: skip
    pieces = np.array_split(np.arange(len(second)), WINDOWS)
    return Windows(
        {
            name: np.stack([(weights[p] * of[p]).sum(0) / weights[p].sum(0) for p in pieces])
            for name, of in values.items()
        }
    )


LAW = Law(
    13, "time-homogeneity", check,
    "a step that counts: noise, step size or momentum that change with the number of steps",
)  # fmt: skip
