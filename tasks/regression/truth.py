"""Makes the stored truths of the logistic posteriors: python -m tasks.regression.truth [dataset ...].

The harness's own HMC runs through the harness's own loop: many chains, started at draws of the prior. What it finds is
written to truth/<dataset>.json only if it is good enough: rank-normalised split R-hat below 1.01 and a bulk effective
size above 10,000, for z and for z^2, along each of `Truth.directions`, and no chain lost. Deterministic given the seed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import Cost, Info, RunError, Task, Trajectory, Truth, UsageError
from harness.analysis.diagnostics import bulk_ess, rank_normalised_split_rhat
from harness.contracts.parameters import near
from harness.contracts.registry import load, registry
from harness.engine.gaussian import Recorder
from harness.results.spec import ENGINE
from harness.system.files import write_whole
from tasks.regression.blr import Australian, German, Heart, LogisticProblem, LogisticTask
from tasks.regression.laplace import laplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.contracts.randomness import Streams

    Array = NDArray[np.float64]

SEED = 0
CHAINS = 64
BURN_IN = 500
DRAWS = 1500
SAMPLER = {"leapfrog": 8, "jitter": 0.5, "acceptance": 0.8}
"""A wide jitter: where all trajectories have half a period of some direction, z is fresh there and z^2 is not."""
RHAT_LIMIT = 1.01
ESS_LIMIT = 10_000


class RecordedProblem(LogisticProblem):
    """The potential, with no truth to compare with yet."""

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> Recorder:
        return Recorder()


class Recorded(LogisticTask):
    """A task whose draws are only recorded."""

    def build(self, streams: Sequence[Streams], device: str) -> RecordedProblem:
        return RecordedProblem(self, streams, device)


class RecordedAustralian(Recorded, Australian):
    """Australian credit approval."""


class RecordedGerman(Recorded, German):
    """German credit."""


class RecordedHeart(Recorded, Heart):
    """Statlog heart disease."""


TASKS: dict[str, LogisticTask] = {
    task.file.dataset: task for task in (RecordedAustralian(), RecordedGerman(), RecordedHeart())
}


def reference(task: LogisticTask, *, chains: int = CHAINS, burn_in: int = BURN_IN, draws: int = DRAWS) -> Array:
    """Draws (n, C, D) by HMC, adapted in the burn-in that is dropped. `RunError` where a chain is lost."""
    step_size = 1 / laplace(task.design()).eigenvalues[-1]
    return hmc_draws(task, SAMPLER, step_size, chains=chains, burn_in=burn_in, draws=draws)


def hmc_draws(
    task: Task, settings: Mapping[str, Any], step_size: float, *, chains: int, burn_in: int, draws: int
) -> Array:
    """Draws (n, C, D) of a task whose observer is a `Recorder`, by hmc with these settings, its step from h."""
    import torch

    from harness.contracts.randomness import Streams
    from harness.engine.loop import Loop

    torch.set_num_threads(1)
    info = registry().find("samplers", "hmc").info
    assert isinstance(info, Info)
    sampler = load(info.target)(**settings)
    steps = burn_in + draws
    everywhere = np.ones(steps, dtype=bool)
    trajectory = Trajectory(
        step_size=np.full(steps, step_size),
        temperature=np.ones(steps),
        keep=everywhere,
        evaluate=everywhere,
        cycle=np.zeros(steps, dtype=np.int64),
        burn_in=~everywhere,
    ).with_burn_in(burn_in)
    loop = Loop(task, sampler, trajectory, [Streams(SEED, c) for c in range(chains)], chains)
    while not loop.finished:
        loop.advance_block()
    run = loop.runs[0]
    if run.divergence is not None:
        raise RunError(f"{type(task).__name__}: chain {run.divergence.chain} was lost at step {run.divergence.step}")
    assert isinstance(run.observer, Recorder)
    return np.asarray(run.observer.draws())


def record(task: LogisticTask, draws: Array) -> dict[str, Any]:
    """Moments, their standard errors and how good the reference is. `RunError` where it is not good enough."""
    dataset = task.file.dataset
    truth = Truth.of_points(draws.reshape(-1, draws.shape[2]))
    ess, ess2, rhat = _quality(draws - truth.mean, truth.directions)
    if not (rhat < RHAT_LIMIT and min(ess.min(), ess2.min()) > ESS_LIMIT):
        raise RunError(
            f"{dataset}: R-hat {rhat:.4f}, least ESS {ess.min():.0f} (z), {ess2.min():.0f} (z^2): run longer"
        )
    eigenvalues = laplace(task.design()).eigenvalues
    accepted = (draws[1:] != draws[:-1]).any(axis=2).mean(axis=0)
    own = slice(draws.shape[2])
    return {
        "dataset": dataset,
        "data_sha256": task.file.sha256,
        "command": f"python -m tasks.regression.truth {dataset}",
        "sampler": {"name": "hmc", **SAMPLER},
        "engine": ENGINE,
        "seed": SEED,
        "chains": draws.shape[1],
        "burn_in": BURN_IN,
        "draws": len(draws),
        "rhat": rhat,
        "ess_z": float(ess.min()),
        "ess_z2": float(ess2.min()),
        "acceptance": float(accepted.mean()),
        "acceptance_worst_chain": float(accepted.min()),
        "divergences": 0,
        "hessian_eigenvalues": [float(eigenvalues[0]), float(eigenvalues[-1])],
        "mean": truth.mean.tolist(),
        "covariance": [row[: i + 1].tolist() for i, row in enumerate(truth.covariance)],
        "z3": truth.z3.tolist(),
        "z4": truth.z4.tolist(),
        "mean_mcse": (truth.sd / np.sqrt(ess[own])).tolist(),
        "sd_mcse": (truth.sd / 2 * np.sqrt((truth.z4[own] - 1) / ess2[own])).tolist(),
    }


def _quality(centred: Array, along: Array) -> tuple[Array, Array, float]:
    """Bulk ESS of z and of z^2 (K,) of draws (n, C, D) along directions (K, D), and the worst R-hat of all."""
    parts = []
    for few in np.array_split(along, -(-len(along) // 16)):  # a rank transform of all of them takes gigabytes
        z = centred @ few.T
        worst = [rank_normalised_split_rhat(f).max() for f in (z, z**2)]
        parts.append((bulk_ess(z), bulk_ess(z**2), max(worst)))
    ess, ess2, rhat = zip(*parts, strict=True)
    return np.concatenate(ess), np.concatenate(ess2), float(max(rhat))


def write(path: Path, found: Mapping[str, Any]) -> None:
    """The record as JSON, an entry a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    write_whole(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
    summary = {k: found[k] for k in ("rhat", "ess_z", "ess_z2", "acceptance", "acceptance_worst_chain")}
    print(path, json.dumps(summary))  # noqa: T201 - this command's output


def main(names: Sequence[str]) -> None:
    """Make the truths of the named data sets, of all where none is named."""
    for name in names:
        if name not in TASKS:
            raise UsageError(f"unknown data set {name!r}{near(name, TASKS)}")
    for name in names or TASKS:
        found = record(TASKS[name], reference(TASKS[name]))
        write(Path(__file__).parent / "truth" / f"{name}.json", found)


if __name__ == "__main__":
    main(sys.argv[1:])
