"""`bench report`: what it prints where, which files it writes, and how it refuses."""

import importlib.metadata
import json
import os

import pytest
from scored import moments, write_run

from harness import UsageError
from harness.cli.app import run
from harness.reporting.report import Figure, Report, Result
from harness.system.errors import DataError

INSTALLED = any(entry.name == "reports" for entry in importlib.metadata.entry_points(group="bench"))
pytestmark = pytest.mark.skipif(not INSTALLED, reason="sgmcmc-bench is not installed: no entry points")


@pytest.fixture
def results(tmp_path, monkeypatch):
    here = tmp_path / "results"
    monkeypatch.setenv("BENCH_RESULTS", str(here))
    for seed in range(5):
        metrics = {"modes_covered": 10.0 + seed, "within_mode_covariance_ratio": 1.0}
        write_run(here, seed=seed, metrics=metrics, curves=moments(0.01 * (-1) ** seed))
    return here


def report(name, code=0, **options):
    """`bench report NAME --option VALUE ...`."""
    given = ([f"--{option}"] if value is True else [f"--{option}", str(value)] for option, value in options.items())
    assert run(["report", name, *(word for words in given for word in words)]) == code


@pytest.mark.usefixtures("results")
def test_tables_go_to_stdout(capsys):
    report("coverage")
    shown = capsys.readouterr()
    assert "12.0 ± 2.0" in shown.out
    assert shown.err == ""


@pytest.mark.usefixtures("results")
def test_json_is_json(capsys):
    report("leaderboard", json=True)
    records = json.loads(capsys.readouterr().out)
    assert {record["metric"] for record in records} >= {"modes_covered", "within_mode_covariance_ratio", "joint_error"}


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(("form", "file"), [("latex", "coverage.tex"), ("csv", "coverage.csv")])
def test_out_may_be_a_folder_or_a_file(tmp_path, capsys, form, file):
    report("coverage", format=form, out=tmp_path / "there")
    report("coverage", format=form, out=tmp_path / file)
    assert (tmp_path / "there" / file).read_bytes() == (tmp_path / file).read_bytes()
    assert capsys.readouterr().out == ""


class Drawn(Report):
    def build(self, store, request):
        return Result(records=[{"a": 1}], figures=[Figure("f", lambda canvas: canvas.subplots(), (2.0, 1.5))])


@pytest.mark.usefixtures("results")
def test_figures_are_drawn_where_a_place_for_them_is_named(tmp_path, monkeypatch, capsys):
    def refuse(_):
        raise AssertionError("nobody asked for it")

    made = Result(records=[{"a": 1}], figures=[Figure("f", refuse)])
    monkeypatch.setattr(
        "harness.cli.report.load_report", lambda _: type("Fails", (Drawn,), {"build": lambda *_: made})()
    )
    report("density")
    assert "1 figure not drawn; --out FOLDER writes them" in capsys.readouterr().err
    report("density", out=tmp_path / "a.csv")
    monkeypatch.setattr("harness.cli.report.load_report", lambda _: Drawn())
    report("density", out=tmp_path / "here")
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"density.txt", "f.svg", "f.png"}


@pytest.mark.usefixtures("results")
def test_a_link_is_written_where_it_leads_and_a_pipe_is_refused(tmp_path, capsys):
    (tmp_path / "there.csv").touch()
    (tmp_path / "link.csv").symlink_to("there.csv")
    report("coverage", out=tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "there.csv").read_text().startswith("task")
    os.mkfifo(tmp_path / "pipe.csv")
    report("coverage", out=tmp_path / "pipe.csv", code=DataError.exit_code)
    assert "is not an ordinary file" in capsys.readouterr().err


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(("form", "file"), [("latex", "a.tex"), ("csv", "a.csv"), ("table", "a.out")])
def test_the_ending_of_a_file_chooses_the_format(tmp_path, form, file):
    report("coverage", out=tmp_path / file)
    report("coverage", format=form, out=tmp_path / f"same-{file}")
    assert (tmp_path / file).read_bytes() == (tmp_path / f"same-{file}").read_bytes()


def test_an_empty_folder_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BENCH_RESULTS", str(tmp_path / "none"))
    report("leaderboard", json=True)
    shown = capsys.readouterr()
    assert json.loads(shown.out) == []
    assert "bench run --sampler" in shown.err


@pytest.mark.usefixtures("results")
def test_a_filter_that_leaves_nothing_says_what_there_is(capsys):
    report("leaderboard", task="mixture25@csgmcmc-code")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "there are results of mixture25@csgmcmc" in shown.err


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("leaderbord", {}, "leaderboard"),
        ("coverage", {"task": "mixture"}, "mixture25"),
        ("coverage", {"method": "sglt"}, "sgld"),
        ("coverage", {"protocol": "csgmcm"}, "csgmcmc"),
        ("coverage", {"metric": "modes"}, "modes_covered"),
        ("coverage", {"format": "mardown"}, "markdown"),
        ("coverage", {"format": "csv", "json": True}, "exclude each other"),
    ],
)
def test_what_is_unknown_is_refused_with_near_matches(name, options, message, capsys):
    report(name, **options, code=UsageError.exit_code)
    assert message in capsys.readouterr().err
