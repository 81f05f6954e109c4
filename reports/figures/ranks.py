"""The mean ranks of methods over tasks, with the critical difference of Demsar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import Result, statistics
from harness.reports import Column, Figure, Report, Request, Table
from reports.across import FEWEST_TASKS, Across, across
from reports.figures.parts import Array, legend_below
from reports.figures.styles import FAINT, look

if TYPE_CHECKING:
    from harness.reports import Store

NOTHING = "no two methods have a value on the same task: a row needs five finished seeds on a task with a truth"
CAPTION = (
    "Large points: mean ranks over the tasks, 1 is best, with 95 % bootstrap intervals over seeds; the tasks are "
    "fixed, not sampled. Small grey points: the ranks on single tasks. Bars on the right join methods whose mean ranks "
    "differ by less than the critical difference CD of the Nemenyi test (5 %), shown at the top: the test, unlike the "
    "intervals, takes the tasks as a sample of independent tasks and does not use the seeds (Demsar 2006)."
)
MEAN, SINGLE, JOINED = "mean rank, 95 % interval over seeds", "rank on a task", "not told apart by Nemenyi"


class Ranks(Report):
    """Mean ranks over tasks by the joint error, or by `request.metric`, of the methods with a value on all of them
    (`reports.across`). A rank depends on the value only, ties share the mean of their ranks, diverged rows are last.

    The interval of a mean rank is by bootstrap over seeds, for these tasks. The figure adds the critical difference of
    Friedman's test with Nemenyi's comparisons as a secondary view. That treats the tasks as independent samples of all
    tasks of interest, and two methods differ if their mean ranks are at least

        CD = q_.05(k, inf) / sqrt 2 sqrt(k (k + 1) / (6 N))

    apart, for k methods on N tasks; of fewer than five tasks there is neither CD nor figure. Our tasks are few and
    similar (mixtures, logistic regressions), so its p is only a description. Source: J. Demsar, "Statistical
    comparisons of classifiers over multiple data sets", JMLR 2006.
    """

    name: ClassVar[str] = "ranks"

    def build(self, store: Store, request: Request) -> Result:
        scores = across(store, request)
        if scores is None:
            return Result(notes=[NOTHING])
        ranks = mean_ranks(scores.values, scores.replicates, scores.seeds)
        count = len(scores.tasks)
        records = _records(scores, ranks)
        if count < FEWEST_TASKS:
            few = f"no figure and no critical difference: both need {FEWEST_TASKS} tasks, and these are {count}"
            return Result([_table(scores, ranks, records)], records, notes=[few])
        figure = Figure(
            "ranks",
            lambda canvas: _draw(canvas, scores, ranks),
            (7.2, 1.9 + 0.24 * len(scores.methods)),
            f"Mean ranks by {scores.words}. {CAPTION}",
        )
        return Result([_table(scores, ranks, records)], records, [figure])


@dataclass(frozen=True, eq=False)
class MeanRanks:
    """Ranks (M, T), their means over tasks (M,) with ends, p of Friedman's test, and the critical difference.

    The last two are None of fewer than five tasks.
    """

    ranks: Array
    mean: Array
    low: Array
    high: Array
    p: float | None
    difference: float | None


def mean_ranks(values: Array, replicates: Array, seeds: int) -> MeanRanks:
    """Return the mean ranks of values (M, T), lower is better, with paired replicates (M, T, B) over `seeds` seeds.

    The interval is the mean rank plus and minus t sd(mean ranks of the replicates) sqrt(n / (n - 1)), within [1, M].
    """
    ranks = _ranks(values)
    mean = ranks.mean(axis=1)
    spread = _ranks(replicates).mean(axis=1).std(axis=1)
    half = statistics.t_multiplier(seeds - 1) * spread * np.sqrt(seeds / (seeds - 1))
    ends = np.clip([mean - half, mean + half], 1, len(values))
    few = values.shape[1] < FEWEST_TASKS
    tests = (None, None) if few else (friedman(ranks), critical_difference(*values.shape))
    return MeanRanks(ranks, mean, *ends, *tests)


def _ranks(values: Array) -> Array:
    """Return the ranks along the first axis, from 1; equal values share the mean of theirs."""
    lower = np.stack([(values < one).sum(axis=0) + (values <= one).sum(axis=0) for one in values])
    return (lower + 1) / 2


def friedman(ranks: Array) -> float | None:
    """Return p of Friedman's test that all mean ranks are equal, from ranks (M, T) with ties.

    It is in the F form of Iman and Davenport (1980); None with fewer than two tasks or if all values tie.
    """
    from scipy.stats import f

    k, n = ranks.shape
    spread = ((ranks - (k + 1) / 2) ** 2).sum()
    if n < 2 or not spread:
        return None
    chi = (k - 1) * n**2 * ((ranks.mean(axis=1) - (k + 1) / 2) ** 2).sum() / spread
    if n * (k - 1) - chi <= 1e-9:
        return 0.0
    return float(f.sf((n - 1) * chi / (n * (k - 1) - chi), k - 1, (k - 1) * (n - 1)))


def critical_difference(methods: int, tasks: int) -> float:
    """Return the critical difference of the mean ranks, by Nemenyi at 5 %."""
    from scipy.stats import studentized_range

    return float(studentized_range.isf(0.05, methods, np.inf) * np.sqrt(methods * (methods + 1) / (12 * tasks)))


def cliques(mean: Array, difference: float) -> list[tuple[int, int]]:
    """Return (first, last) of the longest runs of methods, in the order of mean ranks, within the difference."""
    ordered = np.sort(mean)
    spans = [(i, int(np.searchsorted(ordered, ordered[i] + difference)) - 1) for i in range(len(ordered))]
    return [
        (first, last)
        for k, (first, last) in enumerate(spans)
        if last > first and not any(last <= other for _, other in spans[:k])
    ]


def _records(scores: Across, ranks: MeanRanks) -> list[dict[str, Any]]:
    return [
        {
            "method": scores.methods[m], "metric": scores.metric, "tasks": scores.task_names,
            "mean_rank": float(ranks.mean[m]), "low": float(ranks.low[m]), "high": float(ranks.high[m]),
            "interval": "bootstrap over seeds 95 %",
            "ranks": {task: float(r) for task, r in zip(scores.task_names, ranks.ranks[m], strict=True)},
            "critical_difference": ranks.difference, "friedman_p": ranks.p,
            "run_keys": scores.run_keys[scores.methods[m]],
        }
        for m in np.argsort(ranks.mean, kind="stable")
    ]  # fmt: skip


def _table(scores: Across, ranks: MeanRanks, records: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        {
            "method": scores.names[r["method"]],
            "mean": r["mean_rank"],
            "ends": f"[{r['low']:.1f}, {r['high']:.1f}]",
            **r["ranks"],
        }
        for r in records
    ]
    columns = [Column("method", "method"), Column("mean", "mean rank", "right", ".2f"), Column("ends", "95 %", "right")]
    columns += [Column(task, task, "right", "g") for task in scores.task_names]
    test = "" if ranks.p is None else f"; Friedman p = {ranks.p:.2g}"
    apart = f"critical difference of mean ranks (Nemenyi, 5 %): {ranks.difference or 0:.2f}{test}"
    notes = [
        f"ranks by {scores.words}; ties share the mean rank; diverged rows are last",
        "95 %: bootstrap over seeds; the tasks are fixed, not sampled",
        *([f"{apart}; the tasks as a random sample"] if ranks.difference is not None else []),
        *scores.notes,
    ]
    return Table(f"Mean ranks over tasks: {scores.pool}", columns, rows, notes)


def _draw(canvas: Any, scores: Across, ranks: MeanRanks) -> None:
    from matplotlib.lines import Line2D

    order, difference = np.argsort(ranks.mean, kind="stable"), ranks.difference or 0.0
    ax, k = canvas.subplots(), len(order)
    for y, m in enumerate(order):
        style = look(scores.methods[m])
        ax.plot(ranks.ranks[m], np.full(len(scores.tasks), y), "o", color=FAINT, markersize=3.5, zorder=1)
        ax.plot([ranks.low[m], ranks.high[m]], [y, y], color=style["color"], linewidth=1.6, zorder=2)
        ax.plot(ranks.mean[m], y, markersize=6.5, markeredgecolor="white", zorder=3, **style)
    bar = {"color": "black", "linewidth": 2, "solid_capstyle": "butt"}
    for column, (first, last) in enumerate(cliques(ranks.mean, difference)):
        ax.plot([k + 0.35 + 0.022 * k * (column + 1)] * 2, [first - 0.3, last + 0.3], **bar)
    ax.plot([1, 1 + min(difference, k - 1)], [-1.15, -1.15], **bar)
    ax.text(1 + min(difference, k - 1), -1.15, f"  CD = {difference:.1f}", va="center", fontsize="small")
    ax.set(yticks=range(k), yticklabels=[scores.names[scores.methods[m]] for m in order], ylim=(k - 0.4, -1.7))
    ax.set(xlabel=f"rank by {scores.words} on {len(scores.tasks)} tasks (1 is best)")
    ax.set_xlim(left=1 - 0.03 * k)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(visible=True, axis="x", color="#e6e6e6", linewidth=0.6)
    ax.set_axisbelow(True)
    grey = "#555555"
    handles = {
        MEAN: Line2D([], [], color=grey, marker="o"), SINGLE: Line2D([], [], color=FAINT, marker="o", linestyle=""),
        JOINED: Line2D([], [], **bar),
    }  # fmt: skip
    legend_below(canvas, handles)
