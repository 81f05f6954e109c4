"""`bench tune --search N`: a search that shares no seed and no random value with the first one."""

import json

import pytest

from harness.tasks import TUNING_SEED
from plugins.tuning.record import BETWEEN, FINALIST_SEEDS

pytest.importorskip("optuna", reason="bench tune needs optuna, an optional extra")

TUNE = ("tune", "--sampler", "sghmc", "--task", "gaussian2d", "--budget", "steps=40", "--chains", 1, "--seeds", 1,
        "--trials", 12, "--workers", 1)  # fmt: skip


@pytest.fixture(autouse=True)
def two_finalist_seeds(monkeypatch):
    monkeypatch.setattr("plugins.tuning.tune.FINALIST_SEEDS", FINALIST_SEEDS[:2])


def runs(folder):
    """Seed and settings of each run."""
    specs = [json.loads(path.read_text()) for path in folder.rglob("spec.json")]
    return {(one["seed"], json.dumps([one["sampler"]["params"], one["schedule"]["params"]])) for one in specs}


def test_another_search_has_its_own_seeds_and_draws_other_values(bench_json, tmp_path):
    first = bench_json(*TUNE, folder="a")[1][0]
    code, (second,), said = bench_json(*TUNE, "--search", 2, "--study", "again", folder="b")
    assert code == 0, said
    assert (first["search"], second["search"]) == (0, 2)
    assert second["seeds"] == [TUNING_SEED + 2 * BETWEEN]
    assert second["finalist_seeds"] == [seed - TUNING_SEED + second["seeds"][0] for seed in FINALIST_SEEDS[:2]]
    one, other = runs(tmp_path / "a"), runs(tmp_path / "b")
    assert not {seed for seed, _ in one} & {seed for seed, _ in other}
    alike = {settings for _, settings in one} & {settings for _, settings in other}
    assert 0 < len(alike) < 11, "the settings without a search, and those at the ends, are tried by each"
    assert "--search 2" in second["searches"][0]["command"]
    again = bench_json(*TUNE, "--search", 2, "--study", "again", folder="b")
    assert again[:2] == (0, [second])
    assert runs(tmp_path / "b") == other, "the same search is resumed"


def test_a_study_has_one_search_of_a_pair(bench_json, tmp_path):
    assert bench_json(*TUNE)[0] == 0
    before = runs(tmp_path / "r")
    code, records, said = bench_json(*TUNE, "--search", 1)
    assert (code, records) == (2, [])
    assert "study tuned has search 0 of sghmc on gaussian2d@csgmcmc-slides" in said
    assert "choose another --study" in said
    assert runs(tmp_path / "r") == before
    code, (record,), said = bench_json(*TUNE, "--search", 1, "--study", "again")
    assert code == 0, said
    assert sorted(one["search"] for one in record["searches"]) == [0, 1]
    assert sum(one["trials"] for one in record["searches"]) == record["trials"]
