"""What is written is whole whenever its writer is killed or its disk is full, and the same write again finishes it."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.system import files
from harness.system.errors import DataError

KILLED = Path(__file__).parents[2] / "killed.py"
MANIFEST = "manifest.json"


def test_killed_or_refused_at_any_call_the_old_content_or_the_new_is_whole(tmp_path):
    done = subprocess.run([sys.executable, str(KILLED), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = {line.partition(":")[0]: [int(n) for n in re.findall(r"\d+", line)] for line in done.stdout.splitlines()}
    assert len(counts) == 5
    assert all(killed == refused > 4 for killed, refused in counts.values()), counts
    assert counts["a set over a set"][0] > 30


def test_equal_content_is_equal_bytes_and_touches_nothing(tmp_path):
    content = {"b": b"1", "a/c": b"2"}
    files.write_set(tmp_path, content, MANIFEST)
    (tmp_path / "b").chmod(0o600)
    before = {path: path.stat() for path in (tmp_path / "b", tmp_path / "a/c")}
    manifest = (tmp_path / MANIFEST).read_bytes()
    files.write_set(tmp_path, content, MANIFEST)
    assert {path: path.stat().st_ino for path in before} == {path: stat.st_ino for path, stat in before.items()}
    assert (tmp_path / MANIFEST).read_bytes() == manifest


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda folder: (folder / "a").unlink(), "a is missing"),
        (lambda folder: (folder / "a").write_bytes(b""), "a is altered"),
        (lambda folder: (folder / MANIFEST).write_text(""), "manifest.json is damaged"),
        (lambda folder: altered(folder, {"files": {"a": "0" * 64}}), "manifest.json is damaged"),
        (lambda folder: (folder / MANIFEST).write_text('{"files": {"../b": "x"}}'), "manifest.json is damaged"),
        (lambda folder: (folder / MANIFEST).write_text("[]"), "manifest.json is damaged"),
    ],
)
def test_a_set_that_is_not_what_was_written_is_refused(tmp_path, change, wrong):
    assert files.read_set(tmp_path, MANIFEST) is None
    files.write_set(tmp_path, {"a": b"1", "b": b"2"}, MANIFEST)
    change(tmp_path)
    with pytest.raises(ValueError, match=wrong):
        files.read_set(tmp_path, MANIFEST)


def altered(folder, changes):
    record = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(record | changes))


def test_of_two_commands_one_writes(tmp_path):
    hold = "import pathlib, sys; from harness.system.files import alone\n"
    hold += "with alone(pathlib.Path(sys.argv[1])): print(1, flush=True); input()"
    words = [sys.executable, "-c", hold, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        other.stdout.readline()
        with pytest.raises(DataError, match="another command writes to"), files.alone(tmp_path):
            pass
        other.communicate("\n")
    with files.alone(tmp_path):
        assert not list(tmp_path.iterdir())


def test_only_what_is_old_and_named_as_such_is_swept(tmp_path):
    names = {
        ".a.json.0123456789abcdef": True, ".a.json.1234": False, ".a.json.backup": False,
        ".b.json.0123456789abcdef": False, ".a.json": False, "a.json.0123456789abcdef": False,
        ".a.json.0123456789abcdeg": False,
    }  # fmt: skip
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x").touch()
    (tmp_path / ".a.json.fedcba9876543210").symlink_to(elsewhere)
    for name in names:
        (tmp_path / name).touch()
    files.sweep(tmp_path / "a.json")
    assert all((tmp_path / name).exists() for name in names)
    for path in tmp_path.iterdir():
        os.utime(path, (time.time() - 2 * files.ABANDONED_SECONDS,) * 2, follow_symlinks=False)
    files.sweep(tmp_path / "a.json")
    assert {name: not (tmp_path / name).exists() for name in names} == names
    assert not (tmp_path / ".a.json.fedcba9876543210").is_symlink()
    assert (elsewhere / "x").exists()
