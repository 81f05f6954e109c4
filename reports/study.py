"""What docs show of the study: its picture, and the tables of docs/which-sampler.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from statistics import median
from typing import Any

from harness import Result
from harness.reports import Column, Figure, Table, number, render
from reports.figures.budgets import BudgetPoint
from reports.figures.budgets import figure as budgets_figure
from reports.figures.factors import figure
from reports.orderings import OrderingVerdict
from reports.suite_pages import failed_chains
from reports.tables.wide import FAILED, JOINT

PICTURE, BUDGETS_PICTURE = "study", "study-budgets"
"""The names of the pictures of the study, in docs: of the rows at `quick`, and of those at several budgets."""
KINDS = {
    "one mode": ("banana", "gaussian", "gaussian2d", "rosenbrock"),
    "several modes": ("bimodal1d", "mixture5", "mixture25"),
    "regressions": ("blr-german", "blr-heart", "blr-australian", "pdb-nes1980"),
    "hierarchical": ("pdb-eight-schools-noncentered",),
    "simplexes": ("lda-small",),
    "a network": ("tiny-bnn",),
}
"""The tasks of the study by kind, in the order of its picture."""
IN_ORDER = [task for tasks in KINDS.values() for task in tasks]
BEGIN, END = "<!-- {what} in {suite}: python -m reports.field -->", "<!-- end of {what} -->"
PAPER, PAGE = "study.md", "study-results.md"
"""The study's paper, and the page of its results part by part, both in docs."""
BUDGET = "quick"
"""The budget of the rows in the picture."""
BUDGETS = ("<!-- budgets: python -m reports.field -->", "<!-- end of budgets -->")
"""What the table of the gain by longer runs is between, in the page of results."""
FAILURES = ("<!-- failures: python -m reports.field -->", "<!-- end of failures -->")
MOMENTUM = ("<!-- sghmc against sgld: python -m reports.field -->", "<!-- end of sghmc against sgld -->")
REPEATED = ("<!-- repeated: python -m reports.field -->", "<!-- end of repeated -->")
BEST = ("<!-- best: python -m reports.field -->", "<!-- end of best -->")
AGAIN = "repeated"
"""The family of the statements that repeat headlines."""
LOST = {"diverged": "a chain is not finite", "failed": "an error or a limit ended it"}
"""The fields of a leaderboard's record that count runs without a result, and why they have none."""
PAIR = ("sghmc", "sgld")
"""The two samplers whose comparisons docs/which-sampler.md shows on all targets, decided or not."""
COMPARED = ("sampler", "is", "another")
BY = {JOINT: ("factor of the joint error", "within 1.5"), "lppd": ("difference of lppd in nats", "within 0.02")}
"""The last column of decided statements, and what it has of equivalent ones, by metric."""
DECIDED = (OrderingVerdict.HOLDS, OrderingVerdict.FAILS, OrderingVerdict.EQUIVALENT)


def overview(boards: Sequence[Sequence[Mapping[str, Any]]]) -> Figure:
    """Return the picture of the study, times the best joint error by method and task, from the leaderboards' records
    of its parts.
    """
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for board in boards:
        rows = [r for r in _errors(board) if r["budget"] == BUDGET]
        for row in rows:
            best = min(other["mean"] for other in rows if other["task"] == row["task"] and other["rank"])
            factor = row["mean"] / best if row["rank"] else None
            cells[row["method"], row["task"]] = {"factor": factor, "verdict": row["verdict"]}
    kinds = {task: kind for kind, tasks in KINDS.items() for task in tasks}
    ordered = sorted(cells, key=lambda key: _position(key[1]))
    return figure(PICTURE, {key: cells[key] for key in ordered}, kinds)


def budgets(boards: Sequence[Sequence[Mapping[str, Any]]], tuned: Collection[tuple[str, str, str]]) -> Figure | None:
    """Return the picture of the joint error against data passes, of the methods that are ranked on a task at two
    budgets or more; None without one. `tuned` has the methods, tasks and budgets for which there are settings.
    """
    rows = [row for board in boards for row in _errors(board) if row["rank"]]
    passes: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        passes.setdefault((row["task"], row["budget"]), []).append(row["passes"])
    lines: dict[str, dict[str, list[BudgetPoint]]] = {}
    for row in rows:
        task, method, budget = row["task"], row["method"], row["budget"]
        point = BudgetPoint(median(passes[task, budget]), row["mean"], (method, task, budget) in tuned)
        lines.setdefault(task, {}).setdefault(method, []).append(point)
    several = {
        task: {
            method: sorted(points, key=lambda one: one.passes) for method, points in of_task.items() if len(points) > 1
        }
        for task, of_task in sorted(lines.items(), key=lambda pair: _position(pair[0]))
    }
    shown = {task: of_task for task, of_task in several.items() if of_task}
    return budgets_figure(BUDGETS_PICTURE, shown) if shown else None


def with_best(paper: str, boards: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """Return the study's paper with the best row of each target at `BUDGET`, of all and of those with stochastic
    gradients alone, and how far sgld is behind the former.
    """
    of_task: dict[str, list[Mapping[str, Any]]] = {}
    for one in (one for board in boards for one in board):
        if one["ranked_by"] and one["rank"] and one["budget"] == BUDGET:
            of_task.setdefault(one["task"], []).append(one)
    rows = []
    for task, of in sorted(of_task.items(), key=lambda pair: _position(pair[0])):
        first, *_ = ordered = sorted(of, key=lambda one: one["rank"])
        sgld = next(one["mean"] for one in of if one["method"] == "sgld")
        ratio = first["metric"] == JOINT
        verdicts = Counter(one["verdict"].split()[0] for one in of)
        rows.append({
            "task": task, "best": first["method"], "tied": verdicts["tied"], "not_known": verdicts["not"],
            "stochastic": next((one["method"] for one in ordered if not one["full_gradients"]), None),
            "behind": f"x{number(sgld / first['mean'])}" if ratio else f"{number(first['mean'] - sgld)} nats",
            "methods": len(of), "seeds": first["seeds"], "passes": first["passes"],
        })  # fmt: skip
    columns = [
        Column("task", "task"), Column("best", "best"), Column("stochastic", "best with stochastic gradients"),
        Column("behind", "sgld", "right"), Column("tied", "tied with the best", "right"),
        Column("not_known", "not known", "right"), Column("methods", "methods", "right"),
        Column("seeds", "seeds", "right"), Column("passes", "data passes", "right", number),
    ]  # fmt: skip
    return _between(*BEST, paper, [Table("", columns, rows)])


def with_budgets(page: str, boards: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """Return the page of results with the joint error of each method at other budgets over that at `quick`, by task."""
    rows_at = {(r["task"], r["method"], r["budget"]): r for board in boards for r in _errors(board) if r["rank"]}
    pairs = [
        (task, method, budget, row, rows_at[task, method, BUDGET])
        for (task, method, budget), row in rows_at.items()
        if budget != BUDGET and (task, method, BUDGET) in rows_at
    ]
    times: dict[tuple[str, str], list[float]] = {}
    for task, _, budget, row, at_quick in pairs:
        times.setdefault((task, budget), []).append(row["passes"] / at_quick["passes"])
    headers = {key: f"{key[0]} x{float(f'{median(ratios):.2g}'):g}" for key, ratios in times.items()}
    gained: dict[str, dict[str, float]] = {}
    for task, method, budget, row, at_quick in pairs:
        gained.setdefault(method, {})[headers[task, budget]] = row["mean"] / at_quick["mean"]
    names = [headers[key] for key in sorted(times, key=lambda key: (_position(key[0]), median(times[key])))]
    columns = [Column("method", "method"), *(Column(name, name, "right", number) for name in names)]
    rows = [{"method": method, **row} for method, row in gained.items()]
    return _between(*BUDGETS, page, [Table("", columns, rows)] if rows else [])


def with_failures(page: str, boards: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """Return the page of results with the rows of which runs diverged or chains failed."""
    rows = []
    for board in boards:
        chains = {_row(one): failed_chains(one) for one in board if one["metric"] == FAILED}
        rows += [
            {"method": one["method"], "task": one["task"], "passes": one["passes"],
             "runs": f"{lost} of {one['seeds']}" if (lost := sum(one[name] for name in LOST)) else "",
             "chains": chains.get(_row(one)), "value": one["mean"], "rank": one["rank"] or "-"}
            for one in board
            if one["ranked_by"] and (any(one[name] for name in LOST) or chains.get(_row(one)))
        ]  # fmt: skip
    rows.sort(key=lambda row: (_position(row["task"]), row["passes"], row["method"]))
    columns = [
        Column("method", "method"), Column("task", "task"), Column("passes", "data passes", "right", number),
        Column("runs", "runs lost", "right"), Column("chains", "failed chains", "right"),
        Column("value", "joint error or lppd", "right", number), Column("rank", "rank", "right"),
    ]  # fmt: skip
    return _between(*FAILURES, page, [Table("", columns, rows)])


def with_pair(guide: str, findings: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return docs/which-sampler.md with what the parts of the study, by suite, say of `PAIR` on each target."""
    rows = [
        {"task": one["task"], "part": suite.removeprefix("study-"), "of": _effect(one),
         "verdict": one["outcome"] or one["verdict"], "pairs": one["pairs"], "seeds": one["seeds_to_decide"]}
        for suite, of_suite in findings.items()
        for one in of_suite
        if one["finding"] == "ordering" and (one["better"], one["worse"]) == PAIR and one["effect"] is not None
        and one["metric"] in BY
    ]  # fmt: skip
    columns = [
        Column("task", "task"), Column("part", "part"), Column("of", " over ".join(PAIR), "right"),
        Column("verdict", "sghmc is"), Column("pairs", "seeds", "right"), Column("seeds", "seeds to decide", "right"),
    ]  # fmt: skip
    return _between(*MOMENTUM, guide, [Table("", columns, rows)])


def with_repeated(
    page: str, part: Mapping[str, Sequence[Mapping[str, Any]]], boards: Sequence[Sequence[Mapping[str, Any]]]
) -> str:
    """Return the page of results with the statements of the part that repeats headlines, beside what the other parts,
    whose leaderboards are given, have of them on the same protocols.
    """
    protocols = {(row["task"], row["protocol"]) for row in part["leaderboard"]}
    first = {(row["task"], row["method"]): row["mean"] for board in boards for row in _errors(board)
             if row["budget"] == BUDGET and (row["task"], row["protocol"]) in protocols}  # fmt: skip
    rows = []
    for one in part["findings"]:
        if one["finding"] != "ordering" or one["family"] != AGAIN or one["effect"] is None:
            continue
        task = one["task"].partition("@")[0]
        values = [first[task, one[side]] for side in ("better", "worse") if (task, one[side]) in first]
        rows.append({
            "task": task, "pair": f"{one['better']} over {one['worse']}",
            "before": values[0] / values[1] if len(values) == 2 else None, "again": _effect(one),
            "outcome": one["outcome"] or one["verdict"], "seeds": one["pairs"],
        })  # fmt: skip
    columns = [
        Column("task", "task"), Column("pair", "error of"), Column("before", "before", "right", number),
        Column("again", "again", "right"), Column("outcome", "the first is"), Column("seeds", "seeds", "right"),
    ]  # fmt: skip
    return _between(*REPEATED, page, [Table("", columns, sorted(rows, key=lambda row: _position(row["task"])))])


def _effect(one: Mapping[str, Any]) -> str:
    """Return the ratio or difference of a comparison with its interval."""
    unit = "" if one["scale"] == "ratio" else " nats"
    return f"{number(one['effect'])} [{number(one['low'])}, {number(one['high'])}]{unit}"


def _row(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return record["label"], record["task"], record["protocol"], record["budget"]


def _position(task: str) -> tuple[int, str]:
    """The position of a task in pictures and tables; one without a kind comes last."""
    return (IN_ORDER.index(task) if task in IN_ORDER else len(IN_ORDER), task)


def _errors(board: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the records of the joint error, where it ranks."""
    return [record for record in board if record["ranked_by"] and record["metric"] == JOINT]


def _between(begin: str, end: str, page: str, tables: Sequence[Table]) -> str:
    """Return a page with tables between two marks, or as it is where it has no such marks."""
    head, begins, rest = page.partition(begin)
    _, ends, tail = rest.partition(end)
    return f"{head}{begins}\n{render(Result(tables), 'markdown').strip()}\n{ends}{tail}" if ends else page


def with_results(guide: str, suite: str, findings: Sequence[Mapping[str, Any]]) -> str:
    """Return docs/which-sampler.md with tables of a suite between its marks: its leaders and decided statements, by
    the joint error, or by the log density of test rows.
    """
    for metric in BY:
        by = "" if metric == JOINT else f" by {metric}"
        of_metric = [one for one in findings if one.get("metric") == metric]
        decided = [
            {"task": one["task"], **_decided(one), "command": one["command"]}
            for one in of_metric
            if one["finding"] == "ordering" and one["verdict"] in DECIDED
        ]
        leaders = [
            {"task": one["task"], "leaders": ", ".join(one["leaders"]) or "none", "best": one["best"],
             "tied / worse / not known": f"{one['tied']} / {one['worse']} / {one['not_known']}",
             **_beside_sgld(one), "data passes": number(one["passes"]), "command": one["command"]}
            for one in of_metric
            if one["finding"] == "task"
        ]  # fmt: skip
        for what, rows in ((f"decided{by}", decided), (f"leaders{by}", leaders)):
            columns = [Column(name, name) for name in (rows[0] if rows else ())]
            marks = BEGIN.format(what=what, suite=suite), END.format(what=what)
            guide = _between(*marks, guide, [Table("", columns, rows)])
    return guide


def _beside_sgld(one: Mapping[str, Any]) -> dict[str, str]:
    """Return the value of the best row of a task, and how far sgld is from it."""
    if one["metric"] == JOINT:
        return {"its joint error": number(one["mean"]), "sgld / best": f"x{number(one['against_sgld'])}"}
    return {f"its {one['metric']}": number(one["mean"]), "best - sgld": number(one["against_sgld"])}


def _decided(one: Mapping[str, Any]) -> dict[str, str]:
    """Return which of two samplers is better and by how much at least, or that they are equivalent."""
    names, ratio = (one["better"], one["worse"]), one["metric"] == JOINT
    by, within = BY[one["metric"]]
    columns = (*COMPARED, by)
    if one["verdict"] == OrderingVerdict.EQUIVALENT:
        return dict(zip(columns, (names[0], "equivalent to", names[1], within), strict=True))
    turned = one["verdict"] == OrderingVerdict.FAILS
    better, than = names[::-1] if turned else names
    nearer = (one["nearer"] if turned else 1 / one["nearer"]) if ratio else abs(one["nearer"])
    return dict(zip(columns, (better, "better than", than, f"at least {number(nearer)}"), strict=True))
