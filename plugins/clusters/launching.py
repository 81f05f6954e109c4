"""The launcher that a command asks for: it submits runs as jobs, and follows the jobs until they are over.

`bench cancel` ends submitted jobs, and takes in what they sent.
"""

from __future__ import annotations

import json
import math
import secrets
import signal
import threading
import time
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import Bench, BenchError, Result, RunError, UsageError
from harness.application import Progress
from harness.contracts import check_known
from harness.results import FINAL, Send, now
from harness.runs import Job, parse_settings
from harness.runs.local import LaunchSummary
from harness.system import count, locks, user_path, write_json
from plugins.clusters.agent import FAILURES, make_parcel
from plugins.clusters.launcher import LOG, PARCEL, STOP, Exchange, JobState, Launcher, is_ours, make
from plugins.clusters.submitted import FOLDER, GONE, SUBMIT_SECONDS, Submitted, ask, by_launcher, record_of, submitted

LOOK_SECONDS = 2.0
"""Time between two checks of the exchanges, once a command has waited for ten times as long; at first it is shorter."""
FIRST_LOOK_SECONDS = 0.2
ASK_SECONDS = 10.0
"""Time between two queries to the engine. Each is about all jobs."""
REPEAT = "repeat the command to resume"
MOST_NAMES = 10
"""Most names of jobs in the message about those that were submitted."""


@dataclass(frozen=True)
class CommandLauncher:
    """The launcher of a command, by its name and with its settings; see `harness.application.launch.Launcher`."""

    bench: Bench
    name: str
    launcher: Launcher

    @property
    def devices(self) -> list[str]:
        """The devices of all jobs together; a CPU once for each worker."""
        of_job = self.launcher.devices
        return (of_job if of_job != ["cpu"] else of_job * self.launcher.workers) * self.launcher.jobs

    def launch(self, blocks: Sequence[Job], progress: Progress) -> LaunchSummary:
        """Submit the runs that are not under way, and wait for all of them unless the command has --detach."""
        with _ended_by_sigterm():
            return self._launch(blocks, progress)

    def _launch(self, blocks: Sequence[Job], progress: Progress) -> LaunchSummary:
        bench, how = self.bench, self.bench.launching
        keys = {spec.key for block in blocks for spec in block.specs}
        outcome = LaunchSummary()
        report = _reporter(outcome, progress.listen, keys)
        for text in self.launcher.warnings():
            bench.say(f"warning: {text}")
        jobs = submit(bench, self.name, self.launcher, blocks, report)
        if jobs:  # otherwise another command has finished the runs
            names = ", ".join([job.name for job in jobs[:MOST_NAMES]] + ["..."] * (len(jobs) > MOST_NAMES))
            bench.say(f"{count(len(jobs), f'{self.name} job')}: {names}")
        if not is_ours(bench, self.name):
            bench.say(f"note: what {self.name} brings is reported, not run here: it is no launcher of sgmcmc-bench")
        leave = (
            "the same command waits for the jobs, `bench status` shows them, "
            f"`bench cancel` ends them ({bench.results})"
        )
        if how and how.detach:
            bench.say(leave)
            outcome.detached = True
            return outcome
        try:
            with progress:
                followed = follow(bench, jobs, progress.listen, keys, blocks[0].draws)
        except KeyboardInterrupt:
            bench.say(leave)
            raise
        followed.statuses = outcome.statuses | followed.statuses
        return followed


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end what waits as Ctrl-C does, whatever a library does at it."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, before)


def _reporter(outcome: LaunchSummary, listen: Send, wanted: Collection[str] | None) -> Send:
    """Return what records and passes on the messages about runs whose keys are in `wanted` (None: all), or no run."""

    def report(kind: str, payload: dict[str, Any]) -> None:
        about = payload.get("key") or payload.get("block")
        if wanted is None or about is None or about in wanted:
            outcome.hear(kind, payload)
            listen(kind, payload)

    return report


def of_command(bench: Bench) -> CommandLauncher:
    """Return the launcher that a command asks for by --launcher and --set launcher.NAME=VALUE."""
    how = bench.launching
    if how is None:
        raise UsageError("this command has no --launcher")
    name = how.launcher
    settings: dict[str, Any] = {}
    if name.endswith(".toml"):
        name, settings = _profile(user_path(name))
    given = parse_settings(how.settings, "--set launcher")
    return CommandLauncher(bench, name, make(bench, name, {**settings, **given}))


def _profile(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        profile = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--launcher {path}: {error}") from error
    name = profile.pop("launcher", None)
    if not isinstance(name, str) or any(isinstance(value, dict | list) for value in profile.values()):
        raise UsageError(f'--launcher {path}: it must hold launcher = "NAME" and settings of that launcher, one a line')
    return name, profile


def submit(
    bench: Bench, name: str, launcher: Launcher, jobs: Sequence[Job], report: Send = lambda *_: None
) -> list[Submitted]:
    """Submit the runs of `jobs` that are not under way. Returns all jobs with these runs, the new ones last.

    What jobs have sent that are over is taken in first and reported; those of their runs that have no result count as
    not under way.
    """
    (bench.results / FOLDER).mkdir(parents=True, exist_ok=True)
    with locks.lock_file(bench.ledger.locks / "submit.lock", SUBMIT_SECONDS):
        return _submit(bench, name, launcher, jobs, report)


def _submit(bench: Bench, name: str, launcher: Launcher, jobs: Sequence[Job], report: Send) -> list[Submitted]:
    wanted = {spec.key for job in jobs for spec in job.specs}
    _settle(bench)
    before = [job for job in submitted(bench) if wanted & set(job.keys)]
    before = _under_way(before, report)
    busy = {key for job in before for key in job.keys}
    left = [rest for job in jobs if (rest := _without(job, busy, bench)).specs]
    about = {"launcher": name, "settings": dict(vars(launcher))}
    records = {}
    try:
        for part in share_out(left, launcher.jobs):
            folder = bench.results / FOLDER / secrets.token_hex(8)
            keys = [spec.key for job in part for spec in job.specs]
            records[folder] = {**about, "name": "", "keys": keys, "since": now()}
            write_json(record_of(folder), records[folder])
            parcel = make_parcel(part, launcher, bench, ours=is_ours(bench, name))
            _hand_over(launcher.exchange(folder), parcel)
    except BaseException:
        for folder in records:
            with suppress(OSError, BenchError):
                launcher.forget(folder, "")
            record_of(folder).unlink(missing_ok=True)
        raise
    try:
        names = launcher.submit(list(records)) if records else []
    except BaseException:
        _settle(bench)
        raise
    for (folder, record), engine_name in zip(records.items(), names, strict=True):
        write_json(record_of(folder), {**record, "name": engine_name})
    return [*before, *(job for job in submitted(bench) if job.folder in records)]


def _hand_over(exchange: Exchange, parcel: bytes) -> None:
    try:
        exchange.put(PARCEL, parcel)
    except OSError as error:
        raise RunError(f"the exchange of a job cannot be written: {error}") from error


def _settle(bench: Bench) -> None:
    """Settle jobs whose submission was interrupted by a kill: keep those whose agent has sent a log.

    The others are deleted with their parcels, so that their agents end at once. The caller holds the submission lock.
    """
    for job in submitted(bench, named=False):
        try:
            content = job.exchange.get(LOG)
        except OSError as error:
            raise RunError(f"the exchange of a job cannot be read: {error}") from error
        if content is None:
            job.forget()
        else:
            write_json(record_of(job.folder), {**job.record, "name": json.loads(content)["job"]})


def _under_way(jobs: Sequence[Submitted], report: Send) -> list[Submitted]:
    """Return the jobs that are not over. Those that are over are closed, and what failed there does not count here.

    A job that the engine does not know although its agent had begun is left to `follow`, which starts it again.
    """

    def say(kind: str, payload: dict[str, Any]) -> None:
        if kind in FAILURES:
            kind, payload = "stopping", {"message": f"before this command: {payload['message']}"}
        report(kind, payload)

    left = list(jobs)
    for number in range(GONE):
        states, problems = ask(left)
        for job in list(left):
            with suppress(OSError):
                job.look()
                state = states.get(job.folder)
                why = job.over(state, asked=not problems and (state is not None or not job.log))
                if why is not None and job.listen(say):
                    left.remove(job)
                    _close(job, why, LaunchSummary(), say, "some")
        if problems or all(job.folder in states or job.log for job in left):
            break
        if number < GONE - 1:
            time.sleep(LOOK_SECONDS)
    return left


def _without(job: Job, busy: set[str], bench: Bench) -> Job:
    """Return a job without the runs that are under way or that have ended since they were planned."""

    def missing(key: str) -> bool:
        standing = bench.ledger.standing(key)
        return not (key in busy or standing.done(job.draws) or (standing.failed and not job.retry))

    return replace(job, specs=[spec for spec in job.specs if missing(spec.key)])


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
    bench: Bench,
    jobs: Sequence[Submitted],
    listen: Send,
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
    began, asked, reported, told = time.monotonic(), -math.inf, list[str](), set[str]()
    report = _reporter(outcome, listen, wanted)
    while left:
        states: dict[Path, JobState] = {}
        asking = time.monotonic() - asked >= ASK_SECONDS
        if asking:
            asked = time.monotonic()
            states, problems = ask(left)
            asking = not problems
            if problems and problems != reported:
                listen("stopping", {"message": f"{'; '.join(problems)}; waiting"})
            reported = problems
            _report_held(left, states, told, listen)
        for job in list(left):
            try:
                job.listen(report)
            except OSError as error:
                listen("stopping", {"message": f"{job.label}: its exchange cannot be reached ({error}); waiting"})
                continue
            why = job.over(states.get(job.folder), asked=asking, cancelled=cancelled)
            forgotten = not record_of(job.folder).exists()
            if (why is None and not forgotten) or not job.listen(report):
                continue
            before = job.label
            if why and not (forgotten or cancelled) and _restarted(job):
                again = f"{job.record['restarts']} of at most {job.launcher.restarts} times"
                text = f"{before}{_on(job)} is over ({why}); it was started again ({again}), as {job.label}"
                listen("stopping", {"message": text})
                continue
            left.remove(job)
            _close(job, why or "another command ended it", outcome, report, draws)
        if left:
            time.sleep(min(LOOK_SECONDS, FIRST_LOOK_SECONDS + (time.monotonic() - began) / 10))
    _report_others(wanted or (), bench, outcome, report, draws)  # runs that belong to no job
    return outcome


def _report_held(jobs: Sequence[Submitted], states: Mapping[Path, JobState], told: set[str], listen: Send) -> None:
    """Say once why a job is not started, unless it only waits for its turn."""
    for job in jobs:
        state = states.get(job.folder)
        text = f"{job.label} is not started: {state.why}" if state and state.held else ""
        if text and text not in told:
            told.add(text)
            listen("stopping", {"message": text})


def _report_others(keys: Iterable[str], bench: Bench, outcome: LaunchSummary, report: Send, draws: str) -> int:
    """Report the runs that another command finished. Returns how many there are."""
    reported = 0
    for key in keys:
        if outcome.statuses.get(key) not in FINAL and (standing := bench.ledger.standing(key)).done(draws):
            report("finished", {"key": key, "status": standing.status, "reason": standing.reason})
            reported += 1
    return reported


def _close(job: Submitted, why: str, outcome: LaunchSummary, report: Send, draws: str) -> None:
    """Delete the record of a job that is over. If some of its runs have no result, report why and keep its output.

    Runs that another command took in count as ended.
    """
    done = sum(outcome.statuses.get(key) in FINAL for key in job.keys)
    done += _report_others(job.keys, job.bench, outcome, report, draws)
    if done < len(job.keys):
        failed = any(kind in FAILURES for kind, _ in job.log.get("messages", ()))
        kept = job.keep_output() if failed or not (job.log.get("ended") or job.log.get("stopped")) else None
        if job.log.get("ended") and kept:
            report("stopping", {"message": f"{job.label}: its output is in {kept[0]}"})
        elif not job.log.get("ended"):
            text = f"{job.label}{_on(job)} is over ({why}); {done} of its {len(job.keys)} runs ended; {REPEAT}"
            if kept:
                text += "".join([f"\nthe end of its output, {kept[0]}:", *(f"\n  {line}" for line in kept[1])])
            report("failed", {"message": text, "exit_code": 1, "held": False})
    job.forget()


def _on(job: Submitted) -> str:
    return f" on {job.host}" if job.host else ""


def _restarted(job: Submitted) -> bool:
    try:
        return job.restart()
    except RunError:  # the engine takes no jobs now
        return False


def cancel(
    bench: Bench,
    job: Annotated[list[str] | None, typer.Argument(help="Jobs, as `bench status` names them; default: all.")] = None,
) -> Result:
    """End jobs that were submitted by a launcher. Their workers write checkpoints; the same command resumes the runs.

    Examples:
        bench cancel
        bench cancel 1234_5
    """
    from plugins.clusters.launching import follow

    bench.ledger.check_version()
    jobs = submitted(bench)
    check_known("job", job or [], {one.name for one in jobs})
    ended = [one for one in jobs if not job or one.name in job]
    for one in ended:
        with suppress(OSError):
            one.exchange.put(STOP, b"")
    for group in by_launcher(ended):
        with suppress(BenchError):
            group[0].launcher.cancel([one.name for one in group])
    follow(bench, ended, lambda _kind, _payload: None, cancelled=True)
    return Result(notes=[f"{count(len(ended), 'job')} ended"], changed=True)
