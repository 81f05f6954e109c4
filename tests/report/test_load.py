"""`harness.load`: the same numbers as the command line, and folders that it must not change."""

from __future__ import annotations

import hashlib
import json
import linecache
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path

import duckdb
import fabricated
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from safetensors.numpy import load_file
from scored import write_run

import harness
from harness.application.draws import Draws, read
from harness.cli.app import run
from harness.contracts.randomness import TUNING_SEED

DOCS = Path(__file__).parents[2] / "docs"
COMMAND = ["run", "--task", "mixture5", "--chains", "2", "--budget", "steps=600", "--set", "schedule.step_size=0.15"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two methods of two seeds, one of them with weighted draws; the second seed of sgld kept no draws."""
    path = tmp_path_factory.mktemp("loaded") / "results"
    command = ["--results", str(path), *COMMAND]
    assert run([*command, "--sampler", "sgld,contour-sgld", "--seeds", "0"]) == 0
    assert run([*command, "--sampler", "contour-sgld", "--seeds", "1"]) == 0
    assert run([*command, "--sampler", "sgld", "--seeds", "1", "--draws", "none"]) == 0
    return path


@pytest.fixture
def results(folder):
    return harness.load(folder)


def told(folder, capsys, *words):
    capsys.readouterr()
    assert run(["--results", str(folder), *words]) == 0
    return capsys.readouterr().out


def test_runs_and_metrics_are_rows_of_the_store(results, folder, capsys):
    assert results.runs.select("method", "seed", "status").rows() == [
        (method, seed, "done") for method in ("contour-sgld", "sgld") for seed in (0, 1)
    ]
    query = "select sum(value) as total, count(*) as n from run_metric where method = 'sgld'"
    ((totals),) = json.loads(told(folder, capsys, "--json", "sql", query))
    sgld = results.metrics.filter(pl.col("method") == "sgld")
    assert (sgld["value"].sum(), len(sgld)) == pytest.approx((totals["total"], totals["n"]))
    assert repr(results) == f"Results of {folder}: 4 runs, 2 methods, 1 task"


def test_trials_of_tuning_are_no_runs(tmp_path):
    for seed in (0, TUNING_SEED):
        fabricated.concluded(tmp_path, seed=seed)
    loaded = harness.load(tmp_path)
    assert [loaded.runs["seed"].to_list(), sorted({*loaded.metrics["seed"]})] == [[0], [0]]
    assert loaded.sql("select count(*) as n from run_status")["n"].item() == 2


def test_curves_have_a_row_for_each_chain_and_explode_to_points(results):
    points = results.curves.explode("x", "y")
    exploded = results.sql(
        "select run_key, name as curve, curve.chain, i, x, y from curve join result using (attempt) order by all"
    )
    by = ["run_key", "curve", "chain", "i"]
    points = points.with_columns(i=pl.int_range(pl.len()).over("run_key", "curve", "chain")).select(*by, "x", "y")
    assert_frame_equal(points.sort(by), exploded.sort(by))


def test_filters_choose_runs_everywhere(folder, results):
    sgld = harness.load(folder, method="sgld", chains=2)
    assert len(sgld.runs) == 2
    for frame in (sgld.runs, sgld.metrics, sgld.curves, sgld.report("leaderboard").frame()):
        assert set(frame["method"]) == {"sgld"}
    assert_frame_equal(sgld.report("leaderboard").frame(), results.report("leaderboard", method=["sgld"]).frame())
    assert set(sgld.report("leaderboard", method="contour-sgld").frame()["method"]) == {"contour-sgld"}


def test_a_report_has_the_records_of_the_command(results, folder, capsys):
    built = results.report("leaderboard", task="mixture5@adaptive-drift")
    assert harness.reports.render(built, "json") == told(folder, capsys, "--json", "report", "leaderboard")
    assert built.frame("all")["mean"].to_list() == [record["mean"] for record in built.records]
    assert len(built.frame()) == 2
    assert results.tasks == ["mixture5@adaptive-drift"]
    mains = results.metrics.filter(pl.col("is_main"))
    assert set(mains["metric"]) == {"joint_error"}
    assert len(mains) == 4
    assert built._repr_html_().count("<table") == len(built.tables)
    assert "there are results of mixture5@adaptive-drift" in results.report("entropy")._repr_html_()


def test_a_figure_is_a_matplotlib_figure_that_a_notebook_shows(results):
    figure = results.figure("density", method="contour-sgld", size=(4, 3), title="Mine")
    assert figure.get_size_inches().tolist() == [4, 3]
    assert figure.get_suptitle() == "Mine"
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert [*results.figures("density")] == ["density-mixture5-adaptive-drift-passes-6-2x"]


def test_draws_are_those_on_disk_with_their_weights(results, folder):
    kept = results.draws(method="contour-sgld", seed=1)
    arrays = load_file(folder / kept.run["path"] / "draws.safetensors")
    assert kept.draws.shape == (2, *arrays["draws"].shape[::2])
    np.testing.assert_array_equal(kept.draws[1], arrays["draws"][:, 1])
    np.testing.assert_array_equal(kept.steps, arrays["steps"])
    assert kept.weights.mean() == pytest.approx(1)
    ratio = np.exp(arrays["log_weights"][5, 0] - arrays["log_weights"][7, 1])
    assert kept.weights[0, 5] / kept.weights[1, 7] == pytest.approx(ratio, rel=1e-5)
    again = results.draws(kept.run["run_key"][:12])
    np.testing.assert_array_equal(again.draws, kept.draws)
    assert not results.draws(method="sgld", seed=0).weighted


def test_resampled_draws_stand_in_their_order_as_often_as_their_weight_says():
    weights = np.array([[0.5, 0.0, 3.0, 0.5, 1.0], [0.4, 0.4, 0.4, 0.4, 0.4]])
    weighted = Draws(np.arange(10.0, dtype=np.float32).reshape(2, 5, 1), np.arange(5), weights, {}, lambda: None)
    first, second = weighted.resampled()[:, :, 0]
    assert second.tolist() == [5, 6, 7, 8, 9]  # a chain of equal weights is left as it is
    times = [int((first == i).sum()) for i in range(5)]
    assert times[1:3] == [0, 3]
    assert sum(times) == 5
    assert (np.diff(first) >= 0).all()
    np.testing.assert_array_equal(weighted.resampled(), weighted.resampled())


WRONG = [
    (lambda r: r.draws(method="sgld"), "choose one run, by seed=.*sgld on mixture5@.*seed 1"),
    (lambda r: r.draws("feed" * 16), "no finished run matches"),
    (lambda r: r.to_arviz(), "choose one group of runs.*contour-sgld"),
    (lambda r: r.report("leaderbord"), "did you mean leaderboard"),
    (lambda r: r.report("leaderboard", method="sgdl"), "did you mean sgd, sgld"),
    (lambda r: r.report("leaderboard", metod="sgld"), "no filter 'metod'; the filters are task, method"),
    (lambda r: r.figure("leaderboard"), "has no figure of these runs"),
    (lambda r: r.sql("drop table run"), "read-only"),
]


@pytest.mark.parametrize(("asked", "message"), WRONG)
def test_what_cannot_be_meant_is_refused_with_what_to_do(results, asked, message):
    with pytest.raises(harness.UsageError, match=message):
        asked(results)


def test_draws_that_were_not_kept_name_the_command_that_keeps_them(folder, results, capsys):
    before = results.metrics.filter(pl.col("method") == "sgld")
    with pytest.raises(harness.DataError, match="it kept no draws") as error:
        results.draws(method="sgld", seed=1)
    command = shlex.split(str(error.value).partition("keeps them: bench ")[2])
    assert run(["--results", str(folder), *command]) == 0
    assert "1 finished run repeated, because not all draws were kept" in capsys.readouterr().err
    assert run(["--results", str(folder), *command]) == 0
    assert "nothing to do" in capsys.readouterr().err
    again = harness.load(folder)
    assert again.draws(method="sgld", seed=1).draws.shape == again.draws(method="sgld", seed=0).draws.shape
    same = ["run_key", "metric", "value"]
    assert_frame_equal(again.metrics.filter(pl.col("method") == "sgld").select(same), before.select(same))


def test_the_command_of_a_tuned_run_names_its_study(results):
    row = {**results._chosen("", 0, {"method": "sgld"})[0]}
    for source, words in (("study mine: 30 trials, 2e+05 data passes", "--settings mine"), ("Table 3", "")):
        row["origins"] = json.dumps({"schedule.step_size": {"value": 0.1, "provenance": "tuned", "source": source}})
        with pytest.raises(harness.DataError, match="were deleted") as error:
            read(results.path / "elsewhere", results._registry, row)
        assert words in str(error.value)
        assert words or "--settings" not in str(error.value)


def test_weights_that_an_earlier_version_did_not_keep_are_missed(results, monkeypatch):
    (row, *_) = results._chosen("", 0, {"method": "contour-sgld"})
    arrays = load_file(results.path / row["path"] / "draws.safetensors")
    del arrays["log_weights"]
    monkeypatch.setattr("safetensors.numpy.load_file", lambda _: arrays)
    with pytest.raises(harness.DataError, match="its draws have weights, which an earlier version did not keep"):
        read(results.path, results._registry, row)
    sgld = {**row, "sampler": "sgld"}
    assert not read(results.path, results._registry, sgld).weighted
    with pytest.raises(harness.DataError, match="its draws were deleted; repeat it in another folder: bench run"):
        read(results.path / "elsewhere", results._registry, row)
    decay = {**sgld, "schedule_params": '{"weights":"step-size"}'}
    with pytest.raises(harness.DataError, match="its draws have weights"):
        read(results.path, results._registry, decay)


@pytest.mark.parametrize(
    "change", [{"steps": np.arange(3)}, {"draws": np.zeros((5, 2))}, {"log_weights": np.ones(4)}, {}]
)
def test_draws_that_do_not_fit_together_are_refused(results, monkeypatch, change):
    (row, *_) = results._chosen("", 0, {"method": "contour-sgld"})
    arrays = load_file(results.path / row["path"] / "draws.safetensors") if change else {}
    monkeypatch.setattr("safetensors.numpy.load_file", lambda _: arrays | change)
    with pytest.raises(harness.DataError, match=r"draws.safetensors cannot be read: .*`bench ingest --verify`"):
        read(results.path, results._registry, row)


def contents(folder):
    return {path: hashlib.sha256(path.read_bytes()).digest() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_of_another_version_is_not_changed(folder, results, tmp_path):
    for path in folder.rglob("*.*"):
        if path.is_file():
            target = tmp_path / "results" / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    copy = tmp_path / "results"
    with duckdb.connect(copy / "results.duckdb") as db:
        db.execute("update meta set value = '6' where key = 'schema_version'")
    before = contents(copy)
    with pytest.warns(UserWarning, match=r"another version of bench .*replaces it.; the runs were read"):
        older = harness.load(copy)
    assert_frame_equal(older.metrics, results.metrics)
    assert contents(copy) == before
    (copy / "ledger.json").write_text('{"layout": 99}')
    before = contents(copy)
    with pytest.raises(
        harness.DataError, match=r"newer version .layout 99, this one knows [0-9].; upgrade sgmcmc-bench"
    ):
        harness.load(copy)
    assert contents(copy) == before
    with pytest.raises(harness.DataError, match=r"there is no results folder .*nowhere"):
        harness.load(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_it_loads_in_jupyter_without_ipywidgets(folder, monkeypatch):
    """DuckDB refuses there to change the setting of its progress bar, which is off."""
    connect = duckdb.connect

    class Jupyter:
        def __init__(self, *words, **options):
            self.db = connect(*words, **options)

        def __getattr__(self, name):
            return getattr(self.db, name)

        def execute(self, query, *words):
            if "enable_progress_bar" in query:
                raise duckdb.InvalidInputException("required package 'ipywidgets' is missing")
            return self.db.execute(query, *words)

    monkeypatch.setattr(duckdb, "connect", Jupyter)
    assert len(harness.load(folder).runs) == 4


def test_loading_imports_no_torch(folder):
    code = (
        f"import sys, harness; r = harness.load({str(folder)!r}); r.report('leaderboard').frame(); r.draws('', "
        "method='sgld', seed=0); sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_arviz_agrees_on_the_same_draws(results):
    pytest.importorskip("arviz_base")
    stats = pytest.importorskip("arviz_stats")
    tree = results.to_arviz(method="contour-sgld")
    theta = tree.posterior["theta"]
    assert theta.dims == ("chain", "draw", "theta_dim")
    assert tree.posterior["seed"].to_numpy().tolist() == [0, 0, 1, 1]
    expected = [results.draws(method="contour-sgld", seed=seed) for seed in (0, 1)]
    np.testing.assert_array_equal(theta, np.concatenate([one.resampled() for one in expected]))
    np.testing.assert_array_equal(tree.posterior["step"], expected[0].steps)
    about = tree.attrs
    assert about["weights"].startswith("equal after resampling by weight")
    assert about["run_keys"] == [one.run["run_key"] for one in expected]
    draws = theta.to_numpy().swapaxes(0, 1).astype(np.float64)
    np.testing.assert_allclose(stats.ess(tree)["theta"], harness.diagnostics.bulk_ess(draws), rtol=1e-6)
    tail = stats.ess(tree, method="tail", prob=(0.05, 0.95))  # ArviZ's own default is its credible interval
    np.testing.assert_allclose(tail["theta"], harness.diagnostics.tail_ess(draws), rtol=1e-6)
    rhat = harness.diagnostics.rank_normalised_split_rhat(draws)
    np.testing.assert_allclose(stats.rhat(tree)["theta"], rhat, rtol=1e-6)


def test_without_arviz_the_extra_is_named(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(harness.UsageError, match=r"pip install 'sgmcmc-bench\[arviz\]'"):
        results.to_arviz(method="sgld", seed=0)


def test_the_page_does_what_it_says(tmp_path, monkeypatch):
    """All its lines, in order, at the smallest budget."""
    pytest.importorskip("arviz_base")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_RESULTS", raising=False)
    page = (DOCS / "python.md").read_text(encoding="utf-8").replace('"quick"', '"smoke"')
    lines = "".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))
    main = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    linecache.cache["the page"] = (len(lines), None, lines.splitlines(keepends=True), "the page")
    exec(compile(lines, "the page", "exec", dont_inherit=True), known := vars(main))  # noqa: S102 - our own page
    assert known["sgld"].runs["method"].unique().to_list() == ["sgld"]
    assert len(known["points"]) > len(known["curves"])
    assert (tmp_path / "convergence.pdf").stat().st_size > 1000
    assert known["posterior"].draws.ndim == 3
    assert set(known["mine"].runs["method"]) == {"sgld", "heated-sgld"}


@pytest.mark.data
def test_a_network_is_shown_by_what_it_predicts(tmp_path):
    pytest.importorskip("arviz_base")
    command = ["run", "--task", "landsat", "--sampler", "sgld", "--seeds", "0", "--chains", "2", "--budget"]
    assert run(["--results", str(tmp_path), *command, "steps=100", "--set", "run.burn_in=90", "run.thin=1"]) == 0
    tree = harness.load(tmp_path).to_arviz(rows=7)
    probability = tree.posterior["probability"]
    assert probability.dims == ("chain", "draw", "row", "class")
    assert probability.shape == (2, 10, 7, 6)
    np.testing.assert_allclose(probability.sum("class"), 1, rtol=1e-5)


@pytest.mark.parametrize("asked", ["passes=10", "passes=10.0", "passes=1e1"])
def test_a_filter_by_budget_finds_each_spelling_in_frames_and_reports(tmp_path, asked):
    for seed, budget in enumerate(["passes=10", "passes=1e1", "passes=20"]):
        params = {"step_size": 0.01 * (seed // 2 + 1), "temperature": 1.0}  # a longer run is of another group
        write_run(tmp_path, seed=seed, budget=budget, params=params, metrics={"mean_error": 0.1})
    results = harness.load(tmp_path, budget=asked)
    assert sorted(results.runs["seed"]) == sorted(results.metrics["seed"].unique()) == [0, 1]
    assert {one["seeds"] for one in results.report("leaderboard").records} == {2}
    with pytest.raises(harness.UsageError, match="passes=30"):
        harness.load(tmp_path, budget="passes=3e1")
