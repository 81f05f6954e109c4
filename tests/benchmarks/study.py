"""Sampling on larger posteriors and on networks, beside blackjax: `nox -s benchmarks -- --study`, about 30 minutes.

Each case has a process of its own, and the cases of a group are measured in turn, as in `run`. Where a goal is missed,
the time of ours is taken apart (`parts`), from which the page has the reason.
"""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cases import GRAD, ONE, SCORE
from setting import FRICTION, LEAPFROG, Case
from tables import Goal, Table, by_metrics, goal_table, grid, number, plural
from targets import GRADIENTS, SCALED, TARGETS, sampler_of, task_of
from worker import answer_of, measure_group, say

FILE = "study.json"
TASKS = (
    "gaussian", "blr-a9a", "flights", "pdb-eight-schools-noncentered", "pdb-nes1980", "lda-reuters", "tiny-bnn",
)  # fmt: skip
METHODS = ("sgld", "sghmc", "hmc", "mclmc")
LARGE_ROWS = ("blr-a9a", "flights", "lda-reuters")
"""Tasks on which full gradients are not measured: a round would last minutes."""

FORMS = {"sgld": (SCORE, GRAD, ONE), "sghmc": (SCORE, ONE), "hmc": (SCORE, GRAD), "mclmc": (SCORE, GRAD)}
GOALS = {1: 1.0, 40: 1.5}
"""Speed over the fastest of blackjax whose chains have random streams of their own, by number of chains."""

OBSERVED_CHAINS, OBSERVED_GOAL = 40, 1 / 1.2
ROUNDS, SECONDS = 5, 0.25
PEERS = ("blackjax", "jax", "jaxlib", "torch", "numpy")
OBSERVED = ", observed"
NAMED = 0.1
"""Least share of the time that a part is named for."""

WORDS = {
    "noise": "drawing the noise", "batches": "drawing the minibatches", "gradient": "the gradient", "around": "memory",
    "steps": "the compiled step", "keeping": "handing the draws on",
}  # fmt: skip
OPERATIONS = {"slots": "multiply-adds", "exponentials": "exponentials"}
PLAIN_STEPS = "the calls of torch beside the gradient"


def mode_of(task: str, chains: int) -> str:
    """The mode that a run of the task's longest budget has by default."""
    from harness.engine.stepping.execution_mode import Work, choose

    measured = task_of(task)
    steps = max(measured.protocols[0].budgets.values())
    return choose(None, steps, Work(dim=measured.dim(), chains=chains, opaque=measured.opaque))


def groups(tasks: Sequence[str] = TASKS, *, quick: bool) -> Iterator[list[Case]]:
    """The cases that are measured in turn; with `quick`, of 40 chains, and of the cheapest method on most tasks."""
    for task in tasks:
        methods = [name for name in METHODS if task not in LARGE_ROWS or sampler_of(name).gradients_per_step]
        for method in methods if not quick or task == TASKS[0] else methods[:1]:
            for chains in (OBSERVED_CHAINS,) if quick else GOALS:
                mode, kind = mode_of(task, chains), task_of(task).dtype
                forms = [mode, mode + OBSERVED] if chains == OBSERVED_CHAINS else [mode]
                cases = [Case("bench", method, chains, form, task, kind) for form in forms]
                peers = FORMS[method][:1] if quick else FORMS[method]
                yield cases + [Case("blackjax", method, chains, form, task, kind) for form in peers]


def measure(
    environment: Mapping[str, str],
    tasks: Sequence[str] = (),
    before: Mapping[str, Any] | None = None,
    *,
    quick: bool,
) -> dict[str, Any]:
    """The record of all tasks; with `tasks`, these anew and the others out of `before`, a record of this machine."""
    began = time.time()
    rounds, seconds = (2, 0.1) if quick else (ROUNDS, SECONDS)
    record: dict[str, Any] = {
        "quick": quick, "rounds": rounds, "seconds": seconds, "results": [], "profile": [],
        "versions": {name: importlib.metadata.version(name) for name in PEERS},
        "tasks": {name: _facts(name) for name in TASKS},
    }  # fmt: skip
    again = tasks or TASKS
    if before is not None:
        if (before["quick"], before["versions"]) != (quick, record["versions"]):
            raise SystemExit("the last record is of other versions, or was a quick one: measure all tasks")
        record["results"] = [row for row in before["results"] if row["task"] not in again]
        record["profile"] = [row for row in before["profile"] if row["cell"][0] not in again]
    for cases in groups(again, quick=quick):
        record["results"] += measure_group(cases, rounds, seconds, environment)
    record["peaks"] = answer_of("limits.py", str(seconds), environment=environment).get("peaks", {})
    missed = dict.fromkeys(each.cell for each in compared(record) if each.ratios and not each.goal(None, {}).held)
    record["profile"] += [
        row for cell in missed if cell[0] in again and (row := _taken_apart(cell, record, environment, seconds))
    ]
    return record | {"minutes": (time.time() - began) / 60, "again": list(tasks)}


def _facts(name: str) -> dict[str, Any]:
    """What the page says of a task."""
    task = task_of(name)
    batch = TARGETS[name].settings.get("batch")
    facts = {"dim": task.dim(), "dtype": task.dtype, "thin": task.protocols[0].thin, "batch": batch}
    return facts | ({"terms": task.terms(), "batches": task.steps_per_epoch()} if hasattr(task, "arrays") else {})


Cell = tuple[str, str, int]
"""A task, a method and a number of chains."""


class Compared(NamedTuple):
    """Two rows of a table that a goal compares: ours over a peer, or observed over unobserved."""

    cell: Cell
    ours: str
    over: str
    ratios: Sequence[float]
    limit: float
    theirs: float | None

    @property
    def of_observing(self) -> bool:
        return self.over.startswith("bench")

    def goal(self, row: Mapping[str, Any] | None, peaks: Mapping[str, float]) -> Goal:
        """The goal, with what was measured of its parts; `peaks` are operations a second of `limits`."""
        task, method, chains = self.cell
        over = "observed over unobserved" if self.of_observing else f"over {self.over}"
        why = by_metrics(row) if self.of_observing or row is None else self._parts(row)
        why += (_least(row, peaks) if self.of_observing else self._least_step(peaks)) if row is not None else ""
        return Goal(f"{method.upper()} on {task}, {plural(chains)}, {over}", self.ratios, self.limit, True, why)

    def _least_step(self, peaks: Mapping[str, float]) -> str:
        """The least time of the gradients of a step on all rows, as far as their operations are counted."""
        task, method, _ = self.cell
        counts = {what: n * GRADIENTS.get(method, 0) for what, n in TARGETS[task].takes.items()}
        words = [f"{n:,} {OPERATIONS[what]} take {number(1e9 * n / peaks[what])} ns" for what, n in counts.items() if n]
        return f" Its {' and '.join(words)} at the peak of this machine." if words else ""

    def _parts(self, row: Mapping[str, Any]) -> str:
        """What ours takes its time for, beside the time that the goal allows."""
        parts = {part: ns for part, ns in row["parts"].items() if part in WORDS and ns}
        total, plain = sum(parts.values()), row["mode"] == "plain"
        allowed = 1e3 / self.theirs / self.limit if self.theirs else 0.0
        words = WORDS | ({"steps": PLAIN_STEPS} if plain else {})
        largest, *others = sorted(parts, key=lambda part: -parts[part])
        named = [f"{words[part]} {parts[part] / total:.0%}" for part in others if parts[part] >= NAMED * total]
        alone = parts[largest] / allowed if allowed else 0.0
        mode = "; its steps are calls of torch, not compiled code" if plain else ""
        return (
            f"of {number(total)} ns of a chain-step of ours, {words[largest]} takes {parts[largest] / total:.0%}, "
            f"which alone is {alone:.2g} times what the goal allows ({number(allowed)} ns)"
            f"{''.join(f', {name}' for name in named)}{mode}."
        )


def _least(row: Mapping[str, Any], peaks: Mapping[str, float]) -> str:
    """The least time that observing can take, beside the time that the goal allows; "" where it was not counted."""
    least = row["least"]
    counted = {what: count for what, count in least.items() if what in peaks}
    if not counted:
        return ""
    allowed = (1 / OBSERVED_GOAL - 1) * sum(ns for part, ns in row["parts"].items() if part in WORDS)
    ns = sum(1e9 * count / peaks[what] for what, count in counted.items())
    words = " and ".join(f"{count:,} {OPERATIONS[what]}" for what, count in counted.items())
    places = f", each of {least['places']} projections is placed among quantiles," if "places" in least else ""
    return (
        f" The {words} of a draw take {number(ns)} ns at the peak of this machine{places} and the goal allows "
        f"{number(allowed)} ns."
    )


def compared(record: Mapping[str, Any]) -> Iterator[Compared]:
    """All pairs of rows that have a goal."""
    for task in TASKS:
        for method in METHODS:
            table = Table(record["results"], method, task)
            for chains in table.chains:
                ours = next(n for n in table.names if n.startswith("bench") and OBSERVED not in n)
                peer = _fastest(table, chains)
                if peer is not None:
                    ratios, theirs = table.ratios(ours, peer, chains), table.median(peer, chains)
                    yield Compared((task, method, chains), ours, peer, ratios, GOALS[chains], theirs)
                observed = next((n for n in table.names if OBSERVED in n and (n, chains) in table.cells), None)
                if observed is not None:
                    ratios = table.ratios(observed, ours, chains)
                    yield Compared((task, method, chains), observed, ours, ratios, OBSERVED_GOAL, None)


def _fastest(table: Table, chains: int) -> str | None:
    """The fastest row of blackjax whose chains have their own streams and the right law."""
    rates = {
        name: statistics.median(cell["rates"])
        for (name, count), cell in table.cells.items()
        if count == chains and cell["form"] in (SCORE, GRAD) and cell["rates"] and cell["check"]["right"]
    }
    return max(rates, key=lambda name: rates[name]) if rates else None


def _taken_apart(
    cell: Cell, record: Mapping[str, Any], environment: Mapping[str, str], seconds: float
) -> dict[str, Any] | None:
    """Where the time of ours goes, observed."""
    task, method, chains = cell
    mode = mode_of(task, chains)
    say(f"parts of a block: {method} on {task}, {mode}, {plural(chains)}")
    case = Case("bench", method, chains, mode + OBSERVED, task, record["tasks"][task]["dtype"])
    spent = answer_of("parts.py", json.dumps(case.to_json()), str(seconds), environment=environment)
    return None if "problem" in spent else {"cell": list(cell), "mode": mode, **spent}


def summary(record: Mapping[str, Any]) -> str:
    """The goals, for the page of goals."""
    profile = {tuple(row["cell"]): row for row in record["profile"]}
    quick = " **A quick pass, not for the record.**" if record["quick"] else ""
    goals = [each.goal(profile.get(each.cell), record["peaks"]) for each in compared(record)]
    return f"## Larger posteriors\n\n{SHORT}{quick}\n\n{goal_table(goals)}\n\n"


def section(record: Mapping[str, Any]) -> str:
    """The tables."""
    tables = []
    for task in TASKS:
        facts = record["tasks"][task]
        size = f"D = {facts['dim']:,}, {facts['dtype']}"
        if "terms" in facts:
            size += f", N = {facts['terms']:,}, " + (f"n = {facts['batch']}" if facts["batch"] else "all rows")
        tables.append(f"### {task}\n\n{size}.")
        for method in METHODS:
            table = Table(record["results"], method, task)
            if table.names:
                ours = next(name for name in table.names if name.startswith("bench"))
                tables.append(f"**{method.upper()}**\n\n{table.markdown()}\n\n{table.ratio_markdown(ours)}")
    left = [f"{record['tasks'][name]['batches']:,} batches on {name}" for name in LARGE_ROWS]
    agreed = max(row["agreement"] for row in record["results"] if "agreement" in row)
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return PAGE.format(
        rounds=record["rounds"], seconds=record["seconds"], minutes=record["minutes"], versions=versions,
        left="; ".join(left), agreed=agreed, friction=FRICTION, leapfrog=LEAPFROG, **SCALED,
        quick=" **A quick pass, not for the record.**" if record["quick"] else "",
        again=f" Measured anew, later than the others: {', '.join(record['again'])}." * bool(record["again"]),
        thinned=", ".join(name for name in TASKS if record["tasks"][name]["thin"] > 1),
        tables="\n\n".join(tables), profile=_profile(record),
    )  # fmt: skip


def _profile(record: Mapping[str, Any]) -> str:
    """Where the time goes in the cases that miss a goal."""
    if not record["profile"]:
        return ""
    parts = list(record["profile"][0]["parts"])
    lines = [["ns a chain-step", *parts]]
    for row in record["profile"]:
        task, method, chains = row["cell"]
        cells = (number(row["parts"][part]) if row["parts"][part] else "" for part in parts)
        lines.append([f"{method} on {task}, {row['mode']}, {plural(chains)}", *cells])
    return f"Where the time goes in the cases that miss a goal, observed:\n\n{grid(lines)}\n"


SHORT = (
    "One thread, float64 (lda-reuters: float32), compared with the fastest form of blackjax in which each chain has a "
    "random stream of its own. The [tables](benchmarks/tables.md#larger-posteriors) say how it is measured."
)

PAGE = """\
## Larger posteriors

Our samplers beside blackjax on a Gaussian with D = 10 and a dense covariance, two logistic regressions, two posteriors
of posteriordb, a topic model and a small network. Measured as the tables above, {rounds} rounds of {seconds:g} s, with
{versions}; it took {minutes:.0f} minutes.{again}{quick}

- **The same target**: before it is measured, every process of blackjax compares its density in jax with our task's U at
  random points, in float64: differences of values, gradients on all rows and on a minibatch, each by jax.grad and
  written by hand. The largest relative difference was {agreed:.1g}; a process stops if one is above 1e-8.
- **The right distribution** is checked where a run of seconds reaches it: the variance of the Gaussian along its
  stiffest direction, and the means of the posteriors of posteriordb. The steps of the other tasks are too large for
  the noise of their minibatches, or their modes are too many.
- **Steps**: h times the largest curvature is {sgld:g} for SGLD, {sghmc:g} and friction {friction:g} for SGHMC, {hmc:g}
  and {leapfrog} leapfrog steps for HMC, {mclmc:g} for MCLMC; a tenth of these on eight schools. `blackjax.mclmc` has
  our step length and the L with which a step loses as much of the velocity as ours. All chains start where ours do.
- **bench** runs in the mode that a long run has by default. *Observed* rows have the task's own observer, which sees
  every draw, or every tenth as the protocol says ({thinned}).
- **Full gradients**: HMC and MCLMC take them on all rows, which are {left}. They are not measured on these tasks: a
  round would last minutes.

{tables}

{profile}
"""
