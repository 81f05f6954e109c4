"""What a command says of jobs that fail, by a launcher that does nothing unless it is told."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import pytest
from specs import concluded
from specs import run_spec as spec

from harness import Bench, RunError
from harness.application import Progress
from harness.cli.app import run
from harness.results.environment import cores
from harness.runs.failure import DiskError, writing
from harness.runs.job import Job
from harness.runs.local import LaunchSummary
from harness.system import errors
from harness.system.memory import peak_memory
from plugins.clusters import FolderExchange, JobState, Launcher, agent, launching, submitted
from plugins.clusters import ray as ray_launcher
from plugins.clusters.launcher import LOG, OUTPUT, PARCEL
from plugins.clusters.slurm import Slurm, _limit_minutes
from plugins.inspection.ls import ls
from plugins.inspection.show import show
from plugins.inspection.status import status
from plugins.upkeep import garbage


@dataclass(frozen=True, kw_only=True)
class Told(Launcher):
    """What its jobs do is said by a test."""

    jobs: int = 4
    known: ClassVar[dict[str, JobState]] = {}
    full: ClassVar[list[str]] = []

    def submit(self, folders):
        if self.full:
            raise RunError(self.full[0])
        names = [str(len(self.known) + i) for i in range(len(folders))]
        self.known.update(dict.fromkeys(names, JobState("running", "n1")))
        return names

    def states(self, names):
        return {name: self.known[name] for name in names if name in self.known}

    def cancel(self, names):
        self.known.update(dict.fromkeys(names, JobState("ended", why="CANCELLED", cancelled=True)))


@pytest.fixture
def ledger(ledger, monkeypatch):
    """A results folder whose jobs are of `Told`."""
    for module in (launching, submitted):
        monkeypatch.setattr(module, "is_ours", lambda *_: True)
    monkeypatch.setattr(submitted, "make", lambda *_: Told())
    monkeypatch.setattr(launching, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(launching, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(Told, "known", {})
    monkeypatch.setattr(Told, "full", [])
    return ledger


def job(ledger, *seeds):
    return Job([spec(seed) for seed in seeds], ledger.root, "cpu", "cpu-0")


def submit(ledger, *jobs):
    heard = []
    given = launching.submit(Bench(ledger.root), "told", Told(), jobs, lambda _, payload: heard.append(payload))
    return given, [payload["message"] for payload in heard if "message" in payload]


def says(job, *messages, agent="a", **more):
    """The last log of a job's agent."""
    log = {
        "agent": agent,
        "host": "n1",
        "ended": False,
        "stopped": False,
        "time": 0.0,
        "progress": {},
        "messages": messages,
    }
    job.exchange.put(LOG, json.dumps(log | more).encode())


def follow(ledger, jobs):
    heard = []
    outcome = launching.follow(
        Bench(ledger.root), jobs, lambda kind, payload: heard.append((kind, payload.get("message")))
    )
    return outcome, heard


def test_a_job_whose_program_does_not_start_says_the_end_of_its_output_and_keeps_it(ledger):
    (one,), _ = submit(ledger, job(ledger, 0))
    one.exchange.put(OUTPUT, b"".join(b"line %d\n" % i for i in range(20)) + b"ModuleNotFoundError: no 'harness'\n")
    Told.known[one.name] = JobState("ended", "n2", "FAILED")
    (row,) = status(Bench(ledger.root)).records[-1:]
    assert (row["status"], row["host"], row["ended"]) == ("failed", "n2", 0)
    assert row["why"] == "FAILED; ModuleNotFoundError: no 'harness'"
    outcome, heard = follow(ledger, [one])
    assert outcome.exit_code == 1
    (text,) = [message for kind, message in heard if kind == "failed"]
    (kept,) = (ledger.root / "jobs").iterdir()
    head, *lines = text.splitlines()
    assert head == "told job 0 on n2 is over (FAILED); 0 of its 1 runs ended; repeat the command to resume"
    assert lines[0] == f"the end of its output, {kept}:"
    assert [line.strip() for line in lines[1:]] == [
        *(f"line {i}" for i in range(16, 20)),
        "ModuleNotFoundError: no 'harness'",
    ]
    assert kept.read_text().startswith("line 0\n")
    items = garbage.find(ledger)
    assert [(item.path, item.why) for item in items] == [(kept, "the output of a job that failed")]
    ledger.locks.mkdir(exist_ok=True)
    garbage.remove(ledger, items)
    assert not kept.exists()


@pytest.mark.parametrize(
    ("message", "complete"),
    [
        (("died", {"message": "a worker exited unexpectedly"}), False),
        (("failed", {"message": "no data"}), False),
        (("finished", {"key": "k", "status": "error"}), False),
        (("finished", {"key": "k", "status": "diverged"}), True),
        (("finished", {"key": "k", "status": "done"}), True),
    ],
)
def test_the_state_of_a_job_is_that_of_its_runs(message, complete, ledger, tmp_path, monkeypatch):
    exchange = FolderExchange(tmp_path / "x")
    exchange.put(PARCEL, agent.make_parcel([job(ledger, 0)], Told(), Bench(ledger.root)))

    def launch(_jobs, _places, hear):
        hear(*message)
        return LaunchSummary()

    monkeypatch.setattr(agent.local, "launch", launch)
    monkeypatch.setattr(agent.Messages, "_send", lambda _: None)
    assert agent.run_agent(exchange, "5") == complete
    assert errors.NODE not in os.environ


def test_status_calls_a_job_failed_whose_agent_ended_without_all_results(ledger):
    (one,), _ = submit(ledger, job(ledger, 0))
    Told.known[one.name] = JobState("ended", "n1", "COMPLETED")
    says(one, ["died", {"message": "a worker exited unexpectedly (exit code -9)"}], ended=True)
    (row,) = status(Bench(ledger.root)).records[-1:]
    assert row["status"] == "failed"
    assert "exit code -9" in row["why"]
    says(one, ["finished", {"key": spec(0).key, "status": "done"}], ended=True)
    assert status(Bench(ledger.root)).records[-1]["status"] == "ended"


def test_status_of_jobs_alone_does_not_speak_of_no_runs(ledger):
    submit(ledger, job(ledger, 0))
    assert not [part for part in status(Bench(ledger.root)).tables if isinstance(part, str)]


def test_an_agent_that_was_killed_is_started_again_a_stated_number_of_times(ledger):
    (one,), _ = submit(ledger, job(ledger, 0))
    says(one)

    for name in ("0", "1", "2"):
        Told.known[name] = JobState("ended", "n1", "FAILED")
    names = iter(("1", "2"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Told, "restart", lambda *_: next(names))
        outcome, heard = follow(ledger, [one])
    assert outcome.exit_code == 1
    assert [message for _, message in heard] == [
        "told job 0 on n1 is over (FAILED); it was started again (1 of at most 2 times), as told job 1",
        "told job 1 on n1 is over (FAILED); it was started again (2 of at most 2 times), as told job 2",
        "told job 2 on n1 is over (FAILED); 0 of its 1 runs ended; repeat the command to resume",
    ]


@pytest.mark.parametrize(
    ("state", "log"),
    [
        (JobState("ended", "n1", "CANCELLED", cancelled=True), {}),
        (JobState("ended", "n1", "COMPLETED"), {"stopped": True}),
        (JobState("ended", "n1", "FAILED"), None),
    ],
    ids=["cancelled", "stopped", "never begun"],
)
def test_a_job_that_somebody_ended_or_that_never_began_is_not_started_again(state, log, ledger):
    (one,), _ = submit(ledger, job(ledger, 0))
    if log is not None:
        says(one, **log)
    Told.known[one.name] = state
    outcome, _ = follow(ledger, [one])
    assert (outcome.exit_code, [*Told.known]) == (1, ["0"])


def test_an_engine_that_takes_no_job_now_leaves_a_killed_one_to_the_next_command(ledger):
    (one,), _ = submit(ledger, job(ledger, 0))
    says(one)
    Told.known[one.name] = JobState("ended", "n1", "FAILED")
    Told.full.append("no partition")
    assert follow(ledger, [one])[0].exit_code == 1


def test_what_is_missing_is_submitted_before_the_command_waits(ledger):
    """Of four jobs one runs, one was killed, one ended without its run, and one gave its run."""
    (alive, killed, lost, done), _ = submit(ledger, *(job(ledger, seed) for seed in range(4)))
    seed = {spec(i).key: i for i in range(4)}
    says(killed)
    Told.known[killed.name] = JobState("ended", "n2", "OUT_OF_MEMORY")
    says(lost, ["failed", {"message": "cannot write results", "exit_code": 4, "held": False}], ended=True)
    concluded(ledger, seed[done.keys[0]])
    says(done, ["finished", {"key": done.keys[0], "status": "done"}], ended=True)
    given, heard = submit(ledger, *(job(ledger, i) for i in range(4)))
    assert given[0].name == alive.name
    assert sorted(key for one in given[1:] for key in one.keys) == sorted(killed.keys + lost.keys)
    assert any("(OUT_OF_MEMORY)" in text and text.startswith("before this command: ") for text in heard)
    assert any(f"told job {lost.name} on n1: cannot write results" in text for text in heard)


def test_a_job_that_waits_for_a_reason_of_its_own_says_it_once(ledger):
    (one,), _ = submit(ledger, job(ledger, 0))
    states = iter([JobState("queued", why="PartitionTimeLimit", held=True)] * 3 + [JobState("ended", why="FAILED")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Told, "states", lambda _self, names: {names[0]: next(states)})
        _, heard = follow(ledger, [one])
    assert [text for kind, text in heard if kind == "stopping"] == ["told job 0 is not started: PartitionTimeLimit"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("failed", "message"), ("held", "message"), ("died", "message"), ("device lost", "message"), ("warning", "text"),
     ("finished", "reason")],
)  # fmt: skip
def test_every_message_about_a_problem_names_the_node(kind, name, ledger):
    (one,), _ = submit(ledger, job(ledger, 0))
    says(one, [kind, {name: "no luck", "key": spec(0).key, "status": "error", "exit_code": 1}])
    heard = []
    one.listen(lambda _, payload: heard.append(payload))
    assert heard[0][name] == "told job 0 on n1: no luck"


def full(number):
    with pytest.raises(DiskError) as caught, writing():
        raise OSError(number, os.strerror(number))
    return str(caught.value)


@pytest.mark.parametrize("number", [28, 122, 2, 116, 13, 1, 5])
def test_no_remedy_on_a_node_is_for_the_machine_of_the_command(number, monkeypatch):
    monkeypatch.delenv(errors.NODE, raising=False)
    assert "--results DIR" in full(number)
    monkeypatch.setenv(errors.NODE, "n1:/scratch/tmp")
    assert "set TMPDIR on n1 to another folder than /scratch/tmp" in full(number)
    assert "--results" not in full(number)


def test_a_killed_process_is_said_to_have_run_out_of_memory_with_its_peak():
    assert errors.exit_text(7) == "exit code 7"
    assert errors.exit_text(-signal.SIGKILL, 3 * 2**29).endswith("memory runs out, and it had up to 1.50 GiB")
    assert errors.exit_text(-signal.SIGKILL).endswith("memory runs out")
    assert peak_memory(os.getpid()) > 2**20
    assert peak_memory(0) == 0


def test_the_actor_of_a_job_starts_a_killed_agent_again_a_stated_number_of_times():
    codes = iter([-9, -9, -9, 0])
    actor = ray_launcher._Job.__new__(ray_launcher._Job)
    actor.restarts, actor.stopping, actor.over = 2, False, ""
    actor._agent = lambda: next(codes)
    actor._work()
    assert actor.over.startswith("exit code -9: it was killed")
    assert actor.over.endswith("; it was started again 2 times")
    actor._work()
    assert actor.over == "exit code 0"


def test_settings_of_a_command_reach_its_agents_and_paths_do_not(monkeypatch):
    for name in agent.SENT:
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("BENCH_DATA", "/here")
    sent = agent.sent_variables()
    assert {name: sent[name] for name in agent.SENT} == dict.fromkeys(agent.SENT, "7")
    assert "BENCH_DATA" not in sent


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("infinite", float("inf")), ("1-02:30:00", 1590), ("2:00:00", 120), ("30:00", 30), ("n/a", float("inf"))],
)
def test_limits_of_partitions_are_read(text, minutes):
    assert _limit_minutes(text) == minutes


def test_limits_that_jobs_do_not_fit_are_warned_of(tmp_path, monkeypatch):
    sinfo = tmp_path / "sinfo"
    sinfo.write_text("#!/bin/sh\nprintf 'main*|1:00:00\\nlong|7-00:00:00\\n'\n")
    sinfo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert Slurm(time="1h").warnings() == []
    assert "limit of partition main, 1:00:00" in Slurm(time="2h").warnings()[0]
    assert Slurm(time="2h", partition="long").warnings() == []
    assert "give 5m or more" in Slurm(time="4m").warnings()[0]


def test_workers_are_those_of_the_task_of_slurm(monkeypatch):
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    here = cores()
    for text, expected in (("1", 1), (str(here + 9), here), ("0", here), ("many", here)):
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", text)
        assert cores() == expected


def test_sigterm_ends_a_command_that_waits_as_ctrl_c_does(ledger):
    def waits(*_):
        os.kill(os.getpid(), signal.SIGTERM)

    before, said = signal.getsignal(signal.SIGTERM), []
    command = launching.CommandLauncher(Bench(ledger.root, say=said.append), "told", Told())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launching, "follow", waits)
        with pytest.raises(KeyboardInterrupt):
            command.launch([job(ledger, 0)], Progress(command.bench, []))
    assert said[-1].startswith("the same command waits for the jobs")
    assert signal.getsignal(signal.SIGTERM) == before


def test_ray_leaves_sigterm_to_the_command(monkeypatch):
    ray = ModuleType("ray")
    ray.is_initialized = lambda: False
    ray.shutdown = lambda: None
    ray.init = lambda **_: signal.signal(signal.SIGTERM, signal.SIG_IGN)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(ray_launcher, "_check_reachable", lambda _: None)
    monkeypatch.setattr(ray_launcher, "_joined", None)
    for name in ray_launcher.SILENT | ray_launcher.FEW_TRIES:
        monkeypatch.setenv(name, "")
    before = signal.getsignal(signal.SIGTERM)
    assert ray_launcher.Ray().connected() is ray
    assert signal.getsignal(signal.SIGTERM) == before


def test_every_launcher_lists_its_settings_with_defaults_and_meaning(tmp_path):
    bench = Bench(tmp_path)
    rows = ls(bench, "launchers").records
    assert {row["name"] for row in rows} >= {"local", "ray", "slurm"}
    for row in rows:
        shown = show(bench, ["launcher", row["name"]]).records[0]["settings"]
        assert [one["setting"] for one in row["settings"]] == [one["name"] for one in shown]
        assert {"jobs", "workers", "gpus", "restarts"} <= {one["name"] for one in shown}
        assert all(one["meaning"] for one in shown)


def test_the_help_of_run_names_the_options_of_launchers(capsys):
    run(["run", "--help"])
    said = capsys.readouterr().out
    assert "--launcher NAME" in said
    assert "--detach" in said


def test_a_search_without_its_data_ends_before_the_first_trial(tmp_path, monkeypatch, capsys):
    pytest.importorskip("optuna")
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    words = ["tune", "--sampler", "sgld", "--task", "blr-heart", "--trials", "2", "--budget", "smoke"]
    assert run(["--results", str(tmp_path / "r"), *words]) == 4
    said = capsys.readouterr().err
    assert "data set heart: " in said
    assert "trial" not in said
    assert not (tmp_path / "r" / "runs").exists()
