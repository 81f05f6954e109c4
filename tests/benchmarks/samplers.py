"""The update of every registered sampler beside sgld's: `nox -s benchmarks -- --samplers`, within eight minutes.

Each sampler has a process of its own (`update.py`). Two get ready at a time; then each is measured in turn with sgld's,
A B A B, with nothing else going on. What fails, or is not ready in time, is a row with its reason.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tables import grid, number, spread
from worker import Worker

REFERENCE = "sgld"
DIM, CHAINS = 11_000_000, 1_000
QUICK_DIM = 100_000
ROUNDS, SECONDS = 5, 0.15
LIMIT = 150.0
"""Seconds after which a sampler that is not ready is given up."""

ALLOWED = 2
"""Vectors that a step may allocate beyond its state."""

FILE = "samplers.json"


def started(name: str, dim: int, core: int, environment: Mapping[str, str]) -> Worker:
    asked = {"sampler": name, "dim": dim, "chains": CHAINS, "core": core}
    return Worker(name, "update.py", asked, environment, LIMIT)


def names(only: Sequence[str]) -> list[str]:
    from harness.contracts.registry import registry

    names = [offer.name for offer in registry().offers("samplers")]
    return [REFERENCE, *(name for name in names if name != REFERENCE and (not only or name in only))]


def measure(environment: Mapping[str, str], *, quick: bool, only: Sequence[str] = ()) -> dict[str, Any]:
    """The record: a row for each sampler, its rounds and those of sgld beside it."""
    began = time.time()
    dim, rounds, seconds = (QUICK_DIM, 2, 0.05) if quick else (DIM, ROUNDS, SECONDS)
    first, *others = names(only)
    reference = started(first, dim, 0, environment)
    rows = [
        _row(
            reference,
            reference.answer(),
            [(pair, pair) for pair in (reference.measure(seconds) for _ in range(rounds))],
        )
    ]
    for i in range(0, len(others), 2):
        workers = [started(name, dim, core, environment) for core, name in enumerate(others[i : i + 2])]
        ready = [worker.answer() for worker in workers]
        if reference.problem:  # its loop has come to its end
            reference.close()
            reference = started(first, dim, 0, environment)
            reference.answer()
        for worker, said in zip(workers, ready, strict=True):
            sys.stderr.write(f"{worker.name}: {worker.problem or 'measured in turn with sgld'}\n")
            pairs = [(worker.measure(seconds), reference.measure(seconds)) for _ in range(rounds)]
            rows.append(_row(worker, said, pairs))
            worker.close()
    reference.close()
    return {
        "quick": quick, "dim": dim, "chains": CHAINS, "rounds": rounds, "minutes": (time.time() - began) / 60,
        "rows": rows,
    }  # fmt: skip


def _row(
    worker: Worker, facts: Mapping[str, Any], pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]
) -> dict[str, Any]:
    """What a worker said of itself and measured; `sgld` is what the reference measured in turn with it."""
    return {
        "sampler": worker.name, "problem": worker.problem, **facts,
        "rounds": [dict(mine) for mine, _ in pairs], "sgld": [dict(other) for _, other in pairs],
    }  # fmt: skip


def section(record: Mapping[str, Any]) -> str:
    quick = " **A quick pass, not for the record.**" if record["quick"] else ""
    return PAGE.format(
        dim=record["dim"], chains=record["chains"], rounds=record["rounds"], minutes=record["minutes"], quick=quick,
        speed=_speed(record), memory=_memory(record), verdict=_verdict(record), missing=_missing(record),
    )  # fmt: skip


PAGE = """\
## Every sampler

One step of one chain with {dim:,} parameters, float32, compiled, including the copies back into theta and state. The
target is a diagonal Gaussian, whose gradient costs one vector read and is part of the compiled update. Noise is drawn
beforehand. A step *must move* theta and the part of the state that changes (read and written once), and the rest of the
state, the noise and the curvatures (read once); *over a copy* is the time of the step divided by that of a plain copy
of as many bytes, measured in turn. Full-data gradients cost no more here than others, so the table measures the
updates, without `refresh`. The last two columns are the harness's compiled loop on mixture25 with {chains:,} chains, in
nanoseconds per chain-step. Ratios are medians of {rounds} rounds, each divided by the sgld measurement next to it, or
by the median of sgld if that is missing. The measurement took {minutes:.0f} minutes.{quick}

{speed}

**Memory.** The peak memory that a step allocates beyond the state, including its results, in vectors of one number per
parameter. *Compiled* is the step above, whose results go into existing buffers; *plain* is one torch call after
another. The goal is {allowed}. {verdict}

{memory}
{missing}""".replace("{allowed}", str(ALLOWED))


def _speed(record: Mapping[str, Any]) -> str:
    lines = [
        ["", "state, vectors", "normals, vectors", "ms a step", "over sgld", "must move, MiB", "over a copy",
         "mixture25, ns", "over sgld"]
    ]  # fmt: skip
    first = record["rows"][0]
    usual = {"step": statistics.median(_all(first, "step"))}
    usual["block"] = statistics.median(_all(first, "block")) / first["mixture"]["chain_steps"]
    for row in record["rows"]:
        flat, mixed = row.get("flat", {}), row.get("mixture", {})
        if "moved" not in flat and "chain_steps" not in mixed:
            continue
        cells = [""] * 6
        if "moved" in flat:
            moved = 4 * record["dim"] * flat["moved"]
            copied = [r["copy"] * flat["moved"] / 2 for r in row["rounds"] if r]  # a copy moves two vectors
            step = _all(row, "step")
            cells = [
                number(flat["state"]), number(flat["normals"]), spread([1e3 * s for s in step]),
                _ratio(row, "step", usual["step"]),
                number(moved / 2**20), spread([s / c for s, c in zip(step, copied, strict=True)]),
            ]  # fmt: skip
        ns = [1e9 * s / mixed["chain_steps"] for s in _all(row, "block")]
        blocks = mixed["chain_steps"], first["mixture"]["chain_steps"]
        lines.append([row["sampler"], *cells, spread(ns), _ratio(row, "block", usual["block"], blocks)])
    return grid(lines)


def _all(row: Mapping[str, Any], what: str) -> list[float]:
    return [r[what] for r in row["rounds"] if what in r]


def _ratio(row: Mapping[str, Any], what: str, usual: float, sizes: tuple[float, float] = (1, 1)) -> str:
    """Its time over that of sgld next to it, each divided by its size: blocks differ in their number of chain-steps."""
    pairs = [(mine, other) for mine, other in zip(row["rounds"], row["sgld"], strict=True) if what in mine]
    beside = [other[what] / sizes[1] if what in other else usual for _, other in pairs]
    return spread([mine[what] / sizes[0] / other for (mine, _), other in zip(pairs, beside, strict=True)])


def _measured(record: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(row["sampler"], row["flat"]) for row in record["rows"] if "moved" in row.get("flat", {})]


def _memory(record: Mapping[str, Any]) -> str:
    lines = [["", "state", "plain, beyond the state", "compiled, beyond the state"]]
    for name, flat in _measured(record):
        beyond = [number(max(flat[peak] - flat["state"], 0.0)) for peak in ("plain_peak", "compiled_peak")]
        lines.append([name, number(flat["state"]), *beyond])
    return grid(lines)


def _verdict(record: Mapping[str, Any]) -> str:
    words = []
    for mode in ("compiled", "plain"):
        beyond = {name: flat[f"{mode}_peak"] - flat["state"] - ALLOWED for name, flat in _measured(record)}
        over = [f"{name} by {number(more)}" for name, more in beyond.items() if more > 0.01]
        words.append(
            f"{mode.capitalize()}, " + (f"it is exceeded by {', '.join(over)}." if over else "all samplers meet it.")
        )
    return " ".join(words)


def _missing(record: Mapping[str, Any]) -> str:
    reasons = []
    for row in record["rows"]:
        parts = {"": row["problem"], "flat vector: ": row.get("flat", {}).get("left_out")}
        parts["mixture25: "] = row.get("mixture", {}).get("left_out")
        reasons += [f"- {row['sampler']}: {part}{why}" for part, why in parts.items() if why]
    return "\n".join(["", "Not measured:", "", *reasons, ""]) if reasons else ""
