import json
import signal
import subprocess
import sys
import time
import weakref
from functools import partial
from unittest import mock

import duckdb
import fabricated
import pytest

from harness.results import records
from harness.results.store import Store, connection, ingest, reader, schema
from harness.results.store import store as store_module
from harness.system.errors import DataError
from harness.system.locks import lock_file
from plugins.upkeep import verification

TABLES = [*schema.TABLES, *schema.VIEWS]


def contents(store):
    with connection.reading(store.path) as db:
        return {table: db.execute(f"from {table} order by all").fetchall() for table in TABLES}


def status(store, folder):
    (row,) = store.rows("select status, reason from attempt where attempt = ?", [folder.name])
    return row["status"]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


def test_a_run_arrives_whole(store):
    folder = fabricated.concluded(store.results, seed=7)
    assert store.refresh() == []
    (run,) = store.rows("select * from result")
    assert (run["method"], run["seed"], run["status"], run["passes"]) == ("sgld", 7, "done", 1000.0)
    assert run["run_key"] == fabricated.run_key(7)
    assert run["recorded_by"] == run["attempt"] == folder.name
    assert json.loads(run["origins"])["schedule.step_size"]["source"] == "section 5.1"
    assert (run["finished"] - run["started"]).total_seconds() == 60.25
    assert run["seconds_observing"] == 8.0
    assert (store.results / run["path"]).samefile(folder)
    metrics = store.rows("select metric, value, is_primary from run_metric order by value")
    assert [m["metric"] for m in metrics] == list(fabricated.METRICS)
    assert [m["is_primary"] for m in metrics] == [True, False, False, False]
    assert store.rows("select event from event order by i") == [
        {"event": "created"}, {"event": "started"}, {"event": "finished"},
    ]  # fmt: skip
    (plugin,) = store.rows("select distribution, git_commit, dirty from plugin")
    assert plugin == {"distribution": "sgmcmc-bench", "git_commit": "a" * 40, "dirty": False}
    (artifact,) = store.rows("select file, bytes from artifact")
    assert artifact["bytes"] == (folder / "curves.safetensors").stat().st_size


def test_curves_are_points_without_nan(store):
    fabricated.concluded(store.results)
    store.refresh()
    frame = store.frame("select chain, i, x, y from curve where name = 'b2' order by chain, i")
    assert frame.shape == (200, 4)
    assert frame["y"].null_count() == 1
    assert frame["y"][0] is None
    assert frame.row(103) == (2, 3, 3.0, 3**0.5)
    (one,) = store.rows("select count(*) as n, max(chain) as chain from curve where name = 'modes'")
    assert one == {"n": 50, "chain": 0}


def test_refresh_is_idempotent_and_writes_nothing(store):
    for seed in range(3):
        fabricated.concluded(store.results, seed)
    fabricated.unfinished(store.results, 9)
    store.refresh()
    before, written = contents(store), store.path.stat().st_mtime_ns
    assert store.refresh() == []
    assert contents(store) == before
    assert store.path.stat().st_mtime_ns == written
    assert not store.path.with_name("results.duckdb.wal").exists()


def test_a_rebuilt_database_is_equal(store):
    first = fabricated.unfinished(store.results, 1)
    fabricated.unfinished(store.results, 2, events=("created", "cancelled"))
    fabricated.concluded(store.results, 3, number=1, status="timeout", reason="too long", metrics=[])
    store.refresh()
    fabricated.conclude(first)
    fabricated.concluded(store.results, 3, number=2)
    fabricated.concluded(store.results, 4, status="diverged", step=17, chain=2, metrics=[])
    store.refresh()
    grown = contents(store)
    assert len(grown["attempt"]) == 5
    assert store.rebuild() == []
    assert contents(store) == grown
    store.path.unlink()
    store.refresh()
    assert contents(store) == grown


def test_the_result_of_a_run_is_its_latest_final_attempt(store):
    fabricated.concluded(store.results, number=1)
    fabricated.concluded(store.results, number=2, status="error", reason="it broke", metrics=[])
    fabricated.unfinished(store.results, number=3)
    store.refresh()
    for view in ("result", "run_status"):
        (row,) = store.rows(f"from {view} select status, attempt")
        assert row == {"status": "done", "attempt": "20260102T030401-000000"}


def test_a_failed_run_is_a_row_with_its_reason(store):
    fabricated.concluded(store.results, number=1, status="out_of_memory", reason="8 GiB asked for", metrics=[])
    fabricated.unfinished(store.results, number=2)
    store.refresh()
    assert store.rows("select status, reason from result") == [{"status": "out_of_memory", "reason": "8 GiB asked for"}]
    assert store.rows("select status from run_status") == [{"status": "orphaned"}]
    assert store.rows("select * from run_metric") == []


def test_the_latest_attempt_describes_the_run(store):
    fabricated.conclude(fabricated.unfinished(store.results, number=2, budget="paper"))
    store.refresh()
    fabricated.conclude(fabricated.unfinished(store.results, number=1, budget="steps=1000"))
    store.refresh()
    assert store.rows("select budget from run") == [{"budget": "paper"}]
    fabricated.conclude(fabricated.unfinished(store.results, number=3, budget="quick"))
    store.refresh()
    assert store.rows("select budget from run") == [{"budget": "quick"}]


def test_the_lock_tells_running_from_orphaned(store):
    older = fabricated.unfinished(store.results, number=1)
    newer = fabricated.unfinished(store.results, number=2, events=("created", "cancelled", "resumed"))
    locks = store.results / "locks"
    locks.mkdir()
    with lock_file(locks / f"{newer.parent.name}.lock", 0):
        store.refresh()
        assert (status(store, older), status(store, newer)) == ("orphaned", "running")
    store.refresh()
    assert (status(store, older), status(store, newer)) == ("orphaned", "orphaned")
    fabricated.conclude(newer)
    store.refresh()
    assert (status(store, older), status(store, newer)) == ("orphaned", "done")


def test_a_line_cut_off_by_a_kill_costs_only_itself(store):
    folder = fabricated.unfinished(store.results)
    with (folder / "events.jsonl").open("a") as stream:
        stream.write(
            '{"time": "2026-01-02T03:04:09+00:00", "ev\n{"time": "2026-01-02T03:05:00Z", "event": "cancelled"}\n'
        )
    assert store.refresh() == []
    assert [row["i"] for row in store.rows("select i from event order by i")] == [0, 1, 3]
    assert status(store, folder) == "cancelled"


def test_without_a_results_folder_nothing_is_made(store):
    (note,) = store.refresh()
    assert "there is no results folder" in note
    assert store.rows("select * from run") == []
    assert not store.results.exists()


@pytest.mark.parametrize("name", ["result.json", "curves.safetensors"])
def test_a_run_done_again_since_its_result_was_damaged_counts_once(store, name):
    damaged = fabricated.concluded(store.results, 0, number=7)
    fabricated.concluded(store.results, 1, number=7)
    store.refresh()
    (damaged / name).write_bytes(b"{")
    again = fabricated.concluded(store.results, 0, number=3)  # the clock was set back meanwhile
    store.refresh()
    assert {row["attempt"] for row in store.rows("select attempt from result where seed = 0")} == {again.name}
    refreshed = contents(store)
    store.rebuild()
    assert contents(store) == refreshed


def test_columns_are_declared_and_explained():
    with connection.in_memory() as db:
        rows = db.execute(
            "select table_name, column_name, lower(data_type), is_nullable from duckdb_columns() "
            "where table_name in (select table_name from duckdb_tables())"
        ).fetchall()
    declared = {(t, c.name, c.type, c.nullable) for t, table in records.TABLES.items() for c in table.columns.values()}
    assert set(rows) == declared
    assert all(column.comment for table in records.TABLES.values() for column in table.columns.values())


@pytest.mark.parametrize(
    ("version", "change"),
    [("6", "select 1"), ("99", "alter table run drop column execution"), ("0a" * 8, "create table more (a int)")],
)
def test_a_database_of_another_schema_is_set_aside_and_the_runs_are_read(store, version, change):
    fabricated.concluded(store.results, 1)
    store.refresh()
    before = contents(store)
    with duckdb.connect(str(store.path)) as db:
        db.execute("update meta set value = ?", [version])
        db.execute(change)
    with pytest.raises(DataError, match="has the tables of another version"):
        store.rows("select * from run")
    (note,) = Store(store.results).refresh()
    (aside,) = store.results.glob("results.duckdb.older-*")
    assert aside.name in note
    assert contents(store) == before
    assert store.refresh() == []


INTERRUPTED = RuntimeError("Query interrupted")


@pytest.mark.parametrize("instead", [False, True])
def test_ctrl_c_in_a_query_is_ctrl_c_and_no_error_that_a_caller_may_report(store, instead, monkeypatch):
    """DuckDB raises an error like any other, and a night took it for a broken report."""
    fabricated.concluded(store.results, 1)
    if instead:
        monkeypatch.setattr(store_module, "_fill", mock.Mock(side_effect=connection.Refused("read-only")))
    store.refresh()
    for opened in (store.reading, connection.in_memory, partial(connection.writing, store.path.with_name("other"))):
        with pytest.raises(KeyboardInterrupt), opened():
            raise INTERRUPTED
    for where in ("harness.results.store.schema.create", "duckdb.connect"):
        with monkeypatch.context() as patched:
            patched.setattr(where, mock.Mock(side_effect=INTERRUPTED))
            patched.setattr(connection.instances, "_instances", {})  # those that were started would be used again
            for opened in (connection.in_memory, partial(connection.writing, store.path.with_name("another"))):
                with pytest.raises(KeyboardInterrupt), opened():
                    pass
    with pytest.raises(RuntimeError, match="else"), store.reading():
        raise RuntimeError("something else")


def test_duckdb_names_ctrl_c_as_before():
    program = """if True:
        import duckdb, signal
        try:
            print(flush=True)
            duckdb.connect().execute("select count(*) from range(1000000000000) t(i) where i % 7 = 3")
        except (RuntimeError, KeyboardInterrupt) as error:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            print(repr(error), flush=True)
    """
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        while process.poll() is None:  # DuckDB looks for it only now and then
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        assert process.stdout.read().splitlines()[:1] in ([repr(INTERRUPTED)], ["KeyboardInterrupt()"])


@pytest.fixture
def alive(monkeypatch):
    """The greatest number of attempts' records that are in memory at once, in batches of four."""
    monkeypatch.setattr(ingest, "MAX_ATTEMPTS", 4)
    read, seen, most = reader.read, [], [0]

    def counting(*arguments):
        record = read(*arguments)
        seen.append(weakref.ref(record))
        most[0] = max(most[0], sum(known() is not None for known in seen))
        return record

    monkeypatch.setattr(reader, "read", counting)
    return most


def test_memory_holds_one_batch_of_attempts(tmp_path, alive):
    for seed in range(24):
        fabricated.concluded(tmp_path, seed)
    store = Store(tmp_path)
    for work in (store.refresh, lambda: verification.of_database(store), store.rebuild):
        alive[0] = 0
        assert work() == []
        assert 4 <= alive[0] <= 6


def test_what_is_ingested_in_batches_is_what_is_ingested_at_once(tmp_path, monkeypatch):
    for seed in range(6):
        fabricated.concluded(tmp_path, seed)
        fabricated.concluded(tmp_path, seed, number=1)
    contents = []
    for most in (1, 500):
        monkeypatch.setattr(ingest, "MAX_ATTEMPTS", most)
        store = Store(tmp_path)
        store.rebuild()
        contents.append({name: sorted(map(repr, store.rows(f"from {name}"))) for name in (*ingest.SHARED, *ingest.OWN)})
    assert contents[0] == contents[1]
    assert all(contents[0].values())
