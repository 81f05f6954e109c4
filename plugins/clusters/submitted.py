"""Jobs that were submitted: their records, their states, and what their agents send.

Each job has a record in `jobs/` of the results folder. The record is written when the job is submitted, and deleted
when the job is over and everything that its agent sent has been taken in. So the same command finds the jobs that are
under way and submits nothing twice, wherever it was interrupted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness import Bench, BenchError, DataError, RunError
from harness.results import FINAL, Send, commit
from harness.system import locks, read_json, write_json, write_whole
from plugins.clusters import parcel
from plugins.clusters.launcher import LOG, Exchange, JobState, Launcher, is_ours, make

GONE = 3
"""Number of queries after which a job that the engine does not know is over if its agent sends nothing in between."""
NODE_MESSAGES = frozenset({"failed", "held", "died", "stopping", "device lost", "warning", "finished"})
"""Messages of workers that say what is wrong there: the name of the machine is added to their text."""
SUBMIT_SECONDS = 300.0
LINES, LINE = 5, 300
"""How many lines of an agent's output a message shows, and most characters of each."""
FOLDER = "jobs"
"""The folder of a results folder that has the records and, unless the launcher has another place, the exchanges."""


@dataclass
class Submitted:
    """A job that was submitted: its record, which is beside `folder`, and the last log of its agent."""

    bench: Bench
    folder: Path
    record: dict[str, Any]
    launcher: Launcher
    exchange: Exchange
    log: dict[str, Any] = field(default_factory=dict)
    state: JobState | None = None
    _seen: dict[str, str] = field(default_factory=dict)
    _messages_read: int = 0
    _missed: int = 0

    @property
    def name(self) -> str:
        """The engine's name for the job."""
        return str(self.record["name"])

    @property
    def keys(self) -> list[str]:
        """The keys of the job's runs."""
        return list(self.record["keys"])

    @property
    def label(self) -> str:
        """The launcher and the engine's name for the job, as messages show it."""
        return f"{self.record['launcher']} job {self.name}"

    @property
    def host(self) -> str:
        """The machine of the job, or "" if it is not known."""
        return (self.state.where if self.state else "") or str(self.log.get("host", ""))

    def _from_node(self, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Return a worker's message about a problem with the name of its machine in it."""
        name = {"warning": "text", "finished": "reason"}.get(kind, "message")
        if kind not in NODE_MESSAGES or not payload.get(name):
            return payload
        return {**payload, name: f"{self.label} on {self.host}: {payload[name]}"}

    def listen(self, listen: Send) -> bool:
        """Take in what the agent has sent since the last call: first attempts, then the messages about them.

        Returns False if an attempt has to wait, because it could not be read or a worker of this machine holds its run.
        """
        names, taken = self.exchange.names(), True
        version = names.get(LOG, "")
        log = self.exchange.get(LOG) if version != self._seen.get(LOG, "") else None
        if log is not None:
            names = self.exchange.names()  # the attempts that the log mentions were sent before it
        for name, state in names.items():
            named = parcel.named_attempt(name)
            if named and named[0] in self.record["keys"] and self._seen.get(name) != state:
                content = self.exchange.get(name)
                if content is not None and self._take(named, content, listen):
                    self._seen[name], self._missed = state, 0
                else:
                    taken = False
        if log is None:
            return taken
        self._seen[LOG], self._missed = version, 0
        latest = json.loads(log)
        if latest.get("agent") != self.log.get("agent"):
            self._messages_read = 0
        self.log, messages = latest, latest["messages"][self._messages_read :]
        self._messages_read += len(messages)
        for kind, payload in messages:
            listen(kind, self._from_node(kind, payload))
        for payload in latest["progress"].values():
            listen("progress", payload)
        return taken

    def _take(self, named: tuple[str, str], content: bytes, listen: Send) -> bool:
        try:
            whose: Literal["", "theirs"] = "" if is_ours(self.bench, self.record["launcher"]) else "theirs"
            counting = parcel.receive(self.bench.ledger, *named, parcel.unpack(content), whose)
            if counting.id != named[1]:
                listen("warning", {"text": f"{self.label}: run {named[0][:12]}: {commit.second(counting)}"})
        except locks.HeldError:
            return False  # a worker of this machine holds the run; try again at the next call
        except DataError as error:
            listen("failed", {"message": f"{self.label}: {error}", "exit_code": error.exit_code, "held": False})
        return True

    def look(self) -> None:
        """Read the last log of the agent, and leave what it says to `listen`."""
        log = read_log(self)
        if log != self.log:
            self.log, self._missed = log, 0

    def over(self, state: JobState | None, *, asked: bool, cancelled: bool = False) -> str | None:
        """Return why the job is over: "" if its agent said so, None if the job is not over.

        `state` is the engine's answer, if it was asked. `cancelled` says that the job was cancelled.
        """
        self.state = state or self.state
        if self.log.get("ended"):
            return ""
        if cancelled and self.log.get("stopped"):
            return "it was cancelled"
        if not asked:
            return None
        self._missed = self._missed + 1 if state is None else 0
        if state is not None and state.status == "ended":
            return state.why or "it ended"
        return "the engine does not know it any more" if self._missed >= GONE else None

    def restart(self) -> bool:
        """Start the job again whose agent has been killed; returns False if it is not.

        The agent must have begun, and nobody must have ended the job. Of two commands, only one starts it.
        """
        if not self.log or self.log.get("stopped") or (self.state and self.state.cancelled):
            return False
        with locks.lock_file(self.bench.ledger.locks / "submit.lock", SUBMIT_SECONDS):
            record = read_json(record_of(self.folder))
            if record is None:
                return False
            if record["name"] == self.name:
                number = record.get("restarts", 0) + 1
                new = self.launcher.restart(self.folder, self.name) if number <= self.launcher.restarts else ""
                if not new:
                    return False
                record |= {"name": new, "restarts": number}
                write_json(record_of(self.folder), record)
        self.record, self.state, self._missed = record, None, 0
        return True

    def keep_output(self) -> tuple[Path, list[str]] | None:
        """Write what the process of the agent printed into `jobs/`; return its path and last lines, if there are any.

        `bench gc` lists it.
        """
        text = read_output(self)
        if not text:
            return None
        path = self.folder.with_suffix(".log")
        try:
            write_whole(path, text.encode())
        except OSError:
            return None
        return path, last_lines(text)

    def forget(self) -> None:
        """Delete the record and the exchange."""
        self.launcher.forget(self.folder, self.name)
        record_of(self.folder).unlink(missing_ok=True)


def record_of(folder: Path) -> Path:
    """Return the path of the record of the job that has this folder."""
    return folder.with_suffix(".json")


def submitted(bench: Bench, *, named: bool = True) -> list[Submitted]:
    """Return the submitted jobs of a results folder, the oldest first.

    With `named` false, return the jobs whose submission was interrupted: their records have no name of an engine yet.
    """
    jobs = []
    for path in sorted((bench.results / FOLDER).glob("*.json")):
        record = read_json(path)
        if (
            record is not None
            and {"launcher", "settings", "name", "keys", "since"} <= record.keys()
            and bool(record["name"]) == named
        ):
            launcher, folder = make(bench, record["launcher"], record["settings"]), path.with_suffix("")
            jobs.append(Submitted(bench, folder, record, launcher, launcher.exchange(folder)))
    return sorted(jobs, key=lambda job: str(job.record["since"]))


def read_output(job: Submitted) -> str:
    """Return what the process of a job's agent printed, or "" if it cannot be read."""
    try:
        return job.launcher.output(job.folder, job.name).strip()
    except (OSError, BenchError):
        return ""


def last_lines(text: str) -> list[str]:
    """Return the last lines of an output, each shortened."""
    return [line.strip()[:LINE] for line in text.splitlines() if line.strip()][-LINES:]


def read_log(job: Submitted) -> dict[str, Any]:
    """Return the last log of a job's agent, or {} if it cannot be read."""
    try:
        content = job.exchange.get(LOG)
    except (OSError, BenchError):
        return {}
    return json.loads(content) if content else {}


def ask(jobs: Sequence[Submitted]) -> tuple[dict[Path, JobState], list[str]]:
    """Return the states of jobs by folder, and the errors of the engines that could not be asked.

    All jobs of a launcher with the same settings take one query.
    """
    known: dict[Path, JobState] = {}
    problems: list[str] = []
    for group in by_launcher(jobs):
        try:
            states = group[0].launcher.states([job.name for job in group])
        except RunError as error:
            problems.append(str(error))
            continue
        known |= {job.folder: states[job.name] for job in group if job.name in states}
    return known, problems


def by_launcher(jobs: Sequence[Submitted]) -> Iterable[list[Submitted]]:
    """Group jobs by their launcher and its settings."""
    groups: dict[str, list[Submitted]] = {}
    for job in jobs:
        groups.setdefault(json.dumps([job.record["launcher"], job.record["settings"]], sort_keys=True), []).append(job)
    return groups.values()


def states(bench: Bench) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each submitted job, and the errors of the engines that cannot be asked.

    This does not take in what the agents sent.
    """
    jobs = submitted(bench)
    known, problems = ask(jobs)
    rows = []
    for job in jobs:
        log, state = read_log(job), known.get(job.folder)
        job.log, job.state = log, state
        ended = {p["key"]: p["status"] for kind, p in log.get("messages", []) if kind == "finished"}
        over = bool(log.get("ended")) or (state is not None and state.status == "ended")
        status: str = state.status if state else "unknown"
        if over:  # the state of a job is that of its runs
            status = "ended" if {*ended} >= {*job.keys} and {*ended.values()} <= {*FINAL} else "failed"
        steps = [(p["position"], p["steps"], p["rate"]) for p in log.get("progress", {}).values()]
        left = [(total - done) / rate for done, total, rate in steps if rate and done < total]
        rows.append(
            {
                "job": job.name, "launcher": job.record["launcher"], "status": status,
                "runs": len(job.keys), "ended": len(ended), "host": job.host or None,
                "why": _why(job, failed=status == "failed") or None, "seconds_left": max(left, default=None),
                "heard_age": max(0.0, time.time() - log["time"]) if log else None, "since": job.record["since"],
            }
        )  # fmt: skip
    return rows, problems


def _why(job: Submitted, *, failed: bool) -> str:
    """Return why a job waits or, if it failed, what its agent said last or else the end of its output."""
    state = job.state.why if job.state else ""
    if not failed:
        return state
    said = [p.get("message") or p.get("reason") for kind, p in job.log.get("messages", []) if kind in NODE_MESSAGES]
    return "; ".join(filter(None, [state, *([*filter(None, said)] or last_lines(read_output(job)))[-1:]]))
