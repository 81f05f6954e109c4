"""Lock files come and go, yet no two processes ever hold the lock of one name."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support import until

from harness.results.ledger.ledger import Ledger
from harness.system.errors import RunError
from harness.system.locks import HeldError, LostError, held, lock_device, lock_file, lock_folder

STRUGGLE = """
import os, random, sys
from pathlib import Path
from harness.system.locks import held, lock_file
folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
for _ in range(rounds):
    with lock_file(folder / "run.lock", 60):
        mark = os.open(folder / "inside", os.O_CREAT | os.O_EXCL)  # fails where another is inside
        assert held(folder / "run.lock")
        os.close(mark)
        os.unlink(folder / "inside")
        with (folder / "count").open("a") as stream:
            stream.write("x")
"""


def test_many_processes_take_turns_though_the_file_goes_each_time(tmp_path):
    words = [sys.executable, "-c", STRUGGLE, str(tmp_path), "60"]
    crowd = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    errors = [process.communicate(timeout=120)[1] for process in crowd]
    assert [process.returncode for process in crowd] == [0] * 4, errors
    assert (tmp_path / "count").stat().st_size == 240
    assert not (tmp_path / "run.lock").exists()


def test_the_lock_of_a_killed_holder_is_free_and_names_the_next(tmp_path):
    path = tmp_path / "run.lock"
    code = f"from harness.system.locks import *\nwith lock_file(Path({str(path)!r}), 0): time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code])
    try:
        until(lambda: path.exists() and path.stat().st_size, 30)
        assert held(path)
        with pytest.raises(HeldError, match=f"held by process {other.pid}"), lock_file(path, 0.1):
            pass
    finally:
        other.kill()
        other.wait()
    assert path.exists()
    assert not held(path)
    with lock_file(path, 0):
        assert json.loads(path.read_text())["pid"] == os.getpid()


HOLD_DEVICE = """
import sys
from harness.system.locks import lock_device
with lock_device(sys.argv[1], "cuda:0", 0):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_device_is_held_against_all_processes_and_free_when_its_holder_dies():
    name = f"GPU-of-test-{os.getpid()}"
    holding = subprocess.Popen(
        [sys.executable, "-c", HOLD_DEVICE, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holding.stdout.readline() == "held\n"
    with pytest.raises(HeldError, match=rf"cuda:3 is held by process {holding.pid} of user {os.getuid()}"):
        lock_device(name, "cuda:3", 0).__enter__()
    with lock_device(f"{name}-another", "cuda:1", 0):
        pass
    holding.kill()
    holding.communicate()
    with lock_device(name, "cuda:0", 10):
        pass


def test_a_device_is_held_against_earlier_versions():
    name = f"GPU-of-versions-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as theirs:
        with lock_device(name, "cuda:0", 0), pytest.raises(OSError, match="in use"):
            theirs.bind(f"\0sgmcmc-bench/device/{name}")
        theirs.bind(f"\0sgmcmc-bench/device/{name}")
        with pytest.raises(HeldError):
            lock_device(name, "cuda:0", 0).__enter__()


def test_several_that_want_a_device_get_it_in_turn():
    name, got = f"GPU-of-turns-{os.getpid()}", []

    def take():
        with lock_device(name, "cuda:0", 30):
            got.append("in")
            time.sleep(0.01)
            got.append("out")

    several = [threading.Thread(target=take) for _ in range(3)]
    for one in several:
        one.start()
    for one in several:
        one.join()
    assert got == ["in", "out"] * 3


@pytest.mark.parametrize("replaced", [False, True])
def test_a_holder_sees_that_its_lock_file_is_gone_and_leaves_that_of_the_next_alone(tmp_path, replaced):
    path = tmp_path / "run.lock"
    with lock_file(path, 0) as lock:
        assert not lock.lost()
        path.unlink()
        if replaced:
            path.write_text("of another process")
        assert lock.lost()
    assert path.exists() == replaced


def test_who_deletes_a_lock_file_does_not_make_room_for_a_second_writer(tmp_path):
    ledger, key = Ledger(tmp_path), "ab" + 62 * "0"
    with ledger.hold(key, 0) as (file, folder):
        assert ledger.held(key)
        ledger.lock(key).unlink()
        assert (file.lost(), folder.lost(), ledger.held(key)) == (True, False, True)
        with pytest.raises(HeldError, match="whose lock file was deleted"), lock_folder(ledger.folder(key), 0):
            pass
    assert not ledger.held(key)
    assert not ledger.folder(key).exists()  # it stayed empty


def test_a_folder_that_was_replaced_is_not_the_one_that_is_held(tmp_path):
    path = tmp_path / "ab" / "run"
    with lock_folder(path, 0) as lock:
        lock.check()
        path.rename(tmp_path / "aside")
        with pytest.raises(LostError, match="was deleted or replaced"):
            lock.check()
        path.mkdir()
        with pytest.raises(LostError, match="was deleted or replaced"):
            lock.check()
    assert path.exists()


def test_a_folder_that_another_process_deletes_while_it_is_made_is_made_again(tmp_path, monkeypatch):
    """mkdir finds it, and when it looks whether that is a folder, it is gone."""
    path, is_dir = tmp_path / "left", Path.is_dir
    path.mkdir()

    def look(self):
        if self == path and not deleted:
            deleted.append(path.rmdir())
        return is_dir(self)

    deleted = []
    monkeypatch.setattr(Path, "is_dir", look)
    with lock_folder(path, 1) as lock:
        lock.check()
    assert deleted


@pytest.mark.parametrize(("below", "why"), [("left", "File exists"), ("left/run", "Not a directory")])
@pytest.mark.parametrize("lock", [lock_folder, lambda path, patience: lock_file(path / "lock", patience)])
def test_a_folder_that_cannot_be_made_is_an_error_at_once(tmp_path, below, why, lock):
    """And no lock that another process holds."""
    (tmp_path / "left").write_text("")
    with pytest.raises(RunError, match=rf"cannot be locked \({why}\)"), lock(tmp_path / below, 60):
        pass
