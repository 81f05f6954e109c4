"""Tables as LaTeX. The document needs the package booktabs, and a UTF-8 engine for letters beyond ASCII."""

from __future__ import annotations

from collections.abc import Sequence

from harness.reporting.tables import Table
from harness.system.text import plain

_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{PLUS-MINUS SIGN}": r"$\pm$", "\N{INFINITY}": r"$\infty$", "\N{GREATER-THAN OR EQUAL TO}": r"$\geq$",
    "\N{LESS-THAN OR EQUAL TO}": r"$\leq$", "\N{MULTIPLICATION SIGN}": r"$\times$", "\N{MINUS SIGN}": "$-$",
}  # fmt: skip


def render(tables: Sequence[Table | str]) -> str:
    """Return a table environment for each table, with its title as caption and its notes. A text is a paragraph."""
    return "\n".join(_paragraph(table) if isinstance(table, str) else _table(table) for table in tables)


def _paragraph(text: str) -> str:
    return "\n".join(escape(line) for line in text.splitlines()) + "\n"


def escape(text: str) -> str:
    """Escape a text for LaTeX. Hyphens do not turn into dashes."""
    return "".join(_ESCAPES.get(c, c) for c in plain(text)).replace("--", "-{}-").replace("--", "-{}-")


def _table(table: Table) -> str:
    alignment = "".join("r" if column.align == "right" else "l" for column in table.columns)
    lines = [
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{escape(table.title)}}}"] if table.title else []),
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _line([column.header for column in table.columns]),
        r"\midrule",
        *(_line(cells) for cells in table.cells()),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {escape(note)}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    """Return a row.

    Without {} a first cell that starts with "[" or "*" would be an argument of the previous line break.
    """
    return "{}" + " & ".join(escape(cell) for cell in cells) + r" \\"
