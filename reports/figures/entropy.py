"""How sure each method is of images that it cannot know: the distribution of the predictive entropy, and detection."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.analysis.diagnostics.ood import ecdf
from harness.reporting.report import Figure, Report, Request, Result, Table
from harness.reporting.scoring import FieldScore, check_metric, score_fields
from reports.figures.parts import looks
from reports.tables import wide

if TYPE_CHECKING:
    from harness.results.store import Store

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
    "auroc_maxprob_{}": "AUROC, max p",
    "aupr_maxprob_{}": "AUPR, max p",
    "fpr95_maxprob_{}": "FPR at 95 %, max p",
}

Panels = dict[str, dict[str, list[Array]]]
"""Set -> method -> the entropies (n,) of each seed."""


class Entropy(Report):
    """A figure for each field with unseen images (task, protocol, chains, budget): the empirical distribution function
    of the entropy of the posterior mean's predictions on the test images and on each unseen set, a line a method, the
    mean over seeds in a band from the lowest to the highest. On unseen images the lower line is the better one; on test
    images it is not.

    A table for each unseen set says how well it is told from the test images by the entropy, and by the largest
    probability. It is ranked by the AUROC of the entropy, or by `request.metric`.
    """

    name: ClassVar[str] = "entropy"
    summary: ClassVar[str] = "predictive entropy on unseen images, and their detection"

    def build(self, store: Store, request: Request) -> Result:
        scores = [score for score in score_fields(store, request) if unseen_sets(score)]
        if request.metric:
            check_metric(scores, request.metric)
        tables, figures, notes, records = [], [], [], []
        for score in scores:
            panels, missing = _panels(store, score)
            notes += missing
            if panels:
                figures.append(_figure(score, panels, {figure.name for figure in figures}))
            for name in unseen_sets(score):
                by = request.metric if request.metric in score.metrics else f"auroc_{name}"
                tables.append(_table(score, name, by or ""))
                wanted = [metric for text in COLUMNS if (metric := text.format(name)) in score.metrics]
                records += [{**record, "ranked_by": record["metric"] == by} for record in score.records(wanted)]
        return Result(tables=tables, records=records, figures=figures, notes=notes)


def unseen_sets(score: FieldScore) -> list[str]:
    """The sets whose entropy a field has a metric of."""
    return [name.removeprefix(PREFIX) for name in score.metrics if name.startswith(PREFIX)]


def _table(score: FieldScore, name: str, by: str) -> Table:
    shown = {header: text.format(name) for text, header in COLUMNS.items() if text.format(name) in score.metrics}
    columns = {header: wide.metric_cell(score, metric) for header, metric in shown.items()}
    note = (
        f"AUROC, AUPR: of finding {name} among the test images by the entropy of the prediction, or by its largest "
        f"probability (max p); FPR at 95 %: share of {name} accepted where 95 % of the test images are; certain: share "
        f"of {name} below 0.5 nats"
    )
    made = wide.build(score, by, columns, [note])
    return replace(made, title=f"{name}: {made.title}")


def _panels(store: Store, score: FieldScore) -> tuple[Panels, list[str]]:
    """The entropies on the test images and on each unseen set, and who has none."""
    from safetensors.numpy import load_file

    panels: Panels = {}
    missing = []
    for group in score.groups:
        paths = [store.path.parent / run.path / "arrays.safetensors" for run in group.done]
        found = [load_file(path) for path in paths if path.is_file()]
        label = score.labels[group.key]
        if not found:
            missing.append(f"{label}: no finished run with entropies")
        for name in (SEEN, *unseen_sets(score)):
            values = [arrays[PREFIX + name] for arrays in found if PREFIX + name in arrays]
            if values:
                panels.setdefault(name, {})[label] = values
    return panels, missing


def _figure(score: FieldScore, panels: Panels, taken: Collection[str]) -> Figure:
    first = score.groups[0]
    name = f"entropy-{first.task}-{first.protocol}-{first.budget.replace('=', '-')}-{first.chains}x"
    if name in taken:  # the same but for settings of the task
        name += f"-{first.key[:8]}"
    columns = min(len(panels), 2)
    lines = -(-len(panels) // columns)
    return Figure(
        name=name,
        draw=lambda canvas: _draw(canvas, panels, columns, score.title),
        size=(3.5 * columns + 1.6, 2.9 * lines + 0.5),
        caption=score.title,
    )


def _draw(canvas: Any, panels: Panels, columns: int, heading: str) -> None:
    top = max(float(values.max()) for lines in panels.values() for seeds in lines.values() for values in seeds)
    at = np.linspace(0, top, POINTS)
    axes = canvas.subplots(-(-len(panels) // columns), columns, squeeze=False, sharex=True, sharey=True)
    handles: dict[str, Any] = {}
    styles = _styles(panels)
    for ax, (name, lines) in zip(axes.flat, panels.items(), strict=False):
        for label in styles:
            if label not in lines:
                continue
            shares = np.stack([ecdf(values, at) for values in lines[label]])
            (handles[label],) = ax.plot(at, shares.mean(axis=0), linewidth=1.3, **styles[label])
            ax.fill_between(
                at, shares.min(axis=0), shares.max(axis=0), color=styles[label]["color"], alpha=0.15, linewidth=0
            )
        ax.set_title(f"{name} images{'' if name != SEEN else ' (seen classes)'}")
        ax.set_ylim(0, 1)
        ax.margins(x=0)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax in axes[-1]:
        ax.set_xlabel("predictive entropy (nats)")
    for ax in axes[:, 0]:
        ax.set_ylabel("share of images below")
    canvas.legend(handles=list(handles.values()), labels=list(handles), loc="outside right upper", frameon=False)
    canvas.suptitle(heading, fontsize="medium")


def _styles(panels: Panels) -> dict[str, dict[str, Any]]:
    """A colour and a stroke for each method by its name; in the order of the lines on the unseen sets together."""
    lines: dict[str, list[Array]] = {}
    for name in [name for name in panels if name != SEEN]:
        for label, seeds in panels[name].items():
            lines.setdefault(label, []).extend(seeds)
    named = looks(list(lines))
    return {label: named[label] for label in sorted(lines, key=lambda label: np.mean(np.concatenate(lines[label])))}
