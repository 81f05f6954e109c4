"""Progress of runs on stderr: bars on a terminal, otherwise a line per minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from harness.cli import context
from harness.cli.context import count, say
from harness.results.records import FINAL, Status
from harness.system.text import harmless

if TYPE_CHECKING:
    import rich.progress

    from harness.runs.worker import Job

LINE_SECONDS = 60.0


class Progress:
    """Receives the workers' messages; a context manager, because a terminal's bars must be removed at the end."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.label = {spec.key: f"{spec.method} on {spec.task.name}" for job in jobs for spec in job.specs}
        self.seed = {spec.key: spec.seed for job in jobs for spec in job.specs}
        self.told: set[str] = set()
        self.said = time.monotonic()
        self.bars: rich.progress.Progress | None = None
        self.rows: dict[str, rich.progress.TaskID] = {}

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            import rich.console
            import rich.progress as parts

            self.bars = parts.Progress(
                parts.TextColumn("{task.description}"),
                parts.BarColumn(bar_width=24),
                parts.TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
                parts.TextColumn("{task.fields[rate]:,.0f} steps/s"),
                parts.TimeRemainingColumn(),
                parts.TextColumn("h {task.fields[step_size]:.3g}"),
                console=rich.console.Console(stderr=True),
            )
            self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bars:
            self.bars.stop()

    def listen(self, kind: str, payload: dict[str, Any]) -> None:
        """Show a worker's message."""
        if kind == "progress":
            self._advance(payload)
        elif kind == "warning":
            self._print(f"warning: {payload['text']}")
        elif kind == Status.DIVERGED:
            self._print(
                f"diverged: {payload['method']} on {payload['task']}, seed {payload['seed']}: chain {payload['chain']} "
                f"became non-finite at step {payload['step']}"
            )
        elif kind == "finished" and payload["status"] not in FINAL:
            name = f"{self.label[payload['key']]}, seed {self.seed[payload['key']]}"
            self._print(f"{payload['status']}: {name}: {payload['reason']}")
            self._trace(payload.get("traceback"))
        elif kind == "device lost":
            say(f"lost {payload['message']}; it is not used again, and its runs continue on other devices")
        elif kind in ("held", "failed", "died", "stopping"):
            if payload["message"] not in self.told:  # several blocks may fail for one reason
                self.told.add(payload["message"])
                self._print(f"bench: {payload['message']}")
            self._trace(payload.get("traceback"))

    def _trace(self, text: str | None) -> None:
        """Print the traceback of a worker's error, once, with --debug."""
        if text and context.current().debug and text not in self.told:
            self.told.add(text)
            self._print(text)

    def _advance(self, payload: dict[str, Any]) -> None:
        key = payload["keys"][0]
        name = f"{self.label[key]}, {count(len(payload['keys']), 'seed')}"
        if self.bars:
            if key not in self.rows:
                self.rows[key] = self.bars.add_task(name, total=payload["steps"], rate=0.0, step_size=0.0)
            self.bars.update(
                self.rows[key],
                completed=payload["position"],
                rate=payload["rate"],
                step_size=payload["step_size"],
            )
        elif time.monotonic() - self.said > LINE_SECONDS:
            self.said = time.monotonic()
            left = (payload["steps"] - payload["position"]) / max(payload["rate"], 1e-9)
            say(
                f"{name}: step {payload['position']} of {payload['steps']}, {payload['rate']:,.0f} steps/s, "
                f"{left:,.0f} s left, step size {payload['step_size']:.3g}"
            )

    def _print(self, text: str) -> None:
        if self.bars:
            self.bars.console.print(harmless(text, "\n\t"), markup=False, highlight=False)
        else:
            say(text)
