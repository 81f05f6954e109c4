"""Suite files: what they may hold, and what is said of what they may not."""

from __future__ import annotations

import itertools

import pytest

from harness import UsageError
from harness.analysis.diagnostics.crossing import MINIMUM_CHAINS
from harness.analysis.statistics.ranks import MINIMUM_SEEDS
from harness.contracts.registry import load, registry
from harness.runs import studies
from plugins.verbs.suite import about, find, read

KINDS = ("samplers", "methods", "tasks")
RUN = '[[run]]\nsamplers = ["sgld"]\ntasks = ["mixture5"]\n'


def write(folder, text, name="mine.toml"):
    path = folder / name
    path.write_text(text)
    return path


def test_an_entry_means_what_the_options_mean(tmp_path):
    text = """
        summary = "what for"
        reports = ["leaderboard"]
        [[run]]
        samplers = ["sgld", "csgld", "sgld"]
        tasks = ["mixture25@csgmcmc"]
        seeds = "0-2,7"
        chains = 4
        budget = "quick"
        schedule = "polynomial"
        settings = { sampler.a = 5, "task.batch" = 64 }
        sweep = { schedule.a = [0.1, 0.2] }
        [[run]]
        samplers = ["hmc"]
        tasks = ["mixture5"]
        seeds = [3, 1, 3]
    """
    suite = read(write(tmp_path, text))
    first, second = suite.entries
    assert (suite.name, suite.summary, suite.reports) == ("mine", "what for", ("leaderboard",))
    assert (first.samplers, first.seeds, first.chains, first.budget) == (("sgld", "csgld"), [0, 1, 2, 7], 4, "quick")
    assert first.given == {"sampler.a": 5, "task.batch": 64, "schedule": "polynomial"}
    assert first.sweep == {"schedule.a": [0.1, 0.2]}
    assert (second.seeds, second.chains, second.budget, second.given) == ([3, 1], None, "paper", {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it has no [[run]]"),
        ("run = 3", "it has no [[run]]"),
        ("run = [1]", "it has no [[run]]"),
        ("= 3", "is not TOML"),
        ("a = " + "[" * 5000, "is not TOML"),
        ("runs = 3\n" + RUN, "unknown key 'runs'; did you mean run"),
        ("summary = 3\n" + RUN, "summary = 3 is not text"),
        ("reports = []\n" + RUN, "reports = [] is not a list of names"),
        (RUN + 'budgets = "smoke"', "run 1: unknown key 'budgets'; did you mean budget"),
        (RUN + RUN + "seed = 3", "run 2: unknown key 'seed'; did you mean seeds"),
        ('[[run]]\nsamplers = ["sgld"]', "run 1: tasks is missing"),
        ('[[run]]\ntasks = ["mixture5"]', "run 1: samplers is missing"),
        (RUN.replace('["sgld"]', '"sgld,csgld"'), "run 1: samplers = 'sgld,csgld' is not a list of names"),
        (RUN.replace('["sgld"]', "[1]"), "run 1: samplers = [1] is not a list of names"),
        (RUN + 'seeds = "0-"', "run 1: seeds = '0-': '0-' is neither a number nor a range"),
        (RUN + "seeds = 3", "run 1: seeds = 3 is neither text"),
        (RUN + "seeds = [true]", "run 1: seeds = [True] is neither"),
        (RUN + "seeds = [-1]", "run 1: seeds = [-1] is neither"),
        (RUN + "chains = 0", "run 1: chains = 0 is not a number from 1"),
        (RUN + "chains = true", "run 1: chains = True is not a number from 1"),
        (RUN + "budget = 3", "run 1: budget = 3 is not text"),
        (RUN + 'budget = "seconds=60"', "run 1: budget = 'seconds=60' would be a different number of steps a night"),
        (RUN + "settings = 3", "run 1: settings = 3 is not a table"),
        (RUN + "settings = { sampler.a = [1, 2] }", "a list belongs in sweep"),
        (RUN + "settings = { sampler.a = 1979-05-27 }", "settings.sampler.a = datetime.date(1979, 5, 27) is not a"),
        (RUN + "sweep = { sampler.a = 3 }", "sweep.sampler.a = 3 is not a list of values"),
        (RUN + "sweep = { sampler.a = [[1]] }", "sweep.sampler.a = [[1]] is not a list of values"),
        (RUN + 'settings = { sampler.a = 1, "sampler.a" = 2 }', "run 1: settings: sampler.a is given twice"),
        (RUN + 'schedule = "constant"\nsettings.schedule = "cyclical"', "run 1: schedule is given twice"),
        (RUN + "seeds = [1000000000]", "below 1,000,000,000"),
        (RUN + "settings.sampler.a = 1\nsweep.sampler.a = [1]", "sampler.a is in both settings and sweep"),
    ],
)
def test_what_is_wrong_is_said_with_file_entry_and_key(tmp_path, text, words):
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_a_file_that_is_not_there_not_text_or_not_a_name(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not TOML"):
        read(tmp_path / "bytes.toml")
    with pytest.raises(UsageError, match="the file name of a suite must match"):
        read(write(tmp_path, RUN, "My Suite.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(UsageError, match="not an ordinary file"):
        read(tmp_path / "folder.toml")


def test_errors_of_an_entry_name_it(tmp_path):
    suite = read(write(tmp_path, RUN))
    with pytest.raises(UsageError, match=r"mine\.toml, run 2: unknown sampler"), about(suite, 2):
        registry().method("sgdl")


def test_the_digest_follows_the_commands_and_not_the_comments(tmp_path):
    first = read(write(tmp_path, RUN)).digest
    assert read(write(tmp_path, "# a comment\nsummary = 'words'\n" + RUN)).digest == first
    assert read(write(tmp_path, RUN + "chains = 3\n")).digest != first


def test_shipped_suites_are_found_by_name_and_read(tmp_path):
    for name in ("smoke", "nightly"):
        suite = find(registry(), name)
        assert suite.summary
        for entry in suite.entries:
            assert len(entry.seeds) >= MINIMUM_SEEDS
            assert len(entry.seeds) * entry.chains >= MINIMUM_CHAINS  # so that every column of the leaderboard exists
    with pytest.raises(UsageError, match="unknown suite 'smok'; did you mean smoke"):
        find(registry(), "smok")
    assert find(registry(), str(write(tmp_path, RUN))).name == "mine"


def test_the_nightly_suite_runs_what_it_says(tmp_path):
    """Every sampler and method but baselines, on the tasks that it has tuned settings for."""
    offered = {kind: [o for o in registry().offers(kind) if o.distribution == "sgmcmc-bench"] for kind in KINDS}
    targets = {offer.name: offer.info.target for offer in offered["samplers"] + offered["tasks"]}
    needs = {offer.name: load(targets[offer.name]).needs for offer in offered["samplers"]}
    needs |= {offer.name: needs[offer.info.sampler] for offer in offered["methods"]}
    for offer in offered["samplers"] + offered["methods"]:
        if offer.info.baseline:
            del needs[offer.name]
    suite = find(registry(), "nightly")
    tuned = {(method, task) for method, task, _ in studies.load(registry(), tmp_path, "tuned").records}
    assert {method for method, _ in tuned} == set(needs)
    pairs = [pair for entry in suite.entries for pair in itertools.product(entry.samplers, entry.tasks)]
    assert sorted(pairs) == sorted(tuned)
    assert {entry.study for entry in suite.entries} == {"tuned"}
    tasks = {task for _, task in tuned}
    assert f"Every sampler and method that has tuned settings, on {len(tasks)} small tasks" in suite.summary
    assert [(m, t) for m, t in tuned if not needs[m] <= load(targets[t]).provides] == []
