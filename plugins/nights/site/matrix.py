"""The matrix of methods by kinds of task, and what its verdicts say in three sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean, median

from harness import statistics
from harness.reports import number
from harness.system import count
from plugins.nights.site.model import Site, SiteField, SiteRow

SHADES = ((2.0, "near"), (10.0, "apart"), (math.inf, "far"))
"""Names of the shades by the largest factor to the best that has them; rows that lead have the shade `lead`."""
NAMED = 4
"""Most names in a sentence."""
FEW = 2
"""Most tasks whose leaders are named one by one."""
ALL = "all kinds"


@dataclass(frozen=True)
class MatrixCell:
    """A method on the tasks of a column.

    text, cost   the factor to the best, of a metric without factors the value, or why there is none; data passes to
                 low error
    shade        "lead", "near", "apart" or "far" by the factor; "none" without a factor
    detail       what a reader is told who points at it: each task with its verdict
    badges       caveats
    rows         the keys of the rows behind it
    """

    text: str = ""
    cost: str = ""
    shade: str = "none"
    detail: str = ""
    badges: Sequence[str] = ()
    rows: Sequence[str] = ()


@dataclass(frozen=True)
class Matrix:
    """Methods by columns, for a budget and a kind of task. The columns are kinds, or the tasks of one kind."""

    budget: str
    kind: str
    columns: Sequence[str]
    lines: Sequence[tuple[str, Sequence[MatrixCell]]]


@dataclass(frozen=True)
class Pick:
    """A row that stands for its method in a field, with its factor to the best, if the metric has factors."""

    field: SiteField
    row: SiteRow
    factor: float | None = None

    @property
    def leads(self) -> bool:
        """Whether the row is best or tied with the best."""
        return self.row.rank is not None and self.row.verdict in statistics.LEADS


def matrices(site: Site) -> list[Matrix]:
    """Return a matrix for each budget and kind, the budget with the most ranked rows first, and its overview first."""
    kind_of = {task.name: task.family for task in site.tasks}
    shown: list[Matrix] = []
    for budget in budgets(site):
        picks = [pick for one in chosen(site.fields, budget) for pick in picks_of(one)]
        kinds = sorted({kind_of[pick.field.task] for pick in picks})
        if len(kinds) > 1:
            shown.append(_matrix(budget, ALL, kinds, picks, lambda pick: kind_of[pick.field.task]))
        for kind in kinds:
            of_kind = [pick for pick in picks if kind_of[pick.field.task] == kind]
            tasks = sorted({pick.field.task for pick in of_kind})
            shown.append(_matrix(budget, kind, tasks, of_kind, lambda pick: pick.field.task))
    return shown


def budgets(site: Site) -> list[str]:
    """Return the budgets of a site, the one with the most ranked rows first."""
    ranked = Counter[str]()
    for one in site.fields:
        ranked[one.budget] += one.ranked
    return sorted(ranked, key=lambda budget: (-ranked[budget], budget))


def chosen(fields: Iterable[SiteField], budget: str) -> list[SiteField]:
    """Return the field of each task at a budget: that with the most ranked rows, and of those the longest."""
    by_task: dict[str, SiteField] = {}
    for one in fields:
        known = by_task.get(one.task)
        size = (one.ranked, one.steps, one.chains)
        if one.budget == budget and (known is None or size > (known.ranked, known.steps, known.chains)):
            by_task[one.task] = one
    return list(by_task.values())


def picks_of(one: SiteField) -> list[Pick]:
    """Return the row of each method of a field: that with the most equal settings, as `SiteRow.preference` says."""
    rows: dict[str, SiteRow] = {}
    for row in one.rows:
        if row.method not in rows or row.preference > rows[row.method].preference:
            rows[row.method] = row
    values = [row.mean for row in one.rows if row.rank is not None and row.mean is not None]
    best = min(values, default=0.0)
    ratio = one.metric == "joint error" and best > 0
    return [
        Pick(one, row, row.mean / best if ratio and row.rank is not None and row.mean is not None else None)
        for row in rows.values()
    ]


def _matrix(
    budget: str, kind: str, columns: Sequence[str], picks: Sequence[Pick], column_of: Callable[[Pick], str]
) -> Matrix:
    sorted_picks: dict[str, dict[str, list[Pick]]] = {}
    for pick in picks:
        sorted_picks.setdefault(pick.row.method, {}).setdefault(column_of(pick), []).append(pick)
    tasks = Counter(column_of(pick) for pick in {pick.field.title: pick for pick in picks}.values())
    lines = [
        (method, [_cell(by_column.get(name, ()), tasks[name]) for name in columns])
        for method, by_column in sorted_picks.items()
    ]
    order = {method: _order([pick for part in by.values() for pick in part]) for method, by in sorted_picks.items()}
    return Matrix(budget, kind, columns, sorted(lines, key=lambda line: (order[line[0]], line[0])))


def _order(picks: Sequence[Pick]) -> tuple[float, float]:
    """Return a sort key: most leads first, then the lowest mean factor; unranked rows last."""
    factors = [math.log(pick.factor) for pick in picks if pick.factor]
    ranked = sum(pick.row.rank is not None for pick in picks)
    share = sum(pick.leads for pick in picks) / len(picks)
    return -share, fmean(factors) if factors else math.inf if not ranked else 0.0


def _cell(picks: Sequence[Pick], tasks: int) -> MatrixCell:
    if not picks:
        return MatrixCell("not run")
    ranked = [pick for pick in picks if pick.row.rank is not None]
    badges = Counter(caveat for pick in picks for caveat in pick.row.caveats)
    several = tasks > 1
    shown = [f"{name} on {times} of {len(picks)}" if several else name for name, times in sorted(badges.items())]
    detail = "; ".join(f"{pick.field.task}: {pick.row.verdict or pick.row.status} {pick.row.value}" for pick in picks)
    keys = [pick.row.key for pick in picks]
    if not ranked:
        return MatrixCell("no rank", "", "none", detail, shown, keys)
    factors = [pick.factor for pick in ranked if pick.factor is not None]
    leads = sum(pick.leads for pick in ranked)
    if factors:
        factor = geometric_mean(factors)
        text = f"{number(factor)}\N{MULTIPLICATION SIGN}" if math.isfinite(factor) else "infinite"
        shade = next(name for most, name in SHADES if factor < most or math.isinf(most))
    else:
        mean = ranked[0].row.mean
        text = f"best or tied on {leads} of {len(ranked)}" if several or mean is None else number(mean)
        shade = "far" if all(pick.row.verdict == statistics.Verdict.WORSE for pick in ranked) else "none"
    shade = "lead" if leads == len(ranked) == tasks else shade
    if len(ranked) < tasks:
        text += f" ({len(ranked)} of {tasks} tasks)"
    undecided = sum(not pick.leads and pick.row.verdict != statistics.Verdict.WORSE for pick in ranked)
    text += " ?" if undecided else ""
    return MatrixCell(text, _cost(ranked), shade, detail, shown, keys)


def _cost(picks: Sequence[Pick]) -> str:
    """Return the data passes to low error, of several tasks the median of those on which it was reached."""
    costs = [pick.row.cost for pick in picks if pick.row.cost is not None]
    if not costs:
        return ""
    reached = [cost for cost in costs if math.isfinite(cost)]
    if not reached:
        return "low error not reached"
    share = f", {len(reached)} of {len(costs)} tasks" if len(costs) > 1 else ""
    return f"{number(median(reached))} passes{share}"


def heading(site: Site) -> str:
    """Return what a site is a study of: "Comparison of 4 samplers on 3 tasks: gaussian2d, blr-heart and mixture25"."""
    if not site.fields:
        return site.name
    methods = {row.method for one in site.fields for row in one.rows}
    tasks = sorted({one.task for one in site.fields})
    named = f": {listed(tasks)}" if len(tasks) <= NAMED else ""
    return f"Comparison of {count(len(methods), 'sampler')} on {count(len(tasks), 'task')}{named}"


def conclusion(site: Site) -> list[str]:
    """Return three sentences from the verdicts at the budget with the most ranked rows: who leads, what is not
    decided, and what low error cost; [] if no row is ranked.
    """
    for budget in budgets(site)[:1]:
        fields = chosen(site.fields, budget)
        picks = [pick for one in fields for pick in picks_of(one)]
        ranked = [pick for pick in picks if pick.row.rank is not None]
        if ranked:
            return [_leaders(ranked, budget), _undecided(picks, ranked), _cheapest(ranked)]
    return []


def _leaders(ranked: Sequence[Pick], budget: str) -> str:
    tasks = {pick.field.task for pick in ranked}
    leads = Counter(pick.row.method for pick in ranked if pick.leads)
    budget = str(budget)
    at = f"At the {budget} budget" if "=" not in budget else f"At {budget.replace('=', ' ')}"
    if not leads:
        return f"{at}, no sampler is best or tied with the best by a test on any of {count(len(tasks), 'task')}."
    if len(tasks) == len({pick.field.title for pick in ranked}) <= FEW:
        of_tasks = [[pick for pick in ranked if pick.field.task == task] for task in sorted(tasks)]
        return f"{at}, {'; '.join(map(_on_task, of_tasks))}."
    groups: dict[int, list[str]] = {}
    for method, times in sorted(leads.items()):
        groups.setdefault(times, []).append(method)
    most = sorted(groups, reverse=True)[:2]
    parts = [
        f"{listed(groups[times])} {'is' if len(groups[times]) == 1 else 'are'} best or tied with the best on "
        f"{times} of {count(len(tasks), 'task')}"
        for times in most
    ]
    return f"{at}, {'; '.join(parts)}."


def _on_task(ranked: Sequence[Pick]) -> str:
    """Return who leads on a task, and by how much: "on ring a is best, then b at 1.41 times the best joint error"."""
    first, names = ranked[0].field, sorted(pick.row.method for pick in ranked if pick.leads)
    if not names:
        return f"on {first.task} no sampler is best or tied with the best by a test"
    said = f"on {first.task} {listed(names)} {'is best' if len(names) == 1 else 'are best or tied with the best'}"
    others = [(pick.factor, pick.row.method) for pick in ranked if not pick.leads and pick.factor is not None]
    factor, method = min(others, default=(math.inf, ""))
    return f"{said}, then {method} at {number(factor)} times the best {first.metric}" if math.isfinite(factor) else said


def _undecided(picks: Sequence[Pick], ranked: Sequence[Pick]) -> str:
    verdicts = Counter(pick.row.verdict for pick in ranked)
    worse = verdicts[statistics.Verdict.WORSE]
    unknown = sum(
        times for verdict, times in verdicts.items() if verdict not in (*statistics.LEADS, statistics.Verdict.WORSE)
    )
    number_worse = f"{worse} are" if worse > 1 else "1 is" if worse else "none is"
    text = f"Of {count(len(ranked), 'ranked row')}, {number_worse} worse than the best"
    text += f" and {unknown} cannot be told from it with these seeds" if unknown else ""
    lost = Counter(pick.row.status.partition(":")[0] for pick in picks if pick.row.rank is None)
    left_out = ", ".join(f"{times} {why}" for why, times in sorted(lost.items()))
    return f"{text}; {count(sum(lost.values()), 'row')} without a rank: {left_out}." if lost else f"{text}."


def _cheapest(ranked: Sequence[Pick]) -> str:
    known = [pick for pick in ranked if pick.row.cost is not None]
    reached = [(pick.row.cost, pick) for pick in known if pick.row.cost is not None and math.isfinite(pick.row.cost)]
    if not known:
        return "The cost of low error is not known: it needs a known truth and 32 chains x seeds."
    text = f"Low error, 0.01, was reached by {len(reached)} of {count(len(known), 'row')} with a known cost"
    cheapest: dict[str, tuple[float, str]] = {}
    for cost, pick in reached:
        cheapest[pick.field.task] = min(cheapest.get(pick.field.task, (math.inf, "")), (cost, pick.row.method))
    named = [f"{method} on {task} ({number(cost)} data passes)" for task, (cost, method) in sorted(cheapest.items())]
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return f"{text}, at the lowest cost by {', '.join(named[:NAMED])}{more}." if named else f"{text}."


def listed(names: Sequence[str]) -> str:
    """Return names as in a sentence: "a, b and c"; of many the first ones and a number."""
    shown = list(names) if len(names) <= NAMED else [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
