"""docs/data-dictionary.md, generated from schema.sql by `python -m harness.results.store.dictionary`."""

from __future__ import annotations

from pathlib import Path

from harness.results.store import connection, schema
from harness.system.files import write_whole

HEADER = """# Data dictionary

The tables and views of `results.duckdb`, as `bench sql` sees them. Generated from `harness/results/store/schema.sql` by
`python -m harness.results.store.dictionary`; a test keeps it equal.
"""


def markdown() -> str:
    """The dictionary as Markdown: a section for each table and view, a row for each column."""
    with connection.in_memory() as db:
        found = db.execute(
            "select table_name, column_name, data_type from duckdb_columns() where not internal order by column_index"
        ).fetchall()
    parts = [HEADER]
    for name, described in schema.objects().items():
        parts += [f"## {name}", "", described.comment, "", "| column | type | meaning |", "|---|---|---|"]
        parts += [
            f"| {column} | {kind.lower()} | {_meaning(name, column)} |"
            for table, column, kind in found
            if table == name
        ]
        parts.append("")
    return "\n".join(parts)


def _meaning(name: str, column: str) -> str:
    """The comment of a column; a view's is that of the run or attempt it comes from, where it has none of its own."""
    for source in (name, "run", "attempt"):
        if column in schema.columns(source):
            return schema.columns(source)[column].comment
    raise KeyError(f"{name}.{column} has no comment in schema.sql")


if __name__ == "__main__":
    target = Path(__file__).resolve().parents[3] / "docs" / "data-dictionary.md"
    write_whole(target, markdown().encode())
