"""The tables of docs/benchmarks.md and of the page beside it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import memory
from cases import SCORE

OURS = "bench (compiled)"
PLAIN = "bench (plain)"
SAME = "same arithmetic"
BLACKJAX = f"blackjax ({SCORE})"
OBSERVED = f"{OURS[:-1]}, observed)"
MIXTURE_GOALS = {
    ("sgld", 1): 0.8, ("sgld", 40): 1.3, ("sgld", 1_000): 1.5, ("sgld", 10_000): 1.3,
    **{(method, chains): 1.0 for method in ("sghmc", "hmc") for chains in (40, 1_000)},
}  # fmt: skip
OBSERVED_GOAL = 0.8
LOGISTIC_GOALS = {("sgld", 1): 1.0, ("sgld", 40): 1.5, ("sgld", 1_000): 1.5}
LOGISTIC_GOALS |= {("sghmc", chains): 1.0 for chains in (1, 40, 1_000)}
POSTERIORS_GOAL = 40.0
OVERHEAD_GOAL = 1.05
NEGLIGIBLE = 0.3
BY_ARITHMETIC = (
    "with many chains both spend their time on arithmetic and not on calls of torch; the limit of this machine (at the "
    "end of the tables) is {:.1f} times the speed of posteriors."
)
BY_CHECKS = "a step of one chain is a few calls of torch, and the checks that every step gets are a few more."


SEEN = 0.1
"""Least share of the observer's time that a function is named for."""


def by_metrics(row: Mapping[str, Any] | None) -> str:
    """Why observing takes long, by what was measured of it; "" where nothing was."""
    if row is None:
        return ""
    parts = row["parts"]
    sampled = sum(parts[part] for part in parts if part not in ("observing", "writing"))
    why = f"observing takes {number(parts['observing'])} ns of a chain-step, all before it {number(sampled)} ns"
    named = [f"{share:.0%} of it in `{name}`" for name, share in row.get("observer", {}).items() if share >= SEEN]
    return f"{why}; {', '.join(named)}." if named else f"{why}."


class Table:
    """The results of one (method, task), by row and number of chains."""

    def __init__(self, results: Iterable[Mapping[str, Any]], method: str, task: str = "mixture25") -> None:
        mine = [r for r in results if (r["method"], r["task"]) == (method, task)]
        self.cells = {(r["name"], r["chains"]): r for r in mine}
        self.chains = sorted({chains for _, chains in self.cells})
        self.names = list(dict.fromkeys(name for name, _ in self.cells))

    def rates(self, name: str, chains: int) -> list[float]:
        return list(self.cells.get((name, chains), {}).get("rates", []))

    def median(self, name: str, chains: int) -> float | None:
        rates = self.rates(name, chains)
        return statistics.median(rates) if rates else None

    def ratios(self, over: str, under: str, chains: int) -> list[float]:
        """Ratios of two rows, round by round; none where one of them has the wrong law."""
        if not all(self.cells.get((name, chains), {}).get("check", {}).get("right", True) for name in (over, under)):
            return []
        pairs = zip(self.rates(over, chains), self.rates(under, chains), strict=False)
        return [a / b for a, b in pairs]

    def markdown(self) -> str:
        """Medians with their range, and seconds of compilation."""
        rows = [[name, *(self._cell(name, c) for c in self.chains), self._compile(name)] for name in self.names]
        return grid([["", *map(plural, self.chains), "compile, s"], *rows])

    def ratio_markdown(self, ours: str) -> str:
        """`ours` over every other library."""
        others = [name for name in self.names if not name.startswith("bench")]
        rows = [[name, *(spread(self.ratios(ours, name, c)) for c in self.chains)] for name in others]
        return grid([[f"{ours} over", *map(plural, self.chains)], *rows])

    def _cell(self, name: str, chains: int) -> str:
        cell = self.cells.get((name, chains))
        if cell is None:
            return ""
        if not cell["rates"]:
            return "failed"
        wrong = "" if cell["check"]["right"] else " (wrong law)"
        return spread(cell["rates"]) + wrong

    def _compile(self, name: str) -> str:
        seconds = [cell["compile"] for (n, _), cell in self.cells.items() if n == name and cell["rates"]]
        if not seconds or max(seconds) < NEGLIGIBLE:
            return "-"
        low, high = min(seconds), max(seconds)
        return f"{low:.1f}" if high - low < 0.05 else f"{low:.1f} to {high:.1f}"


def grid(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first row is its head."""
    head, *body = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(value: float) -> str:
    """Three significant digits, no exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.01 else f"{value:.2g}"


def plural(chains: int) -> str:
    """So many chains, in words."""
    return f"{chains:,} chains" if chains > 1 else "1 chain"


def spread(values: Sequence[float]) -> str:
    """The median and the range; "" of nothing."""
    if not values:
        return ""
    return f"{number(statistics.median(values))} ({number(min(values))} to {number(max(values))})"


class Goal(NamedTuple):
    """What was wanted and what was measured, round by round; `why` says what keeps it from being met."""

    label: str
    measured: Sequence[float]
    limit: float
    at_least: bool
    why: str = ""

    @property
    def held(self) -> bool:
        middle = statistics.median(self.measured)
        return middle >= self.limit if self.at_least else middle <= self.limit

    def row(self) -> list[str]:
        wanted = f"{'>=' if self.at_least else '<='} {self.limit:g}"
        if not self.measured:
            return [self.label, wanted, "not measured", ""]
        measured = spread(self.measured) if len(self.measured) > 1 else number(statistics.median(self.measured))
        return [self.label, wanted, measured, "yes" if self.held else "**no**"]


def goal_table(goals: Sequence[Goal]) -> str:
    """The table of goals, and below it why some are missed."""
    missed = [f"- *{goal.label}*: {goal.why}" for goal in goals if goal.why and goal.measured and not goal.held]
    table = grid([["goal", "limit", "measured", "met"], *(goal.row() for goal in goals)])
    return "\n\n".join([table, *(["Missed goals:", "\n".join(missed)] if missed else [])])


def goals(record: Mapping[str, Any]) -> str:
    goals = []
    for task, limits in (("mixture25", MIXTURE_GOALS), ("blr-german", LOGISTIC_GOALS)):
        for (method, chains), limit in limits.items():
            table = Table(record["results"], method, task)
            if chains in table.chains:
                label = f"{method.upper()} on {task}, {plural(chains)}, over {BLACKJAX}"
                goals.append(Goal(label, table.ratios(OURS, BLACKJAX, chains), limit, True))
    sgld, most = Table(record["results"], "sgld"), record["limits"]["floors"]["mixture25"]["rate"] / 1e6
    of_ours = [row for row in record["profile"] if (row["task"], row["mode"]) == ("mixture25", "compiled")]
    profile = {row["chains"]: row for row in of_ours}
    for chains in sgld.chains:
        ratios, theirs = sgld.ratios(OURS, "posteriors", chains), sgld.median("posteriors", chains)
        why = BY_ARITHMETIC.format(most / theirs) if theirs else ""
        goals.append(Goal(f"SGLD, {plural(chains)}, over posteriors", ratios, POSTERIORS_GOAL, True, why))
        if (OBSERVED, chains) in sgld.cells:
            label = f"SGLD, {plural(chains)}, observed over unobserved"
            why = by_metrics(profile.get(chains))
            goals.append(Goal(label, sgld.ratios(OBSERVED, OURS, chains), OBSERVED_GOAL, True, why))
    for row in record["overhead"]:
        label = f"time of the plain loop over the bare one, {plural(row['chains'])}"
        goals.append(Goal(label, row.get(SAME, []), OVERHEAD_GOAL, False, BY_CHECKS if row["chains"] == 1 else ""))
    for row in record["memory"]:
        label = f"peak memory, {row['states'] / 1e6:g} million kept states, {plural(row['chains'])}, {row['mode']}, MiB"
        goals.append(Goal(label, [row["mib"]] if "mib" in row else [], memory.GOAL_MIB, False))
    return goal_table(goals)


def commands(records: Sequence[Mapping[str, Any]]) -> str:
    lines = [["command", "limit", "measured", "unit", "repeats", "met"]]
    for r in records:
        goal, between = r.get("goal"), r.get("spread")
        measured = number(r["value"])
        if isinstance(between, Sequence) and not isinstance(between, str):
            measured += f" ({number(min(between))} to {number(max(between))})"
        held = "" if goal is None else "yes" if r["value"] <= goal else "**no**"
        wanted = "" if goal is None else f"<= {goal:g}"
        lines.append([r["name"], wanted, measured, r["unit"], str(r.get("repeats", "")), held])
    return grid(lines)
