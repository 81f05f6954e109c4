"""The moments of functions of theta by parallel tempering, which show whether independent chains have missed a mode.

Replicas at R rungs sample from exp(-U_b) with

    U_b(theta) = b U(theta) + (1 - b) U_0(theta),    1 = b_1 > ... > b_R = 0,

where exp(-U_0) is the prior of a posterior, or otherwise a normal wider than the starting points. Each makes HMC steps
of its own; then neighbours swap with probability min(1, exp((b_i - b_j)(V_i - V_j))), V = U - U_0, alternating between
the even pairs and the odd ones. The law of the first rung is exp(-U), exactly. During the burn-in the rungs are placed
so that all pairs of neighbours are rejected equally often.

Source: C. J. Geyer, "Markov chain Monte Carlo maximum likelihood", 1991; S. Syed, A. Bouchard-Cote, G. Deligiannidis,
A. Doucet, "Non-reversible parallel tempering", JRSS B 84, 2022 (alternating pairs, places of the rungs, round trips).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness import RunError
from harness.results import Send
from harness.tasks import DataTask, Problem, Streams, Task
from plugins.truths.reference import SEED, function_moments, on_all_data

LARGEST = 50
"""Most parameters of a task that is checked."""
LADDERS, RUNGS = 8, 16
LEAPFROG, JITTER, ACCEPTANCE = 16, 0.5, 0.8
STAGES = 6
"""Stages of the burn-in, whose lengths double; the rungs move after each but the last."""
FIRST_STEP = 0.1
"""The first leapfrog step; it adapts during the burn-in."""
WIDER = 2.0
"""Sd of exp(-U_0) over that of the starting points, if there is no prior."""


@dataclass
class Ladders:
    """LADDERS x RUNGS replicas, ladder by ladder: theta (C, D), V and U_0 (C,), and the gradients of both."""

    problem: Problem
    base: Callable[[Tensor], tuple[Tensor, Tensor]]
    theta: Tensor
    generator: torch.Generator
    betas: Tensor = field(default_factory=lambda: torch.linspace(1, 0, RUNGS, dtype=torch.float64) ** 3)
    turn: int = 0

    def __post_init__(self) -> None:
        self.log_step = self.theta.new_full((len(self.theta), 1), np.log(FIRST_STEP))
        self.at = self._evaluated(self.theta)
        self.adapted = 0
        self.visited = torch.zeros(LADDERS, RUNGS, dtype=torch.bool)  # at the last rung since it was at the first
        self.restart()

    def restart(self) -> None:
        """Count swaps and round trips from here."""
        self.tried, self.taken = torch.zeros(2, RUNGS - 1, dtype=torch.float64)
        self.accepted, self.steps, self.round_trips = torch.zeros(RUNGS, dtype=torch.float64), 0, 0

    def _evaluated(self, theta: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return U - U_0 and U_0 (C,), and their gradients."""
        base, slope = self.base(theta)
        energy, gradient = self.problem.energy_and_gradient(theta, None)
        return energy - base, base, gradient - slope, slope

    def _at_rungs(self, at: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return U_b (C,) and its gradient (C, D)."""
        b = self.betas.repeat(LADDERS)
        return b * at[0] + at[1], b[:, None] * at[2] + at[3]

    def _slope(self, theta: Tensor) -> Tensor:
        """Return the gradient of U_b (C, D)."""
        b = self.betas.repeat(LADDERS)[:, None]
        return b * self.problem.gradient(theta, None) + (1 - b) * self.base(theta)[1]

    def advance(self, *, adapting: bool) -> None:
        """Make an HMC step of every replica, then swaps."""
        new = {"generator": self.generator, "dtype": torch.float64}
        count = len(self.theta)
        jitter = 1 + JITTER * (2 * torch.rand(count, 1, **new) - 1)
        epsilon = self.log_step.exp() * jitter
        start = r = torch.randn(self.theta.shape, **new)
        before, gradient = self._at_rungs(self.at)
        r = r - epsilon / 2 * gradient
        x = self.theta + epsilon * r
        for _ in range(LEAPFROG - 1):
            r = r - epsilon * self._slope(x)
            x = x + epsilon * r
        at = self._evaluated(x)
        after, gradient = self._at_rungs(at)
        r = r - epsilon / 2 * gradient
        log_ratio = before - after + (start.square().sum(1) - r.square().sum(1)) / 2
        chance = log_ratio.nan_to_num(nan=-torch.inf).clamp(max=0).exp()
        moved = torch.rand(count, **new) < chance
        self.theta = x.where(moved[:, None], self.theta)
        self.at = tuple(a.where(moved if a.ndim == 1 else moved[:, None], b) for a, b in zip(at, self.at, strict=True))
        if adapting:
            self.adapted += 1
            self.log_step += (self.adapted + 10) ** -0.6 * (chance - ACCEPTANCE)[:, None]
        self.accepted += chance.view(LADDERS, RUNGS).mean(0)
        self.steps += 1
        self._swap()

    def _swap(self) -> None:
        cold = torch.arange(self.turn % 2, RUNGS - 1, 2)
        self.turn += 1
        height = self.at[0].view(LADDERS, RUNGS)
        log_ratio = (self.betas[cold] - self.betas[cold + 1]) * (height[:, cold] - height[:, cold + 1])
        chance = log_ratio.clamp(max=0).exp()
        swap = torch.rand(chance.shape, generator=self.generator, dtype=torch.float64) < chance
        self.tried[cold] += 1
        self.taken[cold] += chance.mean(0)
        rungs = torch.arange(RUNGS).repeat(LADDERS, 1)
        rungs[:, cold], rungs[:, cold + 1] = (
            torch.where(swap, cold + 1, cold), torch.where(swap, cold, cold + 1)
        )  # fmt: skip
        order = (rungs + RUNGS * torch.arange(LADDERS)[:, None]).flatten()
        self.theta = self.theta[order]
        self.at = tuple(part[order] for part in self.at)
        self.visited = self.visited.flatten()[order].view(LADDERS, RUNGS)
        self.visited[:, -1] = True
        self.round_trips += int(self.visited[:, 0].sum())
        self.visited[:, 0] = False

    def replace_rungs(self) -> None:
        """Place the rungs so that all pairs of neighbours are rejected equally often, by the rejections counted."""
        refused = (1 - self.taken / self.tried).clamp(min=1e-3).numpy()
        barrier = np.concatenate([[0.0], refused.cumsum()])
        wanted = np.linspace(0, barrier[-1], RUNGS)
        self.betas = torch.from_numpy(np.interp(wanted, barrier, self.betas.numpy()))

    @property
    def first(self) -> Tensor:
        """theta (LADDERS, D) of the first rung of each ladder."""
        return self.theta.view(LADDERS, RUNGS, -1)[:, 0]


def tempered_functions(task: Task, draws: int, send: Send) -> dict[str, Any]:
    """Return the moments of the task's functions by `draws` draws of each ladder, with swaps and round trips.

    Raise `RunError` if a function is not finite at some draws.
    """
    begun, burn_in = time.process_time(), max(draws // 2, 2**STAGES)
    torch.set_num_threads(1)
    send("say", {"text": f"{LADDERS} ladders of {RUNGS} rungs, {burn_in} + {draws} draws"})
    streams = [Streams(SEED, c, ("tempering",)) for c in range(LADDERS * RUNGS)]
    problem = on_all_data(task).build(streams, "cpu")
    theta = problem.initial().double()
    ladders = Ladders(problem, base_of(task, theta), theta, torch.Generator().manual_seed(SEED))
    ends = {burn_in * 2**stage // 2**STAGES for stage in range(1, STAGES)}
    for step in range(1, burn_in + 1):
        ladders.advance(adapting=True)
        if step in ends:
            ladders.replace_rungs()
            ladders.restart()
    ladders.restart()
    functions = []
    for _ in range(draws):
        ladders.advance(adapting=False)
        with torch.no_grad():
            functions.append(task.functions(ladders.first).double().numpy())
    values = np.stack(functions)
    if not np.isfinite(values).all():
        raise RunError(
            f"{type(task).__name__}: its functions are not finite at some tempered draws; nothing was stored"
        )
    return {
        "ladders": LADDERS, "rungs": RUNGS, "draws": draws, "burn_in": burn_in,
        "betas": [float(f"{b:.4g}") for b in ladders.betas],
        "swap_acceptance": [float(f"{share:.3g}") for share in ladders.taken / ladders.tried],
        "acceptance": [float(f"{share:.3g}") for share in ladders.accepted / ladders.steps],
        "round_trips": ladders.round_trips,
        "seconds": time.process_time() - begun,
        **function_moments(values),
    }  # fmt: skip


def base_of(task: Task, starts: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Return the function that computes U_0 (C,) and its gradient (C, D)."""
    if isinstance(task, DataTask):
        return lambda theta: (-task.log_prior(theta), task.prior_gradient(theta))
    centre, sd = starts.mean(0), WIDER * starts.std(0).clamp(min=1e-3)
    return lambda theta: (((theta - centre) / sd).square().sum(1) / 2, (theta - centre) / sd**2)
