"""The scores of one field of groups: estimates, gates, ranks, and flat records of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from harness.analysis.diagnostics import Gate
from harness.contracts.parameters import suggestions
from harness.reporting.scoring import accuracy, cache
from harness.reporting.scoring.accuracy import ESS_MSE, GATE_METRICS, MARGINAL, NO_RECORD, OVER_SEEDS, UNGATED, Accuracy
from harness.reporting.scoring.compare import CURVES_OF, Comparison, compare
from harness.reporting.scoring.estimates import Curves, Estimate, RunCosts, derived, metric_estimate, rows_by_seed
from harness.reporting.scoring.groups import Curve, Group, Run
from harness.reporting.scoring.labels import labels, title
from harness.reporting.scoring.record import account, flat_record
from harness.reporting.scoring.standing import RankStatus, standings
from harness.system.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray


LoadCurves = Callable[[Sequence[Group], Sequence[str]], Curves]
"""A function that returns the named curves of the groups' runs."""


class FieldScore:
    """The groups of one field (task, version, protocol, chains, budget, task settings), scored by the rules.

    `metrics` has the names of all metrics: if a truth is known, those over chains x seeds (`joint_error`,
    `passes_to_low_error`, the metrics that are shown beside them, `ess_mse`), then the task's own, and those that a
    report adds with `derive`.
    """

    def __init__(
        self,
        field: Sequence[Group],
        others: Sequence[Group],
        accuracies: Callable[[], Mapping[str, Accuracy]],
        curves: LoadCurves,
        results: Path,
    ) -> None:
        self.groups = list(field)
        self.title = title(field, others)
        self.labels = labels(field)
        self._accuracies = accuracies
        self._load_curves = curves
        self._results = results
        self._curves: dict[str, dict[str, Curve]] = {}
        self._derived: dict[str, tuple[str, str, RunCosts]] = {}
        self._estimates: dict[tuple[str, str], Estimate | None] = {}
        self._standings: dict[str, dict[str, RankStatus]] = {}

    def __copy__(self) -> FieldScore:
        """Return the same field with the same estimates, to which a report may add metrics; its curves are freed."""
        copied = object.__new__(type(self))
        copied.__dict__ = self.__dict__ | {"_curves": {}}
        return copied

    @property
    def _accuracy(self) -> Mapping[str, Accuracy]:
        """The accuracies by group key. They are computed on first use, because a figure of draws does not need them."""
        return self._accuracies()

    @functools.cached_property
    def gates(self) -> dict[str, Gate | None]:
        """The gate of each group: whether metrics that a wrong law inflates may rank it. None if no truth is known."""
        return {group.key: accuracy.judge(group, self._accuracy[group.key].findings) for group in self.groups}

    @functools.cached_property
    def metrics(self) -> list[str]:
        """The names of all metrics of the field: those over chains x seeds, the primary one, then the others."""
        of_task = [name for group in self.groups for name in group.metrics()]
        seen = {name for group in self.groups for name in self._accuracy[group.key].errors}
        over = [name for name in (*UNGATED, *GATE_METRICS) if self.truth_known and (name in UNGATED or name in seen)]
        size = [ESS_MSE] if any(self._accuracy[group.key].size for group in self.groups) else []
        return list(dict.fromkeys([*over, *size, *of_task]))

    @property
    def truth_known(self) -> bool:
        """Whether the task has a truth. Errors against it then rank, even if these runs have no record of them."""
        return any(self._accuracy[group.key].errors or MARGINAL in group.metrics() for group in self.groups)

    @property
    def reference(self) -> str:
        """What the runs were compared with, by its name in `REFERENCES`."""
        if any(group.measured(name) for group in self.groups for name in accuracy.FUNCTIONS):
            return "function space"
        return "truth" if self.truth_known else "none"

    def derive(self, name: str, base: str, unit: str, cost: RunCosts) -> None:
        """Add a metric: the metric `base` divided by a cost of the run. It has no value where the cost is unknown."""
        if base in self.metrics:
            self._derived = {**self._derived, name: (base, unit, cost)}
            self.metrics = [*self.metrics, name]

    @property
    def primary(self) -> str:
        """The task's primary metric."""
        for group in self.groups:
            for name, value in group.metrics().items():
                if value.is_primary:
                    return name
        return self.metrics[0] if self.metrics else ""

    def estimate(self, group: Group, metric: str) -> Estimate | None:
        """Return the group's estimate of a metric, or None if it has none."""
        key = (group.key, metric)
        if key not in self._estimates:
            self._estimates[key] = self._estimate(group, metric)
        return self._estimates[key]

    def standing(self, group: Group, metric: str) -> RankStatus:
        """Return the group's rank status in the field by a metric."""
        if metric not in self._standings:
            estimates = {g.key: self.estimate(g, metric) for g in self.groups}
            self._standings[metric] = standings(self.groups, estimates, {} if metric in UNGATED else self.gates)
        return self._standings[metric][group.key]

    def ordered(self, metric: str) -> list[Group]:
        """Return the ranked groups by rank, then the other groups by label."""

        def rank_then_label(group: Group) -> tuple[bool, int, str]:
            rank = self.standing(group, metric).rank
            return rank is None, rank.rank if rank else 0, self.labels[group.key]

        return sorted(self.groups, key=rank_then_label)

    def record(self, group: Group, metric: str) -> dict[str, Any] | None:
        """Return the flat record of a group and a metric, for JSON and CSV. None if the metric was not measured."""
        estimate = self.estimate(group, metric)
        if estimate is None:
            return None
        return flat_record(group, self.labels[group.key], estimate, self.standing(group, metric))

    def records(self, metrics: Iterable[str]) -> list[dict[str, Any]]:
        """Return the records of all groups, metric by metric."""
        records = [self.record(group, metric) for metric in metrics for group in self.ordered(metric)]
        return [record for record in records if record is not None]

    def compare(self, a: Group, b: Group, metric: str, of_b: FieldScore | None = None) -> Comparison | None:
        """Compare two groups by seed. Returns None if neither has the metric.

        `of_b` is the score of the field of `b`, if that is another one.
        The verdict is withheld if the gate finds a group off its target, unless that cannot inflate the metric.
        """
        sides = ((self, a), (of_b or self, b))
        curves = {key: curve for score, group in sides for key, curve in score.curves_behind(metric, group).items()}
        comparison = compare(a, b, metric, curves)
        if comparison is None or metric in UNGATED:
            return comparison
        doubts = [
            f"{name} is {gate.verdict}: {gate.reason}"
            for name, (score, group) in zip("AB", sides, strict=True)
            if (gate := score.gates[group.key]) is not None and gate.verdict != "ok"
        ]
        return replace(comparison, withheld="; ".join(filter(None, [comparison.withheld, *doubts])))

    def curves_behind(self, metric: str, group: Group) -> Curves:
        """Return the curves that a statistic over chains and seeds is computed from; {} for a metric of a run."""
        return self._load_curves([group], CURVES_OF[metric]) if metric in CURVES_OF else {}

    def curves(self, name: str) -> Mapping[str, Curve]:
        """Return the curves of this name by attempt: x (n,) and y (C, n), with NaN where a value does not exist."""
        if name not in self._curves:
            curves = self._load_curves(self.groups, [name])
            self._curves[name] = {attempt: curve for (attempt, _), curve in curves.items()}
        return self._curves[name]

    def curve(self, group: Group, name: str) -> tuple[NDArray[np.float64], Curve] | None:
        """Return the stacked curves of a group's runs: the seed of each row, and (x, y). None if they do not stack."""
        return rows_by_seed(group, {(attempt, name): curve for attempt, curve in self.curves(name).items()}, name)

    def arrays(
        self, run: Run, *names: str, file: Literal["arrays", "draws"] = "arrays", rows: Sequence[int] | None = None
    ) -> dict[str, NDArray[Any]] | None:
        """Return arrays of a run by name, or None if one of them does not exist.

        The file "arrays" has the arrays of its observer, the file "draws" its draws (n, C, D) and their steps. `rows`
        selects rows of each array; None selects all.
        """
        from safetensors import safe_open

        path = self._results / run.path / f"{file}.safetensors"
        if not path.is_file():
            return None
        with safe_open(path, "numpy") as kept:
            if not set(names) <= set(kept.keys()):
                return None
            if rows is None:
                return {name: kept.get_tensor(name) for name in names}
            return {name: np.stack([kept.get_slice(name)[row] for row in rows]) for name in names}

    def kept(self, run: Run, report: str, made_from: Mapping[str, Any]) -> Any | None:
        """Return what `keep` kept for a run if it was made from the same inputs, else None."""
        return cache.find(self._results, report, run.key, made_from)

    def keep(self, run: Run, report: str, made_from: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """Return the value of `make`, which must fit into JSON, and keep it: one value for each report and run."""
        return cache.keep(self._results, report, run.key, made_from, make)

    def failures(self) -> list[str]:
        """Return a line for each run that diverged or failed."""
        return [
            f"{self.labels[group.key]}: {account(run)}"
            for group in self.groups
            for run in [*group.diverged, *group.failed]
        ]

    def _estimate(self, group: Group, metric: str) -> Estimate | None:
        if metric in self._derived:
            base, unit, cost = self._derived[metric]
            return derived(group, self.estimate(group, base), metric, unit, cost)
        if metric in (*UNGATED, *GATE_METRICS):
            errors = self._accuracy[group.key].errors
            return errors.get(metric, Estimate(metric, 0, "", "min", None, None, remark=NO_RECORD))
        if metric == ESS_MSE:
            return self._accuracy[group.key].size
        return metric_estimate(group, metric)


def check_metric(scores: Sequence[FieldScore], metric: str, *, by_seed: bool = False) -> None:
    """Raise `UsageError` with near matches if no field has the metric, or if it is to be compared `by_seed` and is of
    all seeds together.
    """
    known = {name for score in scores for name in score.metrics}
    if scores and metric not in known:
        raise UsageError(f"unknown metric {metric!r}{suggestions(metric, known)}")
    if by_seed and metric in (*OVER_SEEDS, *GATE_METRICS):
        raise UsageError(f"{metric} is not compared by seed: it is of all chains and seeds together; see the report")
