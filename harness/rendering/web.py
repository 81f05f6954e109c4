"""Tables as an HTML fragment, to be put into a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as escape_html

from harness.rendering.text import plain
from harness.report import Table


def render(tables: Sequence[Table]) -> str:
    """A <table> with its caption, and its notes as a list, for each table."""
    return "\n".join(_table(table) for table in tables)


def escape(text: str) -> str:
    """Text that HTML shows as it is, in attributes too."""
    return escape_html(plain(text), quote=True)


def _table(table: Table) -> str:
    styles = [' style="text-align: right"' if column.align == "right" else "" for column in table.columns]
    heads = "".join(f"<th{s}>{escape(c.header)}</th>" for s, c in zip(styles, table.columns, strict=True))
    lines = [f"<table>\n<caption>{escape(table.title)}</caption>", f"<thead><tr>{heads}</tr></thead>", "<tbody>"]
    for cells in table.cells():
        inside = "".join(f"<td{s}>{escape(cell)}</td>" for s, cell in zip(styles, cells, strict=True))
        lines.append(f"<tr>{inside}</tr>")
    lines.append("</tbody>\n</table>")
    if table.notes:
        lines.append("<ul>" + "".join(f"<li>{escape(note)}</li>" for note in table.notes) + "</ul>")
    return "\n".join(lines) + "\n"
