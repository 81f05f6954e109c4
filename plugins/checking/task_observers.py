"""The laws for the observers of a task: the division into blocks does not matter, and weights count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.tasks import Cost, Observer, Outcome, Task
from plugins.checking.law import CHAINS, Skip, built, trajectory


def law_blocks_do_not_matter(task: Task) -> None:
    """An observer gives the same result for weighted draws in one block, one by one, and in blocks with restarts."""
    draws, weights, steps = _draws(task)
    pieces = {
        "one block": [len(draws)],
        "one draw at a time": [1] * len(draws),
        "uneven blocks": [7, 1, 150, len(draws) - 158],
    }
    whole, *others = (_observed(task, draws, weights, steps, sizes) for sizes in pieces.values())
    for outcome, name in zip(others, list(pieces)[1:], strict=True):
        difference = _difference(whole, outcome)
        assert difference is None, (
            f"observed in {name}, {difference}; usual causes: something kept a block that is meant a draw, a count "
            "that starts again with each block"
        )
    resumed = _observed(task, draws, weights, steps, pieces["uneven blocks"], restart=True)
    difference = _difference(others[1], resumed, rtol=0.0)
    assert difference is None, f"after state and load, {difference}; usual cause: a field that `state` leaves out"


def law_weights_count(task: Task) -> None:
    """An observer gives another result if draws have unequal weights, and the same if all weights are tripled."""
    draws, weights, steps = _draws(task)
    size = [len(draws)]
    weighted, tripled, equal = (_observed(task, draws, w, steps, size) for w in (weights, 3 * weights, weights**0))
    if not weighted.metrics and not weighted.curves:
        raise Skip("without a truth nothing is measured; `bench truth` computes one")
    assert _difference(equal, weighted) is not None, (
        "no metric and no curve changes where draws weigh unequally; usual cause: `weights` left aside in `observe`"
    )
    difference = _difference(weighted, tripled)
    assert difference is None, f"with all weights tripled, {difference}; usual cause: a sum not divided by the weights"


def _draws(task: Task) -> tuple[Tensor, Tensor, NDArray[np.int64]]:
    """Return draws (400, C, D) around the starting points, unequal weights (400, C), and steps with gaps."""
    start = built(task).initial()
    generator = torch.Generator().manual_seed(0)
    moves = torch.randn((400, *start.shape), generator=generator, dtype=start.dtype)
    weights = torch.randn((400, len(start)), generator=generator, dtype=start.dtype).exp()
    return start + 0.5 * moves, weights, 2 * np.arange(400) + 21


def _observed(
    task: Task,
    draws: Tensor,
    weights: Tensor,
    steps: NDArray[np.int64],
    sizes: Sequence[int],
    *,
    restart: bool = False,
) -> Outcome:
    observer = _observer(task, steps)
    start = 0
    for size in sizes:
        block = slice(start, start + size)
        observer.observe(draws[block], weights[block], steps[block])
        start += size
        if restart:
            saved = {name: leaf.clone() for name, leaf in observer.state().items()}
            observer = _observer(task, steps)
            observer.load(saved)
    return observer.outcome()


def _observer(task: Task, steps: NDArray[np.int64]) -> Observer:
    total = int(steps[-1])
    keep = np.zeros(total, dtype=bool)
    keep[steps - 1] = True
    path = trajectory(np.full(total, 1e-3), 1.0, 20, keep)
    return built(task).observer(slice(0, CHAINS), path, Cost(0.0, 1.0))


def _difference(a: Outcome, b: Outcome, rtol: float = 1e-8) -> str | None:
    """Return the first difference between two outcomes, in words, or None."""
    if a.metrics.keys() != b.metrics.keys() or a.curves.keys() != b.curves.keys():
        return "there are other metrics or curves"
    for name, value in a.metrics.items():
        other = b.metrics[name]
        if (value is None) != (other is None) or not np.isclose(value or 0, other or 0, rtol=rtol, atol=rtol):
            return f"metric {name} is {other}, not {value}"
    for name, (x, y) in a.curves.items():
        for axis, left, right in (("x", x, b.curves[name][0]), ("y", y, b.curves[name][1])):
            if not np.allclose(left, right, rtol=rtol, atol=rtol, equal_nan=True):
                return f"the {axis} of curve {name} differs by {np.nanmax(np.abs(left - right)):.3g}"
    return None
