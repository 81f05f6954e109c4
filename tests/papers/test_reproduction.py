"""The reproduction ledger: verdicts and reasons on made-up results, what is published, and the pages made of it."""

import itertools
import json
import math
import shlex
import shutil
from pathlib import Path

import duckdb
import pytest
from scored import store, write_run

from harness.cli.app import run
from harness.reporting.rendering import render
from harness.reporting.report import Request
from harness.reporting.scores import load_groups
from harness.results import ENGINE
from harness.results.store import Store
from harness.runs import parse_seeds
from harness.runs.settings import source_of_budget
from harness.system.errors import DataError, UsageError
from harness.system.files import read_set
from plugins.papers import bench_papers
from plugins.papers.files import read
from plugins.papers.ledger import label, reproduction
from plugins.papers.page import FOLDER, counts, pages, published_runs, with_counts
from plugins.papers.report import ReproductionLedger
from plugins.papers.reported import load_cells
from plugins.sharing.published import MANIFEST, Published

ROOT = Path(__file__).resolve().parents[2]
TABLE_4 = {("sgld", 1): [1] * 10, ("csgld", 1): [17, 18, 19], ("sgld", 4): [3, 4, 4], ("csgld", 4): [25, 25, 24]}


def write_table_4(results, seeds=range(10), **changes):
    for (method, chains), values in TABLE_4.items():
        for seed in seeds:
            metrics = {"modes_covered": float(values[seed % len(values)])}
            how = {"budget": "paper", "steps": 50_000, "origins": {}} | changes
            write_run(results, method=method, chains=chains, seed=seed, metrics=metrics, **how)


def ledger(results, **request):
    return reproduction(store(results), Request(), **request)


def verdicts(reproduced, table="Table 4"):
    return {e.cell.row: e.verdict for e in reproduced.cells if (e.cell.paper, e.cell.table) == ("csgmcmc", table)}


def test_the_cells_and_claims_of_table_4(tmp_path):
    write_table_4(tmp_path)
    reproduced = ledger(tmp_path, paper="csgmcmc", tables=("4",))
    assert verdicts(reproduced) == {
        "SGLD": "mismatch", "cSGLD": "mismatch", "Parallel SGLD": "match", "Parallel cSGLD": "match",
    }  # fmt: skip
    assert [entry.finding for entry in reproduced.claims] == ["holds", "holds"]
    assert len(reproduced.run_keys) == 40
    text = render(ReproductionLedger(paper="csgmcmc").build(store(tmp_path), Request()), "table")
    assert "* printed as cSGLD, read as Parallel SGLD" in text
    assert "cause: the paper contradicts itself" in text


def test_the_sides_of_a_claim_are_of_one_version_of_the_tasks_code(tmp_path):
    how = {"budget": "paper", "steps": 50_000, "origins": {}, "chains": 1}
    for seed in range(10):
        write_run(tmp_path, method="sgld", seed=seed, metrics={"modes_covered": 1.0}, **how)
        changed = {"task_part": {"source": "edited"}, "metrics": {"modes_covered": 17.0 + seed % 2}}
        write_run(tmp_path, method="csgld", seed=seed, **changed, **how)
    claim = ledger(tmp_path, paper="csgmcmc", tables=("4",)).claims[0]
    assert claim.finding == "undecided"
    assert "different code or data" in claim.reason
    for seed in range(9):
        write_run(tmp_path, method="csgld", seed=seed, metrics={"modes_covered": 18.0 + seed % 2}, **how)
    claim = ledger(tmp_path, paper="csgmcmc", tables=("4",)).claims[0]
    assert (claim.finding, claim.judged.n) == ("holds", 9)


def test_another_budget_stands_apart_without_a_verdict(tmp_path):
    of_budget = {"value": 2, "provenance": "default", "source": source_of_budget("csgmcmc", "quick")}
    origins = {"run.thin": of_budget, "task.sd": {**of_budget, "source": "protocol csgmcmc"}}
    write_table_4(tmp_path, budget="quick", steps=15_000, origins=origins)
    reproduced = ledger(tmp_path, paper="csgmcmc", tables=("Table 4",))
    assert set(verdicts(reproduced).values()) == {"not run"}
    assert all(len(entry.others) == 1 for entry in reproduced.cells)
    assert {entry.finding for entry in reproduced.claims} == {"not run"}
    used = {run.key for entry in reproduced.cells for ours in entry.others for run in ours.group.runs}
    assert reproduced.run_keys == used != set()
    result = ReproductionLedger(paper="csgmcmc", tables=("4",)).build(store(tmp_path), Request())
    assert result.tables[-1].title == "At other budgets"
    assert {(row["steps"], row["settings of the budget"]) for row in result.tables[-1].rows} == {
        ("15,000", "run.thin=2")
    }
    quick = [record for record in result.records if record["budget"] == "quick"]
    assert len(quick) == 4
    assert {record["verdict"] for record in quick} == {None}


@pytest.mark.parametrize(
    ("name", "value", "parallel"), [("schedule.step_size", 0.1, "not run"), ("run.compile", "compiled", "match")]
)
def test_a_setting_of_the_users_is_no_published_run_unless_it_is_of_execution(tmp_path, name, value, parallel):
    origins = {name: {"value": value, "provenance": "user", "source": "command line"}}
    write_table_4(tmp_path, origins=origins)
    assert verdicts(ledger(tmp_path))["Parallel SGLD"] == parallel


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ({"schedule.cycles": 20}, {"schedule.cycles": "swept"}),
        ({"schedule.cycles": 100}, {"schedule.cycles": "ours"}),  # the paper's own value, and who chose that
        ({"schedule.cycles": 50}, {"schedule.cycles": "user"}),
        ({"schedule.cycles": True}, {"schedule.cycles": "user"}),
        ({"schedule.cycles": 20, "schedule.beta": 0.5}, {"schedule.cycles": "user", "schedule.beta": "user"}),
        ({"schedule.cycles": 20, "schedule.beta": 0.01}, {"schedule.cycles": "swept", "schedule.beta": "ours"}),
        ({"schedule.cycles": 20, "task.batch": 5}, {"schedule.cycles": "user", "task.batch": "user"}),
    ],
)
def test_what_a_user_set_is_the_papers_where_its_file_states_it_now(tmp_path, given, kinds):
    origins = {name: {"value": value, "provenance": "user", "source": "command line"} for name, value in given.items()}
    write_run(tmp_path, method="csgld", task="blr-australian", protocol="csgmcmc", origins=origins)
    (group,) = load_groups(store(tmp_path), Request())
    assert group.provenance == kinds


def test_a_declared_sweep_stands_apart_with_the_nearest_of_its_points(tmp_path):
    write_table_4(tmp_path)
    for step, kind in ((0.3, "swept"), (0.5, "swept"), (0.9, "swept"), (0.8, "user")):
        origins = {"schedule.step_size": {"value": step, "provenance": kind, "source": "declared sweep"}}
        metrics = {"modes_covered": 20 * step, "variance_ratio": 4 * step}
        for seed in range(3):
            how = {"budget": "paper", "steps": 50_000, "origins": origins, "params": {"step_size": step}}
            lost = step == 0.9 and seed == 1
            how |= {"status": "diverged", "metrics": {}} if lost else {"metrics": metrics}
            write_run(tmp_path, method="csgld", chains=1, seed=seed, **how)
    reproduced = ledger(tmp_path, paper="csgmcmc", tables=("4",))
    assert verdicts(reproduced)["Parallel SGLD"] == "match"
    assert len(reproduced.run_keys) == 49  # without the user's own
    result = ReproductionLedger(paper="csgmcmc", tables=("4",)).build(store(tmp_path), Request())
    table = result.tables[-1]
    assert table.title == "Declared sweeps"
    (row,) = table.rows
    assert row["cell"] == "csgmcmc, Table 4: Parallel SGLD, Mode coverage"  # whose row is corrected to csgld
    assert (row["points"], row["lost"], row["least"], row["most"]) == ("2", "1", "6.00", "10.0")
    assert (row["nearest"], row["seeds"], row["with"]) == ("10.0 (all)", "3", "schedule.step_size=0.5")
    assert row["variance ratio"] == "2.00 (all)"
    swept = {record["swept"]["schedule.step_size"]: record["verdict"] for record in result.records if record["swept"]}
    assert swept == {"0.3": None, "0.5": None, "0.9": None}


def test_runs_of_two_engines_are_one_point_of_a_declared_sweep(tmp_path):
    origins = {"schedule.step_size": {"value": 0.3, "provenance": "swept", "source": "declared sweep"}}
    for engine, seed in itertools.product((1, 2), range(3)):
        how = {"budget": "paper", "steps": 50_000, "origins": origins, "params": {"step_size": 0.3}, "engine": engine}
        metrics = {"modes_covered": 10.0 + engine}
        write_run(tmp_path, method="csgld", chains=1, seed=seed, number=30 * engine, metrics=metrics, **how)
    entry = next(e for e in ledger(tmp_path, paper="csgmcmc", tables=("4",)).cells if e.cell.row == "Parallel SGLD")
    assert [ours.estimate.mean for ours in entry.tried] == [12.0]


def test_a_metric_of_a_paper_follows_from_one_of_the_task(tmp_path):
    for seed, rmse in enumerate((0.35, 0.36, 0.38)):
        how = {"budget": "paper", "chains": 10, "metrics": {"rmse": rmse}, "origins": {}}
        write_run(tmp_path, method="deep-ensemble", task="airfoil", protocol="bde-ensemble", seed=seed, **how)
    cells = ledger(tmp_path, paper="bde", tables=("Airfoil",)).cells
    (entry,) = [e for e in cells if (e.cell.row, e.cell.column) == ("Deep Ensemble", "NLL (mean regr.)")]
    expected = sum(math.log(rmse) + 1.4189385 for rmse in (0.35, 0.36, 0.38)) / 3
    assert entry.ours.estimate.mean == pytest.approx(expected)
    assert entry.ours.estimate.metric == "nll_mean_regression"
    assert entry.verdict == "inconclusive"


def test_settings_that_the_paper_does_not_give_leave_a_cell_inconclusive(tmp_path):
    origins = {"schedule.step_size": {"value": 0.1, "provenance": "ours", "source": "a guess"}}
    write_table_4(tmp_path, origins=origins)
    reproduced = ledger(tmp_path, paper="csgmcmc", tables=("4",))
    assert set(verdicts(reproduced).values()) == {"inconclusive"}
    assert "the paper does not give schedule.step_size" in reproduced.cells[0].reason


def test_a_claim_at_settings_of_ours_holds_there_alone(tmp_path):
    origins = {"sampler.gradient_variance": {"value": 0.1, "provenance": "ours", "source": "not stated"}}
    write_table_4(tmp_path, origins=origins)
    reproduced = ledger(tmp_path, paper="csgmcmc", tables=("4",))
    assert [entry.kind for entry in reproduced.claims] == ["holds at our settings"] * 2
    assert all("the paper does not give sampler.gradient_variance" in entry.reason for entry in reproduced.claims)
    assert not any(entry.at_papers_settings for entry in reproduced.cells)


def test_a_claim_that_its_declared_sweep_reverses_says_so(tmp_path):
    write_table_4(tmp_path)
    for method, gamma, modes in (("sgld", 0.3, 20.0), ("sgld", 0.4, 2.0), ("csgld", None, 19.0)):
        name = "schedule.gamma" if gamma else "schedule.cycles"
        origins = {name: {"value": gamma or 9, "provenance": "swept", "source": "declared sweep"}}
        params = {name.removeprefix("schedule."): gamma or 9}
        for seed in range(3):
            how = {"budget": "paper", "steps": 50_000, "origins": origins, "params": params}
            write_run(tmp_path, method=method, chains=1, seed=seed, metrics={"modes_covered": modes}, **how)
    reproduced = ledger(tmp_path, paper="csgmcmc", tables=("4",))
    one, four = reproduced.claims
    assert (one.text, four.text) == ("holds (reversed in its sweep)", "holds")
    assert (one.swept.total, one.swept.reversed) == (3, 1)  # the best of csgld, 19, beside 1, 2 and 20
    assert "schedule.gamma=0.3: 1 of 1" in one.reason
    assert len(reproduced.run_keys) == 49


@pytest.mark.parametrize(("at_the_other_point", "finding"), [(19.0, "fails (holds in its sweep)"), (3.0, "fails")])
def test_a_claim_that_fails_says_whether_it_holds_in_its_declared_sweep(tmp_path, at_the_other_point, finding):
    swept = {"schedule.cycles": {"value": 9, "provenance": "swept", "source": "declared sweep"}}
    points = (("sgld", 10.0, {}, {}), ("csgld", 2.0, {}, {}), ("csgld", at_the_other_point, swept, {"cycles": 9}))
    for (method, modes, origins, params), seed in itertools.product(points, range(10)):
        how = {"budget": "paper", "steps": 50_000, "origins": origins, "params": params}
        write_run(tmp_path, method=method, chains=1, seed=seed, metrics={"modes_covered": modes + seed / 9}, **how)
    reproduced = ledger(tmp_path, paper="csgmcmc", tables=("4",))
    one, _ = reproduced.claims
    assert one.text == finding
    assert one.reason.endswith("it holds in 1 of 1 comparisons") == finding.endswith("(holds in its sweep)")
    assert len(reproduced.run_keys) == 30


STEP_SIZES = [0.4 * 2.0**k for k in range(-10, 3)]
FRICTIONS = (0.05, 0.1, 0.3)


def write_slides(results, works, lost=(), left_out=(), more=(), failed=(), on_other_code=()):
    """Write the sweeps of csgld and csghmc, with a joint error of 0.5 where `works(method, step, friction)`, else 2."""
    points = [("csgld", step, None) for step in STEP_SIZES]
    points += [("csghmc", step, friction) for step in STEP_SIZES for friction in FRICTIONS]
    points += more
    for point, seed in itertools.product([point for point in points if point not in left_out], range(3)):
        method, step, friction = point
        values = {"schedule.step_size": step} | ({"sampler.friction": friction} if friction else {})
        published = point in {("csgld", 0.4, None), ("csghmc", 0.2, 0.1)}
        kind = "ours" if published else "swept"
        origins = {name: {"value": value, "provenance": kind, "source": "-"} for name, value in values.items()}
        how = {"budget": "paper", "steps": 15_000, "origins": origins}
        how |= {"params": {"step_size": step}, "sampler_params": {"friction": friction} if friction else {}}
        error = (0.5 if works(*point) else 2.0) + 0.01 * seed
        how |= {"status": "diverged", "metrics": {}} if point in lost else {"metrics": {"joint_error": error}}
        how |= {"status": "timeout", "metrics": {}} if (*point, seed) in failed else {}
        how |= {"task_part": {"source": "e" * 64}} if point in on_other_code else {}
        write_run(results, method=method, task="mixture2d", protocol="csgmcmc-slides", chains=1, seed=seed, **how)


def ease(results):
    claims = ledger(results, paper="csgmcmc-slides", tables=("Mixture in two dimensions",)).claims
    return next(entry for entry in claims if entry.claim.kind == "ease")


def test_ease_of_tuning_is_the_share_of_the_whole_sweep_that_works(tmp_path):
    write_slides(tmp_path, lambda method, step, _: step < (0.5 if method == "csgld" else 0.05))
    entry = ease(tmp_path)
    assert [side.estimate.mean for side in entry.ours] == pytest.approx([11 / 13, 7 / 13])
    assert entry.judged.difference == pytest.approx(4 / 13)
    assert len(reproduced_keys(tmp_path)) == 3 * (13 + 39)


def test_a_point_of_a_sweep_at_which_runs_diverge_does_not_work(tmp_path):
    write_slides(tmp_path, lambda *_: True, lost={("csgld", 1.6, None), ("csghmc", 1.6, 0.05), ("csghmc", 0.8, 0.05)})
    assert [side.estimate.mean for side in ease(tmp_path).ours] == pytest.approx([12 / 13, 37 / 39])


def test_a_run_without_a_joint_error_does_not_work_where_one_is_asked_for_and_leaves_other_metrics_without_a_mean(
    tmp_path,
):
    setup = {"budget": "paper", "origins": {}}
    for seed, error in enumerate((0.5, None, 2.0, 0.5)):
        how = {"task": "bimodal1d", "protocol": "csgmcmc-slides", "metrics": {"joint_error": error}, "chains": 1}
        write_run(tmp_path, method="sghmc", seed=seed, **setup, **how)
        how = {"task": "airfoil", "protocol": "bde-ensemble", "metrics": {"rmse": error}, "chains": 10}
        write_run(tmp_path, method="deep-ensemble", seed=seed, **setup, **how)
    (entry,) = [e for e in ledger(tmp_path, tables=("Two modes",)).claims if e.claim.metric == "works_well"]
    assert dict(entry.ours[0].estimate.by_seed) == {0: 1.0, 1: 0.0, 2: 0.0, 3: 1.0}
    cells = ledger(tmp_path, paper="bde", tables=("Airfoil",)).cells
    (entry,) = [e for e in cells if (e.cell.row, e.cell.column) == ("Deep Ensemble", "NLL (mean regr.)")]
    assert (entry.ours.estimate.mean, entry.ours.estimate.remark) == (None, "none in 1 of 4 seeds")


def test_a_sweep_of_which_a_point_is_missing_says_nothing_of_ease(tmp_path):
    write_slides(tmp_path, lambda *_: True, left_out={("csghmc", 0.8, 0.05)})
    entry = ease(tmp_path)
    assert (entry.finding, entry.judged.n) == ("undecided", 0)
    assert "38 of the 39 points of its declared sweep were run" in entry.reason


POINT = ("csghmc", 0.8, 0.05)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"failed": {(*POINT, 1)}}, "runs failed at 1 of the 39 points of its declared sweep"),
        ({"left_out": {POINT}, "more": [("csghmc", 0.7, 0.05)]}, "38 of the 39 points of its declared sweep were run"),
        ({"on_other_code": {POINT}}, "38 of the 39 points of its declared sweep were run"),
    ],
)
def test_a_sweep_says_nothing_of_ease_where_a_point_has_no_result_of_its_own(tmp_path, written, reason):
    write_slides(tmp_path, lambda *_: True, **written)
    entry = ease(tmp_path)
    assert (entry.finding, entry.judged.n) == ("undecided", 0)
    assert reason in entry.reason


def reproduced_keys(results):
    return ledger(results, paper="csgmcmc-slides").run_keys


def test_runs_at_settings_that_the_file_had_earlier_get_no_verdict(tmp_path):
    origins = {"schedule.gamma": {"value": 0.6, "provenance": "paper", "source": "misread"}}
    write_table_4(tmp_path, params={"gamma": 0.6}, origins=origins)
    reproduced = ledger(tmp_path, paper="csgmcmc", tables=("4",))
    assert verdicts(reproduced) == {
        "SGLD": "inconclusive", "cSGLD": "inconclusive", "Parallel SGLD": "match", "Parallel cSGLD": "match",
    }  # fmt: skip
    assert "settings that the paper's file had earlier: schedule.gamma=0.6, now 0.55" in reproduced.cells[0].reason
    assert {entry.finding for entry in reproduced.claims} == {"undecided"}


def test_what_stands_in_the_way_is_said(tmp_path):
    reproduced = reproduction(_without_results(tmp_path), Request())
    by_table = {(e.cell.paper, e.cell.table): e.text for e in reproduced.cells}
    assert by_table["csgmcmc", "Table 1"] == "not run (needs a GPU)"
    assert by_table["csgmcmc", "Table 6"] == "not reproducible as published"
    assert by_table["adaptive-drift", "Table 1"] == "not reproducible as published"
    assert by_table["adaptive-drift", "Table 2"] == "not run (inconclusive at best)"
    waiting = {(e.cell.method, e.cell.task): e for e in reproduced.cells if e.verdict == "not run"}
    assert waiting["sgld", "cifar10"].text == "not run (needs a GPU; inconclusive at best)"
    assert "schedule.gamma=0.5005" in waiting["sgld", "cifar10"].reason
    assert "augmentation: crops" in next(e.reason for e in reproduced.cells if e.cell.table == "Table 4" and e.reason)
    assert all(("inconclusive at best" in e.text) == bool(e.cell.ours) for e in waiting.values())
    assert len(reproduced.cells) == 184


def test_numbers_of_models_that_are_no_samplers_are_listed_and_not_counted(tmp_path):
    reproduced = reproduction(_without_results(tmp_path), Request(), paper="bde")
    assert (len(reproduced.cells), len(reproduced.outside)) == (12, 24)
    assert {entry.cell.method for entry in reproduced.cells} == {"deep-ensemble", "mclmc"}
    assert {entry.text for entry in reproduced.outside} == {"not a sampler of this tool"}
    result = ReproductionLedger(paper="bde").build(_without_results(tmp_path), Request())
    assert [(row["cells"], row["not a sampler of this tool"]) for row in result.tables[0].rows] == [
        (6, 12), (6, 12), (12, 24),
    ]  # fmt: skip
    assert sum(record["verdict"] == "not a sampler of this tool" for record in result.records) == 24
    assert [(table.title, len(table.rows)) for table in result.tables[1:4:2]] == [
        ("bde, Airfoil", 18), ("bde, Bikesharing", 18),
    ]  # fmt: skip


def _without_results(folder):
    empty = Store(folder / "none")
    empty.refresh()
    return empty


def test_a_task_that_is_not_installed_is_a_status(tmp_path, capsys):
    paper = tmp_path / "odd.toml"
    places = [("sgld", "no-such-task", "p"), ("sgld", "mixture25", "nowhere"), ("sgld", "mixture25", "csgmcmc")]
    cells = ",\n".join(
        f'{{ method = "{method}", task = "{task}", protocol = "{protocol}" }}'
        for method, task, protocol in [*places, ("nobody", "mixture25", "csgmcmc")]
    )
    paper.write_text(
        '[paper]\nid = "odd"\ntitle = "t"\ncitation = "c"\n[[reported]]\ntable = 1\nrow = "r"\ncolumn = "c"\n'
        f'chains = 1\nmetric = "m"\nvalue = 1.0\ncells = [\n{cells}\n]\n'
    )
    (tmp_path / "odd.py").write_text(
        "from pathlib import Path\nfrom harness import hook\n\n\n@hook\ndef bench_papers():\n"
        "    return [Path(__file__).with_name('odd.toml')]\n"
    )
    words = ["--results", str(tmp_path / "r"), "--plugin", str(tmp_path / "odd.py"), "report", "reproduction", "--json"]
    assert run(words) == 0
    records = [r for r in json.loads(capsys.readouterr().out) if r["paper"] == "odd"]
    assert {record["verdict"] for record in records} == {"not run"}
    assert [record["missing"] for record in records] == [
        "no task no-such-task", "mixture25 has no protocol nowhere", "mixture25 has no metric m", "no method nobody",
    ]  # fmt: skip


def test_the_gap_of_a_column_is_the_smallest_that_the_claims_make_in_it():
    gaps = {(c.paper, c.table, c.column): c.smallest_gap for c in load_cells(read(bench_papers())[0])}
    assert gaps["csgmcmc", "Table 1", "CIFAR-10"] == pytest.approx(5.29 - 5.20)  # SGLD below SGD, not 4.29 and 4.27
    assert gaps["csgmcmc", "Table 4", "Mode coverage"] == pytest.approx(18 - 1.8)
    assert gaps["csgmcmc", "Table 3", "NLL"] == pytest.approx(0.8941 - 0.8882)
    assert gaps["csgmcmc", "Table 3", "Top1"] == pytest.approx(77.142 - 77.114)  # nothing is claimed of it: its cells
    assert gaps["adaptive-drift", "Table 4", "CIFAR-10 test"] == pytest.approx(93.512 - 93.470)


def test_tables_are_named_as_a_reader_names_them(tmp_path):
    assert [label("4"), label("table 4"), label(" figure  3 ")] == ["Table 4", "Table 4", "Figure 3"]
    for request in ({"paper": "csgmcm"}, {"paper": "csgmcmc", "tables": ("9",)}):
        with pytest.raises(UsageError, match=r"unknown (paper|table)"):
            reproduction(_without_results(tmp_path), Request(), **request)


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def export(results, folder):
    merged = Published(folder, store(results))
    merged.write(reproduction(merged, Request()).run_keys, folder)
    return content(folder)


def test_what_is_published_gives_the_same_ledger(tmp_path):
    write_table_4(tmp_path / "r")
    write_run(tmp_path / "r", method="sghmc", budget="paper", metrics={"modes_covered": 1.0})  # of no cell
    export(tmp_path / "r", tmp_path / "out")
    unpublished = ReproductionLedger().build(store(tmp_path / "r"), Request())
    published = Published(tmp_path / "out")
    assert ReproductionLedger().build(published, Request()).records[:] == unpublished.records[:]
    assert len(published.rows("select * from run")) == 40
    assert published.rows("select * from curve") == []


def test_the_files_are_read_once_for_all_queries(tmp_path, monkeypatch):
    write_table_4(tmp_path / "r", seeds=range(1))
    export(tmp_path / "r", tmp_path / "out")
    published = Published(tmp_path / "out")
    assert published.rows("select count(*) as runs from run") == [{"runs": 4}]
    monkeypatch.setattr(Published, "_files", lambda _: pytest.fail("they were read again"))
    assert published.rows("select count(*) as runs from run") == [{"runs": 4}]


def test_results_of_several_folders_are_merged_and_the_same_again_changes_nothing(tmp_path):
    write_table_4(tmp_path / "a", seeds=range(2))
    write_table_4(tmp_path / "b", seeds=range(1, 3))
    first = export(tmp_path / "a", tmp_path / "out")
    both = export(tmp_path / "b", tmp_path / "out")
    assert len(Published(tmp_path / "out").rows("select * from run")) == 12
    assert both != first
    assert export(tmp_path / "a", tmp_path / "out") == both
    write_table_4(tmp_path / "whole", seeds=range(3))
    export(tmp_path / "whole", tmp_path / "alone")
    assert pages(tmp_path / "alone") == pages(tmp_path / "out")


def test_of_two_versions_of_a_row_the_one_with_more_seeds_is_kept(tmp_path):
    write_table_4(tmp_path / "old", seeds=range(3), engine=1)
    write_table_4(tmp_path / "new", seeds=range(2), engine=2, number=30)
    export(tmp_path / "old", tmp_path / "out")
    export(tmp_path / "new", tmp_path / "out")
    query = "select engine, count(*) as runs from run group by all"
    assert Published(tmp_path / "out").rows(query) == [{"engine": 1, "runs": 12}]
    write_table_4(tmp_path / "new", seeds=range(2, 3), engine=2, number=30)
    export(tmp_path / "new", tmp_path / "out")
    assert Published(tmp_path / "out").rows(query) == [{"engine": 2, "runs": 12}]


@pytest.fixture
def copied(tmp_path):
    """The published set, as a copy."""
    folder = tmp_path / "set"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return folder


DAMAGES = {
    "deleted": lambda folder: (folder / "run.parquet").unlink(),
    "cut off": lambda folder: (folder / "run.parquet").write_bytes((folder / "run.parquet").read_bytes()[:-9]),
    "of another set": lambda folder: (folder / "metric.parquet").write_bytes((folder / "run.parquet").read_bytes()),
    "manifest cut off": lambda folder: (folder / "manifest.json").write_text("{"),
    "manifest deleted": lambda folder: (folder / "manifest.json").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_set_that_is_not_whole_is_an_error_and_stays_as_it_is(copied, tmp_path, capsys, damage):
    DAMAGES[damage](copied)
    before = content(copied)
    with pytest.raises(DataError, match=r"is not a complete set of published results: .*; restore its files"):
        Published(copied).rows("select * from run")
    assert run(["--results", str(tmp_path / "none"), "reproduce", "--export", str(copied)]) == 4
    assert "is not a complete set of published results" in capsys.readouterr().err
    assert content(copied) == before


def test_runs_that_an_export_leaves_out_are_counted(tmp_path, capsys):
    write_table_4(tmp_path / "r", seeds=range(2))
    write_run(tmp_path / "r", method="sghmc", budget="paper", metrics={"modes_covered": 1.0})  # of no cell
    runs = store(tmp_path / "r")
    out = tmp_path / "out"
    out.mkdir()
    Published(out, runs).write([row["run_key"] for row in runs.rows("select run_key from run")], out)
    assert run(["--results", str(tmp_path / "none"), "reproduce", "--export", str(out)]) == 0
    assert "left out 1 run that no cell" in capsys.readouterr().err
    assert len(Published(out).run_keys()) == 8


def test_nothing_published_is_no_set_of_no_runs(tmp_path, capsys):
    with pytest.raises(DataError, match="contains no exported results"):
        Published(tmp_path).rows("select * from run")
    assert run(["--results", str(tmp_path / "none"), "reproduce", "--export", str(tmp_path / "out")]) == 4
    assert "nothing was written" in capsys.readouterr().err
    assert not list((tmp_path / "out").iterdir())


def test_the_pages_in_the_repository_are_made_from_the_published_files():
    docs = ROOT / "docs"
    paths = [docs / "reproduction.md", *docs.glob("reproduction/*.md")]
    written = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    assert written == pages(FOLDER)
    runs = written["docs/reproduction/runs.md"]
    assert "| landsat@adaptive-drift | paper | 3 | yes | 130 | 1.56 |" in runs
    assert "| adaptive-drift, Table 3 | 2.0 | more seeds: bench reproduce adaptive-drift --table 3 |" in runs
    assert "### Declared sweeps" in written["docs/reproduction/other-runs.md"]
    front = written["docs/reproduction.md"]
    assert len(front.splitlines()) < 60
    assert (
        front.index("75: 3 match, 2 do not match")
        < front.index("| mismatch |")
        < front.index("What holds and what fails")
    )
    assert front.index("What holds and what fails") < 3500
    assert "not run: needs a GPU" in written["docs/reproduction/by-table.md"]


def test_what_a_cpu_repeats_within_six_hours_is_published_of_the_present_engine():
    published = Published(FOLDER)
    runs = published_runs(published, reproduction(published, Request()))
    assert sum(some.runs for some in runs) > 1000
    assert [some for some in runs if some.engine != ENGINE and some.core_hours < 6] == []


def test_the_command_of_published_runs_names_their_seeds_where_they_are_not_the_protocols():
    published = Published(FOLDER)
    runs = published_runs(published, reproduction(published, Request()))
    commands = {some.of: some.command for some in runs}
    assert commands["mixture25@csgmcmc"].endswith("--table 'Figure 5'")
    assert commands["notmnist@csgmcmc"].endswith("--table 'Figure 4' --seeds 0-9")
    for some in runs:
        words = shlex.split(some.command)
        seeds = parse_seeds(words[words.index("--seeds") + 1]) if "--seeds" in words else some.usual_seeds
        assert [*seeds] == [*some.seeds], some.of


def test_the_counts_in_the_readme_are_those_of_the_published_files():
    written = (ROOT / "README.md").read_text(encoding="utf-8")
    told = counts(FOLDER)
    assert written == with_counts(written, told)
    assert told in written
    reproduced = reproduction(Published(FOLDER), Request())
    assert f"Of the {len(reproduced.cells)} printed numbers of samplers" in told.replace("\n", " ")
    assert f"Of the {len(reproduced.claims)} claims" in told.replace("\n", " ")


def test_no_array_is_published():
    files = sorted(FOLDER.glob("*.parquet"))
    assert [*read_set(FOLDER, MANIFEST)] == [path.name for path in files]
    assert {path.stem for path in files} == {"run", "attempt", "metric", "environment"}
    assert sum(path.stat().st_size for path in files) < 2**20
    columns = {c for path in files for c, kind, *_ in duckdb.sql(f"describe from '{path}'").fetchall() if "[]" in kind}
    assert columns == set()
