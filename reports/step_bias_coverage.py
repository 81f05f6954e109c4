"""How often the interval of an estimated bias holds the true bias: `python -m reports.step_bias_coverage RESULTS`.

The report `step-bias` sets the errors of other seeds beside its estimates. This counts how often the two agree in a
results folder, and writes docs/field/step-bias.json and the tables of docs/step-bias.md, which has the commands that
make the runs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import Result, load
from harness.reports import Column, Table, render, write_set
from reports.step_bias import with_ends
from reports.tables.step_bias import MEAN_VARIANCE

SAVED = Path("docs/field/step-bias.json")
PAGE = Path("docs/step-bias.md")
BEGIN, END = "<!-- coverage: python -m reports.step_bias_coverage -->", "<!-- end of coverage -->"
KEPT = (
    "task", "protocol", "method", "label", "substeps", "bias", "bias_low", "bias_high", "true", "true_low", "true_high",
    "covers",
)  # fmt: skip

ENERGY, STATED = "energies of minibatches", "stated with gradient noise"
STAYS = {"contour-sgld": ENERGY, "resgld": ENERGY, "samadams": STATED}
"""Samplers with a bias by gradient noise that stays as h -> 0, and how that is known.

The law noisy-scaling of `bench check` leaves out samplers that go by the energy of the minibatch, and measures what
others state; the estimate sees neither. All tasks of the page have gradient noise.
"""


def kept(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what is published of the records of the report `step-bias`: a record for each pair and step size.

    It has the estimate of `MEAN_VARIANCE`, and how many of its functions there are and are covered.
    """
    known = [record for record in records if record["covers"] is not None]
    pairs: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for record in known:
        pairs.setdefault((record["task"], record["protocol"], record["label"]), []).append(record)
    return [
        {name: record[name] for name in KEPT}
        | {"functions": len(of), "covered": sum(one["covers"] for one in of)}
        for of in pairs.values() for record in of if record["function"] == MEAN_VARIANCE
    ]  # fmt: skip


def tables(pairs: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Return the share of intervals that cover by task, and the pairs whose interval does not.

    Pairs with a bias that stays as h -> 0 have a row of their own after the others.
    """
    falling, staying = ([pair for pair in pairs if (pair["method"] in STAYS) == stays] for stays in (False, True))
    tasks = dict.fromkeys(pair["task"] for pair in falling)
    rows = [_shares(task, [pair for pair in falling if pair["task"] == task]) for task in tasks]
    rows += [_shares("all", falling), _shares("all, of samplers with a bias that stays", staying)]
    outside = [
        {"task": pair["task"], "label": pair["label"], "stays": STAYS.get(pair["method"], "-"),
         **{name: with_ends(pair[name], pair[f"{name}_low"], pair[f"{name}_high"]) for name in ("bias", "true")}}
        for pair in (*falling, *staying) if not pair["covers"]
    ]  # fmt: skip
    shares = [
        Column("task", "task"), Column("h", "at h", "right"), Column("half", "at h/2", "right"),
        Column("both", "together", "right"), Column("all", "all functions", "right"),
    ]  # fmt: skip
    others = [
        Column("task", "task"), Column("label", "method"), Column("bias", "estimated bias", "right"),
        Column("true", "error of other seeds", "right"), Column("stays", "a bias that stays"),
    ]  # fmt: skip
    return [Table("", shares, rows), Table("", others, outside)]


def _shares(task: str, pairs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    halved, whole = ([pair for pair in pairs if (pair["substeps"] == 2) == half] for half in (True, False))
    groups = {"h": whole, "half": halved, "both": pairs}
    counts = {name: (sum(pair["covers"] for pair in of), len(of)) for name, of in groups.items()}
    counts["all"] = (sum(pair["covered"] for pair in pairs), sum(pair["functions"] for pair in pairs))
    return {"task": task} | {name: f"{covered} of {count}" for name, (covered, count) in counts.items()}


def with_tables(page: str, records: Sequence[Mapping[str, Any]]) -> str:
    """Return docs/step-bias.md with the tables between its marks."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    covering, outside = (render(Result([table]), "markdown").strip() for table in tables(records))
    between = f"Pairs whose interval does not hold the error of the other seeds:\n\n{outside}"
    return f"{head}{begin}\n{covering}\n\n{between}\n{end}{tail}"


def main(results: str) -> None:
    """Write the numbers of a results folder, and the page."""
    records = kept(load(results).report("step-bias").records)
    page = with_tables(PAGE.read_text(encoding="utf-8"), records)
    text = "[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n"
    write_set(PAGE.parent, {PAGE.name: page.encode(), f"field/{SAVED.name}": text.encode()})


if __name__ == "__main__":
    main(sys.argv[1])
