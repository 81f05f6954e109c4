"""Published orderings of samplers, and the verdicts of our runs on them; `orderings.toml` has the data."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.reports import Comparison, Group, Request, judge
from harness.tasks import DensityTask, Streams
from reports.across import TaskField
from reports.figures.parts import task_of, trajectory

FILE = Path(__file__).with_name("orderings.toml")
VERDICTS = HOLDS, FAILS, UNDECIDED, REFUSED, NOT_RUN = (
    "holds at our settings", "fails at our settings", "undecided", "refused", "not run",
)  # fmt: skip
UNTESTED = (REFUSED, NOT_RUN)
LEAST_NOISE = 0.1
"""Share of the gradient noise in the injected noise, from which on an ordering about noise is judged."""
PRODUCT = ("better", "worse", "tasks")
_UNTESTED = Comparison("", 1, "", "min", None, p=1.0)


@dataclass(frozen=True)
class Ordering:
    """A paper's statement that one method is better than another on a task. An empty `metric` means the ranking one.

    about_noise  whether it is about gradient noise; it is refused where the worse row has hardly any
    """

    statement: str
    citation: str
    better: str
    worse: str
    task: str
    metric: str = ""
    notes: str = ""
    about_noise: bool = False


@dataclass(frozen=True)
class JudgedOrdering:
    """An ordering beside our runs.

    `comparison` is A = better against B = worse, or None if one of them was not run. `reason` says why there is no
    verdict.
    """

    ordering: Ordering
    metric: str
    comparison: Comparison | None
    verdict: str
    reason: str


def load_orderings(file: Path = FILE) -> list[Ordering]:
    """Return all orderings of a file, one for each task and pair."""
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    return [
        Ordering(better=better, worse=worse, task=task, **{n: v for n, v in one.items() if n not in PRODUCT})
        for one in document["ordering"]
        for better, worse, task in itertools.product(*(one[name] for name in PRODUCT))
    ]


def judge_orderings(
    orderings: Sequence[Ordering], fields: Sequence[TaskField], request: Request
) -> list[JudgedOrdering]:
    """Return the verdicts, paired by seed. Holm's family is all orderings: one that was not tested counts as p = 1.

    Every row has tuned or default settings of ours, so an ordering holds or fails "at our settings" (RULES.md 5).
    """
    by_task = {field.task: field for field in fields}
    compared = [_compared(one, by_task.get(one.task), request) for one in orderings]
    tested = [one.comparison or _UNTESTED for one in compared]
    judged = judge([c if c.p is not None else _UNTESTED for c in tested])
    return [_verdict(one, after) for one, after in zip(compared, judged, strict=True)]


def _compared(one: Ordering, field: TaskField | None, request: Request) -> JudgedOrdering:
    """Return an ordering with its comparison, still undecided, or with the reason why there is none."""
    if field is None:
        return JudgedOrdering(one, one.metric, None, NOT_RUN, f"no field of {one.task} with two methods")
    metric = one.metric or field.metric
    if absent := [name for name in (one.better, one.worse) if name not in field.rows]:
        reason = "; ".join(f"{name}: {field.missing.get(name, 'no runs')}" for name in absent)
        return JudgedOrdering(one, metric, None, NOT_RUN, reason)
    share = noise_share(field.rows[one.worse], request) if one.about_noise else LEAST_NOISE
    if share < LEAST_NOISE:
        reason = f"gradient noise of {one.worse} is {share:.2g} of the injected noise, below {LEAST_NOISE:g}"
        return JudgedOrdering(one, metric, None, REFUSED, reason)
    compared = field.score.compare(field.rows[one.better], field.rows[one.worse], metric)
    verdict = UNDECIDED if compared else NOT_RUN
    return JudgedOrdering(one, metric, compared, verdict, "" if compared else f"no values of {metric}")


def _verdict(one: JudgedOrdering, after: Comparison) -> JudgedOrdering:
    if one.comparison is None:
        return one
    if one.comparison.p is None:
        return replace(one, reason=one.comparison.withheld or "too few seeds")
    verdict = {"a": HOLDS, "b": FAILS, "": UNDECIDED}[after.better]
    return replace(one, comparison=after, verdict=verdict, reason=after.withheld)


def noise_share(group: Group, request: Request) -> float:
    """Return the largest share, over directions, of the gradient noise's variance in the injected noise's in a step.

    It is h V / (2 a T), with the mean h and T of the draws, and the friction a of a sampler that has one, else 1. V is
    the largest eigenvalue of the covariance of 4,000 stochastic gradients at the mean of the truth. Without a truth it
    is known of densities alone, whose noise is the same everywhere, and 0 of other tasks.
    """
    import torch

    task, chains, steps = task_of(group, request), 40, 100
    truth = task.truth()
    problem = task.build([Streams(0, chain, ("noise",)) for chain in range(chains)], "cpu")
    batches = problem.draw_batches(steps)
    if not batches or (truth is None and not isinstance(task, DensityTask)):
        return 0.0
    theta = 0 * problem.initial()
    theta = theta if truth is None else theta + theta.new_tensor(truth.mean)
    gradients = [problem.gradient(theta, {name: leaf[k] for name, leaf in batches.items()}) for k in range(steps)]
    V = np.linalg.eigvalsh(np.atleast_2d(np.cov(torch.cat(gradients).numpy().T)))[-1]
    path, friction = trajectory(group, request), float(group.settings.get("sampler.friction", 1))
    h, T = path.step_size[path.keep].mean(), path.temperature[path.keep].mean()
    return float(h * V / (2 * friction * T)) if friction * T else np.inf
