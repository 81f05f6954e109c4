"""Fixed targets of the joint error, and the share of them that a method reaches by a cost, over seeds and tasks.

The error of a seed after a cost c, burn-in included, is the mean over its chains of b2, each chain in its own worst
direction; it is at least the seed's joint error. A target e is reached at the cost from which on the error stays below:

    E(c) = max over f in {z, z^2} of mean over chains of b2_f(c)
    tau(e) = min {c : E(c') <= e for all c' >= c},  inf if E is above e at the end

Costs are shares of the budget, which all methods of a task have in common. Each task weighs the same, and so does each
seed of a task. The curve and the area under it, on the logarithmic scale from `LEAST` of the budget to all of it, are

    share(c) = mean over tasks, seeds and targets of 1[tau <= c]
    area = mean over tasks, seeds and targets of log(1 / tau) / log(1 / LEAST), within [0, 1]

So LEAST^(a - b) for two areas a and b is the ratio of the geometric means of costs, in which a target that was not
reached costs the whole budget. Source of fixed targets: N. Hansen et al., "COCO: A platform for comparing continuous
optimizers in a black-box setting", Optimization Methods and Software 2021; there a target counts at its first hit, but
the error of running averages may rise again.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from harness import diagnostics, statistics
from harness.reports import Group
from reports.across import TaskField
from reports.figures.parts import Array

FILE = Path(__file__).with_name("targets.toml")
CURVES = ("joint_b2_z_max", "joint_b2_z2_max")
"""The curves of errors of single chains: of averages of z and of z^2, in the worst direction."""
LEAST = 1e-3
"""The share of the budget at which the area begins: what is reached earlier counts as reached there."""
RESAMPLES = 1000


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets of the joint error (K,), the greatest first, and the version of the file that lists them."""

    version: int
    errors: Array


@dataclass(frozen=True)
class WithInterval:
    """A statistic with the ends of its bootstrap interval, at 95 % unless asked; None for one seed of one task."""

    value: float
    low: float | None
    high: float | None


def load_targets(file: Path = FILE) -> Targets:
    """Return the targets of a file. Raises ValueError unless they are positive and decrease."""
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    errors = np.array(document["errors"], dtype=np.float64)
    if not errors.size or not (errors > 0).all() or not (np.diff(errors) < 0).all():
        raise ValueError(f"{file}: the targets must be positive and decrease")
    return Targets(int(document["version"]), errors)


def costs_to_targets(errors: ArrayLike, cost: ArrayLike, targets: ArrayLike) -> Array:
    """Return the cost (S, K) from which on each of S curves of errors (S, n) stays at or below each of K targets.

    cost: (n,), increasing. inf where a curve ends above a target; NaN in a curve counts as above.
    """
    curves, axis, levels = (np.asarray(a, dtype=np.float64) for a in (errors, cost, targets))
    return np.array([[diagnostics.last_crossing(curve, axis, level) for level in levels] for curve in curves])


def seed_errors(rows: Sequence[Array], seeds: ArrayLike) -> Array:
    """Return the error E (S, n) of each seed, from the curves (R, n) of its chains for z and z^2, as rows by seed."""
    chains = [np.where(np.isnan(curve), np.inf, curve) for curve in rows]
    numbers = np.asarray(seeds)
    return np.stack([
        np.max([curve[numbers == seed].mean(axis=0) for curve in chains], axis=0) for seed in np.unique(numbers)
    ])  # fmt: skip


def method_costs(field: TaskField, group: Group, targets: Targets) -> Array | None:
    """Return the costs (S, K), as shares of the budget, at which a row of a task's field reaches the targets.

    A seed that diverged reaches none. None if a finished run has no curves of errors.
    """
    if not group.done:
        return np.full((len(group.runs), len(targets.errors)), np.inf)
    curves = [curve for name in CURVES if (curve := field.score.curve(group, name)) is not None]
    if len(curves) < len(CURVES) or not field.passes:
        return None
    seeds, (passes, _) = curves[0]
    errors = seed_errors([y for _, (_, y) in curves], seeds)
    return costs_to_targets(errors, np.minimum(passes / field.passes, 1.0), targets.errors)


def share_reached(costs: Sequence[Array], at: ArrayLike) -> Array:
    """Return the share of targets reached (P,) by each of P costs, from the costs (S, K) to the targets of each task.

    It is the height of the fixed-target curve: at=np.geomspace(LEAST, 1) draws it.
    """
    points = np.asarray(at, dtype=np.float64)
    return np.mean([(task[..., None] <= points).mean(axis=(0, 1)) for task in costs], axis=0)


def area(costs: Sequence[Array]) -> WithInterval:
    """Return the area under the fixed-target curve, from the costs (S, K) of each task, with its interval.

    The bootstrap resamples the tasks, and within each the seeds, with all targets of a seed together.
    """
    value, half = _area(costs), _half(_replicates(costs), costs, 0.95)
    return (
        WithInterval(value, None, None)
        if half is None
        else WithInterval(value, max(value - half, 0.0), min(value + half, 1.0))
    )


def speed_up(costs: Sequence[Array], baseline: Sequence[Array], level: float = 0.95) -> WithInterval:
    """Return how many times less a method costs than the baseline on the same tasks, as a geometric mean over targets.

    Both have costs (S, K) for each task. A target that was not reached costs the whole budget, so where only the method
    reaches it the factor is a lower bound. The bootstrap is paired: both have the same resampled tasks and,
    on a task where they have equally many, seeds.
    """
    difference = _area(costs) - _area(baseline)
    half = _half(_replicates(costs) - _replicates(baseline), costs, level)
    if half is None:
        return WithInterval(LEAST**-difference, None, None)
    low, high = (LEAST ** -min(max(end, -1.0), 1.0) for end in (difference - half, difference + half))
    return WithInterval(LEAST**-difference, low, high)  # of two areas within [0, 1]


def _seed_areas(task: Array) -> Array:
    """Return the area (S,) of each seed of a task."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log(task) / math.log(LEAST), 0.0, 1.0).mean(axis=1)


def _area(costs: Sequence[Array]) -> float:
    return float(np.mean([_seed_areas(task).mean() for task in costs]))


def _replicates(costs: Sequence[Array]) -> Array:
    """Return areas (RESAMPLES,) over resampled tasks and seeds, the same ones for as many tasks and seeds."""
    generator = np.random.default_rng(0)
    tasks = len(costs)
    chosen = generator.multinomial(tasks, np.full(tasks, 1 / tasks), size=RESAMPLES) / tasks
    means = np.empty((RESAMPLES, tasks))
    for k, task in enumerate(costs):
        seeds, generator = len(task), np.random.default_rng([0, k])
        means[:, k] = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES) @ _seed_areas(task)
        means[:, k] /= seeds
    return np.asarray((chosen * means).sum(axis=1))


def _half(replicates: Array, costs: Sequence[Array], level: float) -> float | None:
    """Return t sd sqrt(n / (n - 1)) of the replicates, with n tasks or, of one task, n seeds; None for n = 1."""
    n = len(costs) if len(costs) > 1 else len(costs[0])
    return statistics.t_multiplier(n - 1, level) * float(replicates.std()) * math.sqrt(n / (n - 1)) if n > 1 else None
