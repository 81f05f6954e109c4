"""The agent of a job: a process that does the runs of a parcel on another machine and sends back their attempts.

It has a results folder of its own on the disk of its machine (below TMPDIR), in which it uses the same launcher and
workers as a command does. If its job is queued again, the new agent continues from what the earlier one sent. At
SIGTERM, or when the exchange has a file `stop`, the agent writes checkpoints and ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness import Bench, BenchError, RunError
from harness.contracts import HARNESS, format_error, plugin_process, user_files
from harness.results import FINAL, environment, provenance
from harness.results import spec as specs
from harness.runs import Job, local
from harness.runs.source import made_of, plugin_packages
from harness.system import errors, locks, write_whole
from harness.system.arithmetic import variables
from harness.tasks import DataFile
from plugins.clusters import parcel
from plugins.clusters.launcher import LOG, PARCEL, STOP, Exchange, Launcher

EVERY_SECONDS = 2.0
"""Time between two checks of the exchange. The agent sends its log after each."""
LAST_SECONDS = 600.0
"""How long an agent tries to send its last messages if the exchange cannot be reached."""
SOURCE = f"source of {HARNESS}"
SENT = ("BENCH_CHECKPOINT_SECONDS", "BENCH_IMPORT_SECONDS", "BENCH_DEBUG")
"""Variables that are settings of a command and not of a machine."""
SCRATCH = "sgmcmc-bench-job-"
FAILURES = frozenset({"failed", "held", "died"})
"""Messages that make a command fail."""
QUIET = frozenset({"progress", "checkpoint", "end"})
"""Messages that are left out of the log's list."""


def node_name() -> str:
    """Return the name of this machine: the one that Slurm gave it, or else its own."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def versions() -> dict[str, str]:
    """Return the versions, and the digests of the code, that must be the same where a job is planned and run."""
    packages = environment.requirements((HARNESS,))
    here = {HARNESS: environment.version(HARNESS) or "", "torch": packages.get("torch", "")}
    source = hashlib.sha256((provenance.digest(HARNESS) or "").encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        source.update(path.read_bytes())
    return {**here, SOURCE: source.hexdigest()[:12]}


def make_parcel(jobs: list[Job], launcher: Launcher, bench: Bench, *, ours: bool = True) -> bytes:
    """Return the parcel of an agent.

    It has the runs, their unfinished attempts, stored truths, files of the user, plugin files, and the devices. If the
    launcher is `ours`, attempts that another one began are left out, because what it brings counts as made here.
    """
    from harness.runs import truths

    files: dict[str, bytes] = {}
    records = []
    last: dict[str, str] = {}
    for job in jobs:
        records.append(
            {
                "specs": [spec.to_json() for spec in job.specs],
                "data": [asdict(file) for file in job.data],
                "distributions": list(job.distributions),
                "options": {name: getattr(job, name) for name in ("timeout", "retry", "draws", "why_plain")},
            }
        )
        for spec in job.specs:
            last |= {spec.key: attempts[-1].id} if (attempts := bench.ledger.attempts(spec.key)) else {}
            standing = bench.ledger.standing(spec.key)
            attempt = standing.unfinished or standing.resumable
            if attempt and not (ours and attempt.marked):
                content = parcel.pack(parcel.attempt_files(attempt))
                files[parcel.attempt_name(spec.key, attempt)] = content
        truth = truths.file_of(bench.results, job.specs[0])
        if truth.exists():
            files[f"truths/{truth.name}"] = truth.read_bytes()
        for one in job.specs[0].files():
            copy = Path(user_files.locate(one))
            files[f"{user_files.FOLDER}/{one.partition(':')[2]}"] = copy.read_bytes()
    for path in map(Path, jobs[0].plugins):
        files |= {f"plugins/{name}": file.read_bytes() for name, file in _with_neighbours(path.resolve()).items()}
    record = {
        "versions": versions(), "jobs": records, "last": last, "devices": launcher.devices, "workers": launcher.workers,
        "plugins": [Path(path).name for path in jobs[0].plugins],
        "variables": sent_variables(),
    }  # fmt: skip
    return parcel.pack({"job.json": json.dumps(record).encode(), **files})


def sent_variables() -> dict[str, str]:
    """Return the environment variables of a command that its jobs get, whatever launcher takes them there.

    They decide arithmetic, or are the settings of `SENT`. Those that name files are of the machine: they are not sent.
    """
    asked = {name: os.environ[name] for name in SENT if os.environ.get(name)}
    return {name: value for name, value in variables().items() if name != "LD_PRELOAD"} | asked


def _with_neighbours(plugin: Path) -> dict[str, Path]:
    """Return a plugin file and what its code needs of the files beside it, by their paths relative to its folder."""
    modules, _ = made_of(plugin_process.add_file(plugin))
    local = [file.resolve() for name, file in modules.items() if re.split("[./]", name)[0] not in plugin_packages()]
    return {str(file.relative_to(plugin.parent)): file for file in local if file.is_relative_to(plugin.parent)}


def run_agent(exchange: Exchange, name: str = "") -> bool:
    """Do the runs of the exchange's parcel. Returns whether all of them ended with a result.

    `name` is the engine's name for the job. Errors are sent as messages. If the exchange has no parcel any more, the
    job was cancelled or is over: the agent then ends and sends nothing.
    """
    messages = Messages(exchange, name)
    before, node = signal.signal(signal.SIGTERM, _preempt), os.environ.get(errors.NODE)
    os.environ[errors.NODE] = f"{node_name()}:{tempfile.gettempdir()}"
    try:
        with scratch_folder() as scratch, messages:
            try:
                messages.bench = Bench(scratch / "results")
                jobs, places = _open(exchange, messages.bench, scratch, name)
                messages.outcome = local.launch(jobs, places, messages.hear)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)  # only sending the rest and cleaning up are left
            except local.PreemptedError:
                messages.stopped = True
    except BaseException as error:
        messages.fail(error)
        if not isinstance(error, Exception):
            raise
    finally:
        signal.signal(signal.SIGTERM, before)
        os.environ.update({errors.NODE: node} if node else {})
        if not node:
            del os.environ[errors.NODE]
    return messages.complete


def _preempt(*_: object) -> None:
    """Handle a SIGTERM that arrives before the workers start. While they run, the launcher handles it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise local.PreemptedError("ended by SIGTERM before its runs began")


@contextlib.contextmanager
def scratch_folder(below: Path | None = None) -> Iterator[Path]:
    """Make a new folder in `below` (by default TMPDIR), lock it, and delete it at the end.

    Also delete the scratch folders that killed processes left there, both before and after.
    """
    below = below or Path(tempfile.gettempdir())
    _delete_left(below)
    with (
        tempfile.TemporaryDirectory(prefix=SCRATCH, dir=below, ignore_cleanup_errors=True) as name,
        locks.lock_folder(
            Path(name), parcel.HOLD_SECONDS
        ),  # makes it again if another agent deleted it before it was locked
    ):
        yield Path(name)
    _delete_left(below)


def _delete_left(below: Path) -> None:
    for left in below.glob(f"{SCRATCH}*"):
        with contextlib.suppress(OSError, BenchError), locks.lock_folder(left, 0.0):
            shutil.rmtree(left, ignore_errors=True)


def _open(exchange: Exchange, bench: Bench, scratch: Path, name: str) -> tuple[list[Job], list[local.Place]]:
    content = exchange.get(PARCEL)
    if content is None:
        raise RunError("the exchange of this job holds no parcel: the job was cancelled or is over")
    files = parcel.unpack(content)
    record = json.loads(files.pop("job.json"))
    _check_versions(record["versions"])
    for variable in {*variables(), *SENT} - record["variables"].keys():  # workers inherit what is set here
        os.environ.pop(variable, None)
    os.environ.update(record["variables"])
    bench.ledger.prepare()
    for key, attempt in record["last"].items():  # new attempts get numbers above those of earlier ones
        (bench.ledger.folder(key) / attempt).mkdir(parents=True)
    for name_there in exchange.names():
        content = exchange.get(name_there) if parcel.named_attempt(name_there) else None
        files |= {name_there: content} if content is not None else {}
    for path, content in files.items():
        if named := parcel.named_attempt(path):
            parcel.receive(bench.ledger, *named, parcel.unpack(content))
        else:
            base = bench.results if path.startswith(("truths/", f"{user_files.FOLDER}/")) else scratch
            (base / path).parent.mkdir(parents=True, exist_ok=True)
            write_whole(base / path, content)
    plugins = tuple(str(scratch / "plugins" / name) for name in record["plugins"])
    jobs = [
        Job(
            specs=[specs.from_record(spec) for spec in one["specs"]],
            results=bench.results,
            device="cpu",
            slot="cpu-0",
            plugins=plugins,
            distributions=tuple(one["distributions"]),
            data=[DataFile(**{**file, "urls": tuple(file["urls"])}) for file in one["data"]],
            name=name,
            **one["options"],
        )
        for one in record["jobs"]
    ]
    return jobs, local.slots(record["devices"], record["workers"])


def _check_versions(planned: Mapping[str, str]) -> None:
    here = versions()
    other = [
        f"{name} {planned.get(name, 'unknown')} there and {here.get(name, 'unknown')} here"
        for name in {**here, **planned} if planned.get(name) != here.get(name)
    ]  # fmt: skip
    if other:
        raise RunError(
            f"{node_name()} has other versions than the machine that planned this job: {', '.join(other)}; "
            "install the same ones"
        )


class Messages:
    """The messages of an agent: a thread sends a log of messages and progress, and the attempts that changed."""

    def __init__(self, exchange: Exchange, name: str) -> None:
        self.exchange, self.stopped = exchange, False
        self.outcome: local.LaunchSummary | None = None
        self.bench: Bench | None = None
        self._log: dict[str, Any] = {
            "agent": secrets.token_hex(8), "job": name, "host": node_name(),
            "ended": False, "stopped": False, "messages": [], "progress": {},
        }  # fmt: skip
        self._changed: set[str] = set()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send_regularly, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._over.set()
        self._thread.join()
        if error is None:
            self._end()
        else:
            self.fail(error)

    def hear(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Record a worker's message."""
        with self._lock:
            if kind == "progress":
                self._log["progress"][payload["block"]] = dict(payload)
            if kind not in QUIET:
                self._log["messages"].append([kind, dict(payload)])
            self._changed.update(payload.get("keys", ()) if kind == "checkpoint" else ())
            self._changed.update([payload["key"]] if kind in ("finished", "suspended") else ())

    @property
    def complete(self) -> bool:
        """Whether all runs ended with a result."""
        lost = {
            kind for kind, payload in self._log["messages"]
            if kind in FAILURES or (kind == "finished" and payload.get("status") not in FINAL)
        }  # fmt: skip
        return not (lost or self.stopped or (self.outcome and self.outcome.failures))

    def fail(self, error: BaseException) -> None:
        """Send the reason why this agent ends before its runs do, unless it has already ended."""
        if self._log["ended"] or self._log["stopped"]:
            return
        code = error.exit_code if isinstance(error, BenchError) else 1
        message = f"the agent failed: {errors.why(error) if isinstance(error, OSError) else format_error(error)}"
        message = str(error) if isinstance(error, BenchError) else message
        self.hear("failed", {"message": message, "exit_code": code, "held": False, "traceback": traceback.format_exc()})
        self._end()

    def _send_regularly(self) -> None:
        with contextlib.suppress(OSError):
            if PARCEL in self.exchange.names():
                self._send()  # the command then knows that the agent has started
        while not self._over.wait(EVERY_SECONDS):
            with contextlib.suppress(OSError):  # try again the next time
                names = self.exchange.names()
                if (STOP in names or PARCEL not in names) and not self.stopped:
                    self.stopped = True
                    os.kill(os.getpid(), signal.SIGTERM)
                self._send()

    def _end(self) -> None:
        """Send the rest. If the exchange cannot be reached, try again for `LAST_SECONDS`."""
        self._log |= {"ended": not self.stopped, "stopped": self.stopped}
        deadline = time.monotonic() + LAST_SECONDS
        while True:
            try:
                if PARCEL not in self.exchange.names():
                    sys.stderr.write("the exchange of this job holds no parcel: the job was cancelled or is over\n")
                    return None
                return self._send()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise RunError(f"the exchange cannot be reached: {error}") from error
                time.sleep(EVERY_SECONDS)

    def _send(self) -> None:
        with self._lock:
            changed, self._changed = self._changed, set()
            log = json.dumps({**self._log, "time": time.time()}).encode()
        try:
            while changed:
                key = next(iter(changed))
                for attempt in self.bench.ledger.attempts(key) if self.bench else ():
                    files = parcel.attempt_files(attempt)
                    self.exchange.put(parcel.attempt_name(key, attempt), parcel.pack(files))
                changed.remove(key)
            self.exchange.put(LOG, log)  # after the attempts that it mentions
        finally:
            with self._lock:
                self._changed |= changed
