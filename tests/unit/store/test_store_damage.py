import json
import shutil
import subprocess
import sys

import duckdb
import fabricated
import pytest

from harness.results.store import Store, connection
from harness.system.errors import DataError


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


def edited(name, change):
    def edit(folder):
        path = folder / name
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return edit


def set_to(value, *where):
    def change(document):
        for step in where[:-1]:
            document = document[step]
        document[where[-1]] = value

    return change


def cut(name, share):
    def edit(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * share)])

    return edit


DAMAGE = {
    "no spec": (lambda folder: (folder / "spec.json").unlink(), "spec.json is missing"),
    "half a spec": (cut("spec.json", 0.5), "spec.json cannot be read"),
    "half a result": (cut("result.json", 0.5), "result.json cannot be read"),
    "empty result": (cut("result.json", 0), "result.json cannot be read"),
    "half an environment": (cut("environment.json", 0.5), "environment.json cannot be read"),
    "half the curves": (cut("curves.safetensors", 0.5), "truncated or altered"),
    "no curves": (lambda folder: (folder / "curves.safetensors").unlink(), "curves.safetensors is missing"),
    "spec is a list": (lambda folder: (folder / "spec.json").write_text("[]"), "not a JSON object"),
    "other run": (edited("spec.json", set_to("0" * 64, "key")), "spec.json belongs to run"),
    "other attempt": (edited("result.json", set_to("20250101T000000-000000", "attempt")), "another attempt"),
    "seed is text": (edited("spec.json", set_to("one", "seed")), "seed = 'one' is not a bigint"),
    "seed is huge": (edited("spec.json", set_to(2**70, "seed")), "seed = 1180591620717411303424 is not a bigint"),
    "chains is a flag": (edited("spec.json", set_to(True, "chains")), "chains = True is not a bigint"),
    "no method": (edited("spec.json", set_to(None, "method")), "method is missing"),
    "sampler is text": (edited("spec.json", set_to("sgld", "sampler")), "sampler is 'sgld', not a dict"),
    "unknown status": (edited("result.json", set_to("fine", "status")), "status 'fine'"),
    "metric is text": (edited("result.json", set_to("many", "metrics", 0, "value")), "value = 'many' is not a double"),
    "metric is NaN": (edited("result.json", set_to(float("nan"), "metrics", 0, "value")), "NaN is not JSON"),
    "metrics is null": (edited("result.json", set_to(None, "metrics")), "metrics is None, not a list"),
    "a time that is none": (edited("result.json", set_to("soon", "started")), "'soon' is not a time"),
    "files is a list": (edited("result.json", set_to([], "files")), "left out"),
    "code is text": (edited("environment.json", set_to("x", "code")), "left out"),
}


def test_an_attempt_that_is_not_whole_is_named_and_blocks_no_other(store):
    fabricated.concluded(store.results, 99)
    bad = {name: fabricated.concluded(store.results, seed) for seed, name in enumerate(DAMAGE)}
    whole = {path: path.read_bytes() for folder in bad.values() for path in folder.iterdir()}
    for name, folder in bad.items():
        DAMAGE[name][0](folder)
    notes = store.refresh()
    assert len(notes) == len(DAMAGE)
    for name, folder in bad.items():
        (note,) = [note for note in notes if str(folder) in note]
        assert DAMAGE[name][1] in note, name
    assert store.rows("select seed from result") == [{"seed": 99}]
    for path, content in whole.items():
        path.write_bytes(content)
    assert store.refresh() == []
    assert len(store.rows("select * from result")) == len(DAMAGE) + 1


def test_strangers_in_the_folder_are_ignored(store):
    folder = fabricated.concluded(store.results)
    (store.results / "runs" / "notes.txt").write_text("mine")
    (store.results / "runs" / ".cache").mkdir()
    (folder.parent / ".result.json.1234").write_text("{")
    assert store.refresh() == []


def test_a_database_open_elsewhere_is_waited_for_and_named(store, monkeypatch):
    fabricated.concluded(store.results, 1)
    store.refresh()
    fabricated.concluded(store.results, 2)
    program = "import duckdb, sys; db = duckdb.connect(sys.argv[1]); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(store.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        monkeypatch.setattr(connection, "LOCK_TIMEOUT_SECONDS", 0.1)
        (note,) = store.refresh()
        assert f"is open in process {holder.pid}; the runs were read instead" in note
        assert len(store.rows("select * from run")) == 2
        for reading in (lambda: Store(store.results).rows("select 1"), store.rebuild):
            with pytest.raises(DataError, match=f"process {holder.pid}"):
                reading()
        holder.communicate()
    assert store.refresh() == []
    assert len(store.rows("select * from run")) == 2


READ_ONLY = "IO Error: Cannot open file: Read-only file system"


def refuse_writing(monkeypatch):
    connect = duckdb.connect

    def refused(path, **options):
        if path != ":memory:":
            raise duckdb.IOException(READ_ONLY)
        return connect(path, **options)

    monkeypatch.setattr(duckdb, "connect", refused)


def test_a_read_only_folder_is_read(store, monkeypatch):
    fabricated.concluded(store.results, 1)
    store.refresh()
    refuse_writing(monkeypatch)
    assert store.refresh() == []
    fabricated.concluded(store.results, 2)
    (note,) = store.refresh()
    assert note == f"the database cannot be written: {READ_ONLY}; the runs were read instead"
    assert [row["seed"] for row in store.rows("select seed from run order by seed")] == [1, 2]
    with pytest.raises(DataError, match="not rebuilt"):
        store.rebuild()


LEAVES_A_LOG = """
import os, sys
from pathlib import Path
from harness.results.store import changes, connection, ingest

connection._NO_LOG["checkpoint_threshold"] = "1TB"
with connection._connect(str(Path(sys.argv[1]) / "results.duckdb"), **connection._for_writing(Path("new"))) as db:
    connection.schema.create(db)
    for record in changes.news(Path(sys.argv[1]), changes.Known()).records:
        for table, rows in record.rows.items():
            ingest._insert(db, table, rows)
    os._exit(0)
"""


def test_a_log_that_lost_its_end_costs_nothing_and_is_not_left_behind(store, tmp_path):
    for seed in range(3):
        fabricated.concluded(store.results, seed)
    subprocess.run([sys.executable, "-c", LEAVES_A_LOG, str(store.results)], check=True)
    content = connection.wal(store.path).read_bytes()
    for i, share in enumerate((0.1, 0.5, 0.9)):
        end = int(len(content) * share)
        flipped = bytes([content[end] ^ 1]) + content[end + 1 :]
        for rest in (b"", flipped):
            here = Store(shutil.copytree(store.results, tmp_path / f"{i}{len(rest)}"))
            connection.wal(here.path).write_bytes(content[:end] + rest)
            here.refresh()
            assert not connection.wal(here.path).exists()
            assert here.table("select count(*) from result")[1] == [(3,)]
            assert Store(here.results).refresh() == []
