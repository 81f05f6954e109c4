"""`bench archive`: one file, the same bytes for the same results, that is read as its README says."""

from __future__ import annotations

import tarfile

import fabricated
import pytest

import harness
from harness.cli.app import run

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
