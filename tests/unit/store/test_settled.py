"""What is settled is not read again; nothing that comes, goes or changes is missed, however coarse the clock."""

import os
import shutil
import time
from pathlib import Path
from unittest import mock

import duckdb
import fabricated
import pytest

from harness.results.ledger import commit, ledger
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.ledger import Ledger
from harness.results.store import Store, changes, scan_cache
from harness.results.store import store as store_module
from plugins.upkeep import rescored_record

SECOND = 10**9


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


@pytest.fixture
def later(monkeypatch):
    """Seconds pass without waiting for them."""
    passed = [0]
    real = time.time_ns
    monkeypatch.setattr(scan_cache.time, "time_ns", lambda: real() + passed[0] * SECOND)

    def wait(seconds=10):
        passed[0] += seconds

    return wait


@pytest.fixture
def read(monkeypatch):
    """The parts whose folders were listed since it was last cleared."""
    listed = []
    directories = ledger.folders

    def listing(folder):
        inner = str(folder).partition("/runs/")[2]
        if inner and "/" not in inner:
            listed.append(inner)
        return directories(folder)

    monkeypatch.setattr(ledger, "folders", listing)
    return listed


def settle(store, later):
    store.refresh()
    later()
    assert store.refresh() == []


def part(folder):
    return folder.parent.parent.name


def test_settled_parts_are_not_read_and_new_runs_are_found(store, later, read):
    for seed in range(5):
        fabricated.concluded(store.results, seed)
    settle(store, later)
    read.clear()
    store.refresh()
    assert read == []
    new = fabricated.concluded(store.results, 6)
    store.refresh()
    assert read == [part(new)]
    assert len(store.rows("select 1 from attempt")) == 6


def test_nothing_is_settled_by_a_look_that_found_something_or_came_too_soon(store, later, read):
    folder = fabricated.concluded(store.results)
    store.refresh()
    store.refresh()
    assert not (store.results / "results.settled.json").exists()
    later()
    store.refresh()
    assert (store.results / "results.settled.json").exists()
    read.clear()
    store.refresh()
    assert read == []
    later(-60)  # a clock set back: the folders are from the future
    store.refresh()
    assert read == [part(folder)]


def test_another_attempt_at_an_old_run_is_found(store, later):
    fabricated.concluded(store.results, number=1, status="error", reason="it broke", metrics=[])
    settle(store, later)
    fabricated.concluded(store.results, number=2)
    store.refresh()
    assert store.rows("select status from result") == [{"status": "done"}]


def test_an_unfinished_attempt_is_read_again_though_its_part_is_settled(store, later, read):
    folder = fabricated.unfinished(store.results)
    settle(store, later)
    fabricated.conclude(folder)
    read.clear()
    store.refresh()
    assert read == []
    assert store.rows("select status from attempt") == [{"status": "done"}]


def test_an_attempt_copied_with_its_times_is_found(store, later, tmp_path):
    first = fabricated.concluded(store.results, number=1, status="error", reason="it broke", metrics=[])
    settle(store, later)
    other = fabricated.concluded(tmp_path / "other", number=2)
    times = [(path, path.stat()) for path in (first.parent, first.parent.parent)]
    shutil.copytree(other, first.parent / other.name)
    for path, before in times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    store.refresh()
    assert len(store.rows("select 1 from attempt")) == 2


def test_what_is_not_whole_is_told_each_time_and_taken_when_it_is(store, later):
    folder = fabricated.concluded(store.results)
    whole = (folder / "result.json").read_text()
    (folder / "result.json").write_text(whole[:-9])
    for _ in range(3):
        (note,) = store.refresh()
        assert "is left out" in note
        later()
    (folder / "result.json").write_text(whole)  # this changes no folder
    assert store.refresh() == []
    assert store.rows("select status from attempt") == [{"status": "done"}]


@pytest.mark.parametrize("how", ["restored", "write-ahead log"])
def test_a_database_that_lacks_something_again_gets_it_again(store, later, how, tmp_path):
    fabricated.concluded(store.results, 1)
    store.refresh()
    shutil.copy2(store.path, tmp_path / "older")
    second = fabricated.concluded(store.results, 2)
    settle(store, later)
    if how == "restored":
        shutil.copy2(tmp_path / "older", store.path)
    else:
        with duckdb.connect(str(store.path)) as db:  # as a kill after the commit leaves it
            db.execute("set checkpoint_threshold = '1GB'")
            db.execute("pragma disable_checkpoint_on_shutdown")
            db.execute("delete from attempt where attempt = ?", [second.name])
        assert (store.results / "results.duckdb.wal").exists()
    later()
    assert store.refresh() == []
    assert len(store.rows("select 1 from attempt")) == 2


def value_of(store, folder):
    query = "select value from metric where attempt = $1 and name = 'modes_covered'"
    return store.rows(query, [folder.name])[0]["value"]


def compute_again(folder, value):
    metrics = [{**metric, "value": value} for metric in Attempt(folder).result()["metrics"]]
    rescored_record.write(Attempt(folder), metrics, {}, {})


def test_a_change_that_comes_while_an_earlier_one_is_read_is_read_too(store, monkeypatch):
    """Two `bench rescore` at once: the first reads the database's news while the second writes."""
    folder = fabricated.concluded(store.results, 1)
    store.refresh()
    compute_again(folder, 0.125)

    def reread(*given):
        read = list(changes.reread(*given).records)
        compute_again(folder, 0.25)
        return changes.News(read)

    with monkeypatch.context() as patched:
        patched.setattr("harness.results.store.store.reread", reread)
        assert store.refresh() == []
    assert store.refresh() == []
    assert value_of(store, folder) == 0.25


@pytest.mark.parametrize("first", [True, False])
def test_what_another_command_read_before_a_change_does_not_stay(store, first):
    """The other command looks, the metrics change, and it writes what it saw before this one reads, or after."""
    folder = fabricated.concluded(store.results, 1)
    fabricated.concluded(store.results, 2)
    seen = list(changes.news(store.results, changes.Known()).records)

    def writes_what_it_saw():
        store_module._fill(store.path, changes.News(seen))

    compute_again(folder, 0.125)
    if first:
        writes_what_it_saw()
        assert store.refresh() == []
    else:
        assert store.refresh() == []
        writes_what_it_saw()
    assert store.refresh() == []
    assert value_of(store, folder) == 0.125
    assert list((store.results / "changed").iterdir()) == []


def test_an_attempt_that_changes_while_the_database_is_first_filled_is_read_again(store, monkeypatch):
    folder = fabricated.concluded(store.results, 1)
    fill = store_module._fill

    def later(path, news, redone=None):
        news.records = list(news.records)
        compute_again(folder, 0.125)
        fill(path, news, redone)

    with monkeypatch.context() as patched:
        patched.setattr("harness.results.store.store._fill", later)
        assert store.refresh() == []
    assert value_of(store, folder) == 0.125


def test_each_machine_that_shares_a_folder_reads_a_change(store, tmp_path, monkeypatch):
    folder = fabricated.concluded(store.results, 1)
    monkeypatch.setattr(Ledger, "locks_reach", lambda _: False)
    machines = []
    for name in ("first", "second"):
        monkeypatch.setenv("BENCH_CACHE", str(tmp_path / name))
        machines.append(Store(store.results))
        assert machines[-1].refresh() == []
    for value in (0.125, 0.25):
        compute_again(folder, value)
        for machine in (*machines, *machines):
            assert machine.refresh() == []
            assert value_of(machine, folder) == value


def test_a_machine_that_does_not_see_the_hold_reads_a_change_that_was_under_way(store, later, monkeypatch):
    folder = fabricated.concluded(store.results, 1)
    monkeypatch.setattr(Ledger, "held", lambda *_: False)
    settle(store, later)
    whole = commit.write_whole

    def beside(*given):
        assert store.refresh() == []
        whole(*given)

    with monkeypatch.context() as patched:
        patched.setattr(commit, "write_whole", beside)
        compute_again(folder, 0.125)
    later()
    assert store.refresh() == []
    assert value_of(store, folder) == 0.125


def test_a_kill_right_after_a_change_leaves_it_to_be_read(store, later, monkeypatch):
    folder = fabricated.concluded(store.results, 1)
    settle(store, later)
    whole = commit.write_whole

    def killed(*given):
        whole(*given)
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(commit, "write_whole", killed)
        with pytest.raises(SystemExit):
            compute_again(folder, 0.125)
    later()
    assert store.refresh() == []
    assert value_of(store, folder) == 0.125


def test_marks_that_cannot_be_deleted_are_followed_again(store, monkeypatch):
    """Somebody else's folder, for example: reading goes on."""
    folder = fabricated.concluded(store.results, 1)
    store.refresh()
    compute_again(folder, 0.125)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", mock.Mock(side_effect=PermissionError(13, "Permission denied")))
        assert store.refresh() == []
        assert value_of(store, folder) == 0.125
    assert store.refresh() == []
    assert list((store.results / "changed").iterdir()) == []


def test_an_attempt_that_is_being_changed_is_read_until_the_change_is_over(store):
    folder = fabricated.concluded(store.results, 1)
    store.refresh()
    (store.results / "changed").mkdir()
    (store.results / "changed" / f"{folder.parent.name}.{folder.name}").touch()
    with Ledger(store.results).hold(folder.parent.name, 0):
        assert store.refresh() == []
        assert len(list((store.results / "changed").iterdir())) == 1
    assert store.refresh() == []
    assert list((store.results / "changed").iterdir()) == []
    assert len(store.rows("select * from result")) == 1
