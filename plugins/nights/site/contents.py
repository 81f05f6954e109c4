"""The files of a site. Equal sites give equal bytes."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import escape

from harness import BenchError
from harness.reporting.rendering import FORMATS, SUFFIXES, web
from harness.reports import Column, Figure, Table, number, render
from harness.system import harmless
from harness.system.streams import say
from plugins.nights.site import equations, matrix
from plugins.nights.site.bars import bars
from plugins.nights.site.folder import INDEX
from plugins.nights.site.model import Section, Site, SiteField, SiteRow
from plugins.nights.site.pictures import INCH, KIND, Drawings, Picture, chart_text, file_name, unused

TEMPLATES = Path(__file__).parent / "templates"
STYLE = "style.css"
EQUATION = re.compile(r"<-| = | ~ ")
"""What an indented paragraph has that is an equation and not code or a list."""
DOCUMENTS = tuple(form for form in FORMATS if form not in {"table", "html"})
HEADLINES = ("profile", "ranks")
"""Reports whose first figure is on the start page."""
OPENING = "targets"
"""The report whose figures are first on the start page."""
BIAS = "bias"
"""The report that is on the pages of the methods."""
FIRST_SHOWN = ("convergence", "density", "marginals", "pareto", "curves", "reliability", "trace")
"""Reports whose figures come first on the page of a task, in this order; `SHOWN` of them are large."""
SHOWN = 3
IN_LOG = 5.0
CARD_ROWS, LONGEST = 5, 20
"""Rows of a ranking on the start page, and on the page of a task; the table on that page has all rows."""


class Links:
    """The pages of a site, by the thing that they show."""

    def __init__(self, site: Site) -> None:
        self.tasks = _places("tasks", [task.name for task in site.tasks])
        self.methods = _places("methods", [method.name for method in site.methods])
        self.suites = _places("suites", [suite.name for suite in site.suites])
        keys = [row.key for field in site.fields for row in field.rows]
        self.rows = {key: f"rows/{file_name(key)[:16]}.html" for key in keys}
        self.runs = {run: row.key for field in site.fields for row in field.rows for run in row.runs}
        self.names = {name: self.rows[key] for name, key in site.names.items() if key in self.rows}

    def cell(self, row: Mapping[str, Any], column: Column) -> str:
        """Return the link of a cell in any table, or "".

        The key of the column decides: a task or method links to its page, and the cell that names a row of results to
        the page of that row, if the record has its "group" key or its "run_keys".
        """
        value = row.get(column.key)
        if not isinstance(value, str):
            return ""
        if column.key in {"method", "label", "row"} and (page := self.rows.get(self._group(row))):
            return page
        kind = {"task": self.tasks, "method": self.methods, "row": self.names, "suite": self.suites}.get(column.key, {})
        return kind.get(value, "")

    def _group(self, row: Mapping[str, Any]) -> str:
        """Return the group key of a record; "" if it has none, or its runs are in several groups."""
        keys = row.get("run_keys")
        groups = {self.runs.get(str(key), "") for key in keys} if isinstance(keys, list) else set()
        return str(row["group"]) if "group" in row else groups.pop() if len(groups) == 1 else ""


def contents(site: Site, drawings: Drawings | None = None) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the files of a site by their path within its folder, and the problems of its sections by name.

    `drawings` has the figures that need not be drawn anew.
    """
    drawings = drawings or Drawings()
    files: dict[str, bytes] = {STYLE: _text(STYLE).encode()}
    pictures: dict[str, list[Picture]] = {}
    shown: list[Section] = []
    sections = [*([site.changes] if site.changes else []), *site.sections]
    for section in sections:
        begin(section, drawings)
    drawings.finish(progress)
    for section in sections:
        whole, documents, pictures[section.name] = _documents(section, drawings)
        if not whole.empty:
            shown.append(whole)
            files |= documents
    pictures = _distinct(pictures, {part.name: str(part.summary) for part in shown})
    links = Links(site)
    night = site.changes.name if site.changes else ""
    common = {
        "site": site, "links": links, "reports": [part for part in shown if part.name != night],
        "pictures": pictures, "number": number, "bars": bars, "paragraphs": paragraphs, "heading": matrix.heading(site),
        "study": site.name if site.changes else matrix.heading(site),
    }  # fmt: skip
    pages = _reports(shown, files) | _subjects(site, links, pictures) | _overviews(site, pictures)
    for path, (template, content) in pages.items():
        files[path] = _page(template, path, **common, **content).encode()
    return files, {s.name: s.problem for s in shown if s.problem}


Pages = dict[str, tuple[str, dict[str, Any]]]
"""The template and the content of each page, by path."""


def _reports(shown: Sequence[Section], files: Mapping[str, bytes]) -> Pages:
    pages: Pages = {}
    for section in shown:
        forms = [(form, name) for form in DOCUMENTS if (name := f"{section.name}{SUFFIXES[form]}") in files]
        pages[f"{section.name}.html"] = "report.html", {"section": section, "forms": forms}
    return pages


def _subjects(site: Site, links: Links, pictures: Mapping[str, Sequence[Picture]]) -> Pages:
    """Return the pages of tasks, methods, rows and suites."""
    pages: Pages = {}
    rows = [(field, row) for field in site.fields for row in field.rows]
    for task in site.tasks:
        fields = [field for field in site.fields if field.task == task.name]
        content = {"subject": task, "fields": fields, "drawn": _about(task.name, pictures), "longest": LONGEST}
        pages[links.tasks[task.name]] = "task.html", content | {"shown": SHOWN}
    for method in site.methods:
        table = _rows_table([(field, row) for field, row in rows if row.method == method.name])
        content = {"subject": method, "table": table, "bias": _of_method(method.name, site)}
        drawn = [picture for picture in pictures.get(BIAS, []) if picture.method == method.name]
        pages[links.methods[method.name]] = "method.html", {**content, "drawn": drawn}
    for field, row in rows:
        content = {"row": row, "field": field, "drawn": _about(row.task, pictures)}
        pages[links.rows[row.key]] = "row.html", content
    for suite in site.suites:
        pages[links.suites[suite.name]] = "suite.html", {"suite": suite}
    return pages


def _of_method(method: str, site: Site) -> list[Table]:
    """Return the tables of the report on bias that are about a method: each of their records names it."""
    tables = [table for part in site.sections if part.name == BIAS for table in part.result.tables]
    return [one for one in tables if isinstance(one, Table) and {row.get("method") for row in one.rows} == {method}]


def _about(task: str, pictures: Mapping[str, Sequence[Picture]]) -> list[Picture]:
    """Return the pictures of a task, those of `FIRST_SHOWN` first."""
    order = {name: i for i, name in enumerate(FIRST_SHOWN)}
    drawn = [picture for of_report in pictures.values() for picture in of_report if picture.task == task]
    return sorted(drawn, key=lambda picture: order.get(picture.report, len(order)))


def _overviews(site: Site, pictures: Mapping[str, Sequence[Picture]]) -> Pages:
    """Return the start page, and the page of all rows."""
    standings = _methods_table(site) if site.fields else None
    headline = [picture for name in HEADLINES for picture in pictures.get(name, [])[:1]]
    content = {
        "families": _families(site), "standings": standings, "most": CARD_ROWS, "headline": headline,
        "opening": pictures.get(OPENING, []), "matrices": matrix.matrices(site), "conclusion": matrix.conclusion(site),
    }  # fmt: skip
    pages: Pages = {INDEX: ("index.html", content)}
    if site.fields:
        table = _rows_table([(field, row) for field in site.fields for row in field.rows])
        pages["rows.html"] = "rows.html", {"table": table}
    return pages


class _Clock:
    """When a message of progress was last printed to a log."""

    last = time.monotonic()


def progress(message: str) -> None:
    """Print a message about a step that takes long: on a terminal each, in a log one every `IN_LOG` seconds."""
    now = time.monotonic()
    if sys.stderr.isatty() or now - _Clock.last >= IN_LOG:
        _Clock.last = now
        say(message)


def described(error: BaseException) -> str:
    """Return the text of an error of a plugin."""
    return str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"


def paragraphs(text: str) -> list[tuple[str, str]]:
    """Return the paragraphs of a docstring: ("p", text), ("equation", text), or ("pre", text) if set line by line."""
    parts = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.splitlines()
        is_prose = not any(line.startswith(" ") for line in lines) and all(len(line) > 60 for line in lines[:-1])
        is_equation = all(line.startswith("    ") for line in lines) and EQUATION.search(part)
        parts.append(("p", " ".join(lines)) if is_prose else ("equation" if is_equation else "pre", part))
    return parts


def script(*, charts: bool = False) -> str:
    """Return the script of a page: what every page has, and with `charts` what draws them."""
    return "".join(map(_text, ("state.js", "script.js", *(("uPlot.js", "charts.js") if charts else ()))))


def policy(code: str) -> str:
    """Return the Content-Security-Policy of a page: it allows this script, by its hash, and no other."""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    nothing = "object-src 'none'; connect-src 'none'; frame-src 'none'; base-uri 'none'; form-action 'none'"
    return f"script-src 'sha256-{digest}'; {nothing}"


def _page(template: str, path: str, **content: Any) -> str:
    root, page = "../" * path.count("/"), ""
    for charts in (False, True):
        code = script(charts=charts)
        frame = {"root": root, "here": path, "script": code, "policy": policy(code)}
        page = str(_environment().get_template(template).render(**frame, **content))
        if "data-chart=" not in page:
            break
    return page


@functools.cache
def _environment() -> Any:
    environment = web.environment(TEMPLATES)
    markup = environment.filters["own"]
    environment.filters["block"] = lambda text: markup(escape(harmless(str(text), "\n")))
    environment.filters["equation"] = lambda text: markup(equations.markup(harmless(str(text), "\n")))
    return environment


@functools.cache
def _text(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _places(folder: str, names: Sequence[str]) -> dict[str, str]:
    """Return a page for each name, which may contain any characters because it comes from a results folder."""
    pages: dict[str, str] = {}
    for name in names:
        taken = {page.removeprefix(f"{folder}/").removesuffix(".html") for page in pages.values()}
        pages[name] = f"{folder}/{unused(name, taken)}.html"
    return pages


def _documents(section: Section, drawings: Drawings) -> tuple[Section, dict[str, bytes], list[Picture]]:
    """Return a section with its documents and figures; if one of these fails, the section has only that problem."""
    if section.problem:
        return section, {}, []
    files: dict[str, bytes] = {}
    pictures: list[Picture] = []
    try:
        for figure, path in _paths(section):
            files[f"{path}.{KIND}"] = drawings.file(figure, path)
            pictures.append(_picture(figure, section, f"{path}.{KIND}"))
        files |= {f"{section.name}{SUFFIXES[form]}": render(section.result, form).encode() for form in DOCUMENTS}
        render(section.result, "html")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the result of a plugin's report may fail in any way
        return replace(section, result=type(section.result)(), problem=described(error)), {}, []
    return section, files, pictures


def begin(section: Section, drawings: Drawings) -> None:
    """Begin to draw the figures of a section, unless that was done."""
    with contextlib.suppress(Exception):  # `_documents` raises it again, for the section
        drawings.begin(_paths(section))


def _paths(section: Section) -> list[tuple[Figure, str]]:
    """Return the figures of a section with the paths of their files, without suffix.

    Plugins choose the names, so two figures may have the same name.
    """
    taken: list[str] = []
    for figure in section.result.figures:
        taken.append(unused(figure.name, taken))
    return [(one, f"figures/{section.name}/{name}") for one, name in zip(section.result.figures, taken, strict=True)]


def _picture(figure: Figure, section: Section, file: str) -> Picture:
    """Return the picture of a figure with this file."""
    width, height = (round(inches * INCH) for inches in figure.size)
    caption = str(figure.caption) or str(figure.name).removeprefix(f"{section.name}-")
    of_chart = str((figure.chart or {}).get("caption") or "")
    text = chart_text(figure.chart)
    return Picture(section.name, file, caption, width, height, figure.task, figure.method, text, of_chart)


def _distinct(pictures: Mapping[str, Sequence[Picture]], summaries: Mapping[str, str]) -> dict[str, list[Picture]]:
    """Return the pictures with different captions, so that alt texts differ.

    A caption that several figures have, or that is only a name, is prefixed with its report's summary; if this is not
    enough, the name of the file is added.
    """

    def several(captions: Sequence[str]) -> set[str]:
        return {caption for caption, times in Counter(captions).items() if times > 1}

    alike = several([picture.caption for of_report in pictures.values() for picture in of_report])
    captioned = {
        name: [
            replace(p, caption=f"{summaries.get(name) or name}: {p.caption}")
            if p.caption in alike or " " not in p.caption
            else p
            for p in of_report
        ]
        for name, of_report in pictures.items()
    }
    alike = several([picture.caption for of_report in captioned.values() for picture in of_report])
    return {
        name: [replace(p, caption=f"{p.caption} ({Path(p.svg).stem})") if p.caption in alike else p for p in of_report]
        for name, of_report in captioned.items()
    }


def _families(site: Site) -> list[tuple[str, list[SiteField]]]:
    """Return the fields of the start page by family of tasks.

    For each task and protocol, it is the field with most ranked rows, and of those the longest.
    """
    chosen: dict[tuple[str, str], SiteField] = {}
    for field in site.fields:
        known = chosen.setdefault((field.task, field.protocol), field)
        if (field.ranked, field.steps, field.chains) > (known.ranked, known.steps, known.chains):
            chosen[field.task, field.protocol] = field
    family = {task.name: task.family for task in site.tasks}
    names = dict.fromkeys(family[field.task] for field in chosen.values())
    return [(name, [field for field in chosen.values() if family[field.task] == name]) for name in sorted(names)]


def _rows_table(members: Sequence[tuple[SiteField, SiteRow]]) -> Table:
    rows = [
        {
            "method": row.method, "label": row.label, "task": row.task, "protocol": row.protocol, "budget": row.budget,
            "chains": row.chains, "seeds": row.seeds, "rank": row.rank, "of": field.ranked or None,
            "verdict": row.verdict or None,
            "metric": field.metric, "value": row.value, "status": row.status, "seconds": row.seconds, "group": row.key,
        }
        for field, row in members
    ]  # fmt: skip
    columns = [
        Column("label", "row"), Column("task", "task"), Column("protocol", "protocol"), Column("budget", "budget"),
        Column("chains", "chains", "right"), Column("seeds", "seeds", "right"), Column("rank", "rank", "right"),
        Column("of", "of", "right"), Column("verdict", "verdict"), Column("value", "value", "right"),
        Column("metric", "by"), Column("status", "status"),
        *([Column("seconds", "seconds a run", "right", number)] if any(row["seconds"] for row in rows) else []),
    ]  # fmt: skip
    return Table("Rows", columns, rows)


def _methods_table(site: Site) -> Table:
    """Return a table of every method: on how many tasks it was run, and in how many tables it is ranked, and first."""
    rows = []
    for method in site.methods:
        pairs = [(field, row) for field in site.fields for row in field.rows if row.method == method.name]
        rows.append({
            "method": method.name, "tasks": len({field.task for field, _ in pairs}), "rows": len(pairs),
            "ranked": sum(row.rank is not None for _, row in pairs), "first": sum(row.rank == 1 for _, row in pairs),
            "summary": method.summary,
        })  # fmt: skip
    columns = [
        Column("method", "method"), Column("tasks", "tasks", "right"), Column("rows", "rows", "right"),
        Column("ranked", "ranked", "right"), Column("first", "first places", "right"), Column("summary", "what it is"),
    ]  # fmt: skip
    return Table(
        "Samplers and methods", columns, sorted(rows, key=lambda row: (-row["first"], -row["ranked"], row["method"]))
    )
