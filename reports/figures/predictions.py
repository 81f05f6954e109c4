"""The kept predictions of classifiers: the posterior mean's probabilities for the test images, and their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.reports import FieldScore, Group, Run
from reports.figures.parts import Array

HOW = (
    "no predictions of a finished run are on disk, as of a run before they were kept, or of more than 4 million "
    "probabilities; `bench run` of another seed, or with another --results, keeps them"
)


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of one run: the largest probability (n,) for each test image, and whether its class is right."""

    run: Run
    confidence: Array
    right: NDArray[np.bool_]


def is_classifier(score: FieldScore) -> bool:
    """Return whether the runs of a field have test errors of averaged predictions."""
    return any({"test_error", "nll"} <= set(group.metrics()) for group in score.groups)


def predictions(score: FieldScore) -> tuple[dict[str, tuple[Group, list[Predictions]]], list[str]]:
    """Return the group and the predictions of its runs by label, sorted by seed, and a note for each group without."""
    by_label: dict[str, tuple[Group, list[Predictions]]] = {}
    missing = []
    for group in score.groups:
        label = score.labels[group.key]
        kept = [(run, score.arrays(run, "probabilities", "classes")) for run in group.done]
        runs = [_of(run, arrays) for run, arrays in kept if arrays is not None]
        if runs:
            by_label[label] = group, sorted(runs, key=lambda one: one.run.seed)
        else:
            missing.append(f"{label}: {HOW}" if group.done else f"{label}: no finished run")
    return by_label, missing


def _of(run: Run, arrays: Mapping[str, Any]) -> Predictions:
    p = arrays["probabilities"].astype(np.float64)
    return Predictions(run, p.max(axis=1), p.argmax(axis=1) == arrays["classes"])


def keys(runs: Sequence[Predictions]) -> list[str]:
    """Return the keys of the runs."""
    return [one.run.key for one in runs]
