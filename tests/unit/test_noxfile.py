"""The sessions of noxfile.py: what they would run exists, and is what is published."""

import ast
import importlib.util
import json
import shutil
import sys
import tomllib
import types
from pathlib import Path

import pytest

from harness.reports import load_plugin

ROOT = Path(__file__).parents[2]
FILE = ROOT / "noxfile.py"
PROGRAMS = ("bench", "mypy", "pytest", "python", "ruff")


class Recorded:
    """A session that runs nothing and keeps the commands."""

    def __init__(self, folder):
        self.folder, self.posargs, self.commands = folder, [], []

    def run(self, *words, **_):
        self.commands.append([str(word) for word in words])
        return "not here" if "--missing" in words else ""

    def create_tmp(self):
        return str(self.folder)

    def skip(self, *_):
        pytest.skip("the session says that it cannot run here")

    def install(self, *_): ...

    log = install


@pytest.fixture
def noxfile(monkeypatch):
    """The file with a `nox` of its own, which tests do not need: sessions are functions with their parameters."""
    nox = types.ModuleType("nox")
    nox.options, nox.project = types.SimpleNamespace(), types.SimpleNamespace(load_toml=load_toml)
    nox.session, nox.Session, nox.sessions = session, Recorded, {}
    nox.parametrize = lambda name, values: lambda function: with_values(function, name, values)
    command = types.ModuleType("nox.command")
    command.CommandFailed = RuntimeError
    nox.command = command
    monkeypatch.setitem(sys.modules, "nox", nox)
    monkeypatch.setitem(sys.modules, "nox.command", command)
    monkeypatch.chdir(ROOT)
    spec = importlib.util.spec_from_file_location("the_noxfile", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_toml(path):
    return tomllib.loads(Path(path).read_text(encoding="utf-8"))


def session(function):
    function.is_session = True
    return function


def with_values(function, name, values):
    function.values = [{name: value} for value in values]
    return function


def sessions(noxfile):
    """Pairs of a session and the keywords of each of its forms."""
    of_file = [member for member in vars(noxfile).values() if getattr(member, "is_session", False)]
    return [(function, words) for function in of_file for words in getattr(function, "values", [{}])]


def test_what_the_sessions_run_is_there(noxfile, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(shutil, "copy", lambda *_: None)
    commands = []
    for number, (function, words) in enumerate(sessions(noxfile)):
        recorded = Recorded(tmp_path / str(number))
        try:
            function(recorded, **words)
        except pytest.skip.Exception:
            assert function.__name__ == "clusters"
        assert recorded.commands, function.__name__
        commands += recorded.commands
    assert len(commands) > 30
    for program, *words in commands:
        assert program in PROGRAMS
        for word in words:
            assert not word.startswith(("tests/", "docs/", "plugins/")) or Path(word).parent.is_dir(), word
            assert not word.endswith(".py") or Path(word).is_file(), word
        if words[:1] == ["-m"] and program == "python":
            name = words[1]
            assert importlib.util.find_spec(name) or Path("tests", *name.split(".")).with_suffix(".py").is_file(), name


def test_a_search_is_the_one_of_which_the_settings_are_published(noxfile, tmp_path, monkeypatch):
    search = pytest.importorskip("plugins.tuning.search", reason="bench tune needs optuna, an optional extra")
    monkeypatch.setattr(shutil, "copy", lambda *_: None)
    published = {
        (file.stem, one.get("search", 0), *(one[name] for name in ("method", "task", "budget", "objective")))
        for file in (ROOT / "plugins/tuning").glob("*.json")
        for one in json.loads(file.read_text(encoding="utf-8"))["tuned"]
    }
    parts = [suite for suite in noxfile.SEARCHED if suite.startswith("study-")]
    assert len(parts) > 5
    for suite in parts:
        recorded = Recorded(tmp_path / suite)
        noxfile.tuned(recorded, suite=suite)
        words = [dict(zip(command[4::2], command[5::2], strict=True)) for command in recorded.commands]
        searched = {
            (
                one["--study"],
                int(one.get("--search", 0)),
                method,
                task,
                one["--budget"],
                search.objective(task, load_plugin("tasks", task)().metrics, one.get("--objective")).metric,
            )
            for one in words
            for method in one["--sampler"].split(",")
            for task in [one["--task"].partition("@")[0]]
        }
        runs = [run for run in load_toml(ROOT / f"plugins/nights/suites/{suite}.toml")["run"] if "study" in run]
        asked = {
            (run["study"], method, task.partition("@")[0], run["budget"])
            for run in runs
            for task in run["tasks"]
            for method in run["samplers"]
        }
        assert {(one[0], *one[2:5]) for one in searched} == asked
        assert searched <= published


def test_a_suite_without_a_search_has_settings_at_another_budget(noxfile):
    tuned = json.loads((ROOT / "plugins/tuning/tuned.json").read_text(encoding="utf-8"))["tuned"]
    published = {(one["method"], one["task"]) for one in tuned}
    for suite in {*noxfile.STUDIES} - {*noxfile.SEARCHED}:
        runs = load_toml(ROOT / f"plugins/nights/suites/{suite}.toml")["run"]
        assert {
            (m, task.partition("@")[0]) for run in runs for task in run["tasks"] for m in run["samplers"]
        } <= published


def test_what_is_type_checked_imports_only_what_mypy_has_or_skips(noxfile):
    """`nox -s types` installs TYPED alone, so a package that is merely installed here passes only here."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    skipped = {name.removesuffix(".*") for entry in settings["overrides"] for name in entry["module"]}
    installed = {"markupsafe", *noxfile.TYPED}  # a dependency of jinja2
    known = {*installed, *skipped, *sys.stdlib_module_names, "harness", "plugins", "reports", "tasks"}
    files = [path for folder in settings["files"] for path in (ROOT / folder).rglob("*.py")]
    imported = {(name, path.relative_to(ROOT)) for path in files for name in absolute_imports(path)}
    assert len(files) > 300
    assert [(name, str(path)) for name, path in sorted(imported) if name not in known] == []


def absolute_imports(path):
    """Return the top-level names that a file imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.split(".")[0]
