"""`bench nightly` on made-up results: exit codes, what is named, what is recorded, and when."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from nights import TINY, fabricate, write_suite

from harness.cli.app import run
from harness.contracts.registry import registry
from harness.results import provenance
from harness.results.ledger.attempt import Attempt
from harness.runs import plan
from harness.runs.source import source_hash
from harness.system import locks
from plugins.nights.regression import conclusion as night
from plugins.nights.site import build
from plugins.running import groups
from plugins.upkeep import rescored_record

LEAN = TINY.replace('"coverage", ', "")
"""With one report: what these tests look at does not depend on the others."""
NUDGE = {"sgld": 1.0, "hmc": 2.0}


def usual(spec):
    return {"wasserstein2": NUDGE[spec.method] + 0.01 * (spec.seed**2 % 5), "modes_covered": 4.0 + spec.seed % 2}


def worse_sgld(spec):
    factor = 3.0 + 0.1 * (spec.seed % 3) if spec.method == "sgld" else 1.0
    return {**usual(spec), "wasserstein2": usual(spec)["wasserstein2"] * factor}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def new_code(monkeypatch):
    """Make all code look changed, as an edit of it would: other run keys, hence other runs."""

    def change(word):
        monkeypatch.setattr(plan, "source_hash", lambda target: source_hash(target)[:-8] + word * 8)

    return change


def nightly(here, *more, suite="tiny.toml"):
    return run(["--results", str(here / "r"), "nightly", str(suite), "--out", str(here / "site"), *more])


def nights(here):
    return sorted(path.name for path in (here / "r" / "nights" / "tiny").glob("*.json"))


def test_the_first_night_and_the_same_again(here, capsys):
    fabricate(here / "r", write_suite(here), usual)
    assert nightly(here) == 0
    first = {path: path.read_bytes() for path in (here / "site").rglob("*") if path.is_file()}
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "the first night" in shown.err
    (here / "site" / "leaderboard.html").unlink()  # so that the pages are made anew
    assert nightly(here) == 0
    assert {path: path.read_bytes() for path in (here / "site").rglob("*") if path.is_file()} == first
    assert nights(here) == ["000001.json"]
    assert "the first night" in (here / "site" / "index.html").read_text()


@pytest.fixture
def sites(monkeypatch):
    """The names of the sites that were made anew."""
    names = []

    def publish(site, *arguments):
        names.append(site.name)
        return build.publish(site, *arguments)

    monkeypatch.setattr(night, "publish", publish)
    return names


def _edit_harness(here, monkeypatch):
    copy = shutil.copytree(provenance.HOME / "reporting", here / "copy")
    (copy / "report.py").write_text("edited = True")
    monkeypatch.setattr(provenance, "HOME", copy)


def _edit_plugin(here, monkeypatch):
    (here / "new_plugin.py").write_text("edited = True")
    packages = provenance._packages
    monkeypatch.setattr(provenance, "_packages", lambda name: [*packages(name), here / "new_plugin.py"])


def _rescore(here, monkeypatch):  # noqa: ARG001
    attempt = Attempt(next((here / "r" / "runs").glob("*/*/*/")))
    metrics = attempt.result()["metrics"]
    metrics[1]["value"] += 1e-9
    rescored_record.write(attempt, metrics, {}, {})


INPUTS = {
    "a rescored run": _rescore,
    "a page was deleted": lambda here, _: (here / "site" / "leaderboard.html").unlink(),
    "a page was edited": lambda here, _: (here / "site" / "index.html").write_text("edited"),
    "the manifest was edited": lambda here, _: (here / "site" / "site.json").write_text('{"site": "tiny"}'),
    "the suite's summary": lambda here, _: write_suite(here, LEAN.replace("A tiny", "Another")),
    "the suite's reports": lambda here, _: write_suite(here, LEAN.replace("leaderboard", "coverage")),
    "the suite's runs": lambda here, _: write_suite(here, LEAN.replace("0-4", "0-3")),
    "the harness": _edit_harness,
    "a built-in plugin": _edit_plugin,
    "a version": lambda _, monkeypatch: monkeypatch.setattr(
        build.environment, "requirements", lambda *_: {"matplotlib": "99"}
    ),
    "data is missing": lambda _, monkeypatch: monkeypatch.setattr(
        "plugins.nights.nightly.absent_data", lambda: lambda _: "not here"
    ),
}
"""What the pages are made from -> an edit of it. The last night and --accept are in a test of their own."""


@pytest.mark.slow
def test_pages_are_made_anew_where_anything_that_they_are_made_from_changed(here, monkeypatch, capsys, sites):
    fabricate(here / "r", write_suite(here, LEAN), usual, only=lambda spec: spec.method == "sgld")
    monkeypatch.setattr("plugins.nights.nightly.absent_data", lambda: lambda _: "on holiday")
    assert nightly(here) == 0
    for what, edit in INPUTS.items():
        assert nightly(here) == 0
        assert sites == ["tiny"], f"nothing to do before {what}"
        assert "the pages are as before" in capsys.readouterr().err
        edit(here, monkeypatch)
        assert nightly(here) == 0
        assert sites == ["tiny", "tiny"], what
        sites.pop()


def test_pages_depend_on_the_code_of_plugins_from_outside(monkeypatch):
    """Those of sgmcmc-bench are in the hash of its packages."""
    offer = registry().find("samplers", "sgld")
    for distribution, counts in (("another", True), (offer.distribution, False)):
        offers = [replace(offer, distribution=distribution)]
        stub = SimpleNamespace(offers=lambda kind, offers=offers: offers if kind == "samplers" else [], plugins=[])
        before = build.code_of(stub)
        with monkeypatch.context() as patch:
            patch.setattr(build, "content_hash", lambda target: f"new {target}")
            assert (build.code_of(stub) != before) == counts


def test_a_regression_ends_with_5_and_names_its_row_until_it_is_accepted(here, capsys, new_code):
    suite = write_suite(here, LEAN)
    fabricate(here / "r", suite, usual)
    assert nightly(here) == 0
    new_code("b")
    fabricate(here / "r", suite, worse_sgld)
    capsys.readouterr()
    assert nightly(here) == 5
    shown = capsys.readouterr()
    (line,) = shown.out.splitlines()
    assert line.startswith("sgld on mixture5@adaptive-drift, smoke, 8 chains: wasserstein2 is worse: 1.02 -> 3.14")
    assert "1 regression" in shown.err
    assert nightly(here) == 5
    shown = capsys.readouterr()
    assert (shown.out, "1 regression" in shown.err) == ("", True), "it is printed once"
    page = (here / "site" / "index.html").read_text()
    assert "1 regression" in page
    assert line.partition(":")[0] in page
    assert nightly(here, "--accept") == 0
    assert nightly(here) == 0
    assert nights(here) == ["000001.json", "000002.json"]
    assert json.loads((here / "r" / "nights" / "tiny" / "000002.json").read_text())["accepted"]


@pytest.mark.slow
def test_better_numbers_and_new_code_with_the_same_numbers_end_with_0(here, capsys, new_code):
    suite = write_suite(here, LEAN)
    fabricate(here / "r", suite, worse_sgld)
    assert nightly(here) == 0
    new_code("b")
    fabricate(here / "r", suite, usual)
    capsys.readouterr()
    assert nightly(here) == 0
    assert "wasserstein2 is better" in capsys.readouterr().out
    new_code("c")
    fabricate(here / "r", suite, usual)
    assert nightly(here) == 0
    assert capsys.readouterr().out == ""
    assert len(nights(here)) == 3


def test_only_tonights_runs_are_on_the_page(here, new_code):
    suite = write_suite(here, LEAN)
    fabricate(here / "r", suite, usual)
    new_code("b")
    fabricate(here / "r", suite, worse_sgld)
    nightly(here)
    records = json.loads((here / "site" / "leaderboard.json").read_text())
    assert len({(record["label"], record["metric"]) for record in records}) == len(records) == 4
    assert {record["label"] for record in records} == {"sgld", "hmc"}


def test_json_has_every_comparison_as_a_flat_object(here, capsys, new_code):
    suite = write_suite(here, LEAN)
    fabricate(here / "r", suite, usual)
    nightly(here)
    new_code("b")
    fabricate(here / "r", suite, worse_sgld)
    capsys.readouterr()
    assert nightly(here, "--json") == 5
    records = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [record["outcome"] for record in records] == ["same", "same", "same", "worse"]
    assert records[3]["p_adjusted"] < 0.05
    assert records[3]["scale"] == "tonight / reference"
    assert records == json.loads((here / "site" / "night.json").read_text())


@pytest.mark.slow
def test_a_diverged_run_is_1_on_the_first_night_and_5_where_it_is_new(here, capsys, new_code):
    suite = write_suite(here, LEAN)
    fabricate(here / "r", suite, usual)
    assert nightly(here) == 0
    new_code("b")
    fabricate(here / "r", suite, usual, "diverged", only=lambda spec: spec.method == "hmc" and spec.seed == 3)
    fabricate(here / "r", suite, usual)
    capsys.readouterr()
    assert nightly(here) == 5
    assert "hmc on mixture5@adaptive-drift, smoke, 8 chains: diverged: seed 3" in capsys.readouterr().out
    page = (here / "site" / "night.html").read_text()
    assert "Runs without a result" in page
    assert "made up: diverged" in page
    other = write_suite(here, LEAN, name="other.toml")
    assert run(["--results", str(here / "r"), "nightly", str(other), "--out", str(here / "other")]) == 1


def test_an_unfinished_night_is_published_as_such_and_is_no_last_night(here, capsys, monkeypatch):
    suite = write_suite(here, LEAN)
    fabricate(here / "r", suite, usual, only=lambda spec: spec.seed != 2)
    from harness.runs import local

    def nothing(*_, **__):
        return local.LaunchSummary(failures=[(1, "held by another")])

    monkeypatch.setattr(local, "launch", nothing)
    assert nightly(here) == 1
    assert "2 runs not finished" in capsys.readouterr().err
    assert "2 runs not finished" in (here / "site" / "index.html").read_text()
    assert nights(here) == []
    fabricate(here / "r", suite, usual)
    assert nightly(here) == 0
    assert nights(here) == ["000001.json"]


def test_what_failed_before_is_run_again(here, monkeypatch):
    suite = write_suite(here, LEAN)
    fabricate(here / "r", suite, usual, "timeout", only=lambda spec: spec.seed == 2)
    fabricate(here / "r", suite, usual, only=lambda spec: spec.seed != 2)
    from harness.runs import local

    asked = []

    def launch(jobs, *_, **__):
        asked.extend(spec.seed for job in jobs for spec in job.specs)
        fabricate(here / "r", suite, usual)
        return local.LaunchSummary()

    monkeypatch.setattr(local, "launch", launch)
    assert nightly(here) == 0
    assert asked == [2, 2]


def test_rows_whose_data_is_missing_are_left_out_with_the_reason(here, capsys, monkeypatch):
    monkeypatch.setenv("BENCH_DATA", str(here / "nowhere"))
    suite = write_suite(here, TINY.replace('["mixture5"]', '["mixture5", "blr-heart"]'))
    fabricate(here / "r", suite, usual, only=lambda spec: spec.task.name == "mixture5")
    assert nightly(here) == 0
    assert "left out of run 1: data set heart" in capsys.readouterr().err
    page = (here / "site" / "night.html").read_text()
    assert re.search(r"Left out.*sgld on blr-heart@csgmcmc, smoke, 1 chain.*data set heart", page, re.DOTALL)
    assert nights(here) == ["000001.json"]


def test_a_second_command_on_the_suite_waits_and_then_says_who_is_at_it(here, capsys, monkeypatch):
    fabricate(here / "r", write_suite(here, LEAN), usual)
    (here / "r" / "nights").mkdir()
    monkeypatch.setattr("plugins.nights.nightly.LOCK_TIMEOUT_SECONDS", 0.1)
    with locks.lock_file(here / "r" / "nights" / "tiny.lock", 1.0):
        assert nightly(here) == 1
    assert "suite tiny is being run by process" in capsys.readouterr().err
    assert nightly(here) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TINY.replace("hmc", "hcm"), "tiny.toml, run 1: unknown sampler 'hcm'; did you mean hmc"),
        (TINY.replace("mixture5", "mixture"), "tiny.toml, run 1: unknown task 'mixture'; did you mean mixture"),
        (TINY.replace("smoke", "smok"), "tiny.toml, run 1: unknown budget 'smok'"),
        (TINY.replace("coverage", "cover"), "unknown report 'cover'; did you mean coverage"),
        (TINY + "settings = { sampler.frictoin = 1 }", "tiny.toml, run 1: unknown setting 'sampler.frictoin'"),
    ],
)
def test_what_cannot_be_planned_is_refused_before_anything_is_made(here, capsys, text, words):
    write_suite(here, text)
    assert nightly(here) == 2
    assert words in capsys.readouterr().err
    assert not (here / "r").exists()
    assert not (here / "site").exists()


def test_a_report_that_fails_takes_no_other_with_it(here, capsys, monkeypatch):
    from reports.tables.coverage import Coverage

    def broken(*_):
        raise ZeroDivisionError("<b>odd</b>")

    monkeypatch.setattr(Coverage, "build", broken)
    fabricate(here / "r", write_suite(here), usual)
    assert nightly(here) == 3
    assert "report coverage could not be created: ZeroDivisionError" in capsys.readouterr().err
    page = (here / "site" / "index.html").read_text()
    assert "ZeroDivisionError: &lt;b&gt;odd" in page
    assert (here / "site" / "leaderboard.csv").exists()
    assert nights(here) == ["000001.json"]


def test_a_suite_of_all_says_what_it_leaves_out(here, capsys, monkeypatch):
    """`samplers = "all"`: rows of what the study has settings for, and the reason for each of the others."""
    monkeypatch.setattr(groups, "_methods", lambda _: ["sgld", "hmc", "sgfs"])
    suite = here / "mine.toml"
    text = 'samplers = "all"\ntasks = ["mixture5", "mixture25"]\nseeds = [0, 1]\nstudy = "mini"\n'
    suite.write_text(f'reports = ["leaderboard"]\n[[run]]\n{text}')
    assert nightly(here, suite=suite) == 2
    assert "there is no study 'mini'" in capsys.readouterr().err
    pair = {"method": "sgld", "task": "mixture5", "protocol": "adaptive-drift", "budget": "quick"}
    settings = {"schedule": "constant", "schedule.step_size": 0.01}
    (here / "r" / "tuning").mkdir(parents=True)
    study = {"format": 1, "tuned": [{**pair, "settings": settings, "trials": 1, "passes": 1.0, "code": {}}]}
    (here / "r" / "tuning" / "mini.json").write_text(json.dumps(study))
    fabricate(here / "r", suite, usual)
    assert nightly(here, suite=suite) == 0
    page = (here / "site" / "night.html").read_text()
    assert "sgld on mixture5@adaptive-drift" in page
    for row, reason in {
        "hmc on mixture5, mixture25": "study mini has no settings for it",
        "sgld on mixture25": "study mini has no settings for it",
        "sgfs on mixture5, mixture25": "needs scores of a potential, which the task does not provide",
    }.items():
        assert row in page
        assert reason in page
