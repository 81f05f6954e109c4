"""Render the tables, records and figures of a result as text and files. The same Result gives the same bytes.

`table` is for a terminal. `markdown`, `latex` and `html` are documents with the same tables. `csv` and `json` have the
flat records. Text is escaped, so that it never becomes markup, a formula or a control sequence.
"""

from __future__ import annotations

import importlib
from typing import Any

from harness.contracts.parameters import suggestions
from harness.reporting.tables import Table
from harness.system.errors import UsageError

_MODULES = {
    "table": ("terminal", ".txt"), "markdown": ("markdown", ".md"), "csv": ("records", ".csv"),
    "latex": ("latex", ".tex"), "json": ("records", ".json"), "html": ("web", ".html"),
}  # fmt: skip
FORMATS = tuple(_MODULES)
SUFFIXES = {form: suffix for form, (_, suffix) in _MODULES.items()}


def check_format(name: str) -> str:
    """Return the full name of a format. `UsageError` with near matches for an unknown one."""
    name = "markdown" if name == "md" else name
    if name not in _MODULES:
        raise UsageError(f"unknown format {name!r}{suggestions(name, FORMATS)}")
    return name


def render(result: Any, form: str, width: int | None = None, *, colour: bool = False) -> str:
    """Return a `harness.Result` as text in one of `FORMATS`. A pipe has no `width` and no `colour`, a terminal both."""
    module = importlib.import_module(f"harness.reporting.rendering.{_MODULES[check_format(form)][0]}")
    if form == "table":
        return str(module.render(result.tables, width, colour=colour))
    if form == "json":
        return str(module.as_json(result.records))
    if form == "csv":
        header = [column.key for table in result.tables[:1] if isinstance(table, Table) for column in table.columns]
        return str(module.as_csv(result.records, header))
    return str(module.render(result.tables))
