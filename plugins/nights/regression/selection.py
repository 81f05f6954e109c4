"""A store that shows some runs only, so that a report covers these and not all runs in the folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from duckdb import DuckDBPyConnection

from harness.reports import Store

_CHOSEN = "run_key in (select run_key from chosen_run)"
_ATTEMPTS = "attempt in (select attempt from attempt)"
_ENVIRONMENTS = "environment in (select environment from attempt)"
_SHOWN = {
    "run": _CHOSEN, "attempt": _CHOSEN, "metric": _ATTEMPTS, "curve_points": _ATTEMPTS, "artifact": _ATTEMPTS,
    "event": _ATTEMPTS, "environment": _ENVIRONMENTS,
}  # fmt: skip
"""The condition on the rows of each table. A temporary view hides the table of the same name, in other views too."""


class Selection(Store):
    """The store of a results folder as if it contained only the runs with these keys."""

    def __init__(self, results: Path, keys: Iterable[str]) -> None:
        super().__init__(results)
        self.keys = sorted(set(keys))

    @contextmanager
    def reading(self) -> Iterator[DuckDBPyConnection]:
        """Open one connection for several queries, which see these runs only."""
        with super().reading() as db:
            (whole,) = db.execute("select current_database()").fetchone() or ("",)
            db.execute("create temp table chosen_run (run_key varchar)")
            db.execute("insert into chosen_run select unnest(?::varchar[])", [self.keys])
            for table, shown in _SHOWN.items():
                db.execute(f'create temp view {table} as select * from "{whole}".main.{table} where {shown}')  # noqa: S608 - names from above
            yield db
