"""Jobs that a launcher submits: by processes of this machine, and by a launcher that does nothing unless it is told."""

from __future__ import annotations

import json
import os
import pwd
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from specs import concluded
from specs import run_spec as spec

from harness import Bench, RunError
from harness.cli.app import run
from harness.results.ledger.ledger import Ledger
from harness.runs.job import Job
from harness.system.locks import lock_file
from plugins.clusters import FolderExchange, JobState, Launcher, launching, parcel, submitted
from plugins.clusters import ray as ray_launcher
from plugins.clusters.launcher import LOG, PARCEL, is_ours
from plugins.clusters.slurm import Slurm
from plugins.clusters.submitted import Submitted

WORDS = ["run", "--sampler", "sgld,sghmc", "--task", "mixture5", "--seeds", "0-1", "--chains", "2", "--budget"]
PLAIN = ["--set", "run.compile=plain"]
LOCALLY = ["--launcher", "local", "--set", "launcher.workers=2"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(launching, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(launching, "ASK_SECONDS", 0.3)
    for module in (launching, submitted):
        monkeypatch.setattr(module, "is_ours", lambda bench, name: name == "told" or is_ours(bench, name))
    for name, empty in (("known", {}), ("asked", []), ("refusal", [])):
        monkeypatch.setattr(Told, name, empty)


def bench(folder, *words):
    return run(["--results", str(folder), *words])


def contents(folder):
    """What runs gave, by run and file; the records have times in them."""
    return {(path.parent.parent.name, path.name): path.read_bytes() for path in folder.glob("runs/*/*/*/*.safetensors")}


@pytest.mark.slow
def test_jobs_give_the_same_numbers_as_a_command_of_its_own_whatever_ends_them(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("BENCH_CHECKPOINT_SECONDS", "0.3")
    words = [*WORDS, "steps=60000", *PLAIN]
    assert bench(tmp_path / "own", *words) == 0
    folder = tmp_path / "jobs"
    job = detached(folder, words, capsys)
    assert (job["launcher"], job["status"], job["runs"]) == ("local", "running", 4)
    assert bench(folder, "cancel") == 0
    assert not list((folder / "jobs").iterdir())
    ledger = Ledger(folder)
    stopped = [ledger.standing(key) for key in ledger.all_keys()]
    assert {standing.status for standing in stopped} <= {"preempted", "orphaned"}
    assert any(standing.attempt.last_step() for standing in stopped)
    killed = detached(folder, words, capsys)
    os.kill(int(killed["job"].partition("-")[0]), signal.SIGKILL)
    assert bench(folder, *words, *LOCALLY) == 0
    assert "before this command: local job" in capsys.readouterr().err
    assert contents(folder) == contents(tmp_path / "own")
    assert {ledger.standing(key).status for key in ledger.all_keys()} == {"done"}
    assert all(len(ledger.attempts(key)) == 1 for key in ledger.all_keys())
    events = [event for key in ledger.all_keys() for event in ledger.standing(key).attempt.events()]
    assert any(event["event"] == "resumed" and event["job"] for event in events)
    assert not list((folder / "jobs").iterdir())


def detached(folder, words, capsys):
    """Submit a job; its row of `bench status`, once it has sent a checkpoint."""
    assert bench(folder, *words, *LOCALLY, "--detach") == 0
    wait_for(lambda: any(folder.glob("jobs/*/attempt-*.tar")))
    (job,) = rows(folder, capsys)
    return job


def rows(folder, capsys):
    capsys.readouterr()
    assert bench(folder, "status", "--json") == 0
    return [row for row in json.loads(capsys.readouterr().out) if row["job"]]


def wait_for(what):
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@dataclass(frozen=True, kw_only=True)
class Told(Launcher):
    """What its jobs do is said by a test."""

    jobs: int = 2
    known: ClassVar[dict[str, JobState]] = {}
    asked: ClassVar[list[list[str]]] = []
    refusal: ClassVar[list[str]] = []

    def submit(self, folders):
        if self.refusal:
            raise RunError(self.refusal[0])
        names = [f"{len(self.known) + i}" for i in range(len(folders))]
        self.known.update(dict.fromkeys(names, JobState("queued", why="Priority")))
        return names

    def states(self, names):
        self.asked.append(list(names))
        return {name: self.known[name] for name in names if name in self.known}

    def cancel(self, names):
        self.known.update(dict.fromkeys(names, JobState("ended", why="CANCELLED")))


def job(ledger, *seeds):
    return Job([spec(seed) for seed in seeds], ledger.root, "cpu", "cpu-0")


@pytest.fixture
def ledger(ledger, monkeypatch):
    """A results folder whose records are of jobs of `Told`."""
    monkeypatch.setattr(submitted, "make", lambda *_: Told())
    return ledger


def submit(ledger, launcher, *jobs):
    return launching.submit(Bench(ledger.root), "told", launcher, jobs)


def says(job, *messages, agent="a", **more):
    """The log of a job whose agent has sent these messages, and has ended unless it says otherwise."""
    log = {"agent": agent, "ended": True, "progress": {}, "messages": messages}
    job.exchange.put(LOG, json.dumps(log | more).encode())


def elsewhere(folder):
    """A finished attempt at run 0 in another results folder."""
    there = Ledger(folder)
    there.prepare()
    return concluded(there)


def sends(job, attempt):
    """The exchange of a job receives an attempt at run 0."""
    content = parcel.pack(parcel.attempt_files(attempt))
    job.exchange.put(parcel.attempt_name(spec(0).key, attempt), content)


def submitted_from(ledger):
    return submitted.submitted(Bench(ledger.root))


def test_nothing_is_submitted_twice_and_runs_are_shared_out(ledger):
    launcher = Told()
    first = submit(ledger, launcher, job(ledger, 0, 1), job(ledger, 2), job(ledger, 3))
    assert sorted(len(each.keys) for each in first) == [2, 2]
    again = submit(ledger, launcher, job(ledger, 0, 1), job(ledger, 3, 4))
    assert [each.name for each in again] == ["0", "1", "2"]
    assert again[-1].keys == [spec(4).key]


def test_a_refusal_leaves_nothing(ledger):
    Told.refusal.append("no partition")
    with pytest.raises(RunError, match="no partition"):
        submit(ledger, Told(), job(ledger, 0))
    assert not list((ledger.root / "jobs").iterdir())


@pytest.mark.parametrize("where", ["put", "write_json"])
def test_a_submission_that_a_full_disk_or_ctrl_c_ends_leaves_nothing(where, ledger, monkeypatch):
    calls = []

    def fails_at_the_second(*arguments, before=FolderExchange.put if where == "put" else launching.write_json):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        before(*arguments)

    monkeypatch.setattr(FolderExchange if where == "put" else launching, where, fails_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        submit(ledger, Told(), job(ledger, 0), job(ledger, 1))
    assert not list((ledger.root / "jobs").iterdir())


def test_an_exchange_that_cannot_be_written_is_a_refusal(ledger, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FolderExchange, "put", full)
    with pytest.raises(RunError, match=r"exchange of a job cannot be written: .*No space left"):
        submit(ledger, Told(), job(ledger, 0))
    assert not list((ledger.root / "jobs").iterdir())


def test_a_job_whose_submission_was_cut_off_is_taken_up_only_if_it_runs(ledger):
    launcher = Told()
    submit(ledger, launcher, job(ledger, 0), job(ledger, 1))
    started, waiting = sorted((ledger.root / "jobs").glob("*.json"))
    for path in (started, waiting):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"name": ""}))
    started.with_suffix("").joinpath(LOG).write_text(json.dumps({"job": "77"}))
    assert submitted_from(ledger) == []
    submitted = submit(ledger, launcher, job(ledger, 0, 1))
    assert sorted(each.name for each in submitted) == ["2", "77"]
    assert not waiting.with_suffix("").joinpath(PARCEL).exists()


def test_an_exchange_that_cannot_be_read_is_a_refusal(ledger, monkeypatch):
    launcher = Told()
    submit(ledger, launcher, job(ledger, 0))
    (path,) = (ledger.root / "jobs").glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"name": ""}))
    monkeypatch.setattr(FolderExchange, "get", lambda *_: Path("/nowhere/at/all").read_bytes())
    with pytest.raises(RunError, match="the exchange of a job cannot be read"):
        submit(ledger, launcher, job(ledger, 0))


def test_two_commands_that_submit_the_same_runs_have_one_result(ledger, tmp_path, monkeypatch):
    """As where their locks do not reach each other: both jobs end, the first result counts, and the second is told."""
    launcher = Told()
    submit(ledger, launcher, job(ledger, 0))
    with monkeypatch.context() as unseen:
        unseen.setattr(launching, "submitted", lambda *_, **__: [])
        submit(ledger, launcher, job(ledger, 0))
    jobs = submitted_from(ledger)
    assert len(jobs) == 2
    for number, each in enumerate(jobs):
        sends(each, elsewhere(tmp_path / str(number)))
        says(each, ["finished", {"key": spec(0).key, "status": "done"}], agent=f"{number}")
    told = []
    bench = Bench(ledger.root)
    outcome = launching.follow(bench, jobs, lambda kind, payload: told.append((kind, payload)), {spec(0).key})
    assert outcome.statuses == {spec(0).key: "done"}
    assert outcome.exit_code == 0
    assert len([a for a in ledger.attempts(spec(0).key) if a.result()]) == 1
    assert len(list(ledger.conflicts.iterdir())) == 1
    assert any(kind == "warning" and "another command finished this run" in payload["text"] for kind, payload in told)


class Late(FolderExchange):
    """An exchange to which an agent sends an attempt, and then its log, each time somebody has listed it."""

    def names(self):
        jobs = dict(super().names())
        for name, content in self.__dict__.pop("coming", {}).items():
            self.put(name, content)
        return jobs

    def sends(self, seed, text):
        attempt = f"attempt-{spec(seed).key}-20260102T000000001-abcdef.tar"
        self.__dict__["coming"] = {attempt: text, LOG: json.dumps({"ended": True, "attempt": text.decode()}).encode()}


def test_a_log_never_arrives_before_the_attempts_that_it_speaks_of(tmp_path):
    """Ray's actor carries files while the agent writes them."""
    here, box = Late(tmp_path / "here"), FolderExchange(tmp_path / "box")
    for exchange in (here, box):
        exchange.folder.mkdir()
        exchange.put(PARCEL, b"")
    carrier, seen = ray_launcher._Job.__new__(ray_launcher._Job), {}
    for text in (b"checkpoint", b"finished"):
        here.put(LOG, b"before " + text)
        here.sends(0, text)
        for _ in range(3):
            carrier._carry(here, box, seen)
            sent = {name: box.get(name) for name in box.names()}
            if b'"finished"' in sent.get(LOG, b""):
                assert b"finished" in sent.values()
    assert b"finished" in sent.values()


def test_attempts_that_arrive_with_the_log_are_taken_in_before_it_is_heard(ledger, tmp_path, monkeypatch):
    exchange = Late(tmp_path)
    exchange.put(LOG, json.dumps({"agent": "0", "messages": [], "progress": {}}).encode())
    taken, heard = [], []
    monkeypatch.setattr(Submitted, "_take", lambda *given: taken.append(given[2]) or True)
    record = {"keys": [spec(0).key], "launcher": "told", "name": "0"}
    one = Submitted(Bench(ledger.root), tmp_path, record, Told(), exchange)
    exchange.sends(0, b"finished")
    log = {"agent": "0", "ended": True, "messages": [["finished", {"key": spec(0).key}]], "progress": {}}
    exchange.__dict__["coming"][LOG] = json.dumps(log).encode()
    one.listen(lambda *_: heard.append([*taken]))
    assert heard == [[b"finished"]]


def follow(ledger, jobs):
    heard = []
    bench = Bench(ledger.root)
    outcome = launching.follow(bench, jobs, lambda kind, payload: heard.append((kind, payload.get("message"))))
    return outcome, heard


def test_a_job_that_is_over_without_a_word_fails_its_runs_and_no_other(ledger):
    launcher = Told()
    first, second = submit(ledger, launcher, job(ledger, 0), job(ledger, 1))
    launcher.known[first.name] = JobState("ended", "n2", "NODE_FAIL")
    says(second, ["finished", {"key": spec(1).key, "status": "done"}])
    outcome, heard = follow(ledger, [first, second])
    assert outcome.statuses == {spec(1).key: "done"}
    assert outcome.exit_code == 1
    assert [message for kind, message in heard if kind == "failed"] == [
        f"told job {first.name} on n2 is over (NODE_FAIL); 0 of its 1 runs ended; repeat the command to resume"
    ]
    assert not list((ledger.root / "jobs").iterdir())


def test_of_two_commands_that_wait_for_a_job_each_learns_what_became_of_its_runs(ledger):
    launcher = Told()
    (waiting,) = submit(ledger, launcher, job(ledger, 0, 1))
    concluded(ledger, 0)
    waiting.forget()
    outcome, heard = follow(ledger, [waiting])
    assert outcome.statuses == {spec(0).key: "done"}
    assert [message for kind, message in heard if kind == "failed"] == [
        "told job 0 is over (another command ended it); 1 of its 2 runs ended; repeat the command to resume"
    ]
    concluded(ledger, 1)
    (waiting,) = submitted_from(ledger) or [waiting]
    assert follow(ledger, [waiting])[0].exit_code == 0


@pytest.mark.parametrize(("draws", "exit_code"), [("some", 0), ("all", 1)])
def test_a_run_that_lacks_the_draws_that_a_command_wants_is_not_finished(draws, exit_code, ledger):
    launcher = Told()
    (lost,) = submit(ledger, launcher, job(ledger, 0))
    concluded(ledger, draws_kept=10, draws_stored=5)
    launcher.known[lost.name] = JobState("ended", "n2", "NODE_FAIL")
    assert launching.follow(Bench(ledger.root), [lost], lambda *_: None, {spec(0).key}, draws).exit_code == exit_code


def test_a_command_hears_of_its_own_runs_only(ledger):
    launcher = Told()
    (shared,) = submit(ledger, launcher, job(ledger, 0, 1))
    says(shared, *(["finished", {"key": spec(i).key, "status": "done", "block": spec(0).key}] for i in (0, 1)))
    heard = []
    launching.follow(Bench(ledger.root), [shared], lambda _kind, payload: heard.append(payload["key"]), {spec(1).key})
    assert heard == [spec(1).key]


def test_runs_that_a_job_broke_off_are_not_counted_as_ended(ledger):
    (one,) = submit(ledger, Told(), job(ledger, 0))
    says(one, ["suspended", {"key": spec(0).key, "status": "preempted"}], ended=False, stopped=True)
    heard = []
    launching.follow(
        Bench(ledger.root), [one], lambda _kind, payload: heard.append(payload.get("message")), cancelled=True
    )
    assert Told.asked == [["0"]]  # the agent's word is enough
    assert heard[-1].startswith("told job 0 is over (it was cancelled); 0 of its 1 runs ended")


SQUEUE = """#!/bin/sh
echo "$@" >> "$0.asked"
case "$*" in
*--jobs=7*) printf '7_0|RUNNING|None|n1\\n7_1|PENDING|Priority|\\n7_2|NODE_FAIL|None|n2\\n' ;;
*--jobs=8*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;;
*) echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1 ;;
esac
"""


def test_slurm_is_asked_once_for_arrays_of_any_user(tmp_path, monkeypatch):
    squeue = tmp_path / "squeue"
    squeue.write_text(SQUEUE)
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    states = Slurm().states(["7_0", "7_1", "7_2", "7_9"])
    assert states == {
        "7_0": JobState("running", "n1"), "7_1": JobState("queued", "", "Priority"),
        "7_2": JobState("ended", "n2", "NODE_FAIL"),
    }  # fmt: skip
    asked = (tmp_path / "squeue.asked").read_text().splitlines()
    assert len(asked) == 1
    assert "--user" not in asked[0]
    assert Slurm().states(["8_0"]) == {}
    with pytest.raises(RunError, match=r"does not answer: .*Unable to contact"):
        Slurm().states(["9_0"])


def test_submitits_files_go_with_the_jobs(tmp_path):
    """With the last exchange also those of another user, whose command was killed."""
    (tmp_path / "slurm-another").mkdir()
    (tmp_path / "slurm-another" / ".submission_file_1.sh").write_text("")
    slurm, logs = Slurm(), tmp_path / f"slurm-{pwd.getpwuid(os.getuid()).pw_name}"
    folders = [tmp_path / name for name in "ab"]
    for path in (*folders, logs):
        path.mkdir()
    for name in ("7_0_submitted.pkl", "7_0_0_log.out", "7_1_submitted.pkl", "7_submission.sh"):
        (logs / name).write_text("")
    slurm.forget(folders[0], "7_0")
    assert sorted(path.name for path in logs.iterdir()) == ["7_1_submitted.pkl", "7_submission.sh"]
    assert (tmp_path / "slurm-another").is_dir()
    slurm.forget(folders[1], "")
    assert not list(tmp_path.iterdir())


def test_a_job_that_the_engine_forgets_is_given_up_after_some_questions(ledger):
    launcher = Told()
    (lost,) = submit(ledger, launcher, job(ledger, 0))
    launcher.known.clear()
    outcome, _ = follow(ledger, [lost])
    assert len(launcher.asked) == submitted.GONE
    assert "does not know it" in outcome.failures[0][1]


def test_a_job_that_the_engine_forgets_goes_on_for_as_long_as_its_agent_writes(ledger):
    (alive,) = submit(ledger, Told(), job(ledger, 0))
    for number in range(2 * submitted.GONE):
        says(alive, *[["note", {"key": "x"}]] * number, ended=False)
        alive.listen(lambda *_: None)
        assert alive.over(None, asked=True) is None
    ends = [alive.over(None, asked=True) for _ in range(submitted.GONE - 1)]
    assert ends[:-1] == [None] * len(ends[:-1])
    assert "does not know it" in ends[-1]


def test_an_attempt_that_arrives_keeps_such_a_job_too(ledger, tmp_path):
    (alive,) = submit(ledger, Told(), job(ledger, 0))
    for _ in range(submitted.GONE - 1):
        assert alive.over(None, asked=True) is None
    sends(alive, elsewhere(tmp_path / "there"))
    alive.listen(lambda *_: None)
    assert alive.over(None, asked=True) is None


def test_an_engine_that_does_not_answer_is_waited_for(ledger, monkeypatch):
    launcher = Told()
    (waiting,) = submit(ledger, launcher, job(ledger, 0))
    answers = iter(
        [RunError("slurm is away"), RunError("slurm is away"), {waiting.name: JobState("ended", why="FAILED")}]
    )

    def states(_self, _names):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Told, "states", states)
    _, heard = follow(ledger, [waiting])
    assert [message for kind, message in heard if kind == "stopping"] == ["slurm is away; waiting"]


def test_all_jobs_are_asked_for_at_once(ledger):
    launcher = Told()
    jobs = submit(ledger, launcher, job(ledger, 0), job(ledger, 1))
    submitted.ask(jobs)
    assert launcher.asked == [["0", "1"]]


def test_an_attempt_whose_run_a_worker_has_here_waits_for_it(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(parcel, "HOLD_SECONDS", 0.0)
    key = spec(0).key
    (waiting,) = submit(ledger, Told(), job(ledger, 0))
    sends(waiting, elsewhere(tmp_path / "there"))
    says(waiting)
    with lock_file(ledger.lock(key), 0):
        assert not waiting.listen(lambda *_: None)
        other = threading.Thread(target=follow, args=(ledger, [waiting]))
        other.start()
        time.sleep(0.3)
        assert ledger.standing(key).attempt is None
    other.join()
    assert ledger.standing(key).status == "done"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--launcher", "nothing"], "unknown launcher 'nothing'"),
        (["--launcher", "slurm", "--set", "launcher.partitoin=x"], "no setting 'partitoin'; did you mean partition"),
        (["--launcher", "slurm", "--set", "launcher.gpus=many"], "is not an integer"),
        (["--launcher", "slurm", "--set", "launcher.time=soon"], "launcher.time = 'soon' is not a time"),
        (["--set", "launcher.gpus=1"], "go with --launcher"),
        (["--detach"], "go with --launcher"),
        (["--launcher", "absent.toml"], "absent.toml"),
        (["--launcher", "ray", "--set", "launcher.address=127.0.0.1:9"], "no Ray cluster at 127.0.0.1:9"),
        (["--launcher", "local", "--devices", "cuda:0"], "--set launcher.gpus=N"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_submitted(words, message, tmp_path, capsys):
    code = bench(tmp_path, *WORDS, "smoke", *words)
    said = capsys.readouterr().err
    assert code in (1, 2), said
    assert message in said
    assert not list(tmp_path.glob("jobs/*"))


def test_a_profile_is_a_file_and_the_launcher_of_the_documentation_works(tmp_path, capsys):
    page = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text(encoding="utf-8")
    (tmp_path / "anywhere.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    profile = tmp_path / "cluster.toml"
    profile.write_text('launcher = "anywhere"\njobs = 1\ncommand = "env A=1"\n')
    plugin = ["--plugin", str(tmp_path / "anywhere.py")]
    assert run([*plugin, "--results", str(tmp_path / "r"), *WORDS, "smoke", "--launcher", str(profile)]) == 0
    said = capsys.readouterr().err
    assert "1 anywhere job" in said
    assert "what anywhere brings is reported, not run here" in said
    here = Ledger(tmp_path / "r")
    brought = [attempt for key in here.all_keys() for attempt in here.attempts(key)]
    assert [attempt.copied for attempt in brought] == [True] * len(brought) != []
    assert not list((tmp_path / "r" / "jobs").iterdir())
    for text in ("workers = 2", "launcher = 3", '[launcher]\nname = "local"', "launcher = "):
        profile.write_text(text)
        assert bench(tmp_path / "s", *WORDS, "smoke", "--launcher", str(profile)) == 2


def test_the_campaign_on_clusters_needs_no_arguments(monkeypatch, capsys):
    from clusters.campaign import main

    monkeypatch.setattr("sys.argv", ["campaign", "--missing"])
    main()
    said = capsys.readouterr().out
    assert not said or said.startswith("slurm: ")
