"""What is left of a run that stopped, and what goes on from it: checkpoints, lost devices, preemption."""

import json
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sessions import finish, session
from support import begun

import tasks
from harness.cli.app import run as bench
from harness.results import provenance
from harness.results.ledger.attempt import WORK, Attempt
from harness.results.ledger.ledger import Ledger
from harness.runs import truths
from harness.runs.child import Stop
from harness.runs.worker import _advance
from harness.system.errors import DataError
from harness.system.files import sealed, write_json
from plugins.upkeep import garbage, verification

COMMAND = ["run", "--sampler", "sgld", "--task", "mixture5", "--chains", "2", "--budget", "steps=3000"]


def draws(attempt):
    return load_file(attempt.path / "draws.safetensors")["draws"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The draws of a run that nothing stopped."""
    return draws(finish(session(Ledger(tmp_path_factory.mktemp("whole")))))


def test_draws_go_on_with_their_weights(ledger, tmp_path):
    block = session(ledger, "contour-sgld")
    block.advance()
    block.checkpoint()
    end = finish(session(ledger, "contour-sgld"))
    assert end.id == block.attempts[0].id
    arrays = load_file(end.path / "draws.safetensors")
    assert arrays["log_weights"].shape == arrays["draws"].shape[:2]
    assert np.ptp(arrays["log_weights"]) > 0
    uninterrupted = finish(session(Ledger(tmp_path / "whole"), "contour-sgld"))
    assert np.array_equal(arrays["draws"], draws(uninterrupted))


def test_the_checkpoint_before_the_latest_serves_where_that_is_damaged(ledger, whole):
    block = session(ledger)
    for _ in range(2):
        block.advance()
        block.checkpoint()
    block.advance()
    (block.attempts[0].path / "checkpoint.safetensors").write_bytes(b"cut off")
    resumed = session(ledger)
    assert resumed.attempts[0].id == block.attempts[0].id
    assert 0 < resumed.loop.position < block.loop.position
    assert np.array_equal(draws(finish(resumed)), whole)


def test_another_commit_continues_an_attempt_and_both_are_recorded(ledger, whole, monkeypatch):
    block = session(ledger)
    block.advance()
    block.checkpoint()
    first = json.loads((block.attempts[0].path / "environment.json").read_text())
    with monkeypatch.context() as patch:
        patch.setattr(provenance, "digest", lambda _: "f" * 64)
        resumed = session(ledger)
        assert resumed.attempts[0].id == block.attempts[0].id
        assert resumed.loop.position == block.loop.position > 0
    record = json.loads((resumed.attempts[0].path / "environment.json").read_text())
    digest = first["code"]["sgmcmc-bench"]["digest"]
    assert record["id"] == first["id"]
    assert record["code"]["sgmcmc-bench"] == first["code"]["sgmcmc-bench"] | {"digest": "f" * 64, "before": [digest]}
    resumed.advance()
    resumed.checkpoint()
    last = finish(session(ledger))
    record = json.loads((last.path / "environment.json").read_text())
    assert record["code"]["sgmcmc-bench"] == first["code"]["sgmcmc-bench"] | {"before": ["f" * 64]}
    assert np.array_equal(draws(last), whole)
    (damage, *_) = [*verification.of_attempt(last.path.parent.name, last), None]
    assert damage is None


def test_draws_compared_with_another_truth_are_drawn_again(ledger):
    block = session(ledger)
    block.advance()
    block.checkpoint()
    path = truths.file_of(ledger.root, block.specs[0])
    path.parent.mkdir()
    record = Path(tasks.__file__).parent / "regression" / "truth" / "heart.json"
    write_json(path, sealed(json.loads(record.read_text())))
    begun_again = session(ledger)
    assert (begun_again.loop.position, begun_again.attempts[0].id) == (0, block.attempts[0].id)
    begun_again.advance()
    begun_again.checkpoint()
    assert session(ledger).loop.position > 0


@pytest.mark.parametrize(
    "cause",
    [torch.OutOfMemoryError("no memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory"), None],
    ids=["gpu", "cpu", "time"],
)
def test_what_failed_for_want_of_means_goes_on_in_a_new_attempt(ledger, whole, cause):
    block = session(ledger)
    block.advance()
    block.checkpoint()
    if cause is not None:

        def advance():
            raise cause

        block.advance = advance
        _advance(block, Stop(), print)
    else:
        _advance(block, Stop(), print, 1e-6)
    (key,) = ledger.all_keys()
    failed = ledger.standing(key)
    assert failed.status == ("timeout" if cause is None else "out_of_memory")
    assert not [item for item in garbage.find(ledger) if "checkpoint" in item.path.name]
    resumed = session(ledger)
    assert resumed.attempts[0].id != failed.attempt.id
    assert resumed.loop.position == block.loop.position > 0
    assert "took over" in [event["event"] for event in resumed.attempts[0].events()]
    assert np.array_equal(draws(finish(resumed)), whole)
    assert not list(ledger.runs.glob("*/*/*/checkpoint*"))


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_kill_while_checkpoints_change_hands_loses_nothing(ledger, whole, monkeypatch, moved):
    block = session(ledger)
    for _ in range(2):
        block.advance()
        block.checkpoint()
    _advance(block, Stop(), print, 1e-6)

    def killed(attempt, other, **_):
        for name in WORK[:moved]:
            (other.path / name).replace(attempt.path / name)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Attempt, "take_over", killed)
        with pytest.raises(KeyboardInterrupt):
            session(ledger)
    resumed = session(ledger)
    assert resumed.loop.position == block.loop.position > 0
    assert np.array_equal(draws(finish(resumed)), whole)


def test_a_cycle_ends_where_the_next_begins(ledger):
    block = session(ledger, schedule="cyclical", **{"schedule.step_size": 0.01, "schedule.cycles": 3})
    ends = []
    while not block.finished:
        block.advance()
        if block.ended_a_cycle:
            ends.append(block.loop.position)
    assert ends
    assert all(position % 1000 == 0 for position in ends)


FRAGILE = """
from dataclasses import dataclass
from pathlib import Path

from harness import Info, Sampler, hook, param

@dataclass(frozen=True, kw_only=True)
class Fragile(Sampler):
    times: int = param(1, "[0, 100]", "how often a device is lost")

    def step(self, theta, state, potential, h, T, noise):
        lost = Path({folder!r})
        if theta.shape == (2, 2) and len(list(lost.iterdir())) < self.times:
            (lost / str(len(list(lost.iterdir())))).touch()
            raise RuntimeError("CUDA error: GPU is lost")
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * noise.normal(theta), state

@hook
def bench_samplers():
    return [Info("fragile", __name__ + ":Fragile", "loses its device")]
"""


@pytest.mark.parametrize(("times", "code", "status"), [(1, 0, "done"), (100, 1, None)])
def test_a_device_that_is_lost_is_retired_and_its_run_goes_on_elsewhere(tmp_path, capsys, times, code, status):
    folder = tmp_path / "losses"
    folder.mkdir()
    plugin = tmp_path / f"fragile_{times}.py"
    plugin.write_text(FRAGILE.replace("{folder!r}", repr(str(folder))))
    command = ["--results", str(tmp_path / "results"), "--plugin", str(plugin), *COMMAND[:2], "fragile", *COMMAND[3:]]
    how = ["--seeds", "0", "--workers", "2", "--set", "schedule.step_size=0.01", "--json"]
    assert bench([*command, "--set", f"sampler.times={times}", *how]) == code
    said = capsys.readouterr()
    assert "it is not used again" in said.err
    (row,) = json.loads(said.out)
    assert row["status"] == status or (status is None and row["status"] != "done")
    if times > 1:
        assert len(list(folder.iterdir())) == 2  # one a place
        assert "no device is left" in said.err


def test_several_places_share_the_work_and_each_block_runs_once(tmp_path, capsys):
    command = ["--results", str(tmp_path), *COMMAND, "--seeds", "0", "--workers", "2", "--json"]
    sweep = ["--sweep", "schedule.step_size=0.01,0.02,0.03"]
    assert bench([*command, *sweep]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 3
    assert {row["status"] for row in rows} == {"done"}
    ledger = Ledger(tmp_path)
    assert all(len(ledger.attempts(row["run_key"])) == 1 for row in rows)


def test_a_scheduler_may_end_a_run(tmp_path):
    ledger = Ledger(tmp_path / "results")
    words = [*COMMAND[:-1], "steps=2000000", "--seeds", "0", "--yes", "--preemptible"]
    words += ["--set", "run.compile=plain", "--set", "run.burn_in=0"]
    process = begun(ledger.root, *words)
    for _ in range(2):  # as `timeout` says it to its command and to the group
        os.kill(process.pid, signal.SIGTERM)
        time.sleep(0.01)
    said = process.communicate(timeout=120)[1]
    assert "ended by SIGTERM; repeat the command to resume" in said
    assert re.search(r"sgld on mixture5, seed 0: from step [1-9]\d* of 2000000\n1 run left, 0 of them", said)
    assert "exited unexpectedly" not in said
    assert process.returncode == 0, said
    (key,) = ledger.all_keys()
    assert ledger.standing(key).status == "preempted"
    assert next(ledger.standing(key).attempt.checkpoints())["counters"][0] > 0


def test_draws_that_vanish_during_a_run_start_it_again(ledger, whole):
    block, part = session(ledger), next(ledger.runs.glob("*/*/*/")) / "draws.part"
    while not part.exists():
        block.advance()
    block.checkpoint()
    part.unlink()
    with pytest.raises(DataError, match="the same command starts it again"):
        _advance(block, Stop(), print)
    (key,) = ledger.all_keys()
    assert ledger.standing(key).status == "orphaned"
    again = session(ledger)
    assert again.loop.position == 0
    assert np.array_equal(draws(finish(again)), whole)


@pytest.mark.parametrize(("draws", "stored", "stride"), [("all", 2700, 1), ("none", 0, 0)])
def test_draws_are_kept_as_asked_and_a_resumed_run_keeps_to_what_is_on_disk(ledger, draws, stored, stride):
    block = session(ledger, draws=draws)
    for _ in range(2):
        block.advance()
    block.suspend("cancelled")
    result = finish(session(ledger, draws="some" if draws == "none" else "none")).result()
    assert (result["draws_kept"], result["draws_stored"], result["draws_stride"]) == (2700, stored, stride)
