"""The tables of the store, as the records declare them, and its views. A database can always be rebuilt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.contracts.randomness import TUNING_SEED
from harness.results.records import FINAL, TABLES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LATEST = f"""
select run.*, attempt.* exclude (run_key)
from run join attempt on attempt.run_key = run.run_key
{{where}}
qualify row_number() over (
    partition by run.run_key order by status in {FINAL} desc,
    case when status in {FINAL} then coalesce(copied, false) end,
    case when status in {FINAL} then draws_stored is distinct from draws_kept end,
    case when status in {FINAL} then attempt.attempt end,
    attempt.attempt desc
) = 1"""  # noqa: S608 - own names

_RENAMED = {"name": "metric", "version": "metric_version"}
_METRIC = ", ".join(
    f"metric.{name} as {_RENAMED.get(name, name)}" for name in TABLES["metric"].columns if name != "attempt"
)


@dataclass(frozen=True)
class View:
    """A view: what a row is, its query, and the columns whose meaning differs from the table that they are from."""

    comment: str
    query: str
    columns: Mapping[str, str] = field(default_factory=dict)


VIEWS = {
    "result": View(
        "One row per run with a concluded attempt: of those that are done or diverged, one made here before a copied "
        "one, then one whose draws are all stored, then the first; else the latest that failed. "
        "Columns of run and attempt. Trials of `bench tune`, whose seeds are reserved, are in `run_status` only.",
        _LATEST.format(where=f"where attempt.concluded and seed < {TUNING_SEED}"),
    ),
    "run_status": View(
        "One row per run: its present status, by its attempt in `result` if that is done or diverged, else its latest. "
        "Columns of run and attempt.",
        _LATEST.format(where=""),
    ),
    "run_metric": View(
        "One row per metric of a run, from the attempt in `result`. Columns of result, and those of metric, two of "
        "them under other names.",
        f"select result.*, {_METRIC} from result join metric on metric.attempt = result.attempt",  # noqa: S608
        {"metric": "name of the metric", "metric_version": "raised when the meaning of the metric changes"},
    ),
    "plugin": View(
        "One row per distribution whose code an attempt ran: the harness and the plugins.",
        """select attempt, distribution, code ->> 'version' as version, code ->> 'commit' as git_commit,
    try_cast(code ->> 'dirty' as boolean) as dirty, code ->> 'digest' as digest
from (select attempt, each.key as distribution, each.value as code from attempt, json_each(attempt.code) as each)""",
        {
            "distribution": "name of the distribution",
            "version": "its version; NULL for a one-off file",
            "git_commit": "commit of the checkout that it was installed from; NULL where there is none",
            "dirty": "whether its source differed from that commit",
            "digest": "SHA-256 of its source; of the harness's, that of the package `harness`; NULL where not recorded",
        },
    ),
    "curve": View(
        "One row per point of a curve.",
        """select attempt, name, place // len(x) as chain, place % len(x) as i,
    x[place % len(x) + 1] as x, y[place + 1] as y
from (select *, unnest(range(len(y))) as place from curve_points)""",
        {
            "name": "name of the curve",
            "chain": "chain, counted from 0; 0 also where the curve is of the run as a whole",
            "i": "number of the point along the curve, counted from 0",
            "x": "abscissa",
            "y": "ordinate; NULL where it does not exist",
        },
    ),
}


def _definitions() -> str:
    """Return the statements that make all tables and views.

    There is no index except for the keys that inserts need, and there are no foreign keys: both make bulk inserts slow.
    Times are UTC. NULL means "does not exist"; there is no NaN.
    """
    statements = []
    for name, table in TABLES.items():
        lines = [column.ddl(table.key == (column.name,)) for column in table.columns.values()]
        lines += [f"primary key ({', '.join(table.key)})"] if len(table.key) > 1 else []
        statements.append(f"create table {name} ({', '.join(lines)})")
    return "; ".join([*statements, *(f"create view {name} as {view.query}" for name, view in VIEWS.items())])


_DEFINITIONS = _definitions()
VERSION = hashlib.sha256(_DEFINITIONS.encode()).hexdigest()[:16]
"""The version of the schema. A database of another version is set aside, and a new one is made from the runs."""


def create(db: DuckDBPyConnection) -> None:
    """Make the tables and views in an open, writable and empty database, in one transaction."""
    db.execute(f"begin; {_DEFINITIONS}; insert into meta values ('schema_version', '{VERSION}'); commit")  # noqa: S608
