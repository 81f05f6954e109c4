"""`harness.Bench`: what a script or a notebook does is what the command does, with classes of its own."""

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import harness
from harness import Bench, UsageError
from harness.cli.app import run
from plugins.samplers.sghmc import SGHMC
from plugins.schedules.constant import Constant
from plugins.schedules.cyclical import Cyclical
from tasks.synthetic.mixture5 import Mixture5

SMALL = {"seeds": [0], "chains": 2, "budget": "steps=20"}
CLASS = '''
from dataclasses import dataclass
import math
import harness
from harness import Sampler, param

SCALE = 2.0

def widen(x):
    return math.sqrt(SCALE) * x

@dataclass(frozen=True, kw_only=True)
class MySampler(Sampler):
    """SGLD once more."""

    share: float = param(0.5, "[0, 1]", "unused", source="ours")

    def init(self, theta, potential, h, T, noise):
        return {}

    def step(self, theta, state, potential, h, T, noise):
        return theta - h * potential.grad(theta) + widen((h * T).sqrt() * noise.normal(theta)), {}
'''
SCRIPT = """
print("executed")
bench = harness.Bench()
results = bench.run(["sgld", MySampler(share=0.3)], "mixture5", seeds=range(2), chains=2, budget="steps=20")
assert bench.run([MySampler(share=0.3)], "mixture5", seeds="0-1", chains=2, budget="steps=20").runs.height == 2
for row in results.runs.sort("method", "seed").iter_rows(named=True):
    print(row["method"], row["seed"], row["status"])
"""


def test_a_script_runs_a_class_of_its_own_and_no_worker_executes_the_script(tmp_path):
    (tmp_path / "script.py").write_text(f"{CLASS}\n{SCRIPT}")
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "executed", "my-sampler 0 done", "my-sampler 1 done", "sgld 0 done", "sgld 1 done",
    ]  # fmt: skip
    assert "2 runs: 2 done before, 0 to do" in done.stderr
    (kept,) = (tmp_path / "bench-results" / "definitions").glob("*.py")
    assert "print" not in kept.read_text()
    shown = ["--results", str(tmp_path / "bench-results"), "--plugin", str(kept), "plan"]
    assert run([*shown, "--sampler", "my-sampler", "--task", "mixture5", "--set", "sampler.share=0.3", "--chains", "2",
                "--budget", "steps=20", "--seeds", "0-1"]) == 0  # fmt: skip


@pytest.mark.slow
def test_a_script_checks_a_class_of_its_own_in_processes_that_do_not_execute_the_script(tmp_path):
    checked = "checked = harness.Bench().check(MySampler)\nprint({row['outcome'] for row in checked.records})\n"
    (tmp_path / "script.py").write_text(f"{CLASS}\nprint('executed')\n{checked}")
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "executed"
    assert done.stdout.count("executed") == 1
    assert "failed" not in done.stdout


def test_verbs_take_classes(tmp_path):
    (row, *_) = Bench(tmp_path).check([Constant]).records
    assert (row["name"], row["outcome"]) == ("sgmcmc-bench:constant", "passed")


def test_names_classes_and_instances_ask_for_the_runs_of_the_command(tmp_path, capsys):
    bench = Bench(tmp_path)
    one = bench.plan(SGHMC(friction=0.3), Mixture5, schedule=Cyclical(step_size=0.1, cycles=2), **SMALL)
    words = ["sampler.friction=0.3", "schedule.step_size=0.1", "schedule.cycles=2", "--schedule", "cyclical"]
    command = ["--results", str(tmp_path), "--json", "plan", "--sampler", "sghmc", "--task", "mixture5", "--seeds", "0"]
    assert run([*command, "--chains", "2", "--budget", "steps=20", "--set", *words]) == 0
    assert one["run_key"].to_list() == [row["run_key"] for row in json.loads(capsys.readouterr().out)]
    several = bench.plan("sgld,psgld", ["mixture5", "mixture25"], **SMALL)
    assert several.height == 4
    assert not list(tmp_path.iterdir())


def test_results_have_reports_figures_and_comparisons_of_the_runs(tmp_path):
    bench = Bench(tmp_path)
    results = bench.run("sgld,csgld", "mixture5", seeds=range(3), chains=2, budget="steps=50")
    assert repr(results) == f"Results of {tmp_path}: 6 runs, 2 methods, 1 task"
    assert set(results.runs["status"]) == {"done"}
    assert "sgld" in str(results.report("leaderboard"))
    assert repr(results.report("leaderboard")).startswith("Result of 1 table, ")
    assert set(results.compare("sgld", "csgld", differs="schedule").frame()["pairs"]) == {3}
    assert (
        bench.compare("sgld", "csgld", differs=["schedule"]).records
        == results.compare("sgld", "csgld", differs="schedule").records
    )
    assert bench.sql("select count(*) as n from run")["n"].to_list() == [6]
    assert bench.load(method="sgld").runs.height == 3


@pytest.mark.parametrize(
    ("samplers", "tasks", "more", "words"),
    [
        ("sgdl", "mixture5", {}, "unknown sampler 'sgdl'"),
        ([], "mixture5", {}, "no sampler or no task is given"),
        (Mixture5, "mixture5", {}, "Mixture5 is not a harness.Sampler"),
        ("sgld", "mixture5", {"draws": "most"}, "is not one of some, all, none"),
        ("sgld", "mixture5", {"max_runs": 0}, "a command plans at most 0"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(tmp_path, samplers, tasks, more, words):
    with pytest.raises(UsageError, match=words):
        Bench(tmp_path / "results").run(samplers, tasks, **SMALL, **more)
    assert not (tmp_path / "results").exists()


def test_an_unknown_verb_is_an_attribute_error_with_a_suggestion(tmp_path):
    with pytest.raises(AttributeError, match=r"Bench has no 'comapre'.*compare"):
        _ = Bench(tmp_path).comapre
    assert repr(Bench(tmp_path)) == f"Bench of {tmp_path}"


def test_it_runs_in_a_thread_and_within_an_event_loop(tmp_path):
    def runs(folder):
        return Bench(tmp_path / folder).run("sgld", "mixture5", **SMALL).runs.height

    async def cell():
        return runs("loop")

    assert asyncio.run(cell()) == 1
    with ThreadPoolExecutor() as pool:
        assert pool.submit(runs, "thread").result() == 1


VERB = """
from harness import Info, Result, hook

def howmany(bench, twice: bool = False):
    \"\"\"Count the runs.\"\"\"
    count = bench.load().runs.height * (2 if twice else 1)
    return Result(records=[{"folder": str(bench.results), "runs": count}])

@hook
def bench_verbs():
    return [Info("howmany", "my_verb:howmany", "Count the runs.")]
"""


def test_a_verb_of_others_gets_the_application(tmp_path, capsys):
    folder, file = tmp_path / "rb", tmp_path / "my_verb.py"
    file.write_text(VERB)
    bench = Bench(folder, plugins=[file])
    bench.run("sgld", "mixture5", **SMALL)
    capsys.readouterr()
    assert run(["--results", str(folder), "--plugin", str(file), "--json", "howmany", "--twice"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"folder": str(folder), "runs": 2}]
    assert bench.howmany().records == [{"folder": str(folder), "runs": 1}]
    assert isinstance(bench, harness.Bench)
