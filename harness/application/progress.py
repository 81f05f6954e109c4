"""Progress of runs on stderr: on a terminal one line for all runs and one for each running block, else one a minute."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from harness.application.application import Application
from harness.results.records import FINAL, Status
from harness.system.text import count, harmless, span

if TYPE_CHECKING:
    import rich.live

    from harness.runs.job import Job

LINE_SECONDS = 60.0
"""Seconds between lines of progress where stderr is no terminal."""
REFRESH = 4
"""How many times per second the terminal is redrawn."""
WIDE = 100
"""Width of a terminal, in columns, from which the speed of a block is shown."""


@dataclass
class BlockProgress:
    """The progress of a block, whose runs advance together: the open runs, and the last message about them."""

    name: str
    steps: int
    runs: int
    open: set[str]
    diverged: set[str] = field(default_factory=set)
    position: int = 0
    rate: float = 0.0
    seconds: float = 0.0
    step_size: float = 0.0
    running: bool = False

    @property
    def pace(self) -> float | None:
        """Seconds per step, or None before the first message."""
        return 1 / self.rate if self.rate else None


class Progress:
    """The receiver of the workers' messages. A context manager, because a terminal's lines are removed at the end."""

    def __init__(self, app: Application, jobs: Sequence[Job], workers: int = 1) -> None:
        self.app = app
        self.blocks: list[BlockProgress] = []
        self.block: dict[str, BlockProgress] = {}
        self.seed = {spec.key: spec.seed for job in jobs for spec in job.specs}
        for first, specs in ((job.specs[0], job.specs) for job in jobs):
            name = f"{first.method} on {first.task.name}"
            block = BlockProgress(name, first.steps, len(specs), {spec.key for spec in specs})
            self.blocks.append(block)
            self.block |= dict.fromkeys(block.open, block)
        self.workers = max(1, min(workers, len(jobs)))
        self.failed: set[str] = set()
        self.printed: set[str] = set()
        self.began = self.printed_at = time.monotonic()
        self.live: rich.live.Live | None = None
        self.output: Any = None
        self.drawn_at = 0.0

    def __enter__(self) -> Self:
        if in_notebook():
            from IPython.display import display

            self.output = display({"text/plain": ""}, raw=True, display_id=True)
        elif sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True)
            if not console.is_dumb_terminal:
                self.live = Live(
                    get_renderable=lambda: self.lines(console.width, console.height),
                    console=console,
                    transient=True,
                    refresh_per_second=REFRESH,
                )
                self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()
        if self.output:
            self.output.update({"text/plain": ""}, raw=True)

    def listen(self, kind: str, payload: dict[str, Any]) -> None:
        """Record a worker's message, and print it if the user must know it."""
        self._record(kind, payload)
        if self.output and time.monotonic() - self.drawn_at > 1 / REFRESH:
            self.drawn_at = time.monotonic()
            self.output.update({"text/html": self.html(), "text/plain": self.summary()}, raw=True)

    def _record(self, kind: str, payload: dict[str, Any]) -> None:
        if kind == "progress":
            self._advance(payload)
        elif kind == "warning":
            if payload["text"] not in self.printed:  # several blocks may have the same reason
                self.printed.add(payload["text"])
                self._print(f"warning: {payload['text']}", "yellow")
        elif kind == Status.DIVERGED:
            self.block[payload["key"]].diverged.add(payload["key"])
            self._print(
                f"diverged: {payload['method']} on {payload['task']}, seed {payload['seed']}: chain {payload['chain']} "
                f"became non-finite at step {payload['step']}",
                "red",
            )
        elif kind in ("finished", "uncompiled"):
            self._finish(payload)
        elif kind == "device lost":
            self.app.say(f"lost {payload['message']}; it is not used again, and its runs continue on other devices")
        elif kind in ("held", "failed", "died", "stopping"):
            if payload["message"] not in self.printed:  # several blocks may fail for the same reason
                self.printed.add(payload["message"])
                self._print(f"bench: {payload['message']}", "red")
            self._trace(payload.get("traceback"))
        if kind in ("end", "failed", "died", "device lost") and "block" in payload:
            self.block[payload["block"]].running = False

    def seconds_left(self) -> float | None:
        """Return the estimated seconds until all runs are finished, or None before the first message.

        A block that has not started is expected to take as long per step as the blocks of its method and task, or as
        the other blocks if there are none. It is also expected to need the time that blocks took besides their steps
        (start, compilation, results).
        """
        started = [block for block in self.blocks if block.pace]
        if not started:
            return None
        waiting = [block for block in self.blocks if block.open and not block.pace]
        running = [(b.steps - b.position) * (b.pace or 0.0) for b in started if b.open]
        paces: dict[str, list[float]] = {}
        for block in started:
            paces.setdefault(block.name, []).append(block.pace or 0.0)
        mean = {name: sum(seconds) / len(seconds) for name, seconds in paces.items()}
        other = sum(mean.values()) / len(mean)
        besides = (time.monotonic() - self.began) * self.workers - sum(block.seconds for block in started)
        expected = [b.steps * mean.get(b.name, other) + max(0.0, besides) / len(started) for b in waiting]
        return max([*running, sum([*running, *expected]) / self.workers])

    def summary(self) -> str:
        """Return a text with the number of finished runs, and of those that diverged or failed."""
        left = sum(len(block.open) for block in self.blocks)
        lost = {"diverged": sum(len(block.diverged) for block in self.blocks), "failed": len(self.failed)}
        words = [f"{number} {name}" for name, number in lost.items() if number]
        return ", ".join([f"{len(self.block) - left} of {count(len(self.block), 'run')}", *words])

    def lines(self, width: int, height: int) -> Any:
        """Return what a terminal of this size shows: a line for all runs, and the running blocks that fit."""
        from rich.progress_bar import ProgressBar
        from rich.table import Column, Table
        from rich.text import Text

        grid = Table.grid(Column(no_wrap=True, overflow="ellipsis", ratio=1), expand=True, padding=(0, 1))
        bar = max(8, min(30, (width - 56) // 2))
        for least in (bar, 4, *([14] if width >= WIDE else []), 11):  # 100%, 12,345 steps/s, 12 min left
            grid.add_column(no_wrap=True, justify="right", min_width=least)

        def add(name: str, share: float, left: str, speed: str = "") -> None:
            label = Text(name)
            label.highlight_regex(r"\d+ (diverged|failed)", "red")
            meter = ProgressBar(1.0, share, bar, complete_style="cyan", finished_style="green")
            grid.add_row(label, meter, f"{share:4.0%}", *([speed] if width >= WIDE else []), left)

        left = self.seconds_left()
        add(self.summary(), self.share_done(), "" if left is None else f"{span(left)} left")
        running = [block for block in self.blocks if block.running and block.open]
        most = max(1, height - 3)  # without the lines of the total, of the number of more blocks, and of the cursor
        for block in running[:most]:
            add(f"  {_label(block)}", block.position / max(block.steps, 1), _left(block), f"{block.rate:,.0f} steps/s")
        if len(running) > most:
            grid.add_row(Text(f"  and {count(len(running) - most, 'more block')} of runs"))
        return grid

    def share_done(self) -> float:
        """Return the share of all steps that is done."""
        done = sum(b.runs * (b.position / max(b.steps, 1) if b.open else 1.0) for b in self.blocks)
        return done / max(len(self.block), 1)

    def html(self) -> str:
        """Return bars for all runs and for each running block, as a notebook shows them."""
        running = [block for block in self.blocks if block.running and block.open]
        bars = [(self.summary(), self.share_done()), *((_label(b), b.position / max(b.steps, 1)) for b in running)]
        lines = (f'<div><progress value="{share:.4f}"></progress> {html.escape(label)}</div>' for label, share in bars)
        return "".join(lines)

    def _finish(self, payload: dict[str, Any]) -> None:
        key = payload["key"]
        self.block[key].open.discard(key)
        if payload.get("status") in (None, *FINAL):
            return
        self.failed.add(key)
        name = f"{self.block[key].name}, seed {self.seed[key]}"
        self._print(f"{payload['status']}: {name}: {payload['reason']}", "red")
        self._trace(payload.get("traceback"))

    def _trace(self, text: str | None) -> None:
        """Print the traceback of a worker's error once, if the command has --debug."""
        if text and self.app.debug and text not in self.printed:
            self.printed.add(text)
            self._print(text)

    def _advance(self, payload: dict[str, Any]) -> None:
        block = self.block[payload["keys"][0]]
        block.running = True
        for name in ("position", "steps", "rate", "seconds", "step_size"):  # steps: with those of a warm start
            setattr(block, name, payload[name])
        if not (self.live or self.output) and time.monotonic() - self.printed_at > LINE_SECONDS:
            self.printed_at = time.monotonic()
            self.app.say(
                f"{self.summary()}, {span(self.seconds_left())} left; {_label(block)}: step {block.position} of "
                f"{block.steps}, {block.rate:,.0f} steps/s, {_left(block)} left, step size {block.step_size:.3g}"
            )

    def _print(self, text: str, style: str = "") -> None:
        if self.live:
            self.live.console.print(harmless(text, "\n\t"), style=style, markup=False, highlight=False)
        else:
            self.app.say(text)


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _label(block: BlockProgress) -> str:
    lost = f", {len(block.diverged)} diverged" if block.diverged else ""
    return f"{block.name}, {count(block.runs, 'seed')}{lost}"


def _left(block: BlockProgress) -> str:
    if block.position >= block.steps:
        return "scoring"
    return span((block.steps - block.position) * block.pace) if block.pace else ""
