"""The figures of a site: each is drawn once, and drawn again only if what it is made from has changed.

They are drawn in processes of their own, while the next reports are built.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import connection
from pathlib import Path
from typing import Any

from harness.reporting.rendering import figures
from harness.reports import Figure
from harness.system import count, forks, harmless
from plugins.nights.site import folder

INCH = 96
"""Pixels per inch in a browser."""
file_name, unused = figures.file_name, figures.unused
KIND = "svg"
AT_ONCE = 2
"""Fewest figures of a process, where so many are waiting."""


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
        self._waiting: list[tuple[Figure, str]] = []
        self._begun: set[str] = set()
        self._processes = _Processes()
        self.made_from: dict[str, str] = {}
        self.drawn = 0

    def begin(self, figures: Sequence[tuple[Figure, str]]) -> None:
        """Begin to draw the figures with these paths that are not known, in processes of their own, and return.

        They are drawn while the next reports are built. Where that is impossible they are left to `file`.
        """
        first = [(figure, path) for figure, path in figures if path not in self._begun]
        self._begun |= {path for _, path in first}
        self._waiting += [(figure, path) for figure, path in first if self._is_new(figure, path)]
        self._processes.advance(self._waiting, self._ready)

    def finish(self, progress: Callable[[str], None]) -> None:
        """Wait for all figures that were begun. One that cannot be drawn is left to `file`, which raises its error."""
        new = len(self._waiting) + len(self._processes.drawing) + len(self._ready)
        if new:
            progress(f"drawing {count(new, 'figure')}; {len(self._begun) - new} are as before")
        while self._processes.pipes:
            self._processes.advance(self._waiting, self._ready, forks.SILENCE)
            progress(f"drawn {len(self._ready)} of {new} figures")

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


class _Processes:
    """Forked processes that draw, one for each processor, and each a few figures. None outlives this one.

    Functions that draw cannot be sent to a process, so each inherits them.

    pipes    the processes by the pipes that they write to
    drawing  the paths of the figures that are being drawn, by pipe
    """

    def __init__(self) -> None:
        self.pipes: dict[Any, Any] = {}
        self.drawing: dict[str, Any] = {}
        self._most = forks.processors()

    def advance(self, waiting: list[tuple[Figure, str]], ready: dict[str, bytes], seconds: float = 0.0) -> None:
        """Receive what was drawn into `ready`, waiting so many seconds for the first, and begin with what is waiting.

        A process that sends nothing in these seconds, if there are any, is ended: a lock that another thread held at
        the fork may stop it. Its figures are left out.
        """
        arrived: list[Any] = connection.wait(self.pipes, seconds)
        for pipe in list(self.pipes) if seconds and not arrived else arrived:
            path, contents = "", b""
            with contextlib.suppress(EOFError, OSError):
                path, contents = pipe.recv() if arrived else ("", b"")
            if path:
                ready[path] = contents
                del self.drawing[path]
            else:
                self._end(pipe)
        while waiting and self._most > 1 and len(self.pipes) < self._most:
            share = max(AT_ONCE, len(waiting) // (2 * self._most))
            self._begin([waiting.pop(0) for _ in waiting[:share]])

    def _begin(self, figures: Sequence[tuple[Figure, str]]) -> None:
        _warm_up()
        pipe, child = forks.forked(functools.partial(_send, figures))
        self.pipes[pipe] = child
        self.drawing |= {path: pipe for _, path in figures}

    def _end(self, pipe: Any) -> None:
        child = self.pipes.pop(pipe)
        child.kill()
        child.join()
        self.drawing = {path: of for path, of in self.drawing.items() if of is not pipe}


@functools.cache
def _warm_up() -> None:
    """Load what every figure needs, once, before the forks."""
    figures.drawn(Figure("first", lambda canvas: canvas.subplots().set_title("$0$"), (1.0, 1.0)), KIND)


def _send(share: Sequence[tuple[Figure, str]], writer: Any) -> None:
    """Draw figures and send each; what cannot be drawn is drawn again by the parent, which reports the error."""
    gc.disable()  # the process ends soon
    for figure, path in share:
        with contextlib.suppress(Exception, SystemExit):
            writer.send((path, _draw(figure, path)))


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
