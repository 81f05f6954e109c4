"""Ctrl-C and SIGTERM end a command in a bounded time, whatever its workers do, and it says what is left."""

import json
import multiprocessing
import os
import re
import signal
import threading
from pathlib import Path

import pytest
from support import begun, until

from harness.cli.app import run as bench
from harness.results.ledger.ledger import Ledger
from harness.runs import child, local

COMMAND = ["run", "--task", "mixture5", "--chains", "2", "--seeds", "0-1", "--yes"]
COMMAND += ["--set", "run.compile=plain", "--set", "run.burn_in=0"]

HANGING = """
import os, signal, time
from dataclasses import dataclass
from pathlib import Path

from harness import Info, Sampler, hook

@dataclass(frozen=True, kw_only=True)
class Hanging(Sampler):
    def step(self, theta, state, potential, h, T, noise):
        if any(Path(FOLDER).parent.glob("r/runs/*/*/*/spec.json")):  # the attempts have begun
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
            Path(FOLDER, str(os.getpid())).touch()
            while True:
                time.sleep(60)
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * noise.normal(theta), state

@hook
def bench_samplers():
    return [Info("hanging", __name__ + ":Hanging", "hangs in its first step")]
"""


def test_workers_that_hang_are_killed_after_the_grace_time(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "pids"
    folder.mkdir()
    plugin = tmp_path / "hanging.py"
    plugin.write_text(HANGING.replace("FOLDER", repr(str(folder))))
    monkeypatch.setattr(local, "GRACE_SECONDS", 1.0)
    monkeypatch.setattr(local, "SILENT_SECONDS", 0.1)

    def strike():
        until(lambda: list(folder.iterdir()))
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=strike, daemon=True).start()
    words = ["--sampler", "hanging", "--budget", "steps=30000", "--set", "schedule.step_size=0.01", "--workers", "1"]
    words += ["--set", "run.compile=plain"]
    assert bench(["--results", str(tmp_path / "r"), "--plugin", str(plugin), *COMMAND, *words]) == 130
    said = capsys.readouterr().err
    assert re.search(r"workers that have not ended: 1; waiting up to 0\.\d s for their checkpoints\n", said)
    assert "workers killed, as they had not ended in 1 s: 1\n" in said
    assert "hanging on mixture5, seeds 0-1: from step 0 of 30000\n2 runs left, 0 of them not started\n" in said
    assert "bench: ended by SIGTERM; repeat the command to resume" in said
    (pid,) = [int(path.name) for path in folder.iterdir()]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def descendants(pid):
    """The process ids of all children of a process, and of their children."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/task/*/children"):
        if path.parts[2] == str(pid):
            for child in path.read_text().split():
                pids += [int(child), *descendants(int(child))]
    return pids


def test_stopped_workers_are_continued_and_write_checkpoints(tmp_path):
    ledger = Ledger(tmp_path / "results")
    words = [*COMMAND, "--sampler", "sgld", "--budget", "steps=2000000", "--workers", "2"]
    process = begun(ledger.root, *words)
    workers = {json.loads(path.read_text())["pid"] for path in ledger.locks.glob("*.lock")}
    children = set(descendants(process.pid))
    assert workers <= children
    for pid in children:  # the fork server too
        os.kill(pid, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=50)[1]  # less than the grace time
    assert process.returncode == 130, said
    assert re.search(r"sgld on mixture5, seeds? \S+: from step [1-9]\d* of 2000000\n", said)
    assert "killed" not in said
    assert {ledger.standing(key).status for key in ledger.all_keys()} == {"cancelled"}


def test_a_worker_that_hangs_ends_some_time_after_its_launcher(monkeypatch):
    signals = []
    monkeypatch.setattr(child, "GRACE_SECONDS", 0.01)
    monkeypatch.setattr(child.os, "kill", lambda *it: signals.append(it))
    ours, theirs = multiprocessing.Pipe()
    ours.close()  # as the kernel does when the launcher ends
    stop = child.Stop()
    child._watch(theirs, stop)
    assert stop.reason == "cancelled"
    assert signals == [(os.getpid(), signal.SIGKILL)]
