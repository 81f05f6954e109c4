"""Law 17: a draw is a position of the chain, not an average of positions.

An average of k states has the right law as h -> 0, whatever k is, so no law of that limit detects it. At half of the
stability limit successive states of sgld on N(0, I) are independent, and the variance of an average of k of them is 1/k
of theirs. Where the chain is shown by its gradients: of a sampler whose draws are states, some gradient of each step is
taken at a position with the variance of the draws.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harness import Sampler
from harness.engine import DirectNoise
from harness.tasks import Problem, Streams
from plugins.checking.gaussian import Batch, GaussianTask
from plugins.checking.law import Broken, Law, State, all_finite, safe_x, same, streams
from plugins.checking.samplers.exact import is_metropolis
from plugins.checking.samplers.potential import WatchedPotential

DIM = 3
CHAINS = 64
BURN_IN, STEPS = 150, 150
SHARES = (0.5, 0.25, 0.05, 0.005)
"""h as a share of the stability limit; a share is tried only if the chains diverge at those before it."""

SPREAD = 1.6
"""Largest variance of the positions of the gradients over that of the draws. A position between two draws, as in
position Verlet, gives 1.33 at half of the stability limit; an average of two states of sgld gives 2."""

RESPONSE = 25
"""Steps within which gradients respond to a move of the draw."""


def check(sampler: Sampler) -> None:
    """Compare the variance of the draws with that of the positions at which each step takes its gradients.

    A sampler without a stationary law passes, and so does a Metropolis kernel, whose draws `real-loop` tests at a step
    size of this length.
    """
    if not sampler.limit_bias() or is_metropolis(sampler, _step_size(sampler, SHARES[0]), 1.0):
        return
    for share in SHARES:
        chain = Chain(sampler, _step_size(sampler, share))
        draws, points = chain.walk()
        if all_finite([draws, points]):
            break
    else:
        raise Broken(f"chains on N(0, I) diverge at {SHARES[-1]:g} of the stability limit, h = {float(chain.h):.2g}")
    if not points.numel():
        return
    ratio = float((points.var((0, 2, 3)) / draws.var()).min())
    if not ratio < SPREAD:
        raise Broken(
            f"on N(0, I) at h = {float(chain.h):.3g} the positions at which a step takes its gradients have "
            f"{ratio:.3g} times the variance of the draws: draws are averages, or shrunken; "
            "return the state of the chain as theta"
        )
    if not chain.responds():
        raise Broken(
            f"no gradient of the next {RESPONSE} steps responds to a move of theta: the chain is kept in the state, "
            "and the draws are functions of it; return the state of the chain as theta, and step from the theta given"
        )


def _step_size(sampler: Sampler, share: float) -> float:
    """Return h at curvature 1; a sampler without a known limit has that of sgld."""
    return safe_x(sampler, share, otherwise=2.0)


class Chain:
    """Chains of a sampler on N(0, I) at a step size."""

    def __init__(self, sampler: Sampler, h: float) -> None:
        self.sampler = sampler
        self.h, self.T = torch.tensor(h, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
        problem = GaussianTask(curvatures=(1.0,) * DIM).build(streams(CHAINS), "cpu")
        self.potential = Positions(problem, 1)
        self.generators = [Streams(0, c, ("draws",)).torch("noise") for c in range(CHAINS)]
        self.theta = problem.initial()
        self.taken = 0
        with torch.no_grad():
            self.state = sampler.init(self.theta, self.potential, self.h, self.T, self._noise())

    def walk(self) -> tuple[Tensor, Tensor]:
        """Return the draws (K, C, D) after the burn-in, and the positions of their gradients (K, n, C, D)."""
        draws, points = [], []
        for k in range(BURN_IN + STEPS):
            points.append(self._step())
            draws.append(self.theta)
            if k < BURN_IN:
                self.state = self.sampler.adapt(dict(self.state), self.h, self.T)
        return torch.stack(draws[BURN_IN:]), torch.stack(points[BURN_IN:])

    def responds(self) -> bool:
        """Return whether a gradient of the next steps is taken elsewhere if theta is moved."""
        before: tuple[Tensor, State, int] = (self.theta, self.state, self.taken)
        seeds = [g.get_state() for g in self.generators]
        still = [self._step() for _ in range(RESPONSE)]
        self.theta, self.state, self.taken = before[0] + 0.25, before[1], before[2]
        for generator, seed in zip(self.generators, seeds, strict=True):
            generator.set_state(seed)
        return not all(same(self._step(), points) for points in still)

    def _step(self) -> Tensor:
        """Take one step; return the positions (n, C, D) of its gradients."""
        every = self.sampler.refresh_every
        with torch.no_grad():
            if every and self.taken and self.taken % every == 0:
                self.state = self.sampler.refresh(self.theta, dict(self.state), self.potential)
            self.potential.points.clear()
            self.theta, self.state = self.sampler.step(
                self.theta, dict(self.state), self.potential, self.h, self.T, self._noise()
            )
        self.taken += 1
        points = self.potential.points
        return torch.stack(points) if points else self.theta.new_zeros((0, *self.theta.shape))

    def _noise(self) -> DirectNoise:
        return DirectNoise(self.generators, torch.float64)


class Positions(WatchedPotential):
    """A potential that also records the positions of gradients of the full potential."""

    def __init__(self, problem: Problem, terms: int, batch: Batch | None = None, points: Any = None) -> None:
        super().__init__(problem, terms, batch)
        self.points = self.points if points is None else points

    @property
    def full(self) -> Positions:
        """The full potential, whose gradients are recorded, too."""
        return Positions(self._problem, self.terms, None, self.points)


LAW = Law(
    17, "draws", check,
    "a running mean, a moving average of the last states, or a mean with another chain in place of a state",
    exemptible=False,
)  # fmt: skip
