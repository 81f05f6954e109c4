"""The matrix of the start page and its sentences: what they say follows from the verdicts of the rows."""

from __future__ import annotations

import math

import pytest

from harness.reports import Table
from plugins.nights.site.matrix import conclusion, heading, listed, matrices
from plugins.nights.site.model import Site, SiteField, SiteRow, Subject

KINDS = {"line": "Synthetic", "ring": "Synthetic", "heart": "Regression"}


def row(method, task, mean=1.0, verdict="worse", **more):
    ranked = {"rank": 1 if verdict == "best" else 2, "verdict": verdict, "mean": mean} if verdict else {}
    return SiteRow(f"{method}-{task}", method, method, task, "ours", "quick", 4, 5, **{**ranked, **more})


def field(task, *rows, budget="quick", metric="joint error"):
    return SiteField(task, task, "ours", budget, 4, 100, metric, rows, Table("", [], []))


def site(*fields):
    methods = sorted({row.method for one in fields for row in one.rows})
    return Site(
        "results", fields=fields, tasks=[Subject(task, family=kind) for task, kind in KINDS.items()],
        methods=[Subject(name) for name in methods],
    )  # fmt: skip


@pytest.fixture
def three():
    return site(
        field("line", row("a", "line", 0.1, "best", cost=50.0), row("b", "line", 0.2, cost=math.inf)),
        field("ring", row("b", "ring", 0.1, "best"), row("a", "ring", 0.11, "tied with the best")),
        field("heart", row("a", "heart", 0.3, "best"), row("b", "heart", 0.6, "not known"),
              row("c", "heart", verdict="", status="diverged: seed 3", caveats=["diverged"])),
    )  # fmt: skip


def cells(matrix):
    return {method: [(cell.text, cell.shade) for cell in line] for method, line in matrix.lines}


def test_ties_are_shaded_alike_and_factors_are_means_over_tasks(three):
    overview = matrices(three)[0]
    assert (overview.kind, overview.columns) == ("all kinds", ["Regression", "Synthetic"])
    assert cells(overview) == {
        "a": [("1.00\N{MULTIPLICATION SIGN}", "lead"), ("1.05\N{MULTIPLICATION SIGN}", "lead")],
        "b": [("2.00\N{MULTIPLICATION SIGN} ?", "apart"), ("1.41\N{MULTIPLICATION SIGN}", "near")],
        "c": [("no rank", "none"), ("not run", "none")],
    }
    (c,) = [line for method, line in overview.lines if method == "c"]
    assert c[0].badges == ["diverged"]


def test_each_kind_has_a_matrix_of_its_tasks(three):
    assert [(m.kind, m.columns) for m in matrices(three)[1:]] == [
        ("Regression", ["heart"]), ("Synthetic", ["line", "ring"]),
    ]  # fmt: skip
    (synthetic,) = [m for m in matrices(three) if m.kind == "Synthetic"]
    costs = {method: [cell.cost for cell in line] for method, line in synthetic.lines}
    assert costs == {"a": ["50.0 passes", ""], "b": ["low error not reached", ""]}


def test_the_sentences_are_those_of_the_verdicts(three):
    first, second, third = conclusion(three)
    assert first == (
        "At the quick budget, a is best or tied with the best on 3 of 3 tasks; b is best or tied with the best on "
        "1 of 3 tasks."
    )
    assert second == (
        "Of 6 ranked rows, 1 is worse than the best and 1 cannot be told from it with these seeds; 1 row without a "
        "rank: 1 diverged."
    )
    assert third == (
        "Low error, 0.01, was reached by 1 of 2 rows with a known cost, at the lowest cost by a on line (50.0 data "
        "passes)."
    )


def test_of_few_tasks_the_leaders_are_named_with_what_the_next_has():
    two = site(
        field("line", row("a", "line", 0.1, "best"), row("b", "line", 0.141), row("c", "line", 0.5)),
        field("ring", row("b", "ring", 0.1, "best"), row("a", "ring", 0.11, "tied with the best")),
    )
    assert conclusion(two)[0] == (
        "At the quick budget, on line a is best, then b at 1.41 times the best joint error; on ring a and b are best "
        "or tied with the best."
    )


def test_a_leader_is_named_only_if_a_verdict_says_so():
    few = site(field("line", row("a", "line", 0.1, "too few seeds for a verdict"), row("b", "line", 0.2, "not known")))
    assert conclusion(few)[0].startswith("At the quick budget, no sampler is best")
    assert all(shade != "lead" for line in cells(matrices(few)[0]).values() for _, shade in line)
    none = site(field("line", row("a", "line", verdict="", status="unranked: one seed")))
    assert conclusion(none) == []


def test_of_several_rows_one_stands_for_the_method_and_not_the_best_one():
    default, tuned = row("a", "line", 0.1, "best", preference=(0, "")), row("a", "line", 0.2, preference=(3, ""))
    (only,) = matrices(site(field("line", default, tuned)))
    assert cells(only) == {"a": [("2.00\N{MULTIPLICATION SIGN}", "apart")]}


def test_other_metrics_have_no_factor():
    (only,) = matrices(site(field("line", row("a", "line", -1.0, "best"), row("b", "line", 2.0), metric="nll")))
    assert cells(only) == {"a": [("-1.00", "lead")], "b": [("2.00", "far")]}
    (only,) = matrices(site(field("line", row("a", "line", -1.0, "not known"), metric="nll")))
    assert cells(only) == {"a": [("-1.00 ?", "none")]}


def test_budgets_are_not_pooled(three):
    longer = field("line", row("b", "line", 0.01, "best"), row("a", "line", 0.02), budget="paper")
    both = site(*three.fields, longer)
    assert [(m.budget, m.kind) for m in matrices(both)][-1] == ("paper", "Synthetic")
    assert cells(matrices(both)[0]) == cells(matrices(three)[0])


def test_the_heading_says_what_was_compared(three):
    assert heading(three) == "Comparison of 3 samplers on 3 tasks: heart, line and ring"
    assert heading(Site("empty")) == "empty"
    assert listed(["a"]) == "a"
    assert listed(list("abcdef")) == "a, b, c and 3 more"
