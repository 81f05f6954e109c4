"""Launchers: how jobs reach other machines, and how the command follows them there.

A job is a parcel of runs for one *agent*, a process that executes them on another machine and sends back checkpoints,
messages and finished attempts. Parcels travel through an *exchange*, which both the command and the agent can reach;
they need to share nothing else. A launcher starts agents, reports their states, and ends them. It is a frozen dataclass
whose fields are settings: `--set launcher.NAME=VALUE`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from harness import Bench, PluginError, param
from harness.contracts import HARNESS, Configurable
from harness.runs import plugin_metadata
from harness.system import write_whole

PARCEL, LOG, STOP, OUTPUT = "job.tar", "log.json", "stop", "agent.log"
"""File names in an exchange: the agent's input, the agent's messages, a file that asks the agent to stop, and what its
process printed."""


class Exchange(Protocol):
    """Files by name, each of which is written and read as a whole."""

    def put(self, name: str, content: bytes) -> None:
        """Write or replace a file; raise `OSError`. Only writing `PARCEL` creates an exchange that does not exist."""

    def get(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist; raise `OSError`."""

    def names(self) -> Mapping[str, str]:
        """Return the existing files, each with a text that changes whenever its content does; raise `OSError`."""

    def clear(self) -> None:
        """Delete everything."""


@dataclass(frozen=True)
class FolderExchange:
    """An exchange that is a folder, on this machine or on a file system that the agent's machine shares."""

    folder: Path

    def put(self, name: str, content: bytes) -> None:
        """Write a file under a temporary name and rename it."""
        if name == PARCEL:
            self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / name, content)

    def get(self, name: str) -> bytes | None:
        """Return the content of a file."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self) -> Mapping[str, str]:
        """Return the files with their inodes, sizes and times."""
        versions = {}
        with suppress(FileNotFoundError):
            for path in self.folder.iterdir():
                with suppress(FileNotFoundError):
                    about = path.stat()
                    versions[path.name] = f"{about.st_ino} {about.st_size} {about.st_mtime_ns}"
        return {name: version for name, version in versions.items() if not name.startswith(".")}

    def clear(self) -> None:
        """Delete the folder."""
        import shutil

        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class JobState:
    """The state of a job. `where` names its machine; `why` says why it waits, or how it ended.

    `cancelled` says that somebody ended it, so that it is not started again; `held`, that it waits for a reason of its
    own, which somebody may have to remove, and not for its turn.
    """

    status: Literal["queued", "running", "ended"]
    where: str = ""
    why: str = ""
    cancelled: bool = False
    held: bool = False


@dataclass(frozen=True, kw_only=True)
class Launcher(Configurable, ABC):
    """Base class of all launchers."""

    jobs: int = param(16, "[1, 1000]", "most jobs that a command is cut into")
    workers: int = param(1, "[1, 256]", "runs at a time in a job on CPUs; each has a core")
    gpus: int = param(0, "[0, 64]", "GPUs of a job; runs are made on them, if there are any")
    restarts: int = param(2, "[0, 100]", "how often a job is started again whose agent was killed")

    @property
    def devices(self) -> list[str]:
        """The devices of a job."""
        return [f"cuda:{i}" for i in range(self.gpus)] or ["cpu"]

    def exchange(self, folder: Path) -> Exchange:
        """Return the exchange of a job; the default is the job's `folder` in the results folder."""
        return FolderExchange(folder)

    def warnings(self) -> list[str]:
        """Return what the user must know about the settings before jobs are submitted."""
        return []

    @abstractmethod
    def submit(self, folders: Sequence[Path]) -> list[str]:
        """Submit a job for each exchange; return the engine's names for them. Raise `RunError` if the engine refuses.

        The exchanges already hold their parcels. The program that is submitted calls `run_agent(exchange, name)`.
        """

    @abstractmethod
    def states(self, names: Sequence[str]) -> Mapping[str, JobState]:
        """Return the states of jobs, by one query to the engine; a job that it no longer knows is left out.

        Raise `RunError` if the engine cannot be queried now.
        """

    @abstractmethod
    def cancel(self, names: Sequence[str]) -> None:
        """Cancel waiting and running jobs; ignore those that have ended. Agents get SIGTERM and some time to stop."""

    def restart(self, folder: Path, name: str) -> str:
        """Start a job again whose agent was killed, and return its new name; "" if it cannot be.

        Its exchange still has the parcel, and what the agent had sent.
        """
        (new,) = self.submit([folder])
        return new

    def output(self, folder: Path, name: str) -> str:
        """Return what the process of a job's agent has printed; "" if it is not known. Raise `OSError`."""
        return (self.exchange(folder).get(OUTPUT) or b"").decode(errors="replace")

    def forget(self, folder: Path, name: str) -> None:
        """Delete the exchange of a job that has ended, and what else was made for it; an unknown `name` is ""."""
        self.exchange(folder).clear()


def is_ours(bench: Bench, name: str) -> bool:
    """Return whether a launcher is part of sgmcmc-bench: what others bring could have been changed on its way."""
    return bench.registry.find("launchers", name).distribution == HARNESS


def make(bench: Bench, name: str, settings: Mapping[str, Any]) -> Launcher:
    """Make the launcher of that name with these settings. `UsageError` if a setting is wrong."""
    offer = bench.registry.find("launchers", name)
    launcher = plugin_metadata.instance(offer.target, plugin_metadata.resolve(offer, settings))
    if not isinstance(launcher, Launcher):
        raise PluginError(f"{offer.target} is not a plugins.clusters.Launcher")
    return launcher
