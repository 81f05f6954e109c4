"""The pages docs/field.md and docs/orderings.md of two suites: `python -m reports.field [SUITE RESULTS]`.

With a suite and its results folder it first writes the numbers of the runs to docs/field/SUITE.json: records of the
leaderboards and of the report `findings`, and a description of the runs. The page is made from that file alone. The
curves of the runs, from which the joint error follows, are a hundred times as large and are not published; the suite
makes them again.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import Result, load, registry
from harness.reports import Column, Estimate, Group, Table, load_plugin, number, render, with_interval, write_set
from harness.tasks import REFERENCES
from reports.tables import wide
from reports.tables.findings_tables import STATEMENTS, tables
from reports.tables.leaderboard import COST

if TYPE_CHECKING:
    from harness.reports import Results

FOLDER = Path("docs/field")
STUDY = Path(__file__).parents[1] / "plugins/tuning/tuned.json"
LEFT_OUT = ("group", "steps", "measured", "remark", "verified", "untuned", "given", "set_by_user", "run_keys")
"""Fields of a leaderboard's record that are not published."""
QUERIES = {
    "runs": "select status, count(*) as runs, strftime(min(started), '%Y-%m-%d') as first, "
    "strftime(max(finished), '%Y-%m-%d') as last, sum(seconds_sampling) / 3600 as hours "
    "from result group by status order by status",
    "seeds": "select min(seed) as low, max(seed) as high, list(distinct chains order by chains) as chains from result",
    "machines": "select distinct bench, python, torch, cpu, cores, gpu, platform from environment order by all",
}
FIELD = """# Field

This page has the results of the suite [`field`](../plugins/nights/suites/field.toml): samplers, methods and baselines
with tuned settings (`plugins/tuning/tuned.json`) on small tasks. All numbers are in [field.json](field/field.json).

    bench --results field nightly field --out site     # run the suite; after an interruption it continues
    python -m reports.field field field                # write field.json and this page

These rows were judged by the rules of their time. Now a verdict on a task with several modes needs 30 seeds, and a
sampler *leads* if it is significantly better than the median of six samplers ([verdicts.md](verdicts.md),
[reports.md](reports.md)). In the tables it leads if it is best or tied with the best, and significantly better than
those of sgld and sghmc that are neither; one that diverged on all seeds counts as beaten. If the truth is known, its
joint error must also be below 1, the error of a single exact draw. A task without a leader decides nothing.

On airfoil and energy all samplers and baselines start where 200 data passes of Adam end; its gradients are part of the
budget. The study states the number of tuning trials of each sampler on each task; they are not all equal, so a
difference between two rows can be a difference of the search.

The commands in the tables need the results folder: `bench --results field report ...`. Seconds depend on what else the
machine was doing and give the order of magnitude; data passes are exact.

"""
ORDERINGS = """# What papers say is better, tested

Published statements that one sampler is better than another, where an earlier version of [field.md](field.md) compared
a tuned schedule with a fixed one, and others about gradient noise on tasks that have some; and the samplers of the
README's first command. All settings were tuned by one rule ([tuning.md](tuning.md)), at the budget that is shown; each
row has 20 seeds of 8 chains, and was judged before verdicts on tasks with several modes needed 30 seeds. The verdict is
that of the paired comparison, in the family of all declared statements ([verdicts.md](verdicts.md)). All numbers are in
[orderings.json](field/orderings.json).

    bench --results orderings nightly orderings --out site    # run the suite; after an interruption it continues
    python -m reports.field orderings orderings               # write orderings.json and this page

The commands in the tables need the results folder: `bench --results orderings ...`.

"""
HEADS = {"field": FIELD, "orderings": ORDERINGS}
"""The published suites, and how their pages begin."""
EARLIER = (
    "These rows were tuned under the earlier protocol and judged by the earlier rules (a leader was a row that was not "
    "significantly worse than the best, Holm's method over the orderings); they are not compared with new ones.\n\n"
)
KNOWN = ", which whoever chose the settings could know"
"""What is said of seeds that count from 0; those of a season are larger."""
FIGURES = {
    "profile": "Share of tasks on which a sampler is within a factor of the best one",
    "pareto": "Cost and error of each sampler on each task",
}


def collect(results: Results) -> dict[str, list[dict[str, Any]]]:
    """Return the numbers of results that the page shows, for JSON."""
    board = results.report("leaderboard").records
    shown = [
        {name: value for name, value in record.items() if name not in LEFT_OUT}
        for record in board
        if record["ranked_by"] or record["metric"] == COST
    ]
    return {
        **{name: results.sql(query).to_dicts() for name, query in QUERIES.items()},
        "left_out": left_out(shown),
        "leaderboard": _written(shown),
        "findings": _written(results.report("findings").records),
    }


def left_out(records: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the methods without a run on a task, among those with a run on another task, and why."""
    methods = {record["method"] for record in records}
    on: dict[str, set[str]] = {}
    for record in records:
        on.setdefault(record["task"], set()).add(record["method"])
    return [
        {"task": task, "method": method, "why": _why_not(method, task)}
        for task, present in on.items()
        for method in sorted(methods - present)
    ]


def _why_not(method: str, task: str) -> str:
    """Return what the task lacks, or else whether the study has settings."""
    sampler = load_plugin("samplers", registry().method(method).info.sampler)
    target = load_plugin("tasks", task)
    if missing := sorted(sampler.needs - target.provides):
        return f"needs {', '.join(missing)}"
    if target().dim() < sampler.least_dimension:
        return f"needs {sampler.least_dimension} dimensions"
    tuned = json.loads(STUDY.read_text(encoding="utf-8"))["tuned"]
    return "not run" if (method, task) in {(one["method"], one["task"]) for one in tuned} else "no tuned settings"


def page(numbers: Mapping[str, Any], suite: str = "field", figures: Sequence[str] = ()) -> str:
    """Return the page of a suite for collected numbers, as Markdown; `figures` are those of docs/field that exist."""
    findings = _read(numbers["findings"])
    reference = {record["task"]: record["reference"] for record in findings if record["finding"] == "task"}
    records = _read(numbers["leaderboard"])
    boards = _boards(records)
    parts = [HEADS[suite], EARLIER if any(one["rank"] and not one.get("verdict") for one in records) else ""]
    run = ["## What was run\n\n", _markdown([_runs(numbers), _machines(numbers), _absent(numbers)])]
    learned = tables(findings)
    if suite == "field":
        parts += [*run, "## What we learned\n\n", _markdown(learned)]
    else:
        parts += ["## The statements\n\n", _markdown(sorted(learned, key=lambda table: table.title != STATEMENTS))]
    for name in REFERENCES:
        if shown := [table for task, table in boards if reference.get(task, "none") == name]:
            parts += [f"## Leaderboards, reference: {name}\n\n{REFERENCES[name]}.\n\n", _markdown(shown)]
    for name in figures:
        command = f"bench --results field report {name} --out docs/field/{name}.svg"
        parts.append(f"## {FIGURES[name]}\n\n![{FIGURES[name]}](field/{name}.svg)\n\n    {command}\n\n")
    parts += [] if suite == "field" else run
    return "".join(parts).rstrip() + "\n"


def _markdown(shown: Sequence[Table]) -> str:
    return render(Result(shown), "markdown").rstrip() + "\n\n"


def _runs(numbers: Mapping[str, Any]) -> Table:
    names = {"status": "status", "runs": "runs", "first": "first started", "last": "last finished", "hours": "hours"}
    columns = [Column(key, header, "left" if key == "status" else "right") for key, header in names.items()]
    rows = [{**row, "hours": number(row["hours"]) if row["hours"] is not None else None} for row in numbers["runs"]]
    about = [
        f"seeds {row['low']} to {row['high']}{KNOWN if row['low'] == 0 else ''}; "
        f"{' or '.join(map(str, row['chains']))} chains a run"
        for row in numbers["seeds"]
    ]
    return Table("Runs", columns, rows, [*about, "hours: of sampling, summed over runs"])


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
    notes = ["needs: what the task does not provide", "no tuned settings: the study has none"]
    return Table("Methods that were not run", columns, rows, notes)


def _boards(records: Sequence[Mapping[str, Any]]) -> list[tuple[str, Table]]:
    """Return (task, table) for each field: rows in the order of rank, with the data passes to low error."""
    fields: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for record in records:
        names = ("task", "task_version", "protocol", "chains", "budget")
        fields.setdefault(tuple(record[name] for name in names), []).append(record)
    return [(key[0], _board(rows)) for key, rows in fields.items()]


def _board(records: Sequence[Mapping[str, Any]]) -> Table:
    cost = {record["label"]: record for record in records if record["metric"] == COST}
    ranked = [record for record in records if record["ranked_by"]]
    first = ranked[0]
    columns = [
        Column("rank", "rank", "right"), *([Column("verdict", "verdict")] if first.get("verdict") else []),
        Column("label", "method"),
        Column("value", wide.header(first["metric"]), "right"),
        *([Column("cost", wide.header(COST), "right")] if cost else []),
        Column("passes", "data passes", "right", number), Column("seconds", "seconds", "right", number),
        Column("status", "status"),
    ]  # fmt: skip
    rows = [
        {**record, "rank": wide.rank_text(record["rank"], record["rank_low"], record["rank_high"]),
         "verdict": wide.verdict_text(record.get("verdict"), record.get("seeds_to_decide")),
         "value": _value(record), "cost": _value(cost.get(record["label"])),
         "status": record["status"].partition(":")[0]}
        for record in ranked
    ]  # fmt: skip
    title = f"{first['task']}@{first['protocol']}, {first['budget']} budget, {first['chains']} chains"
    shown = f"bench report leaderboard --task {first['task']}@{first['protocol']}"
    unknown = [record["label"] for record in ranked if record.get("laws", Group.laws) == Group.laws]
    of = "" if len(unknown) == len(ranked) else f", of {', '.join(unknown)}"
    return Table(title, columns, rows, [shown, *([f"laws: {Group.laws}{of}"] if unknown else [])])


def _value(record: Mapping[str, Any] | None) -> str:
    if record is None:
        return "-"
    names = ("metric", "metric_version", "unit", "direction", "target", "mean", "low", "high", "interval")
    limit = record["passes"] if record["metric"] == COST else None  # an infinite cost is above this number
    return with_interval(Estimate(*(record[name] for name in names)), limit)


def _written(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return records for JSON, which has no infinity: the text "inf" stands for it."""
    return [
        {name: str(v) if isinstance(v, float) and math.isinf(v) else v for name, v in record.items()}
        for record in records
    ]


def _lines(numbers: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return JSON with one record per line."""
    lists = {name: ",\n".join(json.dumps(r, allow_nan=False) for r in records) for name, records in numbers.items()}
    return "{\n" + ",\n".join(f'"{name}": [\n{text}\n]' for name, text in lists.items()) + "\n}\n"


def _read(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{k: float(v) if v in ("inf", "-inf") else v for k, v in record.items()} for record in records]


def main(suite: str = "", results: str = "") -> None:
    """Write the numbers of a suite from its results folder, if one is given, and the pages of all that are there."""
    if suite and suite not in HEADS:
        sys.exit(f"{suite!r:.80} is not a published suite: {', '.join(HEADS)}")
    if results:
        FOLDER.mkdir(parents=True, exist_ok=True)
        write_set(FOLDER, {f"{suite}.json": _lines(collect(load(results))).encode()})
    for name in HEADS:
        if (file := FOLDER / f"{name}.json").is_file():
            drawn = [figure for figure in FIGURES if name == "field" and (FOLDER / f"{figure}.svg").is_file()]
            text = page(json.loads(file.read_text(encoding="utf-8")), name, drawn)
            write_set(FOLDER.parent, {f"{name}.md": text.encode()})


if __name__ == "__main__":
    main(*sys.argv[1:3])
