"""A selection shows its runs in every table and view, and nothing of the others."""

from __future__ import annotations

import pytest
from fabricated import concluded, run_key, unfinished

from harness.results.store import Store
from plugins.nights.regression.selection import Selection

TABLES = ("run", "attempt", "metric", "curve", "artifact", "event", "result", "run_status", "run_metric", "plugin")


@pytest.fixture
def results(tmp_path):
    for seed in range(3):
        concluded(tmp_path, seed)
    unfinished(tmp_path, 3)
    Store(tmp_path).refresh()
    return tmp_path


def counts(store):
    return {name: store.rows(f"select count(*) as n from {name}")[0]["n"] for name in TABLES}  # noqa: S608


def test_it_shows_the_chosen_runs_alone(results):
    store = Selection(results, [run_key(1), run_key(3)])
    assert {row["seed"] for row in store.rows("select seed from run")} == {1, 3}
    assert {row["seed"] for row in store.rows("select seed from run_metric")} == {1}
    assert {row["seed"] for row in store.rows("select seed from run_status")} == {1, 3}
    assert len(store.rows("select * from environment")) == 1
    assert store.frame("select distinct attempt from curve").height == 1


def test_all_keys_show_all_and_no_keys_nothing(results):
    whole = counts(Store(results))
    assert all(whole.values())
    assert counts(Selection(results, [run_key(seed) for seed in range(4)])) == whole
    assert not any(counts(Selection(results, [])).values())
    assert counts(Store(results)) == whole
