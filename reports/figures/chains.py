"""Reports on the chains of single runs: which coordinates they show, and their layout, one row per method."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import BenchError, Result, diagnostics
from harness.reports import FieldScore, Request
from reports.figures.parts import Array, FieldReport, Panel, field_figure, heading, kept_draws, shown, task_of

if TYPE_CHECKING:
    from harness.tasks import Truth

SHOWN = 2
"""Coordinates of a figure."""
SEARCHED = 1_000
"""Coordinates, evenly spaced, from which those to show are chosen."""
FEWEST = 8
"""Least number of draws of a chain for a figure."""
CHAINS = 8
"""Most chains that are shown separately."""


@dataclass(frozen=True, eq=False)
class Coordinate:
    """A coordinate to show: its index, why it was chosen, mean and sd of the truth if known, and the draws (n, C) of
    each method.
    """

    index: int
    why: str
    truth: tuple[float, float] | None
    draws: Mapping[str, Array]

    @property
    def name(self) -> str:
        """The name for axes."""
        return rf"$\theta_{{{self.index + 1}}}$"

    @property
    def title(self) -> str:
        """The title for columns."""
        return f"{self.name}{f', {self.why}' if self.why else ''}"


class ChainReport(FieldReport):
    """A figure for each field (task, protocol, chains, budget) of the kept draws of each method's lowest finished seed.

    Of more than two coordinates two are shown: the one with the lowest bulk ESS and the one with the largest error of
    the mean, of any method; of more than 1,000, both are chosen among 1,000 evenly spaced ones.

    each_row  inches of a method's row; 0 for a figure of one row
    note      the caption
    weighs    whether draws count by their weights, if they have weights
    """

    shown = shown("figure", "method", seed="", draws=",", coordinates=",")
    each_row: ClassVar[float] = 1.6
    width: ClassVar[float] = 4.2
    note: ClassVar[str]
    weighs: ClassVar[bool] = False

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        panels, notes = kept_draws(score)
        notes += [
            f"{panel.label}: {len(panel.steps)} draws a chain; this figure needs {FEWEST}"
            for panel in panels
            if len(panel.steps) < FEWEST
        ]
        panels = [panel for panel in panels if len(panel.steps) >= FEWEST]
        if not panels:
            return Result(notes=notes)
        if not self.weighs:
            notes += [
                f"{panel.label}: its draws have weights, which this figure ignores"
                for panel in panels
                if panel.weighted
            ]
        records = [panel.record(name, draws=panel.count, coordinates=panel.dim) for panel in panels]
        columns = min(SHOWN, panels[0].dim)
        height = self.row(panels[0]) * len(panels) + 1.3 if self.each_row else 4.2
        size, title = (max(self.width * columns + 0.6, 5.4), height), f"{heading(score)}, {seeds(panels)}"

        def draw(canvas: Any) -> None:
            task = _task(panels[0], request)
            self.draw(canvas, panels, coordinates(panels, None if task is None else task.truth()), task)

        return Result(records=records, figures=[field_figure(name, score, draw, size, self.note, title)], notes=notes)

    def row(self, panel: Panel) -> float:
        """Return the inches of a method's row."""
        return self.each_row

    @abstractmethod
    def draw(self, canvas: Any, panels: Sequence[Panel], chosen: Sequence[Coordinate], task: Any) -> None:
        """Draw these coordinates of these runs; the task is None if it cannot be made."""


def seeds(panels: Sequence[Panel]) -> str:
    """Return the seeds of the runs shown, as text."""
    numbers = sorted({panel.run.seed for panel in panels})
    return f"seed {numbers[0]}" if len(numbers) == 1 else "the lowest finished seed of each method"


def _task(panel: Panel, request: Request) -> Any:
    try:
        return task_of(panel.group, request)
    except BenchError:  # it is not installed, or has other settings now
        return None


def coordinates(panels: Sequence[Panel], truth: Truth | None) -> list[Coordinate]:
    """Return the coordinates to show, the one with the lowest ESS first."""
    dim = panels[0].dim
    index = np.unique(np.linspace(0, dim - 1, min(dim, SEARCHED)).round().astype(int))
    draws = {panel.label: panel.columns(index) for panel in panels}
    chosen = {0: ""} if dim == 1 else dict.fromkeys(range(SHOWN), "") if dim <= SHOWN else _worst(draws, index, truth)
    return [
        Coordinate(
            index=int(index[k]),
            why=why,
            truth=None if truth is None else (float(truth.mean[index[k]]), float(truth.sd[index[k]])),
            draws={label: x[:, :, k] for label, x in draws.items()},
        )
        for k, why in chosen.items()
    ]


def _worst(draws: Mapping[str, Array], index: Any, truth: Truth | None) -> dict[int, str]:
    """Return the places in `index` of the lowest bulk ESS, and of the largest error or else the next lowest ESS."""
    ess = np.stack([np.nan_to_num(diagnostics.bulk_ess(x), nan=0.0) for x in draws.values()])
    order = ess.min(axis=0).argsort()
    labels = list(draws)
    first = int(order[0])
    lowest = {first: f"lowest ESS ({labels[int(ess[:, first].argmin())]})"}
    if truth is None:
        return lowest | {int(order[1]): "next lowest ESS"}
    error = np.stack([np.abs(x.mean(axis=(0, 1)) - truth.mean[index]) / truth.sd[index] for x in draws.values()])
    error[:, first] = -1.0
    worst = int(error.max(axis=0).argmax())
    return lowest | {worst: f"largest error of the mean ({labels[int(error[:, worst].argmax())]})"}


def rows(canvas: Any, panels: Sequence[Panel], titles: Sequence[str], x: str, **shared: Any) -> list[list[Any]]:
    """Return axes with a row for each method and a column for each title, labelled at the edge."""
    axes = canvas.subplots(len(panels), len(titles), squeeze=False, **shared)
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize="small")
    for ax, panel in zip(axes[:, 0], panels, strict=True):
        ax.annotate(
            panel.label, (0, 1), xytext=(2, 2), xycoords="axes fraction", textcoords="offset points", fontsize="small",
            fontweight="bold",
        )  # fmt: skip
    for ax in axes[-1]:
        ax.set_xlabel(x)
    return [list(line) for line in axes]


def some(chains: int) -> list[int]:
    """Return the chains that are shown separately, evenly spaced."""
    return np.unique(np.linspace(0, chains - 1, min(chains, CHAINS)).round().astype(int)).tolist()


def chain_colours(count: int) -> list[Any]:
    """Return a shade for each of `count` chains; other colours belong to methods."""
    from matplotlib import colormaps

    return list(colormaps["viridis"](np.linspace(0.0, 0.9, max(count, 1))))
