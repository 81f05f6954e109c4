"""Settings that a source states for a method on a task under a protocol: a paper, the authors' code, a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StatedValue:
    """A value of a setting.

    provenance  paper; code (the authors'); inferred (follows from either); ours (cannot be had from either)
    source      where it is stated, or the reason for it
    swept       the values of its declared sweep, this one included; () without a sweep
    """

    value: Any
    provenance: str
    source: str = ""
    swept: tuple[Any, ...] = ()


@dataclass(frozen=True)
class StatedSettings:
    """The settings of a method on a task under a protocol, by dotted name; "schedule" names the schedule.

    stated_by     the source's name: a paper's id
    each_alone    whether the settings are swept one after the other, not in every combination
    distribution  whose plugin states them; "" for the one whose hook serves them
    """

    method: str
    task: str
    protocol: str
    stated_by: str
    values: Mapping[str, StatedValue]
    each_alone: bool = False
    distribution: str = ""
