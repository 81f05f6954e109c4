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
    "\N{SUPERSCRIPT TWO}": "$^2$",
}  # fmt: skip


def render(tables: Sequence[Table | str]) -> str:
    """Return a table environment for each table, with its title as caption and its notes. A text is a paragraph."""
    texts = (_table(one) if isinstance(one, Table) else map(escape, one.splitlines()) for one in tables)
    return "\n".join("\n".join(lines) + "\n" for lines in texts)


def escape(text: str) -> str:
    """Escape a text for LaTeX. Hyphens do not turn into dashes."""
    return "".join(_ESCAPES.get(c, c) for c in plain(text)).replace("--", "-{}-").replace("--", "-{}-")


def _table(table: Table) -> list[str]:
    keys = [column.key for column in table.columns]
    cells = [[escape(text) for text in row] for row in ([column.header for column in table.columns], *table.cells())]
    for row, key in table.bold:
        cells[row + 1][keys.index(key)] = rf"\textbf{{{cells[row + 1][keys.index(key)]}}}"
    # without {} a first cell that starts with "[" or "*" would be an argument of the previous line break
    header, *rows = ["{}" + " & ".join(row) + r" \\" for row in cells]
    return [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{escape(table.title)}}}"] if table.title else []),
        *([rf"\label{{tab:{table.label}}}"] if table.label else []),
        rf"\begin{{tabular}}{{{''.join(column.align[0] for column in table.columns)}}}",
        r"\toprule",
        header,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {escape(note)}" for note in table.notes),
        r"\end{table}",
    ]
