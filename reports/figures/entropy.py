"""How certain each method is about images of unknown classes: the distribution of the predictive entropy, detection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness import Result
from harness.reports import FieldScore, Figure, Request, Table
from reports.figures.parts import BAND, FieldReport, band, field_figure, grid, legend_below, legend_height
from reports.figures.styles import looks
from reports.tables import wide

Array = NDArray[np.floating[Any]]

POINTS = 201
SEEN = "test"
PREFIX = "entropy_"
COLUMNS = {
    "test_error": "test error (%)",
    "entropy_{}": "mean entropy",
    "low_entropy_mass_{}": "certain (share)",
    "auroc_{}": "AUROC",
    "aupr_{}": "AUPR",
    "fpr95_{}": "FPR at 95 %",
    "auroc_maxprob_{}": "AUROC of max p",
    "aupr_maxprob_{}": "AUPR of max p",
    "fpr95_maxprob_{}": "FPR at 95 % of max p",
}

Panels = dict[str, dict[str, list[Array]]]
"""Set -> method -> the entropies (n,) of each seed."""


class Entropy(FieldReport):
    """A figure for each field with unseen images (task, protocol, chains, budget).

    It shows the empirical distribution function of the entropy of the posterior mean's predictions on the test images
    and on each unseen set: one line per method, the mean over seeds in a band from the lowest to the highest. On unseen
    images a lower line is better; on test images it is not.

    A table for each unseen set shows how well the entropy, or the largest probability, separates it from the test
    images. It is ranked by the AUROC of the entropy, or by `request.metric`.
    """

    name: ClassVar[str] = "entropy"

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        tables, records = [], []
        for unseen in unseen_sets(score):
            by = request.metric if request.metric in score.metrics else f"auroc_{unseen}"
            tables.append(_table(score, unseen, by or ""))
            wanted = [metric for text in COLUMNS if (metric := text.format(unseen)) in score.metrics]
            records += [{**record, "ranked_by": record["metric"] == by} for record in score.records(wanted)]
        if not tables:
            return Result()
        panels, missing = _panels(score)
        return Result(tables, records, [_figure(name, score, panels)] if panels else [], missing)


def unseen_sets(score: FieldScore) -> list[str]:
    """Return the sets for whose entropy a field has a metric."""
    return [name.removeprefix(PREFIX) for name in score.metrics if name.startswith(PREFIX)]


def _table(score: FieldScore, name: str, by: str) -> Table:
    headers = {text.format(name): header for text, header in COLUMNS.items() if text.format(name) in score.metrics}
    beside = [metric for metric in headers if metric != by][:2]
    table = wide.build(score, by, beside, headers=headers)
    return replace(table, title=f"{name}: {table.title}")


def _panels(score: FieldScore) -> tuple[Panels, list[str]]:
    """Return the entropies on the test images and on each unseen set, and a note for each method without."""
    panels: Panels = {}
    for group in score.groups:
        for name in (SEEN, *unseen_sets(score)):
            stored = [score.arrays(run, PREFIX + name) for run in group.done]
            values = [arrays[PREFIX + name] for arrays in stored if arrays is not None]
            if values:
                panels.setdefault(name, {})[score.labels[group.key]] = values
    drawn = {label for lines in panels.values() for label in lines}
    return panels, [f"{label}: no finished run with entropies" for label in score.labels.values() if label not in drawn]


def _figure(name: str, score: FieldScore, panels: Panels) -> Figure:
    columns = min(len(panels), 2)
    width = max(3.8 * columns, 6.0)
    size = (width, 2.9 * -(-len(panels) // columns) + 0.7 + legend_height(panels[next(iter(panels))], width))
    return field_figure(name, score, lambda canvas: _draw(canvas, panels, columns), size, f"{BAND}.")


def _draw(canvas: Any, panels: Panels, columns: int) -> None:
    top = max(float(values.max()) for lines in panels.values() for seeds in lines.values() for values in seeds)
    at = np.linspace(0, top, POINTS)
    axes = grid(canvas, len(panels), columns, "predictive entropy (nats)", "share of images below")
    handles: dict[str, Any] = {}
    styles = _styles(panels)
    for ax, (name, lines) in zip(axes, panels.items(), strict=True):
        for label in styles:
            if label not in lines:
                continue
            shares = np.stack([ecdf(values, at) for values in lines[label]])
            handles[label] = band(ax, at, shares, styles[label], linewidth=1.3)
        ax.set_title(f"{name} images{'' if name != SEEN else ' (seen classes)'}")
        ax.set_ylim(0, 1)
        ax.margins(x=0)
    legend_below(canvas, handles, BAND)


def _styles(panels: Panels) -> dict[str, dict[str, Any]]:
    """Return a colour and a stroke for each method by its name, in the order of their mean entropy on unseen sets."""
    lines: dict[str, list[Array]] = {}
    for name in [name for name in panels if name != SEEN]:
        for label, seeds in panels[name].items():
            lines.setdefault(label, []).extend(seeds)
    named = looks(list(lines))
    return {label: named[label] for label in sorted(lines, key=lambda label: np.mean(np.concatenate(lines[label])))}


def ecdf(values: Any, at: Any) -> Any:
    """Return the share of values (n,) that are no larger than each of the points `at`."""
    return np.searchsorted(np.sort(values), at, side="right") / len(values)
