"""Plugins as strangers ship them: one good one, installed by pip, and every way to be broken, each apart."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import support

PACKAGE = Path(__file__).parent.parent / "packages" / "bench-leimkuhler"

HEAD = "import os, sys\nfrom dataclasses import dataclass\nfrom harness import Info, Method, Sampler, hook, param\n"
CLASS = "@dataclass(frozen=True, kw_only=True)\nclass A(Sampler):\n    "


def offering(kind, offer, before=""):
    """The source of a plugin whose hook for a kind returns one offer."""
    return f"{HEAD}{before}@hook\ndef bench_{kind}():\n    return [{offer}]\n"


BROKEN = {
    "does-not-import": ("raise RuntimeError('no such luck')\n", "no such luck"),
    "misspelt-hook": (offering("sampler", "Info('lost', 'misspelt_hook:A')"), "bench_sampler"),
    "clashing-name": (
        offering("samplers", "Info('sghmc', 'clashing_name:A', 'mine')", f"{CLASS}pass\n"),
        "has the name of a sampler of sgmcmc-bench, which is reserved",
    ),
    "bad-default": (
        offering("samplers", "Info('too-hot', 'bad_default:A')", f"{CLASS}friction: float = param(2.0, '(0, 1]')\n"),
        "outside (0, 1]",
    ),
    "not-a-list": ("from harness import hook\n@hook\ndef bench_samplers():\n    return 'sgld'\n", "must return a list"),
    "bad-name": (offering("tasks", "Info('../<b>', 'bad_name:A')"), "must match"),
    "exits-at-import": ("import os\nos._exit(0)\n", "it ended its process (exit code 0)"),
    "core-verb": (
        offering("verbs", "Info('run', 'core_verb:run')", "def run(): ...\n"),
        "verb 'run' has the name of a verb of sgmcmc-bench",
    ),
    "wrong-argument": ("from harness import hook\n@hook\ndef bench_samplers(config):\n    return []\n", "config"),
    "no-target": (offering("samplers", "Info('nothing', 'no_target:A')"), "no_target:A does not load"),
    "no-sampler": (
        offering("samplers", "Info('plain', 'no_sampler:A')", "class A: ...\n"),
        "not a subclass of harness.Sampler",
    ),
    "lonely": (offering("methods", "Method('lonely', 'nobody', 'cyclical')"), "there is no sampler 'nobody'"),
    "quits": (
        offering("samplers", "Info('quits', 'quits:A')", f"{CLASS}def __post_init__(self):\n        sys.exit(3)\n"),
        "SystemExit",
    ),
}
"""The source of a broken plugin, and the reason that its row gives."""


def install_by_hand(site: Path, name: str, source: str) -> None:
    """What an installer leaves behind: a module, and metadata with an entry point."""
    module = name.replace("-", "_")
    (site / f"{module}.py").write_text(source)
    info = site / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[bench]\n{name} = {module}\n")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    source = shutil.copytree(PACKAGE, tmp_path_factory.mktemp("source") / "package")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--target", str(folder), str(source)]
    subprocess.run(command, check=True, timeout=120)
    for name, (text, _) in BROKEN.items():
        install_by_hand(folder, name, text)
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.fixture
def in_a_process(site, results):
    """`bench` in a process of its own, of which the command is the first."""

    def call(*words):
        done = support.bench(words, PYTHONPATH=str(site), BENCH_RESULTS=str(results))
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr

    return call


@pytest.fixture
def bench(site, results):
    """`bench` in this process, which finds the plugins for the time of a test."""

    def call(*words, code=0):
        ended, out, err = support.bench_here(results, *words)
        assert ended == code, out + err
        assert "Traceback" not in err
        return SimpleNamespace(stdout=out, stderr=err)

    with support.importable(site):
        yield call


def test_each_broken_plugin_is_a_row_with_its_reason(bench):
    rows = {row["plugin"]: row for row in json.loads(bench("plugins", "--json").stdout)}
    for name, (_, reason) in BROKEN.items():
        assert reason in rows[name]["problems"], (name, rows[name])
        assert rows[name]["status"] == "problem"
    assert not rows["leimkuhler"]["problems"]
    assert rows["leimkuhler"]["version"] == "0.3.1"


def test_everything_else_still_works(bench):
    names = {row["name"] for row in json.loads(bench("ls", "samplers", "--json").stdout)}
    assert {"sgld", "msgld", "hmc", "csgld", "leimkuhler-matthews"} <= names
    assert "lost" not in names


def test_a_built_in_name_stays_ours(bench):
    done = bench("plan", "--sampler", "clashing-name:sghmc", "--task", "mixture5", code=3)
    assert "sampler 'sghmc' has the name of a sampler of sgmcmc-bench" in done.stderr
    bench("plan", "--sampler", "sghmc", "--task", "mixture5")


def test_the_good_plugin_is_run_and_ranked_beside_the_built_ins(bench, in_a_process):
    options = ["--task", "mixture5", "--seeds", "0-4", "--chains", "8", "--budget", "steps=6000"]
    options += ["--set", "schedule.step_size=0.1", "task.noise=0"]
    in_a_process("run", "--sampler", "leimkuhler-matthews,sgld", *options)
    rows = json.loads(bench("report", "leaderboard", "--task", "mixture5", "--json").stdout)
    ours = [row for row in rows if row["method"] == "leimkuhler-matthews"]
    assert {row["seeds"] for row in ours} == {5}
    assert any(row["rank"] is not None for row in ours), ours
    assert json.loads(bench("show", "sampler", "leimkuhler-matthews", "--json").stdout)


def test_a_verb_from_outside_is_a_verb_like_any(bench):
    done = bench("--help")
    assert "halves" in done.stdout
    assert "plugin does-not-import (does-not-import) is left out" in done.stderr
    assert "plugin exits-at-import (exits-at-import) is left out" in done.stderr
    assert "--count" in bench("halves", "--help").stdout
    shown = bench("halves", "0.2")
    assert [line.split() for line in shown.stdout.splitlines()[-2:]] == [["0", "0.2"], ["1", "0.1"]]
    assert "made outside" in shown.stderr
    assert json.loads(bench("halves", "0.2", "--count", "1", "--json").stdout) == [{"i": 0, "step_size": 0.2}]
    assert bench("halves", "0.2", "--format", "md").stdout.startswith("### Halves\n\n| i | h |")
    bench("halves", "0", code=1)
    bench("halves", "0.2", "--count", "0", code=2)


def test_a_one_off_file_is_a_plugin_too(bench, in_a_process, tmp_path):
    file = tmp_path / "my_sampler.py"
    sampler = (PACKAGE / "src/bench_leimkuhler/sampler.py").read_text().replace("LeimkuhlerMatthews", "Mine")
    hook = "@hook\ndef bench_samplers():\n    return [Info('mine', 'my_sampler:Mine')]\n"
    file.write_text(f"{sampler}\nfrom harness import Info, hook\n\n{hook}")
    words = ["--sampler", "mine", "--task", "mixture5", "--budget", "smoke", "--seeds", "0"]
    in_a_process("--plugin", str(file), "run", *words)
    bench("run", "--plugin", str(tmp_path / "none.py"), "--sampler", "mine", "--task", "mixture5", code=2)
