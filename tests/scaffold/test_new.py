"""`bench new`: what it refuses, that it overwrites nothing, and that it leaves nothing behind."""

from __future__ import annotations

import ast
import os
import shlex
import tomllib

import pytest

import harness
from harness.cli.app import run
from plugins.scaffold.package import KINDS, Package


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def everything(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("kind", KINDS)
def test_it_says_what_it_made_and_the_three_commands_that_come_next(kind, here, capsys):
    assert run(["new", kind, "my-own", "--into", "with space"]) == 0
    first, *commands = capsys.readouterr().out.splitlines()
    assert first.startswith(f"made the {kind} my-own in 'with space/my-own'")
    words = [shlex.split(command) for command in commands]
    assert words[0] == ["pip", "install", "-e", "./with space/my-own[test]"]
    assert words[1] in (["bench", "check", "my-own"], ["python", "-m", "pytest", "with space/my-own"])
    assert words[2][0] == "bench"
    assert "my-own" in " ".join(words[2])
    assert {f"with space/my-own/src/my_own/{kind}.py", "with space/my-own/tests/test_my_own.py"} <= everything(here)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["x", "a--b", "sampler", "observer-2", "moment", "z" * 64])
def test_every_file_is_whole_whatever_the_name(kind, name):
    files = Package(kind, name).files()
    for path, text in files.items():
        assert text.strip(), path
        assert "$" not in text.replace("$1", "").replace("$2", "").replace("$3", ""), path
        if path.endswith(".py"):
            ast.parse(text, path)
    project = tomllib.loads(files["pyproject.toml"])
    assert project["project"]["entry-points"]["bench"] == {name: name.replace("-", "_")}
    assert Package(kind, name).cls not in (*harness.__all__, *harness.tasks.__all__, *harness.reports.__all__)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["sampler", "My-own"], "must match [a-z][a-z0-9-]*"),
        (["sampler", "../away"], "must match"),
        (["sampler", "own\n"], "must match"),
        (["task", "own-"], "not end in a hyphen"),
        (["task", "a" * 65], "at most 64 long"),
        (["sampler", "sgld"], "there is a sampler 'sgld' already, of sgmcmc-bench"),
        (["sampler", "csgld"], "there is a method 'csgld' already"),
        (["sampler", "leaderboard"], "there is a report 'leaderboard' already"),
        (["schedule", "cyclical"], "there is a schedule 'cyclical' already"),
        (["task", "mixture5"], "there is a task 'mixture5' already"),
        (["report", "ess"], "there is a report 'ess' already"),
        (["sampler", "class"], "cannot be the name of a Python package"),
        (["sampler", "torch"], "a Python package 'torch' is installed already"),
        (["sampler", "scikit-learn"], "a Python package 'scikit-learn' is installed already"),
        (["sampler", "sgmcmc-bench"], "a Python package 'sgmcmc-bench' is installed already"),
        (["task", "tasks"], "a Python package 'tasks' is installed already"),
        (["smapler", "own"], "unknown kind 'smapler'; did you mean sampler?"),
        (["method", "own"], "unknown kind 'method'"),
    ],
)
def test_a_name_that_could_not_be_used_is_refused_and_nothing_is_left(words, reason, here, capsys):
    assert run(["new", *words, "--into", "deep/er"]) == 2
    told = capsys.readouterr()
    assert reason in told.err
    assert not told.out
    assert not everything(here)


def test_a_folder_that_is_there_is_left_as_it_is(here, capsys):
    assert run(["new", "sampler", "own"]) == 0
    (here / "own/src/own/sampler.py").write_text("mine now")
    before = everything(here)
    assert run(["new", "task", "own"]) == 2
    assert "own already exists, and nothing is overwritten" in capsys.readouterr().err
    assert everything(here) == before
    assert (here / "own/src/own/sampler.py").read_text() == "mine now"
    (here / "empty").mkdir()
    (here / "dangling").symlink_to("nowhere")
    for name in ("empty", "dangling"):
        assert run(["new", "task", name]) == 2
    assert not list((here / "empty").iterdir())


@pytest.mark.parametrize("into", ["a-file", "a-file/deeper", "b" * 300, "x/" + "b" * 300])
def test_a_folder_that_cannot_be_made_is_said_and_nothing_is_left(into, here, capsys):
    (here / "a-file").write_text("kept")
    assert run(["new", "sampler", "own", "--into", into]) == 2
    assert "choose another folder by --into DIR" in capsys.readouterr().err
    assert everything(here) == {"a-file"}


def test_killed_half_way_it_can_be_given_again(here):
    """A temporary folder that a kill left is not a package; a later command deletes it."""
    (here / ".own.0123456789abcdef/src").mkdir(parents=True)
    assert run(["new", "task", "own"]) == 0
    assert (here / ".own.0123456789abcdef").exists()  # so young that another command may be writing it
    os.utime(here / ".own.0123456789abcdef", (1, 1))
    (here / "own").rename(here / "moved")
    assert run(["new", "task", "own"]) == 0
    assert {path.name for path in here.iterdir()} == {"own", "moved"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_again_finds_what_a_stopped_one_wrote(kind, here, capsys):
    """A stop may come after the folder was written, and before the command said so."""
    assert run(["new", kind, "own"]) == 0
    first = capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
    assert run(["new", kind, "own"]) == 0
    assert capsys.readouterr().out == first
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before


@pytest.mark.parametrize("change", ["edited", "added", "removed", "a link", "another kind"])
def test_a_folder_that_is_not_what_it_would_write_is_refused(change, here, capsys):
    assert run(["new", "report" if change == "another kind" else "sampler", "own"]) == 0
    readme = here / "own/README.md"
    if change == "edited":
        readme.write_text(readme.read_text() + "mine")
    elif change == "added":
        (here / "own/mine.txt").touch()
    elif change == "removed":
        readme.unlink()
    elif change == "a link":
        readme.rename(here / "README.md")
        readme.symlink_to(here / "README.md")
    assert run(["new", "sampler", "own"]) == 2
    assert "own already exists, and nothing is overwritten" in capsys.readouterr().err
