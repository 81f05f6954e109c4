"""Suite files: what they may hold, and what is said of what they may not."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness import Bench, UsageError
from harness.analysis.diagnostics.crossing import MINIMUM_CHAINS
from harness.analysis.statistics.ranks import MINIMUM_SEEDS
from harness.cli.app import run
from harness.contracts.registry import load, registry
from harness.results import ONE_SETTING
from harness.runs.plan import parse_seeds
from harness.runs.plugin_metadata import sampler_facts, task_facts
from harness.runs.settings import find_pair, unmet
from harness.tasks import TUNING_SEED
from plugins.fresh_seeds import fresh_seeds
from plugins.nights import suite as suites
from plugins.nights.nightly import _entries
from plugins.nights.regression.observe import members
from plugins.nights.suite import about, complete, find, read
from plugins.tuning import studies

KINDS = ("samplers", "methods", "tasks")
ALL = '[[run]]\nsamplers = "all"\ntasks = TASKS\nstudy = "mini"\n'
RUN = '[[run]]\nsamplers = ["sgld"]\ntasks = ["mixture5"]\n'


def write(folder, text, name="mine.toml"):
    path = folder / name
    path.write_text(text)
    return path


def study(results, *pairs):
    """A study `mini` of these methods and tasks in a results folder."""
    records = [
        {
            "method": method, "task": task, "settings": {"schedule": "constant"}, "trials": 1, "passes": 1.0,
            "code": {}, "budget": "quick", "protocol": find_pair(registry(), method, task).protocol.name,
        }
        for method, task in pairs
    ]  # fmt: skip
    (results / "tuning").mkdir(exist_ok=True)
    (results / "tuning" / "mini.json").write_text(json.dumps({"format": studies.FORMAT, "tuned": records}))


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
        (RUN.replace('["sgld"]', '"all"'), 'run 1: samplers = "all" means all that a study has settings for; add'),
        (RUN.replace('["sgld"]', "[1]"), "run 1: samplers = [1] is not a list of names"),
        (RUN + 'seeds = "0-"', "run 1: seeds = '0-': '0-' is neither a number nor a range"),
        (RUN + "seeds = 3", "run 1: seeds = 3 is a number of seeds; add season = 1"),
        ("season = 1\n" + RUN + "seeds = 0", "run 1: seeds = 0 is neither text"),
        ("season = 1\n" + RUN + "seeds = 1001", "run 1: seeds = 1001 is neither text"),
        ("season = 1\n" + RUN + "seeds = true", "run 1: seeds = True is neither text"),
        ("season = 0\n" + RUN, "season = 0 is not a number from 1"),
        ("season = '1'\n" + RUN, "season = '1' is not a number from 1"),
        (RUN + "seeds = [true]", "run 1: seeds = [True] is neither"),
        (RUN + "seeds = [-1]", "run 1: seeds = [-1] is neither"),
        (RUN + "chains = 0", "run 1: chains = 0 is not a number from 1"),
        (RUN + "chains = true", "run 1: chains = True is not a number from 1"),
        (RUN + "budget = 3", "run 1: budget = 3 is not text"),
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
    with pytest.raises(UsageError, match=r"the file name of a suite, .* must match"):
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


def test_seeds_of_a_season_are_shared_by_suites_and_change_with_it(tmp_path):
    one, other, next_one = (
        read(write(tmp_path, f"season = {season}\n{RUN}seeds = {number}", f"{name}.toml")).entries[0].seeds
        for name, season, number in (("a", 1, 5), ("b", 1, 8), ("c", 2, 8))
    )
    assert one == other[:5]
    assert len({*other, *next_one}) == 16
    assert all(999 < seed < TUNING_SEED for seed in (*other, *next_one))
    assert parse_seeds(",".join(map(str, one))) == one
    assert one == fresh_seeds(5, "season", 1)
    assert {*fresh_seeds(5, "season", 1, known=one)}.isdisjoint(one)


def test_nights_run_on_the_seeds_of_a_season():
    """Whoever chose settings on seeds 0 to 4 has chosen them for no row of a night."""
    names = ("smoke", "nightly")
    assert {tuple(entry.seeds) for name in names for entry in find(registry(), name).entries} == {
        tuple(fresh_seeds(5, "season", 1))
    }


def test_shipped_suites_are_found_by_name_and_read(tmp_path):
    for name in ("smoke", "nightly", "field"):
        suite = find(registry(), name)
        assert suite.summary
        for entry in suite.entries:
            assert len(entry.seeds) >= MINIMUM_SEEDS
            assert len(entry.seeds) * entry.chains >= MINIMUM_CHAINS  # so that every column of the leaderboard exists
    with pytest.raises(UsageError, match="unknown suite 'smok'; did you mean smoke"):
        find(registry(), "smok")
    assert find(registry(), str(write(tmp_path, RUN))).name == "mine"


NUMBERS = ("Two", "Four", "Six", "Ten", "Eleven", "Twelve", "Thirteen", "Fourteen", "Fifteen")
COUNTS = dict(zip(NUMBERS, (2, 4, 6, 10, 11, 12, 13, 14, 15), strict=True))


@pytest.mark.parametrize("name", sorted(path.stem for path in Path(suites.__file__).parent.glob("suites/study-*.toml")))
def test_the_summary_of_a_part_counts_what_the_suite_asks_for(name):
    suite = find(registry(), name)
    words = suite.summary.replace(",", "").replace(".", "").split()
    if "seeds" in words:
        seeds = {len(entry.seeds) for entry in suite.entries}
        assert {min(seeds), max(seeds)} <= {int(word) for word in words if word.isdecimal()}
    baselines = {"deep-ensemble", "swag"}
    samplers = {len({*entry.samplers} - baselines) for entry in suite.entries} - {0}
    if words[0] != "Every":
        assert COUNTS[words[0]] in samplers


@pytest.mark.slow
def test_all_means_every_sampler_with_settings_in_the_study(tmp_path):
    """By task and its protocol; a command becomes one for each set of samplers, and keeps its number."""
    study(tmp_path, ("sgld", "mixture5"), ("csgld", "mixture5"), ("sgld", "mixture25"), ("hmc", "blr-heart"))
    text = RUN + ALL.replace("TASKS", '["mixture5", "mixture25", "gaussian2d"]')
    suite, left_out = complete(read(write(tmp_path, text)), registry(), tmp_path)
    assert [
        (number, entry.samplers, entry.tasks) for number, entry in zip(suite.numbers, suite.entries, strict=True)
    ] == [
        (1, ("sgld",), ("mixture5",)),
        (2, ("sgld", "csgld"), ("mixture5",)),
        (2, ("sgld",), ("mixture25",)),
    ]
    reasons = {(one.method, task): one.reason for _, one in left_out for task in one.tasks}
    assert {number for number, _ in left_out} == {2}
    assert reasons["hmc", "mixture5"] == "study mini has no settings for it"
    assert reasons["sgld", "gaussian2d"] == "study mini has no settings for it"
    assert reasons["sgfs", "mixture25"] == "needs scores of a potential, which the task does not provide"
    assert ("sgld", "mixture5") not in reasons


def test_the_digest_of_all_follows_the_study(tmp_path):
    suite = read(write(tmp_path, ALL.replace("TASKS", '["mixture5"]')))
    study(tmp_path, ("sgld", "mixture5"))
    one = complete(suite, registry(), tmp_path)[0].digest
    assert complete(suite, registry(), tmp_path)[0].digest == one
    study(tmp_path, ("sgld", "mixture5"), ("csgld", "mixture5"))
    assert complete(suite, registry(), tmp_path)[0].digest != one


def test_all_without_settings_or_with_an_unknown_task_is_an_error(tmp_path):
    study(tmp_path, ("sgld", "mixture5"))
    for task, words in (("mixture25", "study mini has no settings for mixture25"), ("mixture6", "unknown task")):
        suite = read(write(tmp_path, RUN + ALL.replace("TASKS", f'["{task}"]')))
        with pytest.raises(UsageError, match=words) as caught:
            complete(suite, registry(), tmp_path)
        assert f"{suite.path}, run 2: " in str(caught.value)


def tuned_pairs(results):
    """The methods and tasks of the study, at the protocol that a task has where a suite names none."""
    pairs = studies.load(registry(), results, "tuned").pairs
    named = {task for _, task, _ in pairs}
    usual = {one.name: load(one.target).protocols[0].name for one in registry().offers("tasks") if one.name in named}
    return {(method, task) for method, task, protocol in pairs if protocol == usual[task]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nightly", "field"])
def test_a_suite_of_all_runs_the_pairs_of_the_study(tmp_path, name):
    """The study's pairs on its tasks, each once; others are left out: too dear for the budget, or without settings."""
    suite, left_out = complete(find(registry(), name), registry(), tmp_path)
    tuned = tuned_pairs(tmp_path)
    pairs = [pair for entry in suite.entries for pair in itertools.product(entry.samplers, entry.tasks)]
    tasks = {task for entry in find(registry(), name).entries for task in entry.tasks}
    dear = {(o.method, task) for _, o in left_out for task in o.tasks if "less than one step after the 101" in o.reason}
    assert {method for method, _ in dear} == {"sgld-cv"}
    assert sorted(pairs) == sorted((method, task) for method, task in tuned - dear if task in tasks)
    assert {entry.study for entry in suite.entries} == {"tuned"}
    assert f"on {len(tasks)} " in suite.summary
    apart = {(one.method, task) for _, one in left_out for task in one.tasks}
    names = {offer.name for kind in KINDS[:2] for offer in registry().offers(kind)}
    assert apart | set(pairs) == set(itertools.product(names, tasks))
    assert not apart & set(pairs)
    targets = {offer.name: offer.info.target for kind in ("samplers", "tasks") for offer in registry().offers(kind)}
    needs = {method: load(targets[registry().method(method).info.sampler]).needs for method in names}
    assert [(m, t) for m, t in pairs if not needs[m] <= load(targets[t]).provides] == []


@pytest.mark.data
@pytest.mark.parametrize("name", sorted(path.stem for path in Path(suites.__file__).parent.glob("suites/*.toml")))
def test_every_row_that_a_suite_names_can_be_run(tmp_path, name):
    """With the settings that need no search: its budget has steps, and its task what the sampler needs."""
    bench = Bench(tmp_path)
    for entry in find(registry(), name).entries:
        if not entry.samplers:  # all of them; those that cannot be run are left out
            continue
        asked = {"budget": entry.budget, "chains": entry.chains, "seeds": [0], "study": ONE_SETTING}
        planned = bench.planned(bench.requests(list(entry.samplers), list(entry.tasks), **asked))
        assert len(planned) == len(entry.samplers) * len(entry.tasks)


@pytest.mark.data
@pytest.mark.parametrize("name", sorted(path.stem for path in Path(suites.__file__).parent.glob("suites/study-*.toml")))
def test_the_rows_of_a_part_of_the_study_can_be_told_apart(tmp_path, name):
    chosen = find(registry(), name)
    chosen = replace(chosen, entries=tuple(replace(entry, seeds=entry.seeds[:1]) for entry in chosen.entries))
    commands, _ = _entries(Bench(tmp_path), chosen, Bench(tmp_path).ledger, 100_000)
    assert sum(len(row) for row in members(commands).values()) == sum(len(one.planned) for one in commands)


def test_rows_that_cannot_be_told_apart_are_refused_before_the_first_run(tmp_path, capsys):
    of_both = '[[run]]\nsamplers = ["sghmc"]\ntasks = ["gaussian2d"]\nseeds = [1]\nbudget = "quick"\n'
    path = write(tmp_path, f'{of_both}study = "tuned"\n{of_both}')
    assert run(["--results", str(tmp_path / "results"), "nightly", str(path), "--out", str(tmp_path / "site")]) == 2
    assert "has two runs" in capsys.readouterr().err
    assert not list(Path(tmp_path / "results").glob("runs/*/*"))


def able(method, task):
    pair = find_pair(registry(), method, task)
    return not unmet(sampler_facts(pair.sampler, {}), task_facts(pair.task, {}))


ALL_TUNED = ("mixture25", "gaussian", "rosenbrock")  # of which the study has every sampler
UNTUNED = {("ngvi", task) for task in ("airfoil", "energy")}  # a step factorises matrices of 658 and 706 rows
YOUNGER = {
    "dq-sgld",
    "adam-sgld",
    "rmsprop-sgld",
    "samadams",
    "sg-barker",
    "sg-barker-corrected",
    "sg-bps",
    "sg-ubu",
    "sg-zigzag",
}
"""Samplers that came after the study, which leaves them out of the suites until it is made anew."""


@pytest.mark.parametrize("name", ["nightly", "field"])
def test_the_study_covers_every_pair_of_a_suite(tmp_path, name):
    """Every sampler and method but baselines, which are tuned where they are used: on networks and regressions."""
    suite = find(registry(), name)
    ours = [o for kind in KINDS[:2] for o in registry().offers(kind) if o.distribution == "sgmcmc-bench"]
    samplers = {offer.name for offer in ours if not offer.info.baseline}
    tuned = tuned_pairs(tmp_path)
    pairs = itertools.product(samplers, {task for entry in suite.entries for task in entry.tasks})
    able_pairs = {(method, task) for method, task in pairs if able(method, task)}
    assert able_pairs - tuned == {
        pair for pair in able_pairs if pair in UNTUNED or (pair[0] in YOUNGER and pair[1] not in ALL_TUNED)
    }
