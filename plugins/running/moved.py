"""The moved instance of a density: theta is rotated, reflected and shifted as the seed says (`run.moved`).

The sampler moves in y = Q theta + b, on U'(y) = U(Q'(y - b)). Its draws are turned back before anything observes or
stores them, so the truth, the metrics and the starting points keep the task's coordinates. b ~ N(0, SHIFT^2 I), and Q
is orthogonal, of the first of KINDS that the sampler's steps follow (`follows`):

rotation     uniformly distributed in up to DENSE dimensions, where a gradient costs two products with a matrix (D, D)
             more; with signs in more dimensions
signs        a permutation with signs, which samplers that scale each coordinate by itself follow, such as psgld
permutation  of the coordinates
shift        none: Q = I, for samplers that treat each coordinate in its own way
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from harness import Sampler, linear
from harness.tasks import Cost, Observer, Problem, Streams, Task

if TYPE_CHECKING:
    from harness import Potential, Trajectory

    Batch = dict[str, Tensor]

SHIFT = 10.0
"""Standard deviation of a coordinate of b."""

DENSE = 256
"""Most dimensions in which Q is a dense matrix."""

KINDS = ("rotation", "signs", "permutation", "shift")

STEPS = 3
SAME = 1e-9
"""Relative difference of two paths that differ by rounding only."""


class Moved(Problem):
    """The problem of one run, moved: y = Q theta + b; Q and b come from the stream "moved" of the run's seed."""

    def __init__(self, inner: Problem, streams: Sequence[Streams], dtype: torch.dtype, kind: str) -> None:
        self.inner, self.dim = inner, inner.dim
        self.block_limit, self.held_bytes = inner.block_limit, inner.held_bytes
        self.start = inner.initial().to(dtype)
        if len({s.seed for s in streams}) > 1:
            raise ValueError("runs of several seeds move differently, so each is a block of its own")
        generator = streams[0].numpy("moved", per_chain=False)

        def constant(array: Any) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(self.start.device)

        self.shift = constant(SHIFT * generator.standard_normal(self.dim)).to(dtype)
        self.Q: Tensor | None = None
        if kind == "rotation" and self.dim <= DENSE:
            matrix, triangle = np.linalg.qr(generator.standard_normal((self.dim, self.dim)))
            self.Q = constant(matrix * np.sign(np.diag(triangle))).to(dtype)
        else:
            order = np.arange(self.dim) if kind == "shift" else generator.permutation(self.dim)
            self.order, self.places = constant(order), constant(np.argsort(order))
            signs = generator.choice([-1.0, 1.0], self.dim) if kind in {"rotation", "signs"} else np.ones(self.dim)
            self.signs = constant(signs).to(dtype)

    def turned(self, x: Tensor) -> Tensor:
        """Return Q x for vectors along the last axis."""
        return x[..., self.order] * self.signs if self.Q is None else x @ self.Q.mT

    def moved(self, theta: Tensor) -> Tensor:
        """Return y = Q theta + b, (..., D)."""
        return self.turned(theta) + self.shift

    def original(self, theta: Tensor) -> Tensor:
        centred = theta - self.shift
        return (centred * self.signs)[..., self.places] if self.Q is None else centred @ self.Q

    def initial(self) -> Tensor:
        return self.moved(self.start)

    def draw_batches(self, steps: int) -> Batch:
        return self.inner.draw_batches(steps)

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        return self.inner.energy(self.original(theta), batch)

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        return self.turned(self.inner.gradient(self.original(theta), batch))

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        energy, gradient = self.inner.energy_and_gradient(self.original(theta), batch)
        return energy, self.turned(gradient)

    def scores(self, theta: Tensor, batch: Batch | None) -> Tensor:
        return self.turned(self.inner.scores(self.original(theta), batch))

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return Q D Q' and Q Gamma; a diagonal D stays one if Q is a permutation with signs."""
        D, divergence = self.inner.metric(self.original(theta))
        if D.ndim == 2 and self.Q is None:
            return D[..., self.order], self.turned(divergence)
        matrix = D.diag_embed() if D.ndim == 2 else D
        return self.turned(self.turned(matrix).mT), self.turned(divergence)

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        return self.inner.observer(rows, trajectory, cost)

    def state(self) -> dict[str, Tensor]:
        return self.inner.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.inner.load(state)


def moved(task: Task, samplers: Sequence[Sampler]) -> Task:
    """Return the task with moved problems, in a way that all the samplers of a run follow."""
    build, dtype = task.build, getattr(torch, task.dtype)
    kind = max(map(follows, samplers), key=KINDS.index)

    def build_moved(streams: Sequence[Streams], device: str) -> Problem:
        return Moved(build(streams, device), streams, dtype, kind)

    other = copy.copy(task)  # observers of inner problems ask their own task, in its coordinates
    object.__setattr__(other, "build", build_moved)
    return other


def follows(sampler: Sampler) -> str:
    """Return the first of KINDS that turns the steps if it turns the target, the positions and the noise.

    It is measured on a Gaussian in three dimensions. For samplers that need more than gradients it is "signs": their
    noise may go through a root of a matrix, and is turned in law only.
    """
    if sampler.needs - {"terms"}:
        return "signs"
    Q, _ = torch.linalg.qr(torch.from_numpy(np.random.default_rng(0).standard_normal((3, 3))))
    order = torch.eye(3, dtype=torch.float64)[[1, 2, 0]]
    turns = {"rotation": Q, "signs": order * Q.new_tensor([-1.0, 1.0, -1.0]), "permutation": order}
    return next((kind for kind, axes in turns.items() if _follows(sampler, axes)), "shift")


def _follows(sampler: Sampler, axes: Tensor) -> bool:
    """Return whether steps are turned by orthogonal `axes` (D, D), whatever uniforms mean (see `TurnedNoise`)."""
    generator = np.random.default_rng(1)
    theta, slope = torch.from_numpy(generator.standard_normal((2, 4, 3)))
    curvature = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)

    def path(turn: Tensor, *, mirrored: bool) -> Tensor:
        potential = linear.QuadraticPotential(curvature, slope @ turn.mT, turn)
        along = partial(torch.matmul, other=turn.mT)
        return path_of_turned_noise(sampler, potential, theta @ turn.mT, along, mirrored=mirrored)

    still = path(torch.eye(3, dtype=torch.float64), mirrored=True)
    gaps = [(path(axes, mirrored=mirrored) - still @ axes.mT).abs().max() for mirrored in (True, False)]
    return bool(min(gaps) < SAME * still.abs().max())


def path_of_turned_noise(
    sampler: Sampler,
    potential: Potential,
    theta: Tensor,
    turn: Callable[[Tensor], Tensor],
    *,
    h: float = 0.05,
    mirrored: bool = True,
) -> Tensor:
    """Return the positions (STEPS, C, D) from theta (C, D) with steps of size h at T = 1, and `TurnedNoise`."""
    noise, T, path = TurnedNoise(turn, _of_coordinates(sampler, theta.shape[1]), mirrored), theta.new_tensor(1.0), []
    size = theta.new_tensor(h)
    with torch.no_grad():
        state = sampler.init(theta, potential, size, T, noise)
        for _ in range(STEPS):
            theta, state = sampler.step(theta, dict(state), potential, size, T, noise)
            path.append(theta)
    return torch.stack(path)


def _of_coordinates(sampler: Sampler, dim: int) -> Iterator[bool]:
    """Yield for each request of noise, of `init` and then of steps, whether its last axis is that of the coordinates.

    In one more dimension that axis is longer.
    """
    lengths = []
    for D in (dim, dim + 1):
        theta, size = torch.ones((1, D), dtype=torch.float64), torch.tensor(0.05, dtype=torch.float64)
        potential, first, later = linear.QuadraticPotential(theta[0]), linear.ScriptedNoise(), linear.ScriptedNoise()
        state = sampler.init(theta, potential, size, torch.ones_like(size), first)
        sampler.step(theta, dict(state), potential, size, torch.ones_like(size), later)
        lengths.append([[tuple(slot.shape[-1:]) for slot in noise.slots] for noise in (first, later)])
    once, again = (
        [length == (dim,) and longer[k : k + 1] != [length] for k, length in enumerate(lasts)]
        for lasts, longer in zip(*lengths, strict=True)
    )
    return itertools.chain(once, itertools.cycle(again))


class TurnedNoise:
    """The same numbers each time, except that those of the coordinates, in the last axis, are turned.

    Uniforms are numbers for directions, u for one and 1 - u for the opposite one, if they are `mirrored`.
    """

    def __init__(self, turn: Callable[[Tensor], Tensor], of_coordinates: Iterator[bool], mirrored: bool) -> None:
        self.turn, self.of_coordinates, self.mirrored = turn, of_coordinates, mirrored
        self.generator = torch.Generator().manual_seed(0)

    def normal(self, like: Tensor) -> Tensor:
        """Return normals like `like`."""
        drawn = torch.randn(like.shape, generator=self.generator, dtype=like.dtype)
        return self.turn(drawn) if next(self.of_coordinates) else drawn

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Return uniforms."""
        drawn = torch.rand(tuple(shape), generator=self.generator, dtype=torch.float64)
        if not next(self.of_coordinates):
            return drawn
        return self.turn(drawn - 0.5) + 0.5 if self.mirrored else self.turn(drawn).abs()
