"""Malformed attempts: each is named or harmless, no neighbour is lost, and every verb ends as documented."""

import contextlib
import shutil
import tempfile
from pathlib import Path

import fabricated
import nights
import pytest
from fuzz.budget import cases
from fuzz.damage import KINDS, damages, replaced
from fuzz.hostile import control
from fuzz.running import ends_well
from hypothesis import given
from hypothesis import strategies as st
from support import bench_here

from harness.contracts.registry import registry
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.ledger.ledger import Ledger
from harness.results.records import FAILED, FINAL
from harness.results.store import Store, connection, schema
from harness.runs.plan import RunRequest, plan
from harness.system.errors import BenchError
from harness.system.text import harmless
from plugins.upkeep.stored_spec import code, recorded_spec

TABLES = [*schema.TABLES, *schema.VIEWS]
TOGETHER, EXAMPLES = 50, 2
"""So many malformed attempts in one results folder, so many folders: 100 attempts."""
PLANNED = ["--sampler", "sgld", "--task", "mixture5", "--budget", "steps=20", "--seeds", "0-1"]
VERBS = (
    ["ls", "runs", "--json"], ["ls", "runs"], ["report", "leaderboard"], ["report", "coverage", "--format", "html"],
    ["report", "ess", "--json"], ["show", fabricated.run_key(0)], ["status"], ["status", "--json"], ["gc", "--json"],
    ["ingest", "--verify"], ["sql", "from run_metric", "--csv"], ["sql", "from run_status", "--json"],
    ["plan", *PLANNED], ["run", *PLANNED], ["compare", "sgld", "csgld"], ["report", "leaderboard", "--format", "latex"],
)  # fmt: skip


def contents(results):
    with connection.reading(results / "results.duckdb") as db:
        return {table: db.execute(f"from {table} order by all").fetchall() for table in TABLES}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """A results folder with runs of all kinds, two of them at the keys that PLANNED means, and its rows."""
    results = tmp_path_factory.mktemp("healthy") / "results"
    ledger = Ledger(results)
    ledger.prepare()
    fabricated.concluded(results, 0)
    fabricated.concluded(results, 1, status="diverged", step=17, chain=2, metrics=[])
    fabricated.concluded(results, 2, method="csgld")
    fabricated.unfinished(results, 3)
    for planned in plan(registry(), RunRequest(["sgld"], ["mixture5"], range(2), budget="steps=20"), ledger):
        attempt = Attempt.create(ledger.runs, planned.spec, fabricated.environment())
        conclude(attempt, nights._result(planned.spec, {"wasserstein2": 1.0}, "done"))
    assert Store(results).refresh() == []
    return results


def spoil(results, i, damage, *, concluded):
    """A malformed attempt at a run of its own: where it lies, below the results."""
    folder = fabricated.unfinished(results, 100 + i, number=i)
    if concluded:
        fabricated.conclude(folder)
    return damage.do(folder)


def check_named_or_harmless(store, places, notes):
    """Each attempt is in a note, or in the database as the ledger has it; none makes the ledger fail."""
    ledger = Ledger(store.results)
    rows = {row["path"]: row for row in store.rows("select path, status, concluded from attempt")}
    for folder, damage in places.items():
        standing = ledger.standing(folder.parent.name)
        for record in (recorded_spec, code):
            with contextlib.suppress(BenchError):
                record(Attempt(folder))
        row = rows.get(str(folder.relative_to(store.results)))
        if row is None:
            assert any(str(folder) in note or str(folder.parent) in note for note in notes), (damage, standing)
        else:
            assert row["concluded"] == (standing.status in FINAL + FAILED), (damage, row, standing)


@given(
    harm=st.lists(st.tuples(damages, st.booleans()), min_size=TOGETHER, max_size=TOGETHER),
    verbs=st.lists(st.sampled_from(VERBS), min_size=3, max_size=3, unique_by=tuple),
)
@cases(EXAMPLES)
def test_malformed_attempts_are_named_and_cost_no_neighbour(healthy, harm, verbs):
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        shutil.copytree(healthy, results)
        store = Store(results)
        before = contents(results)
        places = {spoil(results, i, damage, concluded=done): damage for i, (damage, done) in enumerate(harm)}
        notes = store.refresh()
        after = contents(results)
        for table in TABLES:
            assert set(map(repr, before[table])) <= set(map(repr, after[table])), table
        check_named_or_harmless(store, places, notes)
        assert store.refresh() == notes
        for words in verbs:
            ends_well(results, *words, codes={0, 2, 4})
        assert sorted(store.rebuild()) == sorted(notes)
        assert contents(results) == after


def test_each_verb_ends_well_beside_malformed_attempts(healthy, tmp_path):
    """All verbs once, over one of each way to replace a file."""
    results = tmp_path / "results"
    shutil.copytree(healthy, results)
    harm = [(file, kind) for file in ("spec.json", "result.json", "environment.json", "events.jsonl") for kind in KINDS]
    for i, (file, kind) in enumerate(harm):
        spoil(results, i, replaced(file, kind), concluded=bool(i % 2))
    for words in VERBS:
        ends_well(results, *words, codes={0, 2, 4})
    assert bench_here(results, "run", *PLANNED)[2].startswith("2 runs: 2 done before, 0 to do")


def test_ten_megabytes_of_text_are_read_like_any_other(healthy, tmp_path):
    results = tmp_path / "results"
    shutil.copytree(healthy, results)
    fabricated.concluded(results, 100, status="error", metrics=[], reason="x" * 10_000_000)
    assert Store(results).refresh() == []
    code, out, _ = bench_here(results, "ls", "runs")
    assert code == 0
    assert len(out) < 100_000


@pytest.mark.parametrize("first", [True, False])
def test_a_copy_of_an_attempt_in_another_run_costs_the_original_nothing(tmp_path, first):
    results = tmp_path / "results"
    original = fabricated.concluded(results, 0)
    key = original.parent.name
    elsewhere = results / "runs" / key[:2] / (key[:2] + ("0" if first else "f") * 62) / original.name
    shutil.copytree(original, elsewhere)
    for _ in range(2):
        (note,) = Store(results).refresh()
        assert str(elsewhere) in note
        assert Store(results).rows("select path from attempt") == [{"path": str(original.relative_to(results))}]


def test_notes_cannot_steer_a_terminal(tmp_path):
    results = tmp_path / "results"
    stranger = results / "runs" / "00" / "\x1b[31m\u202e"
    stranger.mkdir(parents=True)
    _, _, err = bench_here(results, "ls", "runs")
    assert control(err) == []
    assert harmless(str(stranger)) in err
