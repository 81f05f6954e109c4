"""Errors against cycles, passes and seconds: the right points of the stored curves, averaged over seeds."""

import numpy as np
import pytest
from safetensors.numpy import save
from scored import store, write_run

from harness.reporting.rendering import figures
from harness.reporting.report import Request
from reports.figures.curves import Curves
from reports.figures.cycles import Cycles

PASSES = np.arange(1.0, 7)


def write(results, method="csgld", seed=0, shift=0.0, cycle=(0, 0, 1, 1, 2, 2), first=0, chains=2, **changes):
    """Running error 10, 9 .. 5 plus a shift, NaN before `first`; draws of each chain 20 below and above 40 - k."""
    error = np.where(np.arange(6) >= first, 10.0 - np.arange(6) + shift, np.nan)
    single = 40.0 - np.arange(6) + np.array([[-20.0], [20.0]])[:chains]
    curves = {"test_error": (PASSES, error[None]), "nll": (PASSES, error[None] / 10)}
    arrays = {"cycle": np.repeat(cycle, chains), "chain": np.tile(np.arange(chains), 6)}
    write_run(
        results, method=method, seed=seed, chains=chains, metrics={"test_error": 3.0}, passes=6.0,
        curves=curves | {"single_test_error": (PASSES, single)}, files={"arrays.safetensors": save(arrays)}, **changes,
    )  # fmt: skip


def values(built, metric, key="mean"):
    return [record[key] for record in built.records if record["metric"] == metric]


def test_the_ensemble_of_m_cycles_is_the_running_mean_at_the_end_of_the_mth(tmp_path):
    for seed in (0, 1):
        write(tmp_path, seed=seed, shift=2 * seed)
    built = Cycles().build(store(tmp_path), Request())
    assert values(built, "test_error") == pytest.approx([10, 8, 6])
    assert values(built, "nll") == pytest.approx([1.0, 0.8, 0.6])
    assert [record["cycles_used"] for record in built.records[::2]] == [1, 2, 3]
    assert [row["test_error"] for row in built.tables[0].rows] == pytest.approx([10, 8, 6])


def test_cycles_before_the_first_averaged_draw_have_no_ensemble(tmp_path):
    write(tmp_path, first=2)
    built = Cycles().build(store(tmp_path), Request())
    assert [record["cycles_used"] for record in built.records] == [2, 2, 3, 3]
    figures.drawn(built.figures[0], "svg")


def test_runs_without_cycles_or_arrays_are_left_out_and_named_where_asked_for(tmp_path):
    for report in (Cycles(), Curves()):
        assert not report.build(store(tmp_path), Request()).records
    write(tmp_path, method="sgld", cycle=[0] * 6)
    assert not Cycles().build(store(tmp_path), Request()).notes
    asked = Request(tasks=("mixture25",))
    assert Cycles().build(store(tmp_path), asked).notes == ["mixture25: no method with several cycles was run"]
    write_run(tmp_path, method="csghmc", chains=2, metrics={"test_error": 1.0}, number=1)
    (note,) = Cycles().build(store(tmp_path), asked).notes
    assert note == "csghmc: not all runs have cycles and curves of their errors"
    built = Curves().build(store(tmp_path), asked)
    assert built.notes == ["csghmc: no curves of errors at the same passes in all its runs"]
    assert {record["method"] for record in built.records} == {"sgld"}
