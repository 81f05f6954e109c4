"""`bench status`: what a results folder says of its workers, whole or damaged, from any terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import time
from contextlib import ExitStack

import pytest
from specs import run_spec as spec
from support import bench_words

from harness.cli.app import run
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.ledger.heartbeats import Notice
from harness.results.ledger.ledger import Ledger
from harness.results.records import AttemptResult
from harness.system.locks import lock_file
from plugins.inspection.status import COLUMNS, overview

RUN = ["--sampler", "sgld", "--task", "mixture5", "--seeds", "0-3", "--chains", "2"]
LABELS = {"method": "sgld", "task": "mixture5", "protocol": "p", "budget": "smoke", "chains": 2, "device": "cpu"}


def attempt(ledger, seed=0, status=None, events=(), **changes):
    new = Attempt.create(ledger.runs, spec(seed, **changes), {"id": "e"})
    for name, position in events:
        new.event(name, position=position)
    if status:
        conclude(new, AttemptResult(status=status))
    return new


@pytest.fixture
def working(ledger):
    """A worker (this process) in the middle of seeds 0 to 3."""
    with ExitStack() as stack:
        for seed in range(4):
            attempt(ledger, seed)
            stack.enter_context(lock_file(ledger.lock(spec(seed).key), 0))
        notice = stack.enter_context(Notice(ledger.locks / f"{spec(0).key}.notice"))
        path = str(ledger.attempts(spec(0).key)[0].path.relative_to(ledger.root))
        notice.update(LABELS | {"seeds": "0-3", "attempt": path, "position": 250, "steps": 1000, "rate": 50.0})
        yield notice


def listed(ledger, capsys):
    capsys.readouterr()
    assert run(["--results", str(ledger.root), "status", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(tuple(row) == COLUMNS for row in rows)
    return rows


def shown(ledger, capsys, *options):
    capsys.readouterr()
    assert run(["--results", str(ledger.root), "status", *options]) == 0
    return [
        line
        for line in capsys.readouterr().out.splitlines()
        if not line.startswith("\N{BOX DRAWINGS LIGHT HORIZONTAL}")
    ]


@pytest.mark.usefixtures("working")
def test_a_block_of_seeds_is_one_row(ledger, capsys):
    (ledger.attempts(spec(0).key)[0].path / "checkpoint.safetensors").write_text("")
    (row,) = listed(ledger, capsys)
    assert row["status"] == "running"
    assert {name: row[name] for name in LABELS} == LABELS
    assert (row["seeds"], row["runs"], row["position"], row["steps"]) == ("0-3", 4, 250, 1000)
    assert (row["rate"], row["seconds_left"]) == (50.0, 15.0)
    assert (row["host"], row["pid"]) == (socket.gethostname(), os.getpid())
    assert 0 <= row["heard_age"] < 30
    assert 0 <= row["checkpoint_age"] < 30
    lines = shown(ledger, capsys)
    assert len(lines) == 3
    assert "250 of 1,000" in lines[1]
    assert "15 s" in lines[1]
    assert lines[2].startswith("4 running in ")


def test_interrupted_runs_are_grouped_and_the_rest_is_counted(ledger, capsys):
    attempt(ledger, 0, events=[("started", 0), ("checkpoint", 6), ("cancelled", 7)])
    attempt(ledger, 1, events=[("started", 0), ("cancelled", 3)])
    attempt(ledger, 5, events=[("started", 0), ("checkpoint", 4)])
    attempt(ledger, 6, events=[("preempted", 2)], steps=20)
    for seed, status in ((10, "done"), (11, "done"), (12, "diverged"), (13, "error")):
        attempt(ledger, seed, status)
    rows = {(row["status"], row["seeds"]): row for row in listed(ledger, capsys)}
    assert rows["cancelled", "0-1"]["position"] == 3
    assert rows["cancelled", "0-1"]["runs"] == 2
    assert rows["orphaned", "5"]["position"] == 4
    assert rows["preempted", "6"]["steps"] == 20
    counts = {status: row["runs"] for (status, seeds), row in rows.items() if seeds is None}
    assert counts == {"done": 2, "diverged": 1, "error": 1}
    lines = shown(ledger, capsys)
    assert len(lines) == 5  # a header, three groups, and the totals
    assert "2 cancelled, 1 orphaned, 1 preempted, 1 diverged, 2 done, 1 error in " in lines[-1]


def test_a_worker_that_has_said_nothing_yet_is_starting(ledger, capsys):
    with lock_file(ledger.lock(spec(0).key), 0):
        (row,) = listed(ledger, capsys)
        assert (row["status"], row["runs"], row["pid"], row["position"]) == ("running", 1, os.getpid(), None)
        assert "starting" in shown(ledger, capsys)[1]


def test_nothing_there_is_said(tmp_path, capsys):
    ledger = Ledger(tmp_path / "nothing")
    assert listed(ledger, capsys) == []
    assert shown(ledger, capsys) == [f"no runs in {ledger.root}"]
    assert not ledger.root.exists()


DAMAGE = {
    "notice cut off": lambda notice, _: notice.write_text(notice.read_text()[:20]),
    "notice of another process": lambda notice, _: notice.write_text(notice.read_text().replace('"pid": ', '"pid": 1')),
    "notice of other things": lambda notice, _: notice.write_text(
        json.dumps(
            json.loads(notice.read_text()) | {"position": "x", "steps": None, "rate": [], "seeds": {}, "method": 3}
        )
    ),
    "notice not text": lambda notice, _: notice.write_bytes(b"\xff\x00"),
    "notice a folder": lambda notice, _: (notice.unlink(), notice.mkdir()),
    "lock empty": lambda _, lock: lock.write_text(""),
    "lock of other things": lambda _, lock: lock.write_text('{"pid": [], "host": 7}'),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_notice_or_lock_hides_no_worker(ledger, working, capsys, damage):
    DAMAGE[damage](working.path, ledger.lock(spec(0).key))
    rows = listed(ledger, capsys)
    assert {row["status"] for row in rows} == {"running"}
    assert sum(row["runs"] for row in rows) == 4
    assert {row["position"] for row in rows} == {None}  # rather nothing than what may be another's
    assert "4 running" in shown(ledger, capsys)[-1]
    if working.path.is_dir():
        working.path.rmdir()


def test_damaged_attempts_hide_no_other(ledger, capsys):
    for seed, name in enumerate(("spec.json", "events.jsonl")):
        (attempt(ledger, seed, events=[("cancelled", 3)]).path / name).write_bytes(b"\xff{")
    (attempt(ledger, 2, "done").path / "result.json").write_text("{")
    attempt(ledger, 3, "done")
    (ledger.runs / "ab").mkdir()
    (ledger.runs / "ab" / "file").write_text("")
    totals = {}
    for row in listed(ledger, capsys):
        totals[row["status"]] = totals.get(row["status"], 0) + row["runs"]
    assert totals == {"cancelled": 1, "orphaned": 1, "damaged": 1, "done": 1}


def test_a_worker_long_silent_is_shown_as_such(ledger, working, capsys):
    record = json.loads(working.path.read_text())
    working.path.write_text(json.dumps(record | {"time": time.time() - 240}))
    assert "250 of 1,000, 4 min ago" in shown(ledger, capsys)[1]


def test_a_notice_that_cannot_be_written_breaks_nothing(tmp_path):
    with Notice(tmp_path / "gone" / "k.notice") as notice:
        notice.update({"position": 1})


def test_watching_goes_on_until_ctrl_c(ledger):
    attempt(ledger, 0, events=[("cancelled", 3)])
    ours, theirs = pty.openpty()
    words = bench_words("--results", str(ledger.root), "status", "--watch")
    process = subprocess.Popen(words, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    try:
        seen = b""
        deadline = time.monotonic() + 180
        while seen.count(b"1 cancelled") < 2 and time.monotonic() < deadline:
            seen += os.read(ours, 4096)
        assert seen.count(b"1 cancelled") >= 2
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(180) == 0
        assert b"Traceback" not in seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_worker_at_work_is_seen_from_outside(tmp_path):
    words = ["--results", str(tmp_path), "run", *RUN, "--budget", "steps=9000000", "--workers", "1"]
    process = subprocess.Popen(bench_words(*words), stderr=subprocess.DEVNULL, start_new_session=True)
    ledger = Ledger(tmp_path)
    try:
        deadline, rows = time.monotonic() + 300, []
        while not (rows and rows[0]["position"]) and time.monotonic() < deadline:
            rows = overview(ledger, {})
            time.sleep(0.2)
        (row,) = rows
        assert (row["method"], row["task"], row["seeds"], row["runs"]) == ("sgld", "mixture5", "0-3", 4)
        assert (row["status"], row["steps"], row["chains"], row["device"]) == ("running", 9_000_000, 2, "cpu")
        assert 0 < row["position"] < 9_000_000
        assert row["rate"] > 0
        assert row["pid"] != process.pid
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(180) == 130
    assert list(ledger.locks.iterdir()) == []
    (row,) = overview(ledger, {})
    assert (row["status"], row["seeds"], row["runs"]) == ("cancelled", "0-3", 4)
    assert row["position"] > 0
    assert row["checkpoint_age"] is not None
