"""Jobs of a launcher: submit them, follow them, and take in their results.

Each job has a record in `jobs/` of the results folder. The record is written when the job is submitted, and deleted
when the job is over and everything that its agent sent has been taken in. So the same command finds the jobs that are
under way and submits nothing twice, wherever it was interrupted.
"""

from __future__ import annotations

import getpass
import json
import math
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from harness import BenchError, DataError, RunError
from harness.results.ledger.attempt import now
from harness.results.ledger.commit import second
from harness.results.ledger.ledger import Ledger
from harness.results.records import FINAL
from harness.runs.job import Job
from harness.runs.local import LaunchSummary, Listener
from harness.system.files import read_json, write_json
from harness.system.locks import HeldError, lock_file
from plugins.clusters import parcel as parcels
from plugins.clusters.agent import make_parcel
from plugins.clusters.launcher import LOG, PARCEL, STOP, Exchange, JobState, Launcher

LOOK_SECONDS = 2.0
"""Time between two checks of the exchanges."""
ASK_SECONDS = 10.0
"""Time between two queries to the engine. Each is about all jobs."""
GONE = 3
"""Number of queries after which a job that the engine does not know is over if its agent sends nothing in between."""
SUBMIT_SECONDS = 300.0
FOLDER = "jobs"

Make = Callable[[str, Mapping[str, Any]], Launcher]
"""A function (name, settings) -> the launcher of a record."""


@dataclass
class Submitted:
    """A job that was submitted: its record, its launcher and exchange, and the last log of its agent."""

    ident: str
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

    def listen(self, ledger: Ledger, listen: Listener) -> bool:
        """Take in what the agent has sent since the last call: first attempts, then the messages about them.

        Returns False if an attempt has to wait, because it could not be read or a worker of this machine holds its run.
        """
        names, taken = self.exchange.names(), True
        version = names.get(LOG, "")
        log = self.exchange.get(LOG) if version != self._seen.get(LOG, "") else None
        if log is not None:
            names = self.exchange.names()  # the attempts that the log mentions were sent before it
        for name, state in names.items():
            named = parcels.named_attempt(name)
            if named and named[0] in self.record["keys"] and self._seen.get(name) != state:
                content = self.exchange.get(name)
                if content is not None and self._take(ledger, named, content, listen):
                    self._seen[name], self._missed = state, 0
                else:
                    taken = False
        if log is None:
            return taken
        self._seen[LOG], self._missed = version, 0
        found = json.loads(log)
        if found["agent"] != self.log.get("agent"):
            self._messages_read = 0
        self.log, messages = found, found["messages"][self._messages_read :]
        self._messages_read += len(messages)
        for kind, payload in messages:
            listen(kind, payload)
        for payload in found["progress"].values():
            listen("progress", payload)
        return taken

    def _take(self, ledger: Ledger, named: tuple[str, str], content: bytes, listen: Listener) -> bool:
        try:
            counting = parcels.place(ledger, *named, parcels.unpack(content))
            if counting.id != named[1]:
                listen("warning", {"text": f"{self.label}: run {named[0][:12]}: {second(counting)}"})
        except HeldError:
            return False  # a worker of this machine holds the run; try again at the next call
        except DataError as error:
            listen("failed", {"message": f"{self.label}: {error}", "exit_code": error.exit_code, "held": False})
        return True

    def over(self, state: JobState | None, *, asked: bool, cancelled: bool = False) -> str | None:
        """Return why the job is over: "" if its agent said so, None if the job is not over.

        `state` is the engine's answer, if it was asked. `cancelled` says that the job was cancelled.
        """
        if self.log.get("ended"):
            return ""
        if cancelled and self.log.get("stopped"):
            return "it was cancelled"
        if not asked:
            return None
        self.state = state
        self._missed = self._missed + 1 if state is None else 0
        if state is not None and state.status == "ended":
            return state.why or "it ended"
        return "the engine does not know it any more" if self._missed >= GONE else None

    def forget(self, ledger: Ledger) -> None:
        """Delete the record and the exchange."""
        self.launcher.forget(ledger.root / FOLDER / self.ident, self.name)
        _path(ledger, self.ident).unlink(missing_ok=True)


def submitted(ledger: Ledger, make: Make, *, named: bool = True) -> list[Submitted]:
    """Return the submitted jobs of a results folder, the oldest first.

    With `named` false, return the jobs whose submission was interrupted: their records have no name of an engine yet.
    """
    found = []
    for path in sorted((ledger.root / FOLDER).glob("*.json")):
        record = read_json(path)
        if (
            record is not None
            and {"launcher", "settings", "name", "keys", "since"} <= record.keys()
            and bool(record["name"]) == named
        ):
            launcher = make(record["launcher"], record["settings"])
            found.append(Submitted(path.stem, record, launcher, launcher.exchange(ledger.root / FOLDER / path.stem)))
    return sorted(found, key=lambda job: str(job.record["since"]))


def submit(name: str, launcher: Launcher, jobs: Sequence[Job], ledger: Ledger, make: Make) -> list[Submitted]:
    """Submit the runs of `jobs` that are not under way. Returns all jobs with these runs, the new ones last."""
    (ledger.root / FOLDER).mkdir(parents=True, exist_ok=True)
    with lock_file(ledger.locks / "submit.lock", SUBMIT_SECONDS):
        return _submit(name, launcher, jobs, ledger, make)


def _submit(name: str, launcher: Launcher, jobs: Sequence[Job], ledger: Ledger, make: Make) -> list[Submitted]:
    wanted = {spec.key for job in jobs for spec in job.specs}
    _settle(ledger, make)
    before = [job for job in submitted(ledger, make) if wanted & set(job.keys)]
    busy = {key for job in before for key in job.keys}
    left = [rest for job in jobs if (rest := _without(job, busy, ledger)).specs]
    settings = dict(vars(launcher))
    about = {"launcher": name, "settings": settings, "by": f"{getpass.getuser()} on {socket.gethostname()}"}
    records = {}
    try:
        for part in share_out(left, launcher.jobs):
            folder = ledger.root / FOLDER / secrets.token_hex(8)
            keys = [spec.key for job in part for spec in job.specs]
            records[folder] = {**about, "name": "", "keys": keys, "since": now()}
            write_json(_path(ledger, folder.name), records[folder])
            parcel = make_parcel(part, {**settings, "devices": launcher.devices}, ledger)
            _hand_over(launcher.exchange(folder), parcel)
    except BaseException:
        for folder in records:
            with suppress(OSError, BenchError):
                launcher.forget(folder, "")
            _path(ledger, folder.name).unlink(missing_ok=True)
        raise
    try:
        names = launcher.submit(list(records)) if records else []
    except BaseException:
        _settle(ledger, make)
        raise
    for (folder, record), engine_name in zip(records.items(), names, strict=True):
        write_json(_path(ledger, folder.name), {**record, "name": engine_name})
    mine = {folder.name for folder in records}
    return [*before, *(job for job in submitted(ledger, make) if job.ident in mine)]


def _hand_over(exchange: Exchange, parcel: bytes) -> None:
    try:
        exchange.put(PARCEL, parcel)
    except OSError as error:
        raise RunError(f"the exchange of a job cannot be written: {error}") from error


def _settle(ledger: Ledger, make: Make) -> None:
    """Settle jobs whose submission was interrupted by a kill: keep those whose agent has sent a log.

    The others are deleted with their parcels, so that their agents end at once. The caller holds the submission lock.
    """
    for job in submitted(ledger, make, named=False):
        try:
            content = job.exchange.get(LOG)
        except OSError as error:
            raise RunError(f"the exchange of a job cannot be read: {error}") from error
        if content is None:
            job.forget(ledger)
        else:
            write_json(_path(ledger, job.ident), {**job.record, "name": json.loads(content)["job"]})


def _without(job: Job, busy: set[str], ledger: Ledger) -> Job:
    """Return a job without the runs that are under way or that another command has finished since they were planned."""
    specs = [spec for spec in job.specs if spec.key not in busy and not ledger.standing(spec.key).done(job.draws)]
    return replace(job, specs=specs)


def share_out(blocks: Iterable[Job], most: int) -> list[list[Job]]:
    """Distribute blocks of runs over at most `most` parts of about the same work, which is chains times steps."""
    import heapq

    parts: list[tuple[int, int, list[Job]]] = []
    for block in sorted(blocks, key=_work, reverse=True):
        if len(parts) < most:
            heapq.heappush(parts, (_work(block), len(parts), [block]))
        else:
            load, number, part = heapq.heappop(parts)
            part.append(block)
            heapq.heappush(parts, (load + _work(block), number, part))
    return [part for _, _, part in sorted(parts, key=lambda entry: entry[1])]


def _work(block: Job) -> int:
    return sum(spec.chains * spec.steps for spec in block.specs)


def follow(
    jobs: Sequence[Submitted],
    ledger: Ledger,
    listen: Listener,
    wanted: Collection[str] | None = None,
    draws: str = "some",
    *,
    cancelled: bool = False,
) -> LaunchSummary:
    """Take in what the agents of jobs send until all jobs are over. Returns a summary of the runs.

    `listen` gets only messages about runs whose keys are in `wanted`, and messages about no run. None means all runs.
    Several commands may follow a job: the first one deletes its record, and the others find its runs in the ledger,
    with the `draws` ("some" or "all") that they want.
    """
    outcome = LaunchSummary()
    left = list(jobs)
    asked, reported = -math.inf, list[str]()

    def report(kind: str, payload: dict[str, Any]) -> None:
        about = payload.get("key") or payload.get("block")
        if wanted is not None and about is not None and about not in wanted:
            return
        outcome.hear(kind, payload)
        listen(kind, payload)

    while left:
        states: dict[str, JobState] = {}
        asking = time.monotonic() - asked >= ASK_SECONDS
        if asking:
            asked = time.monotonic()
            states, problems = ask(left)
            asking = not problems
            if problems and problems != reported:
                listen("stopping", {"message": f"{'; '.join(problems)}; waiting"})
            reported = problems
        for job in list(left):
            try:
                job.listen(ledger, report)
            except OSError as error:
                listen("stopping", {"message": f"{job.label}: its exchange cannot be reached ({error}); waiting"})
                continue
            why = job.over(states.get(job.ident), asked=asking, cancelled=cancelled)
            forgotten = not _path(ledger, job.ident).exists()
            if (why is None and not forgotten) or not job.listen(ledger, report):
                continue
            left.remove(job)
            _close(job, why or "another command ended it", ledger, outcome, report, draws)
        if left:
            time.sleep(LOOK_SECONDS)
    _report_others(wanted or (), ledger, outcome, report, draws)  # runs that belong to no job
    return outcome


def _report_others(keys: Iterable[str], ledger: Ledger, outcome: LaunchSummary, report: Listener, draws: str) -> int:
    """Report the runs that another command finished. Returns how many there are."""
    found = 0
    for key in keys:
        if outcome.statuses.get(key) not in FINAL and (standing := ledger.standing(key)).done(draws):
            report("finished", {"key": key, "status": standing.status, "reason": standing.reason})
            found += 1
    return found


def _close(job: Submitted, why: str, ledger: Ledger, outcome: LaunchSummary, report: Listener, draws: str) -> None:
    """Delete the record of a job that is over. If some of its runs have no result, report why.

    Runs that another command took in count as ended.
    """
    done = sum(outcome.statuses.get(key) in FINAL for key in job.keys)
    done += _report_others(job.keys, ledger, outcome, report, draws)
    if not job.log.get("ended") and done < len(job.keys):
        text = f"{job.label} is over ({why}); {done} of its {len(job.keys)} runs ended; repeat the command to resume"
        report("failed", {"message": text, "exit_code": 1, "held": False})
    job.forget(ledger)


def read_log(job: Submitted) -> dict[str, Any]:
    """Return the last log of a job's agent, or {} if it cannot be read."""
    try:
        content = job.exchange.get(LOG)
    except (OSError, BenchError):
        return {}
    found: dict[str, Any] = json.loads(content) if content else {}
    return found


def ask(jobs: Sequence[Submitted]) -> tuple[dict[str, JobState], list[str]]:
    """Return the states of jobs by ident, and the errors of the engines that could not be asked.

    All jobs of a launcher with the same settings take one query.
    """
    found: dict[str, JobState] = {}
    problems: list[str] = []
    for group in _groups(jobs):
        try:
            states = group[0].launcher.states([job.name for job in group])
        except RunError as error:
            problems.append(str(error))
            continue
        found |= {job.ident: states[job.name] for job in group if job.name in states}
    return found, problems


def _groups(jobs: Sequence[Submitted]) -> Iterable[list[Submitted]]:
    """Group jobs by their launcher and its settings."""
    groups: dict[str, list[Submitted]] = {}
    for job in jobs:
        groups.setdefault(json.dumps([job.record["launcher"], job.record["settings"]], sort_keys=True), []).append(job)
    return groups.values()


def cancel(jobs: Sequence[Submitted]) -> None:
    """Cancel jobs. What they have sent is taken in the next time that a command follows them."""
    for job in jobs:
        with suppress(OSError):
            job.exchange.put(STOP, b"")
    for group in _groups(jobs):
        with suppress(BenchError):
            group[0].launcher.cancel([job.name for job in group])


def _path(ledger: Ledger, ident: str) -> Any:
    return ledger.root / FOLDER / f"{ident}.json"
