"""What gc takes and what it never takes, alone and beside workers."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from specs import run_spec as spec

from harness.reporting.scoring import cache
from harness.results.ledger import commit
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.ledger.ledger import Ledger
from harness.results.records import AttemptResult
from harness.results.spec import Component
from harness.system.files import aside
from harness.system.locks import lock_file
from plugins.upkeep import garbage, rescored_record

HERE = {"id": "e"}
KEY = spec().key
OLD = "20260101T000000000-aaaaaa"


def attempt(ledger, status=None, seed=0, **members):
    """An attempt with a checkpoint and draws; concluded where there is a status."""
    new = Attempt.create(ledger.runs, spec(seed), HERE)
    new.save_checkpoint({"theta": np.zeros(3)})
    new.append_draws(np.zeros((2, 2, 3)))
    if status:
        conclude(new, AttemptResult(status=status, **members))
    return new


def garbage_of(ledger, **options):
    return {str(item.path.relative_to(ledger.root)): item for item in garbage.find(ledger, **options)}


def contents(folder):
    """The files below a folder, without the claims of results."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.stem.isdigit())
    return {path: path.read_bytes() for path in files}


def test_figure_data_go_with_their_runs(ledger):
    attempt(ledger, "done")
    for key in (KEY, "0" * 64):
        cache.keep(ledger.root, "interpolation", key, {"code": "a"}, lambda: [1])
    (ledger.root / cache.FOLDER / "mine.txt").touch()
    assert list(garbage_of(ledger)) == [f"figures/interpolation.{'0' * 64}.json"]
    gone, notes = garbage.remove(ledger, garbage.find(ledger))
    assert (len(gone), notes) == (1, [])
    assert cache.find(ledger.root, "interpolation", KEY, {"code": "a"}) == [1]


def test_only_what_a_final_attempt_replaced_goes(ledger):
    unfinished, damaged, failed = attempt(ledger), attempt(ledger, "done"), attempt(ledger, "error")
    (damaged.path / "result.json").write_text("{}")
    assert garbage.find(ledger, failed=True) == []
    final = attempt(ledger, "diverged")
    later = attempt(ledger)
    whys = {name.rpartition("/")[2]: item.why for name, item in garbage_of(ledger).items()}
    assert whys == {
        unfinished.id: f"unfinished; {final.id} finished the run",
        damaged.id: f"damaged; {final.id} finished the run",
        later.id: f"unfinished; {final.id} finished the run",
    }
    assert {name.rpartition("/")[2] for name in garbage_of(ledger, failed=True)} == {*whys, failed.id}
    seals = [path for path in ledger.runs.rglob("*.seal") if path.stem in {final.id, failed.id}]
    kept = contents(final.path) | contents(failed.path) | {path: path.read_bytes() for path in seals}
    gone, notes = garbage.remove(ledger, garbage.find(ledger))
    assert (len(gone), len(seals), notes) == (3, 2, [])
    assert sum(item.bytes for item in gone) > 0
    assert contents(ledger.runs) == kept
    assert ledger.standing(KEY).attempt.id == final.id
    (ledger.root / ".trash").rmdir()
    assert garbage.find(ledger) == []


def test_what_interrupted_writes_left_goes(ledger):
    going, ended = attempt(ledger), attempt(ledger, "done", seed=1)
    kept = contents(ledger.root)
    old = time.time() - 4000
    places = [
        going.path / ".checkpoint.safetensors.0123456789abcdef",
        ended.path / "draws.part", ended.path / "checkpoint.safetensors",
        ledger.runs / KEY[:2] / KEY / OLD / "environment.json",
        ledger.root / ".results.duckdb.0123456789abcdef.wal",
        ledger.root / "results.duckdb.damaged-20260101T000000", ledger.locks / f"{KEY}.lock",
        ledger.locks / f"{KEY}.notice", ledger.locks / f".{KEY}.notice.0123456789abcdef",
    ]  # fmt: skip
    for path in places:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * 7)
        os.utime(path, (old, old))
    listed = garbage.find(ledger)
    assert len(listed) == len(places)
    assert {item.bytes for item in listed} == {7}
    gone, notes = garbage.remove(ledger, listed)
    assert (len(gone), notes) == (len(places), [])
    (ledger.root / ".trash").rmdir()
    assert contents(ledger.root) == kept


RUN = f"runs/{KEY[:2]}/{KEY}"
ATTEMPT = "a000007-20260101T000000000-aaaaaa"
WRITTEN = [
    "ledger.json", "results.settled.json", "results.duckdb", f"locks/{KEY}.notice", "truths/a-0123456789abcdef.json",
    f"figures/interpolation.{KEY}.json", "tuning/tuned.json", "nights/smoke/000001.json",
    f"files/{KEY}", "jobs/0123456789abcdef.json", "jobs/0123456789abcdef/job.tar", f"{RUN}/1.json",
    f"{RUN}/{ATTEMPT}.copied",
    *(f"{RUN}/{ATTEMPT}/{name}" for name in ("result.json", "rescored-0123456789ab.safetensors", "spec.json")),
]  # fmt: skip
FOLDERS = [f"{RUN}/{ATTEMPT}", f"conflicts/{KEY[:12]}-{ATTEMPT}-0123456789ab"]


@pytest.mark.parametrize("path", [*WRITTEN, *FOLDERS])
def test_what_an_interrupted_write_leaves_is_listed_wherever_it_is(ledger, path):
    """Every file and folder that some command writes below the results folder, under its temporary name."""
    left = aside(ledger.root / path)
    left.parent.mkdir(parents=True, exist_ok=True)
    if path in FOLDERS:
        left.mkdir()
        (left / "draws.part").write_bytes(b"x")
    else:
        left.write_bytes(b"x")
    (ledger.folder(KEY) / ATTEMPT).mkdir(parents=True, exist_ok=True)
    (ledger.folder(KEY) / ATTEMPT / "spec.json").write_text("{}")
    os.utime(left, (0, 0))
    listed = garbage.find(ledger)
    assert [item.path for item in listed] == [left]
    gone, notes = garbage.remove(ledger, listed)
    assert ([item.path for item in gone], notes, left.exists()) == ([left], [], False)


def test_a_change_is_listed_when_every_database_has_had_the_time_to_follow_it(ledger):
    rescored_run = attempt(ledger, "done")
    for _ in range(2):
        rescored_record.write(rescored_run, [], {}, {})
    old, *others = sorted((ledger.root / "changed").iterdir())
    os.utime(old, (time.time() - 91 * 86400,) * 2)
    assert others
    assert list(garbage_of(ledger)) == [f"changed/{old.name}"]


def test_files_of_the_user_go_when_no_run_names_them(ledger):
    params = {"file": f"sha256:{KEY}"}
    named = spec(7, task=Component("a", "m:C", "0" * 64, params))
    Attempt.create(ledger.runs, named, HERE)
    (ledger.root / "files").mkdir()
    for name in (KEY, "0" * 64, "1" * 64, "mine.csv"):
        (ledger.root / "files" / name).write_text("1")
        os.utime(ledger.root / "files" / name, None if name[0] == "1" else (0, 0))
    assert list(garbage_of(ledger)) == [f"files/{'0' * 64}"]


def test_a_second_result_can_be_deleted_with_its_folder(ledger):
    first, second = attempt(ledger), attempt(ledger)
    conclude(first, AttemptResult(status="done"))
    commit.move_aside(second, "0" * 64)
    (item,) = garbage.find(ledger)
    assert item.why == "a second result of a run, which does not count"
    assert garbage.remove(ledger, [item])[0] == [item]
    assert list(ledger.conflicts.iterdir()) == []


@pytest.mark.parametrize(("age", "goes"), [(5, False), (3500, False), (4000, True)])
def test_a_file_that_may_still_be_written_stays(ledger, age, goes):
    path = ledger.root / ".ledger.json.0123456789abcdef"
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
    with lock_file(ledger.lock(KEY), 0):
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


def photographs(ledger, *parts):
    """A stranger's folder that looks like one of ours below some level, and the contents of the whole of it."""
    folder = ledger.root.parent.joinpath("photographs", *parts)
    folder.mkdir(parents=True)
    for name in ("summer.jpg", "draws.part", "environment.json", f".{KEY}.notice.1", f"{KEY}-cpu.json"):
        (folder / name).write_text("a photograph")
        os.utime(folder / name, (0, 0))
    return ledger.root.parent / "photographs"


def link(path, *parts):
    """Something that puts a link to a stranger's folder in the place of one of ours."""

    def plant(ledger):
        ours = ledger.root / path
        ours.parent.mkdir(parents=True, exist_ok=True)
        if ours.exists():
            ours.rmdir()
        ours.symlink_to(photographs(ledger, *parts))

    return plant


def link_attempt(ledger):
    attempt(ledger, "done").path.with_name(OLD).symlink_to(photographs(ledger))


def link_file(ledger):
    ended = attempt(ledger, "done").path
    (ended / "draws.part").symlink_to(photographs(ledger) / "draws.part")
    (ended / ".draws.part.1").symlink_to(photographs(ledger, "more") / "draws.part")


def link_to_an_attempt(ledger):
    real = attempt(ledger).path.rename(ledger.root.parent / "elsewhere")
    attempt(ledger, "done").path.with_name(OLD).symlink_to(real)


def link_trash(ledger):
    (ledger.root / ".trash").symlink_to(photographs(ledger, OLD).parent)


def folder_of_drafts(ledger):
    (ledger.runs / "no" / "notes" / "mydrafts").mkdir(parents=True)
    (ledger.runs / "no" / "notes" / "mydrafts" / "novel.txt").write_text("x")


def odd_part(ledger):
    photographs(ledger, OLD).rename(ledger.runs / KEY)


def odd_key(ledger):
    (ledger.runs / KEY[:2]).mkdir()
    photographs(ledger, OLD).rename(ledger.runs / KEY[:2] / KEY[:40])


def odd_attempt(ledger):
    photographs(ledger).rename(attempt(ledger, "done").path.with_name("holidays"))


def drafts_in_an_attempt(ledger):
    unfinished = attempt(ledger)
    attempt(ledger, "done")
    (unfinished.path / "novel.txt").write_text("x")


def folder_in_an_attempt(ledger):
    unfinished = attempt(ledger)
    attempt(ledger, "done")
    (unfinished.path / "curves.safetensors").mkdir()


def folder_as_a_file(ledger):
    photographs(ledger).rename(attempt(ledger, "done").path / "draws.part")


def odd_files(ledger):
    folders = ((ledger.root, ".photographs-2024"), (ledger.locks, "diary.lock"), (ledger.locks, "x.notice"))
    for folder, name in (*folders, (ledger.root, "results.duckdb.damaged-by-me"), (ledger.root, ".ledger.json")):
        (folder / name).write_text("x")
        os.utime(folder / name, (0, 0))


def drafts_in_the_trash(ledger):
    (ledger.root / ".trash" / OLD).mkdir(parents=True)
    (ledger.root / ".trash" / OLD / "novel.txt").write_text("x")
    (ledger.root / ".trash" / "novel.txt").write_text("x")


LINKS = {"runs": (KEY[:2], KEY, OLD), f"runs/{KEY[:2]}": (KEY, OLD), RUN: (OLD,), "locks": (), "truths": ()}
"""Folders of ours -> what is below a stranger's folder that looks like them."""
ALIEN = {
    **{f"link {path}": link(path, *parts) for path, parts in LINKS.items()},
    **{plant.__name__: plant for plant in (
        link_attempt, link_file, link_to_an_attempt, link_trash, folder_of_drafts, odd_part, odd_key, odd_attempt,
        drafts_in_an_attempt, folder_in_an_attempt, folder_as_a_file, odd_files, drafts_in_the_trash,
    )},
}  # fmt: skip


@pytest.mark.parametrize("plant", ALIEN.values(), ids=ALIEN)
def test_what_is_not_its_own_stays(plant, ledger, tmp_path):
    plant(ledger)
    before = contents(tmp_path)
    links = {path: path.readlink() for path in tmp_path.rglob("*") if path.is_symlink()}
    garbage.remove(ledger, garbage.find(ledger, failed=True), failed=True)
    assert contents(tmp_path) == before
    assert {path: path.readlink() for path in tmp_path.rglob("*") if path.is_symlink()} == links


def test_a_link_that_takes_a_folders_place_after_the_listing_is_not_followed(ledger, tmp_path):
    unfinished, final = attempt(ledger), attempt(ledger, "done")
    listed = garbage.find(ledger)
    (ledger.runs / KEY[:2]).rename(tmp_path / "elsewhere")
    (ledger.runs / KEY[:2]).symlink_to(tmp_path / "elsewhere")
    before = contents(tmp_path / "elsewhere")
    assert garbage.remove(ledger, listed)[0] == []
    assert contents(tmp_path / "elsewhere") == before
    assert unfinished.path.exists()
    assert final.path.exists()


def test_the_results_folder_itself_may_be_a_link(ledger, tmp_path):
    unfinished, final = attempt(ledger), attempt(ledger, "done")
    (tmp_path / "link").symlink_to(ledger.root)
    linked = Ledger(tmp_path / "link")
    gone, notes = garbage.remove(linked, garbage.find(linked))
    assert (len(gone), notes) == (1, [])
    assert not unfinished.path.exists()
    assert final.path.exists()


WORK = """
import sys
from pathlib import Path
import numpy as np
from specs import run_spec
from harness.reporting.scoring import cache
from harness.results.ledger import commit
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.ledger.ledger import Ledger
from harness.results.records import AttemptResult
from harness.results.spec import Component
ledger = Ledger(Path(sys.argv[1]))
for seed in range(20):
    with ledger.hold(run_spec(seed).key, 30):
        if ledger.standing(run_spec(seed).key).cached:
            continue
        for status in (None, "error", "done"):
            attempt = Attempt.create(ledger.runs, run_spec(seed), {"id": "e"})
            attempt.save_checkpoint({"theta": np.zeros(30)})
            attempt.append_draws(np.zeros((2, 2, 3)))
            if status:
                attempt.save_arrays("curves", {"x": np.zeros(9)})
                conclude(attempt, AttemptResult(status=status, reason=sys.argv[2]))
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
    assert went >= 20
    for seed in range(20):
        statuses = sorted(attempt.result()["status"] for attempt in ledger.attempts(spec(seed).key))
        assert statuses == ["done", "error"]  # each run finished once, by whichever worker
    assert list(ledger.locks.iterdir()) == []
