"""`bench data fetch` killed, interrupted or given another file: nothing half is left, and nothing of it stays."""

import hashlib
import os
import subprocess
import sys

import pytest

from harness.cli.app import run
from harness.contracts.data import DataFile, problem
from harness.system.errors import DataError, PluginError
from plugins.inspection.data import download

CONTENT = b"some bytes" * 1000
FILE = DataFile("set", "folder/file", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), ("https://one", "https://two"))
KILLED = """
import os, sys, pooch.downloaders
from inspection.test_data import CONTENT, FILE
from plugins.inspection.data import download

def part_of(url, stream, _):
    stream.write(CONTENT[:5000])
    stream.flush()
    if sys.argv[1] == "download":
        os._exit(9)
    stream.write(CONTENT[5000:])

if sys.argv[1] == "copy":
    os.fsync = lambda _: os._exit(9)
pooch.downloaders.choose_downloader = lambda _: part_of
download(FILE)
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    return tmp_path


def served(monkeypatch, *contents):
    left = list(contents)

    def download(_, stream, __):
        content = left.pop(0)
        stream.write(content if isinstance(content, bytes) else b"half")
        if not isinstance(content, bytes):
            raise content

    monkeypatch.setattr("pooch.downloaders.choose_downloader", lambda _: download)


def everything(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), b"another file", b"", CONTENT[:-1]])
def test_what_comes_damaged_is_not_put_in_place(root, monkeypatch, fault):
    served(monkeypatch, fault, fault)
    with pytest.raises(DataError, match=r"could not fetch folder/file: https://one: .*; https://two: "):
        download(FILE)
    assert everything(root) == set()
    served(monkeypatch, fault, CONTENT)
    assert download(FILE).read_bytes() == CONTENT
    assert everything(root) == {"folder/file"}


def test_ctrl_c_leaves_nothing_and_the_old_file(root, monkeypatch):
    (root / "folder").mkdir()
    (root / "folder/file").write_bytes(b"old")
    served(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        download(FILE)
    assert (everything(root), (root / "folder/file").read_bytes()) == ({"folder/file"}, b"old")


@pytest.mark.parametrize("when", ["download", "copy"])
def test_killed_it_leaves_nothing_that_stays(root, monkeypatch, when):
    paths = os.pathsep.join([os.path.dirname(os.path.dirname(__file__)), os.environ.get("PYTHONPATH", "")])  # noqa: PTH120
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", KILLED, when], env=environment, check=False)
    assert done.returncode == 9
    left = everything(root)
    assert len(left) == (when == "copy")
    assert problem(FILE) == "missing"
    for name in left:
        assert name.startswith("folder/.file.")
        os.utime(root / name, (1, 1))
    served(monkeypatch, CONTENT)
    download(FILE)
    assert everything(root) == {"folder/file"}


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../a", "a/../../b", "a/..", "", ".", "./a", "a//b", "a/", "//a", "../../photos/a"]
)
def test_a_file_lies_below_the_data_root(path):
    with pytest.raises(PluginError, match="below the data root"):
        DataFile("set", path, "0" * 64, 1, ())


def test_names_with_points_are_names():
    assert [DataFile("set", path, "0" * 64, 1, ()).path for path in ("a..b", "...", ".a/b")] == ["a..b", "...", ".a/b"]


def test_a_plugin_whose_data_lies_elsewhere_is_named_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from harness.contracts.data import DataFile\n"
        "FILE = DataFile('mine', '../outside', '0' * 64, 5, ('https://example.org/a',))\n"
    )
    words = ["--results", str(tmp_path / "results"), "--plugin", str(plugin), "data", "fetch", "mine"]
    assert run(words) in {2, 3}
    assert "'../outside' is not the path of a file below the data root" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} <= {"data", "mine.py", "__pycache__"}
