"""A site of static files: an index page with everything on it, a page for each report, and each report in every format.

It opens from disk: no script, no address outside the folder, system fonts. Equal content gives equal bytes. Files are
replaced after all are written, the index last, and files that the new site lacks are deleted after that. So a reader
finds the old index or the new one, with all files that it links to.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.reporting.rendering import FORMATS, SUFFIXES, figures, render, web
from harness.reporting.report import Figure, Result
from harness.system.errors import BenchError, UsageError
from harness.system.files import FILES, alone, placed_set, read_json, write_set

MANIFEST = "site.json"
STALE = "stale"
"""In a manifest: files of the previous site that are being deleted."""
MADE_FROM = "made_from"
"""In a manifest: a digest of everything that the site was made from."""
INDEX = "index.html"
DOCUMENTS = tuple(form for form in FORMATS if form not in {"table", "html"})
INCH = 96
"""Pixels of a browser's inch."""


@dataclass(frozen=True)
class Section:
    """A report on the site: `name` makes its file names; `problem` says why there is no result."""

    name: str
    summary: str
    result: Result = field(default_factory=Result)
    problem: str = ""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.result.tables or self.result.records or self.result.figures or self.problem)


@dataclass(frozen=True)
class Site:
    """All that is published. The first section stands before the others, without a heading of its own.

    verdict   a summary in a few words; `tone` is "good", "bad" or "plain"
    lead      sentences below it
    facts     (label, text): when, versions, machine
    """

    name: str
    verdict: str
    tone: str
    lead: Sequence[str]
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]


@dataclass(frozen=True)
class Picture:
    """A figure as a page shows it: its files and its size in pixels."""

    svg: str
    png: str
    caption: str
    width: int
    height: int


def check_folder(folder: Path, name: str) -> None:
    """Raise `UsageError` if a folder cannot be created or written to, or holds something other than this site."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder} is a file; choose a folder")
    try:
        with tempfile.TemporaryFile(dir=next(path for path in (folder, *folder.absolute().parents) if path.exists())):
            pass
    except OSError as error:
        raise UsageError(f"--out {folder} cannot be written to: {error.strerror}; choose another folder") from error
    if not (folder / INDEX).exists() and not (folder / MANIFEST).exists():
        return
    owner = (read_json(folder / MANIFEST) or {}).get("site")
    if owner != name:
        what = f"the pages of {owner!r:.60}" if owner else f"an {INDEX} that is not from here"
        raise UsageError(f"--out {folder} holds {what}; choose another folder, or empty this one")


def is_current(folder: Path, made_from: str) -> bool:
    """Whether a folder holds a whole site that `publish` made from the same."""
    manifest = placed_set(folder, MANIFEST)
    return manifest.get(MADE_FROM) == made_from and STALE not in manifest


def publish(site: Site, folder: Path, made_from: str = "") -> dict[str, str]:
    """Write a site into a folder; other files in it stay, those of the site before that it does not have go.

    `made_from` is a digest of all that the site depends on, for `is_current`; it is not kept where a section could not
    be made. Returns the problems of those sections, by name.
    """
    check_folder(folder, site.name)
    folder.mkdir(parents=True, exist_ok=True)
    made, problems = contents(site)
    files = {name: made[name] for name in sorted(made, key=_linked_first)}
    with alone(folder):
        before = read_json(folder / MANIFEST) or {}
        lists = [found for key in (FILES, STALE) if isinstance(found := before.get(key), dict | list)]
        named = {name for found in lists for name in found if isinstance(name, str) and _is_own(name)}
        stale = sorted(named - files.keys(), key=_linked_first, reverse=True)
        about = {"site": site.name, **({} if problems else {MADE_FROM: made_from})}
        write_set(folder, files, MANIFEST, **about, **({STALE: stale} if stale else {}))
        for name in stale:
            (folder / name).unlink(missing_ok=True)
        if stale:
            write_set(folder, files, MANIFEST, **about)
    return problems


def contents(site: Site) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files of a site by their path within its folder, and the problems of its sections by name."""
    files: dict[str, bytes] = {}
    pictures: dict[str, list[Picture]] = {}
    shown: list[Section] = []
    for section in site.sections:
        whole, own, pictures[section.name] = _made(section)
        if not whole.empty:
            shown.append(whole)
            files |= own
    common = {"site": site, "sections": shown, "pictures": pictures}
    for section in shown:
        page = web.page("report.html", section=section, links=_links(section, files), **common)
        files[f"{section.name}.html"] = page.encode()
    links = {section.name: _links(section, files) for section in shown}
    index = web.page("index.html", links=links, **common)
    return {**files, INDEX: index.encode()}, {s.name: s.problem for s in shown if s.problem}


def _made(section: Section) -> tuple[Section, dict[str, bytes], list[Picture]]:
    """A section with its documents and figures; if one of these fails, the section has only that problem."""
    if section.problem:
        return section, {}, []
    own: dict[str, bytes] = {}
    try:
        pictures = [_draw(figure, section.name, own) for figure in section.result.figures]
        own |= {f"{section.name}{SUFFIXES[form]}": render(section.result, form).encode() for form in DOCUMENTS}
        render(section.result, "html")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - what a plugin's report holds may fail to be shown in any way
        return replace(section, result=Result(), problem=described(error)), {}, []
    return section, own, pictures


def described(error: BaseException) -> str:
    """An error of a plugin in words."""
    return str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"


def _links(section: Section, files: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """(what, file) of each form of a section that there is."""
    forms = [(form, f"{section.name}{SUFFIXES[form]}") for form in DOCUMENTS]
    return [("page", f"{section.name}.html"), *((form, name) for form, name in forms if name in files)]


def _draw(figure: Figure, section: str, files: dict[str, bytes]) -> Picture:
    """Add a figure's files. Plugins choose the names, so two figures may have the same."""
    folder = f"figures/{section}/"
    taken = {place.removeprefix(folder).removesuffix(".svg") for place in files if place.startswith(folder)}
    name = figures.unused(figure.name, taken)
    own = {f"{folder}{file}": content for file, content in figures.files(replace(figure, name=name), name).items()}
    files |= own
    width, height = (round(inches * INCH) for inches in figure.size)
    svg, png = own
    return Picture(svg, png, figure.caption or figure.name, width, height)


def _linked_first(name: str) -> tuple[bool, bool, str]:
    """Sorts a file before the pages that link to it."""
    return name == INDEX, name.endswith(".html"), name


def _is_own(name: str) -> bool:
    """Whether a file name from a manifest, which may have been edited, is one that a site can have."""
    return re.fullmatch(r"(figures/[a-z0-9-]+/)?[A-Za-z0-9_-]+\.[a-z]+", name) is not None
