"""What is settled is not read again; nothing that comes, goes or changes is missed, however coarse the clock."""

from __future__ import annotations

import os
import shutil
import time

import duckdb
import fabricated
import pytest

from harness.results.ledger import ledger, rescored
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.ledger import Ledger
from harness.results.store import Store, scan_cache

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
        place = str(folder).partition("/runs/")[2]
        if place and "/" not in place:
            listed.append(place)
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


@pytest.mark.parametrize("killed", [False, True])
def test_metrics_that_were_computed_again_are_read_whenever_that_was_interrupted(store, later, killed, monkeypatch):
    """The command that writes them does not speak to the database; a kill right after the write changes nothing."""
    folder = fabricated.concluded(store.results, 1)
    settle(store, later)
    metrics = [{**metric, "value": 0.125} for metric in Attempt(folder).result()["metrics"]]
    if killed:
        monkeypatch.setattr(Store, "refresh", lambda *_: pytest.fail("it was killed before"))
    rescored.write(Attempt(folder), metrics, {}, {})
    monkeypatch.undo()
    later()
    assert store.refresh() == []
    assert value_of(store, folder) == 0.125
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
