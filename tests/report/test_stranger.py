"""A ranked report from outside: it has what the built-in ones have, in 30 lines or fewer."""

import sys

from scored import final_errors, moments, store, write_run

from harness.contracts.registry import load
from harness.reporting.rendering import render
from harness.reports import Request
from reports.tables.leaderboard import Leaderboard

MINE = '''
"""Who is best on each task."""

from harness import Result
from harness.reports import Column, Report, Table, score_fields, with_interval

COLUMNS = [Column(name, name) for name in ("rank", "verdict", "method", "error", "status")]


class Mine(Report):
    name = "mine"

    def build(self, store, request):
        tables, records = [], []
        for field in score_fields(store, request):
            by = "joint_error" if field.truth_known else field.primary
            rows = [self.row(field, group, by) for group in field.ordered(by)]
            tables.append(Table(field.title, COLUMNS, rows, field.failures()))
            records += field.records([by])
        return Result(tables, records)

    def row(self, field, group, by):
        standing, error = field.standing(group, by), with_interval(field.estimate(group, by))
        rank, verdict = (standing.rank.rank, standing.rank.verdict) if standing.rank else (None, None)
        label = field.labels[group.key]
        return {"rank": rank, "verdict": verdict, "method": label, "error": error, "status": standing.short}
'''


def test_a_leaderboard_from_outside_ranks_as_ours_does(tmp_path, monkeypatch):
    (tmp_path / "outside.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "outside", raising=False)
    for method, error in (("sgld", 0.3), ("csgld", 0.1)):
        for seed in range(5):
            curves = moments() | final_errors([[error + 0.01 * seed]] * 4)
            write_run(tmp_path / "results", method=method, seed=seed, metrics={"modes_covered": 9.0}, curves=curves)
    write_run(tmp_path / "results", method="sghmc", status="diverged")
    filled = store(tmp_path / "results")
    mine = load("outside:Mine")().build(filled, Request())
    ours = [r for r in Leaderboard().build(filled, Request()).records if r["metric"] == "joint_error"]
    assert [(r["method"], r["rank"]) for r in mine.records] == [("csgld", 1), ("sgld", 2), ("sghmc", None)]
    assert all(r.items() <= o.items() for r, o in zip(mine.records, ours, strict=True))
    assert "diverged at step 120, chain 2" in render(mine, "table")
    assert len(MINE.strip().splitlines()) <= 30
