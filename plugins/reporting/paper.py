"""Tables as a paper prints them: few columns, the best values in bold, a caption and a label."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from harness import Result
from harness.reports import Column, Table

COLUMNS = 5
"""Most columns, if the command names none."""
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
EMPTY = ("", "-", None)


def printed(result: Result, name: str, *, chosen: bool) -> Result:
    """Return the tables of report `name` as in a paper; the columns stay as they are if the command has chosen them."""
    tables: list[Table | str] = []
    for table in result.tables:
        if isinstance(table, Table):
            paper = _printed(table, name, chosen=chosen)
            names = (f"{paper.label}{suffix}" for suffix in ("", *(f"-{k}" for k in range(2, len(tables) + 3))))
            taken = [other.label for other in tables if isinstance(other, Table)]
            tables.append(replace(paper, label=next(name for name in names if name not in taken)))
    return replace(result, tables=tables)


def _printed(table: Table, name: str, *, chosen: bool) -> Table:
    columns = list(table.columns) if chosen else _few(table)
    texts = [{column.key: column.text(row) for column in columns} for row in table.rows]
    ranked = [index for index, row in enumerate(table.rows) if row.get("rank", 1) not in EMPTY]
    bold = {
        (index, column.key)
        for column in columns
        for index in _best(column, [(index, texts[index][column.key]) for index in ranked])
    }
    head = table.title.partition("; ")[0]
    setting = re.sub(r"(\S+)@([^\s,:]+)", r"\1 (protocol \2)", re.sub(r", task version \d+", "", head))
    cells = [text for row in texts for text in row.values()]
    intervals = any(sign in text for text in cells for sign in ("\N{PLUS-MINUS SIGN}", "["))
    title = name.replace("-", " ").capitalize()
    sentences = [
        f"Results on {setting}" if "@" in head else setting or title,
        *_constant(table, columns),
        *(["Intervals: 95 %, over seeds"] if intervals else []),
        *(["Best values in bold"] if bold else []),
    ]
    return Table(
        f"{'. '.join(sentences)}.",
        [
            replace(column, header=column.header[:1].upper() + column.header[1:], format="", shown="")
            for column in columns
        ],
        texts,
        label=re.sub(r"[^A-Za-z0-9]+", "-", f"{name}-{head.partition(',')[0]}").strip("-"),
        bold=bold,
    )


def _few(table: Table) -> list[Column]:
    """Return the columns that name a row, and then those with a best value, others if there are too few."""
    keys = list(table.columns[: table.keys])
    for column in tuple(keys):  # a rank names no row if the methods do
        rest = [key for key in keys if key is not column]
        if rest and len({tuple(key.text(row) for key in rest) for row in table.rows}) == len(table.rows):
            keys = rest
    others = [
        column
        for column in table.columns[table.keys :]
        if len(known := _known(table, column)) > 1 and any(math.isfinite(_leading(text)) for text in known)
    ]
    best = [column for column in others if column.best]
    few = [*keys, *best, *(column for column in others if column not in best and column.align == "right")][:COLUMNS]
    return [column for column in table.columns if column in few]


def _known(table: Table, column: Column) -> set[str]:
    return {text for row in table.rows if (text := column.text(row)) not in EMPTY}


def _constant(table: Table, columns: Sequence[Column]) -> list[str]:
    """Return "5 seeds" if all rows have as many, and no column shows it."""
    for column in table.columns:
        if column.key == "seeds" and column not in columns and len(known := _known(table, column)) == 1:
            return [f"{known.pop()} seeds"]
    return []


def _best(column: Column, texts: Sequence[tuple[int, str]]) -> list[int]:
    """Return the rows with the best printed value of a column, none if it has no direction or only one value."""
    values = {index: value for index, text in texts if math.isfinite(value := _leading(text))}
    if not column.best or len(set(values.values())) < 2:
        return []
    best = (min if column.best == "min" else max)(values.values())
    return [index for index, value in values.items() if value == best]


def _leading(text: str) -> float:
    """Return the number that a cell starts with, NaN without one."""
    match = NUMBER.match(text)
    return float(match[0].replace(",", "")) if match else math.nan
