"""`bench compare`: two samplers, paired by seed, on every task on which both were run."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from harness import Bench, Result, UsageError, options, statistics
from harness.reporting import is_hash
from harness.reports import (
    UNGATED,
    Column,
    Comparison,
    FieldScore,
    Group,
    PairOutcome,
    Request,
    Store,
    Table,
    Term,
    check_metric,
    judge,
    labels,
    number,
    refusal,
    score_fields,
    suggestions,
    terms,
)
from harness.system import words

TOGETHER = (
    "all intervals of this command hold at once in 95 % of commands; A is equivalent to B if the interval lies within "
    "the margin, else better or worse if it excludes 0 (a ratio: 1); its end nearer to that is given"
)
SEEDS = (
    "seen with these: the least difference, or factor, that this number of seeds shows with probability 0.8; seeds to "
    "decide: how many would probably decide (probability 0.8) if difference and spread are as these seeds show"
)
ALL = Request()
"""All runs."""
Pairs = list[tuple[Group, Group]]

Row = dict[str, Any]

KEY = re.compile(r"[0-9a-fA-F]{6,64}")


def compare(
    bench: Bench,
    a: Annotated[
        str,
        typer.Argument(
            help="A method, a row's label, or the beginning of a group or run key.", autocompletion=options.METHODS
        ),
    ],
    b: Annotated[str, typer.Argument(help="What to compare it with.", autocompletion=options.METHODS)],
    task: options.OnlyTasks = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Metrics, a,b,c; default: the joint error, the median and the failures of chains, data passes to low "
            "error, and the primary metric."
        ),
    ] = None,
    differs: Annotated[
        list[str] | None,
        typer.Option(help=f"What the comparison is about, if the rows differ in it: {', '.join(Term)}."),
    ] = None,
) -> Result:
    """Compare two rows on every task, protocol, budget and number of chains on which both were run.

    Runs are paired by seed. A metric with a value a seed is compared by its mean difference A - B, with a paired t test
    from 3 pairs on; on a task with several modes from 30 on. The joint error, median_error (of the chains), data passes
    to low error and ess_mse, which are not means over seeds, are compared by the ratio A / B: a t test of its
    logarithm, with a bootstrap over seeds. failed_chains are those with more than ten times the row's median error.

    All intervals that are printed hold at once in 95 % of commands. A is equivalent to B if the interval lies within a
    factor 1.5 of the joint error, or .02 nats of lppd and nll; else better or worse if it excludes 0 (or the ratio 1);
    else undecided. Beside it are the least difference that this number of seeds shows with probability 0.8, and how
    many seeds would decide what these show. Rows that differ in schedule, warm start, batches, price of a gradient, or
    of which one was tuned, are compared only if --differs says so.

    Examples:
        bench compare csgld sgld --differs schedule
        bench compare csgld sgld --task mixture25 --metric modes_covered --differs schedule
    """
    return compared(bench, a, b, task=task, metric=metric, differs=differs)


def compared(
    bench: Bench,
    a: str,
    b: str,
    *,
    task: Sequence[str] | None = None,
    metric: Sequence[str] | None = None,
    differs: Sequence[str] | None = None,
    within: Request = ALL,
) -> Result:
    """Return the comparison that `bench compare A B` prints, of the runs that a request selects."""
    if a == b:
        raise UsageError(f"A and B are both {a!r}; give a label or group key to compare rows of one method")
    named = terms(words(differs))
    scores, sides = _scores(bench, bench.store(), a, b, task, within)
    for name in (wanted := words(metric)):
        check_metric(scores, name, by_seed=True)
    comparisons = [
        (score, left, right, compared)
        for score, pairs in _fair(bench, _current(bench, [(s, _pairs(bench, s, sides)) for s in scores]), named)
        for left, right in pairs
        for name in wanted or dict.fromkeys([*(UNGATED[:4] if score.truth_known else ()), score.primary])
        if (compared := score.compare(left, right, name)) is not None
    ]
    if not comparisons:
        raise UsageError(_nothing(scores, sides))
    judged = judge([compared for *_, compared in comparisons])
    rows = [_record(score, left, right, one) for (score, left, right, _), one in zip(comparisons, judged, strict=True)]
    return Result([_table(score, rows) for score in scores if _of(score, rows)], rows)


def _scores(
    bench: Bench, store: Store, a: str, b: str, task: Sequence[str] | None, within: Request
) -> tuple[list[FieldScore], tuple[Selector, Selector]]:

    registry = bench.registry
    offered = [offer.name for kind in ("samplers", "methods") for offer in registry.offers(kind)]
    a, b = (registry.spelled(word, offered) for word in (a, b))
    sides = side(store, a, offered), side(store, b, offered)
    seen = {row["task"] for row in store.rows("select distinct task from result")}
    parts = [word.partition("@") for word in words(task)]
    asked = [registry.spelled(name, seen) + at + protocol for name, at, protocol in parts]
    for name in [word.partition("@")[0] for word in asked]:
        if name not in seen:
            raise UsageError(f"there is no finished run of task {name!r:.80} here{suggestions(name, seen)}")
    methods = tuple(dict.fromkeys(selector.method for selector in sides))
    tasks = tuple({word.partition("@")[0] for word in asked})
    scores = score_fields(store, replace(within, tasks=tasks, methods=methods, registry=registry))
    fits = {(*word.partition("@")[::2],) for word in asked}
    chosen = [
        s for s in scores if not fits or fits & {(s.groups[0].task, ""), (s.groups[0].task, s.groups[0].protocol)}
    ]
    return chosen, sides


def _pairs(bench: Bench, score: FieldScore, sides: tuple[Selector, Selector]) -> Pairs:

    (left, older), (right, old) = (members(selector, score.groups) for selector in sides)
    if not left or not right:
        return []
    for group in [*older, *old]:
        bench.say(f"note: {score.title}: {group.key[:12]} ({group.method}) was run with older code and is left out")
    pairs = [(x, y) for x in left for y in right if x.key != y.key]
    return sorted(pairs, key=lambda pair: [score.labels[group.key] for group in pair])


def _current(bench: Bench, fields: Sequence[tuple[FieldScore, Pairs]]) -> list[tuple[FieldScore, Pairs]]:
    """The fields and their pairs. If a pair ran on a task's current code, pairs on older code are left out."""
    kept = []
    current = [pair for _, pairs in fields for pair in pairs if pair[0].task_code and pair[0].task_code.current]
    for score, pairs in fields:
        older = bool(pairs) and any(pairs[0][0].differs_in_code(other) for other, _ in current)
        if older:
            bench.say(f"note: {score.title}: runs on older code of the task are left out")
        kept += [] if older else [(score, pairs)]
    return kept


def _fair(
    bench: Bench, fields: Sequence[tuple[FieldScore, Pairs]], named: Sequence[Term]
) -> list[tuple[FieldScore, Pairs]]:
    """Return the fields with the pairs that differ in nothing but what the command names; say which are left out.

    Raise `UsageError` if there is no other pair.
    """
    reasons = {
        f"{score.labels[a.key]} and {score.labels[b.key]} on {a.task}@{a.protocol}: {why}"
        for score, pairs in fields for a, b in pairs if (why := refusal(a, b, named))
    }  # fmt: skip
    fair = [(score, [pair for pair in pairs if not refusal(*pair, named)]) for score, pairs in fields]
    if reasons and not any(pairs for _, pairs in fair):
        about = f"; what the comparison is about is named by --differs, of {', '.join(Term)}"
        raise UsageError(f"not compared: {'; '.join(sorted(reasons))}{about}")
    for reason in sorted(reasons):
        bench.say(f"note: not compared: {reason}")
    return fair


def _nothing(scores: Sequence[FieldScore], sides: tuple[Selector, Selector]) -> str:
    """Why no pair was found: where each side was run."""
    groups = [[group for s in scores for group in members(selector, s.groups)[0]] for selector in sides]
    for a, b in itertools.product(*groups):
        if a.differs_in_code(b):
            code = [
                f"{selector.word} on {g.task_code.text}"
                for selector, g in zip(sides, (a, b), strict=True)
                if g.task_code
            ]
            return (
                f"{a.task}@{a.protocol} had other code or data in the runs of {sides[0].word} than in those of "
                f"{sides[1].word}: results on different targets are not compared ({'; '.join(code)}); run both again "
                "with the current code"
            )
    run_on = []
    for selector in sides:
        titles = [score.title for score in scores if members(selector, score.groups)[0]]
        if not titles and selector.label:
            known = sorted({s.labels[g.key] for s in scores for g in s.groups if g.method == selector.method})
            return f"there is no row {selector.label!r}; of {selector.method} there are: {'; '.join(known)}"
        run_on.append(f"{selector.word} was run on: {'; '.join(titles) or 'nothing'}")
    return (
        f"nothing to compare: there is no task, version, protocol, budget, number of chains and task setting on which "
        f"both were run. {'. '.join(run_on)}"
    )


def _record(score: FieldScore, a: Group, b: Group, comparison: Comparison) -> Row:
    gates = {name: score.gates[group.key] for name, group in (("a", a), ("b", b))}
    return {
        "task": a.task, "task_version": a.task_version, "protocol": a.protocol, "budget": a.budget,
        "chains": a.chains, "a": score.labels[a.key], "b": score.labels[b.key], "a_group": a.key, "b_group": b.key,
        "metric": comparison.metric, "metric_version": comparison.version, "unit": comparison.unit,
        "direction": comparison.direction, "target": comparison.target, "a_mean": comparison.a, "b_mean": comparison.b,
        **comparison.record(), "seeds": comparison.pairs, "margin": comparison.margin,
        "withheld": comparison.withheld or None,
        "unpaired": [f"seed {seed}: {why}" for seed, why in comparison.unpaired.items()],
        **{f"{name}_gate": gate.verdict if gate else None for name, gate in gates.items()},
        **{f"{name}_gate_reason": gate.reason if gate else None for name, gate in gates.items()},
        "a_diverged": len(a.diverged), "b_diverged": len(b.diverged), "a_failed": len(a.failed),
        "b_failed": len(b.failed),
    }  # fmt: skip


def _of(score: FieldScore, rows: Sequence[Row]) -> list[Row]:
    keys = {group.key for group in score.groups}
    return [row for row in rows if row["a_group"] in keys]


def _table(score: FieldScore, rows: Sequence[Row]) -> Table:
    shown = _of(score, rows)
    columns = [
        Column("a", "A"), Column("b", "B"), Column("metric", "metric"), Column("verdict", "A is"),
        Column("effect", "A - B, or A / B", "right"), Column("a_mean", "of A", "right", number),
        Column("b_mean", "of B", "right", number), Column("p", "p", "right", _p), Column("pairs", "pairs", "right"),
        Column("detectable", "seen with these", "right"), Column("needed", "seeds to decide", "right"),
    ]  # fmt: skip
    cells = [
        {
            **row,
            "verdict": _verdict(row),
            "effect": _effect(row),
            "detectable": _detectable(row),
            "needed": _needed(row),
        }
        for row in shown
    ]
    return Table(score.title, columns, cells, _notes(shown), keys=5)


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = [
        f"{row['metric']}: {row['interval']} interval at {100 * row['level']:.4g} %; p by {row['test']}"
        for row in rows
        if row["test"]
    ]
    if notes:
        notes += [TOGETHER, SEEDS]
    notes += [
        f"{row['metric']}: the difference is of the distances from {row['target']:g}"
        for row in rows
        if row["direction"] == "target" and row["target"] is not None
    ]
    for row in rows:
        if why := row["withheld"]:
            for name in "ab":  # a note of its own has the reason
                why = why.replace(f": {row[f'{name}_gate_reason']}", "")
            notes.append(f"{row['metric']} of {row['a']} (A) and {row['b']} (B): undecided: {why}")
        notes += [
            f"{row[name]} is {row[f'{name}_gate']}: {row[f'{name}_gate_reason']}" for name in "ab" if _off(row, name)
        ]
    notes += [f"not paired, {row['a']} (A) and {row['b']} (B), {why}" for row in rows for why in row["unpaired"]]
    return list(dict.fromkeys(notes))


def _off(row: Row, name: str) -> bool:
    return row[f"{name}_gate"] not in {None, "ok"}


def _effect(row: Row) -> str:
    """The effect with its interval: "-3.1 [-4.0, -2.2]", or for a ratio "x 0.5 [0.4, 0.7]"."""
    if row["effect"] is None:
        return "-"
    ends = "" if row["low"] is None else f" [{number(row['low'])}, {number(row['high'])}]"
    return f"{_sign(row)}{number(row['effect'])}{ends}"


def _verdict(row: Row) -> str:
    """The outcome, with the nearer end of the interval if there is a difference: "better, x 0.7 or further"."""
    if row["test"] and not row["withheld"] and row["low"] is None and row["high"] is None:
        return statistics.Verdict.TOO_FEW
    if row["nearer"] is None:
        return row["outcome"] or PairOutcome.UNDECIDED
    return f"{row['outcome']}, {_sign(row)}{number(row['nearer'])} or further"


def _detectable(row: Row) -> str:
    return "-" if row["detectable"] is None else f"{_sign(row)}{number(row['detectable'])}"


def _needed(row: Row) -> str:
    """How many seeds would decide; "-" without a test, or if something else withholds the verdict."""
    if row["test"] is None or row["withheld"]:
        return "-"
    return f"{row['seeds_to_decide']:,}" if row["seeds_to_decide"] else "> 10,000"


def _sign(row: Row) -> str:
    return "x " if row["scale"] == "ratio" else ""


def _p(value: float) -> str:
    return "<1e-4" if value < 1e-4 else f"{value:.{2 if value >= 0.1 else 4 if value < 0.01 else 3}f}"


@dataclass(frozen=True)
class Selector:
    """One side of a comparison: the given `word`, its method, and the group key or the label if the word is one."""

    word: str
    method: str
    key: str = ""
    label: str = ""


def side(store: Store, word: str, offered: Iterable[str]) -> Selector:
    """Return what a word selects among the runs of a store. `offered` are the methods that could be run.

    Raises `UsageError` with near matches for an unknown name, and for a key that matches several groups.
    """
    seen = {row["method"] for row in store.rows("select distinct method from result")}
    if word in seen:
        return Selector(word, word)
    if KEY.fullmatch(word):
        return _by_key(store, word.lower())
    method = word.partition(" (")[0]
    if method in seen and word.endswith(")"):
        return Selector(word, method, label=word)
    if word in set(offered):
        raise UsageError(f"{word} has no finished run in {store.results}; bench run --sampler {word} --task ...")
    raise UsageError(f"there is no row {word!r:.80} in {store.results}{suggestions(word, seen)}")


def members(selector: Selector, field: Sequence[Group]) -> tuple[list[Group], list[Group]]:
    """Return the groups of a field that a selector selects, and the groups of older code.

    A method's name selects the newest of the groups that differ only in their code.
    """
    if selector.key:
        return [group for group in field if group.key == selector.key], []
    if selector.label:
        named = labels(field)
        return [group for group in field if named[group.key] == selector.label], []
    newest: dict[str, Group] = {}
    groups = [group for group in field if group.method == selector.method]
    for group in sorted(groups, key=lambda group: max(run.attempt for run in group.runs)):
        newest[_settings(group)] = group
    chosen = [group for group in groups if group in newest.values()]
    return chosen, [group for group in groups if group not in chosen]


def _by_key(store: Store, prefix: str) -> Selector:
    rows = store.rows(
        "select distinct group_key, method, task, protocol from result "
        "where starts_with(group_key, ?) or starts_with(run_key, ?) order by all",
        [prefix, prefix],
    )
    if len(rows) == 1:
        return Selector(prefix, rows[0]["method"], key=rows[0]["group_key"])
    if rows:
        several = ", ".join(f"{r['group_key'][:12]} ({r['method']} on {r['task']}@{r['protocol']})" for r in rows[:5])
        raise UsageError(f"{prefix} matches {len(rows)} rows; give more digits: {several}")
    raise UsageError(f"there is no run or row {prefix} in {store.results}; `bench ls runs` lists them")


def _settings(group: Group) -> str:
    """Return the settings of a group, without the versions of code, as JSON."""
    return json.dumps({name: value for name, value in group.settings.items() if not is_hash(name)}, sort_keys=True)
