"""Rows that join a suite after results of its season were published: their seeds, and beside whom they run."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from nights import made_up, write_suite

from harness import Bench
from harness.cli.app import run
from harness.contracts.registry import registry
from harness.reports import Request, score_fields
from harness.results.store import Store
from harness.runs import plan
from harness.runs.local import LaunchSummary
from harness.runs.source import source_hash
from plugins.fresh_seeds import fresh_seeds
from plugins.nights.late import SEASON as SEASON_ORIGIN
from plugins.nights.late import caveats, separated
from plugins.nights.regression.night import History, Night, NightRow
from plugins.nights.regression.observe import SuiteCommand
from plugins.nights.suite import read

SUITE = """
reports = ["leaderboard"]
season = {season}

[[run]]
samplers = {samplers}
tasks = ["mixture5"]
seeds = {seeds}
budget = "smoke"
"""
SEASON = fresh_seeds(5, "season", 1)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def night(here):
    """A night that is planned and recorded without any run: seeds by method, of rows and of reference samplers."""

    def planned(*samplers, season=1, seeds="5", results="r", recorded=True):
        suite = read(write_suite(here, SUITE.format(samplers=json.dumps(samplers), season=season, seeds=seeds)))
        bench = Bench(here / results)
        bench.ledger.prepare()
        commands = [SuiteCommand(1, one, plan.plan(bench.registry, one, bench.ledger)) for one in suite.entries]
        commands, late = separated(bench, suite, commands)
        seeds_of = {method: set() for method in samplers}
        rows = {}
        for command in commands:
            for one in command.planned:
                seeds_of[one.spec.method].add(one.spec.seed)
                if not command.of:
                    rows.setdefault(command.row(one.spec), {})[one.spec.seed] = one.spec.key
        tonight = Night(suite.digest, {name: NightRow(1, keys, {}, {}) for name, keys in rows.items()})
        if recorded:
            History(bench.results, suite.name).record(tonight)
        return seeds_of, late

    return planned


@pytest.mark.slow
def test_a_late_row_is_shown_beside_the_reference_samplers(here, monkeypatch, capsys):
    asked, specs = [], {}

    def execute(bench, planned, *_, **__):
        for one in planned:
            if not one.standing.cached:
                asked.append((one.spec.method, one.spec.seed))
                specs[one.spec.method] = one.spec
                value = float(len(one.spec.method)) + 0.01 * (one.spec.seed % 7)
                made_up(bench.ledger, one.spec, {"wasserstein2": value, "modes_covered": 4.0})
        return LaunchSummary()

    monkeypatch.setattr(Bench, "execute", execute)

    def nightly(*samplers, code=0, words=()):
        write_suite(here, SUITE.format(samplers=json.dumps(samplers), season=1, seeds="5"))
        asked.clear()
        assert run(["--results", str(here / "r"), "nightly", "tiny.toml", "--out", str(here / "site"), *words]) == code
        return capsys.readouterr()

    nightly("sgld", "msgld")
    assert {seed for _, seed in asked} == {*SEASON}
    assert "--max-runs 20" in nightly("sgld", "msgld", "hmc", code=2, words=("--max-runs", "19")).err
    said = nightly("sgld", "msgld", "hmc")
    late = {seed for name, seed in asked if name == "hmc"}
    assert sorted(asked) == sorted((name, seed) for name in ("hmc", "sgld") for seed in late)
    (line,) = said.out.splitlines()
    assert line.startswith("hmc on mixture5@adaptive-drift, smoke, 8 chains: new: added after results of the season: ")
    assert line.endswith("on 5 seeds of its own, with sgld")
    assert "with sgld; 10 runs" in said.err
    page = (here / "site" / "leaderboard.html").read_text()
    assert "hmc, late" in page
    assert "added after results of season 1 of suite tiny, so on seeds of its own" in page
    records = json.loads((here / "site" / "leaderboard.json").read_text())
    assert {record["method"] for record in records if record["caveats"]} == {"hmc"}
    said = nightly("sgld", "msgld", "hmc")
    assert asked == []
    assert "of its own;" not in said.err
    (field,) = score_fields(Store(here / "r"), Request(registry=registry()))
    group = {one.method: one for one in field.groups}
    paired, apart = (field.compare(group["hmc"], group[other], "wasserstein2") for other in ("sgld", "msgld"))
    assert ({*paired.pairs}, {*apart.pairs}) == (late, set())
    assert apart.p is not None
    pages = [path.read_text() for path in (here / "site").glob("rows/*.html")]
    assert sum(">late<" in page for page in pages) == 1, "its own page says so"
    assert re.search(r"\blate\b", (here / "site" / "index.html").read_text().partition("<main")[2]), "and the matrix"
    in_season = {name: one for name, one in specs["hmc"].origins.items() if name != SEASON_ORIGIN}
    made_up(Bench(here / "r").ledger, replace(specs["hmc"], seed=3, origins=in_season), {"wasserstein2": 1.0})
    store = Store(here / "r")
    store.refresh()
    assert [one["late"].startswith("5 of 6 runs were added") for one in caveats(store, registry()).values()] == [True]


def test_a_late_row_keeps_its_seeds_and_gets_more_where_more_are_asked_for(night, monkeypatch):
    assert night("sgld", "msgld") == ({"sgld": {*SEASON}, "msgld": {*SEASON}}, [])
    first, late = night("sgld", "msgld", "csgld", "hmc")
    late_seeds = first["hmc"]
    assert len(late_seeds - {*SEASON}) == 5
    assert first["csgld"] & late_seeds == set(), "each late row has seeds of its own"
    assert first["sgld"] == {*SEASON} | late_seeds | first["csgld"]
    assert [(one.references, one.missing) for one in late] == [(["sgld"], 10), (["sgld"], 10)]
    with monkeypatch.context() as patch:
        patch.setattr(plan, "source_hash", lambda target: source_hash(target)[:-8] + "b" * 8)
        again, _ = night("sgld", "msgld", "csgld", "hmc")
        assert again == first, "so that edited code is compared with the last night"
    more = night("sgld", "msgld", "csgld", "hmc", seeds="7")[0]
    assert more["msgld"] == {*fresh_seeds(7, "season", 1)}
    assert more["hmc"] > late_seeds
    assert len(more["hmc"]) == 7
    assert night("sgld", "csgld", "hmc", "msgld", seeds="3")[0]["hmc"] < more["hmc"]


def test_in_a_new_season_all_rows_share_seeds(night):
    night("sgld")
    night("sgld", "hmc")
    after = {*fresh_seeds(5, "season", 2)}
    assert night("sgld", "hmc", season=2) == ({"sgld": after, "hmc": after}, [])
    seeds, (late,) = night("sgld", "hmc", "psgld", season=2)
    assert seeds["sgld"] == seeds["hmc"] == after | seeds["psgld"]
    assert late.row.startswith("psgld on ")


def test_nobody_else_knows_the_seeds_of_a_late_row(night):
    late_seeds = []
    for results in ("r", "s"):
        night("sgld", results=results)
        late_seeds.append(night("sgld", "hmc", results=results)[0]["hmc"])
    assert len(late_seeds[0] | late_seeds[1]) == 10


@pytest.mark.parametrize("seeds", ['"0-4"', "[0, 1, 2]"])
def test_rows_on_named_seeds_are_never_late(night, seeds):
    night("sgld", seeds=seeds)
    assert night("sgld", "hmc", seeds=seeds)[1] == []


def test_without_reference_samplers_a_late_row_runs_alone(night):
    night("msgld")
    _, (late,) = night("msgld", "baoab")
    assert str(late) == "on 5 seeds of its own; no reference sampler of the suite is in its table"


def test_before_a_night_was_recorded_nothing_was_published(night):
    night("sgld", recorded=False)
    assert night("sgld", "hmc") == ({"sgld": {*SEASON}, "hmc": {*SEASON}}, [])
