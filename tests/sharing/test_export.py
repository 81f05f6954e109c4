"""`bench export`: Parquet shards named by their content, which all commands read as a results folder."""

import json
import shutil

import fabricated
import numpy as np
import pytest
from published import files

import harness
from harness.cli.app import run
from harness.results.ledger.attempt import Attempt
from harness.results.spec import recorded_key
from plugins.sharing import exporting as module
from plugins.sharing import published
from plugins.sharing.shards import documents_of
from plugins.upkeep import rescored_record

READING = (
    ["ls", "runs", "--json"], ["report", "leaderboard", "--json"], ["report", "convergence", "--json"],
    ["compare", "sgld", "csgld", "--differs", "schedule", "--json"], ["sql", "from run_metric order by all", "--json"],
    ["sql", "from curve order by all", "--json"], ["show", fabricated.run_key(0), "--json"],
)  # fmt: skip


def bench(results, *words):
    return run(["--results", str(results), *map(str, words)])


def answer(capsys, results, words):
    capsys.readouterr()
    assert bench(results, *words) == 0
    return capsys.readouterr().out


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    for seed, method in enumerate(("sgld", "sgld", "csgld", "csgld")):
        fabricated.concluded(folder, seed % 2, number=seed, method=method, points=4)
    fabricated.concluded(folder, 2, status="error", reason="no memory", metrics=[])
    fabricated.unfinished(folder, 3)
    return folder


@pytest.fixture
def exported(results, tmp_path):
    assert bench(results, "export", "--out", tmp_path / "out") == 0
    return tmp_path / "out"


def test_every_reading_command_answers_as_of_the_results_folder(results, exported, capsys):
    shutil.rmtree(next((results / "runs").glob(f"*/{fabricated.run_key(3)}")))  # unfinished: it is not exported
    (results / "results.duckdb").unlink()
    before = files(exported)
    for words in READING:
        assert answer(capsys, exported, words) == answer(capsys, results, words), words
    assert harness.load(exported).metrics.equals(harness.load(results).metrics)
    assert files(exported) == before


def test_the_same_runs_give_the_same_bytes_and_later_ones_add_shards(results, exported, tmp_path):
    first = files(exported)
    assert bench(results, "export", "--out", exported) == 0
    assert bench(results, "export", "--out", tmp_path / "again") == 0
    assert files(exported) == files(tmp_path / "again") == first
    fabricated.concluded(results, 5, number=7, points=4)
    assert bench(results, "export", "--out", exported) == 0
    second = files(exported)
    assert {n for n in first if n != "manifest.json"} < second.keys()
    assert all(second[name] == content for name, content in first.items() if name != "manifest.json")
    assert bench(exported, "sql", "from result") == 0


def test_an_attempt_that_changed_replaces_its_shard(results, exported):
    (folder,) = (results / "runs").glob(f"*/{fabricated.run_key(0)}/*/")
    rescored_record.write(Attempt(folder), [{**Attempt(folder).result()["metrics"][0], "value": 0.125}], {}, {})
    before = files(exported)
    (results / "results.duckdb").unlink()
    assert bench(results, "export", "--out", exported) == 0
    assert len(files(exported)) == len(before)
    assert 0.125 in harness.load(exported).metrics["value"].to_list()
    assert harness.load(exported).metrics.equals(harness.load(results).metrics)


def test_exports_of_two_people_into_one_folder_are_a_union(results, exported, tmp_path):
    """In either order, and of an exported folder as of a results folder."""
    other = tmp_path / "other"
    fabricated.concluded(other, 8, number=8, points=4)
    for folder, order in (("x", (results, other)), ("y", (other, exported))):
        for source in order:
            assert bench(source, "export", "--out", tmp_path / folder) == 0
    one, two = (harness.load(tmp_path / folder) for folder in "xy")
    assert one.metrics.equals(two.metrics)
    assert len(one.runs) == 6
    assert documents_of(files(tmp_path / "x")) == documents_of(files(tmp_path / "y"))


def levels(folder):
    return {row["level"] for row in harness.load(folder).sql("from verification").to_dicts()}


@pytest.fixture
def merged(results, tmp_path):
    """A results folder with copies of the results."""
    folder = tmp_path / "merged"
    shutil.copytree(results, folder)
    for result in [*folder.rglob("result.json")]:
        Attempt(result.parent).copied_mark.write_text("theirs")
    (folder / "results.duckdb").unlink(missing_ok=True)
    return folder


def test_a_copy_of_results_does_not_lower_what_the_export_says_of_them(exported, merged):
    before = files(exported)
    assert bench(merged, "export", "--out", exported) == 0
    assert files(exported) == before
    (folder,) = (merged / "runs").glob(f"*/{fabricated.run_key(0)}/*/")
    rescored_record.write(Attempt(folder), [{**Attempt(folder).result()["metrics"][0], "value": 0.125}], {}, {})
    (merged / "results.duckdb").unlink()
    assert bench(merged, "export", "--out", exported) == 0
    assert files(exported) == before
    assert levels(exported) == {"run here"}


def test_results_replace_copies_of_them_in_an_export(results, exported, merged, tmp_path):
    assert bench(merged, "export", "--out", tmp_path / "out2") == 0
    assert levels(tmp_path / "out2") == {"reported"}
    assert bench(results, "export", "--out", tmp_path / "out2") == 0
    assert files(tmp_path / "out2") == files(exported)


@pytest.fixture
def twos(monkeypatch):
    """Shards of two attempts; the most attempts whose rows were asked for at once."""
    asked = []

    def rows_of(db, attempts, *more):
        asked.append(len(attempts))
        return of(db, attempts, *more)

    of = published.rows_of
    monkeypatch.setattr(module, "MOST", 2)
    monkeypatch.setattr(published, "rows_of", rows_of)
    return asked


def shards(folder):
    return {path.name for path in folder.glob("attempt-*")}


def test_one_shard_is_in_memory_at_a_time(results, tmp_path, twos):
    out, again = tmp_path / "out", tmp_path / "again"
    for number in range(8, 13):
        fabricated.concluded(results, number, number=number, points=4)
    assert bench(results, "export", "--out", out) == 0
    assert (len(shards(out)), max(twos)) == (5, 2)
    assert harness.load(out).metrics.equals(harness.load(results).metrics)
    assert bench(out, "export", "--out", again) == 0
    assert len(shards(again)) == 5
    assert harness.load(again).metrics.equals(harness.load(results).metrics)
    assert documents_of(files(again)) == documents_of(files(out))


@pytest.mark.usefixtures("twos")
def test_of_many_shards_those_with_a_changed_attempt_are_written_anew(results, tmp_path):
    out = tmp_path / "out"
    assert bench(results, "export", "--out", out) == 0
    before, documents = shards(out), documents_of(files(out))
    (folder,) = (results / "runs").glob(f"*/{fabricated.run_key(2)}/*/")  # attempts of two shards are mixed
    rescored_record.write(Attempt(folder), [], {}, {})
    for number in (20, 21, 22):
        fabricated.concluded(results, number, number=number, points=4)
    (results / "results.duckdb").unlink()
    assert bench(results, "export", "--out", out) == 0
    assert len(before & shards(out)) == 2
    assert harness.load(out).metrics.equals(harness.load(results).metrics)
    assert documents.keys() < documents_of(files(out)).keys()


def test_the_run_keys_can_be_computed_from_what_is_exported(exported):
    documents = documents_of(files(exported))
    specs = [json.loads(text) for (_, file), text in documents.items() if file == "spec.json"]
    keys = set(harness.load(exported).runs["run_key"])
    assert {recorded_key(spec) for spec in specs} == keys
    assert len(keys) == 5


@pytest.mark.parametrize("damage", ["altered", "missing", "manifest", "no table"])
def test_damage_is_named(exported, damage, capsys):
    path = next(exported.glob("metric-*.parquet"))
    if damage == "altered":
        path.write_bytes(b"x")
    elif damage == "missing":
        path.unlink()
    elif damage == "manifest":
        (exported / "manifest.json").write_text("{}")
    else:
        from harness.system.files import sealed

        listed = json.loads((exported / "manifest.json").read_text())["files"]
        (exported / "manifest.json").write_text(
            json.dumps(sealed({"files": {n: d for n, d in listed.items() if n != path.name}}))
        )
    assert bench(exported, "report", "leaderboard") == 4
    assert str(exported) in capsys.readouterr().err


def test_an_exported_folder_is_not_written_to(exported, capsys):
    before = files(exported)
    run_words = ["run", "--sampler", "sgld", "--task", "mixture5", "--budget", "steps=20", "--seeds", "0"]
    for words in (run_words, ["rescore"], ["merge", exported]):
        assert bench(exported, *words) == 4, words
        assert "exported folder" in capsys.readouterr().err
    assert files(exported) == before


def test_a_folder_with_other_files_is_left_alone(results, tmp_path, capsys):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("")
    assert bench(results, "export", "--out", tmp_path / "home") == 4
    assert "has other files" in capsys.readouterr().err
    assert [*files(tmp_path / "home")] == ["thesis.tex"]


def test_an_interrupted_export_is_the_old_set_or_the_new_one(results, exported, monkeypatch):
    before = harness.load(exported).metrics
    fabricated.concluded(results, 5, number=7, points=4)

    def fail(*_):
        raise OSError(28, "No space left on device", "manifest.json")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_json", fail)
        assert bench(results, "export", "--out", exported) == 4
    assert harness.load(exported).metrics.equals(before)
    assert bench(results, "export", "--out", exported) == 0
    assert len(harness.load(exported).runs) == 6
    assert np.isfinite(harness.load(exported).metrics["value"].to_numpy()).all()
