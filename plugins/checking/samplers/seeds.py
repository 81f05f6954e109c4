"""Law 9: the random numbers of a chain depend on its own streams and on nothing else."""

from __future__ import annotations

import torch
from torch import Tensor

from harness import Sampler, Trajectory
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import (
    Broken,
    Law,
    distance,
    draws,
    finish,
    loop,
    path_of,
    safe_x,
    same,
    trajectory,
    varying,
)

CHAIN_COUNTS = (*range(1, 10), 16, 17, 40, 65, 512)
"""Numbers of chains: all small ones, some near the widths of vector instructions, and more than a run often has."""

FEW = (1, 2, 5, 40)
"""Those of COMPANIES that are also tried past the stability limit."""
STEPS = 12
RARE = 64
"""How many times more steps chains have to separate whose noise is in events that few of the first steps have."""
ROUNDED = 1e-9
"""A relative difference below which it is one of rounding."""

LAST_BITS = (
    "an operation whose last bits depend on how many chains there are: write powers, sigmoid and softplus by exp and "
    "log, and a matrix product over the chains as a product and a sum over the last axis"
)
UNSTABLE = 1.5
"""Share of the stability limit: stable dynamics merge paths again, and so hide a difference in the last bit."""


def check(sampler: Sampler) -> None:
    """Check equal bits for equal seeds, independence of neighbours, and separate streams, below and past the limit."""
    task = GaussianTask(variance=0.5)
    past = UNSTABLE * safe_x(sampler, 1.0, otherwise=4.0) / task.curvature()
    for where, path, counts in (
        ("below the stability limit", trajectory(varying(sampler, task, STEPS), 1.0, burn_in=4), CHAIN_COUNTS),
        ("past the stability limit", trajectory([past] * STEPS, 1.0), FEW),
    ):
        paths = {rows: _path(sampler, task, path, rows) for rows in counts}
        most = max(counts)
        largest = paths[most]
        if not same(_path(sampler, task, path, 40), paths[40]):
            raise Broken(f"{where} two runs with the same seed differ")
        for rows, alone in paths.items():
            if not same(alone, largest[:, :rows]):
                chain = next(c for c in range(rows) if not same(alone[:, c], largest[:, c]))
                gap = (alone[:, chain] - largest[:, chain]).abs().max().item()
                off = f"{where} chain {chain} of {rows} is off by {gap:.2g} from itself among {most}"
                raise Broken(off, LAST_BITS if distance(alone, largest[:, :rows]) < ROUNDED else "")
    if sampler.limit_bias() != 0:  # an optimiser has no noise that separates its chains
        _no_shared_stream(sampler, task)


def _path(sampler: Sampler, task: GaussianTask, path: Trajectory, rows: int) -> Tensor:
    """Return all draws (K, C, D) of a run that may diverge."""
    return draws(finish(loop(sampler, task, path, rows)))


def _no_shared_stream(sampler: Sampler, task: GaussianTask) -> None:
    """Check that chains that start at one point separate."""
    together = GaussianTask(curvatures=task.curvatures, spread=0.0)
    for times in (1, RARE):
        path = trajectory(varying(sampler, task, STEPS).repeat(times), 1.0)
        try:
            last = path_of(sampler, together, path, max(CHAIN_COUNTS))[-1]
        except Broken as lost:
            raise Broken(
                f"from the mode, where the gradient is 0, {lost}", "a division by the gradient or by its norm"
            ) from None
        if sampler.limit_bias() is None and not last.any():
            return  # a fit to steps that do not move from the mode has no noise that separates them
        if len(torch.unique(last, dim=0)) == len(last):
            return
    raise Broken("chains that start at one point walk the same path: they share a stream of noise")


LAW = Law(
    9, "seeds", check,
    "noise drawn once for all chains, a generator of the sampler's own, or a reduction over the chains",
    exemptible=False,
)  # fmt: skip
