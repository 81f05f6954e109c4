"""A launcher: how jobs get to other machines, and what becomes of them there.

A job is a parcel of runs for one *agent*, a process that works on them at its place and sends back checkpoints,
messages and finished attempts. Parcels travel by an *exchange*, which the command and the agent both reach; nothing
else needs to be shared. A launcher starts agents, says how they are, and ends them. It is a frozen dataclass, whose
fields are settings: `--set launcher.NAME=VALUE`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from harness.contracts.parameters import Configurable, param
from harness.system.files import write_whole

PARCEL, LOG, STOP = "job.tar", "log.json", "stop"
"""Of an exchange: what the agent is given; what it says; and its being there asks the agent to stop."""


class Exchange(Protocol):
    """Files by name, each written and read whole."""

    def put(self, name: str, content: bytes) -> None:
        """Write a file, or replace it; raises `OSError`. Only `PARCEL` makes an exchange that is not there."""

    def get(self, name: str) -> bytes | None:
        """The content of a file, None where there is none; raises `OSError`."""

    def names(self) -> Mapping[str, str]:
        """The files that are there, each with a text that changes whenever its content does; raises `OSError`."""

    def clear(self) -> None:
        """Delete everything."""


@dataclass(frozen=True)
class FolderExchange:
    """The exchange of a job as a folder, on this machine or on a file system that its place shares."""

    folder: Path

    def put(self, name: str, content: bytes) -> None:
        """Write a file aside and rename it."""
        if name == PARCEL:
            self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / name, content)

    def get(self, name: str) -> bytes | None:
        """The content of a file."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self) -> Mapping[str, str]:
        """The files with their sizes and times."""
        found = {}
        with suppress(FileNotFoundError):
            for path in self.folder.iterdir():
                with suppress(FileNotFoundError):
                    about = path.stat()
                    found[path.name] = f"{about.st_ino} {about.st_size} {about.st_mtime_ns}"
        return {name: version for name, version in found.items() if not name.startswith(".")}

    def clear(self) -> None:
        """Delete the folder."""
        import shutil

        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class JobState:
    """What became of a job. `where` names its machine; `why` says why it waits, or how it ended."""

    status: Literal["queued", "running", "ended"]
    where: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Launcher(Configurable, ABC):
    """Base of all launchers."""

    jobs: int = param(16, "[1, 1000]", "most jobs that a command is cut into")
    workers: int = param(1, "[1, 256]", "runs at a time in a job on CPUs; each has a core")
    gpus: int = param(0, "[0, 64]", "GPUs of a job; runs are made on them, if there are any")

    @property
    def device(self) -> str:
        """The kind of device that runs are made on: "cpu" or "cuda"."""
        return "cuda" if self.gpus else "cpu"

    @property
    def devices(self) -> list[str]:
        """The devices of a job."""
        return [f"cuda:{i}" for i in range(self.gpus)] or ["cpu"]

    def exchange(self, folder: Path) -> Exchange:
        """The exchange of a job; `folder` is the one of this name in the results folder, and the default."""
        return FolderExchange(folder)

    @abstractmethod
    def submit(self, folders: Sequence[Path]) -> list[str]:
        """Submit a job for each exchange; returns what the engine calls them. Raises `RunError` where it refuses.

        The exchanges have their parcels. What is started calls `harness.run_agent(exchange, name)` there.
        """

    @abstractmethod
    def states(self, names: Sequence[str]) -> Mapping[str, JobState]:
        """What became of jobs, by one question to the engine; a job that it does not know any more is left out.

        Raises `RunError` where the engine cannot be asked now.
        """

    @abstractmethod
    def cancel(self, names: Sequence[str]) -> None:
        """End jobs, waiting or running ones; those that have ended are none. Agents get SIGTERM and some time."""

    def forget(self, folder: Path, name: str) -> None:
        """Delete the exchange of a job that is over, and what else was made for it; `name` may be unknown, ""."""
        self.exchange(folder).clear()
