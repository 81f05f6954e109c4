"""Facts of a field: leaders and factors of known errors, costs, baselines, and the verdicts on published orderings."""

from __future__ import annotations

import copy
import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scored import final_errors, low_error, store, time_rows, write_run

from harness import load, registry
from harness.cli.app import run
from harness.contracts.registry import load as load_target
from harness.reporting.rendering import render
from harness.reporting.report import Request
from harness.results.spec import Tuning
from harness.tasks import Streams
from plugins.comparison.compare import _needed
from reports import field as page_of
from reports import suite_pages
from reports.across import _equal, across, protocol_fields, task_fields
from reports.orderings import NOT_COMPARED, Ordering, OrderingVerdict, judge_orderings, load_orderings, noise_share
from reports.tables import findings
from reports.tables.findings import Findings
from reports.tables.findings_tables import STATEMENTS, _seeds, tables
from tasks.regression.blr import Heart
from tasks.synthetic.noise import scales

ROOT = Path(__file__).parents[2]
SEEDS = 8
HOLDS, FAILS, EQUIVALENT, UNDECIDED, REFUSED, NOT_RUN = OrderingVerdict
ERRORS = {
    "gaussian2d": {"sgld": 0.2, "sghmc": 0.05, "baoab": 0.4, "hmc": 0.051},
    "mixture25": {"sgld": 0.8, "csgld": 0.1},
}
COSTS = {"sgld": 2000.0, "sghmc": 300.0, "baoab": 500.0, "hmc": 2000.0, "csgld": 2000.0}
"""Data passes to low error; more than the 1,000 of a run is never."""


def write(results, method, task, error, passes=2000.0, spread=0.0, seeds=None, others=(), **changes):
    """Runs whose joint error is near `error`, by a factor that differs between seeds and between methods; `spread`
    is the standard deviation of its logarithm that the chains of a seed share. `others` are further metrics.
    """
    for seed in range(SEEDS) if seeds is None else seeds:
        rng = np.random.default_rng([seed, *method.encode()])
        noise = (rng.normal(size=(8, 1)) * 0.05 + 1) * np.exp(spread / 2 * rng.normal())
        curves = {**final_errors(np.sqrt(error) * noise), **low_error(passes, chains=8)}
        write_run(
            results, method=method, sampler=method, task=task, seed=seed, chains=8, curves=curves,
            metrics={"mean_error": 0.1, **dict(others)}, **changes,
        )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    results = tmp_path_factory.mktemp("results")
    for task, errors in ERRORS.items():
        for method, error in errors.items():
            modes = {"modes_covered": 20.0} if task == "mixture25" else {}
            write(results, method, task, error, COSTS[method], others=modes)
    for seed in range(SEEDS):
        write_run(results, method="psgld", task="gaussian2d", seed=seed, chains=8, status="diverged")
    write(results, "swag", "gaussian2d", 0.6, 2000.0)
    time_rows(results, 20.0)
    return results


@pytest.fixture(scope="module")
def records(folder):
    return Findings().build(store(folder), Request(registry=registry())).records


def of(records, kind, **fields):
    matching = [r for r in records if r["finding"] == kind and all(r[name] == value for name, value in fields.items())]
    assert len(matching) == 1
    return matching[0]


def test_the_leaders_of_a_task_and_the_factors(records):
    leaders = of(records, "task", task="gaussian2d")
    assert (leaders["reference"], leaders["metric"], leaders["samplers"]) == ("truth", "joint_error", 5)
    assert set(leaders["leaders"]) == {"sghmc", "hmc"}
    assert leaders["best"] in leaders["leaders"]
    assert leaders["mean"] == pytest.approx(0.05, rel=0.1)
    assert leaders["against_sgld"] == pytest.approx(4.0, rel=0.1)
    assert leaders["against_median"] == pytest.approx(4.0, rel=0.1)  # sghmc, hmc, sgld, baoab, psgld (infinite)
    assert leaders["command"] == "bench report leaderboard --task gaussian2d@csgmcmc"


def test_the_cheapest_row_to_low_error(records):
    cost = of(records, "cost", task="gaussian2d")
    assert (cost["cheapest"], cost["passes"], cost["reached"], cost["sgld_passes"]) == ("sghmc", 300.0, 2, None)
    assert cost["seconds"] == pytest.approx(20.0 * 0.3)
    assert of(records, "cost", task="mixture25")["reached"] == 0


def test_samplers_across_tasks(records):
    sgld = of(records, "sampler", method="sgld")
    assert (sgld["tasks"], sgld["leads"], sgld["worst_task"]) == (2, 0, "mixture25")
    assert sgld["worst"] == pytest.approx(8.0, rel=0.1)
    sghmc = of(records, "sampler", method="sghmc")
    assert (sghmc["share"], sghmc["low_error"], sghmc["truths"]) == (1.0, 1, 1)
    assert of(records, "sampler", method="psgld")["diverged_on"] == ["gaussian2d"]
    assert not [r for r in records if r["finding"] == "sampler" and r["method"] == "swag"]


def findings_of(results, task, errors, **wide):
    """The findings of one task; `wide` are methods whose values vary between seeds, with their errors."""
    for method, error in errors.items():
        write(results, method, task, error)
    for method, error in wide.items():
        write(results, method, task, error, spread=3.0)
    return Findings().build(store(results), Request(registry=registry()))


@pytest.mark.parametrize(
    ("errors", "wide", "best", "leaders", "tied", "not_known"),
    [
        # baoab is worse than the best, and better than the median of the set; msgld is wide, so it is not known
        ({"sghmc": 0.05, "baoab": 0.1, "hmc": 0.4, "sgld": 0.4, "psgld": 0.4}, 0.1, "sghmc", {"sghmc", "baoab"}, 0, 1),
        # whether another row is equivalent to a wide one is not known
        ({"sghmc": 0.05, "baoab": 0.4, "hmc": 0.4, "sgld": 0.4}, 1e-5, "msgld", {"sghmc"}, 0, 4),
        # each of three beats two of the set of four
        (
            {"sghmc": 0.1, "baoab": 0.1, "hmc": 0.1, "sgld": 0.4, "psgld": 0.4},
            None, None, {"sghmc", "baoab", "hmc"}, 2, 0,
        ),
    ],
)  # fmt: skip
def test_who_leads_a_task(tmp_path, errors, wide, best, leaders, tied, not_known):
    records = findings_of(tmp_path, "gaussian2d", errors, **({"msgld": wide} if wide else {})).records
    task = of(records, "task")
    assert set(task["leaders"]) == leaders
    assert task["best"] == (best or task["best"])
    assert (task["tied"], task["not_known"]) == (tied, not_known)
    assert {r["method"] for r in records if r["finding"] == "sampler" and r["leads"]} == leaders


@pytest.mark.parametrize(
    ("errors", "tied"),
    [
        ({"sghmc": 0.1, "sgld": 0.1, "hmc": 0.1, "baoab": 0.4}, 2),  # neither reference is worse than the best
        ({"sghmc": 1.5, "baoab": 400.0, "hmc": 400.0, "sgld": 400.0}, 0),  # the best is worse than one exact draw
    ],
)
def test_a_task_without_a_leader_decides_nothing(tmp_path, errors, tied):
    findings_of(tmp_path, "mixture25", {"sghmc": 0.05, "sgld": 0.4, "hmc": 0.4})
    built = findings_of(tmp_path, "gaussian2d", errors)
    task = of(built.records, "task", task="gaussian2d")
    assert (task["tied"], task["leaders"]) == (tied, [])
    sghmc = of(built.records, "sampler", method="sghmc")
    assert (sghmc["tasks"], sghmc["decided"], sghmc["leads_on"]) == (2, 1, ["mixture25"])
    shown = {row["task"]: row["leaders"] for row in built.tables[0].rows}
    assert shown == {"gaussian2d": "none", "mixture25": "sghmc"}
    assert built.tables[2].rows[0]["leads on"] == "1 of 1 (100%)"


def test_bad_rows_make_no_leader(tmp_path):
    """Of rows like the references none leads, however many bad rows there are; one that beats them does with none."""
    bad = {f"junk{k}": 0.5 for k in range(12)}
    for task, better in (("gaussian2d", 0.1), ("gaussian", 0.02)):
        errors = {"hmc": better, "sgld": 0.1, "sghmc": 0.1}
        for added in ({}, bad):
            built = findings_of(tmp_path / f"{task}{len(added)}", task, {**errors, **added})
            leaders = of(built.records, "task", task=task)["leaders"]
            assert leaders == (["hmc"] if better < 0.1 else []), (task, added)


@pytest.mark.parametrize(("lost", "leaders"), [(range(SEEDS), ["hmc"]), (range(1), [])])
def test_a_reference_is_beaten_where_all_of_its_seeds_diverged(tmp_path, lost, leaders):
    """One that lost a single seed is neither beaten nor compared."""
    for seed in range(SEEDS):
        if seed in lost:
            write_run(
                tmp_path, method="sgld", sampler="sgld", task="gaussian2d", seed=seed, chains=8, status="diverged"
            )
    write(tmp_path, "sgld", "gaussian2d", 0.4, seeds=[seed for seed in range(SEEDS) if seed not in lost])
    built = findings_of(tmp_path, "gaussian2d", {"hmc": 0.02, "sghmc": 0.4, "baoab": 0.4})
    assert of(built.records, "task", task="gaussian2d")["leaders"] == leaders


@pytest.mark.parametrize("junk", [1e-6, 0.01, 50.0], ids=["better", "as good", "bad"])
def test_thirty_rows_of_junk_make_no_more_leaders(tmp_path, junk):
    """Whether they are wide and better, as good as the best, or bad."""
    errors = {"hmc": 0.1, "sgld": 0.1, "sghmc": 0.1, "baoab": 0.08, "msgld": 0.01}
    before = of(findings_of(tmp_path, "gaussian2d", errors).records, "task")["leaders"]
    rows = {f"junk{k}": junk * 1.01**k for k in range(30)}
    after = of(findings_of(tmp_path, "gaussian2d", {}, **rows).records, "task")["leaders"]
    assert before == ["msgld"]
    assert [name for name in after if name in errors] == before


class WithCopies:
    """The registry of the installed plugins, in which each task has copies: gaussian2d-copy1."""

    def __init__(self):
        self.installed = registry()

    def __getattr__(self, name):
        return getattr(self.installed, name)

    def find(self, kind, name):
        return self.installed.find(kind, name.partition("-copy")[0])


def test_copies_of_a_task_count_once(tmp_path):
    tasks = ("gaussian2d", "mixture5", *(f"gaussian2d-copy{k}" for k in range(4)))
    for task in tasks:
        for method, error in {"sghmc": 0.05, "sgld": 0.4, "hmc": 0.4}.items():
            write(tmp_path, method, task, error if task != "mixture5" else 0.4, seeds=range(6))
    built = Findings().build(store(tmp_path), Request(registry=WithCopies()))
    sghmc = of(built.records, "sampler", method="sghmc")
    assert (sghmc["tasks"], sghmc["leads_on"]) == (2, ["gaussian2d"])
    assert of(built.records, "task", task="gaussian2d-copy3")["copy_of"] == "gaussian2d"
    assert "gaussian2d-copy3: a copy of gaussian2d, does not count" in built.tables[0].notes
    compared = across(store(tmp_path), Request(registry=WithCopies()))
    assert compared.task_names == ["gaussian2d", "mixture5"]
    assert "task gaussian2d-copy0: it has the energies of gaussian2d" in compared.left_out


def test_energies_that_hardly_differ_are_equal():
    draw = np.random.default_rng(0)
    U = draw.exponential(size=100)
    assert _equal(U, U + 7)
    assert _equal(U, U + 1e-3 * draw.normal(size=100))
    assert not _equal(U, 1.1 * U)
    assert not _equal(U, np.where(U > 2, np.inf, U))


def test_an_ordering_may_name_a_protocol(tmp_path):
    for protocol, errors in (("many", {"sgld": 0.4, "sghmc": 0.1, "hmc": 0.1}), ("few", {"sgld": 0.1, "sghmc": 0.4})):
        for method, error in errors.items():
            write(tmp_path, method, "gaussian2d", error, protocol=protocol)
    request = Request(registry=registry())
    fields = protocol_fields(store(tmp_path), request)
    orderings = [Ordering("", "", "sghmc", "sgld", f"gaussian2d@{name}") for name in ("many", "few", "none")]
    assert [one.verdict for one in judge_orderings(orderings, fields, request)] == [HOLDS, FAILS, NOT_RUN]


def test_rows_without_a_rank_and_baselines_stand_apart(records):
    assert of(records, "unranked", label="psgld")["status"].startswith("diverged 8 of 8")
    assert not [r for r in records if r["finding"] == "unranked" and r["label"] == "swag (baseline)"]
    baseline = of(records, "baseline", label="swag (baseline)")
    assert baseline["against_best"] == pytest.approx(12.0, rel=0.1)


def test_the_command_of_a_comparison_prints_its_numbers(folder, records, capsys):
    """The intervals of a family are wider than that of one comparison alone."""
    shown = ("better", "worse", "task", "metric", "effect", "low", "high", "verdict")
    printed = [r for r in records if r["finding"] == "ordering" and r["command"]]
    assert printed
    for command in {r["command"] for r in printed}:
        assert run(["--results", str(folder), *command.split()[1:], "--json"]) == 0
        again = json.loads(capsys.readouterr().out)
        of_family = [{name: one[name] for name in shown} for one in again if one["finding"] == "ordering"]
        for one in (r for r in printed if r["command"] == command):
            assert {name: one[name] for name in shown} in of_family


def test_a_verdict_that_is_withheld_has_no_number_of_seeds():
    record = {"verdict": "undecided", "test": "t", "effect": 1.0, "seeds_to_decide": 9, "reason": None}
    assert [_seeds(record | more) for more in ({}, {"reason": "biased"}, {"test": None})] == ["9", "", ""]
    row = {"test": "t", "withheld": None, "seeds_to_decide": 9}
    assert [_needed(row | more) for more in ({}, {"withheld": "biased"}, {"test": None})] == ["9", "-", "-"]


def test_orderings_hold_fail_or_are_undecided(folder):
    request = Request(registry=registry())
    fields = {field.task: field for field in task_fields(store(folder), request)}
    asked = {
        ("sghmc", "sgld"): HOLDS, ("baoab", "sghmc"): FAILS, ("hmc", "sghmc"): EQUIVALENT, ("psgld", "sgld"): UNDECIDED,
        ("sgnht", "sgld"): NOT_RUN,
    }  # fmt: skip
    orderings = [Ordering("", "", a, b, "gaussian2d") for a, b in asked]
    judged = judge_orderings(orderings, fields, request)
    assert [one.verdict for one in judged] == list(asked.values())
    assert judged[0].comparison.effect == pytest.approx(0.25, rel=0.1)
    assert judged[-1].reason == "sgnht: no runs"
    elsewhere = judge_orderings([Ordering("", "", "sghmc", "sgld", "ravine")], fields, request)
    assert [(one.verdict, one.reason) for one in elsewhere] == [(NOT_RUN, "no field of ravine with two methods")]


def test_orderings_that_were_not_tested_count_in_the_family(folder):
    """Who leaves out what he fears gets no smaller p."""
    request = Request(registry=registry())
    fields = {field.task: field for field in task_fields(store(folder), request)}
    tested, other = Ordering("", "", "sghmc", "sgld", "gaussian2d"), Ordering("", "", "sgnht", "sgld", "gaussian2d")
    alone = judge_orderings([tested], fields, request)[0].comparison.adjusted
    family = judge_orderings([tested, *[other] * 9], fields, request)
    assert family[0].comparison.adjusted == pytest.approx(10 * alone)


def test_what_is_declared_later_changes_no_interval(folder):
    """A family of its own leaves those before it as they were; it is shown once one of its statements is run."""
    request = Request(registry=registry())
    fields = {field.task: field for field in task_fields(store(folder), request)}
    first = [Ordering("", "", "sghmc", "sgld", "gaussian2d"), Ordering("", "", "sgnht", "sgld", "gaussian2d")]
    later = [Ordering("", "", "baoab", "sgld", "gaussian2d", family="later")]
    before, alone, both = (judge_orderings(each, fields, request) for each in (first, later, first + later))
    assert both == before + alone
    assert [one.comparison.family for one in both if one.comparison] == [2, 1]


@pytest.mark.parametrize(("worse", "families"), [("sgld", {"", "later"}), ("sgrld", {""})])
def test_a_family_without_a_run_is_not_shown(folder, monkeypatch, worse, families):
    declared = [
        Ordering("", "", "sghmc", "sgld", "gaussian2d"), Ordering("", "", "sgnht", "sgld", "gaussian2d"),
        Ordering("", "", "baoab", worse, "gaussian2d", family="later"),
    ]  # fmt: skip
    monkeypatch.setattr(findings, "load_orderings", lambda: declared)
    built = Findings().build(store(folder), Request(registry=registry()))
    orderings = [one for one in built.records if one["finding"] == "ordering"]
    assert {one["family"] for one in orderings} == families
    said = suite_pages._statements(orderings)
    assert f"hold for all {'2 and for all 1' if len(families) == 2 else 2} declared statements at once" in said


def with_groups(field, groups):
    """The field of a task with other groups."""
    score = copy.copy(field.score)
    score.groups = groups
    return replace(field, score=score)


def test_an_ordering_about_a_study_is_judged_on_its_rows_alone(folder):
    request = Request(registry=registry())
    field = next(one for one in task_fields(store(folder), request) if one.task == "gaussian2d")
    tuning = Tuning("repeated", 1, "quick", (), 1, 30, 100.0)
    of_study = {name: replace(group, tuning=tuning) for name, group in field.groups.items()}
    ordering = Ordering("", "", "sghmc", "sgld", field.task, study="repeated")
    for tuned, missing in (({}, "sghmc, sgld"), ({"sgld"}, "sghmc"), ({"sgld", "sghmc"}, "")):
        groups = [of_study[name] if name in tuned else group for name, group in field.groups.items()]
        beside = with_groups(field, groups)
        (judged,) = judge_orderings([ordering], {field.task: beside}, request)
        assert (judged.verdict == "not run") == bool(missing)
        reasons = [f"{name}: no runs at settings of study repeated" for name in missing.split(", ") if missing]
        assert judged.reason == "; ".join(reasons)
    other = replace(ordering, study="tuned")
    assert judge_orderings([other], {field.task: beside}, request)[0].verdict == "not run"
    later = with_groups(field, [*of_study.values(), *(replace(g, tuned="") for g in field.groups.values())])
    assert judge_orderings([ordering], {field.task: later}, request) == [judged], "another row of each method is later"


def row(task, friction=None, step_size=0.02, temperature=1.0, **settings):
    """A row as far as the noise of its gradients needs it."""
    sampler = {"sampler.friction": friction} if friction else {}
    of_schedule = {"schedule": "constant", "schedule.step_size": step_size, "schedule.temperature": temperature}
    about = {f"task.{name}": value for name, value in settings.items()}
    run = {"run.burn_in": 0, "run.thin": 1}
    return SimpleNamespace(task=task, steps=10, settings={**sampler, **of_schedule, **about, **run})


def test_the_share_of_gradient_noise_is_that_of_its_worst_direction():
    request = Request(registry=registry())
    isotropic = {"noise": 16.0, "noise_kind": "isotropic"}
    # sgld adds h^2 V to 2 h T, sghmc to 2 a h T
    assert noise_share(row("gaussian", **isotropic), request) == pytest.approx(0.02 * 256 / 2, rel=0.15)
    assert noise_share(row("gaussian", 0.1, temperature=0.5, **isotropic), request) == pytest.approx(51.2, rel=0.15)
    uneven = noise_share(row("gaussian", noise=16.0, noise_kind="correlated"), request)
    assert uneven == pytest.approx(0.01 * 256 * scales(10).max() ** 2, rel=0.15)
    assert noise_share(row("funnel", noise=2.0), request) == pytest.approx(0.01 * 4, rel=0.15)  # it has no truth
    assert noise_share(row("gaussian2d", noise=0.0), request) == 0


@pytest.mark.data
def test_the_share_of_minibatch_noise_is_that_of_the_scores():
    """V = N^2 / n cov(scores) of n rows drawn without replacement."""
    task, n = Heart(batch=27), 27
    theta = torch.from_numpy(task.truth().mean)[None]
    problem = task.build([Streams(0, 0)], "cpu")
    scores, N = problem.scores(theta, None)[0].numpy(), task.terms()
    V = np.linalg.eigvalsh(N**2 / n * np.cov(scores.T) * (1 - n / N))[-1]
    measured = noise_share(row("blr-heart", batch=27), Request(registry=registry()))
    assert measured == pytest.approx(0.01 * V, rel=0.15)


def test_an_ordering_about_noise_is_refused_where_there_is_none(folder, monkeypatch):
    request = Request(registry=registry())
    fields = {field.task: field for field in task_fields(store(folder), request)}
    asked = Ordering("", "", "sghmc", "sgld", "gaussian2d", about_noise=True)
    for share, verdict in ((0.09, REFUSED), (0.11, HOLDS)):
        asked_of = []
        monkeypatch.setattr("reports.orderings.noise_share", lambda row, _: asked_of.append(row.method) or share)  # noqa: B023
        (one,) = judge_orderings([asked], fields, request)
        assert (one.verdict, one.comparison is None, asked_of) == (verdict, verdict == REFUSED, ["sgld"])
    (calm,) = judge_orderings([replace(asked, about_noise=False)], fields, request)
    assert calm.verdict == HOLDS


def test_an_ordering_is_refused_if_neither_row_arrives(folder, monkeypatch):
    request = Request(registry=registry())
    fields = {field.task: field for field in task_fields(store(folder), request)}
    asked = Ordering("", "", "sghmc", "sgld", "gaussian2d")
    (judged,) = judge_orderings([asked], fields, request)
    errors = judged.comparison.a, judged.comparison.b
    assert (judged.metric, judged.verdict) == ("joint_error", HOLDS)
    for limit, verdict in ((0.9 * min(errors), REFUSED), (1.1 * min(errors), HOLDS)):
        monkeypatch.setattr("reports.orderings.ONE_DRAW", limit)
        (one,) = judge_orderings([asked], fields, request)
        assert (one.verdict, one.comparison is None, bool(one.reason)) == (verdict, *[verdict == REFUSED] * 2)


def test_a_baseline_that_is_better_than_the_best_sampler_has_a_minus():
    baseline = {"finding": "baseline", "task": "energy", "metric": "lppd", "label": "deep-ensemble", "mean": 1.8,
                "low": 1.7, "high": 1.9, "command": "bench report"}  # fmt: skip
    (table,) = tables([baseline | {"against_best": apart} for apart in (-0.125, 0.25)])
    assert [row["against the best sampler"] for row in table.rows] == ["-0.125", "+0.250"]


def test_one_statement_is_told_of_in_the_singular():
    verdicts = [EQUIVALENT, UNDECIDED, UNDECIDED, REFUSED]
    said = suite_pages._statements([{"finding": "ordering", "verdict": str(verdict)} for verdict in verdicts])
    assert "1 is equivalent, 2 are undecided.** 1 was refused by the rules." in said


def test_leaders_are_judged_once(folder, monkeypatch):
    judged, leaders = [], findings._leaders
    monkeypatch.setattr(findings, "_leaders", lambda field: judged.append(field.task) or leaders(field))
    Findings().build(store(folder), Request(registry=registry()))
    assert sorted(judged) == sorted(ERRORS)


def test_an_ordering_may_be_about_a_baseline_which_has_no_rank(folder):
    (field,) = [
        field for field in task_fields(store(folder), Request(registry=registry())) if field.task == "gaussian2d"
    ]
    assert "swag" not in field.rows
    for better, worse, verdict in (("sghmc", "swag", HOLDS), ("swag", "sghmc", FAILS), ("sghmc", "laplace", NOT_RUN)):
        (one,) = judge_orderings([Ordering("", "", better, worse, "gaussian2d")], {"gaussian2d": field}, Request())
        assert one.verdict == verdict


def test_every_report_of_orderings_takes_one_about_a_baseline(folder, monkeypatch):
    declared = [Ordering("", "", "sghmc", "swag", "gaussian2d")]
    judging = []
    for offer in registry().offers("reports"):
        report = load_target(offer.target)
        module = sys.modules[report.__module__]
        if hasattr(module, "load_orderings"):
            monkeypatch.setattr(module, "load_orderings", lambda: declared)
            built = report().build(store(folder), Request(registry=registry()))
            judging += [offer.name for one in built.records if one["finding"] == "ordering" and "swag" in one.values()]
    assert sorted(judging) == ["findings", "needed-seeds"]


def test_the_declared_orderings_name_what_is_installed():
    orderings = load_orderings()
    plugins = registry()
    names = {kind: {offer.name for offer in plugins.offers(kind)} for kind in ("samplers", "methods", "tasks")}
    methods = names["samplers"] | names["methods"]
    assert {one.better for one in orderings} | {one.worse for one in orderings} <= methods
    assert {one.task.partition("@")[0] for one in orderings} <= names["tasks"]
    assert len({(one.better, one.worse, one.task, one.metric, one.study) for one in orderings}) == len(orderings)
    assert all(one.statement and one.citation and one.better != one.worse for one in orderings)


def test_every_fact_has_a_command(records):
    assert [r for r in records if not r["command"] and r.get("verdict") not in NOT_COMPARED] == []
    commands = {word for r in records if r["command"] for word in r["command"].split()[:3]}
    known = {"bench", "report", "leaderboard", "convergence", "findings"}
    assert commands <= known


def test_no_results_no_findings(tmp_path):
    write_run(tmp_path, metrics={"mean_error": 0.1})
    assert not Findings().build(store(tmp_path), Request()).tables


@pytest.mark.parametrize("suite", ["field", "orderings", "study-densities"])  # the study's parts share a template
def test_the_pages_show_what_was_published(folder, tmp_path, monkeypatch, suite):
    """The numbers go through a file of JSON, infinite ones too, and the pages are made of that file alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(suite_pages, "SUITE_FILES", tmp_path)
    (tmp_path / f"{suite}.toml").write_text(
        'summary = "Two."\n[[run]]\ntasks = ["gaussian2d", "mixture25@csgmcmc"]\nbudget = "quick"'
    )
    monkeypatch.setattr(page_of, "without_laws", lambda _: [])
    page_of.main(suite, str(folder))
    published = json.loads((page_of.FOLDER / f"{suite}.json").read_text(encoding="utf-8"))
    shown = page_of.pages(published, suite)
    assert {str(path.relative_to("docs")) for path in Path("docs").rglob("*.md")} == shown.keys()
    assert all(Path("docs", path).read_text(encoding="utf-8") == text for path, text in shown.items())
    for path in shown:
        Path("docs", path).unlink()
    page_of.main()
    assert all(Path("docs", path).read_text(encoding="utf-8") == text for path, text in shown.items())
    written = "\n".join(shown.values())
    report = load(folder).report("findings")
    for table in report.tables[1:] if suite == "field" else report.tables:
        assert (render(type(report)([table]), "markdown").strip() in written) == (
            table.title != STATEMENTS or suite != "field"
        )
    assert "\\>1,000" in written  # a cost that is never reached
    assert "### gaussian2d@csgmcmc, quick budget, 8 chains" in written
    for task, has_modes in (("gaussian2d", False), ("mixture25", True)):
        (header,) = re.findall(rf"### {task}@csgmcmc, quick.*?\n\n(\|.*?)\n", written, re.DOTALL)
        assert ("modes covered" in header) == has_modes
    assert all(row["mean"] == "inf" or isinstance(row["mean"], float | None) for row in published["leaderboard"])


def test_a_folder_with_runs_of_another_suite_is_refused_and_nothing_is_written(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="has runs that study-longer does not ask for: gaussian2d at quick, mixture25"):
        page_of.main("study-longer", str(folder))
    assert not [*Path("docs").rglob("*.*")]


def test_rows_without_laws_are_of_a_nightly_that_has_not_ended_and_are_not_published(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(suite_pages, "SUITE_FILES", tmp_path)
    (tmp_path / "orderings.toml").write_text('[[run]]\ntasks = ["gaussian2d", "mixture25@csgmcmc"]\nbudget = "quick"')
    with pytest.raises(SystemExit, match=r"the laws of \d+ rows were not run, \S+ on gaussian2d.*has not ended in"):
        page_of.main("orderings", str(folder))
    assert not [*Path("docs").rglob("*.*")]
    for suite in suite_pages.PARTS:
        published = json.loads((ROOT / page_of.FOLDER / f"{suite}.json").read_text(encoding="utf-8"))
        assert page_of.without_laws(published["leaderboard"]) == []


def test_the_front_page_begins_with_the_conclusion_and_is_short():
    numbers = json.loads((ROOT / page_of.FOLDER / "field.json").read_text(encoding="utf-8"))
    front = page_of.pages(numbers)["field.md"]
    first, then = (front.index(text) for text in ("earlier protocol", "The samplers that lead on the most tasks"))
    assert first < then < front.index("| task |") < 1500
    assert len(front.split()) < 1000
    for record in numbers["leaderboard"]:
        record["verdict"] = "worse"
    assert suite_pages.EARLIER not in page_of.pages(numbers)["field.md"]


def test_the_page_names_the_methods_without_a_run_and_why(tmp_path, monkeypatch):
    study = tmp_path / "tuned.json"
    study.write_text(json.dumps({"tuned": [{"method": "hmc", "task": "gaussian", "search_version": 3}]}))
    monkeypatch.setattr(suite_pages, "STUDIES", tmp_path)
    on = {"gaussian": ("csgld",), "bimodal1d": ("hmc",), "airfoil": ("sgrld", "mclmc", "last-layer-laplace")}
    left_out = page_of.left_out(
        [{"task": task, "method": name} for task, names in on.items() for name in names], "study-densities"
    )
    assert suite_pages._absent({"left_out": left_out}).cells() == [
        ["mclmc", "needs 2 dimensions", "bimodal1d"],
        ["last-layer-laplace", "needs gauss_newton, layout", "gaussian, bimodal1d"],
        ["sgrld", "needs metric", "gaussian, bimodal1d"],
        ["hmc", "no tuned settings", "airfoil"],
        ["csgld", "no tuned settings", "bimodal1d, airfoil"],
        ["mclmc", "no tuned settings", "gaussian"],
        ["hmc", "not run", "gaussian"],
    ]


def test_the_tables_follow_from_the_records(folder):
    built = Findings().build(store(folder), Request(registry=registry()))
    assert [table.cells() for table in tables(built.records)] == [table.cells() for table in built.tables]
    titles = [table.title for table in built.tables]
    assert titles[0] == "Leaders by task"
    assert "Declared orderings" in titles
    for table in built.tables:
        assert len({len(row) for row in table.cells()}) == 1


@pytest.mark.parametrize("suite", page_of.SUITES)
def test_the_published_pages_are_current(suite, tmp_path, monkeypatch):
    published = ROOT / page_of.FOLDER
    if not (published / f"{suite}.json").is_file():
        pytest.skip(f"the results of the suite {suite} are not published yet")
    folder = tmp_path / page_of.FOLDER
    folder.mkdir(parents=True)
    for path in published.iterdir():
        if path.suffix != ".md":
            shutil.copy(path, folder)
    monkeypatch.chdir(tmp_path)
    page_of.main()
    written = {path.relative_to("docs") for path in Path("docs").rglob("*.md")}
    there = [name for name in page_of.SUITES if (published / f"{name}.json").is_file()]
    assert written == {Path(f"{name}.md") for name in there} | {
        path.relative_to(ROOT / "docs") for path in published.glob("*.md")
    }
    for path in written:
        assert (ROOT / "docs" / path).read_text() == Path("docs", path).read_text(), "nox -s docs"
