"""Children are born again where the fork server died while one was asked for."""

from __future__ import annotations

import importlib
import multiprocessing

import pytest

from harness.errors import RunError
from harness.execution import local


@pytest.fixture
def hello(tmp_path, monkeypatch):
    """A function that a child can import."""
    (tmp_path / "born_work.py").write_text("def hello(word, pipe):\n    pipe.send(word)\n")
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("born_work").hello


@pytest.fixture
def failures(monkeypatch):
    """How many starts fail as they do where the server dies: an end of file."""
    left = [0]
    kind = multiprocessing.get_context("forkserver").Process
    start = kind.start

    def failing(self):
        left[0] -= 1
        if left[0] >= 0:
            raise EOFError("unexpected EOF")
        start(self)

    monkeypatch.setattr(kind, "start", failing)
    return left


@pytest.mark.parametrize("lost", [0, 1])
def test_a_child_is_started_once_more(hello, failures, lost):
    failures[0] = lost
    process, pipe = local.born(hello, "here")
    assert pipe.recv() == "here"
    process.join()
    assert process.exitcode == 0


def test_twice_is_an_error_and_no_interruption(hello, failures):
    failures[0] = 2
    with pytest.raises(RunError, match=r"no worker can be started.*unexpected EOF"):
        local.born(hello, "here")
