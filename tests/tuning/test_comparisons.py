"""Unfair comparisons of issues past: each is refused, or the row's label says what differs."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from scored import store, write_run

from harness import UsageError, registry
from harness.reporting.scoring.standing import standings
from harness.reports import Group, Request, Term, differing_terms, refusal, score_fields, terms
from harness.results.records import Level
from harness.results.spec import SEARCH_VERSION, Origin, Tuning, read_origin
from harness.runs import plan, plugin_metadata
from harness.runs.plan import RunRequest
from plugins.papers import claims, files
from plugins.papers.reported import as_published
from reports.across import across, task_fields
from reports.orderings import OrderingVerdict, judge_orderings, load_orderings
from reports.tables.wide import cost_cells

ROOT = Path(__file__).parents[2]
SEEDS = range(5)


def tuning(**changes):
    return {
        "study": "tuned", "version": SEARCH_VERSION, "budget": "quick", "schedules": ["constant", "polynomial"],
        "searches": 1, "trials": 30, "passes": 100.0, **changes,
    }  # fmt: skip


def tuned_origins(**changes):
    return {"schedule.step_size": {"value": 0.1, "provenance": "tuned", "source": "s", "tuning": tuning(**changes)}}


def write(folder, method, value=1.0, schedule=None, seeds=SEEDS, **changes):
    """The runs of a row on mixture25, under its schedule."""
    for seed in seeds:
        metrics = {"modes_covered": 10 * value + seed % 3, "nll": value + 0.01 * seed}
        extra = {"schedule": {**SCHEDULE, "name": schedule}} if schedule else {}
        write_run(folder, method=method, seed=seed, metrics=metrics, **{**extra, **changes})


SCHEDULE = {"target": "", "source": "0" * 64, "params": {"step_size": 0.02, "temperature": 1.0}}


def groups(folder):
    """The groups of a folder by method."""
    (score,) = score_fields(store(folder), Request(registry=registry()))
    return score, {group.method: group for group in score.groups}


@pytest.fixture
def bench(tmp_path, capsys):
    """`bench` on a results folder: exit code, stdout, stderr."""
    from harness.cli.app import run

    def command(*words):
        code = run(["--results", str(tmp_path), *map(str, words)])
        return code, *capsys.readouterr()

    return command


@pytest.mark.parametrize(
    ("term", "left", "right"),
    [
        (Term.SCHEDULE, {"schedule": "constant"}, {"schedule": "polynomial"}),
        (Term.WARM_START, {"warm_start": "adam", "warm_passes": 20.0, "warm_source": "1" * 64}, {}),
        (Term.WARM_START, {"warm_start": "adam", "warm_passes": 20.0, "warm_source": "1" * 64},
         {"warm_start": "adam", "warm_passes": 40.0, "warm_source": "1" * 64}),
        (Term.TUNING, {"origins": tuned_origins()}, {"origins": tuned_origins(version=1)}),
        (Term.TUNING, {"origins": tuned_origins()},
         {"origins": {"sampler.a": {"value": 1, "provenance": "tuned", "source": "study tuned: 20 trials"}}}),
        (Term.TUNING, {"origins": tuned_origins()}, {}),
    ],
)  # fmt: skip
def test_two_rows_that_differ_in_a_term_are_not_compared(tmp_path, bench, term, left, right):
    write(tmp_path, "psgld", **left)
    write(tmp_path, "sgld", 2.0, **right)
    _, by_method = groups(tmp_path)
    rows = by_method["psgld"], by_method["sgld"]
    assert differing_terms(*rows).keys() == differing_terms(*rows[::-1]).keys() == {term}
    assert str(term) in refusal(*rows)
    code, _, said = bench("compare", "psgld", "sgld")
    assert code == 2
    assert f"they differ in {term}" in said
    never = term == Term.TUNING and all(group.tuning_version for group in rows)
    assert bool(refusal(*rows, [term])) == never
    assert bench("compare", "psgld", "sgld", "--differs", term)[0] == (2 if never else 0)


@pytest.mark.parametrize(
    ("left", "right", "term"),
    [
        ({"full_gradients": True}, {"full_gradients": False}, Term.PRICE),
        ({"full_gradients": True}, {"full_gradients": None}, None),
        ({"settings": {"task.batch": 32}}, {"settings": {"task.batch": 64}}, Term.BATCH),
        ({"settings": {"run.batch_order": "replaced"}}, {"settings": {}}, Term.BATCH),
    ],
)
def test_the_price_of_a_gradient_and_the_batches_are_terms(left, right, term):
    usual = {
        "key": "k", "method": "a", "task": "t", "task_version": 1, "protocol": "p", "budget": "quick", "steps": 1,
        "chains": 1, "settings": {}, "provenance": {}, "runs": (), "readings": {},
    }  # fmt: skip
    rows = Group(**{**usual, **left}), Group(**{**usual, **right})
    assert [*differing_terms(*rows)] == ([term] if term else [])


@pytest.mark.parametrize(("provenance", "terms"), [("tuned", []), ("untuned", [Term.SCHEDULE])])
def test_a_schedule_is_a_tuned_setting_only_where_its_step_size_is(tmp_path, provenance, terms):
    partly = {
        "sampler.a": tuned_origins()["schedule.step_size"],
        "schedule.step_size": {"value": 0.1, "provenance": provenance, "source": "s"},
    }
    write(tmp_path, "psgld", schedule="polynomial", origins=partly)
    write(tmp_path, "sgld", 2.0, schedule="constant", origins=tuned_origins())
    _, by_method = groups(tmp_path)
    rows = by_method["psgld"], by_method["sgld"]
    assert [*differing_terms(*rows)] == [*differing_terms(*rows[::-1])] == terms


def test_rows_that_differ_in_what_a_sampler_is_are_compared(tmp_path, bench):
    write(tmp_path, "psgld")
    write(tmp_path, "sgld", 2.0)
    assert bench("compare", "psgld", "sgld")[0] == 0
    assert bench("compare", "psgld", "sgld", "--differs", "colour")[0] == 2
    with pytest.raises(UsageError, match="did you mean schedule"):
        terms(["shedule"])


def test_a_schedule_that_both_could_have_chosen_is_a_tuned_setting_like_any_other():
    def group(schedule, searched, version=2):
        return Group(
            key=schedule, method="a", task="t", task_version=1, protocol="p", budget="quick", steps=1, chains=1,
            settings={"schedule": schedule}, provenance={"schedule.step_size": "tuned"}, runs=(), readings={},
            tuning=Tuning("tuned", version, "quick", searched, 1, 30, 1.0) if searched else None,
        )  # fmt: skip

    both = ("constant", "polynomial")
    assert not refusal(group("constant", both), group("polynomial", (*both, "cyclical")))
    assert refusal(group("cyclical", (*both, "cyclical")), group("polynomial", both))  # only one searched it
    assert refusal(group("constant", both), group("polynomial", ()), [Term.TUNING])  # a paper's
    assert refusal(group("constant", (), 1), group("polynomial", (), 1))


def test_the_label_of_a_row_says_its_schedule_and_how_it_was_tuned(tmp_path):
    write(tmp_path, "psgld", schedule="polynomial")
    write(tmp_path, "csgld")
    write(tmp_path, "sgld", origins=tuned_origins(budget="smoke"))
    write(tmp_path, "msgld", origins=tuned_origins(version=1))
    write(tmp_path, "sghmc", origins=tuned_origins())
    write(tmp_path, "adam")
    write(tmp_path, "swag")
    score, by_method = groups(tmp_path)
    labels = {method: score.labels[group.key] for method, group in by_method.items()}
    assert labels == {
        "psgld": "psgld (schedule=polynomial)", "csgld": "csgld", "sgld": "sgld (tuned at smoke)",
        "msgld": "msgld (tuned by earlier rules)", "sghmc": "sghmc", "adam": "adam (optimiser)",
        "swag": "swag (baseline)",
    }  # fmt: skip
    rulesets = {method: str(group.ruleset) for method, group in by_method.items()}
    assert rulesets["sghmc"] == rulesets["msgld"] == "tuned equally"


@pytest.mark.parametrize(
    ("kinds", "ruleset"),
    [
        (["default", "untuned"], "one setting"), (["one-setting", "untuned"], "one setting"),
        (["default", "paper"], "author's"), (["plugin"], "author's"), (["tuned", "one-setting"], "tuned equally"),
        (["tuned", "user"], "user's"), (["paper", "user"], "user's"), (["paper", "swept"], "author's"),
    ],
)  # fmt: skip
def test_a_ruleset_is_who_chose_the_settings(tmp_path, kinds, ruleset):
    origins = {f"sampler.s{i}": {"value": i, "provenance": kind, "source": ""} for i, kind in enumerate(kinds)}
    write(tmp_path, "sgld", origins=origins)
    _, by_method = groups(tmp_path)
    assert str(by_method["sgld"].ruleset) == ruleset


@pytest.mark.parametrize(("kind", "published"), [("paper", True), ("one-setting", False), ("tuned", False)])
def test_only_a_papers_settings_are_as_published(tmp_path, kind, published):
    write(tmp_path, "sgld", origins={"sampler.s": {"value": 1, "provenance": kind, "source": ""}}, budget="paper")
    _, by_method = groups(tmp_path)
    assert as_published(by_method["sgld"], frozenset()) == published


def test_rows_of_earlier_rules_have_no_rank_beside_new_ones(tmp_path):
    for method, version in (("sgld", 1), ("psgld", 1), ("sghmc", 2), ("sgnht", 2)):
        write(tmp_path, method, origins=tuned_origins(version=version))
    score, by_method = groups(tmp_path)
    standing = {method: score.standing(group, "nll").status for method, group in by_method.items()}
    assert standing["sgld"] == standing["psgld"] == "unranked: tuned by earlier rules"
    assert standing["sghmc"] == standing["sgnht"] == "ranked"


def test_neither_a_baseline_nor_a_row_that_was_sent_takes_the_ranks_of_others(tmp_path):
    for method in ("sgld", "psgld", "sghmc"):
        write(tmp_path, method, origins=tuned_origins(version=1))
    score, by_method = groups(tmp_path)
    estimates = {group.key: score.estimate(group, "nll") for group in score.groups}
    for change in ({"level": Level.REPORTED}, {"baseline": True}):
        newer = replace(by_method["sghmc"], tuning=Tuning(**tuning(version=99)), **change)
        statuses = standings([by_method["sgld"], by_method["psgld"], newer], estimates, {})
        assert [statuses[by_method[name].key].status for name in ("sgld", "psgld")] == ["ranked", "ranked"]
        assert statuses[newer.key].rank is None


def test_whoever_compares_rows_asks_whether_it_is_fair():
    same_row = {"plugins/nights/regression/changes.py"}  # a row and itself on another night
    for folder in ("plugins", "reports"):
        for path in (ROOT / folder).rglob("*.py"):
            calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            names = {getattr(call, "id", getattr(call, "attr", "")) for call in calls}
            compares = any(getattr(call, "id", "") == "compare" for call in calls) or any(
                getattr(call, "attr", "") == "compare" and "score" in ast.unparse(call) for call in calls
            )
            name = path.relative_to(ROOT).as_posix()
            assert not compares or "refusal" in names or name in same_row, name


def test_rows_of_earlier_rules_rank_among_themselves(tmp_path):
    for method in ("sgld", "psgld"):
        write(tmp_path, method, origins=tuned_origins(version=1))
    score, by_method = groups(tmp_path)
    assert {score.standing(group, "nll").status for group in by_method.values()} == {"ranked"}


def test_the_cost_is_shown_with_and_without_tuning(tmp_path):
    write(tmp_path, "sgld", origins=tuned_origins(passes=600.0), passes=1000.0, chains=4)
    write(tmp_path, "psgld", passes=1000.0, chains=4)
    score, by_method = groups(tmp_path)
    cells = cost_cells(score)
    assert [cells[name](by_method["sgld"]) for name in ("passes", "with_tuning")] == [1000, 1150]
    assert [cells[name](by_method["psgld"]) for name in ("passes", "with_tuning")] == [1000, 1000]
    earlier = {"sampler.a": {"value": 1, "provenance": "tuned", "source": "study tuned: 20 trials"}}
    write(tmp_path, "sghmc", origins=earlier, passes=1000.0, chains=4)
    score, by_method = groups(tmp_path)
    assert cost_cells(score)["with_tuning"](by_method["sghmc"]) is None  # what it cost is not recorded


def test_a_ranking_over_tasks_marks_optimisers(tmp_path):
    for task in ("mixture25", "blr-heart"):
        for method in ("sgld", "adam"):
            write(tmp_path, method, task=task)
    table = across(store(tmp_path), Request(metric="nll", registry=registry()))
    assert table.names == {"adam": "adam (optimiser)", "sgld": "sgld"}


@pytest.mark.slow
def test_optimisers_are_declared_as_what_they_are():
    for offer in registry().offers("samplers"):
        if not offer.info.baseline:
            assert offer.info.optimiser == plugin_metadata.sampler_facts(offer, {}).optimiser, offer.name


def planned(side):
    """The row that a side of a claim is, as the plan has it."""
    request = RunRequest([side.method], [f"{side.task}@{side.protocol}"], [0], side.chains, "paper")
    ((_, (spec,)),) = plan.expand(registry(), request)
    settings = {"schedule": spec.schedule.name, **{f"task.{name}": v for name, v in spec.task.params.items()}}
    settings |= {f"run.{name}": v for name in ("warm_start", "warm_passes") if (v := getattr(spec, name)) is not None}
    return Group(
        key=spec.key, method=side.method, task=side.task, task_version=1, protocol=side.protocol, budget="paper",
        steps=1, chains=1, settings=settings, provenance={}, runs=(), readings={},
    )  # fmt: skip


@pytest.mark.slow
def test_every_claim_names_the_terms_in_which_its_sides_differ():
    read, problems = files.read(files.paths(registry()))
    assert not problems
    compared = [one for one in claims.load_claims(read) if one.kind != "share" and one.better and one.worse]
    assert len(compared) > 80
    for claim in compared:
        assert refusal(planned(claim.better), planned(claim.worse), claim.differs) == "", claim.statement
    assert any(refusal(planned(claim.better), planned(claim.worse)) for claim in compared)


def test_an_ordering_of_rows_under_two_schedules_is_refused_unless_it_is_about_them(tmp_path):
    for method in ("psgld", "sgld"):
        write(tmp_path, method, 1.0 if method == "psgld" else 3.0, seeds=range(12),
              schedule="polynomial" if method == "sgld" else None)  # fmt: skip
    fields = {one.task: one for one in task_fields(store(tmp_path), Request(registry=registry()), "nll")}
    (one, *_) = (o for o in load_orderings() if (o.better, o.worse) == ("psgld", "sgld"))
    fair = type(one)("s", "c", "psgld", "sgld", "mixture25", "nll", differs=(Term.SCHEDULE,))
    unfair = type(one)("s", "c", "psgld", "sgld", "mixture25", "nll")
    decided, refused = judge_orderings([fair, unfair], fields, Request(registry=registry()))
    assert decided.comparison.tested is not None
    assert refused.verdict == OrderingVerdict.REFUSED
    assert "they differ in schedule: constant and polynomial" in refused.reason


def test_an_origin_is_read_as_it_was_written():
    origin = Origin(None, "tuned", "s", Tuning("tuned", 2, "quick", ("constant",), 1, 30, 1.5, "task"))
    assert read_origin(origin.record()) == origin
    assert Origin(None, "user").record() == {"value": None, "provenance": "user", "source": ""}
