"""`bench report`: what it prints where, which files it writes, and how it refuses."""

import importlib.metadata
import itertools
import json
import os

import pytest
from scored import moments, write_run

from harness import UsageError
from harness.cli import context
from harness.cli.report import report
from harness.reporting.report import Figure, Report, Result
from harness.system.errors import DataError

INSTALLED = any(entry.name == "reports" for entry in importlib.metadata.entry_points(group="bench"))
pytestmark = pytest.mark.skipif(not INSTALLED, reason="sgmcmc-bench is not installed: no entry points")


@pytest.fixture
def results(tmp_path, monkeypatch):
    here = tmp_path / "results"
    monkeypatch.setattr(context, "_current", context.Context(here))
    for seed in range(5):
        metrics = {"modes_covered": 10.0 + seed, "within_mode_covariance_ratio": 1.0}
        write_run(here, seed=seed, metrics=metrics, curves=moments(0.01 * (-1) ** seed))
    return here


@pytest.mark.usefixtures("results")
def test_tables_go_to_stdout(capsys):
    report("coverage")
    shown = capsys.readouterr()
    assert "12.0 ± 2.0" in shown.out
    assert shown.err == ""


@pytest.mark.usefixtures("results")
def test_json_is_json(capsys):
    report("leaderboard", as_json=True)
    records = json.loads(capsys.readouterr().out)
    assert {record["metric"] for record in records} >= {"modes_covered", "within_mode_covariance_ratio", "joint_error"}


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(("form", "file"), [("latex", "coverage.tex"), ("csv", "coverage.csv")])
def test_out_may_be_a_folder_or_a_file(tmp_path, capsys, form, file):
    report("coverage", form=form, out=tmp_path / "there")
    report("coverage", form=form, out=tmp_path / file)
    assert (tmp_path / "there" / file).read_bytes() == (tmp_path / file).read_bytes()
    assert capsys.readouterr().out == ""


class Drawn(Report):
    def build(self, store, request):
        return Result(records=[{"a": 1}], figures=[Figure("f", lambda canvas: canvas.subplots(), (2.0, 1.5))])


@pytest.mark.usefixtures("results")
def test_on_a_full_disk_the_old_files_stay(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.cli.report.load_report", lambda _: Drawn())
    report("density", out=tmp_path / "a.md")
    old = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert {path.rpartition(".")[2] for path in old} == {"md", "svg", "png"}
    for path in old:
        (tmp_path / path).write_bytes(b"old")
    fsync, calls = os.fsync, itertools.count()

    def full(descriptor):
        if next(calls) == len(old) - 1:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"cannot write .*: No space left on device; choose another --out"):
        report("density", out=tmp_path / "a.md")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == dict.fromkeys(old, b"old")


@pytest.mark.usefixtures("results")
def test_a_link_is_written_where_it_leads_and_a_pipe_is_refused(tmp_path):
    (tmp_path / "there.csv").touch()
    (tmp_path / "link.csv").symlink_to("there.csv")
    report("coverage", out=tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "there.csv").read_text().startswith("task")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="is not an ordinary file"):
        report("coverage", out=tmp_path / "pipe.csv")


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(("form", "file"), [("latex", "a.tex"), ("csv", "a.csv"), ("table", "a.out")])
def test_the_ending_of_a_file_chooses_the_format(tmp_path, form, file):
    report("coverage", out=tmp_path / file)
    report("coverage", form=form, out=tmp_path / f"same-{file}")
    assert (tmp_path / file).read_bytes() == (tmp_path / f"same-{file}").read_bytes()


def test_an_empty_folder_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(context, "_current", context.Context(tmp_path / "none"))
    report("leaderboard", as_json=True)
    shown = capsys.readouterr()
    assert json.loads(shown.out) == []
    assert "bench run --sampler" in shown.err


@pytest.mark.usefixtures("results")
def test_a_filter_that_leaves_nothing_says_what_there_is(capsys):
    report("leaderboard", task=["mixture25@csgmcmc-code"])
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "there are results of mixture25@csgmcmc" in shown.err


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("leaderbord", {}, "leaderboard"),
        ("coverage", {"task": ["mixture"]}, "mixture25"),
        ("coverage", {"method": ["sglt"]}, "sgld"),
        ("coverage", {"protocol": ["csgmcm"]}, "csgmcmc"),
        ("coverage", {"metric": "modes"}, "modes_covered"),
        ("coverage", {"form": "mardown"}, "markdown"),
        ("coverage", {"form": "csv", "as_json": True}, "exclude each other"),
    ],
)
def test_what_is_unknown_is_refused_with_near_matches(name, options, message):
    with pytest.raises(UsageError, match=message):
        report(name, **options)
