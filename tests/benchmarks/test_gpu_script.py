"""The script for a machine with a GPU, tried on a CPU: its order, what it does after a failure, and how it goes on."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import io
import itertools
import json
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks import gpu, gpu_blocks

from tasks.datasets import cifar

WAITS = "import time; time.sleep(60)"
BFLOAT16 = {"precision": "bfloat16", "mode": "compiled", "last": True, "batch": 64}
MEASURED = {"block": "steps", "asked": BFLOAT16, "ms": [500.0, 400.0, 900.0]}
TINY = {"device": "cpu", "width": 1, "steps": 1, "chains": 10, "images": 4}
STEP = {
    "block": "steps", "host_ms": [1.0],
    "asked": {"precision": "float32", "tf32": True, "mode": "compiled", "last": True, "batch": 64},
}  # fmt: skip
CODE = {"commit": "0123456789", "dirty": True}
METRICS = [{"name": "ess", "value": 5.0}]


def write_attempt(folder):
    """What a worker leaves of a finished run, as far as it is read here."""
    origins = {"task.precision": {"provenance": "user", "value": "bfloat16"}, "task.batch": {"provenance": "paper"}}
    spec = dict.fromkeys(gpu.RECORDED, "") | {"method": "sgld", "task": {"name": "gaussian2d"}, "origins": origins}
    result = {"status": "done", "reason": None, "seconds": {"sampling": 2.0}, "steps_done": 10, "metrics": METRICS}
    result |= {"finished": "2026-11-27", "passes": 1.0, "draws_kept": 1, "executed": "compiled"}
    environment = {"gpu": "a GPU", "torch": "2.11", "python": "3.12", "code": {"sgmcmc-bench": CODE}}
    for name, record in (("spec", spec), ("result", result), ("environment", environment)):
        (folder / f"{name}.json").write_text(json.dumps(record))


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script with parts that are made up; each says its name in a file."""
    monkeypatch.setattr(gpu, "GRACE_SECONDS", 1.0)
    monkeypatch.setattr(gpu, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(gpu, "BLOCKS", {"ready": 60.0, "steps": 60.0})
    monkeypatch.setattr(gpu, "RUNS", {"sgld": ("gaussian2d", 1000, 10)})
    done = tmp_path / "done"
    bodies = {
        "ready": f"print('noise'); print({json.dumps(MEASURED)!r})",
        "steps": f"print({json.dumps(MEASURED)!r}); raise SystemExit('no capture')",
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
    write_attempt(folder)
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
    assert order == ["ready", "steps", "tests", "run-sgld", "beside-sgd"]
    assert record.last("steps")["found"]["lines"] == [MEASURED]
    assert "no capture" in record.last("steps")["found"]["log"]
    assert record.last("ready")["found"] == {"lines": [MEASURED]}
    (attempt,) = record.last("run-sgld")["found"]["attempts"]
    assert attempt["metrics"] == {"ess": 5.0}
    with tarfile.open(script.out / "attempts.tar.gz") as archive:
        assert {name.rpartition("/")[2] for name in archive.getnames()} == set(gpu.SMALL[:3])
    written = json.loads((script.out / "gpu.json").read_text())
    (session,), (run,) = written["sessions"], written["runs"]
    assert (session["tests"], session["cases"]) == ("3 passed", [MEASURED, MEASURED])
    assert (run["settings"], run["metrics"]) == ({"task.precision": "bfloat16"}, {"ess": 5.0})
    assert run["code"] == "01234567 with changes"
    # Of 24 s those that are left, at 2 steps a second, of which .8 are for steps, in whole epochs of 10.
    assert (script.out / "budget-sgld").read_text() in {"steps=10", "steps=20", "steps=30"}
    assert script()[2] == order
    script.bodies["steps"] = "print('{}')"
    code, record, order = script("--retry")
    assert (code, order[5:]) == (0, ["steps"])


def test_a_call_ends_in_time_and_the_next_one_goes_on(script, monkeypatch):
    script.bodies["steps"] = "print('{}')"
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
    assert (code, order) == (0, ["ready", "steps", "tests", "tests", "run-sgld", "beside-sgd"])


def test_a_part_that_hangs_has_failed_and_costs_its_limit(script, monkeypatch):
    monkeypatch.setattr(gpu, "LIMITS", {"steps": 2.0})
    monkeypatch.setattr(gpu, "RUNS", {})
    script.bodies |= {"ready": "print('{}')", "steps": WAITS}
    code, record, order = script()
    assert (code, record.last("steps")["code"]) == (1, gpu.TIMEOUT)
    assert order[-2:] == ["tests", "beside-sgd"]


def test_a_run_gets_as_many_epochs_as_fit_at_the_speed_of_its_steps(tmp_path):
    """Those of its batch and precision, and recorded, where they were measured."""
    how = [{}, {"batch": 100}, {"batch": 100, "last": False}, {"mode": "plain"}, {"precision": "float32"}]
    lines = [{**MEASURED, "asked": BFLOAT16 | other, "ms": [10.0**n]} for n, other in enumerate(how)]
    asked = gpu.argparse.Namespace(out=tmp_path, minutes=25.0, precision="bfloat16")
    record = gpu.Record(tmp_path / "results.jsonl")
    record.add("steps", 0, 0.0, [], {"lines": lines})
    assert gpu.budget_of("msgld", asked, record) == "steps=60000"  # half of 1,500 s, .8 of it, 10 ms a step
    assert gpu.budget_of("csgld", asked, record) == "paper"
    (tmp_path / "budget-msgld").unlink()
    record.add("steps", 0, 0.0, [], {"lines": lines[3:]})
    assert gpu.budget_of("msgld", asked, record) == "steps=500"


def test_images_come_in_pieces(script, tmp_path, monkeypatch, capsys):
    """Of an archive in pieces the files before the first missing one are unpacked; runs need all of them."""
    files = {file.path: np.random.default_rng(0).bytes(3000) for file in cifar.CIFAR10}
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    pieces = tmp_path / "pieces"
    pieces.mkdir()
    for number, start in enumerate(range(0, len(whole.getvalue()), 5000)):
        (pieces / f"images.tar.{number:02}").write_bytes(whole.getvalue()[start : start + 5000])
    declared = [
        replace(file, size=len(files[file.path]), sha256=hashlib.sha256(files[file.path]).hexdigest())
        for file in cifar.CIFAR10
    ]
    monkeypatch.setattr(cifar, "CIFAR10", declared)
    monkeypatch.setattr(gpu, "RUNS", {"sgld": ("cifar10@csgmcmc", 1000, 10)})
    monkeypatch.setenv("BENCH_DATA", "")
    script.bodies["steps"] = "print('{}')"
    lost = (pieces / "images.tar.02").rename(tmp_path / "elsewhere")
    code, _, order = script("--data", str(pieces))
    told = capsys.readouterr().out
    assert (code, "run-sgld" in order) == (0, False)
    assert "left out: run-sgld" in told
    assert "images.tar.02" in told
    assert "data_batch_1" not in told
    assert f"{declared[-1].path} (missing)" in told
    lost.rename(pieces / "images.tar.02")
    assert script("--data", str(pieces))[2][-1] == "run-sgld"
    unpacked = script.out / "work" / "unpacked"
    assert {path: (unpacked / path).read_bytes() for path in files} == files
    assert not list(unpacked.glob("*.tar*"))


@pytest.mark.parametrize(("block", "cases"), [
    ("ready", 4), ("steps", 2), ("network", 1), ("profile", 1), ("rows", 3), ("predict", 1), ("memory", 3),
    ("chains", 5), ("blackjax", 1),
])  # fmt: skip
def test_a_block_measures_here_too(block, cases, monkeypatch):
    """Each kind of case of each block; the names are those that the script starts."""
    if block == "blackjax" and not importlib.util.find_spec("blackjax"):
        pytest.skip("blackjax is not installed")
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(sys, "path", [*sys.path])
    lines = list(itertools.islice(gpu_blocks.lines(block, TINY), cases))
    torch.set_deterministic_debug_mode("default")
    assert len(lines) == cases
    for line in json.loads(json.dumps(lines)):
        assert "error" not in line
        assert line["block"] == block
        assert line.get("finite", True)
        assert all(ms > 0 for ms in [*line.get("ms", ()), line.get("us_a_step", 1.0), line.get("seconds", 1.0)])


def test_the_blocks_are_those_of_the_script():
    assert list(gpu.BLOCKS) == list(gpu_blocks.BLOCKS)


def test_a_case_that_fails_is_a_line(monkeypatch):
    def fails():
        raise RuntimeError("misaligned address")

    monkeypatch.setitem(gpu_blocks.BLOCKS, "ready", lambda _: iter([({"n": 1}, fails), ({"n": 2}, dict)]))
    first, second = gpu_blocks.lines("ready", TINY)
    assert first["error"] == "RuntimeError: misaligned address"
    assert "error" not in second


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(gpu.HERE))
    return importlib.import_module("gpu_page")


def test_the_page_is_that_of_the_record(page):
    folder = gpu.ROOT / "docs" / "benchmarks"
    record = json.loads((folder / page.FILE).read_text())
    operations = json.loads((folder / "networks.json").read_text())["limit"]["operations"]
    assert page.summary(record) in folder.with_suffix(".md").read_text()
    assert page.section(record, operations) in (folder / "tables.md").read_text()


def test_a_page_of_little_says_what_was_not_measured(page, tmp_path):
    """As after a first call, or where cases failed."""
    lines = [{"part": "steps", "found": {"lines": [{**STEP, "ms": [2.0, 60.0, 4.0]}, {**STEP, "error": "no memory"}]}}]
    gpu.write_record(tmp_path / "gpu.json", [(lines, "2026-11-27", "abc", "A note.")], [])
    record = json.loads((tmp_path / "gpu.json").read_text())
    goals = [line.split(" | ") for line in page.summary(record).splitlines() if line.startswith("| ResNet-18")]
    assert [goal[2] for goal in goals] == ["3.13", "not measured", "not measured"]  # 782 times the median
    tables = page.section(record, 1e11)
    assert "2, 60, 4" in tables
    assert "1 of steps (no memory)" in tables
    assert "A note." in tables


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
    assert json.loads(gpu.command_of("steps", asked, record)[-1])["device"] == "cuda:0"
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
