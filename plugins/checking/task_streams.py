"""The law for the streams of a task: the start and the batches of a chain depend on its own seed and number only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness import Streams
from plugins.checking.law import in_batches

if TYPE_CHECKING:
    from torch import Tensor

    from harness import Task

CHAINS = (0, 1, 2, 3)
ALONE = 2


def law_chains_have_their_own_streams(task: Task) -> None:
    """Starts and batches of a chain are the same alone and among others, and differ from other chains and seeds."""
    import torch

    task = in_batches(task)
    cases = (CHAINS, 0), ((ALONE,), 0), ((ALONE,), 1)
    together, alone, other = (_starts_and_batches(task, chains, seed) for chains, seed in cases)
    for name, leaf in together.items():
        assert torch.equal(leaf[ALONE], alone[name][0]), (
            f"{name}: chain {ALONE} of {len(CHAINS)} meets another one than alone; usual causes: one generator for "
            "all chains, drawn chain after chain, or rows of another chain"
        )
        assert not torch.equal(leaf[ALONE], other[name][0]), (
            f"{name}: seeds 0 and 1 meet the same one; usual cause: a generator with a seed of its own"
        )
        twins = [c for c in CHAINS if c != ALONE and torch.equal(leaf[c], leaf[ALONE])]
        assert not twins, (
            f"{name}: chains {twins[0]} and {ALONE} meet the same one; usual cause: `streams[0]` for every chain"
        )


def _starts_and_batches(task: Task, chains: Sequence[int], seed: int) -> dict[str, Tensor]:
    """Return the starts (C, D), and the batches of more than an epoch with the chains as their leading axis."""
    problem = task.build([Streams(seed, chain, ("laws",)) for chain in chains], "cpu")
    batches = problem.draw_batches(task.steps_per_epoch() + 2)
    return {"start": problem.initial()} | {f"batch {name}": leaf.transpose(0, 1) for name, leaf in batches.items()}
