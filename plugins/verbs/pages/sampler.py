"""The page of a sampler."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.reporting.rendering.markdown import prose
from plugins.verbs.pages.facts import TERMS, no_conversions, no_curve
from plugins.verbs.pages.words import Ready, cell, table

Record = Mapping[str, Any]

HYPERPARAMETERS = {
    "name": "name", "default": "default", "allowed": "range", "meaning": "meaning", "source": "source of the default",
}  # fmt: skip
STATE = {"entry": "entry", "shape": "shape", "type": "numbers", "adaptive": "adaptive"}
CONVERSIONS = {
    "convention": "convention", "write": "write there", "here": "which here is", "example": "the example there",
}  # fmt: skip


def page(record: Record) -> str:
    """The whole page as Markdown."""
    parts = [
        f"# {record['name']}",
        cell(record["summary"]),
        prose(record["description"]),
        "## Facts",
        _facts(record),
        *_block("Hyperparameters", record["hyperparameters"], HYPERPARAMETERS, "None."),
        *_block("State", record["state"], STATE, "None: only the position is kept from step to step."),
        "## Stationary variance",
        *_variance(record),
        "## Step size in other conventions",
        *_conversions(record),
        *_block("What was verified", record["shown"], {"law": "law", "shown": "what `bench check` shows"}, "Nothing."),
        *_block("Exemptions from laws", record["laws"], _same("law", "outcome", "reason"), ALL_LAWS),
        *_block("Methods built on it", record["methods"], _same("method", "schedule", "summary"), "None."),
    ]
    if "note" in record:
        parts += ["## Note", cell(record["note"])]
    return "\n\n".join(parts) + "\n"


ALL_LAWS = "None: every law applies."


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _block(title: str, rows: Any, columns: Mapping[str, str], none: str) -> list[str]:
    return [f"## {title}", table(rows, columns) if rows else none]


def gradients(record: Record) -> str:
    """Gradients a step, in words."""
    counts = {"on the minibatch": record["gradients_per_step"], "on all the data": record["full_gradients_per_step"]}
    every = record["refresh_every"]
    parts = [f"{count} {where}" for where, count in counts.items() if count]
    return ", ".join(parts + ([f"one on all the data every {every} steps"] if every else []))


def limit(record: Record) -> str:
    """The stability limit, in words."""
    found = record["stability_limit"]
    return "not linear" if found is None else cell(found)


def bias(record: Record) -> str:
    """The variance in the limit, in words."""
    found = record["limit_bias"]
    return "no stationary law" if found is None else "0: an optimiser" if found == 0 else cell(found)


def adapted(record: Record) -> str | None:
    """The variance with adaptation, in words; None without a stationary law."""
    found = record["variance"]
    exempt = any(row["law"] == "whole-law" and row["outcome"] == "exempt" for row in record["laws"] or ())
    return None if found is None else cell(found) + ", not shown" * exempt


def _facts(record: Record) -> str:
    where = record["class"].partition(":")[0].replace(".", "/") + ".py"
    known = (Path(__file__).parents[3] / where).is_file()
    code = Ready(f"[{where}](../../{where})") if known else record["class"]
    facts = {
        "code": code,
        "gradients a step": gradients(record),
        "needs of a task, beyond gradients": ", ".join(record["needs"]) or "nothing",
        "at T = 0 it is": record["zero_temperature"] or "no known optimiser",
        "stable for x = h lambda below": limit(record),
        "lambda var/T as h goes to 0" + (", adaptive entries held" if record["adaptive"] else ""): bias(record),
    }
    if record["adaptive"] and record["variance"] is not None:
        facts["variance of N(0, 1) at T = 1 as h goes to 0, adaptation included"] = adapted(record)
    return table([{"": name, " ": value} for name, value in facts.items()], {"": "", " ": ""})


CURVE = (
    "On U = lambda theta^2/2 at lambda = T = 1 and the default hyperparameters, derived from a step's code without "
    "simulation. V is the variance of the stochastic gradient."
)


def _variance(record: Record) -> list[str]:
    reason = no_curve(record)
    if reason:
        return [f"There is no exact curve: {cell(reason)}."]
    adaptive = ", ".join(record["adaptive"])
    held = (
        f" Adaptive entries ({adaptive}) are held where a chain that stays near theta = 1 takes them; in a run they "
        "follow theta, which changes the law further."
    )
    return [
        CURVE + held * bool(adaptive),
        f"![stationary variance]({record['name']}.svg)",
        table(record["stationary_variance"], _same(*record["stationary_variance"][0])),
    ]


SUM = "h multiplies the gradient of the full-data sum."
SCALED = "Where U and T become c U and c T (c = 1/N for the mean loss), the path stays the same with:"


def _conversions(record: Record) -> list[str]:
    scaled = []
    if record["scaling"]:
        scaled = [SCALED, table(record["scaling"], {"setting": "setting", "becomes": "becomes"})]
    reason = no_conversions(record)
    if reason:
        return [f"None: {cell(reason)}.", *scaled]
    (here,) = (row["example"] for row in record["conversions"] if row["convention"] == "here")
    rows = [row for row in record["conversions"] if row["convention"] != "here"]
    return [
        f"{SUM} The example is {cell(here)} with N = {TERMS:,} terms; [all conventions](README.md#conventions).",
        table(rows, CONVERSIONS),
        *scaled,
    ]
