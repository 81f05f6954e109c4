"""The table of costs of the study: searches and finalists are counted, and a pair that diverges costs as sgld."""

import polars as pl
import pytest

from harness import Bench
from plugins.nights import study_costs

SUITE = """
summary = "a part"
[[run]]
samplers = ["sgld", "sghmc"]
tasks = ["gaussian2d"]
seeds = "0-4"
chains = 2
budget = "quick"
study = "tuned"
"""


def test_a_pair_costs_its_trials_its_finalists_and_its_rows(tmp_path, monkeypatch):
    (tmp_path / "part.toml").write_text(SUITE + SUITE[SUITE.index("[[run]]") : SUITE.index("study =")])
    asked = []

    def planned(_, sampler, __, *, seeds, **settings):
        asked.append((sampler, settings["budget"], settings["study"], len(seeds)))
        each = None if sampler == "sghmc" else 0.5
        return pl.DataFrame({"seconds": [each] * len(seeds)}, schema={"seconds": pl.Float64})

    monkeypatch.setattr(Bench, "plan", planned)
    monkeypatch.setattr(Bench, "run", lambda *_, **settings: asked.append(settings["budget"]))
    row, untuned = study_costs.rows(Bench(tmp_path / "results"), str(tmp_path / "part.toml"), known := set())
    trials = {"sgld": 30, "sghmc": 40}  # 10, and 10 for each of 2 and 3 dimensions
    searches = 2 * sum(trials.values()) + 2 * 5 * 10
    assert (row["tuning_runs"], row["runs"], row["pairs"]) == (searches, 10, 2)
    assert row["tuning"] == pytest.approx(0.5 * searches / 60)
    assert row["reported"] == pytest.approx(0.5 * 10 / 60)
    assert (untuned["tuning_runs"], untuned["tuning"], untuned["runs"]) == (0, 0, 10)
    assert untuned["reported"] == row["reported"]
    assert asked[0] == "quick"
    assert ("sghmc", "quick", "one-setting", 2) in asked
    again, _ = study_costs.rows(Bench(tmp_path / "results"), str(tmp_path / "part.toml"), known)
    assert (again["tuning_runs"], again["runs"]) == (0, 10)
