"""The pages of a published suite, from its collected numbers (`reports.field`)."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import Result
from harness.reports import Column, Estimate, Group, Table, number, render, with_interval
from reports.orderings import NOT_COMPARED, OrderingVerdict
from reports.tables import wide
from reports.tables.findings_tables import STATEMENTS, tables
from reports.tables.wide import COST, FAILED

SUITE_FILES, STUDIES = (Path(__file__).parents[1] / f"plugins/{name}" for name in ("nights/suites", "tuning"))
FIELD = """# Which samplers were best on {tasks} tasks

{earlier}{learned}

{table}

What these results cannot say:

- {seeds} A difference that these seeds do not show is not shown to be absent.
- Each sampler was tuned, but not all with the same number of trials, so a difference between two rows can be one of the
  search. The costs are in [field.json](field/field.json).
- On airfoil and energy every row starts where 200 data passes of Adam end, which are part of its budget.
- Seconds depend on what else the machine was doing. Data passes are exact.

| page | what it has |
|---|---|
{pages}

    bench --results field nightly field --out site     # run the suite; after an interruption it continues
    python -m reports.field field field                # write field.json and these pages

The commands in the tables need that results folder: `bench --results field report ...`.
"""
ORDERINGS = """# What papers say is better, tested

{learned}

The statements are those of papers that one sampler is better than another, in our words: some about accuracy at equal
cost, some about gradient noise on tasks that have it. Settings were tuned by one rule, an earlier one than that of
[tuning.md](tuning.md), at the budget that is shown, on 20 seeds of 8 chains, before verdicts on tasks with several
modes needed 30 seeds. Where [the study](study.md) has the same comparison, its verdict counts. A verdict is that of the
paired comparison, in the family of all declared statements
([verdicts.md](verdicts.md)). All numbers are in [orderings.json](field/orderings.json).

    bench --results orderings nightly orderings --out site    # run the suite; after an interruption it continues
    python -m reports.field orderings orderings               # write orderings.json and this page

The commands in the tables need the results folder: `bench --results orderings ...`.

"""
PART = """# The study: {title}

{learned}

Part of [the study](study.md), whose [design](study-design.md) has the questions, the rules and the cost. {rows}
{settings}
The seeds are [those of a season](nightly.md), which no search has used. All numbers are in
[{suite}.json](field/{suite}.json).

    bench --results {suite} nightly {suite} --out site  # run the suite; after an interruption it continues
    python -m reports.field {suite} {suite}  # write {suite}.json and this page

The commands in the tables need that results folder: `bench --results {suite} ...`.

"""
PARTS = {
    "study-densities": "densities with noisy gradients",
    "study-samplers": "every sampler on three densities, and 21 on a logistic regression",
    "study-regressions": "logistic regressions on minibatches",
    "study-small-batches": "a logistic regression with batches of a hundredth of the rows",
    "study-posteriordb": "a linear regression on minibatches",
    "study-hierarchical": "a hierarchical model",
    "study-simplex": "topics on simplexes",
    "study-networks": "predictions of a network",
    "study-more-networks": "predictions of a second network",
    "study-tiny-network": "the posterior of a small network",
    "study-repeated": "headlines, searched and run again",
    "study-longer": "densities at ten times the budget",
    "study-longest": "densities at a hundred times the budget",
}
"""The titles of the study's parts by suite. What a part runs is in the `summary` of the suite."""
SEARCHED = "Each pair was tuned by the rule of [tuning.md](tuning.md)."
SETTINGS_OF = {
    "study-longest": "No pair was searched: the settings are [those of ten times](study-longer.md#settings).",
    "study-repeated": "Each pair was searched again, by the rule of [tuning.md](tuning.md) on other seeds.",
}
"""What is said of the settings of the other parts."""
REPEATED = "study-repeated"
"""The part that repeats headlines."""
APART = {"study-samplers", "study-small-batches", REPEATED}
"""The parts that are not in the pictures of the others, which name a task alone: that of every sampler, that of another
protocol of blr-german, and that which repeats headlines."""
ONE_PAGE = ("orderings", *PARTS)
"""The published suites that have one page, SUITE.md."""
SUITES = ("field", *ONE_PAGE)
"""The published suites."""
EARLIER = (
    "**These rows were tuned under an earlier protocol and judged by earlier rules.** A row led if it was best or not "
    "significantly worse than the best, and significantly better than sgld and sghmc where those were not. Read the "
    "page for orders of magnitude: which samplers are far ahead on a kind of target, and which fail on it. An interval "
    "over five seeds often spans a factor of three, and smaller differences decide nothing. These rows are not "
    "compared with new ones. [The study](study.md) has a part of these targets with settings of the present rules and "
    "20 seeds or more, often under another protocol. On densities a noisy gradient cost here as much as an exact one, "
    "so mclmc and hmc, best on banana here, had a hundred times as many as there; on blr-german rows have 4,000 data "
    "passes here and 640 there. Where the study says something else, it counts.\n\n"
)
BESIDE = {
    COST: "data passes to low error: until a typical chain's error, in its own worst direction, stays below 0.01",
    "modes_covered": "modes covered: the mean of the runs; (all): as many in each",
    wide.SPREAD: "within-mode covariance ratio: the variance of draws within a mode over that of the target",
    "largest_bias2": "largest squared bias: in any direction; longer runs at the same constant step size keep it",
    FAILED: "failed chains: those with more than ten times the error of the row's median chain",
}
"""The metrics of a leaderboard that are shown beside the one that ranks, with what is said of them below the table."""
RANKED_BY = {
    "lppd": "lppd: the mean over test rows of the log of their density, averaged over all draws of the chains of a run"
}
"""What is said below a leaderboard of the metric that ranks it."""
RANKS = "rank: in brackets those that the tests allow; not known: neither tied with the best nor worse"
NOT_IN_FRONT = {"reference", "tied / worse / not known", "data passes", "seconds", "command"}
"""Columns of the leaders that the front page leaves out."""
KNOWN = ", which the people who chose the settings could have seen"
"""What is said of seeds that count from 0; those of a season are larger."""
OUTCOMES = {
    OrderingVerdict.HOLDS: ("holds", "hold"), OrderingVerdict.FAILS: ("fails", "fail"),
    OrderingVerdict.EQUIVALENT: ("is equivalent", "are equivalent"),
    OrderingVerdict.UNDECIDED: ("is undecided", "are undecided"),
}  # fmt: skip
"""What is said of one statement with a verdict, and of several."""
ASIDE = {OrderingVerdict.REFUSED: "refused by the rules", OrderingVerdict.NOT_RUN: "not run here"}
PAIR = ("method", "task", "protocol", "budget")
"""Fields by which a leaderboard's record and one of a study belong together."""
BACK = "[Conclusions, and what these results can say](../field.md)\n\n"
NAMED = 6
"""Samplers that the front page names."""
FIGURES = {
    "profile": "Share of tasks on which a sampler is within a factor of the best one",
    "pareto": "Cost and error of each sampler on each task",
}


def pages(numbers: Mapping[str, Any], suite: str = "field", figures: Sequence[str] = ()) -> dict[str, str]:
    """Return the pages of a suite for collected numbers, as Markdown by path below docs.

    `figures` are those of docs/field that exist.
    """
    findings = from_json(numbers["findings"])
    boards = _boards(from_json(numbers["leaderboard"]))
    tables_by_title = {table.title: table for table in tables(findings)}
    run = [_runs(numbers), _machines(numbers), _absent(numbers)]
    if suite in ONE_PAGE:
        statements = tables_by_title.pop(STATEMENTS, None)
        tested, rows = [statements] if statements else [], [*tables_by_title.values(), *(board for _, board in boards)]
        settings = [table for table in [_settings(numbers, suite)] if table.rows]
        shown = [*tested, *rows] if suite == "orderings" else [*rows, *settings, *tested]
        head = _head(suite, _statements(findings))
        return {f"{suite}.md": f"{head}{_markdown([*shown, *run]).rstrip()}\n"}
    by_task: dict[str, list[Table]] = {}
    for task, board in boards:
        by_task.setdefault(task, []).append(board)
    front, *across = [table for title, table in tables_by_title.items() if title != STATEMENTS]
    files = {f"field/{task}.md": f"# Results on {task}\n\n{BACK}{_markdown(of)}" for task, of in by_task.items()}
    drawn = [f"![{FIGURES[name]}]({name}.svg)\n\n    bench report {name}\n\n" for name in figures]
    files["field/samplers.md"] = "".join([f"# Samplers across tasks\n\n{BACK}", *drawn, _markdown(across)])
    files["field/runs.md"] = f"# What was run\n\n{BACK}{_markdown(run)}"
    names = {"field/samplers.md": "each sampler over all tasks, cost, baselines", "field/runs.md": "runs and machines"}
    of_tasks = ", ".join(f"[{task}](field/{task}.md)" for task in by_task)
    lines = [*(f"| [{path[6:]}]({path}) | {words} |" for path, words in names.items()), f"| {of_tasks} | all rows |"]
    earlier = any(one["rank"] and not one.get("verdict") for one in numbers["leaderboard"])
    (seeds,) = [
        f"Seeds {row['low']} to {row['high']}: {row['high'] - row['low'] + 1} a row." for row in numbers["seeds"]
    ]
    files["field.md"] = FIELD.format(
        tasks=len({one["task"] for one in findings if one["finding"] == "task"}), earlier=EARLIER if earlier else "",
        learned=_leaders(findings), table=_markdown([_narrow(front)]).strip(), seeds=seeds, pages="\n".join(lines),
    )  # fmt: skip
    return {path: text.rstrip() + "\n" for path, text in files.items()}


def _head(suite: str, learned: str) -> str:
    """Return the beginning of the page of a suite that has one page."""
    if suite not in PARTS:
        return ORDERINGS.format(learned=learned)
    rows, settings = _read(suite)["summary"], SETTINGS_OF.get(suite, SEARCHED)
    return PART.format(suite=suite, title=PARTS[suite], learned=learned, rows=rows, settings=settings)


def _narrow(table: Table) -> Table:
    columns = [column for column in table.columns if column.key not in NOT_IN_FRONT]
    return replace(table, columns=columns, notes=[note for note in table.notes if not note.startswith("tied with")])


def _leaders(findings: Sequence[Mapping[str, Any]]) -> str:
    """Return which samplers lead on most tasks and where none does, in sentences."""
    led = sorted(
        (one for one in findings if one["finding"] == "sampler" and one["leads"]), key=lambda one: -one["leads"]
    )
    most = ", ".join(f"{one['method']} ({one['leads']} of {one['decided']})" for one in led[:NAMED])
    undecided = [one["task"] for one in findings if one["finding"] == "task" and not one["leaders"]]
    none = f" On {', '.join(undecided)} no sampler leads." if undecided else ""
    return f"The samplers that lead on the most tasks: {most or 'none'}.{none}"


def _statements(findings: Sequence[Mapping[str, Any]]) -> str:
    """Return how many statements were tested, with which outcomes, in a sentence."""
    orderings = [one for one in findings if one["finding"] == "ordering"]
    counts, sizes = (Counter(one.get(name, "") for one in orderings) for name in ("verdict", "family"))
    tested = sum(n for verdict, n in counts.items() if verdict not in NOT_COMPARED)
    said = ", ".join(f"{n} {one if n == 1 else more}" for verdict, (one, more) in OUTCOMES.items()
                     if (n := counts[verdict]))  # fmt: skip
    others = ", ".join(f"{n} {'was' if n == 1 else 'were'} {words}" for verdict, words in ASIDE.items()
                       if (n := counts[verdict]))  # fmt: skip
    family = f"Intervals hold for all {' and for all '.join(map(str, sizes.values()))} declared statements at once."
    aside = f"{others}. " if others else ""
    return f"**Of {tested} declared statements that were tested at our settings, {said}.** {aside}{family}"


def _markdown(shown: Sequence[Table]) -> str:
    return render(Result(shown), "markdown").rstrip() + "\n\n"


def runs_of(suite: str) -> list[dict[str, Any]]:
    """Return the runs that a suite of the project asks for, as its file has them."""
    return _read(suite)["run"]


def _read(suite: str) -> dict[str, Any]:
    return tomllib.loads((SUITE_FILES / f"{suite}.toml").read_text(encoding="utf-8"))


def records_of(study: str) -> list[dict[str, Any]]:
    """Return the records of a study of tuned settings that comes with the project."""
    return json.loads((STUDIES / f"{study}.json").read_text(encoding="utf-8"))["tuned"]


def tuned_for(suite: str) -> list[dict[str, Any]]:
    """Return the records of the studies whose settings a suite uses."""
    used = {run["study"] for run in runs_of(suite) if "study" in run}
    return [one for study in sorted(used) for one in records_of(study)]


def _settings(numbers: Mapping[str, Any], suite: str) -> Table:
    """Return the tuned settings of the rows of a leaderboard, and what their search gained on its own seeds."""
    tuned = {tuple(one.get(name) for name in PAIR): one for one in tuned_for(suite)}
    rows = [
        {**record, **{name: tuned[key][name] for name in ("value_untuned", "value_search")},
         "settings": ", ".join(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
                               for name, value in tuned[key]["settings"].items())}
        for record in numbers["leaderboard"]
        if record["ranked_by"] and record["tuned"] and (key := tuple(record[name] for name in PAIR)) in tuned
    ]  # fmt: skip
    columns = [
        *(Column(name, name) for name in ("task", "method", "settings")),
        Column("value_untuned", "without a search", "right", number),
        Column("value_search", "at these", "right", number),
    ]
    about = "the metric that ranks, at both: on the seeds of the search, of which the best of many trials is chosen"
    empty = any(row["value_untuned"] is None for row in rows)
    lost = ["empty: no run at default settings has a value"] if empty else []
    studies = sorted({str(run["study"]) for run in runs_of(suite) if "study" in run})
    used = " and ".join(f"`--settings {study}`" for study in studies)
    return Table("Settings", columns, rows, [f"{used} uses them; the others are defaults", about, *lost])


def _runs(numbers: Mapping[str, Any]) -> Table:
    names = {"status": "status", "runs": "runs", "first": "first started", "last": "last finished", "hours": "hours"}
    columns = [Column(key, header, "left" if key == "status" else "right") for key, header in names.items()]
    rows = [{**row, "hours": number(row["hours"]) if row["hours"] is not None else None} for row in numbers["runs"]]
    about = [
        f"seeds {row['low']} to {row['high']}{KNOWN if row['low'] == 0 else ''}; "
        f"{' or '.join(map(str, row['chains']))} chains a run"
        for row in numbers["seeds"]
    ]
    return Table("Runs", columns, rows, [*about, "hours: time spent sampling, summed over runs"])


def _machines(numbers: Mapping[str, Any]) -> Table:
    names = ("bench", "python", "torch", "cpu", "cores", "gpu", "platform")
    rows = numbers["machines"]
    return Table("Machines", [Column(name, name) for name in names if any(row[name] for row in rows)], rows)


def _absent(numbers: Mapping[str, Any]) -> Table:
    """Return a table of methods without a run on some tasks; those with the same tasks and reason share a row."""
    tasks: dict[tuple[str, str], list[str]] = {}
    for record in numbers["left_out"]:
        tasks.setdefault((record["method"], record["why"]), []).append(record["task"])
    methods: dict[tuple[str, str], list[str]] = {}
    for (method, why), on in tasks.items():
        methods.setdefault((why, ", ".join(on)), []).append(method)
    rows = [{"methods": ", ".join(names), "why": why, "tasks": on} for (why, on), names in sorted(methods.items())]
    columns = [Column(name, name) for name in ("methods", "why", "tasks")]
    notes = ["needs X: the sampler needs X, which the task lacks", "no tuned settings: the study has none"]
    return Table("Methods that were not run", columns, rows, notes)


def _boards(records: Sequence[Mapping[str, Any]]) -> list[tuple[str, Table]]:
    """Return (task, table) for each field: rows in the order of rank, with the data passes to low error."""
    fields: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for record in records:
        names = ("task", "task_version", "protocol", "chains", "budget")
        fields.setdefault(tuple(record[name] for name in names), []).append(record)
    return [(key[0], _board(rows)) for key, rows in fields.items()]


def _board(records: Sequence[Mapping[str, Any]]) -> Table:
    beside = {
        metric: {record["label"]: record for record in records if record["metric"] == metric} for metric in BESIDE
    }
    others = {
        metric: by_label for metric, by_label in beside.items()
        if by_label and (metric != FAILED or any(record["mean"] for record in by_label.values()))
    }  # fmt: skip
    ranked = [record for record in records if record["ranked_by"]]
    first = ranked[0]
    columns = [
        Column("rank", "rank", "right"), *([Column("verdict", "verdict")] if first.get("verdict") else []),
        Column("label", "method"),
        Column("value", wide.header(first["metric"]), "right"),
        *(Column(metric, wide.header(metric), "right") for metric in others),
        Column("passes", "data passes", "right", number), Column("seconds", "seconds", "right", number),
        Column("status", "status"),
    ]  # fmt: skip
    rows = [
        {**record, "rank": wide.rank_text(record["rank"], record["rank_low"], record["rank_high"]),
         "verdict": _verdict(record), "value": _value(record),
         **{metric: _value(by_label.get(record["label"])) for metric, by_label in others.items()},
         "status": record["status"].partition(":")[0]}
        for record in ranked
    ]  # fmt: skip
    title = f"{first['task']}@{first['protocol']}, {first['budget']} budget, {first['chains']} chains"
    shown = f"bench report leaderboard --task {first['task']}@{first['protocol']}"
    not_run = str(Group.laws)
    unknown = [record["label"] for record in ranked if record.get("laws", not_run) == not_run]
    of = "" if len(unknown) == len(ranked) else f", of {', '.join(unknown)}"
    by = [RANKED_BY[first["metric"]]] if first["metric"] in RANKED_BY else []
    about = [shown, RANKS, *by, *(BESIDE[metric] for metric in others)]
    return Table(title, columns, rows, [*about, *([f"laws: {not_run}{of}"] if unknown else [])])


def _verdict(record: Mapping[str, Any]) -> str:
    """Return a verdict for people, with how many seeds would decide if it is not known."""
    needed = record.get("seeds_to_decide") or 0
    return f"{record['verdict']} ({needed:,} seeds)" if needed > record["seeds"] else record.get("verdict") or "-"


def _value(record: Mapping[str, Any] | None) -> str:
    if record is None:
        return "-"
    if record["metric"] == FAILED:
        return failed_chains(record) or "0"
    names = ("metric", "metric_version", "unit", "direction", "target", "mean", "low", "high", "interval")
    limit = record["passes"] if record["metric"] == COST else None  # an infinite cost is above this number
    return with_interval(Estimate(*(record[name] for name in names)), limit)


def failed_chains(record: Mapping[str, Any]) -> str:
    """Return the number of failed chains of a row, "2 of 40", from its record of their share; "" if there are none."""
    chains = record["chains"] * record["seeds"]
    return f"{record['mean'] * chains:.0f} of {chains}" if record["mean"] else ""


def from_json(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return records that were read from JSON, with the infinite numbers for which a text stands there."""
    return [{k: float(v) if v in ("inf", "-inf") else v for k, v in record.items()} for record in records]
