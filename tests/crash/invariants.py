"""What must hold after every round: nothing lost, doubled, altered, orphaned, held or left behind; the store right."""

import fcntl
import os
import re
import shutil
import signal
import tempfile
from collections import Counter
from pathlib import Path

from crash.scene import TRANSIENT, contents
from crash.workload import fingerprint, sha256

from harness.results.ledger.attempt import Attempt
from harness.results.ledger.ledger import Ledger
from harness.results.records import FINAL
from harness.results.store import Store, schema
from plugins.upkeep import garbage

COUNTS = {
    "lost": "runs without a result",
    "doubled": "runs with two results",
    "different": "results whose bits are not those of an undisturbed run",
    "altered": "finished results that were written again",
    "repeated": "checkpoints that were not resumed from",
    "orphans": "processes left behind",
    "locks": "locks left held",
    "leftovers": "files left behind that `bench gc` does not list",
    "store": "databases that are not what a rebuild gives, or reports that changed",
    "outside": "files and links that bench did not write, and changed or deleted",
    "tracebacks": "tracebacks or internal errors shown",
    "other": "exit codes and messages other than documented",
}
"""What may be wrong after a round, in words."""
TRACE = re.compile(r"Traceback \(most recent call last\)|Exception ignored in|internal error")


def judge(scene):
    """All complaints about a round, by kind."""
    violations = {kind: [] for kind in COUNTS}
    violations["other"] += [text for text in scene.violations if "still alive" not in text]
    violations["orphans"] += [text for text in scene.violations if "still alive" in text]
    _outside(scene, violations["outside"])
    if scene.site.writes.exists():
        violations["other"].append(f"changes below runs/: {scene.site.writes.read_text()[:1000]}")
    _runs(scene, violations)
    _intact(scene, violations["altered"])
    _gone_on_with(scene, violations["repeated"])
    _locks(scene, violations["locks"])
    _leftovers(scene, violations["leftovers"])
    _store(scene, violations["store"])
    for process, words in scene.processes:
        if _traced(process):
            violations["tracebacks"].append(f"bench {words}: {process.stderr()}")
    return violations


def _traced(process):
    """Whether a traceback was shown; one of a Ctrl-C before the first line of `main` is Python's own."""
    said = process.stderr()
    before_main = process.popen.returncode == -signal.SIGINT and ", in main\n" not in said
    return TRACE.search(said) and not before_main


def finals(results, key):
    """The attempts at a run that count as its result."""
    attempts = Ledger(results).attempts(key)
    return [a for a in attempts if (a.result() or {}).get("status") in FINAL]


def _runs(scene, violations):
    for key, expected in scene.reference.runs.items():
        attempts = finals(scene.results, key)
        if not attempts:
            violations["lost"].append(f"run {key} has no result")
        elif len(attempts) > 1:
            violations["doubled"].append(f"run {key} has {len(attempts)} results")
        elif (digest := fingerprint(attempts[0].path)) != expected:
            violations["different"].append(f"run {key}: {digest} is not {expected}")
    for path in scene.results.glob("runs/*/*"):
        if path.name not in scene.reference.runs.keys() | scene.added:
            violations["other"].append(f"run {path.name} was not asked for")
    for key in scene.added:
        if (number := len(finals(scene.results, key))) != 1:
            violations["doubled" if number else "lost"].append(f"run {key} has {number} results")


def _outside(scene, violations):
    """What bench did not write is as it was. It is taken away here: the checks after this one know nothing of it."""
    for path, before in scene.outside.items():
        now = contents(path)
        if now != before:
            violations.append(f"{path} was {before} and is {now}")
        if path.is_symlink():
            path.unlink()
        elif path.is_relative_to(scene.results):
            shutil.rmtree(path, ignore_errors=True)


def _intact(scene, violations):
    for folder, files in scene.finished.items():
        for name, (digest, moment) in files.items():
            path = folder / name
            if not path.exists():
                violations.append(f"{path} is gone")
            elif sha256(path) != digest or path.stat().st_mtime_ns != moment:
                violations.append(f"{path} was written again")


def _gone_on_with(scene, violations):
    """What a checkpoint held was not done again."""
    for folder, position in scene.checkpoints.items():
        resumed = [event["position"] for event in Attempt(folder).events() if event["event"] == "resumed"]
        if position not in resumed:
            violations.append(f"{folder} had a checkpoint at step {position} and went on from {resumed or 'none'}")


def _locks(scene, violations):
    for path in scene.results.glob("locks/*"):
        with path.open("rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                violations.append(f"{path.name} is held")


def _leftovers(scene, violations):
    """Files that no format names; those of attempts that were ended while they wrote are `bench gc`'s."""
    known = re.compile(
        r"(results\.settled\.json|results\.duckdb(\.wal)?(\.(damaged|foreign|older)-\w+(\.wal)?)?|ledger\.json|seal\.key|"
        r"runs|locks|nights|rates|jobs|conflicts|changed|tuning|truths|figures|files)"
    )
    for path in scene.results.rglob(".*"):
        os.utime(path, (0, 0))  # `gc` waits an hour before it takes these for abandoned
    listed = {str(item.path.relative_to(scene.results)) for item in garbage.find(Ledger(scene.results))}
    extra = {path.name for path in scene.results.iterdir() if not known.fullmatch(path.name)}
    violations += sorted(extra - listed)
    violations += sorted(str(path.relative_to(scene.results)) for path in scene.results.glob("jobs/*"))
    for name in (path.relative_to(scene.results) for path in scene.results.rglob(".*")):
        if not {str(name), *map(str, name.parents)} & listed:
            violations.append(str(name))
    for attempt in scene.results.glob("runs/*/*/*/"):
        concluded = Attempt(attempt).result() is not None
        for path in attempt.iterdir():
            extra = path.name.startswith(".") or (concluded and path.name in TRANSIENT[:2])
            names = {str(path.relative_to(scene.results)), str(attempt.relative_to(scene.results))}
            if extra and not names & listed:
                violations.append(str(path.relative_to(scene.results)))


def _store(scene, violations):
    """The database after a refresh is the one that is rebuilt from the ledger, row by row."""
    store = Store(scene.results)
    try:
        notes = store.refresh()
    except Exception as error:  # noqa: BLE001 - the complaint
        violations.append(f"the database could not be refreshed: {type(error).__name__}: {error}")
        return
    if store.aside:
        violations.append(f"the database could not be read: {notes}")
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in ("runs", "locks"):
            (Path(folder) / name).symlink_to(scene.results / name)
        rebuilt = Store(Path(folder))
        rebuilt.rebuild()
        for name in [*schema.TABLES, *schema.VIEWS]:
            here, there = (_rows(each, name) for each in (store, rebuilt))
            if here != there:
                some = [str(row)[:300] for row in [*(here - there), *(there - here)][:2]]
                violations.append(f"{name}: {here.total()} rows are not the {there.total()} rebuilt, as in {some}")
    rows = store.rows("select run_key, status from result")
    counted = {row["run_key"]: row["status"] for row in rows if row["run_key"] not in scene.added}
    expected = {key: status for key, (status, *_) in scene.reference.runs.items()}
    if counted != expected:
        violations.append(f"reports count {counted}, not {expected}")


def _rows(store, name):
    _, rows = store.table(f"select * from {name}")  # noqa: S608 - a table or view of the schema
    return Counter(map(repr, rows))  # rows hold lists
