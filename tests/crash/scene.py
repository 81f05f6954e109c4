"""One round: a command in a folder, what is done to it, and what must still hold of what it had finished before."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crash.workload import Command, Process, Reference, Site, exit_code, sha256

from harness.results.ledger.attempt import Attempt

TRANSIENT = ("checkpoint.safetensors", "draws.part", "events.jsonl")
GONE_SECONDS = 30.0
STAGES = ("set-up", "sampling", "checkpoint", "scoring", "any")
NATURAL = (0, 1)
"""Exit codes of a command that was not told to end: done, or a run diverged, was held, or lost its worker."""


def contents(path):
    """A link's target, or the files below a folder with their digests; None where there is nothing."""
    if path.is_symlink():
        return str(path.readlink())
    files = (file for file in sorted(path.rglob("*")) if file.is_file())
    return {str(file.relative_to(path)): sha256(file) for file in files} if path.is_dir() else None


@dataclass
class Scene:
    """A round under way. What faults note here is judged at its end and counted in the report."""

    site: Site
    command: Command
    reference: Reference
    rng: random.Random
    commands: list[Sequence[str]] = field(default_factory=list)  # given once more at the end, each
    finished: dict[Path, dict[str, tuple[str, int]]] = field(default_factory=dict)
    checkpoints: dict[Path, int] = field(default_factory=dict)
    outside: dict[Path, object] = field(default_factory=dict)  # what bench did not write, with its `contents`
    processes: list[tuple[Process, str]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    strikes: int = 0
    longest_end: float = 0.0
    notes: list[str] = field(default_factory=list)
    added: set[str] = field(default_factory=set)  # runs beside those of the command

    @property
    def results(self):
        return self.site.results

    @property
    def written(self):
        """The folder for what verbs write outside the results folder."""
        return self.site.logs.parent / "written"

    def check(self, holds, complaint):
        """Note a violation unless it holds; returns whether it does."""
        if not holds:
            self.violations.append(complaint)
        return bool(holds)

    def start(self, words=None, **more):
        words = self.command.words if words is None else words
        process = self.site.start(words, **more)
        self.processes.append((process, " ".join(words)))
        return process

    def run(self, words=None):
        """A command to its end: process, exit code."""
        process = self.start(words)
        return process, process.wait()

    def copy_of_finished(self):
        """Fill the results folder with the undisturbed results, as if they had been made here."""
        shutil.copytree(self.reference.results, self.results, dirs_exist_ok=True)
        for leftover in self.results.glob("locks/*"):
            leftover.unlink()

    def expected_code(self):
        return exit_code(self.reference.runs.values())

    def elsewhere(self, folder):
        """An undisturbed scene of the same command in another folder."""
        (folder / "logs").mkdir(parents=True)
        site = Site(folder / "results", folder / "logs", self.site.mark, environment=dict(self.site.environment))
        return Scene(site, self.command, self.reference, random.Random(0))

    # When a fault strikes.

    def moment(self, process, stage=None):
        """Wait for a random moment of a stage of a running command; False where the command ended before it came."""
        stage = stage or self.rng.choice(STAGES)
        whole = self.reference.seconds
        if stage == "set-up":
            arrived = self._sleep(process, self.rng.uniform(0.05, self.reference.setup + 0.3))
        elif stage == "sampling":
            arrived = self._until_drawn(process, self.rng.uniform(0, 0.95))
        elif stage == "checkpoint":
            arrived = self._until_drawn(process, self.rng.uniform(0, 0.6))
            arrived = arrived and self._until_written(process, "checkpoint.safetensors")
        elif stage == "scoring":
            arrived = self._until(process, "draws.part", pause=0.02)
            arrived = arrived and self._until(process, "*draws.safetensors*", pause=0.002)
            arrived = arrived and self._sleep(process, self.rng.choice([0, 0.002, 0.01, 0.03, 0.1]))
        else:
            arrived = self._sleep(process, self.rng.uniform(0.05, whole))
        self.stages.append(stage if arrived else "after its end")
        return arrived

    def _sleep(self, process, seconds):
        time.sleep(seconds)
        return process.running()

    def _until(self, process, pattern, pause):
        while process.running():
            if any(self.results.glob(f"runs/*/*/*/{pattern}")):
                return True
            time.sleep(pause)
        return False

    def _until_drawn(self, process, share):
        """Until an attempt has so much of its draws on disk."""
        while process.running():
            if any(size > share * self.reference.draw_bytes for size in self._sizes("draws.part")):
                return True
            time.sleep(0.01)
        return False

    def _sizes(self, name):
        for path in self.results.glob(f"runs/*/*/*/{name}"):
            with contextlib.suppress(FileNotFoundError):
                yield path.stat().st_size

    def _until_written(self, process, name):
        """Until a file is being written aside, or was just renamed."""
        before = self._written(name)
        while process.running():
            if any(self.results.glob(f"runs/*/*/*/.{name}.*")) or self._written(name) != before:
                return True
        return False

    def _written(self, name):
        moments = []
        for path in self.results.glob(f"runs/*/*/*/{name}"):
            with contextlib.suppress(FileNotFoundError):
                moments.append(path.stat().st_mtime_ns)
        return max(moments, default=0)

    # What faults do, and what is kept for the end.

    def send(self, pid, number, *, group=False):
        """A signal; one that comes too late is no error."""
        self.strikes += 1
        try:
            (os.killpg if group else os.kill)(pid, number)
        except ProcessLookupError:
            return False
        return True

    def keep_finished(self):
        """Remember every finished result as it is now: its files must stay as they are."""
        for result in self.results.glob("runs/*/*/*/result.json"):
            files = (path for path in result.parent.iterdir() if path.name not in TRANSIENT)
            kept = {path.name: (sha256(path), path.stat().st_mtime_ns) for path in files if path.name[0] != "."}
            self.finished.setdefault(result.parent, kept)

    def forget(self, path):
        """A file that is damaged on purpose may differ at the end; its attempt may be one too many."""
        self.finished.get(path.parent, {}).pop(path.name, None)
        self.checkpoints.pop(path.parent, None)

    def move_to(self, results):
        """Go on in a copy of the results folder."""
        for kept in (self.finished, self.checkpoints):
            for path in list(kept):
                kept[results / path.relative_to(self.results)] = kept.pop(path)
        self.site.results = results

    def gone(self):
        """All processes of the commands so far must end by themselves within a while."""
        began = time.monotonic()
        while left := self.site.processes():
            if time.monotonic() - began > GONE_SECONDS:
                self.violations.append(f"still alive after {GONE_SECONDS:.0f} s: {sorted(left.values())}")
                self.bury()
                return
            time.sleep(0.1)
        self.longest_end = max(self.longest_end, time.monotonic() - began)

    def ended(self):
        """After a fault: wait for all processes, remember what is finished and how far every checkpoint is.

        The work up to there must not be done again.
        """
        self.gone()
        self.keep_finished()
        for path in self.results.glob("runs/*/*/*/checkpoint.safetensors"):
            checkpoint = next(Attempt(path.parent).checkpoints(), None)
            if checkpoint is not None and not (path.parent / "result.json").exists():
                self.checkpoints[path.parent] = int(checkpoint["counters"][0])

    def bury(self):
        """End what is left of this round, by pid."""
        for pid in self.site.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def begin_again(self):
        """An empty results folder."""
        self.gone()
        shutil.rmtree(self.results)
        self.finished.clear()
        self.checkpoints.clear()

    def interrupt(self):
        """Start the command and end it at a checkpoint, by Ctrl-C or by kill -9 of all of it: a part is done.

        Where it was done before the moment came: all over again.
        """
        process = self.start()
        while not self.moment(process, "checkpoint"):
            process.wait()
            self.begin_again()
            process = self.start()
        self.send(process.pid, self.rng.choice([signal.SIGINT, signal.SIGKILL]), group=True)
        process.wait()
        self.ended()
