"""Runs held by leases, as on a network file system: one holder at a time, and an overlap harms nothing."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.cli.doctor import _results
from harness.results.ledger.heartbeats import workers
from harness.results.ledger.ledger import Ledger
from harness.results.store import Store
from harness.runs import worker
from harness.runs.plan import RunRequest, plan
from harness.runs.session import Session
from harness.runs.worker import Job, Stop, _advance, _run, prepare
from harness.system import leases
from harness.system.errors import RunError
from harness.system.locks import HeldError, LostError, held, lock_file

KEY = "ab" + "0" * 62
QUICK = "from harness.system import leases; leases.BEAT_SECONDS, leases.LEASE_SECONDS = 0.2, 1.5\n"


def answered(number):
    def flock(*_):
        raise OSError(number, os.strerror(number))

    return flock


REFUSING = {"refused": answered(errno.ENOTSUP), "no locks": answered(errno.ENOLCK), "ignored": lambda *_: None}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(leases, "LEASE_SECONDS", 1.5)
    monkeypatch.setattr(leases, "LOOK_AGAIN_SECONDS", 0.05)


@pytest.fixture(params=["refused"])
def ledger(tmp_path, monkeypatch, request):
    """A results folder whose kernel locks do not work: BENCH_TEST_SHARED names one, else flock is made to fail."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    made = Ledger(Path(os.environ.get("BENCH_TEST_SHARED") or tmp_path) / tmp_path.name / "results")
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", REFUSING[request.param])
        made.prepare()
    return made


@contextmanager
def other(ledger, key=KEY, *, code="time.sleep(60)"):
    """Another process that holds a run."""
    text = QUICK + (
        "import sys, time; from pathlib import Path; from harness.results.ledger.ledger import Ledger\n"
        f"with Ledger(Path({str(ledger.root)!r})).hold({key!r}, 0) as (file, folder):\n"
        f"    print('held', flush=True)\n    {code}\n"
    )
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n", process.stderr.read()
        yield process
    finally:
        process.kill()
        process.communicate()


def elsewhere(ledger, key=KEY):
    """Say that the holder of a run is on another machine."""
    path = ledger.lock(key)
    record = json.loads(path.read_text()) | {"machine": "another", "host": "node7"}
    path.write_text(json.dumps(record))


@pytest.mark.parametrize("ledger", list(REFUSING), indirect=True)
def test_a_folder_whose_kernel_locks_do_not_exclude_is_one_of_leases(ledger):
    assert json.loads((ledger.root / "ledger.json").read_text()) == {"layout": 2, "locks": "leases"}
    with ledger.hold(KEY, 0) as (file, folder):
        assert (file.lost(), folder.lost(), ledger.held(KEY)) == (False, False, True)
        folder.check()
    assert not ledger.held(KEY)
    assert not list(ledger.locks.iterdir())


def test_a_local_folder_has_kernel_locks_and_one_that_names_leases_has_those(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "a")
    ledger.prepare()
    assert not ledger.leased
    monkeypatch.setattr("harness.results.ledger.ledger.filesystem", lambda _: "lustre")
    ledger.prepare()
    assert ledger.leased
    monkeypatch.undo()
    ledger.prepare()
    assert ledger.leased


def test_a_killed_holder_is_followed_at_once_on_its_machine_and_after_the_lease_on_another(ledger):
    keys = [KEY, KEY[::-1], "cd" * 32]
    for key in keys:
        with other(ledger, key):
            pass
    assert not ledger.held(KEY)
    with ledger.hold(KEY, 0):
        pass
    for key in keys[1:]:
        elsewhere(ledger, key)
    assert ledger.held(keys[1])
    ledger.watch(keys)
    begun = time.monotonic()
    for key in keys[1:]:  # they expire together
        with ledger.hold(key, 0):
            pass
    assert 1.5 <= time.monotonic() - begun < 2.9


@pytest.mark.parametrize("minutes", [-5, pytest.param(5, marks=pytest.mark.slow)])
def test_a_lease_is_renewed_for_long_and_clocks_that_differ_do_not_matter(ledger, monkeypatch, minutes):
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 60 * minutes)
    with other(ledger) as process:
        elsewhere(ledger)
        (found,) = workers(ledger.locks)
        assert (found.host, found.pid, found.keys) == ("node7", process.pid, [KEY])
        begun = time.monotonic()
        words = f"is held by process {process.pid} on node7 since"
        with pytest.raises(HeldError, match=words), ledger.hold(KEY, 2.5):
            pass
        assert time.monotonic() - begun >= 2.5
    with ledger.hold(KEY, 0):
        pass


SPEAK = """
    for line in sys.stdin:
        try:
            folder.check(); print('still', flush=True)
        except Exception as error:
            print(type(error).__name__, error, flush=True)"""


def test_a_stopped_holder_learns_that_its_lease_was_taken_over(ledger):
    text = QUICK + (
        "import sys; from pathlib import Path; from harness.results.ledger.ledger import Ledger\n"
        f"with Ledger(Path({str(ledger.root)!r})).hold({KEY!r}, 0) as (file, folder):\n"
        f"    print('held', flush=True){SPEAK}\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", text], text=True, **pipes) as process:
        try:
            assert process.stdout.readline() == "held\n"
            process.send_signal(signal.SIGSTOP)
            with ledger.hold(KEY, 0) as (file, _):
                process.send_signal(signal.SIGCONT)
                process.stdin.write("\n")
                process.stdin.flush()
                assert "LostError" in (said := process.stdout.readline())
                assert "was taken over by another process" in said
                process.stdin.close()
                assert process.wait(20) == 0
                assert not file.lost()  # what lost its lease deletes nothing of the next holder's
                assert ledger.held(KEY)
        finally:
            with suppress(OSError):
                process.send_signal(signal.SIGCONT)
            process.kill()


def test_a_holder_that_cannot_reach_the_folder_learns_it_and_one_that_can_again_goes_on(ledger, monkeypatch):
    def unreachable(*_, **__):
        raise OSError(errno.ESTALE, "Stale file handle")

    with ledger.hold(KEY, 0) as (file, folder):
        with monkeypatch.context() as patch:
            patch.setattr(leases, "_state", unreachable)
            time.sleep(0.8)
            assert not file.lost()
        time.sleep(0.5)
        assert not file.lost()
        monkeypatch.setattr(leases, "_state", unreachable)
        time.sleep(2.2)
        with pytest.raises(LostError, match="could not be renewed for 2 s, as its folder was out of reach"):
            folder.check()


def test_a_folder_out_of_reach_is_told_and_has_no_kernel_lock_instead(ledger, monkeypatch):
    def unreachable(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("harness.system.locks.read_record", unreachable)
    with pytest.raises(RunError, match=r"out of reach.*repeat the command"), ledger.hold(KEY, 0):
        pass


STRUGGLE = (
    QUICK
    + """
import os, sys
from pathlib import Path
from harness.system.locks import lock_file
for _ in range(int(sys.argv[2])):
    with lock_file(Path(sys.argv[1]) / "locks" / "run.lock", 60) as file:
        mark = os.open(Path(sys.argv[1]) / "inside", os.O_CREAT | os.O_EXCL)  # fails where another is inside
        assert not file.lost()
        os.close(mark)
        os.unlink(Path(sys.argv[1]) / "inside")
"""
)


def test_many_processes_take_turns(ledger):
    words = [sys.executable, "-c", STRUGGLE, str(ledger.root), "5"]
    crowd = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [process.communicate(timeout=120)[1] for process in crowd]
    assert [process.returncode for process in crowd] == [0] * 3, errors
    assert not list(ledger.locks.iterdir())


def test_a_lease_that_came_meanwhile_is_put_back(ledger, monkeypatch):
    path = ledger.lock(KEY)
    path.write_text("old")
    before = leases._state(path)
    path.write_text("new")
    real, answers = leases._state, [before]
    monkeypatch.setattr(leases, "_state", lambda place: answers.pop() if answers else real(place))
    leases._remove(path, before)
    assert path.read_text() == "new"
    assert list(ledger.locks.iterdir()) == [path]


@pytest.fixture
def job(ledger):
    from harness.contracts.registry import registry

    asked = RunRequest(["sgld"], ["mixture5"], seeds=[0], chains=2, budget="steps=3000")
    return Job([planned.spec for planned in plan(registry(), asked, ledger)], ledger.root, "cpu", "cpu-0")


def test_two_workers_of_one_run_overlap_and_one_result_counts(ledger, job, monkeypatch):
    """The first worker loses its lease in the middle. The second has finished before the first looks again."""
    monkeypatch.setattr(worker, "PROGRESS_SECONDS", 0.0)
    key = job.specs[0].key
    prepare(job)
    with ledger.hold(key, 0) as lock:
        (first,) = Session.open_all(ledger, job.specs, job, lambda *_: None)
        first.locks = [lock]
        first.advance()
        first.checkpoint()
        first.advance()
        begun = first.attempts[0]
        with monkeypatch.context() as patch:
            patch.setattr(leases.Lease, "renew", lambda _: None)
            with ExitStack() as stack:
                _run(job, stack, Stop(), lambda *_: None)
        with pytest.raises(LostError, match="taken over"):
            _advance(first, Stop(), lambda *_: None)
        assert begun.result() is None
        first.locks = []  # as if it had looked just before
        _advance(first, Stop(), lambda *_: None)
    one, two = ledger.attempts(key)
    assert one.id == begun.id
    assert [event["event"] for event in two.events()][:2] == ["created", "took over"]
    assert [a.result()["status"] for a in (one, two)] == ["done", "done"]
    assert one.result()["files"]["draws.safetensors"] == two.result()["files"]["draws.safetensors"]
    assert ledger.standing(key).status == "done"
    store = Store(ledger.root)
    store.refresh()
    assert len(store.rows("select * from attempt where concluded")) == 2
    assert len(store.rows("select * from result")) == 1


def test_the_index_is_on_a_local_disk_for_each_machine(ledger, job, tmp_path, monkeypatch):
    with ExitStack() as stack:
        _run(job, stack, Stop(), lambda *_: None)
    places = []
    for machine in ("one", "two"):
        monkeypatch.setenv("BENCH_CACHE", str(tmp_path / machine))
        store = Store(ledger.root)
        assert store.refresh() == []
        assert store.path.is_relative_to(tmp_path / machine / "index")
        assert len(store.rows("select * from attempt")) == 1
        places.append(store.path)
    assert places[0].parent.name == places[1].parent.name
    assert not list(ledger.root.glob("results.*"))


def test_the_doctor_says_how_runs_are_held_and_where_the_index_is(ledger, monkeypatch):
    monkeypatch.setattr("harness.cli.context.current", lambda: SimpleNamespace(results=ledger.root))
    Store(ledger.root).refresh()
    rows = {check: found for check, _, found, _ in _results()}
    assert rows["file system"].endswith("runs are held by leases")
    assert str(Store(ledger.root).path) in rows["results database"]


def test_gc_deletes_an_expired_lease_and_leaves_one_that_is_renewed(ledger):
    from plugins.verbs.upkeep import garbage

    ledger.lock("cd" * 32).write_text("{}")
    os.utime(ledger.lock("cd" * 32), (0, 0))
    with lock_file(ledger.lock(KEY), 0):
        gone, _ = garbage.remove(ledger, garbage.find(ledger))
        assert [item.path for item in gone] == [ledger.lock("cd" * 32)]
        assert held(ledger.lock(KEY))
