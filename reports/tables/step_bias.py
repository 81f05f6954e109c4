"""The bias that the step size of a row causes, estimated from runs at h, h/2 and h/4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import BenchError, Result, statistics
from harness.reports import (
    Column,
    FieldScore,
    Group,
    Report,
    Request,
    Table,
    check_metric,
    labels,
    number,
    score_fields,
)
from reports.figures.parts import Array, record, settings_of
from reports.step_bias import (
    LENGTHS,
    SUBSTEPS,
    Family,
    StepBias,
    covers,
    estimate,
    families,
    moments,
    predictions,
    root_mean_square,
    with_ends,
)
from reports.tables import wide

if TYPE_CHECKING:
    from harness.reports import Store

COLUMNS = (
    Column("label", "method"), Column("shown_function", "function"), Column("shown", "value", "right"),
    Column("shown_bias", "estimated bias", "right"), Column("shown_order", "order", "right"),
    Column("shown_gain", "gain", "right"), Column("passes", "data passes", "right", number),
)  # fmt: skip
TRUE = Column("shown_true", "error of other seeds", "right")
MORE = (Column("function", "name of the function"), Column("unit", "unit"), Column("seeds", "seeds", "right"))
NOTE = "estimated bias: value at h less its limit as h -> 0, 95 % over seeds. Terms, cost: docs/step-bias.md"
FIRST = {1: "", 2: ", h/2"}
"""Rows by their substeps, and how a label names their step size; those of 2 have runs with 2, 4 and 8."""
MEAN_VARIANCE = "variance, mean"
"""The function that is the mean over the coordinates of (z^2 - 1) / sd(z^2), sd over the target."""
MOST = 4
"""The most metrics of a row without a truth that the table shows."""


class StepBiasReport(Report):
    """The bias f(h) - f(0) of rows whose command also made their runs at h/2 and h/4: `--sweep run.substeps=1,2,4`.

    Of a task with a truth the functions are the means and variances along its directions, in sds of what is averaged
    as in the joint error, and the value is the measured error; where further seeds of the row are finished, their mean
    error stands beside the estimate, with its interval. Of other tasks they are the metrics, and the root mean square
    over the predictions of the test rows. Runs with 8 substeps give the same of the row at h/2. The estimator is that
    of `reports.step_bias`. Seeds count that are finished at every step size. The estimate is blind to what stays as
    h -> 0: a note says so of a sampler that declares a limit, and every bias of a burn-in that is too short, or of
    modes that were not visited, stays too.
    """

    name: ClassVar[str] = "step-bias"

    def build(self, store: Store, request: Request) -> Result:
        scores = score_fields(store, request, substeps=True)
        if request.metric:
            check_metric(scores, request.metric)
        tables: list[Table] = []
        records: list[dict[str, Any]] = []
        notes: list[str] = []
        for score in scores:
            rows: list[dict[str, Any]] = []
            for first, size in FIRST.items():
                kin = families(score.groups, first)
                names = labels([_alone(family.row) for family in kin])
                for family in kin:
                    label = names[family.row.key] + size
                    rows += _rows(score, family, label, request.metric)
                    notes += _notes(family, label, request)
            records += rows
            if rows:
                shown = [_shown(row) for row in rows if row["in_table"]]
                beside = [TRUE] if any(row["true"] is not None for row in rows) else []
                columns = [*COLUMNS[:4], *beside, *COLUMNS[4:]]
                tables.append(Table(score.title, columns, shown, [NOTE], keys=2, more=MORE))
        if not records:
            notes.append(f"no row has runs at smaller steps: bench run ... --sweep {SUBSTEPS}=1,2,4 makes them")
        return Result(tables, records, notes=notes)


def _alone(row: Group) -> Group:
    """Return the group without the settings in which its runs at other step sizes differ from it."""
    counted = {SUBSTEPS, *LENGTHS}
    return replace(row, settings={name: value for name, value in row.settings.items() if name not in counted})


def _rows(score: FieldScore, family: Family, label: str, metric: str | None) -> Iterator[dict[str, Any]]:
    """Yield a record for each function; those of the table have `in_table`."""
    if not family.runs[1]:
        return
    functions = {} if metric else moments(score, family.runs)
    others = moments(score, {1: family.others}) if functions and len(family.others) > 1 else {}
    for name, values in functions.items():
        measured = others[name][1] if others else None
        if name == "mean variance":
            yield _record(family, label, MEAN_VARIANCE, "sd", estimate(values), measured, shown=True)
            continue
        count = values[1].shape[1]
        each = [estimate({level: v[:, k] for level, v in values.items()}, count) for k in range(count)]
        worst = max(range(count), key=lambda k: abs(each[k].bias))
        for k, one in enumerate(each):
            of = f"{name}, worst of {count}" if k == worst else f"{name}, direction {k}"
            beside = None if measured is None else measured[:, k]
            yield _record(family, label, of, "sd", one, beside, count, shown=k == worst)
    if functions:
        return
    known = family.row.metrics()
    first = [metric] if metric else list(dict.fromkeys([score.primary, "nll", "single_nll", *known]))
    of_metrics = {name: by_level for name in first if name in known and (by_level := family.metric(name)) is not None}
    for k, (name, by_level) in enumerate(of_metrics.items()):
        yield _record(family, label, wide.header(name), known[name].unit, estimate(by_level), shown=k < MOST)
    stored = None if metric else predictions(score, family)
    over_rows = None if stored is None else root_mean_square(stored)
    if over_rows is not None:
        yield _record(family, label, "predictions, root mean square", "1", over_rows, shown=True)


def _record(
    family: Family, label: str, function: str, unit: str, of: StepBias, measured: Array | None = None, tests: int = 1,
    *, shown: bool,
) -> dict[str, Any]:  # fmt: skip
    """Return the record of an estimate; `measured` (S,) are the errors of other seeds against the truth."""
    order = of.order or (None, None, None)
    true = None if measured is None else statistics.mean_interval(measured, 1 - 0.05 / tests)
    beside = (None, None, None) if true is None else (true.mean, true.low, true.high)
    return record(
        "", family.row, label=label, function=function, unit=unit, value=of.value if np.isfinite(of.value) else None,
        bias=of.bias, bias_low=of.low, bias_high=of.high, order=order[0], order_low=order[1], order_high=order[2],
        true=beside[0], true_low=beside[1], true_high=beside[2],
        covers=None if measured is None else covers(of, measured, tests),
        gain=of.gain, seeds=of.seeds, substeps=int(family.row.settings.get(SUBSTEPS, 1)), levels=[*family.levels],
        passes=family.passes, in_table=shown,
        run_keys=[run.key for runs in family.runs.values() for run in runs],
    )  # fmt: skip


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    order = row["order"]
    return {
        **row,
        "shown": "-" if row["value"] is None else number(row["value"]),
        "shown_function": f"{row['function']} ({row['unit']})",
        "shown_bias": with_ends(row["bias"], row["bias_low"], row["bias_high"]),
        "shown_order": "-" if order is None else f"{order:.2g} [{row['order_low']:.2g}, {row['order_high']:.2g}]",
        "shown_true": "-" if row["true"] is None else with_ends(row["true"], row["true_low"], row["true_high"]),
        "shown_gain": "-" if row["gain"] is None else f"{row['gain']:.3g}",
    }


def _notes(family: Family, label: str, request: Request) -> Iterator[str]:
    """Yield what the estimate of a row leaves out: lost runs, an order that is assumed, a limit that is not seen."""
    lost = sum(len(group.runs) - len(group.done) for group in family.levels.values())
    if lost:
        yield f"{label}: {lost} runs did not end; seeds count that ended at every step size"
    if not family.runs[1]:
        yield f"{label}: no seed is finished at every step size"
    elif len(family.runs[1]) == 1:
        yield f"{label}: one seed gives no interval"
    if 4 not in family.levels:
        yield f"{label}: without runs at h/4 the bias is taken to be proportional to h"
    limit = _limit(family.row, request)
    if limit != 1:
        what = "no stationary law" if limit is None else f"{limit:.3g} times the target's variance"
        yield f"{label}: as h -> 0 its sampler has {what}, which the estimate does not see"


def _limit(group: Group, request: Request) -> float | None:
    """Return the stationary variance over the target's that a row's sampler declares for h -> 0; 1 if unknown."""
    try:
        sampler = request.plugin("samplers", str(group.settings["sampler"]), **settings_of(group, "sampler."))
    except (BenchError, ValueError):
        return 1.0
    limit: float | None = sampler.limit_bias()
    return limit
