"""The performance profile of Dolan and More: how often a method is near the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import Result, UsageError
from harness.reports import Column, Figure, Report, Request, Table
from reports.across import Across, across
from reports.figures.parts import Array, legend_below, legend_height, logarithmic
from reports.figures.ranks import NOTHING
from reports.figures.styles import FAINT, looks
from reports.tables.wide import JOINT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.reports import Store

UNSOLVED = 1.0
"""The joint error from which on a task counts as unsolved: that of a single exact draw."""
FACTORS = (1.0, 2.0, 10.0)
"""Factors in the table."""
NAMED = 8
"""Lines in colour, those with the largest area; if there are many methods, only `BANDS` of them have a band."""
BANDS = 3
SAID = 6
"""Most methods that the legend names as not shown."""
POINTS = 160
WIDTH = 7.2
APART = 0.007
BAND = "95 % interval over seeds"
CAPTION = (
    "The share of the tasks on which a method's {metric} is at most tau times that of the best method there; a task on "
    "which a run diverged{unsolved} or that the method cannot run on counts as unsolved, at every tau. At tau = 1: "
    "the share on which it is the best. "
    "Bands: 95 % bootstrap intervals over seeds; the tasks are fixed, not sampled, and of many methods the three of "
    "the largest area have one. Lines are shifted up or down by less than 0.03 so that all are seen. Tasks: "
    "{tasks}.{more}"
)


class Profile(Report):
    """The share rho(tau) of tasks on which a method is within a factor tau of the best, by the joint error at the end
    of equal budgets, or by `request.metric` (for example data passes to low error), among the methods with a value on
    all of them (`reports.across`).

        rho_m(tau) = |{t: e_mt <= tau min_k e_kt}| / T,   e_mt infinite if m did not solve t

    The joint error is the default because every finished row has one; data passes to low error need 32 chains x seeds
    and are infinite for most rows at budgets of minutes. A joint error of 1 is that of one exact draw: at or above it a
    task is unsolved, and so is one that a method cannot run on. The methods that lack a value for another reason are
    left out, and named with it. The band is over the seeds: the tasks are fixed. A profile depends on which methods are
    in it, through the best one. Source: E. D. Dolan, J. J. More, "Benchmarking optimization software with performance
    profiles", Mathematical Programming 2002.
    """

    name: ClassVar[str] = "profile"

    def build(self, store: Store, request: Request) -> Result:
        scores = across(store, request, unable=True)
        if scores is None:
            return Result(notes=[NOTHING])
        if (scores.values < 0).any():
            raise UsageError(
                f"a profile needs a metric whose lowest value is best, not {scores.metric}; try joint_error"
            )
        profile = profiles(scores.values, scores.replicates, UNSOLVED if scores.metric == JOINT else np.inf)
        order = np.argsort(-profile.area, kind="stable")
        records = [_record(scores, profile, m, factor) for m in order for factor in (*FACTORS, np.inf)]
        unsolved = ", whose joint error is 1 (one exact draw) or more," if scores.metric == JOINT else ""
        reasons = {"Cannot run": scores.unable, "Left out": scores.left_out}
        more = "".join(f" {kind}: {'; '.join(why)}." for kind, why in reasons.items() if why)
        caption = CAPTION.format(metric=scores.words, unsolved=unsolved, tasks=scores.listed, more=more)
        height = 3.3 + legend_height([scores.names[scores.methods[m]] for m in order[:NAMED]], WIDTH)
        figure = Figure("profile", lambda canvas: _draw(canvas, scores, profile, order), (WIDTH, height), caption)
        if not np.isfinite(profile.ratios).any():
            return Result([_table(scores, records, order)], records, notes=["no figure: no method solved any task"])
        return Result([_table(scores, records, order)], records, [figure])


@dataclass(frozen=True, eq=False)
class Profiles:
    """The profiles of M methods: ratios to the best (M, T) and their replicates (M, T, B), infinite if unsolved."""

    ratios: Array
    replicates: Array

    @property
    def greatest(self) -> float:
        """The greatest finite ratio, at least 10."""
        return float(max(self.ratios[np.isfinite(self.ratios)].max(initial=1.0), 10.0))

    @property
    def area(self) -> Array:
        """The area (M,) under each profile over log tau: the task mean of log(greatest / ratio), 0 if unsolved."""
        return np.asarray(np.log(self.greatest / np.minimum(self.ratios, self.greatest)).mean(axis=1))

    def share(self, tau: float) -> Array:
        """Return the share (M,) of the tasks within a factor tau."""
        return _within(self.ratios, tau).mean(axis=1)

    def interval(self, tau: float) -> tuple[Array, Array]:
        """Return the 2.5 and 97.5 % quantiles of the share over the replicates, widened to include the share itself."""
        shares = _within(self.replicates, tau).mean(axis=1)
        low, high = np.quantile(shares, [0.025, 0.975], axis=1)
        return np.minimum(low, self.share(tau)), np.maximum(high, self.share(tau))


def profiles(values: Array, replicates: Array, unsolved: float) -> Profiles:
    """Return profiles of errors or costs (M, T) with paired replicates (M, T, B); from `unsolved` on infinite."""
    return Profiles(_ratios(values, unsolved), _ratios(replicates, unsolved))


def _ratios(values: Array, unsolved: float) -> Array:
    solved = values < unsolved
    best = np.where(solved, values, np.inf).min(axis=0)
    with np.errstate(invalid="ignore"):
        return np.where(solved, values / best, np.inf)


def _within(ratios: Array, tau: float) -> NDArray[np.bool_]:
    return np.isfinite(ratios) & (ratios <= tau * (1 + 1e-12))


def _record(scores: Across, profile: Profiles, m: int, factor: float) -> dict[str, Any]:
    low, high = profile.interval(factor)
    name = scores.methods[m]
    return {
        "method": name, "metric": scores.metric, "tasks": scores.task_names, "factor": factor,
        "share": float(profile.share(factor)[m]), "low": float(low[m]), "high": float(high[m]),
        "interval": "bootstrap over seeds 95 %", "run_keys": scores.run_keys[name],
    }  # fmt: skip


def _table(scores: Across, records: Sequence[Mapping[str, Any]], order: NDArray[np.int64]) -> Table:
    by = {(r["method"], r["factor"]): r for r in records}
    names = {factor: f"within {factor:g} x" for factor in FACTORS} | {1.0: "best", np.inf: "solved"}
    rows = [
        {"method": scores.names[scores.methods[m]]}
        | {
            names[factor]: f"{r['share']:.0%} [{r['low']:.0%}, {r['high']:.0%}]"
            for factor in names
            if (r := by[scores.methods[m], factor])
        }
        for m in order
    ]
    columns = [Column("method", "method"), *(Column(name, name, "right") for name in names.values())]
    rule = "; unsolved: a joint error of 1, that of one exact draw, or more" if scores.metric == JOINT else ""
    notes = [
        f"share of the {len(scores.tasks)} tasks with a {scores.words} within a factor of the best",
        f"by the area under the profile; diverged runs are unsolved{rule}",
        "[ ]: 95 % bootstrap over seeds; the tasks are fixed, not sampled",
        *scores.notes,
    ]
    return Table(f"Performance profile over tasks: {scores.pool}", columns, rows, notes)


def _draw(canvas: Any, scores: Across, profile: Profiles, order: NDArray[np.int64]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    ax = canvas.subplots()
    styles = looks(scores.methods)
    greatest = 1.15 * profile.greatest
    taus = np.unique(np.concatenate([np.geomspace(1, greatest, POINTS), profile.ratios[profile.ratios <= greatest]]))
    shares = np.stack([profile.share(tau) for tau in taus], axis=1)
    ends = np.stack([profile.interval(tau) for tau in np.geomspace(1, greatest, POINTS)], axis=2)
    handles: dict[str, Any] = {}
    for k, m in reversed(list(enumerate(order))):
        if k >= NAMED:
            ax.step(taus, shares[m], where="post", color=FAINT, linewidth=0.7, zorder=1)
            continue
        style = {"markevery": (0.06 * k, 0.16), "markersize": 4.5, **styles[scores.methods[m]]}
        shift = APART * (min(len(order), NAMED) / 2 - k)
        (line,) = ax.step(taus, shares[m] + shift, where="post", linewidth=1.6, zorder=3, **style)
        handles[scores.names[scores.methods[m]]] = line
        if k < (BANDS if len(order) > 2 * BANDS else NAMED):
            ax.fill_between(
                np.geomspace(1, greatest, POINTS), ends[0, m], ends[1, m], step="post",
                color=style["color"], alpha=0.12, linewidth=0, zorder=2,
            )  # fmt: skip
    handles = dict(reversed(handles.items()))
    if len(order) > NAMED:
        handles[f"{len(order) - NAMED} other methods"] = Line2D([], [], color=FAINT, linewidth=0.7)
    handles[BAND] = Patch(color="#777777", alpha=0.3, linewidth=0)
    logarithmic(ax, rf"factor $\tau$ of the best method's {scores.words}")
    ax.set(xlim=(1, greatest), ylim=(-0.05, 1.05))
    ax.set_ylabel(f"share of the {len(scores.tasks)} tasks within it")
    ax.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    legend_below(canvas, handles, _missing(scores.missing))


def _missing(names: Sequence[str]) -> str:
    """Return which methods are not in the figure, for its legend; the caption has the reasons."""
    more = f" and {len(names) - SAID} others" if len(names) > SAID else ""
    return f"not shown, without a value on all tasks: {', '.join(names[:SAID])}{more}" if names else ""
