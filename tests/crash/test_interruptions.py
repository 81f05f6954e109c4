"""A run that is interrupted in any way is finished by the same command, with the bits of one that was not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

from harness.ledger.ledger import Ledger

COMMAND = ["run", "--sampler", "sghmc", "--task", "mixture5", "--seeds", "0-1", "--chains", "2"]
COMMAND += ["--budget", "steps=30000", "--set", "schedule.step_size=0.05", "--json"]
COMMAND += ["--workers", "1"]  # one block of both seeds: with more cores, each is a block of its own


def start(results, *more):
    words = [sys.executable, "-c", "from harness.cli import main; main()", *COMMAND, *more]
    environment = {**os.environ, "BENCH_RESULTS": str(results)}
    return subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(results, *more):
    process = start(results, *more)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return json.loads(out)


def wait_until_running(results, position=3_000):
    """The draws on disk grow with the run; returns the worker's pid, which stands in the lock."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        parts = list(results.glob("runs/*/*/*/draws.part"))
        if parts and parts[0].stat().st_size >= position * 2 * 2 * 4:
            locks = [json.loads(path.read_text()) for path in results.glob("locks/*.lock") if path.stat().st_size]
            return locks[0]["pid"]
        time.sleep(0.02)
    raise AssertionError("the run did not start")


def gone(pid, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def draws(results):
    return {path.parent.parent.name: load_file(path)["draws"] for path in results.glob("runs/*/*/*/draws.safetensors")}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    results = tmp_path_factory.mktemp("whole")
    finish(results)
    return draws(results)


FAULTS = {
    "kill -9 of the parent": lambda parent, _: os.kill(parent, signal.SIGKILL),
    "kill -9 of the worker": lambda _, worker: os.kill(worker, signal.SIGKILL),
    "kill -9 of the group": lambda parent, _: os.killpg(parent, signal.SIGKILL),
    "Ctrl-C": lambda parent, _: os.killpg(parent, signal.SIGINT),
    "SIGTERM to the worker": lambda _, worker: os.kill(worker, signal.SIGTERM),
}
WITH_TIME = ("kill -9 of the parent", "Ctrl-C", "SIGTERM to the worker")
"""Faults that leave the worker time for a checkpoint."""


@pytest.mark.parametrize("fault", FAULTS)
def test_the_same_command_finishes_the_rest_bit_for_bit(tmp_path, uninterrupted, fault):
    process = start(tmp_path)
    worker = wait_until_running(tmp_path)
    FAULTS[fault](process.pid, worker)
    _, err = process.communicate(timeout=60)
    assert gone(worker)
    if fault == "Ctrl-C":
        assert process.returncode == 130, err
        assert "interrupted; the same command goes on" in err
    assert not list(tmp_path.glob("runs/*/*/*/result.json"))

    rows = finish(tmp_path)
    assert [row["status"] for row in rows] == ["done", "done"]
    found = draws(tmp_path)
    assert found.keys() == uninterrupted.keys()
    assert all(np.array_equal(found[key], uninterrupted[key]) for key in found)
    results = list(tmp_path.glob("runs/*/*/*/result.json"))
    assert len(results) == 2
    if fault in WITH_TIME:
        events = [json.loads(line)["event"] for line in (results[0].parent / "events.jsonl").read_text().splitlines()]
        assert "resumed" in events
    before = {path: path.stat().st_mtime_ns for path in results}
    finish(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in results} == before


def test_a_damaged_checkpoint_means_a_fresh_attempt_and_the_same_result(tmp_path, uninterrupted):
    process = start(tmp_path)
    wait_until_running(tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    for path in tmp_path.glob("runs/*/*/*/checkpoint.safetensors"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    finish(tmp_path)
    found = draws(tmp_path)
    assert all(np.array_equal(found[key], uninterrupted[key]) for key in uninterrupted)


def test_two_launchers_at_once_finish_each_run_once(tmp_path, uninterrupted):
    both = [start(tmp_path), start(tmp_path)]
    for process in both:
        _, err = process.communicate(timeout=300)
        assert "Traceback" not in err
    finish(tmp_path)
    for key in uninterrupted:
        attempts = Ledger(tmp_path).attempts(key)
        assert sum(attempt.result() is not None for attempt in attempts) == 1
    found = draws(tmp_path)
    assert all(np.array_equal(found[key], uninterrupted[key]) for key in uninterrupted)
