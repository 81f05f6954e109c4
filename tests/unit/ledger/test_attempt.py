from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from specs import run_spec as spec

from harness.results.ledger.attempt import DRAWN, Attempt
from harness.results.ledger.commit import conclude
from harness.results.records import AttemptResult
from harness.results.spec import Component
from harness.system.errors import DataError
from harness.system.locks import lock_file


@pytest.fixture
def attempt(ledger):
    return Attempt.create(ledger.runs, spec(), {"id": "e"})


def test_key_holds_what_changes_the_result_and_nothing_else():
    base = spec()
    for same in ({"method": "x"}, {"budget": "paper"}, {"origins": {}}):
        assert spec(**same).key == base.key
    moved = Component(name="sgld", target="other:Place", source="0" * 64, params={"a": 1.0})
    assert spec(sampler=moved).key == base.key
    changes = [
        {"steps": 11}, {"burn_in": 1}, {"thin": 2}, {"chains": 3}, {"dtype": "float32"}, {"protocol": "q"},
        {"task_version": 2}, {"data": "x"}, {"device": "cuda"}, {"deterministic": False}, {"compile": "graph"},
        {"warm_source": "1" * 64}, {"task": replace(base.task, params={"a": 2.0})},
        *({part: replace(getattr(base, part), source="1" * 64)} for part in ("sampler", "schedule", "task")),
    ]  # fmt: skip
    for gpu_only in ({"tf32": True}, {"cudnn_benchmark": True}):
        assert spec(**gpu_only).key == base.key
        changes.append({"device": "cuda", **gpu_only})
    keys = {spec(**change).key for change in changes} | {base.key, spec(seed=1).key}
    assert len(keys) == len(changes) + 2
    assert spec(seed=1).group == base.group
    assert spec(steps=11).group != base.group


def test_a_run_goes_from_new_to_done(ledger, attempt):
    key = spec().key
    assert ledger.standing(spec(seed=9).key).status == "new"
    assert ledger.standing(key).status == "orphaned"
    with lock_file(ledger.lock(key), 0):
        assert ledger.standing(key).status == "running"
    attempt.event("cancelled", position=3)
    assert ledger.standing(key).status == "cancelled"
    conclude(attempt, AttemptResult(status="done"))
    standing = ledger.standing(key)
    assert standing.cached
    assert standing.attempt.id == attempt.id


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-1])


def flipped(path):
    content = bytearray(path.read_bytes())
    content[-20] ^= 4
    path.write_bytes(content)


def emptied(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut_short, flipped, emptied, Path.unlink])
def test_a_damaged_checkpoint_is_not_used(attempt, damage):
    arrays = {"theta": np.arange(12.0).reshape(3, 4), "noise": np.zeros(7, np.uint8), "count": np.array(3)}
    attempt.save_checkpoint(arrays)
    loaded = next(attempt.checkpoints())
    assert all(np.array_equal(loaded[name], arrays[name]) for name in arrays)
    assert loaded["count"].shape == ()
    damage(attempt.path / "checkpoint.safetensors")
    assert next(attempt.checkpoints(), None) is None


def test_a_cut_off_event_spoils_no_other(attempt):
    with (attempt.path / "events.jsonl").open("ab") as stream:
        stream.write(b'{"event": "checkp')
    assert attempt.last_event() == "created"
    attempt.event("resumed")
    assert attempt.last_event() == "resumed"


def drawn(attempt):
    """The digest of the draws so far, as a checkpoint has it."""
    attempt.save_checkpoint({})
    return next(attempt.checkpoints())[DRAWN].tobytes()


def test_draws_are_cut_back_to_the_checkpoint(attempt):
    attempt.append_draws(np.arange(12.0).reshape(2, 2, 3))
    digest = drawn(attempt)
    attempt.append_draws(np.full((5, 2, 3), 9.0))
    attempt = Attempt(attempt.path)
    assert attempt.cut_draws(12, digest)
    assert drawn(attempt) == digest
    assert attempt.seal_draws(2, 3, np.array([4, 8, 12])) == 2
    from safetensors.numpy import load_file

    sealed = load_file(attempt.path / "draws.safetensors")
    assert np.array_equal(sealed["draws"], np.arange(12.0, dtype=np.float32).reshape(2, 2, 3))
    assert sealed["steps"].tolist() == [4, 8]


def test_a_crash_between_sealing_and_the_result_loses_no_draws(attempt):
    attempt.append_draws(np.zeros((2, 2, 3)))
    digest = drawn(attempt)
    attempt.seal_draws(2, 3, np.array([4, 8]))
    assert attempt.cut_draws(12, digest)
    conclude(attempt, AttemptResult(status="done"))
    assert not attempt.cut_draws(12, digest)


@pytest.mark.parametrize("damage", [cut_short, flipped, Path.unlink])
def test_draws_that_are_not_those_written_are_neither_sealed_nor_gone_on_with(attempt, damage):
    attempt.append_draws(np.arange(12.0).reshape(2, 2, 3))
    digest = drawn(attempt)
    damage(attempt.path / "draws.part")
    if damage is not flipped:  # the size is looked at each time, the content at the end
        with pytest.raises(DataError, match="the same command starts it again"):
            attempt.append_draws(np.zeros((2, 2, 3)))
    with pytest.raises(DataError, match="the same command starts it again"):
        attempt.seal_draws(2, 3, np.array([4, 8]))
    assert not (attempt.path / "draws.safetensors").exists()
    assert not attempt.cut_draws(12, digest)
    attempt.drop_draws()
    assert attempt.cut_draws(0, drawn(attempt))


def test_nan_never_enters_a_record(attempt):
    with pytest.raises(ValueError, match="JSON"):
        conclude(attempt, AttemptResult(status="done", passes=float("nan")))
    assert attempt.result() is None
