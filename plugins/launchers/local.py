"""Jobs as processes of this machine, which go on when the command is over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness import FolderExchange, JobState, Launcher, param, run_agent


@dataclass(frozen=True, kw_only=True)
class Local(Launcher):
    """An agent is a process of its own session; its output is in `agent.log` of its exchange.

    A job is named PID-TIME, TIME being when it started in clock ticks since the machine did.
    """

    jobs: int = param(1, "[1, 1000]", "most jobs that a command is cut into")
    workers: int = param(1, "[1, 256]", "runs at a time in a job on CPUs; each has a core")

    def submit(self, folders: Sequence[Path]) -> list[str]:
        """Start the agents."""
        names = []
        for folder in folders:
            with (folder / "agent.log").open("wb") as log:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "plugins.launchers.local", str(folder)],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
                )  # fmt: skip
            names.append(f"{process.pid}-{_started(process.pid)}")
            _CHILDREN.append(process)
        return names

    def states(self, names: Sequence[str]) -> Mapping[str, JobState]:
        """Running, as long as there is a process of that number that started at that time."""
        for process in _CHILDREN:
            process.poll()
        return {name: JobState("running" if _alive(name) else "ended") for name in names}

    def cancel(self, names: Sequence[str]) -> None:
        """SIGTERM."""
        for name in filter(_alive, names):
            with suppress(ProcessLookupError):
                os.kill(int(name.partition("-")[0]), signal.SIGTERM)


_CHILDREN: list[subprocess.Popen[bytes]] = []


def _alive(name: str) -> bool:
    pid, _, started = name.partition("-")
    return bool(started) and _started(int(pid)) == started


def _started(pid: int) -> str:
    """When a process started, in clock ticks; "" where it is gone or has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


if __name__ == "__main__":
    run_agent(FolderExchange(Path(sys.argv[1])), f"{os.getpid()}-{_started(os.getpid())}")
