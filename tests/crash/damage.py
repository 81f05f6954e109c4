"""Faults that strike files: cut short, or with one bit changed, of a run that is not finished or of one that is."""

import shutil
import signal
import subprocess
import sys

UNFINISHED = ("events.jsonl", "checkpoint.safetensors", "draws.part", "spec.json", "environment.json")
FINISHED = ("draws.safetensors", "curves.safetensors", "spec.json", "environment.json")


def truncate(path, rng):
    size = path.stat().st_size
    with path.open("r+b") as stream:
        stream.truncate(rng.randrange(size))
    return f"{path.name} cut from {size} bytes to {path.stat().st_size}"


def flip(path, rng):
    content = bytearray(path.read_bytes())
    byte, bit = rng.randrange(len(content)), rng.randrange(8)
    content[byte] ^= 1 << bit
    path.write_bytes(content)
    return f"{path.name}: bit {bit} of byte {byte} of {len(content)} flipped"


HOW = {"truncated": truncate, "bit-flipped": flip}


def _hurt(scene, path, how):
    scene.strikes += 1
    scene.notes.append(HOW[how](path, scene.rng))
    scene.forget(path)


def unfinished(name, how):
    """The file of an interrupted attempt; where the interruption came too early or too late for it, all over again."""

    def fault(scene):
        for _ in range(5):
            if scene.results.exists():
                scene.begin_again()
            scene.interrupt()
            open_ones = [path for path in scene.results.glob(f"runs/*/*/*/{name}") if not _concluded(path)]
            whole = sorted(path for path in open_ones if path.stat().st_size)
            if whole:
                _hurt(scene, scene.rng.choice(whole), how)
                return
        scene.notes.append(f"no {name} to damage")

    return fault


def _concluded(path):
    return (path.parent / "result.json").exists()


def result(how):
    """result.json itself: the same command does that run again, and nothing counts the damaged one."""

    def fault(scene):
        scene.copy_of_finished()
        if scene.rng.random() < 0.5:
            scene.run(["ingest"])
        scene.keep_finished()
        path = scene.rng.choice(sorted(scene.results.glob("runs/*/*/*/result.json")))
        _hurt(scene, path, how)

    return fault


def finished(name, how):
    """A file of a finished result: `bench ingest --verify` names it."""

    def fault(scene):
        scene.copy_of_finished()
        if scene.rng.random() < 0.5:
            scene.run(["ingest"])
        scene.keep_finished()
        path = scene.rng.choice(sorted(scene.results.glob(f"runs/*/*/*/{name}")))
        _hurt(scene, path, how)
        process, code = scene.run(["ingest", "--verify"])
        said = process.stdout() + process.stderr()
        scene.check(code == 4, f"--verify ended with {code}, not 4: {said}")
        scene.check(name in said and path.parent.name in said, f"--verify does not name {path}: {said}")
        scene.check("delete " in said and "bench ingest --rebuild" in said, f"--verify says not what to do: {said}")
        scene.finished.pop(path.parent)
        shutil.rmtree(path.parent)
        scene.commands.append(["ingest", "--rebuild"])

    return fault


def database(how):
    """results.duckdb: what reads it sets it aside and makes it anew, or says what to do."""

    def fault(scene):
        scene.copy_of_finished()
        scene.run(["ingest"])
        expected = _leaderboard(scene)
        _hurt(scene, scene.results / "results.duckdb", how)
        _reads_again(scene, expected)

    return fault


def log(how):
    """results.duckdb.wal, as a kill after the commit leaves it: no error tells that its end is lost."""

    def fault(scene):
        scene.copy_of_finished()
        expected = _leaderboard(scene)
        (scene.results / "results.duckdb").unlink()
        words = [sys.executable, "-c", LEAVES_A_LOG, str(scene.results)]
        code = subprocess.run(words, capture_output=True, check=False).returncode
        path = scene.results / "results.duckdb.wal"
        if scene.check(code == -signal.SIGKILL and path.exists(), f"no log was left behind ({code})"):
            _hurt(scene, path, how)
        _reads_again(scene, expected)

    return fault


def _leaderboard(scene):
    process, code = scene.run(["report", "leaderboard", "--format", "csv"])
    scene.check(code == 0, f"the report ended with {code}: {process.stderr()}")
    return process.stdout()


def _reads_again(scene, expected):
    """The report is right at once, or says that the database must be rebuilt and is right after that."""
    process, code = scene.run(["report", "leaderboard", "--format", "csv"])
    if code:
        said = process.stderr()
        scene.check(code == 4 and "bench ingest --rebuild" in said, f"the report ended with {code}: {said}")
        _, code = scene.run(["ingest", "--rebuild"])
        scene.check(code == 0, f"--rebuild ended with {code}")
        process, code = scene.run(["report", "leaderboard", "--format", "csv"])
    scene.check((code, process.stdout()) == (0, expected), f"the report changed ({code}): {process.stderr()}")
    process, code = scene.run(["ingest", "--verify"])  # it also reads what the report had no need of
    if code:
        said = process.stderr()
        scene.check(code == 4 and "bench ingest --rebuild" in said, f"--verify ended with {code}: {said}")
        scene.commands.append(["ingest", "--rebuild"])


LEAVES_A_LOG = """
import os, signal, sys
from pathlib import Path
from harness.results.store import changes, connection, ingest

class NoCheckpoint:
    def __init__(self, db):
        self.db = db
    def __getattr__(self, name):
        return getattr(self.db, name)
    def execute(self, query, *more):
        return self if query == "checkpoint" else self.db.execute(query, *more)

results = Path(sys.argv[1])
connection._NO_LOG["checkpoint_threshold"] = "1TB"
with connection.writing(results / "results.duckdb") as db:
    found = changes.news(results, changes.Known())
    for record in found.records:
        ingest.ingest(NoCheckpoint(db), changes.News([record]))
    os.kill(os.getpid(), signal.SIGKILL)
"""

FAULTS = {f"{name} of an unfinished run {how}": unfinished(name, how) for name in UNFINISHED for how in HOW}
FAULTS |= {f"result.json {how}": result(how) for how in HOW}
FAULTS |= {f"{name} of a finished run {how}": finished(name, how) for name in FINISHED for how in HOW}
FAULTS |= {f"results.duckdb {how}": database(how) for how in HOW}
FAULTS |= {f"results.duckdb.wal {how}": log(how) for how in HOW}
