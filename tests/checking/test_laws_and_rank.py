"""A row that fails the laws at its settings has no rank, whatever its sampler declares of itself."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from scored import store, write_run

from harness.application.bench import Bench
from harness.reporting.report import Request
from harness.reporting.scores import score_fields
from harness.results import laws
from harness.results.laws import Outcome, Verdict
from harness.runs.source import source_hash
from harness.system.errors import UsageError
from plugins.checking import outcomes
from plugins.checking.suite import LawResult

LAPLACE = """
from dataclasses import dataclass
from typing import ClassVar
import torch
from harness import Info, Sampler, hook

@dataclass(frozen=True, kw_only=True)
class Quasi(Sampler):
    "Draws of a Laplace approximation from a low-discrepancy sequence; gradients are asked for and not used."
    {exempt}
    full_gradients_at_start: ClassVar[int] = 3

    def init(self, theta, potential, h, T, noise):
        dim = theta.shape[1]
        start = potential.full.grad(torch.zeros_like(theta))
        unit = torch.eye(min(2, dim), dim, dtype=theta.dtype)
        curvature = torch.stack([potential.full.grad(e.expand_as(theta)) - start for e in unit], 1)[:, :, :2]
        covariance = torch.linalg.inv(curvature)
        mode = -(covariance @ start[:, :2, None]).squeeze(-1)
        return {{"mode": mode, "root": torch.linalg.cholesky(covariance), "count": torch.zeros_like(theta[:, :1])}}

    def step(self, theta, state, potential, h, T, noise):
        potential.grad(theta)
        count = state["count"] + 1
        steps = torch.tensor([0.7548776662466927, 0.5698402909980532], dtype=theta.dtype)
        normal = torch.special.ndtri(torch.frac(0.5 + count * steps[: theta.shape[1]]))
        draw = state["mode"] + T.sqrt() * (state["root"] @ normal[:, :, None]).squeeze(-1)
        return torch.cat([draw, theta[:, 2:]], 1), {{**state, "count": count}}

@hook
def bench_samplers():
    return [Info("{name}", "{module}:Quasi", "quasi-random draws of a Laplace approximation")]
"""
EXEMPT = (
    'exempt = {{name: "as the author says" for name in ('
    '"potential", "scale", "zero-temperature", "translation", "coordinates")}}'
)


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    """The status of rows by method, before and after their laws were run."""
    folder = tmp_path_factory.mktemp("quasi")
    files = []
    for name, exempt in (("quasi", ""), ("excused", EXEMPT.format())):
        files.append(folder / f"{name}_draws.py")
        files[-1].write_text(LAPLACE.format(name=name, module=f"{name}_draws", exempt=exempt))
    bench = Bench(folder / "results", plugins=[str(path) for path in files])
    given = {f"{name}:schedule.step_size": 0.05 for name in ("quasi", "excused")}
    bench.run(
        ["quasi", "excused", "sgld"], ["gaussian2d"], seeds=range(5), chains=2, budget="passes=20", settings=given
    )

    def statuses():
        (score,) = score_fields(bench.store(), Request(registry=bench.registry))
        return {group.method: (score.standing(group, "joint_error"), group.laws) for group in score.groups}

    before = statuses()
    rows = bench.store().rows("from run")
    outcomes.make(bench.results, bench.registry, bench.plugins, outcomes.held_in(rows))
    return before, statuses()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quasi", "excused"])
def test_draws_of_a_laplace_approximation_lose_their_rank_by_the_laws(ranked, name):
    before, after = ranked
    assert before[name][0].rank.rank < before["sgld"][0].rank.rank  # it would lead
    assert before[name][1] == laws.NOT_RUN
    assert after[name][0].rank is None
    assert after[name][0].short == "baseline", after[name]
    assert after["sgld"][0].rank.rank == 1
    assert after["sgld"][1] == Outcome(Verdict.PASSED)


def outcome(results, judged, method="sgld"):
    (row,) = store(results).rows("select distinct sampler_source, sampler_params from run where method = ?", [method])
    name = laws.key(method, row["sampler_source"], row["sampler_params"])
    laws.write(results, name, judged, {})
    return results / laws.FOLDER / f"{name}.json"


FAILED = Outcome(Verdict.FAILED, ("seeds",), "seeds: chains interact")


@pytest.fixture
def results(tmp_path):
    for method in ("sgld", "sghmc"):
        for seed in range(5):
            write_run(tmp_path, method=method, seed=seed, metrics={"modes_covered": 4.0 + seed})
    return tmp_path


def standing(results, method="sgld"):
    (score,) = score_fields(store(results), Request())
    groups = {group.method: group for group in score.groups}
    return score.standing(groups[method], "modes_covered"), score.record(groups[method], "modes_covered")


@pytest.mark.parametrize(
    ("judged", "text", "status"),
    [
        (Outcome(Verdict.PASSED), "passed", "ranked"),
        (Outcome(Verdict.PASSED, ("scale",)), "passed, exempt from scale", "ranked"),
        (FAILED, "failed: seeds; seeds: chains interact", "fails laws"),
        (Outcome(Verdict.FAILED, ("seeds",), "it ignores the gradient"), "failed: seeds; it ignores the gradient",
         "fails laws"),
        (Outcome(Verdict.FAILED, ("potential",), "why", ignores_gradient=True), "failed: potential; why",
         "baseline"),
    ],
)  # fmt: skip
def test_an_outcome_decides_whether_a_row_has_a_rank(results, judged, text, status):
    """Not the words of a law, which its author chooses."""
    outcome(results, judged)
    status_of, record = standing(results)
    assert (status_of.short, record["laws"], record["rank"] is None) == (status, text, status != "ranked")


def test_a_row_whose_laws_were_not_run_is_marked(results):
    status_of, record = standing(results)
    assert (status_of.short, record["laws"]) == ("ranked", "not run")


def test_a_damaged_outcome_does_not_count(results):
    path = outcome(results, FAILED)
    path.write_text(path.read_text().replace("failed", "passed"))
    assert standing(results)[1]["laws"] == "not run"


def test_an_outcome_is_of_a_code_and_its_settings():
    one = laws.key("x", "ab", {"a": 1.0, "b": 2})
    assert one == laws.key("x", "ab", json.dumps({"b": 2, "a": 1.0}))
    assert len({one, laws.key("x", "ac", {"a": 1.0, "b": 2}), laws.key("x", "ab", {"a": 1.5, "b": 2})}) == 3
    assert one != laws.key("y", "ab", {"a": 1.0, "b": 2})  # another class of the same file


def test_check_needs_names_or_rows(tmp_path):
    from plugins.checking.check import check

    with pytest.raises(UsageError, match="--rows"):
        check(Bench(tmp_path))
    with pytest.raises(UsageError, match="--set and --rows"):
        check(Bench(tmp_path), rows=True, settings=["sampler.a=1"])


def test_a_report_cannot_write_into_the_store(results):
    for aside in (False, True):
        kept = store(results)
        if aside:
            kept.read_runs()
        with pytest.raises(UsageError, match="read-only"), kept.reading() as db:
            db.execute("update metric set value = 0")
        assert kept.rows("select min(value) as least from metric where name = 'modes_covered'")[0]["least"] == 4


TWO_IN_A_FILE = """
from dataclasses import dataclass
from harness import Info, Sampler, hook

@dataclass(frozen=True, kw_only=True)
class Plain(Sampler):
    "SGLD."

    def step(self, theta, state, potential, h, T, noise):
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * noise.normal(theta), state

@dataclass(frozen=True, kw_only=True)
class Weighs(Plain):
    "SGLD whose draws have weights that favour the middle: no short law knows the distribution that it should have."

    def init(self, theta, potential, h, T, noise):
        return {"square": (theta * theta).sum(1)}

    def step(self, theta, state, potential, h, T, noise):
        theta, _ = super().step(theta, state, potential, h, T, noise)
        return theta, {"square": (theta * theta).sum(1)}

    def log_weight(self, state):
        return -0.1 * state["square"]

class Excused(Weighs):
    exempt = {"derived-law": "not linear"}

@hook
def bench_samplers():
    names = {"a-plain": "Plain", "weighs": "Weighs", "excused": "Excused"}
    return [Info(name, f"two_in_a_file:{target}", "") for name, target in names.items()]
"""


@pytest.mark.slow
def test_a_nonlinear_sampler_is_held_to_its_distribution_and_not_taken_for_another_of_its_file(tmp_path):
    file = tmp_path / "two_in_a_file.py"
    file.write_text(TWO_IN_A_FILE)
    bench = Bench(tmp_path / "results", plugins=[str(file)])
    offers = [bench.registry.find("samplers", name) for name in ("a-plain", "weighs", "excused")]
    asked = [outcomes.Held(offer.name, source_hash(offer.target), "{}") for offer in offers]
    held = outcomes.outcomes(bench.registry, bench.plugins, {one.key: one for one in asked})
    right, *wrong = (held[one.key] for one in asked)
    assert right == Outcome(Verdict.PASSED)
    assert {(outcome.verdict, outcome.laws) for outcome in wrong} == {(Verdict.FAILED, ("whole-law",))}


@pytest.mark.parametrize("derived", ["passed", "failed", "skipped", "exempt"])
def test_the_distribution_is_a_law_of_whoever_does_not_pass_the_one_for_linear_steps(monkeypatch, derived):
    """An exemption does not help: it is what a sampler says of itself."""
    asked = []

    def checked(samplers, names):
        asked.append(names)
        results = [LawResult(name, derived if name == "derived-law" else "passed", "", 0.0) for name in names]
        return [[replace(one, outcome="failed") if one.law == "whole-law" else one for one in results]] * len(samplers)

    monkeypatch.setattr("plugins.checking.suite.check_samplers", checked)
    items = [("plugins.samplers.sgld:SGLD", {})]
    (judged,) = outcomes.judge(items, (), True, lambda *_: None)
    first, *later = asked
    assert {"derived-law", "seeds", "real-loop"} <= {*first}
    assert later == ([] if derived == "passed" else [["whole-law"]])
    assert ("whole-law" in judged.laws) == (derived != "passed")
    asked.clear()
    outcomes.judge(items, (), False, lambda *_: None)
    assert asked == [first], "built-in samplers are held to it at their defaults, by the tests"


def test_a_failure_is_judged_again_and_a_pass_is_not(tmp_path, monkeypatch):
    """A law that was wrong, and is mended, must not keep a row of an older folder without its rank."""
    held = {key: outcomes.Held(key, "source", "{}") for key in ("failed", "passed", "new")}
    laws.write(tmp_path, "failed", FAILED, {})
    laws.write(tmp_path, "passed", Outcome(Verdict.PASSED), {})
    asked = []
    monkeypatch.setattr(
        outcomes, "outcomes", lambda _, __, of: asked.extend(of) or dict.fromkeys(of, Outcome(Verdict.PASSED))
    )
    judged = outcomes.make(tmp_path, None, (), held)
    assert asked == ["failed", "new"]
    assert laws.read(tmp_path) == judged == dict.fromkeys(held, Outcome(Verdict.PASSED))
