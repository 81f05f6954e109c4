"""Law 5: at T = 0 a sampler is the optimiser that it declares, and draws no noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from harness import Sampler, UsageError, linear
from harness.engine import BoundPotential
from plugins.checking.gaussian import Batch, GaussianProblem, GaussianTask
from plugins.checking.law import (
    Array,
    Broken,
    Law,
    Skip,
    all_finite,
    distance,
    path_of,
    roundings,
    streams,
    trajectory,
    varying,
)

Memory = dict[str, Tensor]
Rule = Callable[[Any, Tensor, Memory, Tensor, Tensor], tuple[Tensor, Memory]]

CHAINS = 4
STEPS = 120
SPREADS = (1.0, 2.0**60)
"""Where chains start, in units of 1 / lambda: the second is about 1e9 away, beyond any box or clip."""

OTHERS = (
    "of the gradients of a step the optimiser is given that at theta alone; where another place has a part in the step "
    "at T = 0, declare zero_temperature = None"
)

COLD = 1e-20
"""T for a sampler that refuses T = 0: whatever T adds to a drift is lost in rounding."""


def sgd(_: Any, theta: Tensor, memory: Memory, g: Tensor, h: Tensor) -> tuple[Tensor, Memory]:
    """theta <- theta - h g."""
    return theta - h * g, memory


def heavy_ball(sampler: Any, theta: Tensor, memory: Memory, g: Tensor, h: Tensor) -> tuple[Tensor, Memory]:
    """v <- (1 - friction) v - h g; theta <- theta + v."""
    v = (1 - sampler.friction) * memory.get("v", 0 * g) - h * g
    return theta + v, {"v": v}


def lagged_momentum(sampler: Any, theta: Tensor, memory: Memory, g: Tensor, h: Tensor) -> tuple[Tensor, Memory]:
    """theta <- theta - h (g + a m); m <- beta1 m + (1 - beta1) g."""
    m = memory.get("m", 0 * g)
    return theta - h * (g + sampler.a * m), {"m": sampler.beta1 * m + (1 - sampler.beta1) * g}


def rmsprop(sampler: Any, theta: Tensor, memory: Memory, g: Tensor, h: Tensor) -> tuple[Tensor, Memory]:
    """V <- decay V + (1 - decay) g^2 from g^2; theta <- theta - h g / (lam + sqrt(V))."""
    V = sampler.decay * memory.get("V", g * g) + (1 - sampler.decay) * g * g
    return theta - h * g / (sampler.lam + V.sqrt()), {"V": V}


def adam(sampler: Any, theta: Tensor, memory: Memory, g: Tensor, h: Tensor) -> tuple[Tensor, Memory]:
    """theta <- theta - h m^ / (sqrt(V^) + lam), both means corrected for their start at 0."""
    t = memory.get("t", torch.zeros((), dtype=g.dtype)) + 1
    m = sampler.beta1 * memory.get("m", 0 * g) + (1 - sampler.beta1) * g
    V = sampler.beta2 * memory.get("V", 0 * g) + (1 - sampler.beta2) * g * g
    moved = theta - h * (m / (1 - sampler.beta1**t)) / ((V / (1 - sampler.beta2**t)).sqrt() + sampler.lam)
    return moved, {"t": t, "m": m, "V": V}


OPTIMISERS: dict[str, Rule] = {
    "sgd": sgd, "heavy-ball": heavy_ball, "lagged-momentum": lagged_momentum, "rmsprop": rmsprop, "adam": adam,
}  # fmt: skip


def check(sampler: Sampler) -> None:
    """Compare the path at T = 0, under varying step sizes and stochastic gradients, with the declared rule.

    Gradients are exact if a sampler does not step by the gradient of its batch at theta (by its exemption from the law
    potential, or `gradient_at`), because the rule is given no other. If the sampler needs a metric, the rule is given
    D g, the gradient in that metric.
    """
    _is_finite(sampler)
    if sampler.zero_temperature is None:
        _is_not_sgd(sampler)
        raise Skip("declares no optimiser for T = 0: zero_temperature is None")
    name, rule = rule_of(sampler)
    exact = "potential" in sampler.exempt or sampler.gradient_at == "end"
    for spread in SPREADS:
        _same_path(sampler, name, rule, GaussianTask(variance=0.0 if exact else 0.5 * spread, spread=spread))


def _is_finite(sampler: Sampler) -> None:
    """Check that steps at T = 0 are finite where those just above it are: a division by T has no place there."""
    task = GaussianTask()
    h, problem = varying(sampler, task, STEPS), task.build(streams(CHAINS), "cpu")
    if _refuses(sampler, h):
        return
    cold, warm = (
        _silent(sampler, problem, problem.initial(), h, [None] * STEPS, heat).isfinite().all(-1).all(-1).tolist()
        for heat in (0.0, COLD)
    )
    if all(warm) and not all(cold):
        raise Broken(
            f"at T = 0 step {cold.index(False) + 1} is not finite, at T = {COLD:g} it is; a sampler that has no T = 0 "
            "declares zero_temperature = None and refuses it: "
            "def check_steps(self, h, T): raise UsageError(...) if min(T) <= 0",
            "a division by T, or by noise, which is 0 at T = 0",
        )


def _same_path(sampler: Sampler, name: str, rule: Rule, task: GaussianTask) -> None:
    h = varying(sampler, task, STEPS)
    problem = task.build(streams(CHAINS), "cpu")
    theta, batches = problem.initial(), problem.batches(STEPS)
    refuses = _refuses(sampler, h)
    far = task.spread > 1
    if refuses or far:
        positions = _silent(sampler, problem, theta, h, batches, COLD if refuses else 0.0)
    else:
        positions = path_of(sampler, task, trajectory(h, 0.0), CHAINS)
    for k, expected in enumerate(declared_path(sampler, rule, problem, theta, h, batches)):
        if far and not all_finite([expected]):
            break  # the declared optimiser itself diverges from this far away
        gap = distance(positions[k], expected)
        if not gap < 1e-12:
            where = f", started about {task.spread**0.5:.1g} away from the mode," if far else ""
            clips = "; a step that clips by design declares zero_temperature = None" if far else ""
            others = f"; {OTHERS}" if sampler.gradients_per_step > 1 and not far else ""
            off = f"at T = 0{where} step {k + 1} differs from {name!r} by {gap:.2g} (relative){clips}{others}"
            raise Broken(off, roundings=roundings(gap, size=task.spread**0.5))


def declared_path(
    sampler: Sampler, rule: Rule, problem: GaussianProblem, theta: Tensor, h: Array, batches: Sequence[Batch | None]
) -> Iterator[Tensor]:
    """Yield the positions of the declared optimiser after each step from theta."""
    memory: Memory = {}
    for size, batch in zip(torch.from_numpy(h), batches, strict=True):
        g = problem.gradient(theta, batch)
        if "metric" in sampler.needs:
            g = (problem.metric(theta)[0] @ g[:, :, None])[:, :, 0]
        theta, memory = rule(sampler, theta, memory, g, size)
        yield theta


def _is_not_sgd(sampler: Sampler) -> None:
    """Check that a sampler that declares no optimiser is not stochastic gradient descent with a share of h.

    One that clips is not: far from the mode its step is another.
    """
    shares = [_share_of_sgd(sampler, GaussianTask(spread=spread)) for spread in SPREADS]
    if all(shares):
        raise Broken(
            f"zero_temperature is None, and at T = 0 a step is that of sgd with {shares[0]:.6g} times the step size; "
            "declare 'sgd', or a function that is the optimiser"
        )


def _share_of_sgd(sampler: Sampler, task: GaussianTask) -> float:
    """Return the share of h with which two steps at T = 0 are those of sgd, or 0 if they are not."""
    h = varying(sampler, task, 2)
    if _refuses(sampler, h):
        return 0.0
    start = task.build(streams(CHAINS), "cpu").initial()
    try:
        first, second = path_of(sampler, task, trajectory(h, 0.0), CHAINS)
    except Broken:  # sgd is stable here from any distance
        if task.spread > 1:
            return 0.0
        raise
    curvature = torch.tensor(task.curvatures, dtype=torch.float64)
    share = float(((1 - first / start) / (h[0] * curvature)).mean())
    sgd = [x - share * h[k] * curvature * x for k, x in enumerate((start, first))]
    return share if max(distance(first, sgd[0]), distance(second, sgd[1])) < 1e-12 else 0.0


def _refuses(sampler: Sampler, h: Array) -> bool:
    """Return whether the sampler refuses T = 0."""
    try:
        sampler.check_steps(h.tolist(), [0.0] * len(h))
    except UsageError:
        return True
    return False


def _silent(
    sampler: Sampler, problem: GaussianProblem, theta: Tensor, h: Array, batches: Sequence[Batch | None], heat: float
) -> Tensor:
    """Return the positions at a temperature of 0, or close to it, with all normals 0 and all uniforms 1/2."""
    T, state, positions = torch.tensor(heat, dtype=torch.float64), None, []
    for size, batch in zip(torch.from_numpy(h), batches, strict=True):
        potential = BoundPotential(problem, 1, batch)
        with torch.no_grad():
            if state is None:
                state = sampler.init(theta, potential, size, T, linear.ScriptedNoise())
            theta, state = sampler.step(theta, state, potential, size, T, linear.ScriptedNoise())
        positions.append(theta)
    return torch.stack(positions)


def rule_of(sampler: Sampler) -> tuple[str, Rule]:
    """Return the declared optimiser: one of OPTIMISERS, or the author's own function."""
    declared = type(sampler).zero_temperature
    if callable(declared):
        return declared.__name__, declared
    if declared not in OPTIMISERS:
        raise Broken(
            f"zero_temperature = {declared!r} is neither a function nor one of {', '.join(sorted(OPTIMISERS))}"
        )
    return declared, OPTIMISERS[declared]


LAW = Law(
    5, "zero-temperature", check,
    "the gradient of another step or point, the step size scaled or of another step, a sign, the order of the "
    "updates, or noise that does not vanish with T",
)  # fmt: skip
