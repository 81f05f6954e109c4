"""What `bench tune` searches: schedules, and the settings of each with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness import Method, Registry, UsageError
from harness.contracts import Field, check
from harness.reports import suggestions
from harness.runs import plugin_metadata, resolve

DIGITS = 3
"""Significant digits of the values that are tried: records stay readable, and a grid this fine misses nothing."""
LOGARITHMIC_FROM = 10.0
"""If the upper end of a positive interval is this many times the lower, values are even on the logarithmic scale."""
EDGE, WIDER = 0.05, 0.5
"""An optimum within this share of an interval, on its scale, is at its edge; by this share an interval is widened."""
KINDS = ("float", "int")
SCHEDULES = ("constant", "polynomial", "cyclical")
"""The schedules that are searched where nothing decides on one: constant, decreasing and cyclical."""
DECADES = tuple(10.0**k for k in range(-7, 3))
"""The coarse pass: step sizes times N, the number of terms of the energy, where the task gives no curvature."""
AROUND = 30.0
"""A step size that the coarse pass found best is searched within this factor."""


@dataclass(frozen=True)
class Range:
    """An interval of a setting to search, and the value of the setting without a search.

    default      None if the interval that the command states does not include that value
    least, most  what the interval may be widened to
    """

    low: float
    high: float
    default: float | None
    whole: bool = False
    least: float = -math.inf
    most: float = math.inf

    @property
    def logarithmic(self) -> bool:
        """Whether values are evenly spread on the logarithmic scale."""
        return self.low > 0 and self.high / self.low >= LOGARITHMIC_FROM

    def rounded(self, value: float) -> float:
        """Return a value rounded for a trial, within the interval."""
        short = round(value) if self.whole else float(f"{value:.{DIGITS}g}")
        return min(max(short, self.low), self.high)

    def edge(self, value: float) -> str:
        """Return "low" or "high" if a value lies at an edge beyond which the interval can be widened, else ""."""
        low, high, at = (math.log(x) if self.logarithmic else x for x in (self.low, self.high, value))
        share = (at - low) / (high - low)
        if share <= EDGE and self.widened("low") != self:
            return "low"
        return "high" if share >= 1 - EDGE and self.widened("high") != self else ""

    def widened(self, edge: str) -> Range:
        """Return the interval, longer at one edge by half its length on its scale, within what the class allows."""
        factor, more = (self.high / self.low) ** WIDER if self.logarithmic else 1.0, WIDER * (self.high - self.low)
        if edge == "low":
            low = self.low / factor if self.logarithmic else self.low - more
            return replace(self, low=self._allowed(low, self.low, self.least))
        high = self.high * factor if self.logarithmic else self.high + more
        return replace(self, high=self._allowed(high, self.high, self.most))

    def _allowed(self, end: float, before: float, limit: float) -> float:
        """Return a new end; half way to the limit if it would be there or beyond, as the limit may be excluded."""
        beyond = end <= limit if end < before else end >= limit
        if self.whole:
            return min(max(round(end), self.least), self.most)
        if not beyond:
            return float(f"{end:.{DIGITS}g}")
        return before if abs(limit - before) <= EDGE * abs(self.high - self.low) else (before + limit) / 2


@dataclass(frozen=True)
class Space:
    """The settings to search under one schedule.

    step    the schedule's step size; "" if the command fixes it, or states its interval
    coarse  step sizes for a coarse pass, which finds the interval of the step size if the task gives none
    """

    ranges: Mapping[str, Range]
    step: str = ""
    coarse: Sequence[float] = ()

    @property
    def scaled(self) -> bool:
        """Whether the interval of the step size is known."""
        return not self.step or self.step in self.ranges

    @property
    def dimensions(self) -> int:
        """The number of its settings."""
        return len(self.ranges) + (not self.scaled)

    def around(self, step_size: float) -> Space:
        """Return the space with an interval around the best step size of the coarse pass."""
        limits = Range(step_size / AROUND, step_size * AROUND, step_size, least=0.0)
        return replace(self, ranges={**self.ranges, self.step: limits})


def dimensions(spaces: Mapping[str, Space]) -> int:
    """Return the number of dimensions that are searched: the settings under a schedule, and the schedule."""
    return max(space.dimensions for space in spaces.values()) + (len(spaces) > 1)


def find_spaces(
    registry: Registry, pair: Any, given: Mapping[str, Any], budget: str, stated: Sequence[str]
) -> dict[str, Space]:
    """Return what to search by the name of the schedule: the intervals that the classes declare, or those in `stated`.

    stated  intervals of the command, "NAME=LOW:HIGH"; then nothing else is searched, under one schedule

    A setting that the command or the method fixes is not searched. Raise `UsageError` if no setting is left.
    """
    of_command = _split(stated)
    names = schedules(registry, pair, given)[: 1 if of_command else None]
    spaces = {name: _space(registry, pair, given, budget, name, of_command) for name in names}
    if not any(space.dimensions for space in spaces.values()):
        raise UsageError(
            f"nothing to tune of {pair.method.name} on {pair.task.name}: none of its settings declares an interval to "
            "search, or all are fixed by --set; name one: --space schedule.step_size=1e-4:1e-1"
        )
    return spaces


def schedules(registry: Registry, pair: Any, given: Mapping[str, Any]) -> list[str]:
    """Return the schedules to search: all but those under which the sampler is a method of its own.

    If the method has a schedule, or the command fixes one or a setting of one, it is the only one.
    """
    if fixed := given.get("schedule") or pair.method.schedule:
        return [str(fixed)]
    if any(name.startswith("schedule.") for name in given):
        return list(SCHEDULES[:1])
    methods = [offer.info for offer in registry.offers("methods")]
    apart = {one.schedule for one in methods if isinstance(one, Method) and one.sampler == pair.method.sampler}
    return [name for name in SCHEDULES if name not in apart]


def _space(
    registry: Registry, pair: Any, given: Mapping[str, Any], budget: str, schedule: str, stated: Mapping[str, str]
) -> Space:
    offer = registry.find("schedules", schedule, prefer=pair.sampler.distribution)
    relative = [f"schedule.{f.name}" for f in plugin_metadata.fields(offer) if f.required and f.relative]
    step = next((name for name in relative if name not in given), "")
    unscaled = ""
    pair = replace(pair, defaults_only=True, tuned={})
    given = {**given, "schedule": schedule}
    try:
        settings = resolve(registry, pair, given, budget)
    except UsageError:
        if not step or (stated and step not in stated):
            raise
        unscaled = step
        settings = resolve(registry, pair, {**given, step: DECADES[0]}, budget)
    offers = {"sampler": pair.sampler, "schedule": offer, "task": pair.task}
    params = {
        "sampler": settings.sampler_params, "schedule": settings.schedule_params, "task": settings.task_params
    }  # fmt: skip
    fields = {f"{part}.{f.name}": f for part, one in offers.items() for f in plugin_metadata.fields(one)}
    values = {name: params[name.partition(".")[0]].get(f.name, f.default) for name, f in fields.items()}
    values.pop(unscaled, None)
    if unknown := [name for name in stated if name not in fields]:
        known = [name for name, f in fields.items() if f.type in KINDS]
        where = f"{pair.method.name} on {pair.task.name}"
        raise UsageError(f"--space {unknown[0]}: {where} has no such setting{suggestions(unknown[0], known)}")
    if stated:
        return Space({name: _stated(name, fields[name], values.get(name), text) for name, text in stated.items()})
    ranges = {}
    for name, f in fields.items():
        limits = f.search_range(values.get(name))
        if limits and name not in {*given, *pair.method.settings}:
            least, most = map(float, f.allowed[1:-1].split(",")) if f.allowed else (-math.inf, math.inf)
            ranges[name] = Range(*limits, values[name], whole=f.type == "int", least=least, most=most)
    return Space(ranges, step, tuple(float(f"{h / settings.task.terms:.{DIGITS}g}") for h in DECADES) if step else ())


def _split(stated: Sequence[str]) -> dict[str, str]:
    intervals = {}
    for text in stated:
        name, equals, interval = text.partition("=")
        if not equals or interval.count(":") != 1:
            raise UsageError(f"--space {text!r:.80} is not NAME=LOW:HIGH, as in schedule.step_size=1e-4:1e-1")
        intervals[name.strip()] = interval
    return intervals


def _stated(name: str, field: Field, value: Any, interval: str) -> Range:
    """Return the interval of an option, which is never widened; its ends must be values that the class allows."""
    if field.type not in KINDS:
        raise UsageError(f"--space {name}: it is not a number; sweep it with `bench run --sweep {name}=A,B`")
    ends = [check(field, text.strip(), where=f"--space {name.partition('.')[0]}") for text in interval.split(":")]
    low, high = (float(end) if end is not None else math.nan for end in ends)
    if not low < high:
        raise UsageError(f"--space {name}={interval}: the lower end is not below the upper one")
    inside = isinstance(value, int | float) and low <= value <= high
    return Range(low, high, value if inside else None, whole=field.type == "int", least=low, most=high)
