"""Exported folders on a web server. DuckDB's httpfs is not everywhere: most tests put a function in its place."""

from __future__ import annotations

import functools
import json
import shutil
import threading
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import duckdb
import fabricated
import pytest

import harness
from harness.cli.app import run
from harness.results.store import web
from harness.system.files import sealed

URL = "https://example.org/results"


@pytest.fixture
def exported(tmp_path):
    for seed in range(3):
        fabricated.concluded(tmp_path / "results", seed, number=seed, points=4)
    assert run(["--results", str(tmp_path / "results"), "export", "--out", str(tmp_path / "out")]) == 0
    return tmp_path / "out"


@pytest.fixture
def asked(exported, tmp_path, monkeypatch):
    """What was fetched from a server that has the exported folder at URL."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    found = []

    @contextmanager
    def server():
        def fetch(url, _most):
            assert url.startswith(f"{URL}/")
            found.append(url.removeprefix(f"{URL}/"))
            return (exported / found[-1]).read_bytes()

        yield fetch

    monkeypatch.setattr(web, "_httpfs", server)
    return found


@pytest.mark.parametrize("text", ["https://a.org/b", "https:/a.org/b", "http://a.org/b/", "http://localhost:80/b"])
def test_addresses(text):
    assert web.address(text) == text.replace(":/", "://").replace(":///", "://").rstrip("/")
    assert web.address("ftp://a") == web.address("results") == web.address("https://a?b") == ""


def test_every_command_reads_it_and_what_is_there_is_not_fetched_again(exported, asked, capsys):
    def answer(place):
        capsys.readouterr()
        assert run(["--results", place, "ls", "runs", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert answer(URL) == answer(str(exported))
    assert len(asked) == len([*exported.iterdir()])
    assert harness.load(f"{URL}/").metrics.equals(harness.load(exported).metrics)
    assert asked[-1] == "manifest.json"
    assert asked.count("manifest.json") == 2
    assert len(asked) == len([*exported.iterdir()]) + 1
    words = ["run", "--sampler", "sgld", "--task", "mixture5", "--budget", "steps=20", "--seeds", "0"]
    assert run(["--results", URL, *words]) == 4
    assert "read-only" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["altered", "no manifest", "outside", "query", "no set"])
def test_damage_and_hostile_names_are_refused(exported, asked, damage, capsys):
    path = next(exported.glob("metric-*.parquet"))
    if damage == "altered":
        path.write_bytes(b"x")
    elif damage == "no set":
        shutil.copy(path, exported / "manifest.json")
    elif damage == "no manifest":
        (exported / "manifest.json").write_text("{}")
    else:
        name = {"outside": "a/../../b", "query": "a?b"}[damage]
        (exported / "manifest.json").write_text(json.dumps(sealed({"files": {name: "0" * 64}})))
    assert run(["--results", URL, "ls", "runs"]) == 4
    said = capsys.readouterr().err
    assert URL in said
    assert ("altered" in said) == (damage == "altered")
    assert len(asked) < 3 or damage == "altered"


def test_without_the_extension_it_says_what_to_do(monkeypatch, capsys):
    def missing(*_):
        raise duckdb.IOException("Extension not found")

    monkeypatch.setattr(duckdb.DuckDBPyConnection, "load_extension", missing, raising=False)
    assert run(["--results", "http://localhost:9/results", "ls", "runs"]) == 4
    assert "install httpfs" in capsys.readouterr().err
    with pytest.raises(harness.DataError, match="download the folder"):
        harness.load("http://localhost:9/results")


def httpfs():
    try:
        with duckdb.connect() as db:
            db.load_extension("httpfs")
    except duckdb.Error:
        return False
    return True


@pytest.mark.skipif(not httpfs(), reason="DuckDB's extension httpfs is not installed")
def test_by_httpfs_from_a_server(exported, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert harness.load(f"{url}/out").metrics.equals(harness.load(exported).metrics)
        with pytest.raises(harness.DataError, match="cannot be read"):
            harness.load(f"{url}/nothing")
        monkeypatch.setattr(web, "MAX_BYTES", 10)
        with pytest.raises(harness.DataError, match="at most 10 are read"):
            harness.load(f"{url}/out")
        server.shutdown()
    assert run(["--results", f"{url}/out", "ls", "runs"]) == 4
    assert "cannot be read" in capsys.readouterr().err
