"""A trial without a result says nothing about its settings: the search stops, and goes on when the run is free."""

import pytest

from harness.results import Ledger
from harness.runs import local

pytest.importorskip("optuna", reason="bench tune needs optuna, an optional extra")

TUNE = ("tune", "--sampler", "sgld", "--task", "gaussian2d", "--budget", "steps=40", "--chains", 1, "--seeds", 1,
        "--trials", 2, "--workers", 1)  # fmt: skip


@pytest.fixture(autouse=True)
def two_finalist_seeds(monkeypatch):
    monkeypatch.setattr("plugins.tuning.seeds.PER_FINALIST", 2)


def test_a_search_stops_at_a_run_that_another_process_holds(bench_json, tmp_path):
    code, undisturbed, _ = bench_json(*TUNE, folder="a")
    assert code == 0
    key = undisturbed[0]["run_keys"][0]
    ledger = Ledger(tmp_path / "b")
    ledger.prepare()
    with ledger.hold(key, 1):
        code, records, said = bench_json(*TUNE, folder="b")
    assert (code, records) == (1, [])
    assert f"run {key} of a trial is not finished" in said
    assert not (tmp_path / "b" / "tuning").exists()
    assert bench_json(*TUNE, folder="b")[:2] == (0, undisturbed)


def test_a_search_stops_at_a_run_whose_worker_died(bench_json, tmp_path, monkeypatch):
    launch = local.launch

    def interrupted(*words, **more):
        outcome = launch(*words, **more)
        next(tmp_path.rglob("result.json")).unlink()
        return outcome

    with monkeypatch.context() as patch:
        patch.setattr(local, "launch", interrupted)
        code, _, said = bench_json(*TUNE, folder="a")
    assert code == 1
    assert "is not finished (orphaned)" in said
    assert not (tmp_path / "a" / "tuning").exists()
    assert bench_json(*TUNE, folder="a")[0] == 0
