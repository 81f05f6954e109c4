"""Out-of-distribution detection: ROC curves, and histograms of the score on seen and on unseen images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from harness import Result, diagnostics
from harness.reports import FieldScore, Request
from reports.figures.entropy import PREFIX, SEEN, unseen_sets
from reports.figures.parts import (
    BAND,
    Array,
    FieldReport,
    band,
    field_figure,
    legend_below,
    legend_height,
    record,
    shown,
)
from reports.figures.styles import looks

RATES = np.linspace(0, 1, 201)
BINS = 30


class OutOfDistribution(FieldReport):
    """A figure for each field of classifiers that saw images of unknown classes, with a row for each set.

    It shows the ROC curve of separating the set from the test images by the entropy of the posterior mean's prediction,
    one line per method; and the histograms of the entropy on the test images and on the set. `bench report entropy` has
    the table of the scores.
    """

    name: ClassVar[str] = "ood"
    shown = shown("figure", "method", "unseen", seeds="", auroc=".4f")

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        sets = unseen_sets(score)
        if not sets:
            note = f"{score.groups[0].task} has no images of unknown classes"
            return Result(notes=[note] if request.tasks else [])
        entropies: dict[str, list[dict[str, Any]]] = {}
        notes, records = [], []
        for group in score.groups:
            label = score.labels[group.key]
            stored = [score.arrays(run, *(PREFIX + one for one in (SEEN, *sets))) for run in group.done]
            seeds = [arrays for arrays in stored if arrays is not None]
            if not seeds:
                notes.append(f"{label}: no finished run with entropies")
                continue
            entropies[label] = seeds
            for one in sets:
                each = [diagnostics.ood.auroc(seed[PREFIX + SEEN], seed[PREFIX + one]) for seed in seeds]
                values = {"unseen": one, "seeds": len(seeds), "auroc": float(np.mean(each))}
                run_keys = [run.key for run in group.done]
                records.append(record(name, group, method=label, **values, run_keys=run_keys))
        if not entropies:
            return Result(notes=notes)
        caption = (
            "Left: the share of the unseen images that are found against the share of test images taken for "
            "unseen, by the entropy of the prediction; the diagonal is chance. Middle and right: densities of the "
            f"entropy on the test images and on the unseen set. {BAND}."
        )
        size = (9.6, 2.5 * len(sets) + 0.7 + legend_height(entropies, 9.6))
        figure = field_figure(name, score, lambda canvas: _draw(canvas, entropies, sets), size, caption)
        return Result(records=records, figures=[figure], notes=notes)


def roc(seen: Array, unseen: Array) -> Array:
    """Return the share of unseen scores above the threshold for each share `RATES` of seen ones; ties are straight."""
    scores = np.concatenate([seen, unseen])
    thresholds = np.unique(scores)[::-1]
    false, true = (np.concatenate([[0.0], 1 - _below(values, thresholds), [1.0]]) for values in (seen, unseen))
    return np.asarray(np.interp(RATES, false, np.maximum.accumulate(true)))


def _below(values: Array, at: Array) -> Array:
    """Return the share of values strictly below each point."""
    return np.searchsorted(np.sort(values), at, side="left") / len(values)


def _draw(canvas: Any, entropies: Mapping[str, list[dict[str, Any]]], sets: list[str]) -> None:
    axes = canvas.subplots(len(sets), 3, squeeze=False)
    styles = looks(list(entropies))
    shown = [seed[PREFIX + one] for seeds in entropies.values() for seed in seeds for one in (SEEN, *sets)]
    top = max(float(values.max()) for values in shown)
    edges = np.linspace(0, top, BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    handles: dict[str, Any] = {}
    for line, one in zip(axes, sets, strict=True):
        line[0].plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=0.9)
        for label, seeds in entropies.items():
            curves = np.stack([roc(seed[PREFIX + SEEN], seed[PREFIX + one]) for seed in seeds])
            handles[label] = band(line[0], RATES, curves, styles[label], linewidth=1.4)
            for ax, name in zip(line[1:], (SEEN, one), strict=True):
                heights = np.stack([np.histogram(seed[PREFIX + name], edges, density=True)[0] for seed in seeds])
                band(ax, middle, heights, {**styles[label], "marker": ""}, linewidth=1.2, drawstyle="steps-mid")
        line[0].set(xlim=(0, 1), ylim=(0, 1.01), ylabel="unseen found", title=f"ROC: {one} against test images")
        line[1].set(ylabel="density", title="test images")
        line[2].set_title(f"{one}, unseen")
        for ax in line[1:]:
            ax.set_xlim(0, top)
            ax.set_yscale("symlog", linthresh=0.1)
            ax.set_ylim(bottom=0)
        for ax in line:
            ax.title.set_fontsize("small")
    axes[-1][0].set_xlabel("test images taken for unseen")
    for ax in axes[-1][1:]:
        ax.set_xlabel("predictive entropy (nats)")
    legend_below(canvas, dict(sorted(handles.items())), BAND)
