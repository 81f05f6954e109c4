"""Functions of theta, such as parameters on their constrained scale: their means and sds beside the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from harness import Result
from harness.reports import Column, FieldScore, Group, Request, Table, number
from reports.figures.parts import Array, FieldReport, record, task_of

COLUMNS = (
    Column("function", "function"), Column("method", "method"), Column("seeds", "seeds", "right"),
    Column("mean", "mean", "right"), Column("true_mean", "true mean", "right"), Column("sd", "sd", "right"),
    Column("true_sd", "true sd", "right"), Column("error", "error of the mean (sd)", "right"),
)  # fmt: skip
NUMBERS = ("mean", "true_mean", "sd", "true_sd", "error")


class Functions(FieldReport):
    """A table for each field of runs that stored functions of their draws (`tasks.functions.FunctionTask`).

    For each function and method it has mean and sd of the stored draws of all chains and seeds, by their weights, the
    true ones if they are known, and the difference of the means in true sds.
    """

    name: ClassVar[str] = "functions"

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        task = task_of(score.groups[0], request)
        if not hasattr(task, "function_names"):
            note = f"{score.title}: the task states no functions (tasks.functions.FunctionTask)"
            return Result(notes=[note] if request.tasks else [])
        records, notes = [], []
        for group in score.groups:
            label = score.labels[group.key]
            rows = _rows(score, group, task.function_names())
            records += [record("", group, method=label, **row, run_keys=[r.key for r in group.done]) for row in rows]
            notes += [] if rows else [f"{label}: no finished run with functions of its draws"]
        order = {function: k for k, function in enumerate(dict.fromkeys(row["function"] for row in records))}
        shown = [
            {**row, **{key: "-" if row[key] is None else number(row[key]) for key in NUMBERS}}
            for row in sorted(records, key=lambda row: order[row["function"]])
        ]
        note = "of the draws that a run stores: at most 500 of a chain; error: mean less true mean, in true sds"
        tables = [Table(score.title, COLUMNS, shown, [note, *score.failures()])] if shown else []
        return Result(tables, records, notes=notes)


def _rows(score: FieldScore, group: Group, functions: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Return a row for each number of each function."""
    names = [f"function_{name}" for name in functions]
    stored = [score.arrays(run, *names, "kept_weights", "true_moments") for run in group.done]
    seeds = [arrays for arrays in stored if arrays is not None]
    if not seeds:
        return []
    shares = np.concatenate([arrays["kept_weights"].ravel() / arrays["kept_weights"].sum() for arrays in seeds])
    truth = dict(zip(_labels(functions), seeds[-1]["true_moments"].T.tolist(), strict=True))
    rows = []
    for name, labels in functions.items():
        values = np.concatenate([arrays[f"function_{name}"].reshape(-1, len(labels)) for arrays in seeds])
        mean, sd = _moments(values.astype(np.float64), shares / len(seeds))
        for k, label in enumerate(labels):
            known = [value if np.isfinite(value) else None for value in truth[label]]
            error = None if None in known else (mean[k] - known[0]) / known[1]
            row = {"function": label, "seeds": len(seeds), "mean": float(mean[k]), "true_mean": known[0]}
            rows.append({**row, "sd": float(sd[k]), "true_sd": known[1], "error": error})
    return rows


def _labels(functions: Mapping[str, list[str]]) -> list[str]:
    return [label for labels in functions.values() for label in labels]


def _moments(values: Array, shares: Array) -> tuple[Array, Array]:
    """Return mean and sd (k,) of values (n, k) with shares (n,)."""
    mean = shares @ values
    return mean, np.sqrt(shares @ (values - mean) ** 2)
