from __future__ import annotations

import csv
import io
import json

import fabricated
import pytest

from harness.cli.app import run
from plugins.inspection.shown.sections import sections
from tasks.synthetic.mixture import MixtureTask

KEY = fabricated.run_key(0)
RUN = ["--sampler", "sgld", "--task", "mixture5", "--budget", "smoke"]


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    fabricated.concluded(folder, 0)
    fabricated.concluded(folder, 1, status="diverged", reason="not finite", step=12, chain=3, metrics=[])
    fabricated.concluded(folder, 2, method="csgld")
    fabricated.unfinished(folder, 3, task="mixture5")
    return folder


@pytest.fixture
def answer(bench):
    def command(*words):
        code, out, err = bench(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    return command


def test_ls_runs_shows_every_run(answer):
    rows = answer("ls", "runs")
    assert [(r["task"], r["method"], r["seed"], r["status"]) for r in rows] == [
        ("mixture25", "csgld", 2, "done"),
        ("mixture25", "sgld", 0, "done"),
        ("mixture25", "sgld", 1, "diverged"),
        ("mixture5", "sgld", 3, "orphaned"),
    ]
    assert (rows[1]["metric"], rows[1]["value"]) == ("modes_covered", 0.5)
    assert (rows[2]["reason"], rows[2]["diverged_at"], rows[2]["value"]) == ("not finite", 12, None)


@pytest.mark.parametrize("address", ["https://a.org/b", "http://localhost:80/b", "s3://bucket/b"])
@pytest.mark.parametrize("by", ["--results", "BENCH_RESULTS"])
def test_an_address_is_not_a_results_folder(address, by, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if by != "--results":
        monkeypatch.setenv(by, address)
    assert run([*([by, address] if by == "--results" else []), "run", *RUN]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert f"{address!r} is an address; download the folder first" in said.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        (["--task", "mixture5"], [3]),
        (["--method", "sgld", "--status", "done,diverged"], [0, 1]),
        (["--method", "csgld,sgld", "--task", "mixture25"], [2, 0, 1]),
        (["--method", "hmc"], []),
    ],
)
def test_ls_runs_filters(answer, options, seeds):
    assert [row["seed"] for row in answer("ls", "runs", *options)] == seeds


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["ls", "sampler"], "did you mean samplers"),
        (["ls", "runs", "--task", "mixture26"], "mixture25"),
        (["ls", "runs", "--method", "csgl"], "csgld"),
        (["ls", "runs", "--status", "dones"], "done"),
        (["ls", "tasks", "--method", "sgld"], "choose among runs"),
        (["show", "csgdl"], "csgld"),
        (["show", "tsk", "mixture25"], "task"),
        (["show", "run", "abc"], "6 to 64"),
        (["show", "run", "0" * 12], "there is no run"),
        (["show", "a", "b", "c"], "a kind and a name"),
        (["show", "task", "sgld"], "unknown task"),
        (["sql", "select"], "Parser Error"),
        (["sql", "drop table run"], "read-only"),
        (["sql", "select 1", "--json", "--csv"], "exclude each other"),
        (["data", "verify", "blr-hart"], "blr-heart"),
    ],
)
def test_what_is_wrong_is_said_with_near_matches(bench, words, hint):
    code, out, err = bench(*words)
    assert code == 2
    assert hint in err
    assert out == ""


def test_ls_samplers_has_methods_too(answer):
    rows = {row["name"]: row for row in answer("ls", "samplers")}
    assert (rows["sgld"]["kind"], rows["sgld"]["schedule"]) == ("sampler", None)
    assert (rows["csgld"]["kind"], rows["csgld"]["sampler"]) == ("method", "sgld")
    assert {row["name"] for row in answer("ls", "methods")} == {n for n, r in rows.items() if r["kind"] == "method"}


def test_sql_answers_in_three_forms(bench, answer):
    query = "select seed, value, 'nan'::double as nothing, 1.5 as half from run_metric "
    query += "where metric = 'mass_error' order by seed"
    assert answer("sql", query) == [
        {"seed": 0, "value": 1.5, "nothing": None, "half": 1.5},
        {"seed": 2, "value": 1.5, "nothing": None, "half": 1.5},
    ]
    rows = list(csv.reader(io.StringIO(bench("sql", query, "--csv")[1])))
    assert rows[0] == ["seed", "value", "nothing", "half"]
    assert [row[0] for row in rows[1:]] == ["0", "2"]
    assert bench("sql", query)[1].splitlines()[0].split() == rows[0]
    assert bench("sql", "select seed from run where false", "--csv")[1] == "seed\n"


def test_ingest_counts_attempts(answer, results):
    counts = [{"status": "diverged", "attempts": 1}, {"status": "done", "attempts": 2}]
    counts += [{"status": "orphaned", "attempts": 1}]
    assert answer("ingest") == counts
    (results / "results.duckdb").write_bytes(b"junk")
    assert answer("ingest", "--rebuild") == counts


def test_notes_go_to_stderr(bench, results):
    fabricated.concluded(results, 9).joinpath("spec.json").unlink()
    code, out, err = bench("ls", "runs", "--json")
    assert code == 0
    assert "spec.json is missing" in err
    assert len(json.loads(out)) == 4


def test_show_has_the_number_format_of_a_task_whose_settings_decide_on_it(answer):
    assert answer("show", "airfoil")[0]["dtype"] == "float64"


def test_show_run_has_settings_with_their_source(answer, monkeypatch):
    monkeypatch.setattr(MixtureTask, "version", 1)  # that of the made-up runs
    (record,) = answer("show", KEY[:10])
    settings = {row["setting"]: row for row in record["settings"]}
    assert settings["schedule.step_size"] == {
        "setting": "schedule.step_size", "value": 0.02, "provenance": "paper", "source": "section 5.1",
    }  # fmt: skip
    assert record["metrics"][0]["metric"] == "modes_covered"
    assert record["truth"]["how"]
    assert record["code"][0]["commit"] == "a" * 40
    assert record["environment"]["cpu"] == "a processor"
    assert [event["event"] for event in record["events"]] == ["created", "started", "finished"]
    first = {row["convention"]: row["settings"] for row in record["equivalents"] if row["at"] == "first step"}
    assert first["here"] == "h = 0.02, T = 1"
    assert any(settings == "epsilon = 0.04, T = 1" for settings in first.values())


def test_show_takes_a_run_by_kind_and_refuses_an_ambiguous_key(bench, answer, results):
    assert answer("show", "run", KEY)[0]["run_key"] == KEY
    twin = KEY[:8] + "0" * 56
    fabricated.conclude(fabricated.unfinished(results, 5, key=twin))
    code, _, err = bench("show", KEY[:8])
    assert code == 2
    assert "matches 2 runs" in err
    assert answer("show", KEY[:9])[0]["run_key"] == KEY


def test_show_run_without_its_plugins(answer, results):
    gone = fabricated.conclude(fabricated.unfinished(results, 6, task="a-task-that-is-gone", method="gone"))
    (record,) = answer("show", gone.parent.name)
    assert (record["equivalents"], record["truth"]) == ([], None)
    assert "a-task-that-is-gone" in record["note"]


def test_show_task_has_its_truth(answer):
    (record,) = answer("show", "task", "mixture25")
    truth = record["truth"]
    assert truth["mean"] == pytest.approx([0, 0], abs=1e-12)
    assert truth["sd"] == pytest.approx([8.03**0.5] * 2)
    assert truth["mcse"] == [0, 0]
    assert truth["how"]
    assert record["curvature"] == pytest.approx(1 / 0.03)
    assert [row["metric"] for row in record["metrics"] if row["primary"]] == ["modes_covered"]
    assert {row["protocol"] for row in record["protocols"]} >= {"csgmcmc"}
    assert all({"default", "allowed", "meaning", "source"} <= set(row) for row in record["settings"])


def test_show_sampler_has_its_limits(answer):
    (record,) = answer("show", "sghmc")
    assert record["kind"] == "sampler"
    assert "(1 - alpha) v" in record["description"]
    assert record["stability_limit"] == pytest.approx(2 * (2 - 0.1), rel=1e-3)
    assert (record["gradients_per_step"], record["limit_bias"]) == (1, 1.0)
    assert record["state"] == [{"entry": "v", "shape": "(C, D)", "type": "real", "adaptive": ""}]
    assert record["stationary_variance"][0]["lambda var/T"] == "1"
    (friction,) = (row for row in record["hyperparameters"] if row["name"] == "friction")
    assert (friction["name"], friction["default"], friction["allowed"]) == ("friction", 0.1, "[0, 1]")
    (msgld,) = answer("show", "sampler", "msgld")
    assert msgld["limit_bias"] == pytest.approx(0.5)


def test_show_method_and_schedule(answer):
    (method,) = answer("show", "csgld")
    assert (method["kind"], method["sampler"], method["schedule"]) == ("method", "sgld", "cyclical")
    assert {"sampler.gradient_variance", "schedule.beta"} <= {row["name"] for row in method["hyperparameters"]}
    (schedule,) = answer("show", "cyclical")
    assert "cosine" in schedule["description"]


@pytest.mark.parametrize("name", ["mixture25", "sgld", "csgld", "cyclical", KEY[:12]])
def test_show_prints_for_people(bench, name):
    code, out, _ = bench("show", name)
    assert code == 0
    assert any(line.startswith("kind ") for line in out.splitlines())
    assert "None" not in out


def test_every_task_that_is_listed_can_be_shown(answer):
    for row in answer("ls", "tasks"):
        (record,) = answer("show", "task", row["name"])
        assert record["name"] == row["name"]


def test_a_listing_of_no_runs_says_so(tmp_path, capsys):
    assert run(["--results", str(tmp_path), "ls", "runs"]) == 0
    assert f"no runs in {tmp_path}; `bench run --help` says how to make some" in capsys.readouterr().err


def test_numbers_for_people_have_three_digits_and_given_settings_all():
    record = {
        "seconds": 0.07563783593332118, "steps": 15_000,
        "settings": [{"setting": "h", "value": 0.0123456789}],
        "metrics": [{"metric": "joint_error", "value": 0.06361959221411287, "target": None}],
        "truth": {
            "mcse": [0.0], "sd": [2.8337254630609507] * 9, "directions": [[0.7071067811865476, -0.7071067811865476]],
        },
    }  # fmt: skip
    single, settings, metrics, truth = (part.cells() for part in sections(record))
    assert single == [["seconds", "0.0756"], ["steps", "15000"]]
    assert settings == [["h", "0.0123456789"]]
    assert metrics == [["joint_error", "0.0636", ""]]
    assert truth == [
        ["mcse", "0.0"],
        ["sd", "2.83, 2.83, 2.83, 2.83, 2.83, 2.83, and 3 more"],
        ["directions", "[0.707, -0.707]"],
    ]
