"""Every status that an attempt may have: what makes it, how it stands in ledger and database, and what --retry does."""

import errno
import json
import shutil
import signal
import time
from contextlib import ExitStack

import pytest
import torch
from sessions import job, session, sessions

from harness.cli.app import run as bench
from harness.cli.options import duration
from harness.results.store import Store
from harness.runs import limit
from harness.runs import session as module
from harness.runs.child import Stop
from harness.runs.worker import _advance, _run
from harness.system.errors import DataError

COMMAND = ["run", "--sampler", "sgld", "--task", "mixture5", "--chains", "2", "--budget", "steps=3000"]


def raising(error):
    def failing(*_):
        raise error

    return failing


def done(ledger):
    _advance(session(ledger), Stop(), print)


def diverged(ledger):
    block = session(ledger)
    block.loop.theta[0] = float("nan")
    _advance(block, Stop(), print)


def timeout(ledger):
    _advance(session(ledger), Stop(), print, 1e-6)


def out_of_memory(ledger):
    block = session(ledger)
    block.advance = raising(torch.OutOfMemoryError("no memory"))
    _advance(block, Stop(), print)


def test_runs_that_memory_does_not_hold_together_have_that_status(ledger, monkeypatch):
    build = module.build
    full = raising(MemoryError("4000 bytes"))
    monkeypatch.setattr(module, "build", lambda specs, work: build(specs, work) if len(specs) == 1 else full())
    work = job(ledger, seeds=(0, 1))
    assert not sessions(ledger, work)
    assert {ledger.standing(spec.key).status for spec in work.specs} == {"out_of_memory"}


def error(ledger):
    block = session(ledger)
    block.advance = raising(ValueError("a plugin's own"))
    _advance(block, Stop(), print)


def cancelled(ledger):
    _advance(session(ledger), Stop("cancelled"), print)


def preempted(ledger):
    _advance(session(ledger), Stop("preempted"), print)


def disk_full(ledger):
    block = session(ledger)
    block.attempts[0].append_draws = raising(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(DataError, match="No space left on device; free some space"):
        _advance(block, Stop(), print)


def device_lost(ledger):
    block = session(ledger)
    block.advance = raising(RuntimeError("CUDA error: GPU is lost"))
    with pytest.raises(RuntimeError, match="GPU is lost"):
        _advance(block, Stop(), print)


def orphaned(ledger):
    session(ledger).advance()


GOING_ON = (cancelled, preempted, disk_full, device_lost, orphaned)
PRODUCERS = {f.__name__: f for f in (done, diverged, timeout, out_of_memory, error, *GOING_ON)}
FAILED = ("timeout", "out_of_memory", "error")


@pytest.mark.parametrize("status", PRODUCERS)
def test_each_status_has_a_producer(ledger, status):
    PRODUCERS[status](ledger)
    (key,) = ledger.all_keys()
    standing = ledger.standing(key)
    assert standing.status == status
    assert standing.cached == (status in ("done", "diverged"))
    assert standing.failed == (status in FAILED)
    assert (standing.unfinished is not None) == (PRODUCERS[status] in GOING_ON)
    store = Store(ledger.root)
    assert store.refresh() == []
    (row,) = store.rows("select status, concluded, reason from attempt")
    assert (row["status"], row["concluded"]) == (status, standing.cached or standing.failed)
    assert bool(row["reason"]) == (status == "diverged" or status in FAILED)
    if standing.failed:
        result = standing.attempt.result()
        assert result["metrics"] == []
        assert result["seconds"]["setup"] > 0
        assert result["started"] == standing.attempt.events()[0]["time"]
        assert not [path.name for path in standing.attempt.path.iterdir() if "checkpoint" in path.name]


@pytest.mark.parametrize("stop", ["", "cancelled"])
@pytest.mark.parametrize("steps", [0, 1])
def test_a_folder_deleted_during_a_run_is_said(ledger, steps, stop):
    block = session(ledger)
    for _ in range(steps):
        block.advance()
    shutil.rmtree(ledger.root)
    with pytest.raises(DataError, match="No such file or directory; it was deleted or moved"):
        _advance(block, Stop(stop), print)


def test_retry_runs_exactly_the_failed_ones_again(ledger, capsys):
    _advance(session(ledger, seeds=(0,)), Stop(), print)
    block = session(ledger, seeds=(1,))
    block.loop.theta[0] = float("nan")
    _advance(block, Stop(), print)
    for seed, cause in ((2, torch.OutOfMemoryError("")), (3, ValueError(""))):
        block = session(ledger, seeds=(seed,))
        block.advance = raising(cause)
        _advance(block, Stop(), print)
    command = ["--results", str(ledger.root), *COMMAND, "--seeds", "0-4", "--json"]
    capsys.readouterr()
    assert bench([*command[:-2], "4", "--json", "--timeout", "0.001"]) == 1
    (late,) = json.loads(capsys.readouterr().out)
    assert "--timeout was 0.001 s" in late["reason"]
    before = {path.parent.name for path in ledger.runs.glob("*/*/*/result.json")}
    assert len(before) == 5
    assert bench(command) == 1
    said = capsys.readouterr()
    assert [row["status"] for row in json.loads(said.out)] == ["done", "diverged", "out_of_memory", "error", "timeout"]
    assert "2 done before (1 diverged), 0 to do" in said.err
    assert said.err.count("--retry runs it again") == 3
    assert {path.parent.name for path in ledger.runs.glob("*/*/*/result.json")} == before
    assert bench([*command, "--retry"]) == 1  # for the one that diverged
    rows = json.loads(capsys.readouterr().out)
    assert [row["status"] for row in rows] == ["done", "diverged", "done", "done", "done"]
    assert [len(ledger.attempts(row["run_key"])) for row in rows] == [1, 1, 2, 2, 2]
    assert rows[4]["run_key"] == late["run_key"]  # the time limit is no part of it
    assert bench([*command, "--retry", "--timeout", "1s"]) == 1
    assert len(list(ledger.runs.glob("*/*/*/result.json"))) == 8


def test_time_worked_before_an_interruption_counts(ledger):
    block = session(ledger)
    block.advance()
    block.seconds["sampling"] += 100
    block.suspend("cancelled")
    resumed = session(ledger)
    assert resumed.loop.position > 0
    _advance(resumed, Stop(), print, 50)
    (key,) = ledger.all_keys()
    standing = ledger.standing(key)
    assert standing.status == "timeout"
    assert f"at step {resumed.loop.position} of 3000" in standing.reason
    assert standing.attempt.result()["seconds"]["sampling"] > 100


def test_a_failed_run_says_what_it_cost(ledger):
    block = session(ledger)
    block.advance()
    passes = block.loop.spent(block.loop.position)
    _advance(block, Stop(), print, 1e-6)
    (key,) = ledger.all_keys()
    assert ledger.standing(key).attempt.result()["passes"] == passes > 0


def test_what_is_finished_is_not_thrown_away_for_being_late(ledger):
    block = session(ledger)
    while not block.finished:
        block.advance()
    block.seconds["sampling"] += 100
    _advance(block, Stop(), print, 50)
    (key,) = ledger.all_keys()
    assert ledger.standing(key).status == "done"


@pytest.mark.parametrize("cause", [None, ValueError("broken")])
def test_a_run_that_diverged_stays_so_when_its_block_fails(ledger, cause):
    block = session(ledger, seeds=(0, 1))
    block.loop.theta[0] = float("nan")
    block.advance()
    if cause:
        block.advance = raising(cause)
    _advance(block, Stop(), print, None if cause else 1e-6)
    statuses = [ledger.standing(spec.key).status for spec in block.specs]
    assert statuses == ["diverged", "error" if cause else "timeout"]
    assert ledger.standing(block.specs[0].key).attempt.result()["step"] == 1


def test_a_step_that_hangs_is_interrupted(ledger, monkeypatch):
    monkeypatch.setattr(limit, "OVERTIME_SECONDS", 0.2)
    block = session(ledger)

    def hang():
        while True:
            time.sleep(0.01)

    block.advance = hang
    block.check_time = lambda _: None
    _advance(block, Stop(), print, 0.1)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    (key,) = ledger.all_keys()
    standing = ledger.standing(key)
    assert standing.status == "timeout"
    assert standing.reason == "interrupted within a step: --timeout was 0.1 s"
    (trace,) = [event["text"] for event in standing.attempt.events() if event["event"] == "traceback"]
    assert "in hang" in trace


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("2h", 7200),
        ("90s", 90),
        ("30m", 1800),
        ("90", 90),
        ("1.5h", 5400),
        (" 1 d ", 86_400),
        ("0.5", 0.5),
    ],
)
def test_a_time_in_words(text, seconds):
    assert duration(text, "--timeout") == seconds


def test_a_run_that_failed_while_another_launcher_waited_for_it_is_not_run_again_unasked(ledger):
    block = session(ledger)
    block.fail(RuntimeError("of another launcher"), "")
    said = []
    with ExitStack() as stack:
        _run(job(ledger), stack, Stop(), lambda kind, it: said.append((kind, it)))
    assert [(kind, it["status"]) for kind, it in said] == [("finished", "error")]
    assert len(ledger.attempts(block.specs[0].key)) == 1
