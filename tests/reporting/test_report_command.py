"""`bench report`: what it prints where, which files it writes, and how it refuses."""

import importlib.metadata
import json
import os
import subprocess
import sys

import pytest
from scored import moments, write_run

import harness
from harness import UsageError
from harness.cli.app import run
from harness.reporting.report import Report, Result
from harness.reporting.tables import Figure
from harness.system.errors import DataError
from plugins.reporting.report import _with_columns

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
@pytest.mark.parametrize(
    ("form", "file"), [("latex", "coverage.tex"), ("csv", "coverage.csv"), ("table", "coverage.txt")]
)
def test_out_may_be_a_folder_or_a_file_whose_ending_chooses_the_format(tmp_path, capsys, form, file):
    report("coverage", format=form, out=tmp_path / "there")
    report("coverage", out=tmp_path / file)
    assert (tmp_path / "there" / file).read_bytes() == (tmp_path / file).read_bytes()
    assert capsys.readouterr().out == ""


class Drawn(Report):
    def build(self, store, request):
        return Result(
            records=[{"a": 1}], figures=[Figure("f", lambda canvas: canvas.subplots(), (2.0, 1.5), "Bars: draws.")]
        )


@pytest.mark.usefixtures("results")
def test_figures_are_drawn_where_a_place_for_them_is_named(tmp_path, monkeypatch, capsys):
    def refuse(_):
        raise AssertionError("nobody asked for it")

    built = Result(records=[{"a": 1}], figures=[Figure("f", refuse)])
    monkeypatch.setattr(
        "plugins.reporting.report.find_report", lambda *_: type("Fails", (Drawn,), {"build": lambda *_: built})()
    )
    report("density")
    assert "1 figure not drawn; --out FOLDER writes them" in capsys.readouterr().err
    report("density", out=tmp_path / "a.csv")
    monkeypatch.setattr("plugins.reporting.report.find_report", lambda *_: Drawn())
    report("density", out=tmp_path / "here")
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"density.txt", "f.svg", "f.png"}
    assert "Figure f: Bars: draws." in (tmp_path / "here" / "density.txt").read_text()


@pytest.fixture
def pictures(monkeypatch):
    """A report whose figures, by name, are lines."""

    def install(*names):
        drawn = [Figure(name, lambda canvas: canvas.subplots().plot([1, 2]), (2.0, 1.5)) for name in names]
        built = Result(records=[{"a": 1}], figures=drawn)
        kind = type("Some", (Drawn,), {"build": lambda *_: built})
        monkeypatch.setattr("plugins.reporting.report.find_report", lambda *_: kind())

    return install


STARTS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.mark.usefixtures("results")
@pytest.mark.parametrize("kind", STARTS)
def test_a_file_named_as_a_figure_is_the_figure(tmp_path, pictures, kind):
    pictures("f")
    report("density", out=tmp_path / f"x.{kind}")
    report("density", out=tmp_path / f"y.{kind.upper()}")
    written = (tmp_path / f"x.{kind}").read_bytes()
    assert written.startswith(STARTS[kind])
    assert written == (tmp_path / f"y.{kind.upper()}").read_bytes()
    assert len(list(tmp_path.glob("*.*"))) == 2  # no text, no other kind
    report("density", out=tmp_path / f"wide.{kind}", size="4x2", title="Mine")
    assert written != (tmp_path / f"wide.{kind}").read_bytes()


@pytest.mark.usefixtures("results")
def test_a_figure_that_is_not_one_or_not_a_figure_is_refused(tmp_path, pictures, capsys):
    refused = {
        "2 figures, f, g: narrow it by --task": (["f", "g"], {"out": "x.svg"}),
        "has no figure of these results": ([], {"out": "x.svg"}),
        "unknown ending .jpg; choose one of .txt": (["f"], {"out": "x.jpg"}),
        "names a figure, which has no format csv": (["f"], {"out": "x.pdf", "format": "csv"}),
        "is not WIDTHxHEIGHT in inches": (["f"], {"out": "x.pdf", "size": "400x2"}),
    }
    for message, (names, options) in refused.items():
        pictures(*names)
        report("density", **options | {"out": tmp_path / options["out"]}, code=UsageError.exit_code)
        assert message in capsys.readouterr().err
    assert not [path for path in tmp_path.iterdir() if path.is_file()]


def test_a_pdf_has_the_same_bytes_in_another_process():
    code = (
        "import sys; from harness.reporting.report import Figure; from harness.reporting.rendering import figures;"
        "f = Figure('f', lambda canvas: canvas.subplots().set_title(r'$\\theta_1$ and text'));"
        "sys.stdout.buffer.write(figures.drawn(f, 'pdf')[0])"
    )
    one, two = (
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True,
                       check=True).stdout
        for seed in ("1", "2")
    )  # fmt: skip
    assert one.startswith(b"%PDF")
    assert one == two


@pytest.mark.usefixtures("results")
def test_columns_are_chosen_by_key_or_header(capsys):
    report("coverage", columns="modes covered,method")
    head = capsys.readouterr().out.splitlines()[1:3]
    assert "rank" not in "".join(head)
    assert "modes covered" in "".join(head)
    report("leaderboard", columns="method,mean", json=True)
    assert list(json.loads(capsys.readouterr().out)[0]) == ["method", "mean"]
    report("coverage", columns="mean_of_it", code=UsageError.exit_code)
    assert "unknown column 'mean_of_it'; the columns are rank, " in capsys.readouterr().err


def test_every_column_can_be_asked_for_by_its_key_and_its_header(results, capsys):
    loaded = harness.load(results)
    for name in ("leaderboard", "coverage", "best"):
        result = loaded.report(name)
        (table,) = result.tables
        every = [*table.columns, *table.more]
        assert table.more
        assert len({column.key for column in every}) == len({column.header for column in every}) == len(every)
        for names in ([column.key for column in every], [column.header for column in every]):
            for asked in (*([one] for one in names), [",".join(names)]):
                (chosen,) = _with_columns(result, asked, "table").tables
                assert [column.key for column in chosen.columns] in ([c.key] for c in every) or chosen.columns == every
        (chosen,) = _with_columns(result, ["all"], "table").tables
        assert chosen.columns == every
        assert not chosen.more
    report("leaderboard", columns="all")
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("within-mode covariance ratio", "possible ranks", "group key"))
    report("leaderboard", columns="all", json=True)
    assert len(json.loads(capsys.readouterr().out)) == len(loaded.report("leaderboard").records)


def test_runs_are_chosen_by_budget_and_chains(results, capsys):
    write_run(results, chains=8, metrics={"modes_covered": 20.0}, budget="smoke")
    for options, chains in (
        ({}, {4, 8}),
        ({"chains": 8}, {8}),
        ({"budget": "smoke"}, {8}),
        ({"chains": "8,4"}, {4, 8}),
    ):
        report("coverage", **options, json=True)
        assert {record["chains"] for record in json.loads(capsys.readouterr().out)} == chains
    report("coverage", chains="4", budget="smoke")
    assert "there are results of mixture25@" in capsys.readouterr().err
    for options in ({"chains": 5}, {"budget": "smok"}):
        report("coverage", **options, code=UsageError.exit_code)
    assert "did you mean smoke" in capsys.readouterr().err


def test_an_equal_budget_of_earlier_results_is_in_the_same_table_however_it_was_spelled(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BENCH_RESULTS", str(tmp_path))
    for method, budget in (("sgld", "passes=1e1"), ("psgld", "passes=10.0"), ("sghmc", "passes=x")):
        write_run(tmp_path, method=method, metrics={"modes_covered": 20.0}, budget=budget)
    report("leaderboard", budget="passes=10", json=True)
    rows = json.loads(capsys.readouterr().out)
    assert {(row["method"], row["budget"]) for row in rows} == {("sgld", "passes=10"), ("psgld", "passes=10")}


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
