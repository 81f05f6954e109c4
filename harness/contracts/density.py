"""Tasks whose target is a density in closed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness.contracts.chain_sequence import ChainSequence
from harness.contracts.observers import MomentObserver
from harness.contracts.task import Cost, Observer, Outcome, Problem, Task, differentiate

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.contracts.randomness import Streams
    from harness.contracts.schedule import Trajectory

    Batch = dict[str, Tensor]

STRETCH = 1000
"""Number of steps whose gradient noise is drawn at once; another number changes the noise."""


@dataclass(frozen=True, kw_only=True)
class DensityTask(Task):
    """A density exp(-U(theta)): a subclass defines `dim`, `energy`, `protocols` and `metrics`, and `truth` if known.

    box             chains start uniformly on [-box, box]^D
    gradient_noise  sd of the noise that each step adds to grad U; the noise is normal unless `unit_noise` is overridden
    noise           a factor of `gradient_noise`. Declare it as a parameter (`harness.param`) to make it a setting
    noisy_terms     a noisy gradient costs 1/noisy_terms of a data pass, one of the full U, without noise, a whole one
    """

    box: ClassVar[float] = 3.0
    gradient_noise: ClassVar[float] = 0.0
    noise: ClassVar[float] = 1.0
    noisy_terms: ClassVar[int] = 100
    provides: ClassVar[frozenset[str]] = frozenset({"terms"})

    def energy(self, theta: Tensor) -> Tensor:
        """Return U (C,) at theta (C, D), each chain on its own: sum over the last axis, do not multiply matrices."""
        raise NotImplementedError(f"{type(self).__name__} has no energy")

    def grad(self, theta: Tensor) -> Tensor:
        """Return grad U (C, D), by automatic differentiation of `energy` unless overridden."""
        return differentiate(lambda x: (self.energy(x).sum(), x), theta)[0]

    def priced_terms(self) -> int:
        """Return N as a gradient is priced: `noisy_terms`, or 1 without noise."""
        return self.noisy_terms if self.noise * self.gradient_noise > 0 else 1

    def start(self, generator: torch.Generator) -> Tensor:
        """Return the starting point (D,) of a chain, drawn from its own generator and on that generator's device."""
        import torch

        uniform = torch.rand(self.dim(), generator=generator, dtype=torch.float64, device=generator.device)
        return self.box * (2 * uniform - 1)

    def unit_noise(self, generator: np.random.Generator, steps: int) -> NDArray[np.float64]:
        """Return the noise that `gradient_noise` scales, (steps, D): mean 0, variance about 1; normal by default."""
        return generator.standard_normal((steps, self.dim()))

    def observer(self, chains: int, trajectory: Trajectory, cost: Cost) -> Observer:
        """Return what turns the draws of a run into metrics: errors of moments against `truth` unless overridden."""
        return moment_observer(self, trajectory, cost)

    def build(self, streams: Sequence[Streams], device: str) -> DensityProblem:
        """Return the problem of `len(streams)` chains."""
        return DensityProblem(self, streams, device)


class DensityProblem(Problem):
    """U(theta) + <tilt, theta>, where each step draws a new tilt: noise times gradient_noise times `unit_noise`.

    The full U has no tilt.
    """

    def __init__(self, task: DensityTask, streams: Sequence[Streams], device: str) -> None:
        self.task = task
        self.dim = task.dim()
        self.streams = list(streams)
        self.device = device
        self.tilts: ChainSequence | None = None
        self.sd = task.noise * task.gradient_noise
        if self.sd > 0:
            self.tilts = ChainSequence([s.numpy("order") for s in streams], self._draw_tilts)

    def _draw_tilts(self, generator: np.random.Generator) -> Tensor:
        import torch

        return torch.from_numpy(self.sd * self.task.unit_noise(generator, STRETCH))

    def plain_energy(self, theta: Tensor) -> Tensor:
        """Return U (C,) without a tilt."""
        return self.task.energy(theta)

    def plain_gradient(self, theta: Tensor) -> Tensor:
        """Return grad U (C, D) without a tilt."""
        return self.task.grad(theta)

    def initial(self) -> Tensor:
        """Return `start` of each chain, (C, D)."""
        return starts(self.task, self.streams, self.device)

    def draw_batches(self, steps: int) -> Batch:
        """Return the tilts of the next steps, (steps, C, D)."""
        return {} if self.tilts is None else {"tilt": self.tilts.take(steps).to(self.device)}

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return U (C,), with the tilt if there is a batch."""
        value = self.plain_energy(theta)
        return value if not batch else value + (batch["tilt"] * theta).sum(1)

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return grad U (C, D), with the tilt if there is a batch."""
        gradient = self.plain_gradient(theta)
        return gradient if not batch else gradient + batch["tilt"]

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D)."""
        return self.energy(theta, batch), self.gradient(theta, batch)

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        """Return the task's observer."""
        return self.task.observer(rows.stop - rows.start, trajectory, cost)

    def state(self) -> dict[str, Tensor]:
        """Return the state of the sequence of tilts."""
        return {} if self.tilts is None else self.tilts.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        if self.tilts is not None:
            self.tilts.load(state)


def starts(task: Any, streams: Sequence[Streams], device: str) -> Tensor:
    """Return `task.start` of each chain, (C, D)."""
    import torch

    return torch.stack([task.start(s.torch("init", device)) for s in streams]).to(getattr(torch, task.dtype))


def moment_observer(task: Task, trajectory: Trajectory, cost: Cost) -> Observer:
    """Return an observer of errors of moments against the truth of a task; without a truth, it reports nothing."""
    truth = task.truth()
    return Unobserved() if truth is None else MomentObserver(truth, trajectory, cost)


class Unobserved(Observer):
    """An observer that reports nothing, for tasks without a truth.

    `bench truth` and `bench rescore` compute the metrics from the kept draws.
    """

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        """Do nothing."""

    def outcome(self) -> Outcome:
        """Return no metric and no curve."""
        return Outcome({})

    def state(self) -> dict[str, Tensor]:
        """Return an empty state."""
        return {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing."""
