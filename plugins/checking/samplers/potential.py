"""Law 6: a step calls the potential where and as often as declared, and uses its answers."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from harness import Sampler
from harness.engine import CountingPotential, DirectNoise
from harness.tasks import Problem, Streams
from plugins.checking.gaussian import Batch, GaussianTask
from plugins.checking.law import Broken, Law, State, loop, same, trajectory, varying

CHAINS = 32
"""Enough chains that a Metropolis test does not reject the proposals of all of them."""

STEPS = 3
ERRORS = (1.0, 1e3, 1e6)
"""Errors of the gradient to which a step should respond; one that depends on chance may respond to large ones only."""


class IgnoresGradient(Broken):
    """A step that does not respond to the gradient: its draws are those of a baseline."""


class WatchedPotential(CountingPotential):
    """A counting potential that records the positions of the batch gradients."""

    def __init__(self, problem: Problem, terms: int, batch: Batch | None = None) -> None:
        super().__init__(problem, terms, batch)
        self.points: list[Tensor] = []

    def grad(self, x: Tensor) -> Tensor:
        """Return grad U (C, D) at x."""
        self.points.append(x.clone())
        return super().grad(x)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D) at x."""
        self.points.append(x.clone())
        return super().value_and_grad(x)


def check(sampler: Sampler) -> None:
    """Check counts, the first or last position, and the response to the current batch, at each of a few steps."""
    if sampler.gradient_at not in ("start", "end"):
        raise Broken(f"gradient_at is {sampler.gradient_at!r}, and should be 'start' or 'end'")
    task = GaussianTask(variance=1.0)
    running = loop(sampler, task, trajectory(varying(sampler, task, STEPS), 1.0), CHAINS)
    theta, state = running.theta, running.state
    generators = [Streams(3, c, ("conformance",)).torch("noise") for c in range(CHAINS)]
    slopes = running.problem.draw_batches(STEPS)["slope"]
    for k in range(STEPS):
        before = [g.get_state() for g in generators]
        moved = []
        for slope in (slopes[k], *(slopes[k] + error for error in ERRORS)):
            for generator, saved in zip(generators, before, strict=True):
                generator.set_state(saved)
            potential = WatchedPotential(running.problem, 1, {"slope": slope})
            noise = DirectNoise(generators, torch.float64)
            with torch.no_grad():
                moved.append(sampler.step(theta, dict(state), potential, running.stage.h[k], running.stage.T[k], noise))
            _check_calls(sampler, potential, theta, moved[-1][0], k + 1)
        if sampler.gradients_per_step and all(_alike(moved[0], other) for other in moved[1:]):
            raise IgnoresGradient(f"step {k + 1} ignores the gradient of the current batch")
        theta, state = moved[0]


def quotient(sampler: Sampler) -> float:
    """Return the smallest distance between two positions at which a step takes gradients; inf if it takes only one."""
    task = GaussianTask()
    problem = task.build([Streams(0, c, ("conformance",)) for c in range(CHAINS)], "cpu")
    potential, theta = WatchedPotential(problem, 1), problem.initial()
    noise = DirectNoise([Streams(3, c, ("conformance",)).torch("noise") for c in range(CHAINS)], torch.float64)
    h, T = (torch.tensor(x, dtype=torch.float64) for x in (float(varying(sampler, task, 1)[0]), 1.0))
    with torch.no_grad():
        state = sampler.init(theta, potential, h, T, noise)
        potential.points.clear()
        sampler.step(theta, dict(state), potential, h, T, noise)
    gaps = [(b - a).norm(dim=1).median().item() for a, b in itertools.combinations(potential.points, 2)]
    return min((gap for gap in gaps if gap), default=float("inf"))


def _alike(one: tuple[Tensor, State], other: tuple[Tensor, State]) -> bool:
    """Return whether position and state are equal bit for bit."""
    return same(one[0], other[0]) and all(same(leaf, other[1][name]) for name, leaf in one[1].items())


def _check_calls(sampler: Sampler, potential: WatchedPotential, theta: Tensor, moved: Tensor, step: int) -> None:
    declared = (sampler.gradients_per_step, sampler.full_gradients_per_step)
    counted = potential.take_counts()
    if counted != declared:
        raise Broken(
            f"step {step} makes {counted[0]} gradient calls and {counted[1]} on the full potential; "
            f"gradients_per_step and full_gradients_per_step declare {declared[0]} and {declared[1]}"
        )
    if not potential.points:
        return
    at_end = sampler.gradient_at == "end"
    which, asked, wanted = ("last", potential.points[-1], moved) if at_end else ("first", potential.points[0], theta)
    if not same(asked, wanted):
        where = "it returns" if at_end else "it was given"
        other = (
            ""
            if at_end
            else (
                "; one that keeps in its state the gradient at the position it returns declares gradient_at = 'end', "
                "and one with another reason exempt = {'potential': the reason}"
            )
        )
        gap = (asked - wanted).abs().max().item() if asked.shape == wanted.shape else float("inf")
        raise Broken(f"step {step} asks for its {which} gradient {gap:.2g} away from the position {where}{other}")


LAW = Law(
    6, "potential", check,
    "a gradient call that is not declared, a gradient kept from the step before, or one taken after the move",
)  # fmt: skip
