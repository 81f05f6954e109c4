"""Results folders as a stranger may leave them: links and other folders below runs/, no database under its name."""

import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

from crash.damage import _leaderboard
from crash.scene import contents

PRIVATE = "the-content-of-a-private-file"
READING_SECONDS = 120.0
"""A command that takes longer hangs: each of these needs about two seconds on a quiet machine."""


def _photographs(scene, key):
    """A stranger's folder beside the results, which looks like attempts from any level on."""
    photographs = scene.written
    old = "20200101T000000000-aaaaaa"
    for folder in (".", old, f"{key}/{old}", f"{key[:2]}/{key}/{old}"):
        (photographs / folder).mkdir(parents=True, exist_ok=True)
        for name in ("summer.jpg", "environment.json", "draws.part", ".draws.part.1"):
            (photographs / folder / name).write_text(PRIVATE)
    return photographs


def _part(scene, key, photographs):
    free = next(f"{n:02x}" for n in range(256) if not (scene.results / "runs" / f"{n:02x}").exists())
    return [(scene.results / "runs" / free, photographs / key[:2]), (scene.results / "runs" / "xx", photographs)]


def _key(scene, key, photographs):
    other = key[:2] + ("0" if key[2] != "0" else "1") + key[3:]
    return [(scene.results / "runs" / key[:2] / other, photographs / key)]


def _attempt(scene, key, photographs):
    folder = scene.results / "runs" / key[:2] / key
    return [(folder / "20200101T000000000-aaaaaa", photographs), (folder / "20200101T000000000-bbbbbb", folder)]


def _file(scene, key, photographs):
    attempt = next((scene.results / "runs" / key[:2] / key).iterdir())
    return [(attempt / name, photographs / "summer.jpg") for name in ("draws.part", ".draws.part.1", "notes")]


def _lock(scene, key, photographs):
    (scene.results / "locks").mkdir(exist_ok=True)
    names = (f"{key}.notice", "diary.lock")
    return [(scene.results / "locks" / name, photographs / "summer.jpg") for name in names]


def _trash(scene, _, photographs):
    """A link in place of `runs`, `locks`, `truths` or `nights` is refused; others mean nothing."""
    return [(scene.results / ".trash", photographs), (scene.results / "drafts", photographs)]


def _as_links(places):
    for path, target in places:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)


def _as_copies(places):
    for path, target in places:
        path.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            shutil.copytree(target, path, symlinks=True)
        else:
            path.mkdir()
            shutil.copyfile(target, path / "summer.jpg")


def strangers(where, plant):
    """A stranger's link or folder is at a level of the results folder: no command changes it or fails because of it."""

    def fault(scene):
        scene.copy_of_finished()
        expected = _leaderboard(scene)
        scene.keep_finished()
        key = scene.rng.choice(sorted(scene.reference.runs))
        photographs = _photographs(scene, key)
        places = where(scene, key, photographs)
        if plant is _as_copies:
            places = [(path, target) for path, target in places if target != path.parent]
        plant(places)
        scene.strikes += len(places)
        scene.outside = {path: contents(path) for path in (photographs, *(path for path, _ in places))}
        for words in (["gc", "--delete", "--failed"], ["ls", "runs"], ["ingest", "--verify"], ["ingest", "--rebuild"]):
            _answers(scene, words, (0, 4) if "--verify" in words else (0,))
        process, code = scene.run()
        scene.check(code == scene.expected_code(), f"the runs ended with {code}: {process.stderr()}")
        scene.check(_leaderboard(scene) == expected, "the report is another")

    return fault


def _answers(scene, words, codes):
    """A command ends in time, with one of these codes, and shows nothing of the private file."""
    process = scene.start(words)
    try:
        code = process.popen.wait(READING_SECONDS)
    except subprocess.TimeoutExpired:
        process.popen.kill()
        process.popen.wait()
        code = "no end"
    said = process.stdout() + process.stderr()
    scene.check(code in codes, f"{words} ended with {code}: {said}")
    scene.check(PRIVATE not in said, f"{words} shows a private file: {said}")
    return process, code


def _outside(path):
    """A private file that is not in the results folder."""
    return path.parent.parent / "written" / "private.txt"


def _sqlite(path):
    with sqlite3.connect(path) as db:
        db.execute("create table run (run_key text)")
    db.close()


def _of_another(path):
    import duckdb

    with duckdb.connect(str(path)) as db:
        db.execute(f"create view run as select content as run_key from read_text('{_outside(path)}')")  # noqa: S608
        db.execute("create table meta (version integer)")


def _link_to_a_database(path):
    _of_another(path)
    path.rename(_outside(path).with_name("other.duckdb"))
    path.symlink_to(_outside(path).with_name("other.duckdb"))


DATABASES = {
    "a SQLite file": _sqlite,
    "a database of another program": _of_another,
    "a link to a database": _link_to_a_database,
    "a link to a file": lambda path: path.symlink_to(_outside(path)),
    "a dangling link": lambda path: path.symlink_to(_outside(path).with_name("nothing")),
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "an empty file": Path.touch,
}


def database(make, name):
    """results.duckdb, or its log, is something else: a clear answer in time, and --rebuild makes it right."""

    def fault(scene):
        scene.copy_of_finished()
        expected = _leaderboard(scene)
        scene.keep_finished()
        scene.written.mkdir()
        (scene.written / "private.txt").write_text(PRIVATE)
        path = scene.results / name
        path.unlink(missing_ok=True)
        make(path)
        scene.outside = {scene.written: contents(scene.written)}
        scene.strikes += 1
        _answers(scene, ["report", "leaderboard", "--format", "csv"], (0, 4))
        _answers(scene, ["ingest", "--verify"], (0, 4))
        _answers(scene, ["ingest", "--rebuild"], (0,))
        scene.check(_leaderboard(scene) == expected, "the report is another after --rebuild")

    return fault


LEVELS = {"runs": _part, "a part": _key, "a run": _attempt, "an attempt": _file}
OTHERS = {"locks": _lock, "the results": _trash}
FAULTS = {f"links in {name}": strangers(where, _as_links) for name, where in (LEVELS | OTHERS).items()}
FAULTS |= {f"foreign folders in {name}": strangers(where, _as_copies) for name, where in LEVELS.items()}
FAULTS |= {f"{kind} as results.duckdb": database(make, "results.duckdb") for kind, make in DATABASES.items()}
FAULTS |= {
    f"{kind} as results.duckdb.wal": database(DATABASES[kind], "results.duckdb.wal")
    for kind in ("a SQLite file", "a link to a file", "a dangling link", "a pipe", "a folder")
}
