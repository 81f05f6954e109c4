"""The tables of the report `findings`, from its records: so a page of published records shows what the report shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.reports import Column, Table, number
from reports.orderings import NOT_COMPARED, OrderingVerdict
from reports.tables import wide
from reports.tables.wide import JOINT

Record = Mapping[str, Any]
STATEMENTS = "Declared orderings"
"""The title of the table of orderings."""
NAMED = 8
"""Of a list: the rest is counted."""


def tables(records: Sequence[Record]) -> list[Table]:
    """The tables of the report's records."""
    shown_tables: list[Table] = []
    for kind, (title, columns, notes) in _TABLES.items():
        rows = [record for record in records if record["finding"] == kind]
        more = _about_orderings(rows) if kind == "ordering" else _about_tasks(rows) if kind == "task" else []
        shown = [record for record in rows if record.get("verdict") not in NOT_COMPARED]
        if shown:
            shape = [Column(name, name, "right" if name in _RIGHT else "left") for name in columns]
            cells = [{name: text(record) for name, text in columns.items()} for record in shown]
            shown_tables.append(Table(title, shape, cells, [*notes, *more], keys=1))
    return shown_tables


def _about_tasks(records: Sequence[Record]) -> list[str]:
    """Say by which factor leaders lead, and which tasks are copies."""
    factors = dict.fromkeys(record["leads_by"] for record in records if "leads_by" in record)
    rules = [
        "leaders: better than at least half of sgld, sghmc, psgld, sgnht, csgld and hmc (of three or more), by a test, "
        f"and by more than a factor {factor:g} of the joint error or .02 nats; a leader can be worse than the best"
        for factor in factors
    ]
    copies = [f"{r['task']}: a copy of {r['copy_of']}, does not count" for r in records if r.get("copy_of")]
    return [*(rules or [_EARLIER_LEADERS]), *copies]


def _about_orderings(records: Sequence[Record]) -> list[str]:
    """How many orderings have which verdict, the tests and what they assume, and what was not compared."""
    counts = Counter(record["verdict"] for record in records)
    untested = [f"{_pair(r)} on {r['task']} ({r['reason']})" for r in records if r["verdict"] in NOT_COMPARED]
    about: dict[str, list[str]] = {}
    for record in records:
        if record["notes"]:
            about.setdefault(record["notes"], []).append(_pair(record))
    return [
        "; ".join(f"{counts[verdict]} {verdict}" for verdict in OrderingVerdict if counts[verdict]),
        *dict.fromkeys(f"p: {record['test']}" for record in records if record["test"]),
        *(f"{', '.join(dict.fromkeys(pairs))}: {notes}" for notes, pairs in about.items()),
        *([f"not compared: {_names(untested, '; ')}"] if untested else []),
    ]


def _pair(record: Record) -> str:
    return f"{record['better']} better than {record['worse']}"


def _number(value: float | None) -> str:
    return "-" if value is None else number(value)


def _names(names: Sequence[str], between: str = ", ") -> str:
    shown = between.join(names[:NAMED])
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown


def _with_ends(record: Record) -> str:
    low, high = record.get("low"), record.get("high")
    ends = f" [{number(low)}, {number(high)}]" if low is not None and high is not None and low != high else ""
    return f"{_number(record.get('mean', record.get('effect')))}{ends}"


def _text(key: str) -> Callable[[Record], str]:
    """A field of the record: a number with three digits, names joined."""

    def text(record: Record) -> str:
        value = record.get(key)
        if isinstance(value, Sequence) and not isinstance(value, str):
            return _names(value)
        return _number(value) if isinstance(value, float) or value is None else str(value)

    return text


def _factor(key: str) -> Callable[[Record], str]:
    """A ratio as "x3.2", a difference as "+0.12"."""

    def text(record: Record) -> str:
        value = record.get(key)
        if value is None:
            return "-"
        return f"x{number(value)}" if record["metric"] == JOINT else f"{'-' if value < 0 else '+'}{number(abs(value))}"

    return text


def _metric(record: Record) -> str:
    return wide.header(record["metric"])


def _worst(record: Record) -> str:
    return f"x{number(record['worst'])}, {record['worst_task']}" if record["worst"] is not None else "-"


def _verdicts(record: Record) -> str:
    """How many rows are tied, worse and not known: "1 / 7 / 2"; "-" in records of an earlier study."""
    counts = [str(record[name]) for name in ("tied", "worse", "not_known") if name in record]
    return " / ".join(counts) or "-"


def _nearer(record: Record) -> str:
    return "" if record.get("nearer") is None else number(record["nearer"])


def _seeds(record: Record) -> str:
    """The seeds that would decide, of an undecided ordering that was tested and whose verdict nothing withholds."""
    undecided = record["verdict"] == OrderingVerdict.UNDECIDED and record["test"] and not record["reason"]
    return str(record.get("seeds_to_decide") or "more than 10,000") if undecided and "seeds_to_decide" in record else ""


def _share(record: Record) -> str:
    return f"{record['leads']} of {record['decided']} ({record['share']:.0%})"


def _p(key: str) -> Callable[[Record], str]:
    return lambda record: "-" if record[key] is None else f"{record[key]:.2g}"


def _optional(key: str) -> Callable[[Record], str]:
    return lambda record: record[key] or ""


_RIGHT = {
    "tied / worse / not known", "its value", "sgld against it", "median row against it", "data passes", "seconds",
    "data passes of sgld", "rows that reach it", "leads on", "low error reached", "value", "against the best sampler",
    "effect of A", "seeds", "p", "p x all", "at least", "seeds to decide",
    "worst joint error / best",
}  # fmt: skip
_TASKS = {
    "task": _text("task"), "best": _text("best"), "its value": _with_ends, "data passes": _text("passes"),
    "seconds": _text("seconds"), "sgld against it": _factor("against_sgld"),
    "leaders": lambda record: _names(record.get("leaders", ())) or "none",
    "tied / worse / not known": _verdicts, "median row against it": _factor("against_median"),
    "by": _metric, "reference": _text("reference"), "command": _text("command"),
}  # fmt: skip
_COSTS = {
    "task": _text("task"), "cheapest to low error": _text("cheapest"), "data passes": _text("passes"),
    "seconds": _text("seconds"), "data passes of sgld": _text("sgld_passes"),
    "rows that reach it": lambda r: f"{r['reached']} of {r['samplers']}", "command": _text("command"),
}  # fmt: skip
_SAMPLERS = {
    "sampler": _text("method"), "leads on": _share, "worst joint error / best": _worst,
    "low error reached": lambda r: f"{r['low_error']} of {r['truths']}" if r["truths"] else "-",
    "diverged on": _text("diverged_on"), "command": _text("command"),
}  # fmt: skip
_UNRANKED = {"row": _text("label"), "task": _text("task"), "why": _text("status"), "command": _text("command")}
_BASELINES = {
    "baseline": _text("label"), "task": _text("task"), "by": _metric, "value": _with_ends,
    "against the best sampler": _factor("against_best"), "command": _text("command"),
}  # fmt: skip
_ORDERINGS = {
    "A better than B": _pair, "task": _text("task"), "by": _metric,
    "effect of A": lambda r: _with_ends(r) if r["effect"] is not None else "-", "seeds": _text("pairs"),
    "p": _p("p"), "p x all": _p("adjusted"), "verdict": _text("verdict"), "at least": _nearer,
    "seeds to decide": _seeds,
    "statement": _text("statement"),
    "source": _text("citation"), "command": _text("command"), "why undecided": _optional("reason"),
}  # fmt: skip
_ROWS = "a task's protocol with the most methods counts; of several rows of a method the tuned one"
_LEADERS = (
    "tied with the best, worse than it, or not known: RULES.md 5",
    "the joint error of a leader is also below 1, that of one exact draw; none: no row leads on the task",
    "best: the row with the best value, leader or not",
)
_EARLIER_LEADERS = (
    "leaders, by the rule of that time: best or tied, and significantly better than those of sgld and sghmc that are "
    "neither (or diverged)"
)
_APART = "xN: the joint error is N times that of the best; +N: the metric is worse by N"
_PAIRED = (
    "paired by seed; of the joint error the ratio A / B; all intervals hold at once in 95 % of such tables, and decide "
    "the verdict (RULES.md 5); p x all: p times the number of orderings declared with it; at least: the nearer end"
)
_OURS = (
    "at our settings: tuned ones where a study has them, and our budget; the papers have others; the statements are in "
    "our words"
)
_TABLES: Mapping[str, tuple[str, Mapping[str, Callable[[Record], str]], Sequence[str]]] = {
    "task": (
        "Leaders by task", _TASKS,
        [*_LEADERS, _APART, _ROWS],
    ),
    "cost": (
        "Cost of low error by task", _COSTS,
        [
            "data passes until the squared error of a typical chain, in its own worst direction, stays below 0.01",
            "the joint error, a mean over chains in one direction, can be below 0.01 before",
            "seconds: the same share of a run's seconds of sampling",
        ],
    ),
    "sampler": (
        "Samplers across tasks", _SAMPLERS,
        [
            "leads on: of the tasks that have a leader and where it has a value or diverged",
            "low error reached: of the tasks with a known truth",
        ],
    ),
    "unranked": ("Rows without a rank", _UNRANKED, ["baselines have a table of their own"]),
    "baseline": ("Baselines, which are not samplers of the posterior", _BASELINES, [_APART]),
    "ordering": (
        STATEMENTS, _ORDERINGS,
        [_PAIRED, _OURS],
    ),
}  # fmt: skip
