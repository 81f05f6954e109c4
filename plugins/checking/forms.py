"""General forms of the laws that a sampler may ship (`SamplerLaw.check`): the author names the quantity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from harness import Sampler
from plugins.checking.law import LEVEL, Broken, State, loop, trajectory, two_sided
from plugins.checking.targets import Target

SHARE = 0.5
"""The share of the level of whole-law that the sampler's own law may spend; its simulations have the rest."""

OWN_LEVEL = SHARE * LEVEL
"""Chance that a correct sampler fails its own law: all p-values of that law share it, by Bonferroni."""


@dataclass(frozen=True)
class Snapshot:
    """Position (C, D) and state of all chains after a number of steps."""

    steps: int
    theta: Tensor
    state: State


def snapshots(
    sampler: Sampler, target: Target, h: float, *, steps: int, chains: int = 64, seed: int = 1
) -> list[Snapshot]:
    """Run the harness's own loop at a constant step size; return position and state at the end of each of its blocks.

    Raise `Broken` if a chain diverges.
    """
    running = loop(sampler, target.task, trajectory(np.full(steps, h), target.T), chains, seed)
    blocks = []
    while not running.finished:
        running.advance_block()
        blocks.append(Snapshot(running.position, running.theta, running.state))
    lost = running.runs[0].divergence
    if lost is not None:
        raise Broken(f"a chain goes to infinity at step {lost.step}, h = {h:g} ({target})")
    return blocks


def mean_is_one(
    name: str, history: list[Snapshot], quantity: Callable[[Snapshot], Tensor], burn_in: float = 0.2, *, among: int = 1
) -> None:
    """Test that the mean of a quantity (C, ...) over chains and snapshots is 1, by a t test over the chains.

    The first `burn_in` share of the snapshots is left out. `among` is the number of p-values of the whole law. Raise
    `Broken` if the mean differs.
    """
    kept = history[round(burn_in * len(history)) :]
    each: NDArray[np.float64] = np.stack(
        [quantity(one).double().reshape(len(one.theta), -1).mean(1).numpy() for one in kept]
    )
    chains = each.mean(0)
    error = float(chains.std(ddof=1)) / np.sqrt(len(chains))
    off = float(chains.mean()) - 1
    p = two_sided(abs(off), error, len(chains) - 1)
    if not p >= OWN_LEVEL / among:
        raise Broken(f"{name} should have mean 1, and has {1 + off:.4g} +- {error:.2g} (p = {p:.2g})")


__all__ = ["OWN_LEVEL", "Broken", "Snapshot", "Target", "mean_is_one", "snapshots"]
