"""The moments of a target by long HMC: the truth of a task without a closed form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import RunError, diagnostics
from harness.results import ENGINE
from harness.tasks import Streams, Truth
from plugins.schedules.constant import Constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness import Sampler
    from harness.tasks import Task

    Array = NDArray[np.float64]

SEED = 0
RHAT_LIMIT = 1.01
ESS_LIMIT = 10_000
"""Limits that a truth has to reach along every direction: its moments are then known to 1 % of a standard deviation."""


def hmc_draws(task: Task, sampler: Sampler, step_size: float, *, chains: int, burn_in: int, draws: int) -> Array:
    """Return draws (n, C, D) from a task by a sampler whose step adapts from `step_size` during the burn-in.

    The result is deterministic. Raise `RunError` if a chain diverges.
    """
    import torch

    from harness.engine import Loop
    from plugins.checking.gaussian import Recorder

    torch.set_num_threads(1)
    schedule = Constant(step_size=step_size, temperature=1.0)
    trajectory = schedule.trajectory(burn_in + draws, 1).with_burn_in(burn_in)
    recorder = Recorder()
    streams = [Streams(SEED, c) for c in range(chains)]
    loop = Loop(task, sampler, trajectory, streams, chains, observer=lambda *_: recorder)
    while not loop.finished:
        loop.advance_block()
    if lost := loop.runs[0].divergence:
        raise RunError(f"{type(task).__name__}: chain {lost.chain} was lost at step {lost.step}")
    return np.asarray(recorder.draws())


def truth_record(draws: Array, name: str, sampler: Mapping[str, Any], burn_in: int) -> dict[str, Any]:
    """Return the record for `Truth.of_record`, from draws (n, C, D); raise `RunError` if they miss the limits."""
    truth = Truth.of_points(draws.reshape(-1, draws.shape[2]))
    ess, ess2, rhat = _quality(draws - truth.mean, truth.directions)
    if not (rhat < RHAT_LIMIT and min(ess.min(), ess2.min()) > ESS_LIMIT):
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
