"""The moments of a target, or of functions of theta such as predictions, by long HMC."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness import RunError, Sampler, diagnostics
from harness.results import ENGINE, RunSpec, Send
from harness.runs import instance, truths
from harness.tasks import Observer, Problem, Streams, Task, Truth
from plugins.schedules.constant import Constant

Array = NDArray[np.float64]

SEED = 0
RHAT_LIMIT = 1.01
ESS_LIMIT = 10_000
"""Limits that a truth has to reach along every direction: its moments are then known to 1 % of a standard deviation."""
MOST = 2
"""Times as many draws as asked for, if that is what a sufficient effective size takes."""

CHAINS = 16
LEVELS = (0.05, 0.5, 0.95)
WARM = {"steps": 2000, "step_size": 5e-3}
"""Adam on all the data, from each chain's own starting point."""
SAMPLER = {"leapfrog": 100, "jitter": 0.5, "acceptance": 0.8}
FIRST_STEP = 1e-7
"""h of the first burn-in step; the length of a leapfrog step is its square root."""
DIGITS = 6


def hmc_draws(
    task: Task, sampler: Sampler, step_size: float, *, chains: int, burn_in: int, draws: int,
    enough: Callable[[Array], bool] | None = None,
) -> Array:  # fmt: skip
    """Return draws (n, C, D) from a task by a sampler whose step adapts from `step_size` during the burn-in.

    While the draws are not `enough`, half of what was asked for is added, up to `MOST` times as many.

    The result is deterministic. Raise `RunError` if a chain diverges.
    """
    import torch

    from harness.engine import Loop
    from plugins.checking.gaussian import Recorder

    torch.set_num_threads(1)
    schedule = Constant(step_size=step_size, temperature=1.0)
    longest = draws * (MOST if enough else 1)
    trajectory = schedule.trajectory(burn_in + longest, 1).with_burn_in(burn_in)
    recorder = Recorder()
    streams = [Streams(SEED, c) for c in range(chains)]
    loop = Loop(task, sampler, trajectory, streams, chains, observer=lambda *_: recorder)
    wanted, suffice = draws, False
    while not (loop.finished or suffice):
        loop.advance_block()
        while enough and not suffice and wanted < longest and sum(map(len, recorder.blocks)) >= wanted:
            suffice = enough(recorder.draws()[:wanted].numpy())
            wanted += 0 if suffice else min(-(-draws // 2), longest - wanted)
    if lost := loop.runs[0].divergence:
        raise RunError(f"{type(task).__name__}: chain {lost.chain} was lost at step {lost.step}")
    return recorder.draws()[:wanted].numpy()


class Quality(NamedTuple):
    """The moments of draws, the bulk ESS of z and of z^2 (K,) along their directions, and the worst R-hat."""

    moments: Truth
    ess: Array
    ess2: Array
    rhat: float

    @property
    def too_few(self) -> bool:
        """Whether the chains agree but some effective size is too small."""
        return self.rhat < RHAT_LIMIT and self.least <= ESS_LIMIT

    @property
    def least(self) -> float:
        """The least effective size."""
        return float(min(self.ess.min(), self.ess2.min()))


def quality(draws: Array) -> Quality:
    """Return the quality of draws (n, C, D)."""
    truth = Truth.of_points(draws.reshape(-1, draws.shape[2]))
    return Quality(truth, *_quality(draws - truth.mean, truth.directions))


def truth_record(draws: Array, judged: Quality, name: str, sampler: Mapping[str, Any], burn_in: int) -> dict[str, Any]:
    """Return the record for `Truth.of_record`, from draws (n, C, D); raise `RunError` if they miss the limits."""
    truth, ess, ess2, rhat = judged
    if not rhat < RHAT_LIMIT or judged.too_few:
        raise RunError(f"{name}: R-hat {rhat:.4f}, least ESS {ess.min():.0f} (z), {ess2.min():.0f} (z^2): run longer")
    accepted = (draws[1:] != draws[:-1]).any(axis=2).mean(axis=0)
    coordinates = slice(draws.shape[2])
    return {
        "sampler": {"name": "hmc", **sampler},
        "engine": ENGINE,
        "seed": SEED,
        "chains": draws.shape[1],
        "burn_in": burn_in,
        "draws": len(draws),
        "rhat": rhat,
        "ess_z": float(ess.min()),
        "ess_z2": float(ess2.min()),
        "acceptance": float(accepted.mean()),
        "acceptance_worst_chain": float(accepted.min()),
        "divergences": 0,
        "mean": truth.mean.tolist(),
        "covariance": [row[: i + 1].tolist() for i, row in enumerate(truth.covariance)],
        "z3": truth.z3.tolist(),
        "z4": truth.z4.tolist(),
        "mean_mcse": (truth.sd / np.sqrt(ess[coordinates])).tolist(),
        "sd_mcse": (truth.sd / 2 * np.sqrt((truth.z4[coordinates] - 1) / ess2[coordinates])).tolist(),
    }


def _quality(centred: Array, along: Array) -> tuple[Array, Array, float]:
    """Return the bulk ESS of z and of z^2 (K,) of draws (n, C, D) along directions (K, D), and the worst R-hat."""
    parts = []
    for few in np.array_split(along, -(-len(along) // 16)):  # a rank transform of all directions takes gigabytes
        z = centred @ few.T
        worst = [diagnostics.rank_normalised_split_rhat(f).max() for f in (z, z**2)]
        parts.append((diagnostics.bulk_ess(z), diagnostics.bulk_ess(z**2), max(worst)))
    ess, ess2, rhat = zip(*parts, strict=True)
    return np.concatenate(ess), np.concatenate(ess2), float(max(rhat))


class OnAllData(Problem):
    """U of a problem on all the data, in float64, and its gradient in float32; chains start at `start` (C, D).

    A leapfrog step with any gradient is reversible and preserves volume, and U decides on proposals, so HMC is exact.
    """

    def __init__(self, exact: Problem, fast: Problem, start: Tensor | None) -> None:
        self.exact, self.fast, self.start, self.dim = exact, fast, start, exact.dim

    def initial(self) -> Tensor:
        """Return `start`, or if that is None the starting points of the problem."""
        return self.exact.initial() if self.start is None else self.start

    def energy(self, theta: Tensor, batch: Mapping[str, Tensor] | None) -> Tensor:
        """Return U (C,) on all the data."""
        return self.exact.energy(theta, None)

    def energy_and_gradient(self, theta: Tensor, batch: Mapping[str, Tensor] | None) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D)."""
        return self.energy(theta, None), self.gradient(theta, None)

    def gradient(self, theta: Tensor, batch: Mapping[str, Tensor] | None) -> Tensor:
        """Return grad U (C, D)."""
        return self.fast.gradient(theta.float(), None).double()

    def observer(self, *_: Any) -> Observer:
        """Raise `NotImplementedError`: the draws are recorded without an observer."""
        raise NotImplementedError


def on_all_data(task: Task, start: Tensor | None = None) -> Task:
    """Return the task with the problem `OnAllData`."""
    cls: Any = type(task)
    given = {f.name: getattr(task, f.name) for f in fields(task)}
    fast = type(cls.__name__, (cls,), {"dtype": "float32"})(**given)

    def build(self: Any, streams: Sequence[Streams], device: str) -> Problem:
        return OnAllData(cls.build(self, streams, device), fast.build(streams, device), start)

    return type(cls.__name__, (cls,), {"dtype": "float64", "build": build})(**given)


def compute_functions(spec: RunSpec, task: Task, draws: int, send: Send) -> dict[str, Any]:
    """Return the record that `Reference.of_record` reads, accepted or not; raise `RunError` if a chain diverges."""
    name, begun = spec.task.name, time.process_time()
    send("say", {"text": f"{CHAINS} chains of {WARM['steps']} steps of Adam"})
    adam, steps = instance("plugins.samplers.adam:Adam", {}), int(WARM["steps"])
    optima = hmc_draws(on_all_data(task), adam, WARM["step_size"], chains=CHAINS, burn_in=steps - 1, draws=1)
    burn_in = draws // 2
    send("say", {"text": f"{CHAINS} chains of {burn_in} + {draws} draws"})
    started = on_all_data(task, torch.from_numpy(optima[-1]))
    hmc = instance(spec.sampler.target, SAMPLER)
    theta = hmc_draws(started, hmc, FIRST_STEP, chains=CHAINS, burn_in=burn_in, draws=draws)
    with torch.no_grad():
        functions = np.stack([task.functions(torch.from_numpy(each)).double().numpy() for each in theta])
    if not np.isfinite(functions).all():
        raise RunError(f"{name}: its functions are not finite at some draws; nothing was stored")
    accepted = (theta[1:] != theta[:-1]).any(axis=2).mean(axis=0)
    return {
        truths.FUNCTIONS: functions.shape[2],
        "command": f"bench truth {name} --draws {draws}",
        "sampler": {"name": "hmc", **SAMPLER, "warm_start": {"name": "adam", **WARM}},
        "engine": ENGINE,
        "seed": SEED,
        "chains": CHAINS,
        "burn_in": burn_in,
        "draws": draws,
        "acceptance": float(accepted.mean()),
        "acceptance_worst_chain": float(accepted.min()),
        "seconds": time.process_time() - begun,
        **function_moments(functions),
    }


def function_moments(functions: Array) -> dict[str, Any]:
    """Return moments, quantiles, standard errors and R-hat of functions (n, C, K), rounded to six digits."""
    pooled = functions.reshape(-1, functions.shape[2])
    mean, sd = pooled.mean(axis=0), pooled.std(axis=0)
    z = (functions - mean) / sd
    between = {
        f"{part}_error": values.std(axis=0, ddof=1) / np.sqrt(functions.shape[1])
        for part, values in (("mean", functions.mean(axis=0)), ("sd", sd * (z**2).mean(axis=0) / 2))
    }
    moments = {
        "mean": mean, "sd": sd, "z4": (z**4).mean(axis=(0, 1)), "quantiles": np.quantile(pooled, LEVELS, axis=0).T,
        "rhat": diagnostics.rank_normalised_split_rhat(functions), **between,
    }  # fmt: skip
    return {"levels": list(LEVELS), **{name: _rounded(values) for name, values in moments.items()}}


def _rounded(values: Array) -> Any:
    return [_rounded(v) for v in values] if values.ndim > 1 else [float(f"{v:.{DIGITS}g}") for v in values]
