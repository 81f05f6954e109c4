"""Tables for a terminal or a pipe. A pipe gets every column, and a terminal the most important ones that fit.

A table's columns are in the order of their importance. Text is wrapped between words. Columns that do not fit are named
below the table.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from harness.reporting.tables import Table
from harness.system.text import harmless, plain

GAP = 2
"""Spaces between columns."""
WIDEST = 300
"""Most characters of a cell. A longer cell would make all rows too wide to read. The other formats do not cut cells."""
NARROW, READABLE = 24, 60
"""Least width of a column of text, and the width beyond which a column leaves space for the columns after it."""
HEADER = 8
"""A header is wrapped to this width or to the width of its cells."""
STATUS_KEYS = {"status", "state", "outcome", "verdict"}
"""Keys of columns that are coloured by the first word of the cell."""
COLOURS = {
    "32": "done finished match ok passed present ranked same holds better",
    "31": "biased damaged diverged error failed fails gone mismatch missing out_of_memory problem timeout worse",
    "33": "cancelled device_lost disk_full exempt inconclusive orphaned preempted skipped undecided undetermined "
    "unranked vacuous warning",
    "36": "new running",
}
"""The terminal's codes for green, red, yellow and cyan, and the words that have each colour."""
_CODES = {word: code for code, words in COLOURS.items() for word in words.split()}
_KEPT = "\n\t"


def render(tables: Sequence[Table | str], width: int | None = None, *, colour: bool = False) -> str:
    """Return the tables as text. `width` is the terminal's. It is None for a pipe, which gets all columns unwrapped."""
    return "\n".join(_text(t, width) if isinstance(t, str) else _table(t, width, colour=colour) for t in tables)


def _text(text: str, width: int | None) -> str:
    """Return a text with lines that fit. The paragraph of a too long line is refilled, or only the line if indented."""
    shown = []
    for paragraph in harmless(text, _KEPT).split("\n\n"):
        lines = paragraph.split("\n")
        if width is not None and max(map(_length, lines)) > width:
            filled = lines if re.search(r"^\s", paragraph, re.MULTILINE) else [" ".join(lines)]
            indents = [line[: len(line) - len(line.lstrip())] for line in filled]
            pairs = zip(filled, indents, strict=True)
            lines = [indent + part for line, indent in pairs for part in _wrap(line.lstrip(), width - len(indent))]
        shown.append("\n".join(lines))
    return "\n\n".join(shown) + "\n"


def _table(table: Table, width: int | None, *, colour: bool) -> str:
    header = [plain(column.header) for column in table.columns]
    cells = [[_cut(plain(cell), WIDEST) for cell in row] for row in table.cells()]
    widths = {i: max(map(_length, column)) for i, column in enumerate(zip(header, *cells, strict=True))}
    notes = [plain(note) for note in table.notes]
    if width is not None and sum(widths.values()) + GAP * (len(widths) - 1) > width:
        widths = _fit(table, header, cells, width)
        notes = [*_omitted(header, cells, widths), *notes]
    if table.more and width is not None:
        notes.append(f"{len(table.more)} more columns: --columns all")
    lines = [line for text in [plain(table.title)] if text for line in _wrap(text, width)]
    if any(header):
        lines += _row(table, header, widths, bottom=True)
        lines.append("\N{BOX DRAWINGS LIGHT HORIZONTAL}" * (sum(widths.values()) + GAP * (len(widths) - 1)))
    for row in cells:
        lines += _row(table, row, widths, colour=colour)
    lines += [line for note in notes for line in _wrap(note, width)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _fit(table: Table, header: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> dict[int, int]:
    """Return the columns that fit, with their widths: always the keys, then as many of the others as possible.

    Of a table with further columns on demand all columns are keys.
    """
    columns = list(zip(*cells, strict=True)) or [() for _ in header]
    top = [max(_longest(name), min(_length(name), HEADER)) for name in header]
    least = [max([smallest, *map(_longest, column)]) for smallest, column in zip(top, columns, strict=True)]
    natural = [max([smallest, *map(_length, column)]) for smallest, column in zip(top, columns, strict=True)]
    wanted = [min(n, max(READABLE, n if table.columns[i].align == "right" else 0)) for i, n in enumerate(natural)]
    keys = sorted(range(len(header))[: None if table.more else table.keys], key=wanted.__getitem__)
    chosen: dict[int, int] = {}
    left = width + GAP
    for k, i in enumerate(keys):  # a wide key leaves space for the others
        chosen[i] = max(1, min(wanted[i], left // (len(keys) - k) - GAP))
        left -= chosen[i] + GAP
    for i in sorted(set(range(len(header))) - chosen.keys()):
        text = table.columns[i].align == "left" and least[i] < natural[i]
        enough = min(wanted[i], max(NARROW, least[i])) if text else wanted[i]
        if any(columns[i]) and enough + GAP <= left:
            chosen[i] = min(wanted[i], left - GAP)
            left -= chosen[i] + GAP
    for i in sorted(chosen):
        more = max(0, min(natural[i] - chosen[i], left))
        chosen[i] += more
        left -= more
    return dict(sorted(chosen.items()))


def _omitted(header: Sequence[str], cells: Sequence[Sequence[str]], widths: Mapping[int, int]) -> list[str]:
    """Return notes on what the columns of these widths do not show, and how to see it."""
    columns = list(zip(*cells, strict=True)) or [() for _ in header]
    hidden = [i for i, column in enumerate(columns) if i not in widths and any(column)]
    cut = any(_longest(cell) > widths[i] for i in widths for cell in (header[i], *columns[i]))
    how = "--json, a wider terminal, or `| less -S`"
    names = f"{len(hidden)} more column{'s' * (len(hidden) > 1)} ({'; '.join(header[i] for i in hidden)}): {how}"
    return [names] * bool(hidden) + [f"whole words for those that end in \N{HORIZONTAL ELLIPSIS}: {how}"] * cut


def _row(
    table: Table, row: Sequence[str], widths: Mapping[int, int], *, bottom: bool = False, colour: bool = False
) -> list[str]:
    """Return the lines of a row. With `bottom`, a shorter cell ends on the last line, as in a header."""
    wrapped = {i: _wrap(row[i], width) for i, width in widths.items()}
    height = max(map(len, wrapped.values()), default=0)
    for i, lines in wrapped.items():
        missing = [""] * (height - len(lines))
        wrapped[i] = [*missing, *lines] if bottom else [*lines, *missing]
    codes = {i: _code(table.columns[i].key, row[i]) if colour else "" for i in widths}
    return [
        (" " * GAP).join(
            _pad(wrapped[i][k], widths[i], codes[i], right=table.columns[i].align == "right") for i in widths
        )
        for k in range(height)
    ]


def _pad(text: str, width: int, code: str, *, right: bool) -> str:
    space = " " * (width - _length(text))
    text = f"\x1b[{code}m{text}\x1b[0m" if code and text else text
    return space + text if right else text + space


def _code(key: str, text: str) -> str:
    word = re.match(r"[\w]*", text)
    return _CODES.get(word[0], "") if word and key in STATUS_KEYS else ""


def _cut(text: str, width: int) -> str:
    if _length(text) <= width:
        return text
    ends = itertools.accumulate(map(_length, text))
    return f"{text[: sum(end < width for end in ends)]}\N{HORIZONTAL ELLIPSIS}"


def _length(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _pieces(text: str) -> list[str]:
    """Split a text into words, each with the spaces before it. Long words, such as paths, are split after / and ","."""
    pieces: list[str] = []
    for word in re.findall(r"\s*\S+", text):
        pieces += re.findall(r"[^/,]*[/,]*", word)[:-1] if len(word) > NARROW else [word]
    return pieces


def _longest(text: str) -> int:
    if text.isalnum():
        return _length(text)
    return max((_length(piece.lstrip()) for piece in _pieces(text)), default=0)


def _wrap(text: str, width: int | None) -> list[str]:
    """Wrap a text to lines of at most this width, between words. A longer word is cut and ends in an ellipsis."""
    if width is None or _length(text) <= width:
        return [text]
    lines = [""]
    for piece in _pieces(text):
        if lines[-1] and _length(lines[-1] + piece) > width:
            lines.append("")
        lines[-1] += piece if lines[-1] else _cut(piece.lstrip(), width)
    return lines
