"""The figures of a site: each is drawn once, and drawn again only if what it is made from has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.reporting.rendering import figures
from harness.reports import Figure
from harness.system import harmless
from plugins.nights.site import folder

INCH = 96
"""Pixels per inch in a browser."""
KINDS = ("svg", "png")


@dataclass(frozen=True)
class Picture:
    """A figure as a page shows it: its report, its files, its caption, its size in pixels, its task and method.

    `chart` is the text of its numbers in JSON, "" if it has none.
    """

    report: str
    svg: str
    png: str
    caption: str
    width: int
    height: int
    task: str
    method: str
    chart: str = ""


class Drawings:
    """The files of figures, taken from the site that is in a folder, or drawn.

    out        the folder of the site; None if there is none
    data       returns a digest of the code and of the runs of a task, or with "" of all, that figures are made from
    made_from  a digest for each figure that was asked for, by its path without suffix
    drawn      the number of figures that were drawn anew
    """

    def __init__(self, out: Path | None = None, data: Callable[[str], str] = str) -> None:
        self._out = out
        self._known = folder.drawn(out) if out is not None else {}
        self._data = data
        self._digests: dict[str, str] = {}
        self.made_from: dict[str, str] = {}
        self.drawn = 0

    def files(self, figure: Figure, path: str) -> dict[str, bytes]:
        """Return the contents of PATH.svg and PATH.png."""
        if figure.task not in self._digests:
            self._digests[figure.task] = self._data(figure.task)
        about = [self._digests[figure.task], figure.name, figure.size, figure.caption, figure.title, figure.task]
        digest = hashlib.sha256(json.dumps([str(part) for part in about]).encode()).hexdigest()
        self.made_from[path] = digest
        names = [f"{path}.{kind}" for kind in KINDS]
        if self._out is not None and all(self._known.get(name) == digest for name in names):
            return {name: (self._out / name).read_bytes() for name in names}
        self.drawn += 1
        contents = figures.drawn(replace(figure, name=path.rpartition("/")[2]), *KINDS)
        return dict(zip(names, contents, strict=True))


def chart_text(chart: Mapping[str, Any] | None) -> str:
    """Return the numbers of a chart in JSON; raise an error for what JSON does not have, such as infinities."""
    return "" if chart is None else json.dumps(_harmless(chart), allow_nan=False, separators=(",", ":"))


def _harmless(value: Any) -> Any:
    """Return a value of JSON without control characters in its texts."""
    if isinstance(value, Mapping):
        return {str(key): _harmless(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_harmless(part) for part in value]
    return harmless(value) if isinstance(value, str) else value
