"""docs/data-dictionary.md, generated from the records by `python -m plugins.pages.dictionary`."""

from __future__ import annotations

from pathlib import Path

from harness.results import TABLES, connection
from harness.results.store.schema import VIEWS
from harness.system import write_whole

HEADER = """# Data dictionary

The tables and views of `results.duckdb`, as `bench sql` sees them. Generated from `harness/results/records.py` by
`python -m plugins.pages.dictionary`; a test checks this page.
"""


def markdown() -> str:
    """Return the dictionary as Markdown: a section for each table and view, and a row for each column."""
    with connection.in_memory() as db:
        columns = db.execute(
            "select table_name, column_name, data_type from duckdb_columns() "
            "where not internal and database_name = current_database() order by column_index"
        ).fetchall()
    comments = {name: table.comment for name, table in TABLES.items()}
    comments |= {name: view.comment for name, view in VIEWS.items()}
    parts = [HEADER]
    for name, comment in comments.items():
        parts += [f"## {name}", "", comment, "", "| column | type | meaning |", "|---|---|---|"]
        parts += [
            f"| {column} | {kind.lower()} | {_meaning(name, column)} |"
            for table, column, kind in columns
            if table == name
        ]
        parts.append("")
    return "\n".join(parts)


def _meaning(name: str, column: str) -> str:
    """Return the meaning of a column; a view without one of its own uses that of the table the column comes from."""
    if name in VIEWS and column in VIEWS[name].columns:
        return VIEWS[name].columns[column]
    sources = [name] if name in TABLES else ["run", "attempt", "metric", "curve_points"]
    return next(TABLES[source].columns[column].comment for source in sources if column in TABLES[source].columns)


if __name__ == "__main__":
    target = Path(__file__).resolve().parents[2] / "docs" / "data-dictionary.md"
    write_whole(target, markdown().encode())
