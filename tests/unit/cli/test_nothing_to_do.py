"""The same command over finished runs: it says so, and imports nothing that it does not need for that."""

from __future__ import annotations

import json
import subprocess
import sys

from harness.contracts.registry import registry
from harness.results.ledger.ledger import Ledger
from harness.runs.plan import Request, plan

HEAVY = {"torch", "numpy", "polars", "duckdb", "pyarrow", "matplotlib", "scipy", "rich"}
COMMAND = ["run", "--sampler", "sgld", "--task", "mixture5", "--chains", "2", "--budget", "smoke"]
PROGRAM = (
    "import sys; from harness.cli.app import run; code = run(sys.argv[1:]); "
    "print(*(name for name in sys.modules if '.' not in name)); sys.exit(code)"
)


def finished(results, seeds):
    """Results of the runs that the command plans."""
    ledger = Ledger(results)
    ledger.prepare()
    asked = Request(["sgld"], ["mixture5"], seeds=seeds, chains=2, budget="smoke")
    for number, planned in enumerate(plan(registry(), asked, ledger)):
        key = planned.spec.key
        folder = ledger.runs / key[:2] / key / f"20260102T{number:09d}-000000"
        folder.mkdir(parents=True)
        (folder / "spec.json").write_text(json.dumps(planned.spec.to_json()))
        result = {"attempt": folder.name, "key": key, "status": "done", "reason": None, "metrics": [], "files": {}}
        (folder / "result.json").write_text(json.dumps(result))


def test_nothing_to_do_takes_no_heavy_import_and_changes_nothing(tmp_path):
    finished(tmp_path, range(30))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--results", str(tmp_path), *COMMAND, "--seeds", "0-29"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "30 runs: 30 done before, 0 to do" in done.stderr
    assert not HEAVY & set(done.stdout.split())
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before
