"""Databases that are damaged anywhere: every verb ends as documented, and a rebuild gives what was there before."""

import json
import shutil
import tempfile
from pathlib import Path

import fabricated
import pytest
from fuzz.budget import cases
from fuzz.running import ends_well
from hypothesis import given
from hypothesis import strategies as st
from support import bench_here

BLOCK = 4096
"""Three headers of this size come first."""
VERBS = (
    ["ls", "runs", "--json"],
    ["report", "leaderboard"],
    ["ingest"],
    ["ingest", "--verify"],
    ["sql", "from metric"],
)
COUNTED = ["sql", "select count(*) as n from attempt", "--json"]
offset = st.one_of(st.integers(0, 3 * BLOCK), st.integers(0, 2**24))
change = st.one_of(
    st.tuples(st.just("write"), offset, st.binary(min_size=1, max_size=16)),
    st.tuples(st.just("zero"), offset, st.integers(1, 2 * BLOCK)),
    st.tuples(st.just("cut"), offset, st.none()),
    st.tuples(st.just("append"), st.none(), st.binary(max_size=64)),
    st.tuples(st.just("copy"), offset, offset),
)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    results = tmp_path_factory.mktemp("healthy") / "results"
    for seed in range(3):
        fabricated.concluded(results, seed)
    assert bench_here(results, "ingest")[0] == 0
    return results


def changed(content, changes):
    for kind, somewhere, what in changes:
        at = (somewhere or 0) % max(len(content), 1)
        if kind == "write":
            content = content[:at] + what + content[at + len(what) :]
        elif kind == "zero":
            content = content[:at] + bytes(min(what, len(content) - at)) + content[at + what :]
        elif kind == "cut":
            content = content[:at]
        elif kind == "append":
            content += what
        else:
            content = content[:at] + content[what % max(len(content), 1) :][:BLOCK] + content[at + BLOCK :]
    return content


@cases(3)
@given(st.lists(change, min_size=1, max_size=3), st.binary(max_size=64), st.sampled_from(VERBS))
def test_a_damaged_database_costs_nothing(healthy, changes, log, words):
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        shutil.copytree(healthy, results)
        path = results / "results.duckdb"
        path.write_bytes(changed(path.read_bytes(), changes))
        if log:
            (results / "results.duckdb.wal").write_bytes(log)
        ends_well(results, *words, codes={0, 4})
        ends_well(results, "ingest", "--rebuild", codes={0})
        assert json.loads(ends_well(results, *COUNTED, codes={0})[1]) == [{"n": 3}]
