"""Shared parts of reports: a base class per field, panels of draws, families of groups, names and styles."""

from __future__ import annotations

import functools
import itertools
import json
import re
import textwrap
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness import DataError, Result, statistics
from harness.reports import (
    Column,
    FieldScore,
    Figure,
    Group,
    Report,
    Request,
    Run,
    Table,
    check_metric,
    labels,
    score_fields,
    typical,
)

if TYPE_CHECKING:
    from harness import Trajectory
    from harness.reports import Store

Array = NDArray[np.float64]

CHARACTER = 0.075
"""Largest width of a character in a legend, in inches, where the font has 10 points."""
MANY = 30
"""Most points of a line with a marker at each; a line with more has markers at some points only."""


class FieldReport(Report):
    """A report that treats each field (task, protocol, chains, budget) separately.

    shown  columns of one table of all records, under `heading`; () if each field has tables of its own
    """

    shown: ClassVar[Sequence[Column]] = ()
    heading: ClassVar[str] = "Panels"

    def build(self, store: Store, request: Request) -> Result:
        scores = score_fields(store, request)
        if request.metric:
            check_metric(scores, request.metric)
        fields: list[Result] = []
        taken: set[str] = set()
        for score in scores:
            first = score.groups[0]
            result = self.of_field(score, request, _figure_name(self.name, first, taken))
            fields.append(replace(result, figures=[replace(figure, task=first.task) for figure in result.figures]))
            taken |= {figure.name for figure in result.figures}
        tables, records, figures, notes = (
            list(itertools.chain.from_iterable(getattr(one, part) for one in fields))
            for part in ("tables", "records", "figures", "notes")
        )
        if self.shown and records:
            tables.append(Table(self.heading, self.shown, records))
        return Result(tables, records, figures, notes)

    @abstractmethod
    def of_field(self, score: FieldScore, request: Request, name: str) -> Result:
        """Return the report of one field; its figure has the name `name`."""


def _figure_name(report: str, group: Group, taken: Collection[str]) -> str:
    """Return the name of a field's figure, with the group's key if fields differ only in settings of the task."""
    name = f"{report}-{group.task}-{group.protocol}-{group.budget.replace('=', '-')}-{group.chains}x"
    return f"{name}-{group.key[:8]}" if name in taken else name


def shown(*left: str, **right: str) -> tuple[Column, ...]:
    """Return columns of records by their keys: `left` ones, and `right` ones by their formats."""
    return (
        *(Column(key, key) for key in left),
        *(Column(key, key.replace("_", " "), "right", form) for key, form in right.items()),
    )


@dataclass(frozen=True, eq=False)
class Panel:
    """A run of a group with kept draws, which are read on first use; `steps` (n,), counted from 1, made them."""

    label: str
    group: Group
    run: Run
    steps: NDArray[np.int64]
    score: FieldScore

    @functools.cached_property
    def draws(self) -> Array:
        """The draws (n, C, D)."""
        return self._read("draws").astype(np.float64)

    @property
    def title(self) -> str:
        """The title of a panel."""
        return f"{self.label}, seed {self.run.seed}"

    @property
    def flat(self) -> Array:
        """The draws of all chains (n C, D)."""
        return self.draws.reshape(-1, self.draws.shape[-1])

    @functools.cached_property
    def shares(self) -> Array | None:
        """The weight of each of the flat draws (n C,), with sum 1; None if all weights are equal."""
        if not self.weighted:
            return None
        logs = self._read("log_weights")
        weights = np.exp(logs.astype(np.float64).ravel() - logs.max())
        return np.asarray(weights / weights.sum())

    @functools.cached_property
    def dim(self) -> int:
        """The number of coordinates of a draw."""
        return int(self._read("draws", [0]).shape[-1])

    @functools.cached_property
    def weighted(self) -> bool:
        """Whether the draws have weights."""
        return self.score.arrays(self.run, "log_weights", file="draws", rows=[0]) is not None

    def columns(self, index: NDArray[np.int64]) -> Array:
        """Return these coordinates of the draws, (n, C, len(index)); if not all, one draw is in memory at a time."""
        if len(index) == self.dim:
            return self.draws
        rows = (self._read("draws", [k])[0][:, index] for k in range(len(self.steps)))
        return np.stack([row.astype(np.float64) for row in rows])

    @property
    def count(self) -> int:
        """The number of draws of all chains."""
        return len(self.steps) * self.group.chains

    def record(self, figure: str, **more: Any) -> dict[str, Any]:
        """Return a flat record of the panel."""
        return record(figure, self.group, method=self.label, seed=self.run.seed, **more, run_keys=[self.run.key])

    def _read(self, name: str, rows: Sequence[int] | None = None) -> NDArray[Any]:
        arrays = self.score.arrays(self.run, name, file="draws", rows=rows)
        if arrays is None:
            raise DataError(f"the draws of run {self.run.key[:12]} are gone")
        return arrays[name]


KEEPS = "`bench run` with the same options and `--draws all` repeats finished runs and keeps them"


def kept_draws(score: FieldScore) -> tuple[list[Panel], list[str]]:
    """Return a panel for each group with draws, of its lowest finished seed, and a note for each group without."""
    panels, missing = [], []
    for group in score.groups:
        label, run = score.labels[group.key], first_done(group)
        arrays = score.arrays(run, "steps", file="draws") if run else None
        if run is None:
            missing.append(f"{label}: no finished run")
        elif arrays is None or not len(arrays["steps"]):
            missing.append(f"{label}: no draws of a finished run are on disk; {KEEPS}")
        else:
            panels.append(Panel(label, group, run, arrays["steps"], score))
    return panels, missing


def heading(score: FieldScore) -> str:
    """Return the heading of a field's figure: "mixture25, protocol csgmcmc: 8 chains, 3,000 steps"."""
    first = score.groups[0]
    steps = sorted({group.steps for group in score.groups})
    length = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    chains = "1 chain" if first.chains == 1 else f"{first.chains} chains"
    variant = re.search(r" \(.*\)(?=, task version)", score.title)
    return f"{first.task}{variant[0] if variant else ''}, protocol {first.protocol}: {chains}, {length} steps"


def first_done(group: Group) -> Run | None:
    """Return the finished run with the lowest seed, or None."""
    return min(group.done, key=lambda run: run.seed, default=None)


NOT_TIMED = "not timed"
"""In place of seconds that `bench time` has not measured."""


def seconds_a_pass(group: Group) -> float | None:
    """Return the seconds of sampling of a data pass, by the timing pass; None if the group was not timed."""
    passes = typical(group.done.numbers.passes)
    return group.seconds / passes if group.seconds is not None and passes else None


def task_of(group: Group, request: Request) -> Any:
    """Return the task with the group's settings."""
    return request.plugin("tasks", group.task, **settings_of(group, "task."))


def trajectory(group: Group, request: Request) -> Trajectory:
    """Return the trajectory of a group's runs, from their settings, with burn-in and thinning."""
    schedule = request.plugin("schedules", str(group.settings["schedule"]), **settings_of(group, "schedule."))
    whole: Trajectory = schedule.trajectory(group.steps, task_of(group, request).steps_per_epoch())
    return whole.with_burn_in(int(group.settings["run.burn_in"]), int(group.settings["run.thin"]))


def settings_of(group: Group, prefix: str) -> dict[str, Any]:
    """Return a group's settings of one part ("task."), by their names in it."""
    return {name.removeprefix(prefix): value for name, value in group.settings.items() if name.startswith(prefix)}


def families(groups: Iterable[Group], *free: str) -> dict[str, list[Group]]:
    """Return the groups that differ only in the settings `free`, by the label that they share.

    A family has at least two members. If two families of one method exist, the label names the settings in which they
    differ.
    """
    by_settings: dict[str, list[Group]] = {}
    for group in groups:
        if all(name in group.settings for name in free):
            alike = json.dumps([group.method, _without(group.settings, free)], sort_keys=True)
            by_settings.setdefault(alike, []).append(group)
    kin = [members for members in by_settings.values() if len(members) > 1]
    names = labels([replace(members[0], settings=_without(members[0].settings, free)) for members in kin])
    return {names[members[0].key]: members for members in kin}


def _without(settings: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


def record(figure: str, group: Group, **more: Any) -> dict[str, Any]:
    """Return a flat record: the group, and more entries."""
    return {
        **({"figure": figure} if figure else {}),
        "task": group.task, "task_version": group.task_version, "protocol": group.protocol, "method": group.method,
        "chains": group.chains, "budget": group.budget, "steps": group.steps, **more,
    }  # fmt: skip


def over_seeds(values: Array) -> dict[str, Any]:
    """Return the entries of a record for a mean over seeds and its interval; None if a value is not finite."""
    if not np.isfinite(values).all():
        return {"mean": None, "low": None, "high": None, "interval": "none"}
    over = statistics.mean_interval(values)
    return {"mean": over.mean, "low": over.low, "high": over.high, "interval": over.kind}


BAND = "Lines: means over seeds; bands: from the lowest seed to the highest"
"""The explanation of what `band` draws."""


def band(ax: Any, x: Array, values: Array, look: Mapping[str, Any], **style: Any) -> Any:
    """Draw the mean over seeds of values (seeds, n) as a line, in a band from lowest to highest; return the line.

    `look` (from `looks`) overrides `style`.
    """
    (line,) = ax.plot(x, values.mean(axis=0), **{**style, **sparse(len(x), look)})
    ax.fill_between(x, values.min(axis=0), values.max(axis=0), color=look["color"], alpha=0.15, linewidth=0)
    return line


def sparse(points: int, look: Mapping[str, Any]) -> dict[str, Any]:
    """Return the look of a line with `points` points: if there are many, only some have a marker."""
    return {**look, **({"markevery": 0.12, "markersize": 4} if points > MANY and "marker" in look else {})}


def grid(
    canvas: Any, count: int, columns: int, x: str, y: str, shared: Sequence[str] = ("sharex", "sharey")
) -> Iterator[Any]:
    """Return `count` axes in a grid, labelled `x` and `y` at its edge; the rest of the grid is empty."""
    axes = canvas.subplots(-(-count // columns), columns, squeeze=False, **dict.fromkeys(shared, True))
    for i, ax in enumerate(axes.flat):
        if i >= count:
            ax.set_axis_off()
        elif i + columns >= count:  # the lowest in its column
            ax.tick_params(labelbottom=True)
            ax.set_xlabel(x)
    for ax in axes[:, 0]:
        ax.set_ylabel(y)
    return iter(axes.flat[:count])


def logarithmic(ax: Any, words: str) -> None:
    """Make the x axis logarithmic with plain numbers, even if it covers less than a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    ax.set(xscale="log", xlabel=words)
    low, high = ax.get_xlim()
    plain = FuncFormatter(lambda value, _: f"{value:,g}")
    if high > 4 * low:
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 150 * low else (1.0, 2.0, 5.0)))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    if high < 1e6 and low > 1e-4:
        ax.xaxis.set_major_formatter(plain)


def field_figure(
    name: str, score: FieldScore, draw: Callable[[Any], None], size: tuple[float, float], caption: str, title: str = ""
) -> Figure:
    """Return a figure with a title, by default the field's heading, which also begins its caption."""
    title = title or heading(score)

    def titled(canvas: Any) -> None:
        draw(canvas)
        name_figure(canvas, title)

    return Figure(name, titled, size, f"{title}. {caption}")


def panel_figure(
    name: str,
    score: FieldScore,
    count: int,
    draw: Callable[[Any, list[Any]], None],
    caption: str,
    *,
    panel: tuple[float, float],
    margin: tuple[float, float],
    labels: tuple[str, str] = (r"$\theta_1$", r"$\theta_2$"),
    least: float = 7.2,
    most: int = 4,
    shared: Sequence[str] = ("sharex", "sharey"),
) -> Figure:
    """Return a figure with a grid of `count` panels, at most `most` in a row, which `draw(canvas, axes)` fills.

    panel   width and height of a panel, in inches
    margin  what the figure is wider and higher than its panels
    least   the least width of the figure
    labels  of the x and the y axis
    """
    columns = min(count, most)
    size = max(panel[0] * columns + margin[0], least), panel[1] * -(-count // columns) + margin[1]

    def filled(canvas: Any) -> None:
        draw(canvas, list(grid(canvas, count, columns, *labels, shared)))

    return field_figure(name, score, filled, size, caption)


def name_figure(canvas: Any, heading: str) -> None:
    """Set the title over all panels, wrapped."""
    canvas.suptitle(_wrapped(heading, canvas, 0.09), fontsize="medium")


def name_panel(ax: Any, label: str, *more: str) -> None:
    """Set the title of a panel 2.7 inches wide, wrapped."""
    ax.set_title("\n".join([*textwrap.wrap(label, 36), *more]), fontsize="small")


def legend_height(names: Collection[str], width: float) -> float:
    """Return the height of `legend_below` in inches, for a figure of this width."""
    return 0.25 + 0.19 * -(-len(names) // _columns(names, width))


def legend_below(canvas: Any, handles: Mapping[str, Any], note: str = "") -> None:
    """Add a legend below all axes, in as many columns as fit, under a note that explains its lines and bands."""
    import matplotlib as mpl

    columns = _columns(handles, canvas.get_figwidth() * 10 / mpl.rcParams["font.size"])
    words = [_wrapped(name, canvas, CHARACTER, 8) for name in handles]
    canvas.legend(
        list(handles.values()), words, loc="outside lower center", ncols=columns, frameon=False, fontsize="small",
        title=_wrapped(note, canvas, CHARACTER) or None, title_fontsize="small",
    )  # fmt: skip


def _wrapped(words: str, canvas: Any, character: float, fewer: int = 0) -> str:
    """Return a text in lines as wide as the figure, less `fewer` characters; `character` is for a font of 10 points."""
    import matplotlib as mpl

    width = canvas.get_figwidth() / character * 10 / mpl.rcParams["font.size"]
    return "\n".join(textwrap.wrap(words, max(int(width) - fewer, 8)))


def _columns(names: Collection[str], width: float) -> int:
    widest = max((len(name) for name in names), default=1) * CHARACTER + 0.6
    return max(1, min(len(names), int(width / widest)))
