"""Values that a forked process computes."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from harness.system import forks
from harness.system.forks import Beside

linux = pytest.mark.skipif(forks.processors() == 1, reason="forks no process: needs Linux and two processors")


@linux
def test_a_value_comes_from_another_process_and_is_computed_once():
    beside = Beside(os.getpid)
    assert beside.value != os.getpid()
    assert beside.value == beside.value
    process = beside._begun[1]
    assert not process.is_alive()


@linux
def test_a_value_that_cannot_be_sent_or_comes_late_is_computed_here(monkeypatch):
    here = os.getpid()
    for work in (lambda: os._exit(3), lambda: sys.exit(3), lambda: lambda: 1):
        assert Beside(lambda work=work: work() if os.getpid() != here else "here").value == "here"
    monkeypatch.setattr(forks, "SILENCE", 0.0)
    silent = Beside(lambda: input() if os.getpid() != here else "here")
    assert silent.value == "here"
    assert not silent._begun[1].is_alive()


def test_an_error_is_raised_where_the_value_is_read():
    beside = Beside(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        _ = beside.value


@linux
def test_one_processor_forks_nothing(monkeypatch):
    monkeypatch.setattr(forks, "processors", lambda: 1)
    assert Beside(os.getpid).value == os.getpid()


@linux
def test_ctrl_c_ends_this_process_and_not_what_it_waits_for(capfd):
    here = os.getpid()

    def work():
        if os.getpid() != here:
            signal.raise_signal(signal.SIGINT)
        return os.getpid()

    assert Beside(work).value != here
    assert "KeyboardInterrupt" not in capfd.readouterr().err
