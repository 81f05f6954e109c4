"""The table of learning coefficients: the order of pairs, and rows from frames."""

import json
import math

import polars as pl
import pytest

from reports.deep_linear import right_order, rows


def test_pairs_in_the_right_order():
    assert right_order([1, 2, 3], [10, 20, 30]) == 1
    assert right_order([1, 2, 3], [30, 20, 10]) == 0
    assert right_order([1, 2, 3], [10, 30, 20]) == pytest.approx(2 / 3)
    assert right_order([1, 1, 2], [5, 9, 9]) == pytest.approx(3 / 4)
    assert math.isnan(right_order([1, 1], [1, 2]))


def frames():
    """Two settings on three networks, and a run that diverged; the second chain of each is off by as much."""
    names = [f"{group}{seed}" for group in "ab" for seed in range(3)] + ["b3"]
    runs = pl.DataFrame(
        {
            "run_key": names,
            "group_key": [name[0] for name in names],
            "task": "dln-1k",
            "method": ["sgld"] * 3 + ["psgld"] * 4,
            "steps": 100,
            "seed": [0, 1, 2, 0, 1, 2, 3],
            "status": ["done"] * 6 + ["no estimate"],
            "schedule_params": [json.dumps({"step_size": 1e-7 if name[0] == "a" else 0.5}) for name in names],
        }
    )
    true = dict(zip(names, [10.0, 20.0, 40.0] * 2, strict=False))
    estimate = dict(zip(names, [11.0, 18.0, 40.0, 30.0, 20.0, 10.0], strict=False))
    chains = [(name, estimate[name] + off) for name in names[:6] for off in (-1, 1)]
    curves = pl.DataFrame(
        {
            "run_key": [name for name, _ in chains],
            "curve": "learning_coefficient",
            "x": [[true[name]] for name, _ in chains],
            "y": [[value] for _, value in chains],
        }
    )
    return curves, runs


def test_rows_are_of_networks_and_settings():
    second, first = rows(*frames())
    assert (first["method"], first["networks"], first["no estimate"], first["step size"]) == ("sgld", 3, 0, 1e-7)
    assert [first[name] for name in ("error", "least", "largest")] == pytest.approx([0.1, 0.9, 1.1])
    assert first["right order"] == 1
    assert (second["method"], second["networks"], second["no estimate"]) == ("psgld", 3, 1)
    assert second["right order"] == 0


def test_a_setting_whose_runs_all_diverged_has_no_numbers():
    curves, runs = frames()
    (row,) = rows(curves.filter(pl.col("run_key") == ""), runs.filter(pl.col("run_key") == "b3"))
    assert (row["networks"], row["no estimate"], row["error"]) == (0, 1, None)
    assert math.isnan(row["right order"])
