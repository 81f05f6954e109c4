"""What a command asks for is bounded, and refused before any of it is made."""

import json
import re

import pytest

from harness import UsageError
from harness.application import bench as application
from harness.contracts.registry import registry
from harness.runs.plan import MAX_SEEDS, RunRequest, expand, parse_seeds, size
from plugins.nights.suite import read

LONG = "a" * 400_000


@pytest.fixture
def results(tmp_path):
    return tmp_path / "r"


def test_the_seeds_of_a_reproduction_are_refused_by_their_number(bench, results):
    code, out, err = bench("reproduce", "csgmcmc", "--seeds", "0-900000", "--budget", "smoke")
    assert (code, out) == (2, "")
    assert "and a command plans at most 20,000" in err
    assert not results.exists()


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_a_sweep_of_a_command_is_refused_by_its_number(bench, results, verb):
    values = ",".join(map(str, range(1000)))
    sweeps = [word for name in ("a", "b", "c") for word in ("--sweep", f"schedule.{name}={values}")]
    code, out, err = bench(verb, "--sampler", "sgld", "--task", "mixture5", "--seeds", "0-9", *sweeps)
    assert (code, out) == (2, "")
    assert "10,000,000,000 runs" in err
    assert "--max-runs" in err
    assert not results.exists()


def test_the_entries_of_a_suite_count_together(bench, tmp_path):
    entry = '[[run]]\nsamplers = ["sgld"]\ntasks = ["mixture5"]\nseeds = "0-{}"\n'
    suite = tmp_path / "mine.toml"
    suite.write_text(entry.format(14_999) * 2)
    code, _, err = bench("nightly", str(suite), "--out", str(tmp_path / "site"))
    assert (code, "30,000 runs" in err) == (2, True)
    suite.write_text(f"{entry.format(999)}sweep = {{ schedule.step_size = {[*range(1, 10_001)]} }}")
    code, _, err = bench("nightly", str(suite), "--out", str(tmp_path / "site"))
    assert (code, "10,000,000 runs" in err) == (2, True)


def test_the_limit_is_raised_by_its_flag_and_many_runs_are_announced(bench, monkeypatch):
    words = ["plan", "--sampler", "sgld,hmc", "--task", "mixture5", "--seeds", "0-2", "--json"]
    assert bench(*words, "--max-runs", "5")[0] == 2
    monkeypatch.setattr(application, "MANY_RUNS", 5)
    code, out, err = bench(*words, "--max-runs", "6")
    assert (code, len(json.loads(out)), err.splitlines()[0]) == (0, 6, "planning 6 runs")


def test_the_size_is_that_of_the_plan():
    both = [
        RunRequest(
            ["sgld", "csgld"], ["mixture5", "mixture25"], seeds=[0, 1], sweep={"schedule.step_size": ["1", "2"]}
        ),
        RunRequest(["sgld"], ["mixture5", "mixture25"], budget="smoke"),
    ]
    sizes = [size(registry(), [asked]) for asked in both]
    assert sizes[0] == 16
    assert sizes[1] == sum(len(specs) for _, specs in expand(registry(), both[1]))
    assert size(registry(), both) == sum(sizes)


def test_all_seeds_of_a_command_are_bounded_and_not_each_range():
    ranges = ",".join(f"{i}-{i + 999}" for i in range(0, MAX_SEEDS + 1000, 1000))
    with pytest.raises(UsageError, match="more than 1,000,000") as caught:
        parse_seeds(ranges)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "words",
    [
        ["--sampler", LONG],
        ["--task", LONG],
        ["--task", f"mixture5@{LONG}"],
        ["--budget", LONG],
        ["--schedule", LONG],
        ["--set", f"{LONG}=1"],
        ["--set", f"schedule.{LONG}=1"],
        ["--set", f"schedule.step_size={'9' * 400_000}"],
        ["--sweep", f"{LONG}=1,2"],
    ],
)
def test_a_name_or_value_that_is_too_long_is_said_to_be(bench, words):
    usual = {"--sampler": "sgld", "--task": "mixture5"}
    usual.pop(words[0], None)
    code, _, err = bench("plan", *(word for pair in usual.items() for word in pair), *words)
    assert code == 2
    assert ",000 characters" in err or ",009 characters" in err or ",007 characters" in err
    assert len(err) < 600


@pytest.mark.parametrize(
    "text",
    [
        "a." * 200_000 + "b = 1",
        "[" + "a." * 200_000 + "b]",
        "x = { " + '"a" . ' * 200_000 + "b = 1 }",
        "# " + "long\n" * 300_000,
    ],
)
def test_a_suite_that_takes_too_long_to_parse_is_not_parsed(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"a key has more than 50 parts|bytes; at most 1,048,576 are read"):
        read(path)


def test_an_answer_of_too_many_rows_is_refused_and_the_limit_raised(bench):
    code, out, err = bench("sql", "from range(1000000000000)", "--max-rows", "10")
    assert (code, out) == (2, "")
    assert "more than 10 rows" in err
    assert "--max-rows" in err
    assert bench("sql", "from range(10)", "--max-rows", "10")[0] == 0
    assert len(bench("sql", "from range(11)", "--max-rows", "11", "--csv")[1].split()) == 12


def test_a_query_is_stopped_at_its_time_limit(bench):
    code, out, err = bench("sql", "select count(*) from range(1000000000000) where range % 7 = 3", "--timeout", "0.2")
    assert (code, out) == (2, "")
    assert "took more than 0.2 s" in err
    assert "--timeout" in err
    assert bench("sql", "select 1", "--timeout", "1h")[0] == 0


REFUSED = {
    "sampler's check of the steps": (
        ["--sampler", "sgld", "--set", "schedule.step_size=0.05", "--sweep", "sampler.gradient_variance=0,1,100"],
        r"sgld on gaussian2d@[\w-]+, 500 steps: sgld: gradient_variance = 100 .* lower the step size",
    ),
    "sampler's check of the temperatures": (
        ["--sampler", "hmc", "--set", "schedule.step_size=0.5", "--sweep", "schedule.temperature=1,0.5,0"],
        r"hmc on gaussian2d@[\w-]+, 500 steps: hmc has no T = 0: its schedule must keep",
    ),
    "no draw": (
        ["--sampler", "sgld", "--schedule", "snapshot", "--set", "schedule.step_size=0.05",
         "--set", "schedule.rounding=down", "--set", "run.burn_in=498", "--sweep", "schedule.cycles=2,5,7"],
        r"sgld on gaussian2d@[\w-]+, 500 steps: no draw is kept: .* burn-in 498.*; ask for more steps",
    ),
}  # fmt: skip


@pytest.mark.parametrize("verb", ["plan", "run"])
@pytest.mark.parametrize("reason", REFUSED)
def test_settings_that_a_worker_would_refuse_are_refused_with_the_plan(bench, results, verb, reason):
    words, told = REFUSED[reason]
    code, out, err = bench(verb, "--task", "gaussian2d", "--budget", "steps=500", "--seeds", "0", *words)
    assert (code, out) == (2, "")
    assert re.search(told, err), err
    assert not results.exists()


def test_a_wrong_checkpoint_interval_is_refused_before_a_worker_starts(bench, monkeypatch):
    monkeypatch.setenv("BENCH_CHECKPOINT_SECONDS", "soon")
    code, _, err = bench("run", "--sampler", "sgld", "--task", "gaussian2d", "--budget", "steps=500", "--seeds", "0")
    assert code == 2
    assert "BENCH_CHECKPOINT_SECONDS is 'soon'" in err
