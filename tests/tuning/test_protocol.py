"""The rules of the search: equal spaces, equal trials, all of the cost, finalists, and seeds that no report shows."""

from __future__ import annotations

import functools
import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness import Bench, DataError, Method, UsageError, registry
from harness.contracts.parameters import schema
from harness.contracts.registry import load
from harness.runs import plan, plugin_metadata
from harness.runs.plan import RunRequest, parse_seeds
from harness.runs.settings import find_pair, resolve, with_study
from harness.runs.stated import stated_settings
from harness.tasks import TUNING_SEED, Protocol

pytest.importorskip("optuna", reason="bench tune needs optuna, an optional extra")

from plugins.tuning import record, studies
from plugins.tuning.search import FINALISTS, PER_DIMENSION, WIDENINGS, Objective, Search, Trial, trials_for
from plugins.tuning.seeds import BETWEEN, MOST_PER_TRIAL, SearchSeeds
from plugins.tuning.space import EDGE, SCHEDULES, Range, Space, dimensions, find_spaces, schedules

AUTHORS = {"paper", "code", "inferred", "ours", "plugin"}


def spaces_of(method, task, given=(), stated=()):
    return find_spaces(registry(), find_pair(registry(), method, task), dict(given), "quick", list(stated))


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("sgld", ["constant", "polynomial"]), ("sghmc", ["constant", "polynomial"]), ("psgld", list(SCHEDULES)),
        ("csgld", ["cyclical"]), ("snapshot-sgd", ["snapshot"]), ("sghmc-frictionless", ["constant", "polynomial"]),
    ],
)  # fmt: skip
def test_the_schedule_is_searched_unless_the_pair_is_a_method_of_its_own(method, names):
    assert schedules(registry(), find_pair(registry(), method, "gaussian2d"), {}) == names


def test_no_two_methods_search_the_same_sampler_under_the_same_schedule():
    plain = [offer.name for offer in registry().offers("samplers")]
    fixed = {(one.info.sampler, one.info.schedule) for one in registry().offers("methods") if one.info.schedule}
    for name in plain:
        searched = {(name, s) for s in schedules(registry(), find_pair(registry(), name, "gaussian2d"), {})}
        assert searched
        assert not searched & fixed
    assert all(isinstance(offer.info, Method) for offer in registry().offers("methods"))


def test_each_schedule_has_a_step_size_of_its_own():
    spaces = spaces_of("psgld", "gaussian2d")
    assert {name: space.step for name, space in spaces.items()} == {
        "constant": "schedule.step_size", "polynomial": "schedule.a", "cyclical": "schedule.step_size",
    }  # fmt: skip
    search = Search("a", spaces, 30)
    trials = [trial for _ in range(6) for trial in search.ask()]
    assert {trial.values["schedule"] for trial in trials[:3]} == set(SCHEDULES)  # each once without a search
    assert all("sampler.lam" in trial.values for trial in trials)
    assert all(("schedule.a" in t.values) == (t.values["schedule"] == "polynomial") for t in trials)


def test_the_number_of_trials_grows_with_the_dimensions_of_the_space():
    counts = {name: dimensions(spaces_of(name, "gaussian2d")) for name in ("csgld", "sgld", "sghmc", "psgld")}
    # psgld: step size, decay, lam, cycles, share of exploration, the schedule
    assert counts == {"csgld": 3, "sgld": 2, "sghmc": 3, "psgld": 6}
    assert [trials_for(d) for d in (1, 2, 4)] == [20, 30, 50]


def test_ranges_follow_the_curvature_or_a_coarse_pass_on_every_task():
    """No task needs an interval of its own: the space of each is known, and in units of the task."""
    for offer in registry().offers("tasks"):
        for space in spaces_of("sgld", offer.name).values():
            assert space.step in space.ranges or len(space.coarse) > 5
    wide, narrow = (
        spaces_of("sgld", name)["constant"].ranges["schedule.step_size"] for name in ("mixture5", "gaussian")
    )
    assert wide.low / narrow.low == pytest.approx(100 / 2)  # their curvatures
    space = spaces_of("sgld", "landsat")["constant"]
    assert space.coarse[0] == pytest.approx(1e-7 / 4435, rel=0.01)
    limits = space.around(0.5).ranges["schedule.step_size"]
    assert limits.low < 0.5 < limits.high
    assert not limits.edge(0.5)


def test_no_setting_of_a_paper_or_an_author_has_a_part_in_a_search(tmp_path):
    """What is not searched is the class's default, the protocol's or a rule from the task, whatever papers state."""
    ours = [
        one for one in stated_settings(registry()) if one.task in {offer.name for offer in registry().offers("tasks")}
    ]
    assert len(ours) > 50
    for one in ours:
        pair = find_pair(registry(), one.method, f"{one.task}@{one.protocol}")
        pair = with_study(registry(), pair, studies.Study("one-setting", {}), "quick", {})
        settings = resolve(registry(), pair, {"schedule.step_size": 0.01})
        assert not AUTHORS & {origin.provenance for origin in settings.origins.values()}
        for field in schema(load(pair.sampler.target)):
            kept = {**pair.method.settings, **pair.protocol.settings}.get(f"sampler.{field.name}", field.default)
            assert settings.sampler_params.get(field.name, field.default) == kept
    request = RunRequest(["sgld"], ["mixture25"], [0], 1, "quick", study="one-setting")
    ((settings, _),) = plan.expand(registry(), request, studies.load(registry(), tmp_path, "one-setting"))
    assert settings.schedule.name == "constant"
    assert resolve(registry(), find_pair(registry(), "sgld", "mixture25"), {}).schedule.name != "constant"


@given(
    st.floats(1e-6, 1e3), st.floats(1.5, 1e6), st.booleans(), st.floats(0, 1),
    st.sampled_from([(-math.inf, math.inf), (0.0, math.inf)]),
)  # fmt: skip
def test_an_edge_is_the_outer_share_of_an_interval_on_its_scale(low, ratio, linear, share, limits):
    high = low * (min(ratio, 9.0) if linear else max(ratio, 10.0))
    one = Range(low, high, None, least=limits[0], most=limits[1])
    value = low + share * (high - low) if not one.logarithmic else low * (high / low) ** share
    side = "low" if share < EDGE - 1e-6 else "high" if share > 1 - EDGE + 1e-6 else ""
    if min(abs(share - EDGE), abs(share - 1 + EDGE)) > 1e-6:
        assert one.edge(value) == side
    for edge in ("low", "high"):
        wider = one.widened(edge)
        assert wider.low <= low < high <= wider.high
        assert limits[0] <= wider.low
        assert (wider.low < low) == (edge == "low")


@pytest.mark.parametrize(
    ("limits", "value"),
    [
        (Range(0.01, 1.0, 0.1, least=0.0, most=1.0), 1.0),
        (Range(1, 50, 10, whole=True, least=1, most=1000), 1),
        (Range(0.1, 0.3, 0.2, least=0.1, most=0.3), 0.3),
    ],
)
def test_an_end_that_the_class_or_the_command_sets_is_no_edge(limits, value):
    assert limits.edge(value) == ""


def searched(loss, ranges, trials=30):
    """A whole search of a loss of values on one seed, with its widenings."""
    search = Search("a", {"constant": Space(ranges)}, trials)
    while True:
        while search.ask():
            for trial in search.round:
                trial.seen.append(loss(trial.values))
            search.tell()
        if not search.widen(search.best):
            return search


def test_an_optimum_at_an_edge_widens_its_interval_and_the_search_goes_on():
    search = searched(lambda values: (math.log10(values["h"]) - 1) ** 2, {"h": Range(1e-4, 1e-1, 1e-3, least=0.0)})
    assert 1 <= search.widenings <= WIDENINGS
    assert len(search.trials) == 30 + PER_DIMENSION * search.widenings
    assert 1 < search.best.values["h"] < 100
    assert search.edges(search.best) == {}
    again = searched(lambda values: (math.log10(values["h"]) - 1) ** 2, {"h": Range(1e-4, 1e-1, 1e-3, least=0.0)})
    assert [t.values for t in again.trials] == [t.values for t in search.trials]


def test_widening_is_bounded_and_what_is_still_at_an_edge_is_known():
    search = Search("a", {"constant": Space({"h": Range(1e-4, 1e-1, 1e-3, least=0.0)})}, 5)

    def at_the_edge():
        return Trial({"schedule": "constant", "h": search.spaces["constant"]["h"].high})

    assert [search.widen(at_the_edge()) for _ in range(WIDENINGS + 1)] == [True] * WIDENINGS + [False]
    assert search.edges(at_the_edge()) == {"h": "high"}
    assert search.count == 5 + PER_DIMENSION * WIDENINGS


def judged(search_values, final_values):
    """A search of which each trial has these values on the seeds of the search and on those of the finalists."""
    search = Search("a", {"constant": Space({"h": Range(1e-4, 1.0, 1e-3)})}, len(search_values))
    for seen, final in zip(search_values, final_values, strict=True):
        search.trials.append(Trial({"schedule": "constant", "h": float(len(search.trials))}, seen=list(seen)))
        search.trials[-1].final = Trial(search.trials[-1].values, seen=list(final)) if final else None
    return search


def test_the_choice_is_by_the_upper_end_of_the_interval_on_fresh_seeds():
    lucky, steady = [0.02] * 9 + [3.96], [0.05, 0.06] * 5
    search = judged([(0.014, 0.014), (0.05, 0.05), (0.01, math.inf)], [lucky, steady, None])
    assert search.best is search.trials[0]
    assert search.chosen is search.trials[1]
    for values in (lucky, steady):
        mean, sd = np.mean(values), np.std(values, ddof=1)
        assert Trial({}, seen=values).upper == pytest.approx(mean + stats.t.ppf(0.975, 9) * sd / math.sqrt(10))
    assert judged([(0.1, 0.1)], [[0.1] * 9 + [math.inf]]).chosen is None


def test_the_finalists_are_the_best_distinct_settings():
    search = judged([(float(k), float(k)) for k in range(8)], [None] * 8)
    search.trials.append(Trial(search.trials[0].values, seen=[0.0, 0.0]))
    assert [trial.objective for trial in search.finalists()] == list(range(FINALISTS))


def test_a_choice_on_fresh_seeds_is_better_than_the_luckiest_trial():
    """10 of 30 settings fail on every second seed and are else the best. One is the luckiest trial with p = 1 - .75^10
    = .94. All five finalists are of this kind, so that the rule has no other, with p = .08.
    """
    rng = np.random.default_rng(0)

    def values(fails, n):
        spread = np.exp(0.1 * rng.standard_normal(n))
        return (0.5 * spread * np.where(rng.random(n) < 0.5, 100, 1)) if fails else spread

    by_luck = by_rule = 0
    for _ in range(200):
        fails = [k < 10 for k in range(30)]
        search = judged([values(f, 2) for f in fails], [None] * 30)
        for trial in search.finalists():
            trial.final.seen.extend(values(fails[int(trial.values["h"])], 10))
        by_luck += fails[int(search.best.values["h"])]
        by_rule += fails[int(search.chosen.values["h"])]
    assert by_luck > 170
    assert by_rule < 32


def test_tuning_seeds_are_apart_by_construction_and_no_report_can_be_asked_for_them(tmp_path):
    each = [SearchSeeds(search, MOST_PER_TRIAL) for search in range(3)]
    seeds = [seed for one in each for seed in (*one.trials, *one.finalists)]
    assert len(set(seeds)) == len(seeds) == 3 * (MOST_PER_TRIAL + 10)
    assert min(seeds) == TUNING_SEED
    assert SearchSeeds(1).trials == [TUNING_SEED + BETWEEN, TUNING_SEED + BETWEEN + 1]
    for ask in (
        lambda: parse_seeds(str(TUNING_SEED)),
        lambda: Bench(tmp_path).plan("sgld", "mixture5", seeds=[0, TUNING_SEED + 100]),
        lambda: Bench(tmp_path).run("sgld", "mixture5", seeds=range(TUNING_SEED, TUNING_SEED + 2)),
    ):
        with pytest.raises(UsageError, match="are for `bench tune`"):
            ask()
    with pytest.raises(Exception, match="below 1,000,000,000"):
        Protocol("p", "", {"smoke": 1}, seeds=(TUNING_SEED,))


RECORD = {
    "method": "sgld", "task": "gaussian2d", "protocol": "csgmcmc-slides", "budget": "quick", "trials": 3,
    "passes": 1.0, "code": {}, "settings": {"schedule": "constant", "schedule.step_size": 0.1}, "search_version": 3,
    "seeds": [TUNING_SEED], "finalist_seeds": [TUNING_SEED + 100], "schedules": ["constant"], "searches": [{}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": [0, TUNING_SEED]}, "not reserved"),
        ({"finalist_seeds": [7]}, "not reserved"),
        ({"finalist_seeds": [TUNING_SEED]}, "searched on"),
        ({"seeds": ["0"]}, "is not a study"),
        ({"seeds": None}, "is not a study"),
        ({"search_version": "2"}, "is not a study"),
        *(({"search_version": version, "seeds": None}, "is not a study") for version in (1, 2)),
        ({"budget": 3}, "is not a study"),
    ],
)
def test_a_record_that_breaks_the_rules_is_not_read(tmp_path, change, message):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"format": 2, "tuned": [RECORD]}))
    assert len(studies.read(file)) == 1
    file.write_text(json.dumps({"format": 2, "tuned": [{**RECORD, **change}]}))
    with pytest.raises(DataError, match=message):
        studies.read(file)


def test_a_record_is_of_a_budget_and_another_budget_is_used_only_without_one():
    old = {**RECORD, "search_version": 1, "budget": "smoke"}
    study = studies.Study("mine", {studies.key(one): one for one in (old, RECORD, {**RECORD, "budget": "paper"})})
    pair = find_pair(registry(), "sgld", "gaussian2d")
    record = functools.partial(study.record, task=pair.task, protocol=pair.protocol)
    assert record("sgld", budget="smoke") is old
    assert record("sgld", budget="paper")["budget"] == "paper"
    assert record("sgld", budget="steps=7")["search_version"] == 3
    tuning = with_study(registry(), pair, study, "steps=7", {}).tuned["schedule"].tuning
    assert tuning.budget == "quick"
    assert record("sghmc", budget="smoke") is None


@pytest.mark.parametrize(("asked", "nearest"), [
    ("passes=5000", "passes=500"), ("passes=450", "passes=500"), ("passes=60", "quick"), ("passes=1", "quick"),
    ("passes=160", "passes=500"), ("passes=150", "quick"), ("steps=50000", "passes=500"), ("steps=5000", "quick"),
    ("paper", "quick"), ("smoke", "quick"),
])  # fmt: skip
def test_without_settings_at_a_budget_those_at_the_nearest_are_used(asked, nearest):
    earlier = {**RECORD, "search_version": 1, "budget": asked}
    of_budgets = [{**RECORD, "budget": budget} for budget in ("passes=500", "quick")]
    pair = find_pair(registry(), "sgld", "gaussian2d")
    for records in itertools.permutations(of_budgets):
        study = studies.Study("mine", {studies.key(one): one for one in records})
        assert study.record("sgld", pair.task, pair.protocol, asked)["budget"] == nearest
    study = studies.Study("mine", {studies.key(one): one for one in [earlier, *of_budgets]})
    assert study.record("sgld", pair.task, pair.protocol, asked) is earlier


@pytest.mark.parametrize("budget", ["passes=abc", "passes=", "passes=-5", "passes=nan", "steps=1e999", "nonsense"])
def test_a_budget_that_is_none_is_refused_by_name_and_a_record_of_it_breaks_no_other(budget, tmp_path, capsys):
    from harness.cli.app import run

    command = ["run", "--sampler", "sgld", "--task", "gaussian2d", "--settings", "tuned", "--budget", budget]
    assert run(["--results", str(tmp_path), *command]) == 2
    assert budget.rpartition("=")[2] in capsys.readouterr().err
    odd = {studies.key(one): one for one in ({**RECORD, "budget": budget}, RECORD)}
    pair = find_pair(registry(), "sgld", "gaussian2d")
    chosen = studies.Study("mine", odd).record("sgld", pair.task, pair.protocol, "passes=5000")
    assert chosen["budget"] == RECORD["budget"]


@pytest.fixture
def tuned(tmp_path, capsys):
    """`bench tune --json` of sgld with few steps: its records."""
    from harness.cli.app import run

    def command(*words):
        asked = ("tune", "--sampler", "sgld", "--task", "gaussian2d", "--budget", "steps=40", "--chains", "1")
        assert run(["--results", str(tmp_path), "--json", *asked, "--seeds", "1", *map(str, words)]) == 0
        return json.loads(capsys.readouterr().out)

    return command


def test_the_cost_is_of_all_searches_of_a_pair(tuned, tmp_path):
    (first,) = tuned("--trials", 6)
    narrow = "schedule.step_size=0.01:0.1"
    (second,) = tuned("--trials", 2, "--space", narrow)
    runs = len([*tmp_path.rglob("spec.json")])
    assert first["passes"] < second["passes"] == pytest.approx(runs * 40 / 100)
    assert [one["trials"] for one in second["searches"]] == [6, 2]
    assert second["trials"] == 8
    (again,) = tuned("--trials", 2, "--space", narrow)
    assert again == second
    (other,) = tuned("--trials", 2, "--space", narrow, "--study", "other")
    assert other["passes"] == second["passes"]
    assert [one["trials"] for one in other["searches"]] == [6, 2]
    asked = {"study": "tuned", "seeds": [0], "chains": 1}
    said = []
    bench = Bench(tmp_path, say=said.append)
    for budget, note in (("steps=40", []), ("steps=50", ["run at passes=0.5: sgld on gaussian2d"])):
        said.clear()
        bench.plan("sgld", "gaussian2d", budget=budget, **asked)
        assert said == [f"note: settings tuned at passes=0.4, {text}" for text in note]
    tuning = studies.load(registry(), tmp_path, "tuned")
    pair = find_pair(registry(), "sgld", "gaussian2d")
    origin = with_study(registry(), pair, tuning, "steps=40", {}).tuned["schedule"]
    assert str(origin.tuning).startswith("study tuned: 2 searches, 8 trials at passes=0.4, ")


def test_an_objective_is_shown_in_its_own_direction():
    trial = Trial({}, seen=[-3.0, -5.0])
    assert Objective("modes", "max").of(trial) == 4.0
    assert Objective("modes", "max").shown(math.inf) is None


NOT_SEARCHED = {
    "temperature": "it is the target, not a setting of the sampler",
    "gradient_variance": "what is known of the task's noise",
    "jitter": "0 leaves it out",
    "samples_per_cycle": "how many draws are kept",
}


def test_a_setting_that_papers_change_is_searched():
    """Or a tuned row is worse than the authors' own, as csgld's was while the share of exploration was fixed."""
    plugins, forgotten = registry(), set()
    methods = {offer.name: offer.info for offer in plugins.offers("methods")}
    for one in stated_settings(plugins):
        method = methods.get(one.method)
        sampler = plugins.find("samplers", method.sampler if method else one.method)
        schedule = one.values["schedule"].value if "schedule" in one.values else method.schedule if method else None
        offers = [("sampler", sampler)]
        offers += [("schedule", plugins.find("schedules", schedule))] if schedule in SCHEDULES else []
        for part, offer in offers:
            for field in plugin_metadata.fields(offer):
                stated = one.values.get(f"{part}.{field.name}")
                changed = stated is not None and type(stated.value) in (int, float) and stated.value != field.default
                if changed and not field.tune and field.name not in NOT_SEARCHED:
                    forgotten.add((offer.name, field.name))
    assert not forgotten


def test_a_second_search_keeps_what_the_first_chose_if_that_was_better_on_the_same_seeds(tmp_path):
    """The finalists of both ran on the same seeds; those of other code or of another objective are not compared."""
    about = {
        "direction": "min", "objective": "joint_error", "chains": 8, "engine": 3, "value": 0.1, "upper": 0.2,
        "value_search": 0.1, "at_edge": {}, "run_keys": [], "code": {"sampler": "a", "task": "b", "schedule": "c"},
    }  # fmt: skip
    first = {**RECORD, **about, "searches": [{"command": "x", "search_version": 3, "trials": 3}]}
    other = {"schedule": "polynomial", "schedule.a": 0.2}
    later = {"searches": [{"command": "y", "search_version": 3, "trials": 4}], "settings": other}
    code = {**first["code"], "schedule": "d"}
    for change, kept in (
        ({"upper": 0.3, "code": code}, True), ({"upper": 0.1}, False), ({"upper": None}, True),
        ({"upper": 0.1, "direction": "max"}, False), ({"upper": 0.3, "code": {**code, "task": "new"}}, False),
        ({"upper": 0.3, "chains": 4}, False), ({"upper": 0.3, "objective": "nll"}, False),
        ({"upper": 0.3, "finalist_seeds": []}, False),
    ):  # fmt: skip
        second, key = {**first, **later, **change}, studies.key(first)
        file = tmp_path / "mine.json"
        file.write_text(json.dumps({"format": 2, "tuned": [first]}))
        written = record.add(file, {key: second}, {})[key]
        assert studies.read(file)[key] == written
        assert (written["settings"] == first["settings"]) is kept, change
        assert written["code"] == (first if kept else second)["code"]
        assert written["trials"] == 7
        assert len(written["searches"]) == 2


def test_the_ends_of_a_sampler_s_settings_are_tried_first_at_four_step_sizes():
    """At a friction of 1 sghmc is sgld, at a step size that neither random values nor TPE would find."""
    step = Range(1e-4, 0.3, 0.01)
    ranges = {"sampler.friction": Range(0.01, 1.0, 0.1), "schedule.step_size": step}
    cyclical = {**ranges, "schedule.cycles": Range(1, 30, 4, whole=True)}
    spaces = {"constant": Space(ranges, step="schedule.step_size"), "cyclical": Space(cyclical, "schedule.step_size")}
    search = Search("a", spaces, 40)
    tried = []
    while trials := search.ask():
        tried += [trial.values for trial in trials]
        for trial in trials:
            trial.seen = [trial.values["schedule.step_size"]]
        search.tell()
    assert [one["schedule"] for one in tried[:2]] == ["constant", "cyclical"]
    assert [(one["sampler.friction"], one["schedule.step_size"]) for one in tried[2:10]] == [
        (end, h) for end in (0.01, 1.0) for h in (0.005, 0.01, 0.02, 0.04)
    ]
    assert all(one["schedule"] == "constant" for one in tried[2:10])
    assert len(tried) == 40


def test_without_a_step_size_to_search_no_ends_are_tried_first():
    fixed = Space({"sampler.friction": Range(0.01, 1.0, 0.1)}, step="schedule.step_size")
    search = Search("a", {"constant": fixed}, 10)
    assert search.ask()[0].values["sampler.friction"] == 0.1
