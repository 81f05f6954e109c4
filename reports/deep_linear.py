"""Estimates of learning coefficients in a results folder, as a table: `python -m reports.deep_linear RESULTS`.

It reads the curve `learning_coefficient` of the runs of deep linear networks: the true value and each chain's estimate.
"""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import harness

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

CURVE = "learning_coefficient"
GROUP = ["task", "method", "steps", "group_key"]


def right_order(true: ArrayLike, estimates: ArrayLike) -> float:
    """Return the share of pairs of networks whose estimates (n,) are in the order of the true values (n,).

    Pairs with equal true values do not count; equal estimates of others count as one half. NaN if no pair counts.
    """
    x, y = (np.sign(np.subtract.outer(v, v)) for v in (np.asarray(true), np.asarray(estimates)))
    return float((1 + x * y)[x > 0].mean() / 2) if (x > 0).any() else math.nan


def rows(curves: pl.DataFrame, runs: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a row for each setting of a method on a task, from `curves` and `runs` of `harness.load`.

    `error` is the median over the networks of |estimate - true| / true, `least` and `largest` are of estimate / true.
    The estimate of a run is the mean of its chains'.
    """
    points = curves.filter(pl.col("curve") == CURVE).explode("x", "y").group_by("run_key").agg(pl.col("x", "y").mean())
    both = runs.filter(pl.col("task").str.starts_with("dln-")).join(points, on="run_key", how="left")
    table = []
    for (task, method, steps, _), group in both.sort(*GROUP, "seed").group_by(GROUP, maintain_order=True):
        done = group.filter(pl.col("y").is_finite())
        true, estimates = done["x"].to_numpy(), done["y"].to_numpy()
        ratio = estimates / true
        schedule = json.loads(group["schedule_params"][0])
        numbers = (
            {"error": np.median(np.abs(ratio - 1)), "least": ratio.min(), "largest": ratio.max()} if len(done) else {}
        )
        table.append(
            {
                "task": task,
                "method": method,
                "step size": schedule.get("step_size"),
                "steps": steps,
                "networks": len(done),
                "no estimate": len(group) - len(done),
                **dict.fromkeys(("error", "least", "largest")),
                **{name: float(value) for name, value in numbers.items()},
                "right order": right_order(true, estimates),
            }
        )
    return table


def main(folder: str) -> None:
    """Print the table as Markdown."""
    results = harness.load(folder)
    table = rows(results.curves, results.runs)
    if not table:
        sys.exit(f"{folder}: no run of a deep linear network")
    lines = [list(table[0]), ["---"] * len(table[0]), *[[_text(value) for value in row.values()] for row in table]]
    sys.stdout.write("".join(f"| {' | '.join(line)} |\n" for line in lines))


def _text(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main(sys.argv[1])
