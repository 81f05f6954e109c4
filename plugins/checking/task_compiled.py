"""The law for compiled steps: they give the same U and grad U of a task as plain steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from harness import Noise, Potential, Sampler
from harness.engine import Loop
from harness.tasks import Task
from plugins.checking.law import distance, in_batches, in_both_modes, streams, trajectory

CHAINS = 3
STEPS = 5


@dataclass(frozen=True, kw_only=True)
class _Probe(Sampler):
    """A small step down the mean of the batch gradient and the full gradient; the state is U on the batch."""

    full_gradients_per_step: ClassVar[int] = 1

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"energy": theta.new_zeros(len(theta))}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        energy, gradient = potential.value_and_grad(theta)
        return theta - h * (gradient + potential.full.grad(theta)) / 2, {"energy": energy}


def law_compiled_is_plain(task: Task) -> None:
    """A few steps end at the same position, with the same U, in both modes up to rounding."""
    task = in_batches(task)
    problem = task.build(streams(CHAINS), "cpu")
    steepest = float(problem.gradient(problem.initial(), None).abs().max())
    path = trajectory([0.01 / max(1.0, steepest)] * STEPS, 1.0)
    plain, other = in_both_modes(lambda mode: Loop(task, _Probe(), path, streams(CHAINS), CHAINS, mode=mode))
    gap = max(distance(other.theta, plain.theta), distance(other.state["energy"], plain.state["energy"]))
    limit = 1000 * torch.finfo(plain.theta.dtype).eps
    assert gap < limit, (
        f"compiled, {STEPS} steps end {gap:.3g} of their size away from the plain ones (limit {limit:.1g}); usual "
        "causes: a branch of `torch.compiler.is_compiling()` that computes something else, a buffer written in place"
    )
