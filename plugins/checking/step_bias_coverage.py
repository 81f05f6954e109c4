"""How often the interval of an estimated bias holds the true bias, on tasks with a truth.

On tasks with a truth the bias of a sampler at a step size is known: the error of long runs. The report `step-bias`
estimates it from five seeds at h, h/2 and h/4, and here also at h/2, h/4 and h/8, and sets the errors of 20 other seeds
beside it. This makes the runs, of every sampler whose limit as h -> 0 is the target, those that are missing in RESULTS
alone, and writes docs/field/step-bias.json and the tables of docs/step-bias.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import Bench, BenchError, Result, registry
from harness.reports import Column, Table, load_plugin, number, render, write_set
from plugins.checking.sampler_law import law_of

TASKS = ("gaussian2d", "bimodal1d")
"""Tasks with a truth whose quick runs are much longer than the dynamics need to forget their start."""
COMMON: Mapping[str, Any] = {"chains": 8, "budget": "quick", "study": "one-setting"}
ESTIMATE: Mapping[str, Any] = {"seeds": range(5), "sweep": {"run.substeps": [1, 2, 4, 8]}}
TRUE: Mapping[str, Any] = {"seeds": range(100, 120), "sweep": {"run.substeps": [1, 2]}}
MAIN = "variance, mean"
"""The function that decides for a pair: the mean of z^2 over the coordinates, less 1."""
SAVED = Path("docs/field/step-bias.json")
PAGE = Path("docs/step-bias.md")
BEGIN, END = "<!-- coverage: python -m plugins.checking.step_bias_coverage -->", "<!-- end of coverage -->"
KEPT = (
    "task",
    "protocol",
    "method",
    "label",
    "bias",
    "bias_low",
    "bias_high",
    "true",
    "true_low",
    "true_high",
    "covers",
)


def unbiased() -> list[str]:
    """Return the samplers whose law as h -> 0, adaptation included, is that of N(0, 1) at T = 1; no baselines."""
    every = {name: load_plugin("samplers", name)() for name in registry().names("samplers")}
    rated = [name for name in every if not registry().find("samplers", name).info.baseline]
    return [name for name in rated if every[name].limit_bias() == 1 == law_of(every[name]).variance(every[name])]


def make(bench: Bench, task: str) -> None:
    """Make the runs of a task that are missing: of each sampler that can run on it."""
    able = []
    for name in unbiased():
        try:
            bench.plan(name, task, **COMMON, **ESTIMATE)
        except BenchError as error:
            sys.stderr.write(f"{task}: {name} is left out: {error}\n")
        else:
            able.append(name)
    for seeds in (ESTIMATE, TRUE):
        bench.run(able, task, **COMMON, **seeds)


def kept(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what is published of the records of the report `step-bias`: a record for each pair and step size.

    It has the estimate of `MAIN`, and how many of its functions there are and are covered.
    """
    known = [record for record in records if record["covers"] is not None]
    pairs: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for record in known:
        pairs.setdefault((record["task"], record["protocol"], record["label"]), []).append(record)
    return [
        {name: record[name] for name in KEPT}
        | {"functions": len(of), "covered": sum(one["covers"] for one in of)}
        for of in pairs.values() for record in of if record["function"] == MAIN
    ]  # fmt: skip


def tables(pairs: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Return the share of intervals that cover by task, and the pairs whose interval does not."""
    tasks = dict.fromkeys(pair["task"] for pair in pairs)
    rows = [_shares(task, [pair for pair in pairs if pair["task"] == task]) for task in tasks]
    rows.append(_shares("all", pairs))
    outside = [
        {"task": pair["task"], "label": pair["label"],
         **{name: f"{number(pair[name])} [{number(pair[f'{name}_low'])}, {number(pair[f'{name}_high'])}]"
            for name in ("bias", "true")}}
        for pair in pairs if not pair["covers"]
    ]  # fmt: skip
    shares = [
        Column("task", "task"), Column("h", "at h", "right"), Column("half", "at h/2", "right"),
        Column("all", "all functions", "right"),
    ]  # fmt: skip
    others = [
        Column("task", "task"), Column("label", "method"), Column("bias", "estimated bias", "right"),
        Column("true", "error of other seeds", "right"),
    ]  # fmt: skip
    return [Table("", shares, rows), Table("", others, outside)]


def _shares(task: str, pairs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    halved = [pair for pair in pairs if pair["label"].endswith(", h/2")]
    whole = [pair for pair in pairs if pair not in halved]
    counts = {name: (sum(pair["covers"] for pair in of), len(of)) for name, of in (("h", whole), ("half", halved))}
    counts["all"] = (sum(pair["covered"] for pair in pairs), sum(pair["functions"] for pair in pairs))
    return {"task": task} | {name: f"{covered} of {count}" for name, (covered, count) in counts.items()}


def with_tables(page: str, records: Sequence[Mapping[str, Any]]) -> str:
    """Return docs/step-bias.md with the tables between its marks."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    covering, outside = (render(Result([table]), "markdown").strip() for table in tables(records))
    between = f"Pairs whose interval does not hold the error of the other seeds:\n\n{outside}"
    return f"{head}{begin}\n{covering}\n\n{between}\n{end}{tail}"


def main(results: str, *tasks: str) -> None:
    """Make the missing runs of tasks, of all by default; write the numbers of all runs there, and the page."""
    bench = Bench(results)
    for task in tasks or TASKS:
        make(bench, task)
    records = kept(bench.report("step-bias").records)
    page = with_tables(PAGE.read_text(encoding="utf-8"), records)
    text = "[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n"
    write_set(PAGE.parent, {PAGE.name: page.encode(), f"field/{SAVED.name}": text.encode()})


if __name__ == "__main__":
    main(*sys.argv[1:])
