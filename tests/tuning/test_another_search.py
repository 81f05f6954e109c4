"""`bench tune --search N`: a search that shares no seed and no random value with the first one."""

import json
import re

import pytest

from harness import registry
from harness.runs import find_pair
from plugins.tuning.search import Search
from plugins.tuning.seeds import SearchSeeds
from plugins.tuning.space import find_spaces

pytest.importorskip("optuna", reason="bench tune needs optuna, an optional extra")

TUNE = ("tune", "--sampler", "sghmc", "--task", "gaussian2d", "--budget", "steps=40", "--chains", 1, "--seeds", 1,
        "--trials", 12, "--workers", 1)  # fmt: skip


@pytest.fixture(autouse=True)
def two_finalist_seeds(monkeypatch):
    monkeypatch.setattr("plugins.tuning.seeds.PER_FINALIST", 2)


def runs(folder):
    """Seed and settings of each run."""
    specs = [json.loads(path.read_text()) for path in folder.rglob("spec.json")]
    return {(one["seed"], json.dumps([one["sampler"]["params"], one["schedule"]["params"]])) for one in specs}


@pytest.fixture
def names(monkeypatch):
    """What the random values of each search follow from."""
    names = []

    class Named(Search):
        def __init__(self, name, *more):
            names.append(name)
            super().__init__(name, *more)

    monkeypatch.setattr("plugins.tuning.pair.Search", Named)
    return names


def test_other_names_draw_other_values():
    """The first values are the same: those without a search, and those at the ends."""
    spaces = find_spaces(registry(), find_pair(registry(), "sghmc", "gaussian2d"), {}, "steps=40", [])

    def asked(name):
        search, values = Search(name, spaces, 30), []
        while trials := search.ask():
            values += [tuple(sorted(trial.values.items())) for trial in trials]
            for trial in trials:
                trial.seen.append(1.0)
            search.tell()
        return values

    one, other = asked("a pair"), asked("a pair 1")
    assert one == asked("a pair")
    assert len({*one} & {*other}) == 10
    assert len(one) == 30


def test_another_search_has_its_own_seeds_and_random_values(bench_json, tmp_path, names):
    first = bench_json(*TUNE, folder="a")[1][0]
    code, (second,), said = bench_json(*TUNE, "--search", 2, "--study", "again", folder="b")
    assert code == 0, said
    assert ("search" in first, second["search"]) == (False, 2)
    assert names == ["sghmc gaussian2d csgmcmc-slides", "sghmc gaussian2d csgmcmc-slides 2"]
    of_search = SearchSeeds(2, 1)
    assert (second["seeds"], second["finalist_seeds"]) == (of_search.trials, of_search.finalists)
    one, other = ({seed for seed, _ in runs(tmp_path / folder)} for folder in "ab")
    assert len(one) == len(other) == 3
    assert not one & other
    assert "--search 2" in second["searches"][0]["command"]
    again = bench_json(*TUNE, "--search", 2, "--study", "again", folder="b")
    assert again[:2] == (0, [second])
    assert re.findall(r"(\d+) to do", again[2]) == ["0"] * 4, "the same search is resumed"


def test_a_study_has_one_search_of_a_pair(bench_json, tmp_path):
    """That which comes with the package counts too: its settings at other budgets would be finalists."""
    code, records, said = bench_json(*TUNE, "--search", 1)
    assert (code, records) == (2, [])
    assert "study tuned has search 0 of sghmc on gaussian2d@csgmcmc-slides" in said
    assert "choose another --study" in said
    assert not runs(tmp_path / "r")
    assert bench_json(*TUNE)[0] == 0
    code, (record,), said = bench_json(*TUNE, "--search", 1, "--study", "again")
    assert code == 0, said
    assert sorted(one.get("search", 0) for one in record["searches"]) == [0, 1]
    assert sum(one["trials"] for one in record["searches"]) == record["trials"]
