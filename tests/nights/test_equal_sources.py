"""Rows that rest on `equal_sources.json`: they say so, and a night repeats one run for each declaration, once."""

from __future__ import annotations

import pytest
from nights import TINY, fabricate, write_suite

from harness import Bench, BenchError
from harness.cli.app import run
from harness.contracts.registry import registry
from harness.reports import Request, load_groups
from harness.results.ledger.attempt import Attempt
from harness.results.store import Store
from harness.runs import source
from plugins.upkeep import equal_sources, replay
from plugins.upkeep.bitwise import Difference

OTHER = [Difference("draws.safetensors", "draws", "[0]", "1", "2")]


@pytest.fixture
def repeated(tmp_path, monkeypatch):
    """Runs of earlier code than that of sgld now, which is declared equal; a list of the runs that were repeated."""
    monkeypatch.chdir(tmp_path)
    target, replays = registry().find("samplers", "sgld").target, []
    codes = {target: "b" * 64}
    monkeypatch.setattr(equal_sources, "content_hash", lambda of: codes.get(of) or equal_sources.source_hash(of))

    def repeat(asked, *_):
        replays.append((asked.spec.method, asked.spec.seed))
        if isinstance(repeated.gives, BenchError):
            raise repeated.gives
        differences, environment = repeated.gives
        return replay.Replay(asked, asked.stored, differences, ["result.json"], [], environment, {})

    def repeated(code="b", gives=((), {})):
        codes[target], repeated.gives = code * 64, gives
        replays.clear()
        return replays

    monkeypatch.setattr(replay, "repeat", repeat)
    monkeypatch.setattr("nights.equal_code", lambda _: {})
    suite = write_suite(tmp_path, TINY.replace('"coverage", ', ""))
    values = {"wasserstein2": 1.0, "modes_covered": 4.0}
    fabricate(tmp_path / "r", suite, lambda spec: {**values, "wasserstein2": 1.0 + spec.seed % 3})
    return repeated


def night(results):
    """What a night finds wrong, and the caveats of the rows after it."""
    store = Store(results)
    store.refresh()
    wrong = equal_sources.replay_missing(Bench(results), store)
    groups = load_groups(store, Request(registry=registry()))
    return [why for _, why in wrong], {group.method: group.caveats.get("equal source", "") for group in groups}


def test_a_night_repeats_one_run_for_each_declaration_once(tmp_path, repeated):
    replays = repeated()
    for _ in range(2):
        wrong, caveats = night(tmp_path / "r")
        assert ([name for name, _ in replays], wrong) == (["sgld"], [])
    assert caveats["hmc"] == ""
    assert caveats["sgld"].startswith("sampler sgld, bbbbbbbb for ")
    assert caveats["sgld"].endswith(": replayed, passed")
    replays = repeated("c")  # another pair of hashes
    night(tmp_path / "r")
    assert len(replays) == 1


def test_other_numbers_are_an_error_every_night_and_are_printed_once(tmp_path, repeated, capsys):
    replays = repeated(gives=(OTHER, {"code.sgmcmc-bench.commit": ("a", "b")}))
    for printed in (True, False):
        assert run(["--results", "r", "nightly", "tiny.toml", "--out", "site"]) == 1
        said = capsys.readouterr()
        assert ("gives another draws.safetensors draws" in said.out, bool(said.out)) == (printed, printed)
        assert "1 declaration of equal code refuted" in said.err
    assert len(replays) == 1
    assert "Code that is declared equal and gives other numbers" in (tmp_path / "site" / "night.html").read_text()
    page = (tmp_path / "site" / "leaderboard.html").read_text()
    assert "sgld, equal source" in page
    assert "gives another draws.safetensors draws" in page


@pytest.mark.parametrize(
    ("changed", "decides"),
    [
        ({"packages.torch": ("2.9", "2.11")}, True),
        ({"cpu": ("a", "b")}, True),
        ({"platform": ("Linux 6 x86_64", "Linux 7 x86_64")}, False),
        ({"platform": ("Linux 6 x86_64", "Linux 6 aarch64")}, True),
        ({"cores": (2, 4), "code.x.digest": ("1", "2")}, False),
    ],
)
def test_other_numbers_in_an_environment_that_decides_them_prove_nothing(tmp_path, repeated, changed, decides):
    repeated(gives=(OTHER, changed))
    wrong, caveats = night(tmp_path / "r")
    assert ("may be the reason" in caveats["sgld"], len(wrong)) == (decides, int(not decides))


def test_a_run_that_cannot_be_repeated_is_tried_again(tmp_path, repeated, capsys):
    replays = repeated(gives=BenchError("no data"))
    for number in (1, 2):
        assert night(tmp_path / "r")[1]["sgld"].endswith(": not replayed")
        assert len(replays) == number
        assert "note: not replayed: no data" in capsys.readouterr().err


def test_runs_of_the_code_itself_rest_on_nothing(tmp_path, repeated):
    replays = repeated()
    for path in (tmp_path / "r" / "runs").glob("*/*/*/"):
        Attempt(path).event("started", code={"sampler": "b" * 64})
    assert night(tmp_path / "r") == ([], {"sgld": "", "hmc": ""})
    assert replays == []
    repeated("c")  # the code was edited again: now they are runs of earlier code
    night(tmp_path / "r")
    assert len(replays) == 1


def test_a_worker_records_its_code_where_that_is_declared_equal(monkeypatch):
    from specs import run_spec

    spec = run_spec()
    monkeypatch.setattr(source, "content_hash", lambda _: "0" * 64)
    assert source.equal_code(spec) == {}
    monkeypatch.setattr(source, "content_hash", lambda _: "b" * 64)
    assert source.equal_code(spec) == dict.fromkeys(("sampler", "schedule", "task"), "b" * 64)
