"""What `bench new` writes works as it is: it installs, keeps its laws, passes its tests, runs, needs no tidying."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from support import bench, bench_here, importable

from harness.cli.app import run
from plugins.scaffold.package import KINDS

NAMES = {kind: f"own-{kind}" for kind in KINDS}
HOT = """
import pytest
from plugins.checking import SamplerLaws, TaskLaws
from own_sampler.sampler import OwnSamplerSampler
from own_task.task import OwnTaskTask


class Hot(OwnSamplerSampler):
    exempt = {"scale": "it is not meant to"}

    def step(self, theta, state, potential, h, T, noise):
        return super().step(theta, state, potential, h, 2 * T, noise)


class TestHot(SamplerLaws):
    @pytest.fixture(params=[{}, {"gradient_variance": 0.5}], ids=["quiet", "noisy"])
    def sampler(self, request):
        return Hot(**request.param)


class TestNothing(SamplerLaws):
    @pytest.fixture
    def sampler(self):
        return None


class SteepTask(OwnTaskTask):
    def grad(self, theta):
        return 1.1 * super().grad(theta)


class TestSteep(TaskLaws):
    @pytest.fixture
    def task(self):
        return SteepTask


def test_of_one_s_own():
    assert True
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A package of each kind, as the command writes it."""
    folder = tmp_path_factory.mktemp("kit")
    for kind, name in NAMES.items():
        assert run(["new", kind, name, "--into", str(folder / "packages")]) == 0
    return folder / "packages"


@pytest.fixture(scope="module")
def installed(packages, tmp_path_factory):
    """The environment in which pip has installed all of them, from copies: building leaves the packages alone."""
    site = tmp_path_factory.mktemp("site")
    copy = shutil.copytree(packages, tmp_path_factory.mktemp("source") / "packages")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--target", str(site), *(str(copy / name) for name in NAMES.values())]
    subprocess.run(command, check=True, timeout=300)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "BENCH_RESULTS": str(tmp_path_factory.mktemp("results"))}


@pytest.fixture
def results(installed):
    """The results folder, while this process finds the packages too."""
    with importable(installed["PYTHONPATH"].partition(os.pathsep)[0]):
        yield installed["BENCH_RESULTS"]


def run_pytest(words, environment, folder):
    """pytest's output, in a process of its own and under its default settings but for warnings."""
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-W", "error", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )


def test_what_is_installed_is_offered_without_problems(results):
    rows = {row["plugin"]: row for row in json.loads(bench_here(results, "plugins", "--json")[1])}
    for kind, name in NAMES.items():
        row = rows[name]
        assert (row["status"], row[f"{kind}s"], row["version"]) == ("ok", name, "0.1.0"), row


def test_their_own_tests_pass(installed, packages):
    """The sampler's are run where the tutorial is followed."""
    folders = [str(packages / name) for kind, name in NAMES.items() if kind != "sampler"]
    done = run_pytest([*folders, "-k", "not compiled"], installed, packages)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\b\d\d passed, 2 skipped, 1 deselected", done.stdout), done.stdout


def test_they_run_and_are_reported(installed, results):
    words = ["run", "--sampler", NAMES["sampler"], "--task", NAMES["task"], "--schedule", NAMES["schedule"]]
    done = bench([*words, "--set", "schedule.step_size=0.02", "--budget", "smoke", "--seeds", "0-1"], **installed)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(bench_here(results, "report", NAMES["report"], "--json")[1])
    assert (row["method"], row["task"], row["runs"], row["failed"]) == (NAMES["sampler"], NAMES["task"], 2, 0)
    assert row["milliseconds"] > 0
    ranked = json.loads(bench_here(results, "report", "leaderboard", "--json")[1])
    assert {"mean_error", "variance_ratio", "passes_to_low_error"} <= {row["metric"] for row in ranked}


def test_a_law_that_is_broken_is_a_failed_test_with_the_law_s_own_words(installed, tmp_path):
    (tmp_path / "test_hot.py").write_text(HOT)
    chosen = "derived-law or scale or energy or prior or own"
    done = run_pytest(["-k", chosen, str(tmp_path / "test_hot.py")], installed, tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stdout
    assert sum(line.startswith("derived-law: at T = 0.5, h -> 0: lambda var(theta)/T is 2") for line in lines) == 2
    assert (
        sum(line.startswith("gradient is that of the energy: on all the data, grad U differs") for line in lines) == 1
    )
    assert "the fixture `sampler` returned a NoneType, not a harness.Sampler" in lines
    assert any("scale: exempt: it is not meant to" in line for line in lines)
    assert any("prior counted once: skipped: the task declares no" in line for line in lines)
    assert "Traceback" not in done.stdout
    assert "inherited.py:" not in done.stdout.partition("short test summary")[0]
    quick = run_pytest(["-m", "not laws", str(tmp_path / "test_hot.py")], installed, tmp_path)
    assert quick.stdout.startswith("."), quick.stdout
    assert "1 passed, " in quick.stdout


def test_what_is_written_needs_no_tidying(packages):
    for words in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *words, "--no-cache", str(packages)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
