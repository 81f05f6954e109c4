"""`bench verify --timeout` limits all that the child does with a stranger's settings, and bounds hold for records."""

import json
import time

import pytest
from support import bench

from harness.cli.app import run
from harness.results.spec import recorded_key

PLUGIN = """
import os, time
from dataclasses import dataclass
from harness import Info, hook
from tasks.synthetic.mixture5 import Mixture5

@hook
def bench_tasks():
    return [Info("slow-to-build", "slow_to_build:Slow", "a task whose build can take for ever")]

@dataclass(frozen=True, kw_only=True)
class Slow(Mixture5):
    def build(self, *arguments, **more):
        if os.environ.get("SLOW_BUILD"):
            time.sleep(1000)
        return super().build(*arguments, **more)
"""


@pytest.mark.slow
def test_the_time_limit_covers_the_building_of_the_task(tmp_path):
    (tmp_path / "slow_to_build.py").write_text(PLUGIN)
    words = ["--plugin", "slow_to_build.py", "--results", "theirs"]
    asked = ["--sampler", "sgld", "--task", "slow-to-build", "--budget", "steps=50", "--draws", "none"]
    made = bench([*words, "run", *asked, "--seeds", "0", "--set", "schedule.step_size=0.01"], tmp_path)
    assert made.returncode == 0, made.stderr
    began = time.monotonic()
    done = bench([*words, "--json", "verify", "theirs", "--timeout", "3s"], tmp_path, SLOW_BUILD="1")
    assert time.monotonic() - began < 60
    (row,) = json.loads(done.stdout)
    assert row["how"] == "not replayed: it took more than 3 s", done.stderr
    assert row["verified"] == "reported"


def test_a_record_beyond_the_limits_is_not_run(tmp_path, capsys):
    """With this many chains, the worker's memory grew until it was killed."""
    words = ["--sampler", "sgld", "--task", "mixture5", "--budget", "steps=50", "--seeds", "0", "--draws", "none"]
    assert run(["--results", str(tmp_path / "theirs"), "run", *words]) == 0
    (spec,) = tmp_path.glob("theirs/runs/*/*/*/spec.json")
    record = json.loads(spec.read_text()) | {"chains": 10**9}
    record |= {"key": recorded_key(record), "group": recorded_key(record, "seed")}
    spec.write_text(json.dumps(record))
    result = json.loads((spec.parent / "result.json").read_text())
    result["key"] = record["key"]
    result["files"].pop("spec.json", None)
    result.pop("sha256", None)
    (spec.parent / "result.json").write_text(json.dumps(result))
    key = record["key"]
    (tmp_path / "forged/runs" / key[:2] / key).mkdir(parents=True)
    spec.parent.rename(tmp_path / "forged/runs" / key[:2] / key / spec.parent.name)
    capsys.readouterr()
    assert (
        run(["--results", str(tmp_path / "mine"), "--json", "verify", str(tmp_path / "forged"), "--timeout", "15s"])
        == 4
    )
    said = "".join(capsys.readouterr())
    assert "chains = 1000000000 is more than 100,000" in said
    assert len(said) < 2000
