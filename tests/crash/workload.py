"""The commands of the campaign, how they are started and found again, and what they give when nothing disturbs them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from safetensors.numpy import load_file

LOCK_TIMEOUT_SECONDS = 300.0
PATCHED = Path(__file__).with_name("patched")
CHECKPOINT_SECONDS = 0.1


@dataclass(frozen=True)
class Command:
    """A `bench run`: samplers and seeds may be narrowed, all else is fixed."""

    samplers: tuple[str, ...]
    task: str
    seeds: tuple[int, ...]
    chains: int
    rest: tuple[str, ...]
    data: bool = False

    @property
    def words(self):
        seeds = ",".join(map(str, self.seeds))
        named = ["--sampler", ",".join(self.samplers), "--task", self.task, "--seeds", seeds]
        return ["run", *named, "--chains", str(self.chains), *self.rest, "--json"]

    def part(self, rng):
        """Some of its samplers and a range of its seeds."""
        samplers = tuple(sorted(rng.sample(self.samplers, rng.randint(1, len(self.samplers)))))
        first, last = sorted(rng.choices(self.seeds, k=2))
        return replace(self, samplers=samplers, seeds=tuple(range(first, last + 1)))


PLAIN = ("--set", "run.compile=plain")
"""So that runs last long enough to be struck."""

SHORT = (Command(("sghmc", "sgld"), "mixture5", (0, 1), 2, ("--budget", "steps=8000", *PLAIN, "run.thin=2")),)
LONG = (
    Command(("sghmc", "sgld"), "mixture5", (0, 1, 2), 2, ("--budget", "steps=20000", *PLAIN, "run.thin=3")),
    Command(("csgld", "msgld", "sgld"), "mixture25", (3, 4), 3, ("--budget", "steps=12000", *PLAIN, "run.thin=2")),
    Command(("hmc",), "mixture5", (0, 1, 2, 3), 2, ("--budget", "steps=2500")),
    # A step size of 5 diverges: runs that end so are results too.
    Command(("sgld",), "mixture5", (0, 1), 2, ("--budget", "steps=20000", "--sweep", "schedule.step_size=0.02,5")),
    Command(("sghmc", "sgld"), "blr-german", (0, 1), 2, ("--budget", "steps=2000"), data=True),
    Command(("csghmc", "msgld"), "notmnist", (0,), 1, ("--budget", "smoke"), data=True),
)


def available(commands):
    """Those whose data sets are there."""
    folder = os.environ.get("BENCH_DATA")
    there = bool(folder) and all((Path(folder) / name).is_dir() for name in ("uci", "MNIST", "notMNIST"))
    return [command for command in commands if there or not command.data]


@dataclass
class Process:
    """A running `bench`, the leader of its own process group; its output goes to files, which outlive every reader."""

    popen: subprocess.Popen
    out: Path
    err: Path

    @property
    def pid(self):
        return self.popen.pid

    def running(self):
        return self.popen.poll() is None

    def wait(self):
        return self.popen.wait(LOCK_TIMEOUT_SECONDS)

    def stdout(self):
        return self.out.read_text(errors="replace")

    def stderr(self):
        return self.err.read_text(errors="replace")


@dataclass
class Site:
    """A results folder as commands see it and as this process sees it, and how commands are started there.

    mark     the value of CRASH_MARK in the environment of everything that is started, by which it is found again
    prefix   words before every command: how it gets into the file system that holds the folder
    """

    results: Path
    logs: Path
    mark: str
    seen: Path | None = None
    prefix: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    started: int = 0

    @property
    def writes(self):
        """The file that says who changed something below `runs/` without being allowed to."""
        return self.logs / "writes"

    def start(self, words, **more):
        """`bench WORDS` in the background; `more` goes to Popen."""
        self.started += 1
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
        environment = inherited | {
            "BENCH_RESULTS": str(self.seen or self.results),
            "BENCH_CHECKPOINT_SECONDS": str(CHECKPOINT_SECONDS),
            "CRASH_MARK": self.mark,
            "OMP_NUM_THREADS": "1",
            "CRASH_WRITES": str(self.writes),
            "PYTHONPATH": os.pathsep.join([str(PATCHED), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        environment |= self.environment
        out, err = (self.logs / f"{self.started:02d}.{kind}" for kind in ("out", "err"))
        program = [*self.prefix, sys.executable, "-c", "from harness.cli import main; main()", *words]
        with out.open("wb") as to_out, err.open("wb") as to_err:
            popen = subprocess.Popen(
                program, env=environment, stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_err,
                start_new_session=True, cwd=self.logs, **more,
            )  # fmt: skip
        return Process(popen, out, err)

    def run(self, words):
        """`bench WORDS` to its end: the process and its exit code."""
        process = self.start(words)
        return process, process.wait()

    def processes(self):
        """Everything alive that was started here: pid -> (role, parent)."""
        commands = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                if f"CRASH_MARK={self.mark}".encode() not in (folder / "environ").read_bytes():
                    continue
                line = (folder / "cmdline").read_bytes().decode(errors="replace")
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if stat[0] != "Z":
                commands[int(folder.name)] = (line, int(stat[1]))
        return {pid: (_role(line, parent, commands), parent) for pid, (line, parent) in commands.items()}


def _role(line, parent, commands):
    if "forkserver" in line:
        return "worker" if "forkserver" in commands.get(parent, ("",))[0] else "forkserver"
    return "tracker" if "resource_tracker" in line else "launcher"


@dataclass(frozen=True)
class Reference:
    """A command's results when nothing disturbs it: of each run key its status and the fingerprint of its results."""

    results: Path
    runs: dict[str, tuple]
    setup: float
    seconds: float
    draw_bytes: int


def fingerprint(attempt):
    """All of a concluded attempt that must be the same in every repetition: status, metrics, the bits of its files."""
    result = json.loads((attempt / "result.json").read_bytes())
    metrics = tuple((metric["name"], metric["value"]) for metric in result["metrics"])
    files = tuple((path.name, sha256(path)) for path in sorted(attempt.glob("*.safetensors")) if path.name in KEPT)
    counts = tuple(result[name] for name in ("steps_done", "passes", "draws_kept", "draws_stored", "step", "chain"))
    return result["status"], metrics, files, counts


KEPT = ("draws.safetensors", "curves.safetensors", "arrays.safetensors")


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class References:
    """Each command's undisturbed results, made once and kept in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.references: dict[Command, Reference] = {}

    def of(self, command):
        if command not in self.references:
            self.references[command] = self._make(command)
        return self.references[command]

    def _make(self, command):
        folder = self.folder / f"reference-{len(self.references)}"
        (folder / "logs").mkdir(parents=True)
        site = Site(folder / "results", folder / "logs", f"{os.getpid()}-{folder.name}-{random.getrandbits(32):x}")
        began = time.monotonic()
        process = site.start(command.words)
        setup = 0.0
        while process.running():
            if not setup and any(site.results.glob("runs/*/*/*/draws.part")):
                setup = time.monotonic() - began
            time.sleep(0.02)
        seconds = time.monotonic() - began
        code, rows = process.wait(), process.stdout()
        runs = {path.parent.name: fingerprint(path) for path in site.results.glob("runs/*/*/*/")}
        expected = exit_code(runs.values())
        if code != expected or {row["run_key"] for row in json.loads(rows)} != runs.keys():
            raise RuntimeError(f"the undisturbed command ended with {code}, not {expected}: {process.stderr()}")
        draw_bytes = max(load_file(path)["draws"].nbytes for path in site.results.glob("runs/*/*/*/draws.safetensors"))
        return Reference(site.results, runs, setup, seconds, draw_bytes)


def exit_code(fingerprints):
    """What a command that leaves runs so exits with: 1 where one diverged."""
    return int(any(status != "done" for status, *_ in fingerprints))
