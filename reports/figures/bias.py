"""The bias of a sampler by step size and batch size: its runs beside HMC's, and its exact law."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import BenchError, Result
from harness.reports import (
    Beside,
    Column,
    FieldScore,
    Figure,
    Group,
    Report,
    Request,
    Table,
    number,
    score_fields,
    typical,
)
from reports.figures.charts import chart, line
from reports.figures.parts import Array, record, settings_of
from reports.figures.styles import COLOURS
from reports.tables import wide

if TYPE_CHECKING:
    from harness.reports import Store

HMC = "hmc"
STEP = "schedule.step_size"
BATCHES = ("task.batch", "task.noise")
"""Settings that decide on the noise of a gradient: the terms of a minibatch, or the sd of a density's noise."""
MEAN, LEAST, GREATEST = "worst_mean_error", "least_variance", "greatest_variance"
SHARES: Mapping[str, float] = {"all terms": 0.0, "half of the terms": 1.0, "a tenth": 9.0, "a hundredth": 99.0}
"""V / (lambda T) of a batch, by its share of the terms: N/n - 1 for the mean of N normal terms with T = 1."""
SMALLEST, ENDLESS = 1e-4, 10.0
"""The least x = h lambda as a share of the stability limit, and the limit of a sampler that has none."""
POINTS = 48
TABLE = (0.001, 0.01, 0.03, 0.1, 0.3, 0.6)
"""Shares of the stability limit in the table."""
HIGHEST = 2.0
"""The largest bias that the figure shows: three times the true sd."""
CAPTION = (
    "{name} at a constant step: bias of the sd on N(0, 1 / lambda), sd / true sd - 1, against the step size in units "
    "of 1 / lambda, by the share of the terms in a batch. Exact, from the code of a step at these settings, without a "
    "run: the mean of N normal terms, whose batch of n has gradient noise of variance V = lambda T (N/n - 1). The bias "
    "of the mean is 0 there by symmetry, and HMC's bias is 0 at every step size."
)
NOTE = (
    "bias of the mean: the length of the error of the mean over seeds, in the worst direction and in sd, with its "
    "interval; bias of the sd: of the narrowest and of the widest direction, sd / true sd - 1; hmc: its row at the "
    "same budget of data passes, chains and task, whatever the batch, which shows how much of a bias can be seen"
)


class Bias(Report):
    """For each method its rows on tasks with a truth, by step size and batch size, beside HMC at equal compute, and the
    exact bias on a normal law, if a step is linear.

    On U = lambda theta^2 / 2 with gradient noise of variance V a linear step has a stationary law, which follows from
    its own code (`harness.linear`); with x = h lambda and v = V / (lambda T) the bias of the sd is sqrt(P(x, v)) - 1.
    For sgld P = (1 + x v / 2) / (1 - x / 2), so that the bias grows with the step and with the noise of a batch.
    Adaptive entries are held where a chain near theta = 1 takes them.
    """

    name: ClassVar[str] = "bias"

    def prepare(self, store: Store, request: Request) -> None:
        """Begin with the exact laws, which need torch, whose import takes longer than the rest of the report."""
        groups = _first_rows(_pairs(store, request))
        request.once(_key(groups), lambda: Beside(lambda: _exact_biases(groups, request)))

    def build(self, store: Store, request: Request) -> Result:
        pairs = _pairs(store, request)
        hmc = {_peers(group): (score, group) for score, group in pairs if group.method == HMC}
        records = [_record(score, group, hmc.get(_peers(group))) for score, group in pairs if group.done]
        groups = _first_rows(pairs)
        begun: Beside[dict[str, Curves]] | None = request.once(_key(groups), lambda: None)
        biases = begun.value if begun else _exact_biases(groups, request)
        tables, figures = [], []
        for method, curves in biases.items():
            rows = [record for record in records if record["method"] == method]
            rows.sort(key=lambda row: (row["task"], row["budget"], row["step_size"] or 0.0, str(row["batch"])))
            tables.append(_table(method, rows))
            if curves:
                tables.append(_exact_table(method, curves))
                figures.append(_figure(method, curves))
        return Result(tables, records, figures)


def _pairs(store: Store, request: Request) -> list[tuple[FieldScore, Group]]:
    return [(score, group) for score in score_fields(store, request) if score.truth_known for group in score.groups]


def _first_rows(pairs: Sequence[tuple[FieldScore, Group]]) -> list[Group]:
    """Return the first row of each method that has a finished run."""
    methods = sorted({group.method for _, group in pairs if group.done})
    return [next(group for _, group in pairs if group.method == method) for method in methods]


def _key(groups: Sequence[Group]) -> tuple[object, ...]:
    return Bias, *(group.key for group in groups)


def _exact_biases(groups: Sequence[Group], request: Request) -> dict[str, Curves]:
    return {group.method: exact(group, request) for group in groups}


def _peers(group: Group) -> str:
    """Return what two rows must share for equal compute: task and settings but for the batch, budget and chains."""
    task = {k: v for k, v in settings_of(group, "task.").items() if f"task.{k}" not in BATCHES}
    return json.dumps([group.task, group.task_version, group.protocol, group.budget, group.chains, task])


def _record(score: FieldScore, group: Group, hmc: tuple[FieldScore, Group] | None) -> dict[str, Any]:
    batch = next((group.settings[name] for name in BATCHES if group.settings.get(name) is not None), None)
    beside = _biases(*hmc) if hmc is not None else {}
    about = record(
        "", group, label=score.labels[group.key], seeds=len(group.done), passes=typical(group.done.numbers.passes),
        step_size=_positive(group.settings.get(STEP)), batch=batch, full_gradients=group.full_gradients,
        **_biases(score, group), **{f"hmc_{name}": value for name, value in beside.items()},
        run_keys=[run.key for run in group.runs],
    )  # fmt: skip
    return about | {"group": group.key}


def _biases(score: FieldScore, group: Group) -> dict[str, float | None]:
    mean, least, greatest = (wide.with_ends(score.estimate(group, name)) for name in (MEAN, LEAST, GREATEST))
    value, low, high = mean or (None, None, None)
    return {
        "mean_bias": value, "mean_low": low, "mean_high": high,
        "sd_narrowest": None if least is None else _of_sd(least[0]),
        "sd_widest": None if greatest is None else _of_sd(greatest[0]),
    }  # fmt: skip


def _of_sd(variance: float) -> float | None:
    return math.sqrt(variance) - 1 if variance >= 0 and math.isfinite(variance) else None


def _positive(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.3g} %"


def _table(method: str, records: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        {
            **row,
            "mean": _with_ends(row), "sd": f"{_share(row['sd_narrowest'])} to {_share(row['sd_widest'])}",
            "hmc": "-" if row.get("hmc_mean_bias") is None else number(row["hmc_mean_bias"]),
            "hmc_sd": f"{_share(row.get('hmc_sd_narrowest'))} to {_share(row.get('hmc_sd_widest'))}",
        }
        for row in records
    ]  # fmt: skip
    columns = [
        Column("label", "row"), Column("task", "task"), Column("budget", "budget"),
        Column("step_size", "step size", "right", number), Column("batch", "batch / noise sd", "right"),
        Column("mean", "bias of the mean (sd)", "right"), Column("sd", "bias of the sd", "right"),
        Column("hmc", "hmc mean (sd)", "right"), Column("hmc_sd", "hmc sd", "right"),
        Column("passes", "data passes", "right", number), Column("seeds", "seeds", "right"),
    ]  # fmt: skip
    return Table(f"Bias of {method}, by step size and batch size", columns, rows, [NOTE])


def _with_ends(row: Mapping[str, Any]) -> str:
    if row["mean_bias"] is None:
        return "-"
    ends = f" [{number(row['mean_low'])}, {number(row['mean_high'])}]" if row["mean_low"] != row["mean_high"] else ""
    return f"{number(row['mean_bias'])}{ends}"


Curves = Mapping[str, tuple[Array, Array]]
"""Of each batch, x = h lambda (n,) and the bias of the sd (n,)."""


def exact(group: Group, request: Request) -> Curves:
    """Return the exact bias of the sd of a row's sampler, by the batch; {} if its step is not linear."""
    from harness import linear

    try:
        sampler = request.plugin("samplers", str(group.settings["sampler"]), **settings_of(group, "sampler."))
        limit = linear.stability_limit(sampler)
    except (BenchError, ValueError):
        return {}
    if limit is None or sampler.limit_bias() is None or sampler.limit_bias() == 0:
        return {}
    reach = limit if math.isfinite(limit) else ENDLESS
    xs = np.unique([*np.geomspace(SMALLEST, 0.97, POINTS), *TABLE]) * reach
    return of_sampler(linear.at_work(sampler), xs)


def of_sampler(sampler: Any, xs: Iterable[float]) -> Curves:
    """Return the exact bias of the sd at T = 1 and each x = h lambda at which there is a stationary law."""
    from harness import linear

    points: dict[str, list[tuple[float, float]]] = {name: [] for name in SHARES}
    for x in xs:
        step = linear.derive(sampler, float(x), 1.0)
        for name, noise in SHARES.items():
            P = step.stationary(noise)
            if P is not None and P[0, 0] >= 0:
                points[name].append((float(x), math.sqrt(float(P[0, 0])) - 1))
    return {name: (np.array(pairs)[:, 0], np.array(pairs)[:, 1]) for name, pairs in points.items() if pairs}


def _at(x: float, xs: Array, biases: Array) -> str:
    """Return the bias at x, "-" if there is no stationary law there."""
    (there,) = np.nonzero(np.isclose(xs, x))
    return _share(float(biases[there[0]])) if len(there) else "-"


def _exact_table(method: str, curves: Curves) -> Table:
    xs = next(iter(curves.values()))[0]
    shown = [float(x) for x in xs if any(np.isclose(x, share * xs[-1] / 0.97) for share in TABLE)]
    rows = [
        {
            "method": method,
            "x": x,
            **{name: _at(x, *curve) for name, curve in curves.items()},
            "hmc": "0 %",
        }
        for x in shown
    ]  # fmt: skip
    columns = [Column("x", "h lambda", "right", number), *(Column(name, name, "right") for name in curves)]
    title = f"Exact bias of the sd of {method} on a normal law, by constant step size and batch"
    return Table(title, [*columns, Column("hmc", "hmc", "right")], rows)


def _figure(method: str, curves: Curves) -> Figure:
    def draw(canvas: Any) -> None:
        ax = canvas.subplots()
        for colour, (name, (x, y)) in zip(COLOURS, curves.items(), strict=False):
            ax.plot(x, y, color=colour, label=name)
        ax.axhline(0, color="black", linewidth=0.8, linestyle="--", label="hmc")
        ax.set(xscale="log", ylim=_ends(curves), xlabel=r"$h \lambda$", ylabel="sd / true sd - 1", title=method)
        ax.grid(visible=True, color="#e6e6e6", linewidth=0.6)
        ax.legend(frameon=False, fontsize="small", title="batch")

    lines = [
        line(name, colour, x, np.where(y <= HIGHEST, y, np.nan))
        for colour, (name, (x, y)) in zip(COLOURS, curves.items(), strict=False)
    ]
    ends = np.array([min(x[0] for x, _ in curves.values()), max(x[-1] for x, _ in curves.values())])
    lines.append(line(HMC, "", ends, np.zeros(2), dash=True))
    caption = CAPTION.format(name=method)
    figure = Figure(f"bias-{method}", draw, (7.2, 3.6), caption, method=method)
    return replace(figure, chart=chart("h lambda", "sd / true sd - 1", lines, caption, "x", _ends(curves)))


def _ends(curves: Curves) -> tuple[float, float]:
    values = np.concatenate([y for _, y in curves.values()])
    return float(min(values.min(), 0.0)) - 0.05, float(min(values.max(), HIGHEST)) * 1.05
