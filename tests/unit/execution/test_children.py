"""The fork server: its children, when it is started early, and functions that are called in a child."""

import importlib
import multiprocessing
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from support import bench, bench_words, until

from harness.analysis.diagnostics import counting, distances
from harness.cli.app import run
from harness.runs import children
from harness.system import cpp
from harness.system.errors import BenchError, RunError, UsageError


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
    process, pipe = children.born(hello, "here")
    assert pipe.recv() == "here"
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("spare", [0, -1])
def test_a_temporary_folder_is_refused_exactly_where_no_socket_fits(monkeypatch, spare):
    with tempfile.TemporaryDirectory() as short:  # pytest's own folders may be too long already
        room = children.SOCKET_PATH - len("/pymp-12345678/listener-12345678") - len(f"{short}/") - spare
        folder = Path(short, "x" * room)
        folder.mkdir()
        _try_socket(folder, monkeypatch, fits=spare == 0)


def _try_socket(folder, monkeypatch, *, fits):
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    address = f"{tempfile.mkdtemp(prefix='pymp-')}/listener-12345678"  # as multiprocessing names it
    with socket.socket(socket.AF_UNIX) as listener:
        if fits:
            listener.bind(address)
            children._check_socket_path()
            return
        with pytest.raises(OSError, match="path too long"):
            listener.bind(address)
    with pytest.raises(UsageError, match="TMPDIR is longer than 75 bytes"):
        children._check_socket_path()


def test_twice_is_an_error_and_no_interruption(hello, failures):
    failures[0] = 2
    with pytest.raises(RunError, match=r"no worker can be started.*unexpected EOF"):
        children.born(hello, "here")


RUN = ["run", "--sampler", "sgld", "--task", "mixture5", "--budget"]
SECONDS = 30.0


@pytest.mark.parametrize(
    ("words", "early"),
    [
        ([*RUN, "nothing"], True), ([*RUN, "smoke", "--help"], False), (["plan", *RUN[1:], "smoke"], False),
        (["--launcher", "local", *RUN, "nothing"], False), (["ls", "samplers"], False), (["ingest"], False),
        (["runn"], False),
    ],
)  # fmt: skip
def test_the_fork_server_is_started_early_by_a_first_run_only(tmp_path, monkeypatch, words, early):
    started, empty, used = [], tmp_path / "empty", tmp_path / "used"
    monkeypatch.setattr(children, "start_early", lambda: started.append(True))
    (used / "runs").mkdir(parents=True)
    for before, now, expected in ((used, empty, early), (empty, used, False)):
        run(["--results", str(before), "ls", "samplers"])  # the command before in this process is about another folder
        started.clear()
        run(["--results", str(now), *words])
        assert bool(started) == expected


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(None, 2, "unknown budget 'nothing'"), (signal.SIGINT, 130, "interrupted"), (signal.SIGKILL, -9, "")],
)
def test_a_command_that_ends_before_it_needs_children_leaves_none(tmp_path, number, code, said):
    words = bench_words("--results", str(tmp_path / "results"), *RUN, "nothing" if number is None else "smoke")
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    if number is not None:
        until(lambda: "forkserver" in processes(process.pid), SECONDS)
        os.killpg(process.pid, number) if number == signal.SIGINT else process.kill()
    message = process.communicate(timeout=SECONDS)[1]
    assert (process.returncode, said in message) == (code, True), message
    until(lambda: not processes(process.pid), SECONDS)


def processes(group):
    """The command lines of a group's processes that have not ended."""
    shown = subprocess.run(["ps", "-ewwo", "pgid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in shown.stdout.splitlines()]
    return "\n".join(row[2] for row in rows if row[0] == str(group) and not row[1].startswith("Z"))


@pytest.mark.parametrize("compiler", [True, False])
def test_what_observers_need_is_compiled_while_torch_is_imported(tmp_path, monkeypatch, compiler):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(counting, "compiled", cpp.compiled.__wrapped__)
    monkeypatch.setattr(distances, "compiled", cpp.compiled.__wrapped__)
    if not compiler:
        monkeypatch.setenv("PATH", "")
    cpp._built.cache_clear()
    before = set(threading.enumerate())
    children._compile_meanwhile.__wrapped__()
    for thread in set(threading.enumerate()) - before:
        thread.join()
    built = len([*tmp_path.rglob("*.so")])
    assert built == (2 if compiler else 0)
    assert (counting.code() is not None) == compiler
    assert distances.wasserstein2([[0.0], [1.0]], [[1.0], [3.0]]) == pytest.approx(2.5**0.5)
    assert len([*tmp_path.rglob("*.so")]) == built  # it is what observers load
    cpp._built.cache_clear()


RUN_SGLD = ["run", "--sampler", "sgld", "--task", "gaussian2d", "--budget", "steps=20", "--seeds", "0"]
WARM = ["--set", "run.warm_start=adam", "run.warm_passes=5", "run.warm_step_size=0.001"]


@pytest.mark.parametrize(
    "words",
    [
        [*RUN_SGLD, *WARM],
        ["--launcher", "local", *RUN_SGLD],
        pytest.param(["check", "sgd"], marks=pytest.mark.slow),
    ],
    ids=["run", "local", "check"],
)
def test_no_process_imports_from_the_current_folder(tmp_path, words):
    """In a clone of this project, which has folders of these names, the installed version is what runs."""
    for package in ("harness", "plugins", "tasks", "reports", "multiprocessing"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit(f'{__name__} of the current folder')\n")
    done = bench(["--results", str(tmp_path / "r"), *words], folder=tmp_path)
    assert "of the current folder" not in done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


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
    answer = children.call(f"{module}:answer", 21, listen=lambda kind, payload: heard.append((kind, payload)))
    assert answer["twice"] == 42
    assert answer["pid"] != os.getpid()
    assert heard == [("told", {"x": 21})]
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(("name", "code", "text"), [("refuse", 4, "no data"), ("break_", 1, "ZeroDivisionError: oops")])
def test_its_errors_are_raised_here_with_their_exit_code_and_traceback(module, name, code, text):
    with pytest.raises(BenchError, match=text) as caught:
        children.call(f"{module}:{name}", listen=nothing)
    assert caught.value.exit_code == code
    assert f"in {name}" in str(caught.value.__cause__)


def test_its_death_is_said(module):
    began = time.monotonic()
    with pytest.raises(RunError, match=r"the worker exited unexpectedly \(exit code 7\)"):
        children.call(f"{module}:die", listen=nothing)
    assert time.monotonic() - began < 18
