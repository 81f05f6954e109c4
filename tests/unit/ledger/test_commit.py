"""The publication of attempts: their order, and one result for each run, whoever publishes it and when."""

import contextlib
import errno
import json
import os
import random
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from specs import run_spec as spec

from harness.results.ledger import attempt as attempts
from harness.results.ledger import commit
from harness.results.ledger import ledger as ledgers
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude, publish, settle
from harness.results.ledger.ledger import Ledger
from harness.results.records import AttemptResult
from harness.results.store import Store
from harness.runs import resume
from harness.system import files
from plugins.upkeep import garbage

HERE = {"id": "e"}
KEY = spec().key


def create(ledger):
    return Attempt.create(ledger.runs, spec(), HERE)


def done(status="done", **fields):
    return AttemptResult(**{"run_key": KEY, "status": status, "draws_kept": 4, "draws_stored": 4, **fields})


def results(ledger):
    """The attempts with a result: those of the runs, and those that were moved aside."""
    return tuple(sorted(p.parent.name for p in ledger.root.glob(pattern)) for pattern in
                 ("runs/*/*/*/result.json", "conflicts/*/result.json"))  # fmt: skip


@pytest.fixture
def no_locks(monkeypatch):
    """Kernel locks that do not reach the other command."""
    monkeypatch.setattr("harness.system.locks.fcntl.flock", lambda *_: None)
    monkeypatch.setattr(ledgers, "_HELD", {})


@pytest.fixture
def ten_days_back(monkeypatch):
    class Clock(datetime):
        back = timedelta()

        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) - cls.back

    monkeypatch.setattr(attempts, "datetime", Clock)
    return lambda: setattr(Clock, "back", timedelta(days=10))


def test_the_clock_decides_nothing(ledger, ten_days_back):
    """As where all draws of a finished run are asked for after the clock was set back."""
    conclude(create(ledger), done(draws_stored=1))
    assert not ledger.standing(KEY).done("all")
    ten_days_back()
    later = create(ledger)
    assert [attempt.id for attempt in ledger.attempts(KEY)][-1] == later.id
    assert later.id[8:] < ledger.attempts(KEY)[0].id[8:]  # by their times it would be the other way round
    assert conclude(later, done()) is later
    assert ledger.standing(KEY).done("all")
    assert ledger.standing(KEY).attempt.id == later.id


def test_an_interrupted_attempt_is_the_latest_whatever_the_clock_says(ledger, ten_days_back):
    create(ledger).event("cancelled")
    ten_days_back()
    later = create(ledger)
    later.event("preempted")
    assert ledger.standing(KEY).unfinished.id == later.id


def test_attempts_of_earlier_versions_come_first(ledger):
    old = create(ledger)
    old.path.rename(old.path.with_name("29990101T000000000-aaaaaa"))
    assert create(ledger).id.startswith("a000001-")
    assert [attempt.id[:7] for attempt in ledger.attempts(KEY)] == ["2999010", "a000001"]


@pytest.mark.usefixtures("no_locks")
def test_the_second_result_of_a_run_is_kept_aside(ledger):
    first, second = create(ledger), create(ledger)
    assert conclude(second, done()) is second
    assert conclude(first, done()).id == second.id
    in_runs, aside = results(ledger)
    assert in_runs == [second.id]
    assert len(aside) == 1
    assert first.id in aside[0]
    assert ledger.standing(KEY).attempt.id == second.id
    assert second.id in commit.second(second)


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("moment", ["create", "_claimed"])
def test_a_command_that_stands_still_before_it_publishes_is_second(ledger, monkeypatch, moment):
    """Another command publishes between its last look and its claim, or after a claim that it failed to make."""
    frozen, other = create(ledger), create(ledger)
    step = getattr(commit, moment)
    left = [other]

    def stands_still(*arguments):
        if left:
            conclude(left.pop(), done())
        return step(*arguments)

    if moment == "_claimed":
        files.create(ledger.folder(KEY) / "1.json", b"{}")  # a claim that does not stand
    monkeypatch.setattr(commit, moment, stands_still)
    assert conclude(frozen, done()).id == other.id
    assert results(ledger)[0] == [other.id]


@pytest.mark.parametrize("finisher", ["settle", "publish", "gc"])
def test_a_result_that_was_claimed_before_a_kill_is_settled(ledger, monkeypatch, finisher):
    attempt = create(ledger)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(commit, "_name", killed)
        with pytest.raises(KeyboardInterrupt):
            conclude(attempt, done())
    assert attempt.result() is None
    if finisher == "settle":
        settle(attempt.path.parent)
    elif finisher == "publish":
        assert conclude(create(ledger), done()).id == attempt.id
    else:
        garbage.remove(ledger, garbage.find(ledger))
    assert attempt.result()["status"] == "done"
    assert results(ledger)[0] == [attempt.id]


@pytest.mark.parametrize("claim", [b"", b"{}", b'{"attempt": "../x", "result": "y"}', b"\xff"])
def test_a_claim_that_no_result_stands_behind_is_passed_over(ledger, claim):
    attempt = create(ledger)
    (attempt.path.parent / "1.json").write_bytes(claim)
    assert conclude(attempt, done()) is attempt
    assert json.loads((attempt.path.parent / "2.json").read_text())["attempt"] == attempt.id


def test_a_run_whose_result_was_damaged_gets_another(ledger):
    first, second = create(ledger), create(ledger)
    conclude(first, done())
    (first.path / "result.json").write_text("{}")
    assert conclude(second, done()) is second
    assert ledger.standing(KEY).attempt.id == second.id


def test_failed_attempts_are_not_exclusive(ledger):
    for status in ("error", "timeout", "error"):
        assert conclude(create(ledger), done(status)).result()["status"] == status
    assert len(results(ledger)[0]) == 3
    assert ledger.standing(KEY).attempt.id.startswith("a000003")


def test_a_copied_result_counts_only_where_none_was_made_here(ledger, tmp_path):
    there = Ledger(tmp_path / "there")
    there.prepare()
    copied = create(there)
    conclude(copied, done())
    content = {path.name: path.read_bytes() for path in copied.path.iterdir()}
    here = Attempt(ledger.folder(KEY) / copied.id)
    publish(here, content, copied="theirs")
    assert here.copied
    assert not copied.copied
    assert ledger.standing(KEY).attempt.id == here.id
    local = create(ledger)
    assert local.id.startswith("a000002")
    assert conclude(local, done()) is local
    assert ledger.standing(KEY).attempt.id == local.id


def test_on_a_file_system_without_hard_links_a_claim_is_exclusive_too(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no hard links")

    monkeypatch.setattr(os, "link", refuse)
    assert files.create(tmp_path / "1.json", b"1")
    assert not files.create(tmp_path / "1.json", b"2")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"1"]


def test_whoever_holds_a_run_publishes_without_waiting(ledger):
    with ledger.hold(KEY, 0), ledger.hold(KEY, 0):
        assert conclude(create(ledger), done()).result()
    assert not ledger.held(KEY)


PUBLISH = """
import fcntl, sys
from pathlib import Path
fcntl.flock = lambda *_: None
from specs import run_spec as made
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.records import AttemptResult
root = Path(sys.argv[1])
for seed in range(20):
    attempt = Attempt.create(root / "runs", made(seed), {"id": "e"})
    print(seed, flush=True) if seed == 0 else None
    sys.stdin.readline() if seed == 0 else None
    conclude(attempt, AttemptResult(run_key=made(seed).key, status="done"))
"""


def test_commands_whose_locks_do_not_reach_each_other_leave_one_result_for_each_run(ledger):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    crowd = [subprocess.Popen([sys.executable, "-c", PUBLISH, str(ledger.root)], **pipes) for _ in range(3)]
    for process in crowd:
        process.stdout.readline()
    for process in crowd:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write("\n")
            process.stdin.flush()
    assert [process.communicate()[0] is not None and process.returncode for process in crowd] == [0, 0, 0]
    for seed in range(20):
        finals = [attempt for attempt in ledger.attempts(spec(seed).key) if attempt.result()]
        assert len(finals) == 1
    assert len(results(ledger)[1]) == 40


@pytest.mark.parametrize("seed", range(20))
def test_the_database_and_the_ledger_count_the_same_attempt(ledger, seed):
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 5)):
        attempt, copied = create(ledger), rng.random() < 0.4
        status = rng.choice(["done", "diverged", "error", "timeout", None])
        if status is None:
            attempt.event(rng.choice(["cancelled", "preempted"]))
            continue
        content = {path.name: path.read_bytes() for path in attempt.path.iterdir()}
        record = attempt_record(attempt, status, rng.choice([1, 4]))
        publish(attempt, content | {"result.json": record}, copied="theirs" if copied else "")
    store = Store(ledger.root)
    store.refresh()
    (row,) = store.rows("select attempt, status, copied from run_status")
    standing = ledger.standing(KEY)
    if standing.status not in ("orphaned", "new"):
        assert (row["attempt"], row["status"]) == (standing.attempt.id, standing.status)
        assert row["copied"] == standing.attempt.copied


def attempt_record(attempt, status, stored):
    from harness.system.columns import document

    record = document(done(status, draws_stored=stored, attempt=attempt.id, started=f"{datetime.now(UTC):%Y-%m-%d}"))
    return json.dumps(files.sealed(record)).encode()


@pytest.mark.parametrize("began", [True, False])
def test_an_attempt_of_another_machine_is_not_written_to(ledger, monkeypatch, began):
    """Not even between the moment from which others see it and its first step."""
    with monkeypatch.context() as there:
        there.setattr(attempts, "kernel", lambda: "another one")
        attempt = create(ledger)
        if began:
            attempt.event("started", kernel="another one")
    assert attempt.is_at_work_elsewhere()
    attempt.event("cancelled")
    assert not attempt.is_at_work_elsewhere()
    monkeypatch.setattr(attempts, "kernel", lambda: "this one")
    attempt.event("resumed", kernel="this one")
    assert not attempt.is_at_work_elsewhere()


def test_the_files_of_a_finished_attempt_stay_as_they_are(ledger):
    """An older parcel of the same attempt arrives after the last one; a draw that was deleted comes back."""
    attempt = create(ledger)
    older = {path.name: path.read_bytes() for path in attempt.path.iterdir()}
    attempt.save_arrays("draws", {"draws": np.zeros((4, 2, 3))})
    conclude(attempt, done())
    whole = {path.name: path.read_bytes() for path in attempt.path.iterdir()}
    publish(attempt, older)
    assert {path.name: path.read_bytes() for path in attempt.path.iterdir()} == whole
    (attempt.path / "draws.safetensors").unlink()
    publish(attempt, whole)
    assert {path.name: path.read_bytes() for path in attempt.path.iterdir()} == whole


def test_a_copied_result_leaves_no_draws_from_here_beside_it(ledger, tmp_path):
    """The attempt was begun here and finished elsewhere; its draws were deleted there."""
    here = create(ledger)
    there = Attempt(tmp_path / "there" / "runs" / KEY[:2] / KEY / here.id)
    shutil.copytree(here.path, there.path)
    here.save_arrays("draws", {"draws": np.zeros((4, 2, 3))})
    conclude(there, done())
    publish(here, {path.name: path.read_bytes() for path in there.path.iterdir()}, copied="theirs")
    assert here.result()
    assert not (here.path / "draws.safetensors").exists()


def test_a_new_attempt_that_was_to_take_over_does_so_after_a_kill(ledger, monkeypatch):
    """Killed between its creation and the copy of the checkpoint of an attempt of another machine."""
    before = create(ledger)
    before.save_checkpoint({"theta": np.zeros(3)})
    before.event("started", kernel="another one")
    taken_over = create(ledger)
    assert resume._interrupted_take_over(ledger, taken_over, spec(), {}) is None  # of another environment
    monkeypatch.setattr(resume, "_refusal", lambda *_: "")
    assert resume._interrupted_take_over(ledger, taken_over, spec(), {}).id == before.id
