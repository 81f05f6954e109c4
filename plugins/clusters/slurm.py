"""Jobs of Slurm, in arrays, through submitit."""

from __future__ import annotations

import math
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness import RunError, UsageError, param
from plugins.clusters.agent import run_agent
from plugins.clusters.launcher import Exchange, FolderExchange, JobState, Launcher

AHEAD_SECONDS = 90
"""How long before the time limit Slurm sends a signal: agents need up to a minute for their checkpoints."""
QUESTION_SECONDS = 60
LOGS = "slurm-"
"""How the names of the folders of submitit's files begin, one for each user, beside the exchanges."""
RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT"})
QUEUED = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESIZING", "RESV_DEL_HOLD"}
)
USUAL = frozenset({"", "None", "Priority", "Resources", "BeginTime", "JobArrayTaskLimit", "Cleaning", "Prolog"})
"""Slurm's reasons for waiting that time removes."""
REMEDIES = {"OUT_OF_MEMORY": ": ask for more memory, as by launcher.more=mem=32G"}
LEAST_MINUTES = 5


@dataclass(frozen=True, kw_only=True)
class Slurm(Launcher):
    """The jobs of a command are one array. A job is queued again before its time limit, or if Slurm preempts it.

    The exchange is a folder that the nodes share with the machine of the command. No file locks are needed.
    """

    folder: str = param("", "", "folder of the exchange, on a shared file system; default: in the results folder")
    partition: str = param("", "", "partition; default: the one of the cluster")
    time: str = param("24h", "", "time limit of a job, as in 30m, 4h, 2d; longer runs go on in another")
    account: str = param("", "", "account that the jobs are charged to")
    more: str = param("", "", "other options of sbatch, as in mem=16G,qos=long")

    def exchange(self, folder: Path) -> Exchange:
        """Return the exchange in the folder that the user named, or else in the results folder."""
        return FolderExchange(self._folder(folder))

    def _folder(self, folder: Path) -> Path:
        return Path(self.folder).expanduser() / folder.name if self.folder else folder

    def warnings(self) -> list[str]:
        """Return what is wrong with the time limit: too short for an agent, or longer than the partition's."""
        asked, texts = f"launcher.time = {self.time!r}", []
        if self._minutes() < LEAST_MINUTES:
            ahead = f"Slurm's signal comes {AHEAD_SECONDS} s before the limit, and an agent needs some seconds to start"
            texts.append(f"{asked} leaves little time for runs: {ahead}; give {LEAST_MINUTES}m or more")
        with suppress(RunError):
            for line in _ask(["sinfo", "--noheader", "--format=%P|%l"]):
                partition, _, limit = line.strip().partition("|")
                chosen = partition.rstrip("*") in self.partition.split(",") if self.partition else "*" in partition
                if chosen and self._minutes() > _limit_minutes(limit):
                    texts.append(
                        f"{asked} is longer than the limit of partition {partition.rstrip('*')}, {limit}: Slurm may "
                        "refuse the jobs or never start them"
                    )
        return texts

    def submit(self, folders: Sequence[Path]) -> list[str]:
        """Submit one array, and return the names of its jobs; raise `RunError` if Slurm does not take it."""
        try:
            import submitit
        except ImportError as error:
            raise UsageError('--launcher slurm needs submitit; run pip install "sgmcmc-bench[slurm]"') from error

        paths = [self._folder(folder) for folder in folders]
        pairs = [pair.partition("=")[::2] for pair in self.more.split(",") if pair]
        more = {name: value or True for name, value in pairs}
        given = {"partition": self.partition, "account": self.account}
        try:
            python = f"{shlex.quote(sys.executable)} -P"  # do not import modules from the current folder
            executor = submitit.SlurmExecutor(folder=paths[0].parent / f"{LOGS}{_user()}", python=python)
            executor.update_parameters(
                job_name="sgmcmc-bench",
                time=self._minutes(),
                cpus_per_task=self.workers,
                array_parallelism=len(paths),
                signal_delay_s=AHEAD_SECONDS,
                **{name: value for name, value in given.items() if value},
                **({"gpus_per_node": self.gpus} if self.gpus else {}),
                additional_parameters={"requeue": True, "open_mode": "append", **more},
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a warning that there is no accounting
                return [str(job.job_id) for job in executor.map_array(_agent, [str(path) for path in paths])]
        except (OSError, RuntimeError, subprocess.CalledProcessError, submitit.core.utils.FailedJobError) as error:
            raise RunError(f"Slurm does not take the jobs: {_message_of(error)}") from error

    def states(self, names: Sequence[str]) -> Mapping[str, JobState]:
        """Return the states that `squeue` reports; it lists ended jobs for some minutes, and those of other users."""
        arrays = ",".join(sorted({name.partition("_")[0] for name in names}))
        try:
            lines = _ask(
                ["squeue", "--noheader", "--array", "--states=all", f"--jobs={arrays}", "--format=%i|%T|%r|%N"]
            )
        except RunError as error:
            if "Invalid job id" not in str(error):  # the message of squeue when it knows none of them any more
                raise
            lines = []
        job_states = {}
        for line in lines:
            name, state, reason, node = line.split("|", 3)
            status = "running" if state in RUNNING else "queued" if state in QUEUED else "ended"
            why = {"ended": f"{state}{REMEDIES.get(state, '')}", "queued": reason}.get(status, "")
            held = status == "queued" and reason not in USUAL
            job_states[name] = JobState(status, node, why, state == "CANCELLED", held)  # type: ignore[arg-type]
        return {name: job_states[name] for name in names if name in job_states}

    def cancel(self, names: Sequence[str]) -> None:
        """Call `scancel`, which sends SIGTERM, and SIGKILL some time later."""
        if names:
            _ask(["scancel", *names])

    def output(self, folder: Path, name: str) -> str:
        """Return what submitit has in its files for the job: stdout, then stderr."""
        files = sorted(self._folder(folder).parent.glob(f"{LOGS}*/{name}_*_log.*"), reverse=True)
        return "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)

    def forget(self, folder: Path, name: str) -> None:
        """Also delete the files of submitit for the job, and with the last exchange all of them."""
        super().forget(folder, name)
        parent = self._folder(folder).parent
        with suppress(OSError):
            for path in parent.glob(f"{LOGS}*/{name}_*") if name else ():
                path.unlink()
            if not any(path.is_dir() and not path.name.startswith(LOGS) for path in parent.iterdir()):
                for left in parent.glob(f"{LOGS}*"):  # also of another user whose command was killed, where that may be
                    shutil.rmtree(left, ignore_errors=True)

    def __post_init__(self) -> None:
        """Check the settings, including the time limit."""
        super().__post_init__()
        self._minutes()
        if self.folder and not Path(self.folder).expanduser().is_absolute():
            raise UsageError(f"launcher.folder = {self.folder!r} is not an absolute path")

    def _minutes(self) -> int:
        match = re.fullmatch(r"(\d{1,5})([mhd])", self.time)
        if not match or not int(match[1]):
            raise UsageError(f"launcher.time = {self.time!r} is not a time, as in 30m, 4h or 2d")
        return int(match[1]) * {"m": 1, "h": 60, "d": 1440}[match[2]]


def _agent(folder: str) -> None:
    """Run the agent of a job, and queue the job again if its time limit ended it."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    name = f"{array}_{task}" if array else os.environ["SLURM_JOB_ID"]
    limit = []

    def await_limit() -> None:
        signal.sigwait({signal.SIGUSR2})
        limit.append(True)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # submitit ignores it
    # Slurm sends its signal to all processes of the job: they inherit that it is blocked, and are not ended by it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    threading.Thread(target=await_limit, daemon=True).start()
    complete = run_agent(FolderExchange(Path(folder)), name)
    if limit and not complete:
        _ask(["scontrol", "requeue", name])
    elif not complete:
        sys.exit(1)  # the state of the job is then FAILED


def _limit_minutes(text: str) -> float:
    """Return a time limit as sinfo prints it, D-HH:MM:SS, HH:MM:SS, MM:SS or infinite, in minutes."""
    days, _, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in (*parts, days or "0")):
        return math.inf
    seconds = sum(int(part) * 60**power for power, part in enumerate(reversed(parts)))
    return int(days or 0) * 1440 + seconds / 60


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _ask(words: list[str]) -> list[str]:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=QUESTION_SECONDS)
    except FileNotFoundError as error:
        raise RunError(f"{words[0]} is not on the PATH: this machine submits no jobs to Slurm") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise RunError(f"Slurm does not answer: {_message_of(error)}") from error
    return done.stdout.splitlines()


def _message_of(error: BaseException) -> str:
    output = getattr(error, "stderr", None)
    return (output.decode() if isinstance(output, bytes) else output or str(error)).strip()[-500:]
