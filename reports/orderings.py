"""Declared orderings of samplers, and the verdicts of our runs on them; `orderings.toml` has the data."""

from __future__ import annotations

import itertools
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np

from harness.reports import ONE_DRAW, Comparison, Group, PairOutcome, Request, Term, judge, refusal, terms
from harness.tasks import DensityTask, Streams, Task
from reports.across import TaskField, of_study
from reports.figures.parts import Array, task_of, trajectory
from reports.tables.wide import JOINT

FILE = Path(__file__).with_name("orderings.toml")


class OrderingVerdict(StrEnum):
    """What our runs say of a published ordering. Every row has tuned or default settings of ours: RULES.md 5."""

    HOLDS = "holds at our settings"
    FAILS = "fails at our settings"
    EQUIVALENT = "equivalent at our settings"
    UNDECIDED = "undecided"
    REFUSED = "refused"
    NOT_RUN = "not run"


_OF_OUTCOME = {
    PairOutcome.BETTER: OrderingVerdict.HOLDS,
    PairOutcome.WORSE: OrderingVerdict.FAILS,
    PairOutcome.EQUIVALENT: OrderingVerdict.EQUIVALENT,
    PairOutcome.UNDECIDED: OrderingVerdict.UNDECIDED,
}
NOT_COMPARED = (OrderingVerdict.REFUSED, OrderingVerdict.NOT_RUN)
FAR = "both joint errors are above that of one exact draw: these rows approach the posterior, and do not sample it"
LEAST_NOISE = 0.1
"""Share of the gradient noise in the injected noise, from which on an ordering about noise is judged."""


@dataclass(frozen=True)
class Ordering:
    """A paper's statement that one method is better than another. An empty `metric` means the one that ranks the task.

    task         TASK, in the protocol with the most methods, or TASK@PROTOCOL
    differs      the terms in which the methods' rows may differ; rows that differ in another one are not compared
    about_noise  whether it is about gradient noise; it is refused where the worse row has hardly any
    family       statements that were declared together have the same; their intervals hold at once
    study        the study of tuned settings whose rows it is about; "" for any rows
    """

    statement: str
    citation: str
    better: str
    worse: str
    task: str
    metric: str = ""
    notes: str = ""
    differs: tuple[Term, ...] = ()
    about_noise: bool = False
    family: str = ""
    study: str = ""


@dataclass(frozen=True)
class JudgedOrdering:
    """An ordering beside our runs.

    `comparison` is A = better against B = worse, or None if one of them was not run. `reason` says why there is no
    verdict.
    """

    ordering: Ordering
    metric: str
    comparison: Comparison | None
    verdict: OrderingVerdict
    reason: str


def load_orderings(file: Path = FILE) -> list[Ordering]:
    """Return all orderings of a file, one for each task and pair."""
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    return [
        Ordering(
            **{name: value for name, value in one.items() if name not in {"better", "worse", "tasks", "differs"}},
            better=better,
            worse=worse,
            task=task,
            differs=tuple(terms(one.get("differs", ()))),
        )
        for one in document["ordering"]
        for better, worse, task in itertools.product(one["better"], one["worse"], one["tasks"])
    ]


def judge_orderings(
    orderings: Sequence[Ordering], fields: Mapping[str, TaskField], request: Request
) -> list[JudgedOrdering]:
    """Return the verdicts, paired by seed, on the fields by an ordering's task. Those of a family that were not run
    count in its size.
    """
    sizes = Counter(one.family for one in orderings)
    compared = [_compared(one, fields.get(one.task), request) for one in orderings]
    return [
        one if one.comparison is None else _verdict(one, judge([one.comparison], sizes[one.ordering.family])[0])
        for one in compared
    ]


def _compared(ordering: Ordering, field: TaskField | None, request: Request) -> JudgedOrdering:
    """Return an ordering with its comparison, or with the reason if there is none."""

    def not_run(reason: str) -> JudgedOrdering:
        return JudgedOrdering(ordering, metric, None, OrderingVerdict.NOT_RUN, reason)

    metric = ordering.metric or (field.metric if field is not None else "")
    if field is None:
        return not_run(f"no field of {ordering.task} with two methods")
    if ordering.study:
        field = of_study(field, ordering.study)
    rows = field.groups
    if absent := [name for name in (ordering.better, ordering.worse) if name not in rows]:
        none = f"no runs at settings of study {ordering.study}" if ordering.study else "no runs"
        return not_run("; ".join(f"{name}: {field.missing.get(name, none)}" for name in absent))
    better, worse = rows[ordering.better], rows[ordering.worse]
    why = refusal(better, worse, ordering.differs)
    if not why and ordering.about_noise and (share := noise_share(worse, request)) < LEAST_NOISE:
        why = f"gradient noise of {ordering.worse} is {share:.2g} of the injected noise, below {LEAST_NOISE:g}"
    if why:
        return JudgedOrdering(ordering, metric, None, OrderingVerdict.REFUSED, why)
    comparison = field.score.compare(better, worse, metric)
    if comparison is None:
        return not_run(f"no values of {metric}")
    if metric == JOINT and min(comparison.a or 0.0, comparison.b or 0.0) > ONE_DRAW:
        return JudgedOrdering(ordering, metric, None, OrderingVerdict.REFUSED, FAR)
    return JudgedOrdering(ordering, metric, comparison, OrderingVerdict.UNDECIDED, "")


def _verdict(one: JudgedOrdering, judged: Comparison) -> JudgedOrdering:
    reason = judged.withheld or ("too few seeds" if judged.tested is None else "")
    return JudgedOrdering(one.ordering, one.metric, judged, _OF_OUTCOME[judged.outcome], reason)


def noise_share(group: Group, request: Request) -> float:
    """Return the largest share, over directions, of the gradient noise's variance in the injected noise's in a step.

    It is h V / (2 a T), with the mean h and T of the draws, and the friction a of a sampler that has one, else 1. V is
    the largest eigenvalue of the covariance of 4,000 stochastic gradients at the mean of the truth. Without a truth it
    is known of densities alone, whose noise is the same everywhere, and 0 of other tasks.
    """
    task = task_of(group, request)
    truth = task.truth()
    if truth is None and not isinstance(task, DensityTask):
        return 0.0
    V = np.linalg.eigvalsh(gradient_noise(task, np.zeros(task.dim()) if truth is None else truth.mean))[-1]
    path, friction = trajectory(group, request), float(group.settings.get("sampler.friction", 1))
    h, T = path.step_size[path.keep].mean(), path.temperature[path.keep].mean()
    return float(h * V / (2 * friction * T)) if friction * T else np.inf


def gradient_noise(task: Task, mean: Array) -> Array:
    """Return the covariance (D, D) of 4,000 stochastic gradients of U at a point (D,); 0 of exact gradients."""
    import torch

    chains, steps = 40, 100
    problem = task.build([Streams(0, chain, ("noise",)) for chain in range(chains)], "cpu")
    batches = problem.draw_batches(steps)
    if not batches:
        return np.zeros((len(mean), len(mean)))
    theta = 0 * problem.initial() + torch.as_tensor(mean)
    gradients = [problem.gradient(theta, {name: leaf[k] for name, leaf in batches.items()}) for k in range(steps)]
    return np.atleast_2d(np.cov(torch.cat(gradients).numpy().T))
