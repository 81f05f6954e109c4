"""`bench ingest --verify`: silent where all is whole, and a line for each file and table that is not."""

import json
import random
import shutil
import subprocess
import sys
import time

import duckdb
import fabricated
import numpy as np
import pytest
from specs import run_spec as spec

from harness.cli.app import run
from harness.results import environment
from harness.results.ledger.attempt import Attempt, checksum
from harness.results.ledger.commit import conclude
from harness.results.ledger.ledger import Ledger
from harness.results.records import AttemptResult
from harness.results.store import Store
from plugins.upkeep import rescored_record

FILES = ("result.json", "spec.json", "environment.json", "draws.safetensors", "curves.safetensors")


def concluded(ledger, seed=0, **changes):
    new = Attempt.create(ledger.runs, spec(seed), environment.collect("cpu", ()))
    new.event("started", position=0)
    new.append_draws(np.arange(18.0).reshape(3, 2, 3))
    new.seal_draws(2, 3, np.array([4, 7, 10]))
    new.save_arrays("curves", {"b2/x": np.arange(5.0), "b2/y": np.ones((2, 5))})
    numbers = {"draws_kept": 3, "draws_stored": 3, "draws_stride": 1}
    conclude(new, fabricated.ended(spec(seed).key, **{**numbers, **changes}))
    return new


@pytest.fixture
def attempt(ledger):
    """One concluded attempt of two, with a failed and an unfinished one beside them, all in the database."""
    concluded(ledger, seed=1)
    Attempt.create(ledger.runs, spec(2), environment.collect("cpu", ())).event("cancelled", position=3)
    failed = Attempt.create(ledger.runs, spec(3), environment.collect("cpu", ()))
    conclude(failed, AttemptResult(run_key=spec(3).key, status="timeout", reason="slow"))
    whole = concluded(ledger)
    assert run(["--results", str(ledger.root), "ingest"]) == 0
    return whole


def verify(ledger, *options):
    return run(["--results", str(ledger.root), "ingest", "--verify", *options])


def lines(capsys):
    """What was said on stderr, but for the summary at the end."""
    return capsys.readouterr().err.splitlines()[:-1]


def flip(path, byte, bit):
    content = bytearray(path.read_bytes())
    content[byte] ^= bit
    path.write_bytes(content)


@pytest.mark.usefixtures("attempt")
def test_what_is_whole_gives_one_line(ledger, capsys):
    capsys.readouterr()
    before = {path: path.read_bytes() for path in ledger.root.rglob("*") if path.is_file()}
    assert verify(ledger) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("4 attempts")
    assert len(said.out.splitlines()) == 1
    assert verify(ledger, "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert {path: path.read_bytes() for path in ledger.root.rglob("*") if path.is_file()} == before


def test_a_folder_without_runs_or_database_is_whole(tmp_path, capsys):
    assert verify(Ledger(tmp_path / "nothing")) == 0
    assert capsys.readouterr().out.startswith("0 attempts")
    assert not (tmp_path / "nothing").exists()


def test_any_flipped_bit_of_any_file_is_found(ledger, attempt, capsys):
    chance = random.Random(0)
    for name in FILES * 2:
        path = attempt.path / name
        whole = path.read_bytes()
        flip(path, chance.randrange(len(whole)), 1 << chance.randrange(8))
        if name == "result.json" and attempt.result() is not None:
            continue  # white space, which carries nothing
        capsys.readouterr()
        assert verify(ledger) == 4, name
        told = lines(capsys)
        assert told[0].startswith(f"{path}: ")
        assert len([line for line in told if "table " not in line]) == 1
        assert "run's command again" in told[0]
        path.write_bytes(whole)
    assert verify(ledger) == 0


DAMAGE = {
    "draws cut off": ("draws.safetensors", lambda path: path.write_bytes(path.read_bytes()[:-4]), "is altered"),
    "curves gone": ("curves.safetensors", lambda path: path.unlink(), "is missing"),
    "draws a folder": ("draws.safetensors", lambda path: (path.unlink(), path.mkdir()), "cannot be read"),
    "environment gone": ("environment.json", lambda path: path.unlink(), "is missing or altered"),
    "events gone": ("events.jsonl", lambda path: path.unlink(), "is missing or cut short"),
    "events cut short": ("events.jsonl", lambda path: path.write_bytes(path.read_bytes()[:-30]), "cut short"),
    "event altered": ("events.jsonl", lambda path: flip(path, 0, 1), "line 1 cannot be read"),
    "spec empty": ("spec.json", lambda path: path.write_text(""), "cannot be read"),
    "result empty": ("result.json", lambda path: path.write_text(""), "cannot be read"),
    "result nested": ("result.json", lambda path: path.write_text("[" * 99_999), "cannot be read"),
}


COUNTS = [
    (3, 3, 1, True), (4, 3, 1, False), (7, 3, 3, True), (6, 3, 3, False), (3, 3, 0, False), (0, 3, 1, False),
    (None, 3, None, True), (3, 3, None, True),
]  # fmt: skip
"""Draws kept and stored, their stride, and whether these fit together; results of the first versions have no stride."""


def test_the_stored_draws_are_as_many_as_kept_draws_and_stride_say(ledger, capsys):
    wrong = []
    for seed, (kept, stored, stride, whole) in enumerate(COUNTS):
        counted = concluded(ledger, seed, draws_kept=kept, draws_stored=stored, draws_stride=stride)
        wrong += [] if whole else [str(counted.path)]
    assert verify(ledger) == 4
    told = lines(capsys)
    assert sorted(line.partition("/result.json: counts 3 stored draws where every")[0] for line in told) == sorted(
        wrong
    )


def test_damage_is_named_with_what_to_do(ledger, capsys):
    expected = {}
    for seed, (name, cause, what) in enumerate(DAMAGE.values()):
        damaged = concluded(ledger, seed)
        Store(ledger.root).refresh()
        cause(damaged.path / name)
        expected[str(damaged.path / name)] = what
    capsys.readouterr()
    assert verify(ledger, "--json") == 4
    said = capsys.readouterr()
    rows = {row["path"]: row for row in json.loads(said.out)}
    for path, what in expected.items():
        assert what in rows[path]["what"], path
        assert "run's command again" in rows[path]["what_to_do"], path
    assert "Traceback" not in said.err
    assert f"{len(DAMAGE)} attempts looked at" in said.err


def test_a_line_that_a_crash_cut_off_is_no_damage(ledger, attempt):
    path = attempt.path / "events.jsonl"
    path.write_bytes(b'{"time": "2026-01-01T00:00:00", "ev\n' + path.read_bytes())
    Store(ledger.root).rebuild()
    assert verify(ledger) == 0


def test_records_that_were_made_to_fit_are_still_not_each_others(ledger, capsys):
    """Checksums that hold, of files that belong to another run or say other things."""
    attempt, other, few, longer = (concluded(ledger, seed) for seed in range(4))

    def fit(target, **changes):
        record = json.loads((target.path / "result.json").read_text()) | changes
        del record["sha256"]
        record["files"]["spec.json"] = checksum(target.path / "spec.json")
        (target.path / "result.json").write_text(json.dumps(record))

    fit(few, draws_kept=4, draws_stored=4)
    shutil.copy(other.path / "spec.json", attempt.path)
    fit(attempt)
    edited = json.loads((longer.path / "spec.json").read_text())
    (longer.path / "spec.json").write_text(json.dumps(edited | {"steps": edited["steps"] + 1}))
    fit(longer)
    capsys.readouterr()
    assert verify(ledger) == 4
    told = lines(capsys)
    assert any(line.startswith(f"{attempt.path / 'spec.json'}: belongs to run {spec(1).key[:12]}") for line in told)
    assert any(line.startswith(f"{longer.path / 'spec.json'}: is altered: its parts do not match") for line in told)
    assert any(line.startswith(f"{few.path / 'draws.safetensors'}: holds draws [3, 2, 3]") for line in told)


@pytest.mark.parametrize("name", ["rescored.json", "rescored-*.safetensors"])
def test_what_was_scored_again_is_looked_at_too(ledger, attempt, capsys, name):
    metrics = json.loads((attempt.path / "result.json").read_text())["metrics"]
    rescored_record.write(attempt, metrics, {"b2/x": np.arange(5.0), "b2/y": np.zeros((2, 5))}, {})
    Store(ledger.root).rebuild()
    assert verify(ledger) == 0
    (path,) = attempt.path.glob(name)
    flip(path, -9, 2)
    capsys.readouterr()
    assert verify(ledger) == 4
    told = [line for line in lines(capsys) if line.startswith(f"{path}: ")]
    assert len(told) == 1
    assert "`bench rescore`" in told[0]


WRONG_ROWS = {
    "metric": "update metric set value = value + 1 where name = 'low_error'",
    "curve_points": "update curve_points set y = list_reverse(y) || [1.0]",
    "attempt": "update attempt set reason = 'x' where status = 'timeout'",
    "event": "insert into event select * from event limit 1",
    "run": "update run set budget = 'paper'",
    "environment": "update environment set cpu = 'another'",
    "artifact": "update artifact set bytes = 0",
}


@pytest.mark.usefixtures("attempt")
def test_a_database_that_differs_from_a_rebuild_is_named_by_table(ledger, capsys):
    def changed(*statements):
        with duckdb.connect(str(ledger.root / "results.duckdb")) as db:
            for statement in statements:
                db.execute(statement)
        capsys.readouterr()
        return verify(ledger), lines(capsys)

    code, told = changed(*WRONG_ROWS.values())
    assert code == 4
    assert sorted(line.partition("table ")[2].partition(":")[0] for line in told) == sorted(WRONG_ROWS)
    assert all("`bench ingest --rebuild`" in line for line in told)
    assert run(["--results", str(ledger.root), "ingest", "--rebuild"]) == 0
    assert verify(ledger) == 0


def test_what_the_database_lacks_so_far_is_no_problem_and_what_it_has_too_much_is(ledger, attempt, capsys):
    concluded(ledger, seed=7)
    assert verify(ledger) == 0
    shutil.rmtree(attempt.path)
    capsys.readouterr()
    assert verify(ledger) == 4
    assert any(attempt.id in line for line in lines(capsys))


@pytest.mark.usefixtures("attempt")
def test_a_damaged_database_is_a_problem(ledger, capsys):
    (ledger.root / "results.duckdb").write_bytes(b"no database at all" * 1000)
    capsys.readouterr()
    assert verify(ledger) == 4
    assert "is not a DuckDB database; `bench ingest --rebuild`" in lines(capsys)[0]


@pytest.mark.usefixtures("attempt")
def test_a_database_in_use_is_said_and_not_called_whole(ledger, capsys):
    path = ledger.root / "results.duckdb"
    code = f"import duckdb, sys\nwith duckdb.connect({str(path)!r}):\n print(1, flush=True)\n sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        capsys.readouterr()
        assert verify(ledger) == 4
        assert f"is open in process {holder.pid}" in lines(capsys)[0]
    finally:
        holder.communicate()


def test_rebuild_and_verify_exclude_each_other(ledger):
    assert verify(ledger, "--rebuild") == 2


@pytest.mark.usefixtures("attempt")
def test_a_run_that_is_going_on_is_no_problem(ledger):
    """A worker writes while the files and the database are compared."""
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom specs import run_spec\n"
        "from harness.results import environment\nfrom harness.results.ledger.attempt import Attempt\n"
        f"attempt = Attempt.create(Path({str(ledger.runs)!r}), run_spec(9), environment.collect('cpu', ()))\n"
        "while True:\n attempt.event('checkpoint', position=3)\n time.sleep(0.002)\n"
    )
    path = json.dumps(sys.path)
    worker = subprocess.Popen([sys.executable, "-c", f"import sys; sys.path[:0] = {path}\n{code}"])
    try:
        deadline = time.monotonic() + 30
        while not ledger.attempts(spec(9).key) and time.monotonic() < deadline:
            time.sleep(0.02)
        for _ in range(3):
            assert verify(ledger) == 0
    finally:
        worker.kill()
        worker.wait()
