"""A results folder from somebody else: whatever its results.duckdb is, it does nothing, and the runs stay readable."""

import ast
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import duckdb
import fabricated
import pytest

from harness.results.store import Store, connection
from harness.system.errors import DataError

ROOT = Path(__file__).resolve().parents[3]
CONTENT = "the secret of a file that is not in the folder"


pytestmark = pytest.mark.usefixtures("no_hang")


@pytest.fixture(scope="module")
def one_run(tmp_path_factory):
    """A results folder with one run and its database, and a file outside it."""
    folder = tmp_path_factory.mktemp("made")
    fabricated.concluded(folder / "results")
    assert Store(folder / "results").refresh() == []
    return folder


@pytest.fixture
def outside(tmp_path):
    path = tmp_path / "secret.csv"
    path.write_text(f"a\n{CONTENT}\n")
    return path


@pytest.fixture
def store(one_run, tmp_path):
    shutil.copytree(one_run / "results", tmp_path / "results")
    return Store(tmp_path / "results")


def sqlite(path):
    with sqlite3.connect(path) as db:
        db.execute("create table run (run_key text)")
    db.close()


def on_top(*statements):
    """Our own database with more in it."""

    def change(path, outside):
        with duckdb.connect(str(path)) as db:
            for statement in statements:
                db.execute(statement.replace("OUTSIDE", str(outside)))

    return change


def instead(make):
    def change(path, outside):
        path.unlink()
        make(path, outside)

    return change


def database(path, *statements):
    with duckdb.connect(str(path)) as db:
        for statement in statements:
            db.execute(statement)


def overwritten(path, start, part):
    content = path.read_bytes()
    path.write_bytes(content[:start] + part + content[start + len(part) :])


def linked(path, outside):
    aside = outside.with_name("another.duckdb")
    path.rename(aside)
    path.symlink_to(aside)


FILES = {
    "a pipe": instead(lambda path, _: os.mkfifo(path)),
    "a folder": instead(lambda path, _: path.mkdir()),
    "a dangling link": instead(lambda path, outside: path.symlink_to(outside.with_name("nothing"))),
    "a link to itself": instead(lambda path, _: path.symlink_to(path.name)),
    "a link to endless zeros": instead(lambda path, _: path.symlink_to("/dev/zero")),
    "a link to a database elsewhere": linked,
    "an empty file": instead(lambda path, _: path.touch()),
    "text": instead(lambda path, _: path.write_text("a,b\n1,2\n" * 5000)),
    "the beginning of a database": lambda path, _: os.truncate(path, 20),
    "zeros in the header": lambda path, _: overwritten(path, 100, bytes(4000)),
    "a damaged block": lambda path, _: overwritten(path, 12_600, b"\xa5" * 3_400),
    "a SQLite database": instead(lambda path, _: sqlite(path)),
}
DATABASES = {
    "another database": instead(lambda path, _: database(path, "create table mine (a int)")),
    "a table of another form": on_top("alter table meta add column more varchar default current_date"),
    "a view for a table": on_top("drop table run", "create view run as select * from read_text('OUTSIDE')"),
    "another view": on_top("create or replace view result as select * from read_csv('OUTSIDE')"),
    "one more table": on_top("create table more (a int default 1)"),
    "a macro": on_top("create macro row_number() as 1"),
    "a sequence": on_top("create sequence s"),
    "a schema": on_top("create schema more", "create view more.run as select * from read_csv('OUTSIDE')"),
    "a version that is no number": on_top("update meta set value = '4' || repeat('0', 5000)"),
    "another version": on_top("update meta set value = '99'"),
}
LOGS = {
    "a pipe as log": lambda path, _: os.mkfifo(connection.wal(path)),
    "a folder as log": lambda path, _: connection.wal(path).mkdir(),
    "a link as log": lambda path, outside: connection.wal(path).symlink_to(outside),
    "a dangling link as log": lambda path, outside: connection.wal(path).symlink_to(outside.with_name("nothing")),
    "a pipe as log of a checkpoint": lambda path, _: os.mkfifo(f"{path}.wal.checkpoint"),
    "a log alone": lambda path, _: path.rename(connection.wal(path)),
}
STRANGE = FILES | DATABASES | LOGS
SOME = ("a pipe", "a folder", "a SQLite database", "another view", "a pipe as log", "another version")


def kinds(folder):
    """What lies in a folder, with its content, by name."""
    content = {}
    for path in sorted(folder.iterdir()):
        mode = path.lstat().st_mode
        regular = path.is_file() and not path.is_symlink()
        content[path.name] = (mode, path.read_bytes() if regular else path.readlink() if path.is_symlink() else "")
    return content


def lying(store):
    return {name: what for name, what in kinds(store.results).items() if name.startswith("results.duckdb")}


@pytest.mark.parametrize("what", STRANGE)
def test_what_is_no_database_of_ours_is_moved_aside_whole_and_the_runs_are_there(store, outside, what):
    STRANGE[what](store.path, outside)
    before, others = lying(store), kinds(outside.parent)
    (note,) = store.refresh()
    (aside,) = {name.removesuffix(".wal").removesuffix(".wal.checkpoint") for name in lying(store)} - {"results.duckdb"}
    assert str(store.path) in note
    assert aside in note
    assert before == {
        name.replace(aside, "results.duckdb"): what for name, what in lying(store).items() if name.startswith(aside)
    }
    assert kinds(outside.parent) == others
    assert len(store.rows("select * from result")) == 1
    assert Store(store.results).refresh() == []


@pytest.mark.parametrize("what", [*SOME, "a link to a database elsewhere", "text", "a folder as log", "a log alone"])
def test_what_only_reads_says_what_and_where_and_a_rebuild_heals_it(store, outside, what):
    STRANGE[what](store.path, outside)
    before, others = lying(store), kinds(outside.parent)
    with pytest.raises(DataError, match="bench ingest --rebuild") as refusal:
        store.rows("select * from result")
    assert str(store.path) in str(refusal.value)
    assert CONTENT not in str(refusal.value)
    assert lying(store) == before
    assert any(str(store.path) in note for note in store.rebuild())
    assert kinds(outside.parent) == others
    assert len(lying(store)) == len(before) + 1
    assert len(store.rows("select * from result")) == 1
    assert store.refresh() == []


def test_a_database_of_another_duckdb_is_told(store, monkeypatch):
    text = "Trying to read a database file with version number 9999, but we can only read 64 to 68."

    def refuse(*_, **__):
        raise duckdb.IOException(text)

    with monkeypatch.context() as patched:
        patched.setattr(duckdb, "connect", refuse)
        with pytest.raises(DataError, match=r"another version of DuckDB.*bench ingest --rebuild"):
            store.refresh()


EVERY_CONNECTION = """
import sys
from pathlib import Path
from harness.results.store import connection
path = Path(sys.argv[1])
for opened in (connection.in_memory(), connection.reading(path), connection.writing(path)):
    with opened as db:
        # DuckDB shows one on stdout where Python runs a command line, not a file
        assert db.execute("select current_setting('enable_progress_bar')").fetchall() == [(False,)]
        for statement in (
            "install httpfs", "load httpfs", "from read_text('/etc/passwd')", "from '/etc/passwd'", "load 'x'",
            "set enable_external_access = true", "reset enable_external_access", "set temp_directory = '/tmp'",
            "set autoinstall_known_extensions = true", "set lock_configuration = false", "from sqlite_scan('a', 'b')",
            "attach '/etc/passwd' as a", "attach 'http://localhost/a' as b", "copy (select 1) to '/nowhere/made'",
            "select st_point(1, 2)", "from 'http://localhost/x.parquet'", "export database '/nowhere/made'",
        ):
            try:
                db.execute(statement)
            except Exception as error:
                assert "ownload" not in str(error), error
            else:
                raise SystemExit(f"{statement} was done")
"""


def test_every_connection_is_locked(store, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-c", EVERY_CONNECTION, str(store.path)]
    subprocess.run(command, check=True, env=os.environ | {"HOME": str(home)})
    assert list(home.iterdir()) == []


def test_only_one_place_opens_databases():
    """Elsewhere the module is for its errors and the names of its types."""
    uses = []
    for folder in ("harness", "plugins", "tasks", "reports"):
        for path in sorted(path for path in (ROOT / folder).rglob("*.py") if "duckdb" in path.read_text()):
            names = {
                node.attr if isinstance(node, ast.Attribute) else alias.name
                for node in ast.walk(ast.parse(path.read_text()))
                for alias in (node.names if isinstance(node, ast.ImportFrom) and node.module == "duckdb" else [None])
                if alias is not None or (isinstance(node, ast.Attribute) and ast.unparse(node.value) == "duckdb")
            }
            uses += [f"{path.relative_to(ROOT)}: {n}" for n in names if not n.endswith(("Error", "Exception"))]
    allowed = {"connection.py: connect"}
    assert {line.rpartition("/")[2] for line in uses if not line.endswith("DuckDBPyConnection")} == allowed
