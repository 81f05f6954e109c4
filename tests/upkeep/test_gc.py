"""`bench gc`: lists first, deletes when told to, and leaves a database that does not miss what went."""

import json
import os
import subprocess
import sys

import pytest
from specs import run_spec as spec

from harness.cli.app import run
from harness.results import environment
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.ledger.ledger import Ledger
from harness.results.records import AttemptResult
from harness.results.store import Store
from harness.system.locks import lock_file


@pytest.fixture
def ledger(tmp_path):
    """A run that was interrupted, failed, and then was done; all of it in the database."""
    filled = Ledger(tmp_path / "results")
    filled.prepare()
    for status in (None, "error", "done"):
        attempt = Attempt.create(filled.runs, spec(), environment.collect("cpu", ()))
        attempt.event("started", position=0)
        if status:
            conclude(attempt, AttemptResult(run_key=spec().key, status=status))
    assert bench(filled, "ingest") == 0
    return filled


def bench(ledger, *words):
    return run(["--results", str(ledger.root), *words])


def contents(ledger):
    return {path: path.read_bytes() for path in ledger.root.rglob("*") if path.is_file()}


def statuses(ledger):
    store = Store(ledger.root)
    notes = store.refresh()
    return sorted(row["status"] for row in store.rows("select status from attempt")), notes


def test_without_delete_nothing_is_touched(ledger, capsys):
    capsys.readouterr()
    before = contents(ledger)
    assert bench(ledger, "gc") == 0
    said = capsys.readouterr()
    assert "finished the run" in said.out
    assert "1 thing, " in said.err
    assert "nothing was deleted" in said.err
    assert bench(ledger, "gc", "--json", "--failed") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["why"].partition(";")[0] for row in rows] == ["unfinished", "error"]
    assert all(row["bytes"] > 0 and (ledger.root / row["path"]).is_dir() for row in rows)
    assert contents(ledger) == before


def test_what_was_deleted_is_forgotten_by_the_database(ledger, capsys):
    assert bench(ledger, "gc", "--delete") == 0
    assert statuses(ledger) == (["done", "error"], [])
    assert bench(ledger, "gc", "--delete", "--failed") == 0
    assert statuses(ledger) == (["done"], [])
    assert bench(ledger, "ingest", "--verify") == 0
    capsys.readouterr()
    assert bench(ledger, "gc", "--delete") == 0
    assert capsys.readouterr().err == "0 things, 0.0 MB deleted\n"


def test_a_database_in_use_is_told_to_forget_later(ledger, capsys):
    path = str(ledger.root / "results.duckdb")
    code = f"import duckdb, sys\nwith duckdb.connect({path!r}):\n print(1, flush=True)\n sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        capsys.readouterr()
        assert bench(ledger, "gc", "--delete") == 0
        assert "is open in process" in capsys.readouterr().err
    finally:
        holder.communicate()
    assert list((ledger.root / ".trash").iterdir()) == []  # until the database has forgotten what was there
    assert statuses(ledger) == (["done", "error"], [])
    assert bench(ledger, "gc", "--delete") == 0
    assert not (ledger.root / ".trash").exists()


def test_a_second_one_waits_for_the_first(ledger, capsys):
    with lock_file(ledger.lock("gc"), 0):
        assert bench(ledger, "gc", "--delete") == 1
    assert "gc is held by process" in capsys.readouterr().err


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from plugins.upkeep import garbage
from harness.results.ledger.ledger import Ledger
left = 0
def step(event, arguments):
    global left
    if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir"):
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
for steps in range(1, 100):  # the last one comes to its end: killed before the database
    ledger = Ledger(Path(sys.argv[2], str(steps)))
    shutil.copytree(sys.argv[1], ledger.root)
    child = os.fork()
    if not child:
        left = steps
        sys.addaudithook(step)
        garbage.remove(ledger, garbage.find(ledger, failed=True), failed=True)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
        break
print(steps)
"""


def test_killed_at_any_step_it_leaves_nothing_halved_and_the_database_right(ledger, tmp_path):
    path = os.pathsep.join(sys.path)
    final = next((ledger.root / "runs").glob("*/*/*/result.json")).parent
    whole = {path.name: {file.name for file in path.iterdir()} for path in final.parent.iterdir() if path.is_dir()}
    words = [sys.executable, "-c", KILLED, str(ledger.root), str(tmp_path)]
    steps = int(subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, stdout=-1, check=True).stdout)
    assert 9 < steps < 99
    for step in range(1, steps + 1):
        here = Ledger(tmp_path / str(step))
        heals = [("ls", "runs"), ("gc", "--delete"), ("gc", "--delete", "--failed")][step % 3]
        left = list(here.root.glob("runs/*/*/*/"))
        assert all({file.name for file in path.iterdir()} == whole[path.name] for path in left)
        assert bench(here, *heals) == 0
        assert statuses(here) == (sorted(map(status, here.root.glob("runs/*/*/*/"))), [])
        assert heals[0] == "ls" or not (here.root / ".trash").exists()


def status(path):
    file = path / "result.json"
    return json.loads(file.read_text())["status"] if file.exists() else "orphaned"
