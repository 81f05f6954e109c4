"""Rows of which runs were begun and have no result say so."""

from fabricated import conclude, unfinished
from scored import store

from harness import Bench
from harness.contracts.randomness import TUNING_SEED
from harness.contracts.registry import registry
from plugins.running.unfinished import caveats


def test_a_row_says_that_runs_of_it_have_no_result(tmp_path):
    for seed in range(3):
        conclude(unfinished(tmp_path, seed))
    assert caveats(store(tmp_path), registry()) == {}
    unfinished(tmp_path, 3)
    unfinished(tmp_path, 4, events=("created", "cancelled"))
    unfinished(tmp_path, TUNING_SEED)
    (texts,) = caveats(store(tmp_path), registry()).values()
    assert texts == {"unfinished": "2 runs without a result: cancelled, orphaned"}
    conclude(unfinished(tmp_path, 3, number=1))
    (texts,) = caveats(store(tmp_path), registry()).values()
    assert texts == {"unfinished": "1 run without a result: cancelled"}


def test_a_leaderboard_shows_it_beside_the_row(tmp_path):
    for seed in range(5):
        conclude(unfinished(tmp_path, seed))
    unfinished(tmp_path, 5)
    records = Bench(tmp_path).report("leaderboard").records
    assert {one["caveats"] for one in records} == {"unfinished: 1 run without a result: orphaned"}
