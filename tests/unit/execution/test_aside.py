"""One function in a child of its own."""

import os
import time

import pytest

from harness.runs.children import call
from harness.system.errors import BenchError, RunError

MODULE = """
import os, time
from harness.system.errors import DataError

def answer(x, send):
    print("not on stdout")
    send("told", {"x": x})
    return {"pid": os.getpid(), "twice": 2 * x}

def refuse(send):
    raise DataError("no data")

def break_(send):
    raise ZeroDivisionError("oops")

def die(send):
    if os.fork() == 0:  # it must not keep the launcher waiting
        time.sleep(20)
        os._exit(0)
    os._exit(7)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "aside_work.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return "aside_work"


def nothing(kind, payload):
    raise AssertionError((kind, payload))


def test_it_tells_and_returns(module, capfd):
    heard = []
    answer = call(f"{module}:answer", 21, listen=lambda kind, payload: heard.append((kind, payload)))
    assert answer["twice"] == 42
    assert answer["pid"] != os.getpid()
    assert heard == [("told", {"x": 21})]
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(("name", "code", "text"), [("refuse", 4, "no data"), ("break_", 1, "ZeroDivisionError: oops")])
def test_its_errors_are_raised_here_with_their_exit_code_and_traceback(module, name, code, text):
    with pytest.raises(BenchError, match=text) as caught:
        call(f"{module}:{name}", listen=nothing)
    assert caught.value.exit_code == code
    assert f"in {name}" in str(caught.value.__cause__)


def test_its_death_is_said(module):
    began = time.monotonic()
    with pytest.raises(RunError, match=r"the worker exited unexpectedly \(exit code 7\)"):
        call(f"{module}:die", listen=nothing)
    assert time.monotonic() - began < 18
