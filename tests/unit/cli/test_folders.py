"""Folders that users name: with a leading ~, with characters that libraries read as something else, without runs."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import fabricated
import pytest
from support import bench_words

from harness.cli.app import run
from harness.contracts.data import data_root
from harness.results.ledger.ledger import Ledger
from harness.system import cache

READING = (
    ["ls", "runs"], ["ls", "samplers"], ["status"], ["sql", "from run"], ["report", "leaderboard"], ["gc"],
    ["gc", "--delete"], ["show", "sgld"], ["compare", "sgld", "psgld"], ["ingest"], ["ingest", "--verify"],
    ["ingest", "--rebuild"], ["rescore"], ["cancel"], ["replay", "123456abcdef"], ["verify", "."],
    ["plan", "--sampler", "sgld", "--task", "mixture5"],
)  # fmt: skip


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.delenv("BENCH_RESULTS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.mark.parametrize("exists", [True, False])
def test_a_command_that_reads_makes_nothing_in_a_folder_without_runs(here, exists, capsys):
    if exists:
        (here / "notes.txt").write_text("mine")
    for words in READING:
        code = run(["--results", str(here if exists else here / "missing"), *words])
        assert code in (0, 2, 4), words
        said = capsys.readouterr().err
        assert "internal error" not in said, (words, said)
        assert "bench: ;" not in said, words
        assert tree(here) == ({"notes.txt": b"mine"} if exists else {}), words


def test_an_interrupted_export_is_completed_also_after_a_look_into_it(tmp_path, capsys):
    fabricated.concluded(tmp_path / "results", points=4)
    export = ["--results", str(tmp_path / "results"), "export", "--out", str(tmp_path / "out")]
    assert run(export) == 0
    whole = tree(tmp_path / "out")
    (tmp_path / "out/manifest.json").unlink()  # it is written last
    for look in READING:
        run(["--results", str(tmp_path / "out"), *look])
    assert run(export) == 0, capsys.readouterr().err
    assert tree(tmp_path / "out") == whole


def test_a_site_is_made_after_a_look_into_its_folder(tmp_path, here):
    fabricated.concluded(tmp_path / "results", points=4)
    words = ["--results", str(tmp_path / "results"), "site", "--out", "pages", "--report", "ess"]
    (here / "pages").mkdir()
    assert run(["--results", "pages", "ls", "runs"]) == 0
    assert not tree(here / "pages")
    assert run(words) == 0
    (here / "pages/site.json").unlink()  # the manifest, as before its writer had come so far
    (here / "pages/index.html").unlink()
    assert run(["--results", "pages", "ls", "runs"]) == 0
    assert run(words) == 0
    assert (here / "pages/index.html").exists()


def test_a_leading_tilde_is_the_home_folder(tmp_path, here, monkeypatch):
    home = tmp_path / "home"
    fabricated.concluded(home / "r", points=4)
    (home / "tilde_plugin.py").write_text(
        "from harness import Info, hook\n"
        "@hook\n"
        "def bench_reports():\n"
        "    return [Info('tilde', 'tilde_plugin:Report', 'of a plugin')]\n"
    )
    assert run(["--results", "~/r", "--plugin", "~/tilde_plugin.py", "ls", "reports"]) == 0
    assert run(["--results=~/r", "export", "--out=~/exported"]) == 0
    assert run(["--results", "~/r", "report", "leaderboard", "--out", "~/board.md"]) == 0
    assert run(["--results", "~/merged", "merge", "~/r", "~/r"]) in (0, 4)
    assert run(["new", "task", "own", "--into", "~/packages"]) == 0
    monkeypatch.setenv("BENCH_RESULTS", "~/r")
    assert run(["ls", "runs"]) == 0
    for name, root in (("BENCH_DATA", data_root), ("BENCH_CACHE", lambda: cache.folder("x").parent)):
        monkeypatch.setenv(name, "~/there")
        assert root() == home / "there"
    assert {"r", "exported", "board.md", "merged", "packages"} <= {path.name for path in home.iterdir()}
    assert not list(here.iterdir())


def test_a_home_that_is_not_known_is_said(here, capsys):
    assert run(["--results", "~nobody-of-this-name/r", "ls", "runs"]) == 2
    assert "could not determine home directory; write out the path" in capsys.readouterr().err
    assert not list(here.iterdir())


NAMES = (
    "a?access_mode=read_only", "a\\b*", "a[b]c", "{a,b}", "**", "a%20b#c", "s3:", "md:x", """it's "b";""", "new\nline",
    "-dash", "x" * 230, "$HOME", "\u00e9\x01", "sqlite:x",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_any_name_is_read_or_refused(here, name, capsys):
    """DuckDB and polars take some characters for a query, a pattern or a scheme."""
    fabricated.concluded(here / name, points=4)
    folder = str(here / name)
    assert run(["--results", folder, "sql", "from attempt", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1
    assert run(["--results", folder, "export", "--out", f"{folder}.out"]) == 0
    assert run(["--results", f"{folder}.out", "sql", "from run", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1
    assert run(["--results", folder, "ingest", "--rebuild"]) in (0, 4)
    assert "internal error" not in capsys.readouterr().err
    assert {path.name for path in here.iterdir()} == {name, f"{name}.out"}  # nothing was written elsewhere


def test_run_with_nothing_missing_needs_no_write(tmp_path):
    """Tests may run as root, for whom no folder is read-only: a mount is."""
    results = tmp_path / "results"
    words = ["run", "--sampler", "sgld", "--task", "mixture5", "--budget", "steps=50", "--seeds"]
    assert run(["--results", str(results), *words, "0"]) == 0
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && echo mounted && shift 1 && exec "$@"'
    mounted = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(results)]
    tried = subprocess.run([*mounted, "true"], capture_output=True, check=False) if shutil.which("unshare") else None
    if tried is None or tried.returncode:
        pytest.skip("no folder can be mounted read-only here")
    for seeds, code in (("0", 0), ("0-1", 4)):
        command = [*mounted, *bench_words("--results", str(results), *words, seeds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert ("cannot write results" in done.stderr) == bool(code)


def test_a_plan_with_nothing_missing_does_not_prepare_the_folder(monkeypatch):
    from harness.application.bench import Bench

    monkeypatch.setattr(Ledger, "prepare", lambda _: pytest.fail("it prepares the folder"))
    assert Bench().execute([], [], retry=False, long_is_fine=False).exit_code == 0


def test_user_path_leaves_other_paths_alone():
    from harness.system.files import user_path

    assert user_path("a/~/b") == Path("a/~/b")
    assert user_path("~") == Path(os.environ["HOME"])
