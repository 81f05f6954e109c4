"""The decrease of the error against the truth: against data passes and against seconds, beside exact draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness import Result, diagnostics, statistics
from harness.reports import Column, Estimate, FieldScore, Group, Request, Table, typical
from harness.tasks import draw_grid
from reports.figures.charts import INK, chart
from reports.figures.charts import line as chart_line
from reports.figures.floor import ExactDraws, floor
from reports.figures.parts import (
    NOT_TIMED,
    Array,
    FieldReport,
    field_figure,
    legend_below,
    legend_height,
    logarithmic,
    record,
    seconds_a_pass,
    sparse,
)
from reports.figures.styles import FAINT, look, looks
from reports.tables import wide

JOINT, COST = "joint_error", "passes_to_low_error"
CURVES = ("joint_b2_z_max", "joint_b2_z2_max")
POINTS = 64
SD_FROM_EXACT = "sd from exact: joint error less that of exact draws, in sd of the latter"
FEWEST_DRAWS = 100
"""Fewest draws of a chain whose averages are normal, as `reports.figures.floor` takes them to be."""
NAMED = 8
"""Lines in colour: the methods with the lowest joint errors. A reader cannot follow more."""
BANDS = 3
"""Lines with a band, those with the lowest joint errors, if there are over twice as many lines."""
WIDTH, PANEL = 9.6, 2.4
"""Inches of the figure, and of the panel of seconds, which it has if any line was timed."""
AXES = ("gradients of a chain (data passes)", "seconds of sampling")
MEDIAN, RANKED = "b\N{SUPERSCRIPT TWO} of a typical chain", "joint error at the end"
BAND, FLOOR, LOW = "95 % interval", "exact draws", "low error: b\N{SUPERSCRIPT TWO} = 0.01"
LINES = (
    "Lines: the median over chains and seeds of b2, the squared error of a chain's averages in units of their "
    "variance, each chain in its own worst direction, the worse of z and z^2. Bands: 95 % bootstrap intervals over "
    "seeds, a seed with all its chains; of many methods, the three of the lowest joint error have one."
)
DASHES = (
    "Dashed: what as many independent exact draws would give as the method with the most draws had kept by then. "
    "{} b2 = 0.01, low error."
)
CAPTION = (
    f"{LINES} On the right, on an axis of its own, the joint error at the end of the budget, which ranks, with its "
    "95 % interval: the mean over chains and seeds in the worst direction common to all, of the shape too. "
    f"{DASHES.format('Dotted:')}"
)
OF_CHART = f"{LINES} {DASHES.format('The level dashed line:')} The joint error, which ranks, is in the table."
SECONDS = "Seconds are of sampling alone, from a timing pass of the rows in turns (`bench time`)."


class Convergence(FieldReport):
    """A figure for each field (task, protocol, chains, budget) with a truth: the error of a typical chain against data
    passes (every gradient counts) and, where `bench time` measured them, against seconds of sampling.

    A line is E(t) = max over f in {z, z^2} of the median over chains x seeds of b2_f(t), each chain in its own worst
    direction. The leaderboard's "data passes to low error" is where it stays below 0.01; at the end that also
    includes the shape. The joint error, another quantity, is stored for the end only, and has a panel of its own.
    Without finite values (diverged) a method has a row and no line. The floor is c / n for n exact draws
    (`reports.figures.floor`).
    """

    name: ClassVar[str] = "convergence"

    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        if not score.truth_known:
            return Result()
        banded = BANDS if sum(bool(group.done) for group in score.groups) > 2 * BANDS else NAMED
        ordered = enumerate(score.ordered(JOINT))
        lines = [line for k, group in ordered if (line := line_of(score, group, banded=k < banded)) is not None]
        if not lines:
            note = f"{score.title}: no curves of errors in its runs; `bench rescore` may add them, else run them again"
            return Result(notes=[note] if request.tasks else [])
        missing = [label for label in score.labels.values() if label not in {line.label for line in lines}]
        notes = [f"{label}: no curves of errors at the same passes in all its runs" for label in missing]
        known = floor(lines[0].group, request)
        exact = None if isinstance(known, str) else known
        notes += [f"{score.title}: {known}"] if isinstance(known, str) else []
        sizes = {len(line.group.runs) * line.group.chains for line in lines} if exact is not None else set()
        sds = {size: exact.joint_sd(size) for size in sizes} if exact is not None else {}
        records = [_record(name, line, exact, sds) for line in lines]
        timed = any(line.pace is not None for line in lines if line.drawn)
        width = WIDTH if timed else WIDTH - PANEL
        size = (width, 3.6 + legend_height(_named(lines), width))
        caption = f"{CAPTION} {SECONDS}" if timed else CAPTION
        figure = field_figure(name, score, lambda canvas: _draw(canvas, lines, exact), size, caption, score.title)
        figure = replace(figure, chart=_chart(lines, exact, score.title))
        return Result([_table(score.title, records)], records, [figure], notes if request.tasks else [])


@dataclass(frozen=True, eq=False)
class Line:
    """A method's curve: data passes x (n,), values, and their intervals; `counts` are the draws of a chain so far."""

    label: str
    group: Group
    x: Array
    values: Array
    low: Array
    high: Array
    counts: NDArray[np.int64] | None
    joint: Estimate | None
    cost: Estimate | None
    pace: float | None

    @property
    def drawn(self) -> bool:
        """Whether there is anything to draw."""
        return bool(np.isfinite(self.values).any())


def line_of(score: FieldScore, group: Group, *, banded: bool) -> Line | None:
    """Return the line of a group, with a band all along if `banded`; None if it has no curves of errors."""
    means, squares = (score.curve(group, name) for name in CURVES)
    if means is None or squares is None:
        return None
    seeds, (x, first) = means
    pick = np.unique(np.linspace(0, max(len(x) - 2, 0), POINTS).round().astype(int))  # the last one includes the shape
    curves = [first[:, pick], squares[1][1][:, pick]]
    values, low, high = typical_chain(curves, seeds, len(pick) if banded else 1)
    kept = typical(group.done.numbers.draws_kept)
    counts = None if not kept else draw_grid(SimpleNamespace(keep=np.ones(int(kept), dtype=bool)))  # type: ignore[arg-type]
    return Line(
        score.labels[group.key], group, x[pick], values, low, high,
        counts[pick] if counts is not None and len(counts) == len(x) else None,
        score.estimate(group, JOINT), score.estimate(group, COST), seconds_a_pass(group),
    )  # fmt: skip


def typical_chain(curves: Sequence[Array], seeds: Array, last: int | None = None) -> tuple[Array, Array, Array]:
    """Return the largest of the medians over rows of several curves (R, n), and the ends of its interval: (n,) each.

    The interval is by bootstrap over the seeds (R,) of the rows. Its ends are NaN before the `last` points, and if
    there is only one seed.
    """
    rows = [np.where(np.isnan(curve), np.inf, curve) for curve in curves]
    values = np.max([np.median(curve, axis=0) for curve in rows], axis=0)
    low, high = np.full((2, len(values)), np.nan)
    distinct, index = np.unique(seeds, return_inverse=True)
    if len(distinct) > 1:
        start = len(values) - (last or len(values))
        times = diagnostics.seed_counts(len(distinct))
        replicates = np.max([resampled_medians(curve[:, start:], index, times) for curve in rows], axis=0)
        for p, curve in enumerate(replicates.T, start):
            low[p], high[p] = statistics.bootstrap_interval(float(values[p]), curve, len(distinct))
    return values, low, high


def resampled_medians(rows: Array, seeds: NDArray[np.int64], times: Array) -> Array:
    """Return the medians (B, n) of rows (R, n) in which each row of seed s occurs times[b, s] times; seeds (R,)."""
    medians = np.empty((len(times), rows.shape[1]))
    of_seed = np.eye(times.shape[1], dtype=np.float32)[seeds]  # exact for whole numbers below 2^24, and fastest
    by_seed = np.ascontiguousarray(times.T, dtype=np.float32)
    half = of_seed.sum(axis=0) @ by_seed / 2
    for p, order in enumerate(rows.argsort(axis=0).T):
        below = of_seed[order].cumsum(axis=0) @ by_seed
        ends = (below < half).sum(axis=0), (below <= half).sum(axis=0)
        medians[:, p] = (rows[order[ends[0]], p] + rows[order[ends[1]], p]) / 2
    return medians


def _record(figure: str, line: Line, exact: ExactDraws | None, sds: Mapping[int, float]) -> dict[str, Any]:
    joint, cost, group = line.joint, line.cost, line.group
    kept = typical(group.done.numbers.draws_kept)
    alone = exact.joint(len(group.runs) * group.chains) / kept if exact is not None and kept else None
    mean = joint.mean if joint is not None else None
    sd = sds[len(group.runs) * group.chains] / kept if sds and kept and kept >= FEWEST_DRAWS else None
    passes = typical(group.done.numbers.passes)
    return record(
        figure, group, label=line.label, seeds=len(group.runs), draws=kept, passes=passes,
        seconds=group.seconds,
        typical_b2=float(line.values[-1]), typical_low=_known(line.low[-1]), typical_high=_known(line.high[-1]),
        joint_error=mean, low=joint.low if joint else None, high=joint.high if joint else None,
        interval=joint.interval if joint else "none", exact_draws=alone,
        times_exact=mean / alone if mean is not None and alone else None,
        sd_from_exact=(mean - alone) / sd if mean is not None and alone and sd else None,
        passes_to_low_error=cost.mean if cost else None, run_keys=[run.key for run in group.runs],
    )  # fmt: skip


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _table(heading: str, records: Sequence[Mapping[str, Any]]) -> Table:
    def ends(low: float | None, high: float | None) -> str:
        return "-" if low is None else f"[{low:.3g}, {high:.3g}]"

    rows = [
        {
            **r,
            "joint_ends": ends(r["low"], r["high"]),
            "typical_ends": ends(r["typical_low"], r["typical_high"]),
            "seconds": NOT_TIMED if r["seconds"] is None else f"{r['seconds']:.3g}",
        }
        for r in records
    ]
    columns = [
        Column("label", "method"), Column("seeds", "seeds", "right"),
        Column("joint_error", "joint error", "right", ".3g"), Column("joint_ends", "95 %", "right"),
        Column("exact_draws", "of as many exact draws", "right", ".2g"), Column("times_exact", "ratio", "right", ".3g"),
        Column("sd_from_exact", "sd from exact", "right", ".3g"),
        Column("typical_b2", "b2 of a typical chain", "right", ".3g"), Column("typical_ends", "95 %", "right"),
        Column("passes_to_low_error", "data passes to low error", "right", ".4g"),
        Column("passes", "data passes", "right", ".4g"), Column("seconds", "seconds", "right"),
    ]  # fmt: skip
    notes = [
        "joint error: at the end; of as many exact draws: expected of as many independent exact draws as the row kept",
        f"{SD_FROM_EXACT}; from {FEWEST_DRAWS} draws a chain on",
        "b2 of a typical chain: median over chains x seeds, each in its own worst direction, just before the end",
        "intervals by bootstrap over seeds, a seed with all its chains",
        "seconds are of sampling alone, from a timing pass (`bench time`)",
    ]
    return Table(heading, columns, rows, notes)


def _named(lines: Sequence[Line]) -> dict[str, Any]:
    """Return the labels of the legend, without handles."""
    labels = [line.label for line in lines if line.drawn]
    return dict.fromkeys([*labels[:NAMED], *([_others(labels)] if len(labels) > NAMED else []), BAND, FLOOR, LOW])


def _others(labels: Sequence[Any]) -> str:
    return f"{len(labels) - NAMED} other methods"


def _draw(canvas: Any, lines: Sequence[Line], exact: ExactDraws | None) -> None:
    from matplotlib.patches import Patch

    shown = [line for line in lines if line.drawn]
    styles = looks([line.label for line in lines])
    handles = _named(lines)
    timed = any(line.pace is not None for line in shown)
    *axes, end = canvas.subplots(1, 2 + timed, width_ratios=(*[1] * (1 + timed), 0.4))
    for ax in axes[1:]:
        ax.sharey(axes[0])
        ax.tick_params(labelleft=False)
    for k, line in reversed(list(enumerate(shown))):
        named = k < NAMED
        style = {**sparse(len(line.x), styles[line.label]), "linewidth": 1.4, "zorder": 3} if named else FAINT_STYLE
        for ax, scale in zip(axes, (1.0, line.pace), strict=False):
            if scale is None:
                continue
            (handle,) = ax.plot(scale * line.x, line.values, **style)
            handles[line.label if named else _others(shown)] = handle
            if named and not np.isnan(line.low[0]):
                ends = np.nan_to_num(np.stack([line.low, line.high]), nan=0.0, posinf=HUGE)
                ax.fill_between(scale * line.x, *ends, color=style["color"], alpha=0.15, linewidth=0, zorder=2)
        if named:
            _end(end, k, line)
    handles[BAND] = Patch(color="#777777", alpha=0.3, linewidth=0)
    for ax in axes:
        handles[LOW] = ax.axhline(diagnostics.THRESHOLD, color="black", linewidth=1, linestyle=":")
    if exact is not None and (most := most_draws(shown)) is not None:
        x, counts = most
        (handles[FLOOR],) = axes[0].plot(x, exact.typical / counts, **DASHED)
        rows = max(line.group.chains * len(line.group.runs) for line in shown)
        end.axhline(exact.joint(rows) / counts[-1], **DASHED)
    axes[0].set(ylim=_range(shown, exact), yscale="log", ylabel=MEDIAN)
    for ax, words in zip(axes, AXES, strict=False):
        logarithmic(ax, words)
        ax.grid(visible=True, which="major", color="#e6e6e6", linewidth=0.6)
    end.set(
        yscale="log",
        ylim=_ranked_range(shown),
        ylabel=RANKED,
        xlabel="methods",
        xticks=[],
        xlim=(-0.7, min(len(shown), NAMED) - 0.3),
    )
    end.grid(visible=True, axis="y", which="major", color="#e6e6e6", linewidth=0.6)
    legend_below(canvas, {label: handle for label, handle in handles.items() if handle is not None})


def _chart(lines: Sequence[Line], exact: ExactDraws | None, heading: str) -> Any:
    """Return all lines against data passes, with the floor and the bound of low error."""
    shown = [o for o in lines if o.drawn]
    styles = looks([o.label for o in lines])
    drawn = [chart_line(o.label, styles[o.label]["color"], o.x, o.values, o.low, o.high) for o in shown]
    if shown and exact is not None and (most := most_draws(shown)) is not None:
        drawn.append(chart_line(FLOOR, INK, most[0], exact.typical / most[1], dash=True))
    if shown:
        ends = np.array([min(o.x[0] for o in shown), max(o.x[-1] for o in shown)])
        drawn.append(chart_line(LOW, INK, ends, np.full(2, diagnostics.THRESHOLD), dash=True))
    return chart(AXES[0], MEDIAN, drawn, f"{heading}. {OF_CHART}")


FAINT_STYLE = {"color": FAINT, "linewidth": 0.7, "zorder": 1}
DASHED = {"color": "black", "linewidth": 1, "linestyle": "--"}
HUGE = 1e9


def _end(ax: Any, x: float, line: Line) -> None:
    """Draw the joint error with its interval."""
    ends, style = wide.with_ends(line.joint), look(line.group.method)
    if ends is None or not np.isfinite(ends[0]):
        return
    mean, low, high = ends
    ax.plot([x, x], [low, min(high, HUGE)], color=style["color"], linewidth=1.2, zorder=4)
    ax.plot([x], [mean], markersize=4.5, zorder=5, **style)


def most_draws(lines: Sequence[Line]) -> tuple[Array, Array] | None:
    """Return data passes, and the most draws that any line had kept by then; None if no line has counts."""
    known = [(line.x, line.counts) for line in lines if line.counts is not None]
    if not known:
        return None
    x = np.unique(np.concatenate([of_line for of_line, _ in known]))
    x = x[np.unique(np.linspace(0, len(x) - 1, POINTS).round().astype(int))]
    most = np.max([np.interp(x, of_line, counts, left=0) for of_line, counts in known], axis=0)
    return x[most > 0], most[most > 0]


def _range(lines: Sequence[Line], exact: ExactDraws | None) -> tuple[float, float]:
    """Return the range of b2 that is shown: it includes the floor and the ends of all named lines."""
    kept = [line.counts[-1] for line in lines if line.counts is not None]
    floors = [exact.typical / max(kept)] if exact is not None and kept else []
    least = [line.values[line.values > 0].min(initial=np.inf) for line in lines[:NAMED]]
    last = [line.values[-1] for line in lines[:NAMED] if np.isfinite(line.values[-1])]
    return 0.6 * min([*least, *floors, diagnostics.THRESHOLD]), min(2 * max([*last, 1.0]), HUGE)


def _ranked_range(lines: Sequence[Line]) -> tuple[float, float] | None:
    """Return the range of joint errors that is shown, None without any."""
    ends = [end for line in lines[:NAMED] if (ends := wide.with_ends(line.joint)) for end in ends]
    known = [end for end in ends if 0 < end < HUGE]
    return (0.6 * min(known), 1.7 * max(known)) if known else None
