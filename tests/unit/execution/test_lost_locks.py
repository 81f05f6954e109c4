"""A lock file or a run's folder is deleted or replaced while a worker writes: one writer, and nothing is damaged."""

import fcntl
import shutil
import signal
from contextlib import ExitStack

import pytest
from sessions import job, sessions
from support import begun

from harness.results.ledger.ledger import Ledger
from harness.runs import worker
from harness.runs.child import Stop
from harness.runs.worker import _advance, _run
from harness.system.locks import LostError


@pytest.fixture
def work(ledger):
    return job(ledger)


def meddled(ledger, work, meddle, monkeypatch):
    """What a worker says that meets `meddle(ledger, key)` after its first block of steps; None where it raised."""
    monkeypatch.setattr(worker, "PROGRESS_SECONDS", 0.0)
    key, said = work.specs[0].key, []
    with ledger.hold(key, 0) as lock:
        (block,) = sessions(ledger, work, lambda *it: said.append(it))
        block.locks = [lock]
        block.advance()
        kept = meddle(ledger, key)
        with ExitStack() as stack:
            _advance(block, Stop(), lambda *it: said.append(it))
            second = []
            monkeypatch.setattr(worker, "LOCK_TIMEOUT_SECONDS", 0.0)
            monkeypatch.setattr(worker, "LEAST_LOCK_TIMEOUT_SECONDS", 0.0)
            with monkeypatch.context() as elsewhere:
                elsewhere.setattr("harness.results.ledger.ledger._HELD", {})  # as in another process
                _run(work, stack, Stop(), lambda *it: second.append(it))
        if kept is not None:
            kept.close()
    assert [kind for kind, _ in second] == ["held"]  # the first worker has not ended yet
    return said


def deleted(ledger, key):
    ledger.lock(key).unlink()


def all_deleted(ledger, _):
    shutil.rmtree(ledger.locks)


def replaced(ledger, key):
    """By a file that another process holds."""
    ledger.lock(key).unlink()
    stream = ledger.lock(key).open("w")
    fcntl.flock(stream, fcntl.LOCK_EX)
    return stream


@pytest.mark.parametrize("meddle", [deleted, all_deleted, replaced])
def test_a_worker_without_its_lock_file_stops_with_a_checkpoint(ledger, work, meddle, monkeypatch):
    said = meddled(ledger, work, meddle, monkeypatch)
    assert next(it["message"] for kind, it in said if kind == "failed").startswith(f"the lock file {ledger.locks}")
    assert ("suspended", {"key": work.specs[0].key, "status": "orphaned"}) in said
    standing = ledger.standing(work.specs[0].key)
    assert standing.status == "orphaned"
    assert standing.attempt.last_step() > 0
    (again,) = sessions(ledger, work)
    assert again.loop.position == standing.attempt.last_step()
    _advance(again, Stop(), print)
    assert ledger.standing(work.specs[0].key).status == "done"


def moved_and_copied(ledger, key):
    folder = ledger.folder(key)
    folder.rename(ledger.root / "aside")
    shutil.copytree(ledger.root / "aside", folder)


def removed(ledger, key):
    shutil.rmtree(ledger.folder(key))


@pytest.mark.parametrize("meddle", [moved_and_copied, removed])
def test_a_worker_writes_nothing_to_a_folder_that_is_not_its_own(ledger, work, meddle, monkeypatch):
    with pytest.raises(LostError, match="was deleted or replaced while a worker wrote to it"):
        meddled(ledger, work, meddle, monkeypatch)
    names = {path.name for path in ledger.runs.glob("*/*/*/*")}
    assert names <= {"spec.json", "environment.json", "events.jsonl", "draws.part"}
    assert ledger.standing(work.specs[0].key).status == ("new" if meddle is removed else "orphaned")


def test_a_command_whose_lock_files_are_deleted_fails_and_the_same_command_finishes(tmp_path):
    ledger = Ledger(tmp_path / "results")
    words = ["run", "--sampler", "sgld", "--task", "mixture5", "--chains", "2", "--seeds", "0", "--yes"]
    words += ["--budget", "steps=2000000", "--set", "run.compile=plain", "--set", "run.burn_in=0"]
    process = begun(ledger.root, *words)
    shutil.rmtree(ledger.locks)
    try:
        said = process.communicate(timeout=120)[1]
    finally:
        process.send_signal(signal.SIGINT)
    assert process.returncode == 1
    assert "was deleted or replaced, so its worker stopped; repeat the command to resume" in said
    assert "1 orphaned" in said
    (key,) = ledger.all_keys()
    assert ledger.standing(key).status == "orphaned"
    assert next(ledger.standing(key).attempt.checkpoints())["counters"][0] > 0
