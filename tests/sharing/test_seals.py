"""What counts as made here: results with a seal by the key of their folder, and nothing that got there another way."""

from __future__ import annotations

import json
import os
import shutil
import stat

import numpy as np
import pytest
from fabricated import environment
from specs import concluded, run_spec
from specs import run_spec as spec

from harness import Bench, DataError
from harness.cli.app import run
from harness.results.ledger import commit, rescored, seals
from harness.results.ledger.attempt import Attempt, checksum
from harness.results.ledger.ledger import LAYOUT, Ledger
from harness.results.records import AttemptResult
from harness.results.store import Store
from harness.results.store.scored_runs import _RESULT
from harness.runs.job import Job
from harness.runs.resume import open_attempt
from harness.system.columns import document
from harness.system.files import sealed
from plugins.clusters import agent, parcel
from plugins.clusters.local import Local
from plugins.upkeep import garbage, rescored_record


def levels(results):
    """The level of the rows that are reported, by seed."""
    store = Store(results)
    store.refresh()
    with store.reading() as db:
        rows = db.execute(f"select seed, level from {_RESULT} order by seed").fetchall()  # noqa: S608 - words of ours
    return dict(rows)


def with_runs(results, *seeds, value=0.5):
    """A results folder with runs that were made in it, and their attempts."""
    metrics = [{"name": "m", "value": value, "unit": "1", "direction": "max", "primary": True, "version": 1}]
    ledger = Ledger(results)
    ledger.prepare()
    attempts = []
    for seed in seeds:
        attempt = Attempt.create(ledger.runs, run_spec(seed), environment())
        attempt.event("finished")
        record = document(AttemptResult(run_key=run_spec(seed).key, status="done", attempt=attempt.id))
        names = ("spec.json", "environment.json")
        files = {name: checksum(attempt.path / name) for name in names}
        content = json.dumps(sealed({**record, "files": files, "metrics": metrics})).encode()
        attempts.append(commit.publish(attempt, {"result.json": content}))
    return attempts


def edited(attempt, name="result.json"):
    """A record with another value, and its checksum made anew."""
    record = json.loads((attempt.path / name).read_text())
    record["metrics"][0]["value"] = 99.0
    (attempt.path / name).write_text(json.dumps(sealed({n: v for n, v in record.items() if n != "sha256"})))


def test_the_key_is_for_those_who_may_write_the_results(tmp_path):
    for mode, expected in ((0o755, 0o600), (0o775, 0o640)):
        folder = tmp_path / f"{mode:o}"
        folder.mkdir()
        folder.chmod(mode)
        before = os.umask(0)
        Ledger(folder).prepare()
        os.umask(before)
        assert stat.S_IMODE((folder / "seal.key").stat().st_mode) == expected
        key = seals.key_of(folder)
        Ledger(folder).prepare()
        assert seals.key_of(folder) == key


def by_hand(tmp_path):
    """Attempts of another folder, put into this one with everything that is beside them."""
    with_runs(tmp_path / "theirs", 1, value=0.75)
    shutil.copytree(tmp_path / "theirs" / "runs", tmp_path / "here" / "runs", dirs_exist_ok=True)
    return {0: "run here", 1: "reported"}


def edit(tmp_path):
    edited(with_runs(tmp_path / "here", 1)[0])
    return {0: "run here", 1: "reported"}


def edit_rescored(tmp_path):
    (attempt,) = with_runs(tmp_path / "here", 1)
    rescored_record.write(attempt, attempt.result()["metrics"], {}, {})
    edited(attempt, "rescored.json")
    return {0: "run here", 1: "reported"}


def rescore(tmp_path):
    (attempt,) = with_runs(tmp_path / "here", 1)
    rescored_record.write(attempt, attempt.result()["metrics"], {}, {})
    return {0: "run here", 1: "run here"}


def renamed(tmp_path):
    """The seal of one attempt beside another."""
    (attempt,) = with_runs(tmp_path / "here", 1)
    (other,) = Ledger(tmp_path / "here").attempts(spec(0).key)
    edited(attempt)
    shutil.copy(f"{other.path}.seal", f"{attempt.path}.seal")
    return {0: "run here", 1: "reported"}


def torn(tmp_path):
    """A kill cut off the last line of the seals, and the worker went on."""
    attempt = Attempt.create(Ledger(tmp_path / "here").runs, run_spec(1), environment())
    attempt.path.with_name(f"{attempt.id}.seal").write_text("\n01234")
    commit.conclude(attempt, AttemptResult(run_key=run_spec(1).key, status="done"))
    return {0: "run here", 1: "run here"}


def merge(tmp_path):
    """A forged attempt that is merged, with its seal and the key of its folder."""
    edited(with_runs(tmp_path / "theirs", 1)[0])
    shutil.copy(tmp_path / "here" / "seal.key", tmp_path / "theirs" / "seal.key")
    assert run(["--results", str(tmp_path / "here"), "merge", str(tmp_path / "theirs")]) == 0
    return {0: "run here", 1: "reported"}


def merge_own(tmp_path):
    """Folders of the owner, into one of which somebody put an attempt."""
    with_runs(tmp_path / "part", 1)
    with_runs(tmp_path / "forged", 2)
    shutil.copytree(tmp_path / "forged" / "runs", tmp_path / "part" / "runs", dirs_exist_ok=True)
    assert run(["--results", str(tmp_path / "here"), "merge", "--own", str(tmp_path / "part")]) == 0
    return {0: "run here", 1: "run here", 2: "reported"}


def own_after_all(tmp_path):
    """A copy that somebody sent with metrics of theirs, before the owner's own folder."""
    (mine,) = with_runs(tmp_path / "part", 1)
    shutil.copytree(tmp_path / "part", tmp_path / "sent")
    (sent,) = Ledger(tmp_path / "sent").attempts(spec(1).key)
    rescored_record.write(sent, [{**mine.result()["metrics"][0], "value": 99.0, "version": 7}], {}, {})
    assert run(["--results", str(tmp_path / "here"), "merge", str(tmp_path / "sent")]) == 0
    for _ in range(2):
        assert run(["--results", str(tmp_path / "here"), "merge", "--own", str(tmp_path / "part")]) == 0
        (here,) = Ledger(tmp_path / "here").attempts(spec(1).key)
        assert rescored.read(here.path) == (None, "")
    return {0: "run here", 1: "run here"}


def foreign_launcher(tmp_path):
    (attempt,) = with_runs(tmp_path / "agent", 1)
    edited(attempt)
    key = attempt.path.parent.name
    parcel.receive(Ledger(tmp_path / "here"), key, attempt.id, parcel.attempt_files(attempt), "theirs")
    return {0: "run here", 1: "reported"}


def our_launcher(tmp_path):
    (attempt,) = with_runs(tmp_path / "agent", 1)
    key = attempt.path.parent.name
    parcel.receive(Ledger(tmp_path / "here"), key, attempt.id, parcel.attempt_files(attempt))
    return {0: "run here", 1: "run here"}


def launcher_on_ours(tmp_path):
    """A foreign launcher sends other metrics of a run that was made here."""
    shutil.copytree(tmp_path / "here", tmp_path / "agent")
    (sent,) = Ledger(tmp_path / "agent").attempts(spec(0).key)
    rescored_record.write(sent, [{**sent.result()["metrics"][0], "value": 99.0, "version": 7}], {}, {})
    parcel.receive(Ledger(tmp_path / "here"), sent.path.parent.name, sent.id, parcel.attempt_files(sent), "theirs")
    (mine,) = Ledger(tmp_path / "here").attempts(spec(0).key)
    assert rescored.read(mine.path) == (None, "")
    return {0: "run here"}


WAYS = [
    by_hand, edit, edit_rescored, rescore, renamed, torn, merge, merge_own, own_after_all, foreign_launcher,
    our_launcher, launcher_on_ours,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_was_not_written_here_does_not_count_as_made_here(tmp_path, way):
    with_runs(tmp_path / "here", 0)
    expected = way(tmp_path)
    got = {}
    for key in Ledger(tmp_path / "here").all_keys():
        (attempt,) = Ledger(tmp_path / "here").attempts(key)
        seed = json.loads((attempt.path / "spec.json").read_text())["seed"]
        got[seed] = "reported" if attempt.copied else "run here"
    assert got == expected
    reported = levels(tmp_path / "here")
    assert reported == ({0: "run here"} | {s: level for s, level in expected.items() if level == "run here"})


def test_a_result_that_was_made_here_counts_before_one_that_was_put_beside_it(tmp_path):
    with_runs(tmp_path / "here", 0)
    (forged,) = with_runs(tmp_path / "theirs", 0, value=99.0)
    name = "a000000-20200101T000000000-000000"  # before the other by number and clock
    run_folder = tmp_path / "here" / forged.path.relative_to(tmp_path / "theirs").parent
    shutil.copytree(forged.path, run_folder / name)
    record = json.loads((run_folder / name / "result.json").read_text())
    content = sealed({**{n: v for n, v in record.items() if n != "sha256"}, "attempt": name})
    (run_folder / name / "result.json").write_text(json.dumps(content))
    store = Store(tmp_path / "here")
    store.refresh()
    assert store.rows("select value, copied from run_metric") == [{"value": 0.5, "copied": False}]
    assert Ledger(tmp_path / "here").standing(spec(0).key).attempt.id != name


def before_the_key(results, *seeds):
    """A results folder as an earlier version left it: without seals, with a mark beside what was copied."""
    attempts = with_runs(results, *seeds)
    (results / "seal.key").unlink()
    (results / "ledger.json").write_text(json.dumps({"layout": 3}))
    for path in results.rglob("*.seal"):
        path.unlink()
    return attempts


def test_results_from_before_the_key_keep_their_standing(tmp_path, monkeypatch):
    here = tmp_path / "here"
    attempts = before_the_key(here, 0, 1, 2)
    attempts[1].copied_mark.write_text("theirs")
    attempts[2].copied_mark.write_text("own")
    expected = {0: "run here", 2: "run here"}
    assert levels(here) == expected, "nothing was written since: the marks decide"
    with monkeypatch.context() as patch:
        patch.setattr(seals, "create", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(DataError, match="No space left"):
            Ledger(here).prepare()
    assert [attempt.copied for attempt in attempts] == [False, True, False]
    Ledger(here).prepare()
    assert json.loads((here / "ledger.json").read_text()) == {"layout": LAYOUT}
    assert [attempt.copied for attempt in attempts] == [False, True, False]
    with_runs(tmp_path / "theirs", 3)
    shutil.copytree(tmp_path / "theirs" / "runs", here / "runs", dirs_exist_ok=True)
    assert levels(here) == expected
    shutil.copytree(here, tmp_path / "copy")
    (tmp_path / "copy" / "results.duckdb").unlink()
    assert levels(tmp_path / "copy") == expected, "a copied folder has the key"


def test_a_key_that_cannot_be_read_or_is_damaged(tmp_path, monkeypatch):
    here = tmp_path / "here"
    (attempt,) = with_runs(here, 0)

    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(seals, "read_bytes", refuse)
        assert not attempt.copied, "who may not read the key sees the marks"
        with pytest.raises(DataError, match=r"seal.key cannot be read.*chmod g\+r"):
            Ledger(here).prepare()
    (here / "seal.key").write_bytes(b"short")
    with pytest.raises(DataError, match=r"seal.key is damaged"):
        Ledger(here).prepare()
    (here / "seal.key").unlink()
    (here / "seal.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="is a link"):
        Ledger(here).check_version()


def test_steps_that_a_foreign_launcher_brought_are_not_continued_here(ledger, tmp_path):
    """A checkpoint holds the sums of metrics: what is made here begins here, and so does what our launchers bring."""
    there = Ledger(tmp_path / "there")
    there.prepare()
    attempt = Attempt.create(there.runs, spec(0), environment())
    attempt.save_checkpoint({"theta": np.zeros(3)})
    attempt.event("checkpoint", position=5)
    parcel.receive(ledger, spec(0).key, attempt.id, parcel.attempt_files(attempt), "theirs")
    job = Job([spec(0)], ledger.root, "cpu", "cpu-0")
    packed = {ours: parcel.unpack(agent.make_parcel([job], Local(), Bench(ledger.root), ours=ours)) for ours in (0, 1)}
    assert parcel.attempt_name(spec(0).key, attempt) in packed[0]
    assert parcel.attempt_name(spec(0).key, attempt) not in packed[1]
    new, checkpoint, told = open_attempt(ledger, spec(0), environment())
    assert (new.id != attempt.id, checkpoint) == (True, None)
    assert "its steps were made elsewhere" in told
    commit.conclude(new, AttemptResult(run_key=spec(0).key, status="done"))
    assert not new.copied


def test_the_seals_of_an_attempt_that_is_gone_are_garbage(ledger):
    attempt = concluded(ledger)
    assert garbage.find(ledger) == []
    shutil.rmtree(attempt.path)
    assert attempt.path.with_name(f"{attempt.id}.seal") in [item.path for item in garbage.find(ledger)]
