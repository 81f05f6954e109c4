"""`bench archive`: one file, the same bytes for the same results, that is read as its README says."""

from __future__ import annotations

import io
import tarfile
import tracemalloc

import fabricated
import pytest

import harness
from harness.cli.app import run
from harness.runs.parcel import pack, packed, unpack

AUTHOR = ["--author", "Ada Lovelace", "--author", 'O"Neil: x']


@pytest.fixture
def results(tmp_path):
    for seed in range(3):
        fabricated.concluded(tmp_path / "results", seed, points=4)
    return tmp_path / "results"


def archive(results, *words):
    return run(["--results", str(results), "archive", *map(str, words)])


def test_an_archive_is_read_back_and_has_the_same_bytes(results, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert archive(results, "--out", tmp_path / name / "mine.tar", *AUTHOR) == 0
    assert (tmp_path / "a" / "mine.tar").read_bytes() == (tmp_path / "b" / "mine.tar").read_bytes()
    with tarfile.open(tmp_path / "a" / "mine.tar") as archived:
        archived.extractall(tmp_path / "c", filter="data")
    place = tmp_path / "c" / "mine"
    assert harness.load(place / "results").metrics.equals(harness.load(results).metrics)
    assert "tar xf mine.tar\n    bench --results mine/results ls runs" in (place / "README.md").read_text()
    assert "3 runs" in (place / "README.md").read_text()
    assert '  - name: "O\\"Neil: x"\n' in (place / "CITATION.cff").read_text()
    assert run(["--results", str(place / "results"), "report", "leaderboard"]) == 0


def test_files_are_packed_a_block_at_a_time(tmp_path):
    """The same bytes as of contents in memory, of a file that is larger than what is held of it."""
    (tmp_path / "large").write_bytes(bytes(2**24 + 5))
    tracemalloc.start()
    total = sum(map(len, packed({"a": b"text", "b": tmp_path / "large"})))
    assert tracemalloc.get_traced_memory()[1] < 2**23
    tracemalloc.stop()
    files = {"a": b"text", "b": bytes(2**24 + 5)}
    assert total == len(pack(files))
    assert unpack(b"".join(packed({**files, "b": tmp_path / "large"}))) == files
    assert pack({"x": bytes(9500)}) == by_tarfile({"x": bytes(9500)})


def by_tarfile(files):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archived:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archived.addfile(about, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--out", "x.zip", *AUTHOR], 2),
        (["--out", "no/such/folder/x.tar", *AUTHOR], 4),
        (["--out", "x.tar", "--author", " "], 2),
        (["--out", "x.tar"], 2),
    ],
)
def test_bad_words_end_as_documented(results, words, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert archive(results, *words) == code
    assert not (tmp_path / "x.tar").exists()


def test_nothing_is_no_archive(tmp_path):
    fabricated.unfinished(tmp_path / "results")
    assert archive(tmp_path / "results", "--out", tmp_path / "x.tar", *AUTHOR) == 4
