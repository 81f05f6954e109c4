"""The script for a machine with a GPU, tried on a CPU: its order, what it does after a failure, and how it goes on."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import pytest
from benchmarks import gpu

WAITS = "import time; time.sleep(60)"
METRICS = [{"name": "ess", "value": 5.0}]


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script with parts that are made up; each says its name in a file."""
    monkeypatch.setattr(gpu, "GRACE_SECONDS", 1.0)
    monkeypatch.setattr(gpu, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(gpu, "LOOKS", {"look-first": {}, "look-second": {}})
    monkeypatch.setattr(gpu, "RUNS", {"sgld": ("gaussian2d", 1000, 10)})
    done = tmp_path / "done"
    bodies = {
        "look-first": "print('noise'); print('{\"steps_per_second\": 2.0}')",
        "look-second": "raise SystemExit('no capture')",
        "tests": "print('3 passed')",
        "beside-sgd": "print('{}')",
        "run-sgld": "print('1 done')",
    }

    def command_of(name, asked, record):
        if name == "run-sgld":
            original(name, asked, record)  # which settles its budget
        return [sys.executable, "-c", f"open({str(done)!r}, 'a').write({name!r} + ' '); {bodies[name]}"]

    folder = tmp_path / "out" / "work" / "results" / "runs" / "00" / "key" / "attempt"
    folder.mkdir(parents=True)
    result = {"status": "done", "reason": None, "seconds": {}, "steps_done": 10, "metrics": METRICS}
    (folder / "spec.json").write_text(json.dumps({"method": "sgld"}))
    (folder / "result.json").write_text(json.dumps(result))
    original, limits = gpu.command_of, {}
    execute = gpu.execute
    monkeypatch.setattr(gpu, "command_of", command_of)
    monkeypatch.setattr(
        gpu, "execute", lambda command, log, left, how: execute(command, log, limits.get(log.stem, left), how)
    )
    out = tmp_path / "out"

    def call(*more, **changed):
        bodies.update(changed)
        code = gpu.main(["run", "--out", str(out), "--device", "cpu", "--minutes", "0.4", *more])
        record = gpu.Record(out / "results.jsonl")
        return code, record, done.read_text().split()

    call.bodies, call.out, call.limits = bodies, out, limits
    return call


def test_a_part_that_fails_is_recorded_and_the_next_ones_are_done(script):
    code, record, order = script()
    assert code == 1
    assert order == ["look-first", "look-second", "tests", "run-sgld", "beside-sgd"]
    assert "no capture" in record.last("look-second")["found"]["log"]
    assert record.last("look-first")["found"] == {"steps_per_second": 2.0}
    (attempt,) = record.last("run-sgld")["found"]["attempts"]
    assert attempt["metrics"] == {"ess": 5.0}
    with tarfile.open(script.out / "attempts.tar.gz") as archive:
        assert {name.rpartition("/")[2] for name in archive.getnames()} == {"spec.json", "result.json"}
    # Of 24 s those that are left, at 2 steps a second, of which .8 are for steps, in whole epochs of 10.
    assert (script.out / "budget-sgld").read_text() in {"steps=10", "steps=20", "steps=30"}
    assert script()[2] == order
    script.bodies["look-second"] = "print('{}')"
    code, record, order = script("--retry")
    assert (code, order[5:]) == (0, ["look-second"])


def test_a_call_ends_in_time_and_the_next_one_goes_on(script, monkeypatch):
    script.bodies["look-second"] = "print('{}')"
    script.bodies["tests"] = WAITS
    script.limits["tests"] = 2.0
    monkeypatch.setattr(gpu, "LIMITS", {})
    code, record, order = script()
    assert (code, record.last("tests")["code"]) == (3, None)
    monkeypatch.setattr(gpu, "LEAST_SECONDS", 1e9)
    assert script()[0] == 3
    monkeypatch.setattr(gpu, "LEAST_SECONDS", 0.0)
    script.bodies["tests"] = "print('3 passed')"
    script.limits.clear()
    code, record, order = script()
    assert (code, order) == (0, ["look-first", "look-second", "tests", "tests", "run-sgld", "beside-sgd"])


def test_a_part_that_hangs_has_failed_and_costs_its_limit(script, monkeypatch):
    monkeypatch.setattr(gpu, "LIMITS", {"look": 2.0})
    monkeypatch.setattr(gpu, "RUNS", {})
    script.bodies |= {"look-first": "print('{}')", "look-second": WAITS}
    code, record, order = script()
    assert (code, record.last("look-second")["code"]) == (1, gpu.TIMEOUT)
    assert order[-2:] == ["tests", "beside-sgd"]


def test_a_look_measures_steps_here_too():
    asked = {"device": "cpu", "mode": "plain", "width": 1, "batch": 4, "steps": 1}
    record = gpu.measure(asked)
    assert record["finite"]
    assert record["seconds_per_epoch"] == pytest.approx(gpu.TRAIN / 4 / record["steps_per_second"])


def test_decoding_is_measured_here_too():
    record = gpu.measure({"mode": "decoding", "steps": 1})
    assert record["1 threads"]["per_core"] > 1


def test_the_papers_runs_are_the_protocols():
    from tasks.vision.cifar import Cifar10

    budgets = {f"cifar10@{p.name}": (p.budgets["paper"], p.thin) for p in Cifar10.protocols}
    assert {task: (steps, epoch) for task, steps, epoch in gpu.RUNS.values()}.items() <= budgets.items()


def test_the_commands_are_those_of_this_checkout(tmp_path):
    asked = gpu.argparse.Namespace(
        out=tmp_path, work=tmp_path, device="cuda:0", precision="bfloat16", seed=0, steps=100, width=64, minutes=20.0,
        data=None,
    )  # fmt: skip
    record = gpu.Record(tmp_path / "results.jsonl")
    for name in gpu.parts():
        command = gpu.command_of(name, asked, record)
        assert all(gpu.Path(word).exists() for word in command if word.endswith(".py"))
    assert json.loads(gpu.command_of("look-tf32", asked, record)[-1])["tf32"] is True
    assert gpu.environment(asked)["PYTHONPATH"].startswith(str(gpu.ROOT))


def test_a_checkout_alone_has_its_plugins(tmp_path, monkeypatch):
    """As where the project cannot be installed: the interpreter sees all packages but the project's."""
    bare = tmp_path / "packages"
    bare.mkdir()
    for folder in map(Path, sys.path):
        for package in folder.iterdir() if folder.name == "site-packages" else ():
            if not package.name.startswith("sgmcmc_bench") and not (bare / package.name).exists():
                (bare / package.name).symlink_to(package)
    monkeypatch.setenv("PYTHONPATH", str(bare))
    asked = gpu.argparse.Namespace(work=tmp_path / "work", data=None)
    bench = [sys.executable, "-S", *gpu.BENCH[1:], "--results", str(tmp_path / "results")]
    words = ["run", "--sampler", "sgld", "--task", "gaussian2d", "--seeds", "0", "--budget", "steps=20", "--yes"]
    log = tmp_path / "log"
    assert gpu.execute([*bench, *words], log, 100.0, gpu.environment(asked)) == 0, log.read_text()
    assert "1 done" in log.read_text()
