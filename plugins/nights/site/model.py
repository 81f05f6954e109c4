"""The contents of a site as data: `gather` makes them from a store, `contents` makes files of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import Result
from harness.reports import Table

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """A report on the site. `name` is used for its file names; `problem` says why there is no result."""

    name: str
    summary: str
    result: Result = field(default_factory=Result)
    problem: str = ""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.result.tables or self.result.records or self.result.figures or self.problem)


@dataclass(frozen=True)
class SiteRow:
    """A group of runs that differ only in the seed: a row of a leaderboard.

    runs          run keys
    rank, value   place and number with interval, by the metric that ranks its field; `status` says why it has no rank
    cost          data passes to low error: infinite if it was not reached, None if it is not known
    caveats       what a reader has to know before comparing the row: "given metric", "diverged"
    preference    of several rows of a method in a field, the greatest stands for it: tuned before untouched settings,
                  those before settings of the command, then the latest
    facts         (label, text);  commands (what, command)
    """

    key: str
    label: str
    method: str
    task: str
    protocol: str
    budget: str
    chains: int
    seeds: int
    rank: int | None = None
    verdict: str = ""
    value: str = ""
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    status: str = ""
    seconds: float | None = None
    cost: float | None = None
    caveats: Sequence[str] = ()
    preference: tuple[int, str] = (0, "")
    runs: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    commands: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class SiteField:
    """Rows that are compared with each other, the ranked ones first. `metric` ranks them, `table` shows them."""

    title: str
    task: str
    protocol: str
    budget: str
    chains: int
    steps: int
    metric: str
    rows: Sequence[SiteRow]
    table: Table

    @property
    def ranked(self) -> int:
        """The number of rows that have a rank."""
        return sum(row.rank is not None for row in self.rows)


@dataclass(frozen=True)
class Subject:
    """A task or a method, as its plugin describes it. `family` is the group under which a task is listed.

    papers  (text, address) of each paper that it is from; the address is "" where none is known
    """

    name: str
    summary: str = ""
    family: str = ""
    blocks: Sequence[Table | str] = ()
    papers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class SuitePage:
    """A suite with its nights: its run commands, when metrics changed, and what was measured in each night."""

    name: str
    summary: str
    tables: Sequence[Table]


@dataclass(frozen=True)
class Site:
    """All that is published.

    verdict   a summary in a few words; `tone` is "good", "bad" or "plain"
    lead      sentences below it
    facts     (label, text): date, versions, machine
    changes   what changed since the last night, with a page of its own; None if there is no night
    sections  the reports
    names     the group key of each row name in the nights, for links
    """

    name: str
    verdict: str = ""
    tone: str = "plain"
    lead: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    changes: Section | None = None
    sections: Sequence[Section] = ()
    fields: Sequence[SiteField] = ()
    tasks: Sequence[Subject] = ()
    methods: Sequence[Subject] = ()
    suites: Sequence[SuitePage] = ()
    names: Mapping[str, str] = field(default_factory=dict)
