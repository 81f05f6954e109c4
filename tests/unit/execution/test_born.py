"""Children are born again where the fork server died while one was asked for."""

from __future__ import annotations

import importlib
import multiprocessing
import socket
import tempfile

import pytest

from harness.runs import local
from harness.system.errors import RunError, UsageError


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


@pytest.mark.parametrize("spare", [0, -1])
def test_a_temporary_folder_is_refused_exactly_where_no_socket_fits(tmp_path, monkeypatch, spare):
    room = local.SOCKET_PATH - len("/pymp-12345678/listener-12345678") - len(f"{tmp_path}/") - spare
    folder = tmp_path / ("x" * room)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    place = f"{tempfile.mkdtemp(prefix='pymp-')}/listener-12345678"  # as multiprocessing names it
    with socket.socket(socket.AF_UNIX) as made:
        if spare == 0:
            made.bind(place)
            local._check_socket_path()
            return
        with pytest.raises(OSError, match="path too long"):
            made.bind(place)
    with pytest.raises(UsageError, match="TMPDIR is longer than 75 bytes"):
        local._check_socket_path()


def test_twice_is_an_error_and_no_interruption(hello, failures):
    failures[0] = 2
    with pytest.raises(RunError, match=r"no worker can be started.*unexpected EOF"):
        local.born(hello, "here")
