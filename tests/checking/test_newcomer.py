"""The commands of README.md and of the pages that it links to, as a newcomer would type them."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from pathlib import Path

import pytest

from harness.cli.app import run
from harness.contracts.registry import load
from plugins.checking.suite import check_sampler

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("install", "commands", "papers", "networks", "nightly")),
]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
REPORT = ["report", "leaderboard"]

DATA = {"blr": "uci", "cifar10": "cifar-10-batches-py", "notmnist": "notMNIST"}
"""Folders of BENCH_DATA, by the commands that need them."""


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def commands():
    """The words of every bench command in the shell blocks, without comments."""
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    parts = [part for line in lines for part in shlex.split(line, comments=True) and line.split("&&")]
    words = [shlex.split(part, comments=True) for part in parts]
    return [word[1:] for word in words if word and word[0] == "bench"]


RUN = commands()[0]
"""The first command of the README."""


def unique(lists):
    """Each once, in their order."""
    return [words for i, words in enumerate(lists) if words not in lists[:i]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("newcomer")
    (path / "my_sampler.py").write_text(blocks("python")[0])
    return path


def test_the_pages_have_the_commands_that_these_tests_look_for():
    known = commands()
    assert known[:2] == [RUN, REPORT]
    assert RUN[0] == "run"
    assert len(known) > 20
    assert "nox -s tests" in PAGES[0].read_text(encoding="utf-8")


def test_relative_links_lead_to_files_and_readme_is_short():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert "://" in link or (page.parent / link).exists(), (page.name, link)
    assert len(PAGES[0].read_text(encoding="utf-8").splitlines()) <= 160


@pytest.fixture
def inside(folder, monkeypatch):
    """The current folder is that of the commands, and their results folder the one below it."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("BENCH_RESULTS", raising=False)


@pytest.mark.usefixtures("inside")
@pytest.mark.slow
def test_the_first_command_ends_with_a_leader_and_the_second_time_nothing_to_do(capfd):
    assert run(RUN) == 0
    capfd.readouterr()
    assert run(REPORT) == 0
    table = capfd.readouterr().out
    asked = {name: RUN[RUN.index(name) + 1].split(",") for name in ("--sampler", "--task")}
    row = re.compile(r"^\s*\d+\s+[a-z-]+(?: \(.*?\))?\s+(best|tied|worse|not known)\s", flags=re.MULTILINE)
    tables = re.split(rf"^(?:{'|'.join(asked['--task'])})@", table, flags=re.MULTILINE)[1:]
    assert len(tables) == len(asked["--task"])
    assert all("30 seeds" in text.splitlines()[0] for text in tables)
    for text in tables:
        verdicts = row.findall(text)
        assert len(verdicts) == len(asked["--sampler"])
        assert (verdicts[0], verdicts[-1]) == ("best", "worse")
    assert run(RUN) == 0
    assert "nothing to do" in capfd.readouterr().err


def smaller(words):
    """The command on one seed at the smallest budget, a convolutional network on few images; the first one on five."""
    if words == RUN:  # the test above runs it as it is; what follows it needs its rows
        return ["0-4" if word == "0-29" else word for word in words]
    if "--seeds" in words:
        words = [*words[: words.index("--seeds")], *words[words.index("--seeds") + 2 :]]
    many, one = {"run", "reproduce"} & set(words), {"plan"} & set(words)
    few = ["--set", "task.batch=10", "task.test_images=20"] if many and "cifar10" in words else []
    return [*words, *(["--budget", "smoke"] if many or one else []), *(["--seeds", "0"] if many else []), *few]


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_every_other_command_works_at_a_smaller_budget(folder):
    data = Path(os.environ.get("BENCH_DATA") or "/nowhere")
    absent = [name for name, path in DATA.items() if not (data / path).is_dir()]
    for words in unique(commands()):
        long = {"check", "compare-on", "nightly", "site"} & set(words)  # they have tests of their own
        if long or any(name in " ".join(words) for name in absent):
            continue
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(smaller(words))
        assert code == 0, (words, out.getvalue() + err.getvalue())
        assert "Traceback" not in err.getvalue(), words
        assert out.getvalue() or {"run", "fetch", "--out"} & set(words), words
    assert list(folder.glob("figures/*.svg"))
    assert list(folder.glob("figures/*.png"))


def test_the_sampler_of_the_page_keeps_the_quick_laws(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    names = ["derived-law", "one-step", "scale", "potential", "seeds"]
    assert {law.outcome for law in check_sampler(load("my_sampler:LeimkuhlerMatthews")(), names)} == {"passed"}
