"""What commands import: listing, planning and what is finished must not wait for torch, reading not for it either."""

import json
import os
import subprocess
import sys

import fabricated

from harness.contracts.registry import registry
from harness.results.ledger.ledger import Ledger
from harness.runs.plan import RunRequest, plan

LIGHT = {"torch", "numpy", "polars", "duckdb", "pyarrow", "matplotlib", "scipy", "sklearn", "rich"}
RUNS = ["--sampler", "sgld", "--task", "mixture5", "--chains", "2", "--budget", "smoke", "--seeds", "0-29"]
COMMANDS = [
    (["--help"], LIGHT | {"harness.results"}),
    (["new", "task", "own"], LIGHT - {"numpy"}), (["ls", "samplers"], LIGHT), (["status"], LIGHT),
    (["run", *RUNS], LIGHT),
    (["ingest"], LIGHT - {"duckdb", "rich"}), (["plan", *RUNS], {"torch"}), (["ls", "runs"], {"torch"}),
    (["sql", "select 1"], {"torch"}),
]  # fmt: skip
"""In this order, in one process: each with what must not be imported after it."""
PROGRAM = """
import sys
import harness
assert not {'torch', 'numpy', 'plugins'} & set(sys.modules)
import harness.system.pytest_plugin  # pytest loads it for everybody
assert not {'torch', 'numpy', 'polars', 'duckdb', 'scipy', 'typer'} & set(sys.modules)
from harness.cli.app import run
for words, heavy in eval(sys.argv[2]):
    assert run(["--results", sys.argv[1], *words]) == 0, words
    assert not heavy & set(sys.modules), (words, heavy & set(sys.modules))
    if words == ["--help"]:
        assert not [name for name in sys.modules if name.startswith("plugins.") and name.count(".") > 1]
"""


def finished(results):
    """Results of the runs of RUNS."""
    ledger = Ledger(results)
    ledger.prepare()
    asked = RunRequest(["sgld"], ["mixture5"], seeds=range(30), chains=2, budget="smoke")
    for number, planned in enumerate(plan(registry(), asked, ledger)):
        key = planned.spec.key
        folder = ledger.runs / key[:2] / key / f"20260102T{number:09d}-000000"
        folder.mkdir(parents=True)
        (folder / "spec.json").write_text(json.dumps(planned.spec.to_json()))
        (folder / "environment.json").write_text(json.dumps(fabricated.environment()))
        (folder / "result.json").write_text(json.dumps(fabricated.result(folder.name, key, {})))


def test_no_command_imports_more_than_it_needs_and_nothing_to_do_changes_nothing(tmp_path):
    finished(tmp_path / "results")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*") if path.is_file()}
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "results"), repr(COMMANDS)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "30 runs: 30 done before, 0 to do" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_worker_imports_the_compiler_of_torch_only_where_it_compiles():
    program = """
import sys, torch
from harness.results.spec import Execution
from harness.runs.job import set_up
for deterministic in (True, False):
    set_up(Execution(dtype="float32", compile="compiled", deterministic=deterministic), "cpu")
    import harness.engine.stepping.compiled, harness.engine.stepping.native
    assert not deterministic or not {"torch._inductor", "torch._dynamo", "sympy"} & set(sys.modules)
    assert torch.are_deterministic_algorithms_enabled() == deterministic
    from harness.engine.stepping.making import tell_compiler
    tell_compiler()
    assert torch.are_deterministic_algorithms_enabled() == deterministic
    assert torch.is_deterministic_algorithms_warn_only_enabled() == deterministic
    assert getattr(sys.modules["torch._inductor"].config, "deterministic", deterministic) == deterministic
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_plan_without_facts_leaves_torch_to_the_fork_server(tmp_path):
    program = """
import sys
from harness.cli.app import run
assert run(["--results", sys.argv[1], "plan", *eval(sys.argv[2])]) == 0
assert "torch" not in sys.modules
"""
    words = [sys.executable, "-c", program, str(tmp_path / "results"), repr(RUNS)]
    environment = {**os.environ, "BENCH_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
