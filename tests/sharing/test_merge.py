"""`bench merge`: a union by run and attempt, whatever the order, and after any interruption."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil

import fabricated
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import registry
from harness.cli.app import run
from harness.reporting.requests import build, find_report, request_for
from harness.results.environment import is_whole
from harness.results.ledger import rescored
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.ledger import Ledger
from harness.results.spec import Component
from harness.results.store import Store
from harness.results.store.scored_runs import _RESULT
from harness.system import files
from harness.system.files import sealed
from harness.system.locks import lock_file
from plugins.sharing.merging import Merged, merge
from plugins.upkeep import rescored_record, verification


def spoken(folder):
    """An attempt as a worker leaves it: its events end, and result.json has all checksums and its own."""
    document = json.loads((folder / "result.json").read_text())
    names = ("spec.json", "environment.json", "curves.safetensors", "draws.safetensors")
    document["files"] = {n: digest(folder / n) for n in names if (folder / n).exists()}
    (folder / "result.json").write_text(json.dumps(sealed(document)))
    return fabricated.as_made_here(folder)


def finished(results, seed, number=0, value=0.5, **changes):
    metrics = [
        {"name": "modes_covered", "value": value, "unit": "modes", "direction": "max", "primary": True, "version": 1}
    ]
    changes = {"metrics": metrics, "points": 4, "draws_stored": 0, "draws_stride": 0, **changes}
    return spoken(fabricated.concluded(results, seed, number, **changes))


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tree(folder, *, locks=True):
    """Every file of a folder, as it is."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and (locks or path.parent.name != "locks")
    }


def attempts(results):
    """The files of attempts, without the claims and marks beside their folders."""
    return {n: content for n, content in tree(results).items() if n.startswith("runs/") and n.count("/") == 4}


def merged(here, *folders):
    ledger = Ledger(here)
    ledger.prepare()
    counts = Merged(own_results=True)
    for folder in folders:
        merge(folder, ledger, counts)
    return counts


def tables(results):
    """What the store has of a folder, and a report, as text."""
    store = Store(results)
    assert store.refresh() == []
    asked = request_for(store, registry(), {})
    report = build(find_report(registry(), "leaderboard"), "leaderboard", store, asked)
    with store.reading() as db:
        prints = verification.prints(db)
    return prints, store.rows("from run_metric order by all"), [*report.records]


@pytest.fixture
def theirs(tmp_path):
    """A finished run, one that was interrupted, and one that was rescored."""
    results = tmp_path / "theirs"
    finished(results, 0)
    fabricated.unfinished(results, 1)
    measured = Attempt(finished(results, 2))
    rescored_record.write(measured, measured.result()["metrics"], {"b2/x": np.ones(3), "b2/y": np.ones((1, 3))}, {})
    return results


def bench(results, *words):
    return run(["--results", str(results), *map(str, words)])


def test_made_up_attempts_are_whole(theirs):
    assert is_whole(fabricated.environment())
    assert bench(theirs, "ingest", "--verify") == 0


def test_a_union_is_copied_once_and_the_source_stays(tmp_path, theirs, capsys):
    before = tree(theirs)
    assert bench(tmp_path / "all", "merge", "--own", theirs) == 0
    assert "3 attempts copied, 0 completed, 0 already here, 0 refused" in capsys.readouterr().err
    assert attempts(tmp_path / "all") == attempts(theirs)
    assert tree(theirs) == before
    counts = merged(tmp_path / "all", theirs)
    assert (counts.copied, counts.completed, counts.present) == (0, 0, 3)
    assert bench(tmp_path / "all", "ingest", "--verify") == 0


def test_other_numbers_of_one_run_are_reported_and_stay(tmp_path, theirs, capsys):
    """The attempt that was made here counts, whichever is later; exit code 1."""
    mine = tmp_path / "mine"
    finished(mine, 0, number=5, value=0.75)
    assert bench(mine, "merge", theirs, "--json") == 1
    said = capsys.readouterr()
    (row,) = json.loads(said.out)
    assert (row["kind"], row["value"], row["value_other"]) == ("differs", 0.75, 0.5)
    assert row["counts"] == "20260102T030405-000000"
    assert len(Ledger(mine).attempts(row["run_key"])) == 2
    assert bench(theirs, "merge", mine) == 1
    for folder, value in ((mine, 0.75), (theirs, 0.5)):
        store = Store(folder)
        store.refresh()
        rows = store.rows("select value, copied from run_metric where run_key = $1", [row["run_key"]])
        assert rows == [{"value": value, "copied": False}]


def levels(results):
    """The level of the rows that are reported, by seed."""
    store = Store(results)
    store.refresh()
    with store.reading() as db:
        rows = db.execute(f"select seed, level from {_RESULT} order by seed").fetchall()  # noqa: S608 - words of ours
    return dict(rows)


def test_copied_results_are_reported_until_somebody_says_that_they_are_theirs(tmp_path, theirs):
    """A forged attempt that is merged has no rank beside what was run here, and never replaces it."""
    assert bench(tmp_path / "all", "merge", theirs) == 0
    assert {*levels(tmp_path / "all").values()} == {"reported"}
    assert bench(tmp_path / "mine", "merge", "--own", theirs) == 0
    assert {*levels(tmp_path / "mine").values()} == {"run here"}
    finished(tmp_path / "all", 5)
    assert levels(tmp_path / "all") == {5: "run here"}, "beside a row that was run here it is left out"
    assert bench(tmp_path / "again", "merge", tmp_path / "mine") == 0  # the mark of an owner is not copied
    assert {*levels(tmp_path / "again").values()} == {"reported"}
    assert bench(tmp_path / "again", "merge", "--own", tmp_path / "mine") == 0  # said later
    assert {*levels(tmp_path / "again").values()} == {"run here"}
    assert bench(tmp_path / "more", "merge", "--own", tmp_path / "all") == 0
    assert {*levels(tmp_path / "more").values()} == {"run here"}
    assert levels(tmp_path / "more").keys() == {5}, "what was copied there from others stays theirs"


def test_nothing_of_others_gets_into_a_result_that_is_made_here(tmp_path, theirs, capsys):
    """Neither a checkpoint, which holds the sums of metrics, nor metrics that somebody computed anew."""
    assert bench(tmp_path / "all", "merge", theirs) == 0
    assert "1 unfinished attempt left out" in capsys.readouterr().err
    assert not [*(tmp_path / "all").rglob("*checkpoint*")]
    mine = tmp_path / "mine"
    measured = Attempt(finished(mine, 2))
    assert bench(mine, "merge", theirs) == 0
    assert rescored.read(measured.path)[0] is None
    assert rescored.read(Attempt(tmp_path / "all" / measured.path.relative_to(mine)).path)[0] is not None
    assert bench(mine, "merge", "--own", theirs) == 0
    assert rescored.read(measured.path)[0] is not None


def test_of_ones_own_results_none_replaces_the_other(tmp_path, theirs):
    for folder, value in (("mine", 0.75), ("part", 0.25)):
        finished(tmp_path / folder, 0, number=5, value=value)
    assert bench(tmp_path / "mine", "merge", "--own", theirs, tmp_path / "part") == 1
    numbers = []
    for order in ((theirs, tmp_path / "part"), (tmp_path / "part", theirs)):
        here = tmp_path / f"all-{len(numbers)}"
        assert bench(here, "merge", "--own", *order) == 1
        numbers.append(tables(here)[1])
    assert numbers[0] == numbers[1]


def results_of(part):
    return [digest(path) for path in part.glob("runs/*/*/*/result.json")]


@pytest.mark.parametrize("value", [0.75, 0.625])
def test_of_one_attempt_with_two_results_the_same_counts_in_any_order(tmp_path, value):
    """It was resumed in two places. Both stay, and both orders of merging give the same runs and tables."""
    parts = {"mine": tmp_path / "mine", "theirs": tmp_path / "theirs"}
    values = {"mine": value, "theirs": 0.5}
    for name, part in parts.items():
        finished(part, 0, value=values[name])
    before = {name: attempts(part) for name, part in parts.items()}
    counting = min((results_of(part), name) for name, part in parts.items())[1]
    for i, order in enumerate((["mine", "theirs"], ["theirs", "mine", "theirs"], ["mine", "theirs", "mine"])):
        here = tmp_path / f"all{i}"
        merged(here, parts[order[0]])
        Store(here).refresh()
        for name in order[1:]:
            counts = merged(here, parts[name])
            Store(here).refresh()
        assert attempts(here) == before[counting]
        other = next(name for name in parts if name != counting)
        (kept,) = (here / "conflicts").iterdir()
        contents = {f"{path.name}": path.read_bytes() for path in kept.iterdir()}
        assert contents == {name.rpartition("/")[2]: content for name, content in before[other].items()}
        counts = merged(here, parts[other])
        ((_, row),) = counts.conflicts.items()
        assert row["value"] == values[counting]


def test_a_result_that_is_damaged_here_is_replaced_by_the_whole_one(tmp_path, theirs):
    (mine,) = finished(tmp_path / "mine", 0).parent.iterdir()
    (mine / "result.json").write_text("{")
    assert len(merged(tmp_path / "mine", theirs).conflicts) == 1
    assert attempts(tmp_path / "mine") == attempts(theirs)
    assert [path.name for path in (tmp_path / "mine" / "conflicts").iterdir()]


def test_an_unfinished_attempt_is_replaced_by_its_end(tmp_path, theirs):
    """In either order; the other way round nothing changes."""
    shutil.copytree(theirs, tmp_path / "mine")
    (folder,) = (tmp_path / "mine" / "runs").glob(f"*/{fabricated.run_key(1)}/*/")
    with (folder / "events.jsonl").open("a") as stream:
        stream.write(json.dumps({"time": "2026-01-02T03:09:00+00:00", "event": "finished"}) + "\n")
    spoken(fabricated.conclude(folder, points=4, draws_stored=0, draws_stride=0))
    whole = attempts(tmp_path / "mine")
    counts = merged(tmp_path / "mine", theirs)
    assert (counts.completed, counts.present, attempts(tmp_path / "mine")) == (0, 3, whole)
    counts = merged(theirs, tmp_path / "mine")
    assert (counts.completed, attempts(theirs)) == (1, whole)


def test_runs_with_a_worker_are_left_out(tmp_path, theirs):
    with lock_file(Ledger(theirs).lock(fabricated.run_key(1)), 0):
        counts = merged(tmp_path / "all", theirs)
    assert (counts.copied, len(counts.running)) == (2, 1)
    assert merged(tmp_path / "all", theirs).copied == 1


def test_deleted_draws_are_no_damage_and_come_back(tmp_path, theirs):
    folder = finished(theirs, 7, 1, draws_stored=900, draws_stride=1)
    from safetensors.numpy import save

    arrays = {"draws": np.zeros((900, 4, 2), np.float32), "steps": np.arange(900)}
    (folder / "draws.safetensors").write_bytes(save(arrays))
    spoken(folder)
    shutil.copytree(theirs, tmp_path / "small")
    (small,) = (tmp_path / "small" / "runs").glob(f"*/*/{folder.name}")
    (small / "draws.safetensors").unlink()
    assert merged(tmp_path / "all", tmp_path / "small").copied == 4
    assert merged(tmp_path / "all", theirs).completed == 1
    assert attempts(tmp_path / "all") == attempts(theirs)


def damaged(results):
    """A folder with one attempt of each kind that is refused: what it is -> what is said of it."""
    folders = [finished(results, 10 + i, i) for i in range(8)]
    folders[0].joinpath("curves.safetensors").write_bytes(b"x")
    folders[1].joinpath("result.json").write_text("{")
    spec = json.loads(folders[2].joinpath("spec.json").read_text())
    folders[2].joinpath("spec.json").write_text(json.dumps({**spec, "steps": 2}))
    folders[3].joinpath("spec.json").write_text(json.dumps({**spec, "key_version": 99}))
    folders[4].joinpath("curves.safetensors").unlink()
    folders[4].joinpath("curves.safetensors").symlink_to("/etc/passwd")
    folders[5].rename(folders[5].with_name(";rm -rf"))
    document = json.loads(folders[6].joinpath("result.json").read_text())
    document["files"]["../../../escape"] = "0" * 64
    folders[6].joinpath("result.json").write_text(json.dumps(sealed({**document, "sha256": None})))
    document = json.loads(folders[6].joinpath("result.json").read_text())
    folders[7].joinpath("spec.json").write_bytes(b"[" * 2**25)  # more than a record may have
    (results / "runs" / "zz").symlink_to(folders[0].parent)
    (results / "runs" / "ab").mkdir(exist_ok=True)
    (results / "runs" / "ab" / "frog").mkdir()
    return [
        "curves.safetensors is altered", "result.json cannot be read", "spec.json is altered", "newer version",
        "a link, which is not followed", "not that of an attempt", "result.json", "spec.json cannot be read",
        "not the key of a run",
    ]  # fmt: skip


def test_damaged_newer_and_hostile_attempts_are_refused_by_name(tmp_path, theirs, capsys):
    expected = damaged(theirs)
    assert bench(tmp_path / "all", "merge", "--own", theirs) == 4
    said = capsys.readouterr().err
    assert "3 attempts copied" in said
    assert [text for text in expected if text not in said] == []
    assert said.count("refused: ") == 10  # a link is there as a file and as a folder
    assert not (tmp_path / "escape").exists()
    assert len(attempts(tmp_path / "all")) == len({**attempts(tmp_path / "all")})
    assert bench(tmp_path / "all", "ingest", "--verify") == 0


@pytest.mark.parametrize("kind", ["nothing", "file", "empty", "newer", "itself", "export", "link"])
def test_foreign_folders_are_refused_and_the_rest_is_merged(tmp_path, theirs, kind, capsys):
    foreign = tmp_path / "place"
    if kind == "file":
        foreign.write_text("")
    elif kind != "nothing":
        foreign.mkdir()
    if kind == "newer":
        (foreign / "ledger.json").write_text('{"layout": 99}')
    elif kind == "export":
        (foreign / "manifest.json").write_text("{}")
    elif kind == "link":
        (foreign / "runs").symlink_to(theirs / "runs")
    folder = tmp_path / "all" if kind == "itself" else foreign
    assert bench(tmp_path / "all", "merge", "--own", folder, theirs) == 4
    said = capsys.readouterr().err
    assert f"refused: {folder}: " in said
    assert "3 attempts copied" in said


SEEDS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([0.25, 0.5])), max_size=4, unique=True)


def folder_of(path, drawn):
    """A results folder: (seed, number of its attempt, value). What an attempt says follows from its name."""
    Ledger(path).prepare()
    for seed, number, value in drawn:
        name = path / "runs" / (key := fabricated.run_key(seed))[:2] / key
        if not list(name.glob(f"*{number:02d}-{seed:06x}")):
            finished(path, seed, number, value if number else 0.5)
    return path


@settings(deadline=None, max_examples=6)
@given(st.tuples(SEEDS, SEEDS, SEEDS))
def test_a_union_is_commutative_associative_and_idempotent(tmp_path_factory, drawn):
    """Of folders in which an attempt is one attempt. Any order, and any number of times, gives the same files."""
    top = tmp_path_factory.mktemp("union")
    values: dict[tuple[int, int], float] = {}
    three = [[(s, n, values.setdefault((s, n), v)) for s, n, v in part] for part in drawn]
    parts = [folder_of(top / f"part{i}", part) for i, part in enumerate(three)]
    before = [tree(part) for part in parts]
    unions = []
    for i, order in enumerate(([0, 1, 2], [1, 0, 2, 1], [2, 0, 1, 0])):
        merged(top / f"all{i}", *(parts[part] for part in order))
        unions.append(attempts(top / f"all{i}"))
    merged(top / "right", parts[1], parts[2])
    merged(top / "nested", parts[0], top / "right")
    assert all(union == unions[0] for union in [*unions, attempts(top / "nested")])
    assert unions[0] == {name: content for part in parts for name, content in attempts(part).items()}
    assert [tree(part) for part in parts] == before
    shutil.rmtree(top)


def test_merges_in_every_order_give_the_same_tables(tmp_path):
    """The attempt that counts follows from the attempts, not from who merged first; ingested between merges or not."""
    parts = [tmp_path / name for name in "abc"]
    finished(parts[0], 0, 1, 0.5)
    finished(parts[0], 1, 1, 0.25)
    finished(parts[1], 0, 2, 0.75, method="sgld")
    finished(parts[1], 1, 3, status="diverged", step=3, chain=1)
    finished(parts[2], 0, 3, 0.5, status="error", reason="no memory")
    fabricated.unfinished(parts[2], 1, 9)
    contents = []
    for i, order in enumerate(itertools.permutations(parts)):
        here = tmp_path / f"all{i}"
        for part in order:
            merged(here, part)
            if i % 2:
                Store(here).refresh()
        contents.append(tables(here))
    assert contents == [contents[0]] * 6
    assert {row["value"] for row in contents[0][1]} == {0.25, 0.5}  # of each run, the first result


class Cut(BaseException):
    """The process ends here."""


def test_interrupted_at_every_write_the_same_command_finishes(tmp_path, theirs, monkeypatch):
    """At each step that changes a file or folder of the results: what is there then is whole, and the rest follows."""
    before, number = tree(theirs), 0
    real = {name: getattr(os, name) for name in ("write", "fsync", "rename", "replace", "mkdir")}
    left = [10**9]

    def counted(name):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                raise Cut
            return real[name](*args, **kwargs)

        return call

    for name in real:
        monkeypatch.setattr(files.os, name, counted(name))
    while True:
        here = tmp_path / f"cut{number}"
        Ledger(here).prepare()
        number, left[0] = number + 1, number + 1
        try:
            merged(here, theirs)
        except Cut:
            left[0] = 10**9
            for key in Ledger(here).all_keys():
                for attempt in Ledger(here).attempts(key):
                    assert (
                        attempts(theirs).items()
                        >= {
                            f"runs/{key[:2]}/{key}/{attempt.id}/{path.name}": path.read_bytes()
                            for path in attempt.path.iterdir()
                        }.items()
                    )
        else:
            break
        left[0] = 10**9
        merged(here, theirs)
        assert {n: c for n, c in attempts(here).items() if "/." not in n} == attempts(theirs)
        shutil.rmtree(here)
    assert number > 20
    assert tree(theirs) == before


def test_the_files_that_settings_name_are_copied(tmp_path):
    content = b"1,2\n"
    named = hashlib.sha256(content).hexdigest()
    sampler = Component("sgld", "m:C", "s" * 8, {"file": f"sha256:{named}"})
    fabricated.unfinished(tmp_path / "theirs", 3, sampler=sampler)
    (tmp_path / "theirs" / "files").mkdir()
    (tmp_path / "theirs" / "files" / named).write_bytes(content)
    (tmp_path / "theirs" / "files" / ("0" * 64)).write_bytes(b"nobody names it")
    assert merged(tmp_path / "all", tmp_path / "theirs").refused == []
    assert {path.name: path.read_bytes() for path in (tmp_path / "all" / "files").iterdir()} == {named: content}
