"""What brings the runs of a command with --launcher to other machines: all that the core knows of it.

A feature offers it by the hook `bench_facts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from harness.application.application import Application
from harness.system.errors import UsageError

if TYPE_CHECKING:
    from harness.application.progress import Progress
    from harness.runs.job import Job
    from harness.runs.local import LaunchSummary


class Launcher(Protocol):
    """The launcher of a command, with its settings."""

    @property
    def devices(self) -> Sequence[str]:
        """The devices, all of one kind, on which runs are executed side by side: cpu, or cuda:0, cuda:1, ..."""

    def launch(self, jobs: Sequence[Job], progress: Progress) -> LaunchSummary:
        """Execute blocks of runs. Returns how they ended, or `detached` if the command does not wait for that.

        `progress` is entered while the command waits; `progress.listen` gets the workers' messages.
        """


def launcher_of(app: Application) -> Launcher | None:
    """Return the launcher that a command asks for; None if it uses worker processes of its own."""
    if app.launching is None:
        return None
    offered = app.registry.facts("launcher")
    if not offered:
        raise UsageError("--launcher: no plugin brings runs to other machines")
    launcher: Launcher = offered[0](app)
    return launcher
