"""The figures of a site: each is drawn once, and drawn again only if what it is made from has changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import connection
from pathlib import Path
from typing import Any

from harness.reporting.rendering import figures
from harness.reports import Figure
from harness.system import count, harmless
from plugins.nights.site import folder

INCH = 96
"""Pixels per inch in a browser."""
file_name, unused = figures.file_name, figures.unused
KIND = "svg"
FEWEST = 3
"""Figures for which a process is worth its start."""
SILENCE = 60.0
"""Seconds after which a process that has sent nothing is ended."""


@dataclass(frozen=True)
class Picture:
    """A figure as a page shows it: its report, its file, its caption, its size in pixels, its task and method.

    `chart` is the text of its numbers in JSON, "" if it has none; `of_chart` is the caption of these.
    """

    report: str
    svg: str
    caption: str
    width: int
    height: int
    task: str
    method: str
    chart: str = ""
    of_chart: str = ""


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
        self._ready: dict[str, bytes] = {}
        self.made_from: dict[str, str] = {}
        self.drawn = 0

    def prepare(self, figures: Sequence[tuple[Figure, str]], progress: Callable[[str], None]) -> None:
        """Draw the figures with these paths that are not known, in several processes if there are many.

        One that cannot be drawn is left to `file`, which raises its error.
        """
        new = [(figure, path) for figure, path in figures if self._is_new(figure, path)]
        if new:
            progress(f"drawing {count(len(new), 'figure')}; {len(figures) - len(new)} are as before")
            self._ready = dict(_drawn(new, progress))

    def file(self, figure: Figure, path: str) -> bytes:
        """Return the contents of PATH.svg."""
        if self._is_known(figure, path) and self._out is not None:
            return (self._out / f"{path}.{KIND}").read_bytes()
        self.drawn += 1
        return self._ready.pop(path, None) or _draw(figure, path)

    def _is_new(self, figure: Figure, path: str) -> bool:
        try:
            return not self._is_known(figure, path)
        except Exception:  # noqa: BLE001 - a plugin's figure may have any fields, and `file` raises the error again
            return False

    def _is_known(self, figure: Figure, path: str) -> bool:
        if figure.task not in self._digests:
            self._digests[figure.task] = self._data(figure.task)
        about = [self._digests[figure.task], figure.name, figure.size, figure.caption, figure.title, figure.task]
        digest = hashlib.sha256(json.dumps([str(part) for part in about]).encode()).hexdigest()
        self.made_from[path] = digest
        return self._known.get(f"{path}.{KIND}") == digest


def _draw(figure: Figure, path: str) -> bytes:
    return figures.drawn(replace(figure, name=path.rpartition("/")[2]), KIND)[0]


def _drawn(new: Sequence[tuple[Figure, str]], progress: Callable[[str], None]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the contents of figures as they are drawn, in a forked process for each processor.

    Functions that draw cannot be sent to a process, so each inherits them. A child that is silent for `SILENCE` seconds
    is ended: a lock that another thread held at the fork may stop it. Its figures are left out.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    workers = min(cores, len(new) // FEWEST)
    if workers < 2:
        return
    from matplotlib import font_manager

    font_manager.fontManager.ttflist  # noqa: B018 - loaded once, before the fork
    context = multiprocessing.get_context("fork")
    pipes: dict[Any, Any] = {}
    for k in range(workers):
        reader, writer = context.Pipe(duplex=False)
        child = context.Process(target=_send, args=(new[k::workers], writer), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: see above
            child.start()
        writer.close()
        pipes[reader] = child
    done = 0
    while pipes:
        ready = connection.wait(pipes, SILENCE)
        for reader in [known for known in pipes if known in ready or not ready]:
            try:
                received = reader.recv() if ready else None
            except EOFError:
                received = None
            if received is None:
                pipes[reader].kill()
                pipes.pop(reader).join()
            else:
                done += 1
                progress(f"drawn {done} of {len(new)} figures")
                yield received


def _send(share: Sequence[tuple[Figure, str]], writer: Any) -> None:
    """Draw figures and send each; what cannot be drawn is drawn again by the parent, which reports the error."""
    for figure, path in share:
        with contextlib.suppress(Exception, SystemExit):
            writer.send((path, _draw(figure, path)))
    writer.close()


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
