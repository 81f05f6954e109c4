"""The cache of texts: what is not what was kept is not used, and a folder that cannot be written costs time only."""

import json
import os

import pytest

from harness.contracts.data import data_root
from harness.system import cache
from harness.system.errors import DataError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BENCH_DATA", raising=False)
    return tmp_path / "cache"


def instead(make):
    return lambda file: (file.unlink(), make(file))


DAMAGE = {
    "nothing in it": lambda file: file.write_bytes(b""),
    "its ends": lambda file: file.write_bytes(file.read_bytes()[:1] + file.read_bytes()[-1:]),
    "cut short": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "another letter": lambda file: file.write_bytes(file.read_bytes().replace(b"t", b"d")),
    "another value": lambda file: file.write_text(json.dumps(json.loads(file.read_text()) | {"fact": "x"})),
    "no object": lambda file: file.write_bytes(b"[3]"),
    "no JSON": lambda file: file.write_bytes(b"{"),
    "nested too deep": lambda file: file.write_bytes(b"[" * 100_000),
    "no text": lambda file: file.write_bytes(b"\xff"),
    "a FIFO": instead(os.mkfifo),
    "a directory": instead(os.mkdir),
    "a file of a terabyte": lambda file: os.truncate(file, 2**40),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_text_that_is_not_what_was_kept_is_not_used(folder, damage):
    cache.keep("words", "key", "text")
    assert cache.read("words", "key") == "text"
    assert cache.read("words", "other") is None
    (file,) = folder.rglob("*.json")
    damage(file)
    assert cache.read("words", "key") is None


def test_a_folder_that_cannot_be_written_costs_time_only(folder):
    folder.write_text("a file")
    cache.keep("words", "key", "text")
    assert cache.read("words", "key") is None


@pytest.fixture
def homeless(tmp_path, monkeypatch):
    """A user without a folder for a cache."""
    monkeypatch.delenv("BENCH_CACHE")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: "relative")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


@pytest.mark.usefixtures("homeless")
@pytest.mark.parametrize("answer", [RuntimeError("no home directory"), "~/.cache"])
def test_a_user_without_a_home_folder_has_a_folder_among_the_temporary_files(tmp_path, monkeypatch, answer):
    def look(_):
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("platformdirs.user_cache_dir", look)
    folder = tmp_path / f"sgmcmc-bench-{os.getuid()}"
    assert cache.folder("words") == folder / "words"
    assert data_root() == folder / "data"
    cache.keep("words", "key", "text")
    assert cache.read("words", "key") == "text"
    monkeypatch.setattr("os.getuid", lambda: 12345)
    (tmp_path / "sgmcmc-bench-12345").mkdir()
    with pytest.raises(DataError, match="not a folder in which only you can write"):
        cache.folder("words")


@pytest.mark.parametrize("kind", ["a link", "a link to nothing", "a file", "open to all", "open to the group"])
@pytest.mark.usefixtures("homeless")
def test_a_temporary_folder_that_others_can_change_is_not_used(tmp_path, kind):
    """Anyone can make files in the folder of temporary files, under the name that is known in advance."""
    folder, other = tmp_path / f"sgmcmc-bench-{os.getuid()}", tmp_path / "other"
    other.mkdir()
    if kind.startswith("a link"):
        folder.symlink_to(other if kind == "a link" else tmp_path / "missing")
    elif kind == "a file":
        folder.touch(0o600)
    else:
        folder.mkdir()
        folder.chmod(0o777 if kind == "open to all" else 0o770)
    for use in (lambda: cache.keep("words", "key", "text"), lambda: cache.read("words", "key"), data_root):
        with pytest.raises(DataError, match="not a folder in which only you can write"):
            use()
    assert not list(other.iterdir())
    assert not (tmp_path / "missing").exists()


@pytest.mark.usefixtures("homeless")
def test_the_temporary_folder_is_closed_to_others():
    before = os.umask(0)
    try:
        cache.keep("words", "key", "text")
    finally:
        os.umask(before)
    assert cache.temporary().stat().st_mode & 0o777 == 0o700
    assert cache.read("words", "key") == "text"
