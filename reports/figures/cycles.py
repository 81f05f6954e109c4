"""What another cycle is worth: the error of the ensemble against how many cycles of a run it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.analysis.statistics import mean_interval
from harness.reporting.report import Column, Figure, Report, Request, Result, Table
from harness.reporting.scoring import Group, labels, load_curves
from reports.figures.parts import (
    about,
    arrays,
    figure_name,
    legend_below,
    legend_height,
    looks,
    name_figure,
    titled_fields,
)

if TYPE_CHECKING:
    from harness.reporting.scoring.groups import Curve
    from harness.results.store import Store

Array = NDArray[np.float64]

SHOWN = {"test_error": "test error (%)", "nll": "NLL (nats)"}


class Cycles(Report):
    """A figure for each field (task, protocol, chains, budget): the test error and the negative log-likelihood of

        p_m(y | x) = mean of p(y | x, theta_k) over the draws of the first m cycles,   m = 1 .. M

    against m, a line for each cyclical or snapshot method and each M that it was run with: the running mean that the
    observer kept, at the end of each cycle. Where a task averages the last draws only, lines begin with their cycle.
    Lines are means over seeds, bands go from the lowest to the highest. A run of M cycles goes on to its end, so the
    lines of two Ms compare budgets at equal m; their last points compare Ms at an equal budget.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, figure 3 (c);
    G. Huang et al., "Snapshot Ensembles: Train 1, Get M for Free", ICLR 2017.
    """

    name: ClassVar[str] = "cycles"
    summary: ClassVar[str] = "error of the ensemble against the number of cycles"

    def build(self, store: Store, request: Request) -> Result:
        figures: list[Figure] = []
        tables: list[Table] = []
        records: list[dict[str, Any]] = []
        notes: list[str] = []
        for field, heading in titled_fields(store, request):
            lines, missing = _lines(store, field)
            notes += missing if lines or request.tasks else []
            if not lines:
                continue
            name = figure_name(self.name, field[0], {figure.name for figure in figures})
            own = [record for label, (group, line) in lines.items() for record in _records(name, label, group, line)]
            figures.append(_figure(name, heading, lines))
            tables.append(_table(heading, own))
            records += own
        return Result(tables, records, figures, notes)


Lines = Mapping[str, tuple[Group, dict[str, Array]]]
"""Label -> group, and by metric the values (seeds, M) after each cycle; NaN where the ensemble is empty."""


def _lines(store: Store, field: Sequence[Group]) -> tuple[Lines, list[str]]:
    names, curves = labels(field), load_curves(store, field, list(SHOWN))
    found: dict[str, tuple[Group, dict[str, Array]]] = {}
    missing = []
    for group in field:
        label = names[group.key]
        seeds = [ends for run in group.done if (ends := _ends(store, run, curves)) is not None]
        if len(seeds) < len(group.done) or not seeds or len({ends["test_error"].shape for ends in seeds}) > 1:
            missing.append(f"{label}: not all runs have cycles and curves of their errors")
        elif seeds[0]["test_error"].size > 1:  # one cycle is nothing to plot against
            found[label] = group, {name: np.stack([ends[name] for ends in seeds]) for name in SHOWN}
    if not found and not missing:
        missing.append(f"{field[0].task}: no method with several cycles was run")
    return found, missing


def _ends(store: Store, run: Any, curves: Mapping[tuple[str, str], Curve]) -> dict[str, Array] | None:
    """The values of each curve at the end of each cycle, (M,)."""
    kept = arrays(store, run, "cycle", "chain")
    if kept is None or any((run.attempt, name) not in curves for name in SHOWN):
        return None
    cycle = kept["cycle"][kept["chain"] == kept["chain"].min()]
    last = np.append(np.flatnonzero(np.diff(cycle)), len(cycle) - 1)
    found = {name: curves[run.attempt, name][1][0] for name in SHOWN}
    return {name: y[last] for name, y in found.items()} if all(len(y) == len(cycle) for y in found.values()) else None


def _records(figure: str, label: str, group: Group, line: Mapping[str, Array]) -> list[dict[str, Any]]:
    found = []
    for m in range(next(iter(line.values())).shape[1]):
        for metric, values in line.items():
            if np.isfinite(values[:, m]).all():
                over = mean_interval(values[:, m])
                found.append({
                    "figure": figure, **about(group), "label": label, "cycles": group.settings.get("schedule.cycles"),
                    "cycles_used": m + 1, "metric": metric, "mean": over.mean, "low": over.low, "high": over.high,
                    "interval": over.kind, "seeds": len(values), "run_keys": [run.key for run in group.done],
                })  # fmt: skip
    return found


def _table(heading: str, records: Sequence[Mapping[str, Any]]) -> Table:
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for record in records:
        row = rows.setdefault((record["label"], record["cycles_used"]), {"label": record["label"]})
        row |= {"cycles_used": record["cycles_used"], "seeds": record["seeds"], record["metric"]: record["mean"]}
    columns = [Column("label", "method"), Column("cycles_used", "cycles used", "right")]
    columns += [Column(metric, header, "right", ".4g") for metric, header in SHOWN.items()]
    note = "errors of the mean prediction over the draws of the first cycles of a run, means over seeds"
    return Table(heading, [*columns, Column("seeds", "seeds", "right")], list(rows.values()), [note], keys=2)


def _figure(name: str, heading: str, lines: Lines) -> Figure:
    size = (8.4, 3.0 + legend_height(lines, 8.4))
    return Figure(name, lambda canvas: _draw(canvas, lines, heading), size, heading)


def _draw(canvas: Any, lines: Lines, heading: str) -> None:
    axes = canvas.subplots(1, len(SHOWN))
    styles = looks(list(lines))
    handles = {}
    for ax, (metric, words) in zip(axes, SHOWN.items(), strict=True):
        for label, (_, line) in lines.items():
            values = line[metric]
            m = np.arange(1, values.shape[1] + 1)
            (handles[label],) = ax.plot(m, values.mean(0), marker="o", markersize=3.5, **styles[label])
            ax.fill_between(m, values.min(0), values.max(0), color=styles[label]["color"], alpha=0.15, linewidth=0)
        ax.set(xlabel="cycles used", ylabel=words)
        ax.xaxis.get_major_locator().set_params(integer=True)
    legend_below(canvas, dict(sorted(handles.items())))
    name_figure(canvas, heading)
