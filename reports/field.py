"""The pages of published suites, docs/field.md with docs/field/*.md, and one for each other: `python -m reports.field`.

With a suite and its results folder (`python -m reports.field SUITE RESULTS`) it first writes the numbers of the runs to
docs/field/SUITE.json: records of the leaderboards and of the report `findings`, and a description of the runs. The
pages are made from that file alone. The curves of the runs, from which the joint error follows, are a hundred times as
large and are not published; the suite makes them again.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import load, registry
from harness.reports import Group, drawn, load_plugin, write_set
from reports.study import (
    BUDGETS_PICTURE,
    PAGE,
    PAPER,
    PICTURE,
    budgets,
    overview,
    with_best,
    with_budgets,
    with_failures,
    with_pair,
    with_repeated,
    with_results,
)
from reports.suite_pages import (
    APART,
    BESIDE,
    FIGURES,
    ONE_PAGE,
    PARTS,
    REPEATED,
    SUITES,
    from_json,
    pages,
    runs_of,
    tuned_for,
)

if TYPE_CHECKING:
    from harness.reports import Results

FOLDER = Path("docs/field")
LEFT_OUT = ("group", "steps", "measured", "remark", "verified", "untuned", "given", "set_by_user", "run_keys")
"""Fields of a leaderboard's record that are not published."""
QUERIES = {
    "runs": "select status, count(*) as runs, strftime(min(started), '%Y-%m-%d') as first, "
    "strftime(max(finished), '%Y-%m-%d') as last, sum(seconds_sampling) / 3600 as hours "
    "from result group by status order by status",
    "seeds": "select min(seed) as low, max(seed) as high, list(distinct chains order by chains) as chains from result",
    "machines": "select distinct bench, python, torch, cpu, cores, gpu, platform from environment order by all",
}
GUIDE = FOLDER.parent / "which-sampler.md"


def collect(results: Results, suite: str) -> dict[str, list[dict[str, Any]]]:
    """Return the numbers of results that the page shows, for JSON."""
    board = results.report("leaderboard").records
    shown = [
        {name: value for name, value in record.items() if name not in LEFT_OUT}
        for record in board
        if record["ranked_by"] or record["metric"] in BESIDE
    ]
    return {
        **{name: results.sql(query).to_dicts() for name, query in QUERIES.items()},
        "left_out": left_out(shown, suite),
        "leaderboard": _written(shown),
        "findings": _written(results.report("findings").records),
    }


def left_out(records: Sequence[Mapping[str, Any]], suite: str) -> list[dict[str, str]]:
    """Return the methods without a run on a task, among those with a run on another task, and why."""
    methods = {record["method"] for record in records}
    on: dict[str, set[str]] = {}
    for record in records:
        on.setdefault(record["task"], set()).add(record["method"])
    return [
        {"task": task, "method": method, "why": _why_not(method, task, suite)}
        for task, present in on.items()
        for method in sorted(methods - present)
    ]


def _why_not(method: str, task: str, suite: str) -> str:
    """Return what the task lacks, or else whether the study has settings."""
    sampler = load_plugin("samplers", registry().sampler(registry().method(method)).name)
    target = load_plugin("tasks", task)
    if missing := sorted(sampler.needs - target.provides):
        return f"needs {', '.join(missing)}"
    if target().dim() < sampler.least_dimension:
        return f"needs {sampler.least_dimension} dimensions"
    searched = {(one["method"], one["task"]) for one in tuned_for(suite) if one.get("search_version")}
    return "not run" if (method, task) in searched else "no tuned settings"


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


def without_laws(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the rows whose laws were not run; a nightly runs them when all its runs have ended."""
    return sorted({f"{r['label']} on {r['task']}" for r in records if r["ranked_by"] and r["laws"] == str(Group.laws)})


def _others(results: Results, suite: str) -> list[str]:
    """Return the tasks and budgets of results that a suite does not have: the page is of all runs in a folder."""
    asked = {(task.partition("@")[0], run.get("budget", "paper")) for run in runs_of(suite) for task in run["tasks"]}
    kept = {(row["task"], row["budget"]) for row in results.sql("select distinct task, budget from run").to_dicts()}
    return [f"{task} at {budget}" for task, budget in sorted(kept - asked)]


def _study(parts: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> None:
    """Write the pictures of the study, and what its page and the guide show of all its parts."""
    beside = {suite: part for suite, part in parts.items() if suite not in APART}
    boards = [part["leaderboard"] for part in beside.values()]
    with_settings = {(one["method"], one["task"], one["budget"]) for one in tuned_for("study-densities")}
    pictures = {PICTURE: overview(boards), BUDGETS_PICTURE: budgets(boards, with_settings)}
    write_set(FOLDER.parent, {f"{name}.svg": drawn(of, "svg")[0] for name, of in pictures.items() if of})
    if (page := FOLDER.parent / PAGE).is_file():
        text = with_failures(with_budgets(page.read_text(encoding="utf-8"), boards), boards)
        first = [part["leaderboard"] for suite, part in parts.items() if suite != REPEATED]
        text = with_repeated(text, parts[REPEATED], first) if REPEATED in parts else text
        write_set(FOLDER.parent, {PAGE: text.encode()})
    if (paper := FOLDER.parent / PAPER).is_file():
        write_set(FOLDER.parent, {PAPER: with_best(paper.read_text(encoding="utf-8"), boards).encode()})
    if GUIDE.is_file():
        findings = {suite: part["findings"] for suite, part in beside.items()}
        write_set(GUIDE.parent, {GUIDE.name: with_pair(GUIDE.read_text(encoding="utf-8"), findings).encode()})


def main(suite: str = "", results: str = "") -> None:
    """Write the numbers of a suite from its results folder, if one is given, and the pages of all that are there."""
    if suite and suite not in SUITES:
        sys.exit(f"{suite!r:.80} is not a published suite: {', '.join(SUITES)}")
    if results:
        FOLDER.mkdir(parents=True, exist_ok=True)
        of_suite = load(results)
        if others := _others(of_suite, suite):
            sys.exit(
                f"{results} has runs that {suite} does not ask for: {', '.join(others)}; give it a folder of its own"
            )
        numbers = collect(of_suite, suite)
        if rows := without_laws(numbers["leaderboard"]):
            sys.exit(
                f"the laws of {len(rows)} rows were not run, {rows[0]} the first: bench nightly {suite} has not ended "
                f"in {results}; run it again"
            )
        write_set(FOLDER, {f"{suite}.json": _lines(numbers).encode()})
    parts = {}
    for name in SUITES:
        if (file := FOLDER / f"{name}.json").is_file():
            kept = [figure for figure in FIGURES if name == "field" and (FOLDER / f"{figure}.svg").is_file()]
            numbers = json.loads(file.read_text(encoding="utf-8"))
            if name in PARTS:
                parts[name] = {kind: from_json(numbers[kind]) for kind in ("leaderboard", "findings")}
            texts = pages(numbers, name, kept)
            if name in ONE_PAGE and GUIDE.is_file():
                texts[GUIDE.name] = with_results(
                    GUIDE.read_text(encoding="utf-8"), name, from_json(numbers["findings"])
                )
            write_set(FOLDER.parent, {path: text.encode() for path, text in texts.items()})
    if parts.keys() - APART:
        _study(parts)


if __name__ == "__main__":
    main(*sys.argv[1:3])
