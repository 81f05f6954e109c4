"""Databases are attached to instances of DuckDB that the process keeps."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import duckdb
import fabricated
import pytest

from harness.results.store import Store, connection, instances

WRITES = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute('create table more as select 1')"


@pytest.fixture
def store(tmp_path):
    fabricated.concluded(tmp_path / "results", 1)
    store = Store(tmp_path / "results")
    store.refresh()
    return store


@pytest.fixture
def started(monkeypatch):
    """The paths of instances that DuckDB starts from now on."""
    connect, paths = duckdb.connect, []
    monkeypatch.setattr(instances, "_instances", {})
    monkeypatch.setattr(duckdb, "connect", lambda path, **options: paths.append(path) or connect(path, **options))
    return paths


def written_by_another_process(path):
    return subprocess.run([sys.executable, "-c", WRITES, str(path)], check=False, capture_output=True).returncode == 0


def test_one_instance_serves_all_reading_of_a_database(store, started):
    for _ in range(3):
        assert len(store.rows("select * from run")) == 1
    with store.reading() as one, store.reading() as another:
        assert one.execute("select seed from run").fetchall() == another.execute("select seed from run").fetchall()
    assert started == [":memory:"]


def test_one_instance_serves_all_databases_in_memory(started):
    with connection.in_memory() as one, connection.in_memory() as another:
        one.execute("insert into meta values ('of', 'one')")
        assert not another.execute("select * from meta where key = 'of'").fetchall()
        with instances.beside(one) as beside:
            assert beside.execute("select value from meta where key = 'of'").fetchall() == [("one",)]
    assert started == [":memory:"]


def test_the_file_is_open_while_it_is_read_and_no_longer(store):
    with store.reading():
        with store.reading():
            pass
        assert not written_by_another_process(store.path)
    assert written_by_another_process(store.path)


def test_what_replaced_the_file_is_read(store):
    assert len(store.rows("select * from run")) == 1
    fabricated.concluded(store.results, 2)
    store.rebuild()
    assert len(store.rows("select * from run")) == 2


def test_a_reading_that_failed_ends_its_instance_and_no_other(store, started):
    with pytest.raises(ZeroDivisionError), store.reading():
        1 / 0  # noqa: B018
    assert len(store.rows("select * from run")) == 1
    assert len(started) == 2
    with pytest.raises(ZeroDivisionError), connection.in_memory():
        1 / 0  # noqa: B018
    with connection.in_memory():
        pass
    assert len(started) == 4


@pytest.mark.usefixtures("started")
def test_few_instances_are_kept(store, tmp_path):
    paths = [tmp_path / f"{number}.duckdb" for number in range(instances.KEPT + 3)]
    for path in paths:
        path.write_bytes(store.path.read_bytes())
    with ExitStack() as all_at_once:
        for path in paths:
            all_at_once.enter_context(connection.reading(path))
        assert len(instances._instances) == len(paths)
    assert [path for _, path in instances._instances] == [str(path) for path in paths[-instances.KEPT :]]


def test_a_forked_process_starts_its_own(store):
    assert len(store.rows("select * from run")) == 1
    child = os.fork()
    if not child:
        signal.alarm(60)
        os._exit(len(store.rows("select * from run")))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_an_instance_opens_its_own_files_alone(store, tmp_path):
    other = tmp_path / "other.duckdb"
    other.write_bytes(store.path.read_bytes())
    with connection.reading(store.path) as db:
        for statement in (
            f"attach '{other}' as other",
            f"from read_text('{other}')",
            f"copy (select 1) to '{other}'",
            f"copy (select 1) to '{store.path}'",
            "create table results.more as select 1",
            "create table memory.more as select 1",
            "copy from database results to memory",
            "set allowed_paths = ['/']",
            "set enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                db.execute(statement)


def test_a_path_with_quotes_is_read(store, tmp_path):
    quoted = tmp_path / 'it\'s "the" results.duckdb'
    quoted.write_bytes(store.path.read_bytes())
    with connection.reading(quoted) as db:
        assert db.execute("select count(*) from run").fetchall() == [(1,)]
