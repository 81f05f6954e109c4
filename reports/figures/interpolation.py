"""Whether two draws are in one valley: the test error of the networks on the line between them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.contracts.randomness import Streams
from harness.reporting.report import Column, Figure, Report, Request, Result, Table
from harness.reporting.scoring import Group, Run, labels
from harness.system.errors import BenchError
from reports.figures.draws import task_of
from reports.figures.ends import ends_of_cycles, pair
from reports.figures.parts import (
    COLOURS,
    about,
    figure_name,
    first_done,
    legend_below,
    name_figure,
    name_panel,
    titled_fields,
)

if TYPE_CHECKING:
    from harness.results.store import Store

Array = NDArray[np.float64]

PLACES = [k / 10 for k in range(11)]
PAIRS = 3
HOW = "`bench run --draws all` keeps them, of runs that are not done yet (another seed, or another --results)"
STROKES = {"as they are": "--", "recomputed": "-"}


class Interpolation(Report):
    """A figure for each field (task, protocol, chains, budget) of classifiers whose draws were kept, a panel a method:

        error(t) of the network with the weights (1 - t) theta_a + t theta_b,   t = 0, 0.1 .. 1,

    on the first 2,000 test images, between the last draws of consecutive cycles (the first three pairs) of chain 0 of
    the lowest finished seed; of a run with one cycle between its first and its last draw. Networks with batch
    normalisation have two lines: dashed with the draws' statistics, on the line too, solid with statistics that were
    computed anew from training batches at each place. Only the solid one is about the weights: the other one has a
    barrier of statistics that fit no network. `barrier` is the largest error less that of the straight line between
    the ends, in percentage points.

    It needs the draws, which networks keep only where they are told to: `bench run --draws all`. It builds the task
    and takes each network through the images, which takes a while for large ones.

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, figure 3 (b).
    """

    name: ClassVar[str] = "interpolation"
    summary: ClassVar[str] = "test error on the line between draws of two cycles"

    def build(self, store: Store, request: Request) -> Result:
        figures: list[Figure] = []
        records: list[dict[str, Any]] = []
        notes: list[str] = []
        for field, heading in titled_fields(store, request):
            if not any("single_test_error" in group.metrics() for group in field):
                notes += [f"{field[0].task} has no network to take between draws"] if request.tasks else []
                continue
            panels, missing = _panels(store, field, request)
            notes += missing
            if panels:
                name = figure_name(self.name, field[0], {figure.name for figure in figures})
                figures.append(_figure(name, heading, panels))
                records += [record for panel in panels for record in panel.records(name)]
        columns = [Column(k, k.replace("_", " ")) for k in ("method", "statistics")]
        columns += [Column(k, k, "right", ",") for k in ("seed", "from_step", "to_step")]
        columns += [Column(k, k, "right", ".3g") for k in ("start", "highest", "end", "barrier")]
        notes_of_table = ["test errors in percent; barrier: most above the straight line between the ends"]
        tables = [
            Table(f.caption, columns, [r for r in records if r["figure"] == f.name], notes_of_table) for f in figures
        ]
        return Result(tables, records, figures, notes)


@dataclass(frozen=True, eq=False)
class Panel:
    """One run: pairs of steps whose draws are joined, and the errors (P,) along each line by kind of statistics."""

    label: str
    group: Group
    run: Run
    lines: Sequence[tuple[tuple[int, int], dict[str, Array]]]

    def records(self, figure: str) -> list[dict[str, Any]]:
        """Flat, one a line."""
        return [
            {
                "figure": figure, **about(self.group), "method": self.label, "seed": self.run.seed,
                "from_step": first, "to_step": last, "statistics": kind, "start": float(y[0]), "end": float(y[-1]),
                "highest": float(y.max()), "barrier": float((y - np.interp(PLACES, [0, 1], y[[0, -1]])).max()),
                "errors": y.tolist(), "run_keys": [self.run.key],
            }
            for (first, last), errors in self.lines
            for kind, y in errors.items()
        ]  # fmt: skip


def _panels(store: Store, field: Sequence[Group], request: Request) -> tuple[list[Panel], list[str]]:
    names = labels(field)
    panels, missing = [], []
    for group in field:
        run = first_done(group)
        ends = ends_of_cycles(store, run, PAIRS + 1) if run else []
        if run is None or len(ends) < 2:
            missing.append(f"{names[group.key]}: no two draws of a finished run are on disk; {HOW}")
            continue
        try:
            problem = task_of(group, request).build([Streams(run.seed, 0, (group.task,))], "cpu")
        except BenchError as error:  # a task of other settings than it has now, data that are not there
            missing.append(f"{names[group.key]}: {error}")
            continue
        lines = [
            ((a.step, b.step), problem.on_line(pair(a.theta, b.theta), pair(a.statistics, b.statistics), PLACES))
            for a, b in itertools.pairwise(ends)
        ]
        panels.append(Panel(names[group.key], group, run, lines))
    return panels, missing


def _figure(name: str, heading: str, panels: Sequence[Panel]) -> Figure:
    columns = min(len(panels), 4)
    lines = -(-len(panels) // columns)
    size = (max(2.7 * columns + 0.5, 6.4), 2.6 * lines + 1.2)
    return Figure(name, lambda canvas: _draw(canvas, panels, columns, heading), size, heading)


def _draw(canvas: Any, panels: Sequence[Panel], columns: int, heading: str) -> None:
    axes = canvas.subplots(-(-len(panels) // columns), columns, squeeze=False, sharex=True, sharey=True)
    handles: dict[str, Any] = {}
    for panel, ax in zip(panels, axes.flat, strict=False):
        for k, (_, errors) in enumerate(panel.lines):
            for kind, y in errors.items():
                stroke, kinds = (STROKES[kind], f", statistics {kind}") if len(errors) > 1 else ("-", "")
                style = {"color": COLOURS[k], "marker": "o", "markersize": 2.5, "linewidth": 1.2}
                (handles[f"pair {k + 1}{kinds}"],) = ax.plot(PLACES, y, stroke, **style)
        name_panel(ax, panel.label)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for i, ax in enumerate(axes.flat[: len(panels)]):
        if i + columns >= len(panels):  # the lowest of its column
            ax.tick_params(labelbottom=True)
            ax.set_xlabel("t, from one draw to the other")
    for ax in axes[:, 0]:
        ax.set_ylabel("test error (%)")
    legend_below(canvas, dict(sorted(handles.items())))
    name_figure(canvas, heading)
