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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from harness.system.text import count

if TYPE_CHECKING:
    import polars as pl

    from harness.contracts.registry import Registry
    from harness.results.store import Store


@dataclass(frozen=True)
class Column:
    """A column of a table: the key of its cells in a row, header, alignment, and a format (".3g") or function."""

    key: str
    header: str
    align: Literal["left", "right"] = "left"
    format: str | Callable[[Any], str] = ""

    def text(self, row: Mapping[str, Any]) -> str:
        """Return the cell of a row as text: "" for a missing value, "inf" and "-inf" for infinities."""
        value = row.get(self.key)
        if value is None:
            return ""
        if callable(self.format):
            return self.format(value)
        return str(value) if isinstance(value, str) else format(value, self.format)


@dataclass(frozen=True)
class Table:
    """A table for people. Its rows are mappings from column keys to values, and its notes are shown below it.

    The first `keys` columns name a row, so a terminal that is too narrow for all columns always shows these.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()
    keys: int = 1

    def cells(self) -> list[list[str]]:
        """Return the cells as text, one list per row."""
        return [[column.text(row) for column in self.columns] for row in self.rows]


@dataclass(frozen=True)
class Figure:
    """A figure: `draw` fills a matplotlib Figure of `size` inches, which the renderer saves under the figure's name.

    `caption` explains what the picture does not show by itself. `title` replaces the title that `draw` sets.
    """

    name: str
    draw: Callable[[Any], None]
    size: tuple[float, float] = (6.4, 4.8)
    caption: str = ""
    title: str | None = None


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 - progress


@dataclass(frozen=True)
class Request:
    """The runs that the user asked a report for. An empty filter selects all.

    `metric` is the metric to rank by, if the report offers a choice. `registry` has the plugins of this command.
    `paper` and `tables` select printed values. A report that takes long prints its progress with `say`.
    """

    tasks: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()
    chains: tuple[int, ...] = ()
    metric: str | None = None
    registry: Registry | None = None
    paper: str | None = None
    tables: tuple[str, ...] = ()
    say: Callable[[str], None] = field(default=_say, compare=False)

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
        from harness.reporting.rendering import render

        return "\n".join([render(self, "table").rstrip("\n"), *self.notes])

    def frame(self) -> pl.DataFrame:
        """Return the records as a polars frame with a column for each key."""
        import polars as pl

        return pl.DataFrame([dict(record) for record in self.records], infer_schema_length=None, strict=False)

    def _repr_html_(self) -> str:
        """Return the tables and notes as HTML, which a notebook shows."""
        from harness.reporting.rendering import render

        return render(Result([*self.tables, *self.notes]), "html")


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = (), title: str = "") -> Table:
    """Make a table of rows with these keys as columns, by default all keys. Columns of numbers are aligned right."""

    def number(key: str) -> bool:
        values = [row[key] for row in rows if row.get(key) is not None]
        return bool(values) and all(type(value) in {int, float} for value in values)

    names = columns or list(dict.fromkeys(key for row in rows for key in row))
    return Table(title, [Column(key, key, "right" if number(key) else "left") for key in names], rows)


class Report(ABC):
    """The base class of every report. A report reads only the store, and equal stores give equal bytes."""

    name: ClassVar[str]

    @abstractmethod
    def build(self, store: Store, request: Request) -> Result:
        """Return the report for the request. Returns an empty Result if the store has no matching results."""
