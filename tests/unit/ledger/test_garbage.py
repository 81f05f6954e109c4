"""What gc takes and what it never takes, alone and beside workers."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from specs import made as spec

from harness.ledger import garbage
from harness.ledger.attempt import Attempt
from harness.ledger.ledger import Ledger
from harness.ledger.locks import hold

HERE = {"id": "e"}
KEY = spec().key


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "results")
    made.prepare()
    return made


def attempt(ledger, status=None, seed=0, **members):
    """An attempt with a checkpoint and draws; concluded where there is a status."""
    made = Attempt.create(ledger.runs, spec(seed), HERE)
    made.save_checkpoint({"theta": np.zeros(3)})
    made.append_draws(np.zeros((2, 2, 3)))
    if status:
        made.conclude({"status": status, **members})
    return made


def found(ledger, **options):
    return {str(item.path.relative_to(ledger.root)): item for item in garbage.find(ledger, **options)}


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_in_order_has_no_garbage(ledger):
    attempt(ledger, "done")
    attempt(ledger, "error", seed=1)
    attempt(ledger, seed=2)
    assert garbage.find(ledger, failed=True) == []


def test_only_what_a_final_attempt_replaced_goes(ledger):
    unfinished, damaged, failed = attempt(ledger), attempt(ledger, "done"), attempt(ledger, "error")
    (damaged.path / "result.json").write_text("{}")
    assert garbage.find(ledger, failed=True) == []
    final = attempt(ledger, "diverged")
    later = attempt(ledger)
    whys = {name.rpartition("/")[2]: item.why for name, item in found(ledger).items()}
    assert whys == {
        unfinished.id: f"unfinished; {final.id} finished the run",
        damaged.id: f"damaged; {final.id} finished the run",
        later.id: f"unfinished; {final.id} finished the run",
    }
    assert {name.rpartition("/")[2] for name in found(ledger, failed=True)} == {*whys, failed.id}
    kept = contents(final.path) | contents(failed.path)
    gone, notes = garbage.remove(ledger, garbage.find(ledger))
    assert (len(gone), notes) == (3, [])
    assert sum(item.bytes for item in gone) > 0
    assert contents(ledger.runs) == kept
    assert ledger.standing(KEY).attempt.id == final.id
    assert garbage.find(ledger) == []


def test_two_final_attempts_both_stay(ledger):
    attempt(ledger, "done")
    attempt(ledger, "done")
    assert garbage.find(ledger, failed=True) == []


def test_what_interrupted_writes_left_goes(ledger):
    going, ended = attempt(ledger), attempt(ledger, "done", seed=1)
    kept = contents(ledger.root)
    old = time.time() - 4000
    places = [
        going.path / ".checkpoint.safetensors.999999", ended.path / "draws.part", ended.path / "checkpoint.safetensors",
        ledger.runs / KEY[:2] / KEY / "20260101T000000000-aaaaaa" / "environment.json",
        ledger.root / ".probe-999999", ledger.root / ".results-999999.duckdb.wal",
        ledger.root / "results.duckdb.damaged-20260101T000000", ledger.locks / f"{KEY}.lock",
        ledger.locks / f"{KEY}.notice", ledger.locks / f".{KEY}.notice.999999",
    ]  # fmt: skip
    for place in places:
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"x" * 7)
        os.utime(place, (old, old))
    listed = garbage.find(ledger)
    assert len(listed) == len(places)
    assert {item.bytes for item in listed} == {7}
    gone, notes = garbage.remove(ledger, listed)
    assert (len(gone), notes) == (len(places), [])
    assert contents(ledger.root) == kept


@pytest.mark.parametrize(
    ("pid", "age", "goes"), [(999_999, 5, False), (999_999, 90, True), (1, 90, False), (1, 4000, True)]
)
def test_a_file_being_written_is_left_alone(ledger, pid, age, goes):
    path = ledger.root / f".ledger.json.{pid}"
    path.write_text("")
    os.utime(path, (time.time() - age,) * 2)
    assert bool(garbage.find(ledger)) == goes


def test_nothing_of_a_held_run_is_listed_or_deleted(ledger):
    attempt(ledger)
    attempt(ledger, "done")
    (ledger.locks / f"{KEY}.notice").write_text("{}")
    listed = garbage.find(ledger)
    assert len(listed) == 2
    before = contents(ledger.runs)
    with hold(ledger.lock(KEY), 0):
        assert garbage.find(ledger) == []
        gone, notes = garbage.remove(ledger, [item for item in listed if item.run])
    assert gone == []
    assert "held by process" in notes[0]
    assert contents(ledger.runs) == before


def test_what_changed_since_the_listing_is_looked_at_again(ledger):
    unfinished, final = attempt(ledger), attempt(ledger, "done")
    listed = garbage.find(ledger)
    (final.path / "result.json").unlink()
    assert garbage.remove(ledger, listed) == ([], [])
    assert unfinished.path.exists()


def test_links_are_not_followed(ledger, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    attempt(ledger).path.rename(elsewhere)
    final = attempt(ledger, "done")
    (final.path.parent / "20260101T000000000-aaaaaa").symlink_to(elsewhere)
    before = contents(elsewhere)
    gone, _ = garbage.remove(ledger, garbage.find(ledger))
    assert gone == []
    assert contents(elsewhere) == before


def test_an_empty_or_missing_folder_has_no_garbage(ledger, tmp_path):
    assert garbage.find(ledger) == []
    assert garbage.find(Ledger(tmp_path / "nothing")) == []


WORK = """
import sys
from pathlib import Path
import numpy as np
from specs import made
from harness.ledger.attempt import Attempt
from harness.ledger.ledger import Ledger
from harness.ledger.locks import HeldError, hold
ledger = Ledger(Path(sys.argv[1]))
for seed in range(60):
    with hold(ledger.lock(made(seed).key), 30):
        if ledger.standing(made(seed).key).cached:
            continue
        for status in (None, "error", "done"):
            attempt = Attempt.create(ledger.runs, made(seed), {"id": "e"})
            attempt.save_checkpoint({"theta": np.zeros(30)})
            attempt.append_draws(np.zeros((2, 2, 3)))
            if status:
                attempt.save_arrays("curves", {"x": np.zeros(9)})
                attempt.conclude({"status": status, "by": sys.argv[2]})
"""


def test_beside_workers_it_takes_nothing_from_under_them(ledger):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", WORK, str(ledger.root), str(number)],
            env=environment, stderr=subprocess.PIPE, text=True,
        )
        for number in range(3)
    ]  # fmt: skip
    went = 0
    while any(process.poll() is None for process in crowd):
        went += len(garbage.remove(ledger, garbage.find(ledger))[0])
    errors = [process.communicate()[1] for process in crowd]
    assert [process.returncode for process in crowd] == [0, 0, 0], errors
    went += len(garbage.remove(ledger, garbage.find(ledger))[0])
    assert went >= 60
    for seed in range(60):
        statuses = sorted(attempt.result()["status"] for attempt in ledger.attempts(spec(seed).key))
        assert statuses == ["done", "error"]  # each run finished once, by whichever worker
    assert list(ledger.locks.iterdir()) == []
