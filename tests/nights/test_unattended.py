"""`bench nightly` end to end: killed, finished by the same command, idle the next time, and 5 once code is worse."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from published import check_pages, files
from support import bench_words, forget

from harness.cli.app import run

SAMPLER = '''
from dataclasses import dataclass

from harness import Info, Sampler, hook


@dataclass(frozen=True, kw_only=True)
class Mine(Sampler):
    """theta <- theta - h grad U + sqrt(2 h T) xi."""

    def step(self, theta, state, potential, h, T, noise):
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * noise.normal(theta), state


@hook
def bench_samplers():
    return [Info("mine", "mine_nightly:Mine", "SGLD, to be broken")]
'''
SUITE = """
summary = "Two samplers, five seeds."

[[run]]
samplers = ["mine", "sgld"]
tasks = ["mixture5"]
seeds = "0-4"
chains = 4
budget = "steps=1500"
"""
ROW = "mine on mixture5@adaptive-drift, passes=15, 4 chains"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("unattended")
    (path / "mine_nightly.py").write_text(SAMPLER)
    (path / "tiny.toml").write_text(SUITE)
    return path


NIGHTLY = ("--plugin", "mine_nightly.py", "nightly", "tiny.toml", "--out", "site")


@pytest.fixture
def nightly(folder, monkeypatch, capsys):
    """The command in this process, which forgets the plugin: exit code, stdout and stderr."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("BENCH_RESULTS", raising=False)

    def command():
        forget("mine_nightly")
        return run(NIGHTLY), *capsys.readouterr()

    yield command
    forget("mine_nightly")


@pytest.fixture
def after_a_night(folder, nightly):
    """The folder after the first night, whether a test before has made it or not."""
    if not (folder / "site").exists():
        assert nightly()[0] == 0
    return folder


@pytest.mark.slow
def test_a_night_killed_on_the_way_is_finished_by_the_same_command(folder, nightly):
    environment = {name: value for name, value in os.environ.items() if name != "BENCH_RESULTS"}
    how = {"cwd": folder, "env": environment, "stderr": subprocess.DEVNULL, "start_new_session": True}
    child = subprocess.Popen(bench_words(*NIGHTLY), **how)
    deadline = time.monotonic() + 120
    while not list(folder.glob("bench-results/runs/*/*/*/spec.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert not (folder / "site").exists()
    assert not list(folder.glob("bench-results/nights/*/*.json"))
    code, _, said = nightly()
    assert code == 0, said
    assert "the first night" in said
    assert len(list(folder.glob("bench-results/nights/tiny/*.json"))) == 1


def test_the_pages_have_every_report_in_every_form_and_stand_alone(after_a_night):
    folder = after_a_night
    check_pages(folder / "site")
    names = set(files(folder / "site"))
    for report in ("night", "leaderboard", "coverage", "ess", "density"):
        assert {f"{report}.{end}" for end in ("html", "md", "csv", "json", "tex")} <= names
    assert any(name.startswith("figures/density/") and name.endswith(".svg") for name in names)
    page = (folder / "site" / "index.html").read_text()
    names_itself = "/*! https://github.com/leeoniya/uPlot"  # the library in the page
    assert "http" not in page.replace("http-equiv", "").replace(names_itself, "")


def test_the_same_command_finds_nothing_to_do_and_leaves_every_byte(after_a_night, nightly):
    folder = after_a_night
    before = files(folder / "site")
    code, shown, said = nightly()
    assert (code, shown) == (0, ""), said
    assert "nothing to do" in said
    assert files(folder / "site") == before


@pytest.mark.slow
def test_a_sampler_made_worse_ends_with_5_and_its_rows_by_name_and_the_other_is_not_run(after_a_night, nightly):
    folder = after_a_night
    (folder / "mine_nightly.py").write_text(SAMPLER.replace("(2 * h * T)", "(8 * h * T)"))
    code, shown, said = nightly()
    assert code == 5, said
    assert "10 runs: 5 done before, 5 to do" in said
    lines = shown.splitlines()
    assert any(line.startswith(f"{ROW}: within_mode_covariance_ratio is worse") for line in lines)
    assert all(line.startswith(ROW) for line in lines)
    assert ROW in (folder / "site" / "index.html").read_text()
    check_pages(folder / "site")
