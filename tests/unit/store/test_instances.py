"""Databases are attached to instances of DuckDB that the process keeps."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

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
    assert [*instances._instances] == [str(path) for path in paths[-instances.KEPT :]]


FORKS = """
import os, signal, sys, threading
from pathlib import Path
from harness.results.store import Store, connection, instances

store = Store(Path(sys.argv[1]))
assert len(store.rows("select * from run")) == 1
with connection.in_memory():
    pass
held, waits = threading.Event(), threading.Event()

def hold():
    with instances._guard:
        held.set()
        waits.wait(1)

thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(60)
    sys.exit(40 + len(store.rows("select * from run")))
assert len(store.rows("select * from run")) == 1
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_reads_and_ends_as_any_other(store):
    forks = subprocess.run([sys.executable, "-c", FORKS, str(store.results)], check=False, timeout=120)
    assert forks.returncode == 41


def test_a_file_has_one_instance_whatever_it_is_called(store, started, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(store.results)
    monkeypatch.chdir(tmp_path)
    names = ["results/results.duckdb", "link/results.duckdb", "results/../results/results.duckdb", store.path]
    with ExitStack() as all_at_once:
        for name in names:
            with connection.reading(Path(name)) as db:
                assert db.execute("select count(*) from run").fetchall() == [(1,)]
            all_at_once.enter_context(connection.reading(Path(name)))
        assert not written_by_another_process(store.path)
    (tmp_path / "elsewhere" / "~x").mkdir(parents=True)
    (tmp_path / "elsewhere" / "results").symlink_to(store.results)
    (tmp_path / "elsewhere" / "~x" / "results.duckdb").write_bytes(store.path.read_bytes())
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert started == [":memory:"]
    for name in (names[0], "~x/results.duckdb"):
        with connection.reading(Path(name)) as db:
            assert db.execute("select count(*) from run").fetchall() == [(1,)]


def test_a_file_that_this_process_reads_is_busy_for_its_writing(store, monkeypatch):
    monkeypatch.setattr(connection, "LOCK_TIMEOUT_SECONDS", 0.1)
    with (
        connection.reading(store.path),
        pytest.raises(connection.Busy, match="is open in this process"),
        connection.writing(store.path),
    ):
        pass


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
