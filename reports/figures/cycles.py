"""The value of another cycle: the error of the ensemble against the number of cycles that it uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from harness import Result
from harness.reports import Column, FieldScore, Group, Request, Run, Table
from reports.figures.parts import (
    BAND,
    Array,
    FieldReport,
    band,
    field_figure,
    legend_below,
    legend_height,
    over_seeds,
    record,
)
from reports.figures.styles import looks

SHOWN = {"test_error": "test error (%)", "nll": "NLL (nats)"}


class Cycles(FieldReport):
    """A figure for each field (task, protocol, chains, budget): the test error and the negative log-likelihood of

        p_m(y | x) = mean of p(y | x, theta_k) over the draws of the first m cycles,   m = 1 .. M

    against m, with a line for each cyclical or snapshot method and each M that it was run with. The values are the
    running mean that the observer kept, at the end of each cycle. If a task averages the last draws only, lines begin
    with their cycle. Lines are means over seeds, bands go from the lowest to the highest. A run of M cycles continues
    to its end, so the lines of two Ms compare budgets at equal m; their last points compare Ms at an equal budget.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, figure 3 (c);
    G. Huang et al., "Snapshot Ensembles: Train 1, Get M for Free", ICLR 2017.
    """

    name: ClassVar[str] = "cycles"

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        lines, missing = _lines(score)
        notes = missing if lines or request.tasks else []
        if not lines:
            return Result(notes=notes)
        records = [record for label, (group, line) in lines.items() for record in _records(name, label, group, line)]
        size = (8.4, 3.0 + legend_height(lines, 8.4))
        figure = field_figure(name, score, lambda canvas: _draw(canvas, lines), size, f"{BAND}.")
        return Result([_table(score.title, records)], records, [figure], notes)


Lines = Mapping[str, tuple[Group, dict[str, Array]]]
"""Label -> group, and by metric the values (seeds, M) after each cycle; NaN if the ensemble is empty."""


def _lines(score: FieldScore) -> tuple[Lines, list[str]]:
    lines: dict[str, tuple[Group, dict[str, Array]]] = {}
    missing = []
    for group in score.groups:
        label = score.labels[group.key]
        seeds = [ends for run in group.done if (ends := _ends(score, run)) is not None]
        if len(seeds) < len(group.done) or not seeds or len({ends["test_error"].shape for ends in seeds}) > 1:
            missing.append(f"{label}: not all runs have cycles and curves of their errors")
        elif seeds[0]["test_error"].size > 1:  # one cycle gives no line
            lines[label] = group, {name: np.stack([ends[name] for ends in seeds]) for name in SHOWN}
    if not lines and not missing:
        missing.append(f"{score.groups[0].task}: no method with several cycles was run")
    return lines, missing


def _ends(score: FieldScore, run: Run) -> dict[str, Array] | None:
    """Return the values of each curve at the end of each cycle, (M,)."""
    curves = {name: curve[1][0] for name in SHOWN if (curve := score.curves(name).get(run.attempt)) is not None}
    kept = score.arrays(run, "cycle", "chain")
    if kept is None or len(curves) < len(SHOWN):
        return None
    cycle = kept["cycle"][kept["chain"] == kept["chain"].min()]
    last = np.append(np.flatnonzero(np.diff(cycle)), len(cycle) - 1)
    return {name: y[last] for name, y in curves.items()} if {len(y) for y in curves.values()} == {len(cycle)} else None


def _records(figure: str, label: str, group: Group, line: Mapping[str, Array]) -> list[dict[str, Any]]:
    return [
        record(
            figure, group, label=label, cycles=group.settings.get("schedule.cycles"), cycles_used=m + 1,
            metric=metric, **over_seeds(values[:, m]), seeds=len(values), run_keys=[run.key for run in group.done],
        )
        for m in range(next(iter(line.values())).shape[1])
        for metric, values in line.items()
        if np.isfinite(values[:, m]).all()
    ]  # fmt: skip


def _table(heading: str, records: Sequence[Mapping[str, Any]]) -> Table:
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for r in records:
        row = rows.setdefault((r["label"], r["cycles_used"]), {})
        row |= {"label": r["label"], "cycles_used": r["cycles_used"], "seeds": r["seeds"], r["metric"]: r["mean"]}
    columns = [Column("label", "method"), Column("cycles_used", "cycles used", "right")]
    columns += [Column(metric, header, "right", ".4g") for metric, header in SHOWN.items()]
    note = "errors of the mean prediction over the draws of the first cycles of a run, means over seeds"
    return Table(heading, [*columns, Column("seeds", "seeds", "right")], list(rows.values()), [note], keys=2)


def _draw(canvas: Any, lines: Lines) -> None:
    axes = canvas.subplots(1, len(SHOWN))
    styles = looks(list(lines))
    handles = {}
    for ax, (metric, words) in zip(axes, SHOWN.items(), strict=True):
        for label, (_, line) in lines.items():
            values = line[metric]
            m = np.arange(1, values.shape[1] + 1)
            handles[label] = band(ax, m, values, styles[label], marker="o", markersize=3.5)
        ax.set(xlabel="cycles used", ylabel=words)
        ax.xaxis.get_major_locator().set_params(integer=True)
    legend_below(canvas, dict(sorted(handles.items())), BAND)
