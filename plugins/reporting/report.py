"""`bench report`: make a report of the results, as text on stdout or as files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness import Bench, DataError, Result, UsageError, options
from harness.contracts import plugin_code
from harness.reporting import build, find_report, request_for, why_empty
from harness.reporting.rendering import SUFFIXES, figures
from harness.reports import Figure, Table, render, write_set
from harness.system import count, words
from plugins.reporting.fitting import GREATEST, LEAST, WIDTHS, fitted
from plugins.reporting.paper import printed

PAIR = ("svg", "png")
"""The kinds of files in which a folder has each figure."""
WIDEST = 40
"""Largest width or height of a figure in inches: 6,400 pixels at the 160 dots per inch of a PNG file. A square of this
size takes 160 MB in memory.
"""


def report(
    bench: Bench,
    name: Annotated[
        str,
        typer.Argument(help="The report; `bench ls reports` lists them.", autocompletion=options.completes("reports")),
    ],
    task: options.OnlyTasks = None,
    method: options.OnlyMethods = None,
    protocol: Annotated[list[str] | None, typer.Option(help="Only these protocols, a,b,c.")] = None,
    budget: Annotated[
        list[str] | None, typer.Option(help="Only runs with these budgets, a,b,c.", autocompletion=options.BUDGETS)
    ] = None,
    chains: Annotated[
        list[str] | None, typer.Option(metavar="N,N", help="Only runs with these numbers of chains, 4,8.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Rank by this metric.")] = None,
    columns: Annotated[
        list[str] | None, typer.Option(help="Only these columns of the tables, a,b,c, or all of them: all.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="Size of the figures: column (3.25 inches wide), text (5.5), wide (6.75), or WIDTHxHEIGHT in inches, "
            "as in 7x4.",
            autocompletion=lambda: list(WIDTHS),
        ),
    ] = None,
    font_size: Annotated[
        float | None,
        typer.Option(metavar="POINTS", help="Size of the font of the figures; by default 8 to 10, by their width."),
    ] = None,
    style: Annotated[
        str | None,
        typer.Option(
            help="paper: tables of at most five columns, with the best values in bold, a caption and a label, for "
            "--format latex.",
            autocompletion=lambda: ["paper"],
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the figures, instead of their own.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A file for the text, a file for the figure (.svg, .png or .pdf), or a folder for both. Figures are "
            "drawn only with it."
        ),
    ] = None,
) -> Result | None:
    """Make a report of the results; `bench ls reports` lists the reports. The ending of --out chooses the format.

    Examples:
        bench report leaderboard
        bench report leaderboard --task mixture25 --format latex --style paper
        bench report density --task mixture25 --size column --out figures
    """
    kind, form = _formats(out, bench.form)
    _check(font_size, style, form)
    width, height = _inches(size) if size else (None, None)
    registry = bench.registry
    builder = find_report(registry, name)
    store = bench.store()
    given = {"task": task, "method": method, "protocol": protocol, "budget": budget, "chains": chains}
    request = request_for(store, registry, {name: words(values) for name, values in given.items()}, metric)
    result = build(builder, name, store, request)
    result = _with_columns(result, columns, form)
    result = printed(result, name, chosen=bool(columns)) if style else result
    notes = [f"note: {note}" for note in result.notes]
    notes += why_empty(result, name, store, request)
    if out is None:
        if result.figures:
            drawable = count(len(result.figures), "figure")
            notes.append(f"{drawable} not drawn; --out FOLDER writes them, --out FILE.svg a single one")
        return replace(result, notes=notes)
    drawn = [figure if title is None else replace(figure, title=title) for figure in result.figures]
    if size or font_size:
        drawn = [fitted(figure, width or figure.size[0], height, font_size) for figure in drawn]
    for note in notes:
        bench.say(note)
    if kind:
        file = _file(out, name, "")
        files = {file.name: figures.drawn(_only(drawn, name, out), kind)[0]}
    else:
        captions = [f"Figure {figure.name}: {figure.caption}" for figure in drawn if figure.caption]
        with plugin_code(f"report {name} cannot be shown as {form}"):
            text = render(replace(result, tables=[*result.tables, *captions]), form)
        file = _file(out, name, SUFFIXES[form])
        files = {file.name: text.encode(), **({} if form in {"csv", "json"} else _drawn(drawn))}
    try:
        write_set(file.parent, files)
    except OSError as error:
        raise DataError(
            f"cannot write {error.filename or file.parent}: {error.strerror}; choose another --out"
        ) from error
    for written in files:
        bench.say(f"wrote {file.parent / written}")
    return None


def _formats(out: Path | None, form: str) -> tuple[str, str]:
    """Return the kind of figure that `out` names, or "", and the format of the text.

    `UsageError` for an unknown ending, or if a format is given for a figure.
    """
    ending = out.suffix.lower() if out is not None and not out.is_dir() else ""
    known = {suffix: form for form, suffix in SUFFIXES.items()}
    if ending[1:] in figures.METADATA:
        if form:
            raise UsageError(f"--out {out} names a figure, which has no format {form}; leave one of them out")
        return ending[1:], "table"
    if ending and not form and ending not in known:
        endings = ", ".join([*known, *(f".{kind}" for kind in figures.METADATA)])
        raise UsageError(f"--out {out}: unknown ending {ending}; choose one of {endings}, or name a folder")
    return "", form or known.get(ending, "table")


def _check(font_size: float | None, style: str | None, form: str) -> None:
    """Raise `UsageError` for options that cannot be."""
    if style not in {None, "paper"}:
        raise UsageError(f"unknown --style {style!r:.40}; it is paper")
    if style and form != "latex":
        raise UsageError(f"--style paper is for --format latex, not {form}")
    if font_size is not None and not LEAST <= font_size <= GREATEST:
        raise UsageError(f"--font-size {font_size:g} is not from {LEAST:g} to {GREATEST:g} points")


def _only(drawn: Sequence[Figure], name: str, out: Path) -> Figure:
    """Return the figure if there is exactly one, else raise `UsageError`."""
    if len(drawn) != 1:
        names = ", ".join(figure.name for figure in drawn[:5]) + ", ..." * (len(drawn) > 5)
        what = f"{len(drawn)} figures, {names}: narrow it by --task, --protocol, --method, --budget or --chains"
        what = what if drawn else "no figure of these results"
        raise UsageError(f"--out {out} takes one figure; report {name} has {what}, or give --out a folder")
    return drawn[0]


def _inches(text: str) -> tuple[float, float | None]:
    """Return the width, and the height if it is given."""
    if text in WIDTHS:
        return WIDTHS[text], None
    match = re.fullmatch(r"(\d{1,2}(?:\.\d{1,3})?)x(\d{1,2}(?:\.\d{1,3})?)", text)
    size = (float(match[1]), float(match[2])) if match else (0.0, 0.0)
    if not 1 <= min(size) <= max(size) <= WIDEST:
        names = ", ".join(WIDTHS)
        raise UsageError(f"--size {text!r:.40} is not WIDTHxHEIGHT in inches from 1 to {WIDEST}, as in 7x4; or {names}")
    return size


def _with_columns(result: Result, asked: Sequence[str] | None, form: str) -> Result:
    """Return the result with only these columns: of the records for the formats csv and json, else of the tables."""
    if not asked or (asked == ["all"] and form in {"csv", "json"}):
        return result
    if form in {"csv", "json"}:
        known = list(dict.fromkeys(key for record in result.records for key in record))
        names = _column_names(asked, {key: key for key in known})
        return replace(result, records=[{key: record.get(key) for key in names} for record in result.records])
    tables = [replace(t, columns=[*t.columns, *t.more], more=()) for t in result.tables if isinstance(t, Table)]
    if asked == ["all"]:
        return replace(result, tables=tables)
    names = _column_names(asked, {n: c.key for table in tables for c in table.columns for n in (c.key, c.header)})
    chosen = [[column for key in names for column in table.columns if column.key == key] for table in tables]
    return replace(
        result,
        tables=[replace(t, columns=columns, keys=1) for t, columns in zip(tables, chosen, strict=True) if columns],
    )


def _column_names(asked: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """Return the keys of the named columns. A name may contain a comma."""
    named = [name for text in asked for name in ([text] if text in known else words(text))]
    for name in named:
        if known and name not in known:
            raise UsageError(f"unknown column {name!r:.80}; the columns are {', '.join(known)}")
    return list(dict.fromkeys(known[name] for name in named if name in known))


def _file(out: Path, name: str, suffix: str) -> Path:
    """Return the file to write: `out` itself, or a file with this suffix in the folder `out`. Links are followed."""
    file = out if out.suffix and not out.is_dir() else out / f"{name}{suffix}"
    if file.exists():
        file = file.resolve()
        if not file.is_file():
            raise DataError(f"cannot write {file}: it is not an ordinary file; choose another --out")
    return file


def _drawn(drawn: Iterable[Figure]) -> dict[str, bytes]:
    names: list[str] = []
    files: dict[str, bytes] = {}
    for figure in drawn:
        names.append(figures.unused(figure.name, names))
        contents = figures.drawn(figure, *PAIR)
        files |= {f"{names[-1]}.{kind}": content for kind, content in zip(PAIR, contents, strict=True)}
    return files
