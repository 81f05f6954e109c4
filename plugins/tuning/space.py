"""The settings that `bench tune` searches, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import Registry, UsageError
from harness.contracts import Field, check
from harness.reports import suggestions
from harness.runs import Pair, plugin_metadata, resolve

DIGITS = 3
"""Significant digits of the values that are tried: records stay readable, and a grid this fine misses nothing."""
LOGARITHMIC_FROM = 10.0
"""If the upper end of a positive interval is this many times the lower, values are even on the logarithmic scale."""
KINDS = ("float", "int")


@dataclass(frozen=True)
class Range:
    """An interval of a setting to search, and the value of the setting without a search.

    `default` is None if the interval that the command states does not include that value.
    """

    low: float
    high: float
    default: float | None
    whole: bool = False

    @property
    def logarithmic(self) -> bool:
        """Whether values are evenly spread on the logarithmic scale."""
        return self.low > 0 and self.high / self.low >= LOGARITHMIC_FROM

    def rounded(self, value: float) -> float:
        """Return a value rounded for a trial, within the interval."""
        short = round(value) if self.whole else float(f"{value:.{DIGITS}g}")
        return min(max(short, self.low), self.high)


def space(
    registry: Registry, pair: Pair, given: Mapping[str, Any], budget: str, stated: Sequence[str]
) -> dict[str, Range]:
    """Return the settings to search by dotted name: those in `stated` ("NAME=LOW:HIGH"), or those the classes declare.

    A setting that the command or the method fixes is not searched. Raise `UsageError` if no setting is left.
    """
    settings = resolve(registry, pair, given, budget)
    offers = {"sampler": pair.sampler, "schedule": settings.schedule, "task": pair.task}
    params = {
        "sampler": settings.sampler_params, "schedule": settings.schedule_params, "task": settings.task_params
    }  # fmt: skip
    fields = {f"{part}.{f.name}": f for part, offer in offers.items() for f in plugin_metadata.fields(offer)}
    values = {name: params[name.partition(".")[0]].get(f.name, f.default) for name, f in fields.items()}
    intervals = _split(stated)
    if unknown := [name for name in intervals if name not in fields]:
        known = [name for name, f in fields.items() if f.type in KINDS]
        where = f"{pair.method.name} on {pair.task.name}"
        raise UsageError(f"--space {unknown[0]}: {where} has no such setting{suggestions(unknown[0], known)}")
    ranges = {name: _stated(name, fields[name], values[name], interval) for name, interval in intervals.items()}
    for name, field in fields.items():
        limits = field.search_range(values[name])
        if limits and not intervals and name not in {*given, *pair.method.settings}:
            ranges[name] = Range(*limits, values[name], whole=field.type == "int")
    if not ranges:
        raise UsageError(
            f"nothing to tune of {pair.method.name} on {pair.task.name}: none of its settings declares an interval to "
            "search, or all are fixed by --set; name one: --space schedule.step_size=1e-4:1e-1"
        )
    return ranges


def _split(stated: Sequence[str]) -> dict[str, str]:
    intervals = {}
    for text in stated:
        name, equals, interval = text.partition("=")
        if not equals or interval.count(":") != 1:
            raise UsageError(f"--space {text!r:.80} is not NAME=LOW:HIGH, as in schedule.step_size=1e-4:1e-1")
        intervals[name.strip()] = interval
    return intervals


def _stated(name: str, field: Field, value: Any, interval: str) -> Range:
    """Return the interval of an option; its ends must be values that the class allows."""
    if field.type not in KINDS:
        raise UsageError(f"--space {name}: it is not a number; sweep it with `bench run --sweep {name}=A,B`")
    ends = [check(field, text.strip(), where=f"--space {name.partition('.')[0]}") for text in interval.split(":")]
    low, high = (float(end) if end is not None else math.nan for end in ends)
    if not low < high:
        raise UsageError(f"--space {name}={interval}: the lower end is not below the upper one")
    inside = isinstance(value, int | float) and low <= value <= high
    return Range(low, high, value if inside else None, whole=field.type == "int")
