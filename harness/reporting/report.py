"""The interface of reports: a report reads the store and returns tables, figures and flat records.

    class Speed(Report):
        name = "speed"
        summary = "seconds a data pass"

        def build(self, store: Store, request: Request) -> Result:
            rows = store.rows("select method, avg(seconds_sampling) as seconds from result group by all order by all")
            columns = [Column("method", "method"), Column("seconds", "seconds", "right", ".3g")]
            return Result(tables=[Table("Speed", columns, rows)], records=rows)

The Result of a report or a verb is shown in a terminal, or as Markdown, LaTeX or HTML (the tables), or as CSV or JSON
(the records).
"""

from __future__ import annotations

import functools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

from harness.reporting import rendering
from harness.reporting.tables import Figure, Table
from harness.system.errors import UsageError
from harness.system.text import count

if TYPE_CHECKING:
    import polars as pl

    from harness.contracts.registry import Registry
    from harness.results.store import Store

T = TypeVar("T")
FIELD = ("task", "protocol", "budget", "chains")
"""What rows of one table have in common; fields of records."""


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - progress


@dataclass(frozen=True)
class Request:
    """The runs that the user asked a report for. An empty filter selects all.

    `budgets` are in all spellings that the store has. `groups` are keys of groups. `metric` is what to rank by, if
    the report offers a choice. `registry` has the plugins of this command. A report that takes long prints its progress
    with `say`.
    """

    tasks: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()
    chains: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()
    metric: str | None = None
    registry: Registry | None = None
    say: Callable[[str], None] = field(default=_say, compare=False)
    memory: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returned the first time, for all reports of this request and of narrower ones.

        `key` names all that the value depends on, except for the registry.
        """
        if key not in self.memory:
            self.memory[key] = make()
        value: T = self.memory[key]
        return value

    def plugin(self, kind: str, name: str, **settings: Any) -> Any:
        """Return a plugin of a kind ("tasks") with these settings. `UsageError` if there is none, or `PluginError`."""
        from harness.contracts.registry import registry
        from harness.runs.plugin_metadata import instance

        offer = (self.registry or registry()).find(kind, name)
        return instance(offer.target, settings)


class Records(Sequence[Mapping[str, Any]]):
    """Records that are computed on first use, because a table on a terminal does not need them."""

    def __init__(self, make: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        self._make = functools.cache(make)

    def __len__(self) -> int:
        return len(self._make())

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        return self._make()[index]


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a report or a verb, which the command prints in the requested format.

    tables     tables for people; a text among them is a paragraph (verbs only)
    records    objects for programs, flat in reports; a number may be infinite, but never NaN
    figures    figures, which are drawn when they are saved
    notes      remarks that belong to no table; they are printed to stderr
    exit_code  the exit code of a verb
    changed    whether the verb changed something, such as files or jobs: the command then fails if its result cannot
               be written to stdout, even where only the reader has ended
    """

    tables: Sequence[Table | str] = ()
    records: Sequence[Mapping[str, Any]] = ()
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    exit_code: int = 0
    changed: bool = False

    def __repr__(self) -> str:
        parts = {"table": self.tables, "record": self.records, "figure": self.figures, "note": self.notes}
        return f"Result of {', '.join(count(len(values), noun) for noun, values in parts.items() if len(values))}"

    def __str__(self) -> str:
        """Return the tables and notes as text, as the command prints them."""
        return "\n".join([rendering.render(self, "table").rstrip("\n"), *self.notes])

    def frame(self, columns: Literal["shown", "all"] = "shown") -> pl.DataFrame:
        """Return what the tables show as a polars frame; "all" returns the records, a row for each and each metric.

        Rows begin with the task and, if it has several tables, with what these differ in. If the tables have no further
        columns, the frame is always of the records. Raises `UsageError` for another word.
        """
        import polars as pl

        if columns not in ("shown", "all"):
            raise UsageError(f"frame({columns!r}): choose 'shown' or 'all'")
        tables = [t for t in self.tables if isinstance(t, Table) and t.more] if columns == "shown" else []
        rows = [row for table in tables for row in table.rows]
        several = len({row.get("task") for row in rows}) < len(tables)
        names = [n for n in FIELD if n == "task" or (several and len({row.get(n) for row in rows}) > 1)]
        names += dict.fromkeys(column.key for table in tables for column in table.columns)
        records = [{name: row.get(name) for name in names} for row in rows] if tables else map(dict, self.records)
        return pl.DataFrame([*records], infer_schema_length=None, strict=False)

    def _repr_html_(self) -> str:
        """Return the tables and notes as HTML, which a notebook shows."""
        return rendering.render(Result([*self.tables, *self.notes]), "html")


class Report(ABC):
    """The base class of every report. A report reads only the store, and equal stores give equal bytes."""

    name: ClassVar[str]

    def prepare(self, store: Store, request: Request) -> None:
        """Begin what takes long and can be done beside other reports. Where several are made, it comes before all."""

    @abstractmethod
    def build(self, store: Store, request: Request) -> Result:
        """Return the report for the request. Returns an empty Result if the store has no matching results."""
