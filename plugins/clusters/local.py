"""Jobs as processes on this machine, which continue when the command has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness import param
from harness.system import errors
from harness.system.import_path import command
from plugins.clusters.agent import run_agent
from plugins.clusters.launcher import OUTPUT, FolderExchange, JobState, Launcher


@dataclass(frozen=True, kw_only=True)
class Local(Launcher):
    """Each agent is a process in a session of its own; its output is in a file of its exchange.

    A job is named PID-TIME. TIME is when the process started, in clock ticks since the machine started.
    """

    jobs: int = param(1, "[1, 1000]", "most jobs that a command is cut into")

    def submit(self, folders: Sequence[Path]) -> list[str]:
        """Start the agents, and return the names of their jobs."""
        names = []
        for folder in folders:
            with (folder / OUTPUT).open("ab") as log:
                process = subprocess.Popen(
                    command("plugins.clusters.local", str(folder)),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
                )  # fmt: skip
            names.append(f"{process.pid}-{_started(process.pid)}")
            _CHILDREN[names[-1]] = process
        return names

    def states(self, names: Sequence[str]) -> Mapping[str, JobState]:
        """Return "running" for a job if a process with its number exists and started at its time, otherwise "ended"."""
        codes = {name: process.poll() for name, process in _CHILDREN.items()}
        return {
            name: JobState("running") if _alive(name)
            else JobState("ended", why=errors.exit_text(codes[name]) if codes.get(name) else "")
            for name in names
        }  # fmt: skip

    def cancel(self, names: Sequence[str]) -> None:
        """Send SIGTERM to the agents that are running."""
        for name in filter(_alive, names):
            with suppress(ProcessLookupError):
                os.kill(int(name.partition("-")[0]), signal.SIGTERM)


_CHILDREN: dict[str, subprocess.Popen[bytes]] = {}


def _alive(name: str) -> bool:
    pid, _, started = name.partition("-")
    return bool(started) and _started(int(pid)) == started


def _started(pid: int) -> str:
    """Return when a process started, in clock ticks, or "" if it does not exist or has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


if __name__ == "__main__":
    sys.exit(not run_agent(FolderExchange(Path(sys.argv[1])), f"{os.getpid()}-{_started(os.getpid())}"))
