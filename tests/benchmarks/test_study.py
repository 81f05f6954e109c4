"""The part of the benchmarks on larger posteriors: its densities, its goals and reasons, and what the page needs."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path

import pytest

SCORE = "blackjax (vmap + scan, score)"
MACHINE = {"cpu": "one", "cores": 2, "platform": "Linux", "python": "3.11"}
NOISY = {"noise": 600.0, "batches": 0.0, "gradient": 0.0, "around": 10.0, "steps": 300.0, "keeping": 90.0}
SEEN = {"observing": 800.0, "writing": 10.0}


@pytest.fixture
def load(monkeypatch):
    """A module of the benchmarks, whose scripts import each other by name."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module


def row(form, rate, *, chains=40, library="bench", right=True):
    name = f"{library} ({form})"
    facts = {"agreement": 1e-12} if library == "blackjax" else {}
    return {
        "library": library, "method": "sgld", "chains": chains, "form": form, "task": "gaussian", "dtype": "float64",
        "name": name, "compile": 0.0, "check": {"what": "", "right": right}, "rates": [rate] * 3, "waits": [1.0],
        "problem": "", **facts,
    }  # fmt: skip


def record(study, parts):
    tasks = {name: {"dim": 10, "dtype": "float64", "thin": 1, "batch": None} for name in study.TASKS}
    for name in study.LARGE_ROWS:
        tasks[name] |= {"terms": 100, "batches": 10}
    least = {"slots": 500, "places": 50}
    profile = {"cell": ["gaussian", "sgld", 40], "mode": "compiled", "parts": parts | SEEN, "least": least}
    return {
        "peaks": {"slots": 1e10, "exponentials": 1e9},
        "quick": False, "rounds": 3, "seconds": 0.1, "minutes": 1.0, "again": [],
        "versions": {"jax": "1"}, "tasks": tasks,
        "results": [
            row("compiled", 1.0), row("compiled, observed", 0.5), row("vmap + scan, score", 2.0, library="blackjax"),
            row("vmap + scan, grad", 9.0, library="blackjax", right=False),
            row("one position, score", 3.0, library="blackjax"),
        ],
        "profile": [profile | {"observer": {"DrawSums.update": 0.7, "Small.update": 0.01}}],
    }  # fmt: skip


def test_a_goal_is_over_the_fastest_peer_of_the_right_law_with_streams_of_its_own(load):
    study = load("study")
    over, observed = study.compared(record(study, NOISY))
    assert (over.over, over.ratios, over.limit) == (SCORE, [0.5] * 3, 1.5)
    assert observed.of_observing
    assert observed.ratios == [0.5] * 3


def test_the_pages_are_those_of_the_records(load, tmp_path):
    docs = Path(__file__).parents[2] / "docs"
    shutil.copytree(docs / "benchmarks", tmp_path / "benchmarks")
    measurements = json.loads((docs / "benchmarks/measurements.json").read_text(encoding="utf-8"))
    load("page").write_pages(measurements, tmp_path / "benchmarks")
    for name in ("benchmarks.md", "benchmarks/tables.md"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (docs / name).read_text(encoding="utf-8")


def test_some_tasks_are_measured_anew_and_the_others_stay(load, monkeypatch):
    study = load("study")
    monkeypatch.setattr(study, "measure_group", lambda cases, *_: [row("compiled", 3.0) | {"task": cases[0].task}])
    monkeypatch.setattr(study, "answer_of", lambda *_, **__: {"problem": "none"})
    versions = dict.fromkeys(study.PEERS, "1")
    monkeypatch.setattr(study.importlib.metadata, "version", versions.get)
    before = record(study, NOISY) | {"versions": versions}
    after = study.measure({}, ["tiny-bnn"], before, quick=False)
    assert after["results"][: len(before["results"])] == before["results"]
    assert {each["task"] for each in after["results"][len(before["results"]) :]} == {"tiny-bnn"}
    assert after["profile"] == before["profile"]
    assert "later than the others: tiny-bnn." in study.section(after | {"peaks": before["peaks"]})
    with pytest.raises(SystemExit, match="other versions"):
        study.measure({}, ["tiny-bnn"], before | {"versions": {}}, quick=False)


@pytest.mark.parametrize(
    ("larger", "words"), [("noise", "drawing the noise takes 60%"), ("steps", "the compiled step takes 60%")]
)
def test_the_reason_for_a_missed_goal_is_the_part_that_was_measured_to_be_the_largest(load, larger, words):
    study = load("study")
    other = {"noise": "steps", "steps": "noise"}[larger]
    summary = study.summary(record(study, NOISY | {larger: 600.0, other: 300.0}))
    assert words in summary
    assert "1.8 times what the goal allows (333 ns)" in summary  # 1,000 ns / 2 chain-steps / 1.5
    assert "800 ns of a chain-step, all before it 1,000 ns; 70% of it in `DrawSums.update`." in summary
    assert "Small.update" not in summary
    assert (
        "The 500 multiply-adds of a draw take 50 ns at the peak of this machine, each of 50 projections is placed "
        "among quantiles, and the goal allows 200 ns." in summary
    )


def test_a_goal_that_is_met_needs_no_reason(load):
    study = load("study")
    met = record(study, NOISY)
    met["results"][0]["rates"] = [4.0] * 3
    met["results"][1]["rates"] = [3.9] * 3
    assert "Missed goals" not in study.summary(met)


def test_the_pages_have_the_part_where_it_was_measured_and_lack_it_where_it_was_not(load, tmp_path):
    page, study = load("page"), load("study")
    (tmp_path / "measurements.json").write_text(json.dumps({"machine": MACHINE}))
    assert (page.apart(tmp_path)["study"], page.apart(tmp_path)["study_goals"]) == ("", "")
    (tmp_path / study.FILE).write_text(json.dumps(record(study, NOISY) | {"machine": MACHINE}))
    sections = page.apart(tmp_path)
    assert "| bench (compiled, observed) | 0.5 (0.5 to 0.5) | - |" in sections["study"]
    assert "| sgld on gaussian, compiled, 40 chains | 600 |" in sections["study"]
    assert "another machine" not in sections["study"]
    there = {**MACHINE, "cpu": "another processor"}
    (tmp_path / study.FILE).write_text(json.dumps(record(study, NOISY) | {"machine": there}))
    assert "**Measured on another machine: another processor, " in page.apart(tmp_path)["study"]
    assert "SGLD on gaussian, 40 chains, observed over unobserved" in sections["study_goals"]


@pytest.mark.slow  # jax compiles each operation anew
@pytest.mark.parametrize(
    "task",
    [
        "mixture25", "gaussian", "tiny-bnn",
        *(pytest.param(name, marks=pytest.mark.data) for name in (
            "blr-german", "blr-a9a", "flights", "pdb-eight-schools-noncentered", "pdb-nes1980", "lda-reuters",
        )),
    ],
)  # fmt: skip
def test_a_density_in_jax_is_the_one_of_the_task_and_another_is_refused(load, monkeypatch, task):
    pytest.importorskip("jax", reason="jax is not installed; `nox -s benchmarks` has it")
    densities = load("densities_jax")
    assert densities.prove(task) < densities.AGREED
    kind = densities.DENSITIES[task]

    class Other(kind):
        """It is off by 1e-6 of the gradient."""

        def both(self, x, rows, scale):
            value, slope = super().both(x, rows, scale)
            return value, slope * (1 + 1e-6)

    monkeypatch.setitem(densities.DENSITIES, task, Other)
    with pytest.raises(ArithmeticError, match=f"{task}: the density in jax differs"):
        densities.prove(task)


@pytest.mark.parametrize(
    ("task", "least"), [("gaussian", {"slots": 42 * 10 + 66, "places": 52}), ("tiny-bnn", {"exponentials": 330})]
)
def test_what_the_metrics_of_a_draw_take_at_least_is_counted(load, task, least):
    stepping, setting, parts = load("stepping"), load("setting"), load("parts")
    loop = stepping.make_loop(setting.Case("bench", "sgld", 2, "plain, observed", task), silent=False)
    assert parts.of_metrics(loop.runs[0].observer) == least


def test_a_compiled_block_is_taken_apart(load):
    parts, setting = load("parts"), load("setting")
    measured = parts.measure(setting.Case("bench", "sgld", 2, "compiled"), 0.0)
    assert measured["parts"]["gradient"] == 0
    assert all(measured["parts"][name] > 0 for name in ("noise", "around", "steps", "keeping", "observing", "writing"))
    assert sum(measured["observer"].values()) == pytest.approx(1)


@pytest.mark.parametrize("task", ["mixture25", "gaussian", "tiny-bnn"])
def test_ours_and_the_peers_start_at_the_same_points(load, task):
    targets, setting, stepping = load("targets"), load("setting"), load("stepping")
    case = setting.Case("bench", "sgld", 3, "plain", task)
    loop = stepping.make_loop(case)
    assert (targets.start(case) == loop.theta.numpy()).all()
    assert float(loop.stage.h[0]) == targets.step_size(case)
