"""Scoring, statistics and rendering need neither torch nor DuckDB nor plugins: frames are their input."""

import subprocess
import sys

SCRIPT = """
import importlib, json, pkgutil, sys
from pathlib import Path

for name in ("analysis.statistics", "reporting.scoring", "reporting.rendering"):
    package = importlib.import_module(f"harness.{name}")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)

import polars as pl
from harness.reporting.scoring.accuracy import accuracy
from harness.reporting.scoring.grouping import groups_of
from harness.reporting.scoring.groups import fields
from harness.reporting.scoring.score import FieldScore
from harness.results.store.scored_runs import GroupFrames

hashes = {name: "0" * 64 for name in ("sampler_source", "schedule_source", "task_source", "task_data")}
params = {name: "{}" for name in ("sampler_params", "schedule_params", "task_params", "execution")}
about = {"task": "line", "task_version": 1, "protocol": "ours", "label": "quick", "steps": 9, "chains": 1}
about |= {"schedule": "constant", "warm_source": None, "engine": 1, "key_version": 1, **hashes, **params}
groups = [{"group_key": name, "name": name, "sampler": name, **about} for name in ("a", "b")]
runs = [
    {
        "group_key": group, "key": f"{group}{seed}", "attempt": f"{group}{seed}", "path": "", "seed": seed,
        "status": "done", "reason": None, "step": None, "chain": None, "passes": 9.0, "full_gradients": None,
        "draws_kept": 9, "level": "run here", "laws": "",
    }
    for group in ("a", "b") for seed in range(5)
]
metrics = [
    {
        "group_key": group, "seeds": [0, 1, 2, 3, 4], "numbers": [shift + s for s in (0.0, 0.1, 0.2, 0.3, 0.4)],
        "name": "error", "direction": "min", "unit": "1", "version": 1, "target": None, "is_primary": True,
    }
    for group, shift in (("a", 5.0), ("b", 1.0))
]
origins = [{"group_key": group, "origins": "{}"} for group in ("a", "b")]
frames = GroupFrames(*map(pl.DataFrame, (groups, runs, metrics, origins, [])))
loaded = groups_of(frames)
(field,) = fields(loaded)
score = FieldScore(field, loaded, lambda: {g.key: accuracy(g, {}) for g in loaded}, lambda *_: {}, Path())
assert [group.method for group in score.ordered("error")] == ["b", "a"]
assert round(score.estimate(score.ordered("error")[0], "error").mean, 9) == 1.2
assert score.compare(*score.groups, "error").effect > 3.9
print(json.dumps(sorted({"torch", "duckdb", "plugins", "tasks", "reports"} & sys.modules.keys())))
"""


def test_scoring_statistics_and_rendering_work_alone():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
