"""`bench verify`: honest rows run on fresh seeds, forged ones are refused, and nothing of a stranger's is executed."""

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import subprocess
import textwrap
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file
from support import bench as in_a_process

from harness.cli.app import run
from harness.results.ledger.attempt import Attempt
from harness.results.spec import recorded_key
from harness.runs import EndedError
from harness.system.files import SEAL, sealed
from plugins.fresh_seeds import fresh_seeds
from plugins.sharing import exporting as export
from plugins.sharing import verifying
from plugins.upkeep import rescored_record

ROOT = Path(__file__).parents[2]
TASK = ["--task", "gaussian2d", "--budget", "smoke", "--seeds", "0-4"]


def bench(results, *words):
    return run(["--results", str(results), "--json", *map(str, words)])


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    sampler = re.search(r"```python\n(# my_sampler.py.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    sampler = sampler.replace("my_sampler", "sent_sampler")  # this process knows the module from now on: once a session
    (folder / "sent_sampler.py").write_text(f"open({str(folder / 'ran')!r}, 'a').close()\n{sampler}")
    words = ["run", "--sampler", "sgld,leimkuhler-matthews", *TASK]
    assert run(["--results", str(folder / "r"), *plugin_of(folder), *words]) == 0
    (folder / "ran").unlink()
    return folder


@pytest.fixture(scope="session")
def one_row(home, tmp_path_factory):
    """A results folder of one row, and its export; tests get copies."""
    folder = tmp_path_factory.mktemp("one-row")
    for name in ("sent", "exported"):
        shutil.copytree(home / "r", folder / name, ignore=shutil.ignore_patterns("results.duckdb*", "locks"))
        for path in (folder / name / "runs").glob("*/*/*/spec.json"):
            if json.loads(path.read_text())["method"] != "sgld":
                shutil.rmtree(path.parents[1])
    exported(folder / "exported", folder / "out")
    return folder


@pytest.fixture
def sent(one_row, tmp_path):
    """A results folder of one row, as somebody sends it."""
    return shutil.copytree(one_row / "sent", tmp_path / "sent")


@pytest.fixture
def out(one_row, tmp_path):
    """An export of `sent` as it is."""
    return shutil.copytree(one_row / "out", tmp_path / "out")


@pytest.fixture
def verify(tmp_path, capsys):
    def command(folder, *words):
        capsys.readouterr()
        code = bench(tmp_path / "mine", "verify", folder, *words)
        said = capsys.readouterr()
        return code, json.loads(said.out or "[]"), said.err

    return command


def exported(folder, out, *plugin):
    assert run(["--results", str(folder), *plugin, "export", "--out", str(out)]) == 0
    return out


def plugin_of(home):
    return "--plugin", str(home / "sent_sampler.py")


def forge(folder, change):
    """Change result.json of each attempt, with its checksum: anybody can compute that."""
    for path in folder.glob("runs/*/*/*/result.json"):
        record = json.loads(path.read_text())
        change(record)
        seal(path, record)


def seal(path, record):
    path.write_text(json.dumps(sealed({name: value for name, value in record.items() if name != SEAL})))


def better(record, factor=0.1):
    """Change the metrics but the joint error, which the curves would contradict."""
    for metric in record["metrics"]:
        metric["value"] = metric["value"] and metric["value"] * (1 if metric["name"] == "joint_error" else factor)


def alter(folder, table, change):
    """Change a table of an exported folder, and the manifest as its owner can."""
    for path in folder.glob(f"{table}-*.parquet"):
        stream = io.BytesIO()
        pq.write_table(change(pq.read_table(path)), stream)
        rewrite(folder, path.name, stream.getvalue())


def rewrite(folder, name, content):
    (folder / name).write_bytes(content)
    files = json.loads((folder / "manifest.json").read_text())["files"]
    digests = {**files, name: hashlib.sha256(content).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(sealed({"files": digests})))


def ranks(results, capsys):
    capsys.readouterr()
    assert bench(results, "report", "leaderboard") == 0
    rows = json.loads(capsys.readouterr().out)
    return {row["method"]: (row["rank"], row["verified"], row["status"]) for row in rows if row["ranked_by"]}


def test_the_rank_of_a_row_from_elsewhere_is_that_of_its_fresh_runs(out, verify, tmp_path, capsys):
    assert ranks(out, capsys)["sgld"][:2] == (1, "run here")
    board = exported(out, tmp_path / "board")  # what somebody says of himself is not taken over
    rank, level, status = ranks(board, capsys)["sgld"]
    assert (rank, level) == (None, "reported")
    assert status.startswith("reported: ")
    code, (row,), said = verify(out, "--into", board, "--salt", "abc")
    assert code == 0, said
    assert (row["verified"], row["seeds"]) == ("run here", "0-4")
    assert re.search("same bits; run on 5 fresh seeds, without a significant difference: .* in sent runs", row["how"])
    assert ranks(board, capsys)["sgld"][:2] == (1, "run here")
    assert verify(out, "--salt", "abc")[1] == [row], "the salt chooses the runs"
    before = sorted(path.name for path in board.iterdir())
    assert verify(out, "--into", board, "--salt", "abc")[0] == 0
    assert sorted(path.name for path in board.iterdir()) == before
    capsys.readouterr()
    assert bench(board, "sql", "select level, salt, seed from verification join attempt using (attempt) join run using "
                 "(run_key) order by all") == 0  # fmt: skip
    rows = json.loads(capsys.readouterr().out)
    assert [(one["level"], one["salt"]) for one in rows] == [("replayed", "abc")] * 5 + [("run here", "abc")] * 5
    fresh = fresh_seeds(5, "abc", row["group"])
    assert [one["seed"] for one in rows] == [*range(5), *sorted(fresh)]
    assert {*fresh}.isdisjoint(fresh_seeds(5, "abd", row["group"])), "the sender cannot know them"
    capsys.readouterr()
    assert bench(board, "report", "leaderboard") == 0
    assert {one["seeds"] for one in json.loads(capsys.readouterr().out)} == {5}


def test_kept_draws_are_scored_again(sent, verify):
    code, (row,), said = verify(sent, "--replays", "0")
    assert (code, row["verified"]) == (0, "rescored"), said
    assert "5 of 5 runs" in row["how"]
    forge(sent, better)
    code, (row,), _ = verify(sent, "--replays", "0")
    assert (code, row["verified"]) == (1, "refused")
    assert "by its draws" in row["how"]


def smaller(rows):
    kept = rows.to_pylist()
    for row in kept:
        row["y"] = [y and y / 2 for y in row["y"]] if row["name"] == "whitened_second" else row["y"]
    return type(rows).from_pylist(kept, rows.schema)


def forge_curves(folder, factor=0.1, names=("joint_error", "joint_b2_z_max", "joint_b2_z2_max")):
    """Multiply curves by which rows rank, with all checksums."""
    for path in folder.glob("runs/*/*/*/curves.safetensors"):
        arrays = load_file(path)
        save_file({n: v * (factor if {n, n.removesuffix("/y")} & {*names} else 1) for n, v in arrays.items()}, path)
        result = json.loads((path.parent / "result.json").read_text())
        result["files"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        seal(path.parent / "result.json", result)


RANKING = ("joint_error", "joint_b2_z_max,joint_b2_z2_max", "joint_error,joint_b2_z_max,joint_b2_z2_max")


@pytest.mark.parametrize("names", RANKING)
def test_curves_that_were_divided_and_sealed_again_are_not_taken_in(sent, verify, names):
    """They rank the row, and the metrics of result.json are as they were."""
    forge_curves(sent, names=names.split(","))
    code, _, said = verify(sent, "--replays", "0")
    assert code == 4, said
    assert "the joint error by its curves is" in said


@pytest.mark.parametrize("names", RANKING[:2])
def test_curves_that_were_divided_in_an_export_are_refused(out, verify, tmp_path, names):

    def lower(rows):
        kept = [
            {**row, "y": [y and y * 0.1 for y in row["y"]] if row["name"] in names.split(",") else row["y"]}
            for row in rows.to_pylist()
        ]
        return type(rows).from_pylist(kept, rows.schema)

    alter(out, "curve_points", lower)
    code, rows, said = verify(out, "--into", tmp_path / "board")
    assert code == 4, said
    assert all("the joint error by its curves is" in row["refused"] for row in rows)


def test_curves_and_metric_that_were_forged_alike_are_found_by_the_draws(sent, verify):
    forge_curves(sent, 0.1, ("joint_error",))
    forge_curves(sent, 0.01, ("joint_b2_z_max", "joint_b2_z2_max"))
    metric = {"joint_error": 0.01}
    forge(sent, lambda record: [m.update(value=m["value"] * metric.get(m["name"], 1)) for m in record["metrics"]])
    code, (row,), said = verify(sent, "--replays", "0")
    assert (code, row["verified"]) == (1, "refused"), said
    assert "by its draws" in row["how"]


@pytest.mark.parametrize(
    ("name", "factor"),
    [("whitened_second/y", 0.5), ("distribution_error/y", 0.5), ("whitened_mean/y", -1), ("joint_b2_z_max/x", 0.5)],
)
def test_every_curve_is_compared_with_the_draws(sent, verify, name, factor):
    forge_curves(sent, factor, (name,))
    code, (row,), said = verify(sent, "--replays", "0")
    assert (code, row["verified"]) == (1, "refused"), said
    assert f"curve {name} of seed" in row["how"]


def other_machine(folder):
    """Environments as of another processor; their attempts name them by checksum, and so does nothing else."""
    for path in folder.glob("runs/*/*/*/environment.json"):
        record = json.loads(path.read_text())
        record = {**{n: v for n, v in record.items() if n != "id"}, "cpu": "another processor"}
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        path.write_text(json.dumps({"id": hashlib.sha256(text.encode()).hexdigest(), **record}))


@pytest.mark.parametrize(("factor", "level"), [(1 + 1e-9, "run here"), (1e-4, "refused")])
def test_numbers_of_another_machine_may_not_differ_from_fresh_ones(sent, verify, tmp_path, factor, level):
    other_machine(sent)
    forge(sent, lambda record: better(record, factor))
    code, (row,), _ = verify(exported(sent, tmp_path / "out"), "--replays", "3")
    assert (code, row["verified"]) == (int(level == "refused"), level), row["how"]
    assert "Holm" in row["how"]
    assert ("this machine gives other bits" if level == "run here" else "fresh ones have other") in row["how"]


def test_nobody_can_know_the_salt_before(sent, verify, monkeypatch):
    monkeypatch.setattr("plugins.sharing.verify.secrets", secrets)  # tests have a fixed one otherwise
    salts = [re.search("from the salt (.*)", verify(sent, "--replays", "1")[2])[1] for _ in range(2)]
    assert salts[0] != salts[1]
    assert all(len(salt) == 16 for salt in salts)


def test_a_forged_cost_of_another_machine_is_found(sent, verify, tmp_path):
    other_machine(sent)
    forge(sent, lambda record: record.update(passes=record["passes"] / 10))
    code, (row,), _ = verify(exported(sent, tmp_path / "out"))
    assert (code, row["verified"]) == (1, "refused")
    assert "another passes" in row["how"]


def test_of_several_attempts_the_one_that_counts_is_verified(sent, verify, tmp_path):
    (sent / "seal.key").unlink()  # so that no attempt counts before another as made in the folder
    for path in [*sent.glob("runs/*/*/*/")]:
        later = path.with_name(f"29990101T000000{path.name[-7:]}")
        shutil.copytree(path, later)
        record = json.loads((later / "result.json").read_text()) | {"attempt": later.name}
        better(record)
        seal(later / "result.json", record)
    code, (row,), said = verify(exported(sent, tmp_path / "out"), "--into", tmp_path / "board")
    assert (code, row["verified"], len(row["attempts"])) == (1, "refused", 5), said


def test_two_seeds_are_too_few_to_differ_and_rank_by_their_fresh_runs(sent, verify, tmp_path):
    other_machine(sent)
    forge(sent, lambda record: better(record, 1.01))
    for path in sorted(sent.glob("runs/*/*/*/"))[2:]:
        shutil.rmtree(path)
    code, (row,), _ = verify(exported(sent, tmp_path / "out"))
    assert (code, row["verified"]) == (0, "run here")
    assert "fewer than 3 sent runs" in row["how"]


@pytest.mark.parametrize("table", ["metric", "run", "attempt", "environment"])
def test_rows_that_are_not_what_the_records_say_are_refused(out, verify, table):
    name, value = {
        "metric": ("value", 0.5), "run": ("steps", 7), "attempt": ("passes", 1.0), "environment": ("cpu", "faster"),
    }[table]  # fmt: skip

    def change(rows):
        import pyarrow as pa

        index = rows.schema.get_field_index(name)
        return rows.set_column(index, rows.schema.field(name), pa.array([value] * len(rows), rows.schema.types[index]))

    alter(out, table, change)
    code, rows, said = verify(out, "--replays", "0")
    assert code == 4, said
    assert {row["refused"] for row in rows} == {f"its row in {table} is not what its records say"}


def test_code_that_is_not_of_its_hash_and_a_key_that_is_not_of_its_parts(sent, out, verify):
    path = next(sent.glob("runs/*/*/*/spec.json"))
    for source in out.glob("source-*.json"):
        record = json.loads(source.read_text())
        record["files"] = dict.fromkeys(record["files"], "import os")
        rewrite(out, source.name, json.dumps(record).encode())

    def lighter(rows):
        kept = rows.to_pylist()
        for row in kept:
            if row["file"] == "spec.json":
                row["content"] = (
                    row["content"].replace('"chains": 1', '"chains": 2').replace('"chains":1', '"chains":2')
                )
        return type(rows).from_pylist(kept, rows.schema)

    alter(out, "document", lighter)
    code, rows, said = verify(out, "--replays", "0")
    assert code == 4, said
    reasons = {row["file"]: row["refused"] for row in rows}
    assert "spec.json is altered" in reasons[path.parent.name]
    assert {why for name, why in reasons.items() if name.startswith("source")} == {
        "the code in it has another hash than its name"
    }
    assert len(reasons) == 5 + len([*out.glob("source-*.json")])


def test_a_board_keeps_what_it_has_of_a_run(sent, verify, tmp_path):
    board, copy = tmp_path / "board", tmp_path / "copy"
    shutil.copytree(sent, copy)
    assert verify(exported(copy, tmp_path / "first"), "--into", board, "--replays", "0")[0] == 0
    forge(sent, better)
    code, rows, _ = verify(exported(sent, tmp_path / "second"), "--into", board, "--replays", "0")
    assert code == 4
    assert {"has this attempt with another result.json" in row["refused"] for row in rows} == {True}


def test_of_two_senders_of_a_run_that_are_verified_at_once_the_first_is_taken(sent, verify, tmp_path, monkeypatch):
    """The second command looks at the board again when the first one has written it."""
    board, other = tmp_path / "board", tmp_path / "copy"
    shutil.copytree(sent, other)
    renamed(other, range(5))
    first, second = exported(sent, tmp_path / "first"), exported(other, tmp_path / "second")
    real, answers = export.alone, []

    def late(folder):
        if not answers:
            answers.append(0)
            answers[0] = verify(first, "--into", board, "--replays", "0")[0]
        return real(folder)

    monkeypatch.setattr(export, "alone", late)
    code, rows, said = verify(second, "--into", board, "--replays", "0")
    assert (answers, code) == ([0], 4), said
    assert all("already, as attempt" in row["refused"] for row in rows), rows


def test_the_rows_and_levels_of_a_board_are_not_replaced_by_less_verified_ones(sent, out, verify, tmp_path, capsys):
    """Somebody sends attempts of others again, with other curves and as of another machine."""
    board, copy = tmp_path / "board", tmp_path / "copy"
    shutil.copytree(sent, copy)
    assert verify(out, "--into", board, "--salt", "abc")[0] == 0
    before = {path.name: path.read_bytes() for path in board.iterdir()}
    other_machine(copy)
    for path in sorted(copy.glob("runs/*/*/*/"))[2:]:
        shutil.rmtree(path)
    later = exported(copy, tmp_path / "second")
    alter(later, "curve_points", smaller)
    assert verify(later, "--into", board, "--salt", "abc")[0] == 0
    assert {path.name: path.read_bytes() for path in board.iterdir()} == before
    assert ranks(board, capsys)["sgld"][:2] == (1, "run here")
    assert verify(board, "--into", board)[0] == 2


def test_a_strangers_code_runs_only_when_asked(home, verify, tmp_path):
    exported(home / "r", tmp_path / "out", *plugin_of(home))
    (home / "ran").unlink(missing_ok=True)
    code, rows, said = verify(tmp_path / "out")
    assert code == 0, said
    assert {row["method"]: row["verified"] for row in rows} == {"leimkuhler-matthews": "reported", "sgld": "run here"}
    assert not (home / "ran").exists()
    code, rows, said = verify(tmp_path / "out", "--execute")
    assert (code, {row["verified"] for row in rows}) == (0, {"run here"}), said
    assert "whose code is executed" in said
    assert (home / "ran").exists()


def test_a_replay_or_a_scoring_that_takes_too_long_leaves_the_row_reported(sent, out, verify):
    code, (row,), _ = verify(out, "--timeout", "0.0001")
    assert (code, row["verified"]) == (0, "reported")
    assert row["how"].endswith("not replayed: it took more than 0.0001 s")
    code, (row,), _ = verify(sent, "--timeout", "0.0001", "--replays", "0")
    assert (code, row["verified"]) == (0, "reported")
    assert "its draws could not be measured: it took more than 0.0001 s" in row["how"]


def test_a_row_whose_fresh_runs_cost_too_much_stays_replayed_and_unranked(out, verify, tmp_path, monkeypatch, capsys):
    real = verifying.call

    def call(function, job, *more, **named):
        if len(job.specs) == 5:
            raise EndedError(-14, f"it took more than {named['seconds']:g} s")
        return real(function, job, *more, **named)

    monkeypatch.setattr(verifying, "call", call)
    words = ("--into", tmp_path / "board", "--timeout", "90s")
    code, (row,), said = verify(out, *words)
    assert (code, row["verified"]) == (0, "replayed"), said
    assert row["how"].endswith("with the same bits; not run on fresh seeds: it took more than 90 s")
    assert ranks(tmp_path / "board", capsys)["sgld"][:2] == (None, "replayed")


@pytest.mark.parametrize("kind", ["nothing", "empty", "no runs", "altered"])
def test_folders_that_are_none(sent, verify, tmp_path, kind):
    folder = tmp_path / "folder"
    if kind != "nothing":
        folder.mkdir()
    if kind == "altered":
        exported(sent, folder)
        next(folder.glob("metric-*")).write_bytes(np.zeros(3).tobytes())
    elif kind == "no runs":
        (folder / "runs").mkdir()
    code, _, said = verify(folder)
    assert code == 4, said
    assert str(folder) in said


def spoil_specs(paths, **changes):
    """Change entries of spec.json that no key contains, with all checksums."""
    for path in paths:
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, **changes}))
        result = json.loads((path.parent / "result.json").read_text())
        files = {**result["files"], "spec.json": hashlib.sha256(path.read_bytes()).hexdigest()}
        seal(path.parent / "result.json", {**result, "files": files})


def made_by(folder, **changes):
    """Environments as of another version of the harness, outside the id of the environment."""
    for path in folder.glob("runs/*/*/*/environment.json"):
        record = json.loads(path.read_text())
        record["code"]["sgmcmc-bench"] |= changes
        path.write_text(json.dumps(record))
        result = json.loads((path.parent / "result.json").read_text())
        result["files"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        seal(path.parent / "result.json", result)


@pytest.mark.parametrize(
    ("changes", "why", "drawn"),
    [
        ({"digest": "f" * 64}, "source ffffffffffff; here", False),
        ({"digest": None}, "source not recorded; here", True),
        ({"before": ["e" * 64]}, ", and in parts another; here", True),
    ],
)
def test_numbers_of_another_version_of_the_harness_are_not_called_false(sent, verify, tmp_path, changes, why, drawn):
    """Code may change numbers without a new version of a metric or of the engine; then the row is honest."""
    forge(sent, better)
    made_by(sent, **changes)
    folder = sent if drawn else exported(sent, tmp_path / "out")
    code, (row,), said = verify(folder)
    assert (code, row["verified"]) == (0, "reported"), (row, said)
    assert row["how"].startswith("not judged, because another version of sgmcmc-bench made the row")
    assert why in row["how"]
    assert ("by its draws" if drawn else "other numbers in the same environment") in row["how"]


def test_another_commit_of_the_harness_with_the_same_bits_is_replayed(sent, verify, tmp_path):
    made_by(sent, digest="f" * 64, commit="1" * 40)
    code, (row,), said = verify(exported(sent, tmp_path / "out"))
    assert (code, row["verified"]) == (0, "run here"), (row, said)


def test_rows_of_another_engine_are_not_replayed_and_not_called_false(sent, verify, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.results.spec.ENGINE", 99)
    code, (row,), said = verify(exported(sent, tmp_path / "out"))
    assert (code, row["verified"]) == (0, "reported"), (row, said)
    assert re.search(r"not replayed: engine was \d+, is now 99.* install that again", row["how"])
    forge(sent, better)
    code, (row,), said = verify(sent)
    assert (code, row["verified"]) == (0, "reported"), (row, said)
    assert re.search(r"not judged, because the row was made by engine \d+, and here is engine 99: ", row["how"])


def measured_again(folder):
    """Reports show the metrics of rescored.json, so a replay has to compare these."""
    for attempt in map(Attempt, folder.glob("runs/*/*/*/")):
        record = attempt.result()
        better(record)
        metrics = record["metrics"]
        rescored_record.write(attempt, metrics, load_file(attempt.path / "curves.safetensors"), {})


def honest(_):
    """Nothing is changed."""


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (lambda folder: forge(folder, better), honest, "other numbers in the same environment"),
        (honest, lambda out: alter(out, "curve_points", smaller), "curve"),
        (measured_again, honest, "other numbers in the same environment: metric"),
    ],
    ids=["result.json", "a curve", "rescored.json"],
)
def test_forged_numbers_are_found_by_a_replay_and_not_taken_in(sent, verify, tmp_path, before, after, reason):
    """They are forged before the export or in it."""
    before(sent)
    out = exported(sent, tmp_path / "out")
    after(out)
    code, (row,), said = verify(out, "--into", tmp_path / "board")
    assert (code, row["verified"]) == (1, "refused"), (row, said)
    assert reason in row["how"]
    assert not [*(tmp_path / "board").glob("attempt*")]


def test_honest_metrics_of_bench_rescore_are_replayed(sent, verify, tmp_path):
    name = json.loads(next(sent.glob("runs/*/*/*/result.json")).read_text())["metrics"][0]["name"]
    assert bench(sent, "rescore", "--metric", name) == 0
    assert [*sent.glob("runs/*/*/*/rescored.json")]
    code, (row,), said = verify(exported(sent, tmp_path / "out"))
    assert (code, row["verified"]) == (0, "run here"), (row, said)
    assert "same bits" in row["how"]


def test_rows_cannot_be_put_into_the_group_of_others(sent, verify, tmp_path):
    """A row is a group: a forged run must not choose its group."""
    spoil_specs(sent.glob("runs/*/*/*/spec.json"), group="0" * 64)
    for folder in (exported(sent, tmp_path / "out"), sent):
        code, rows, said = verify(folder, "--replays", "0")
        assert code == 4, said
        assert {"parts do not match the run's group" in row["refused"] for row in rows} == {True}


@pytest.mark.parametrize(
    ("what", "value", "code", "level"),
    [("direction", "max", 1, "refused"), ("unit", "better", 1, "refused"), ("version", 99, 0, "reported")],
)
def test_metrics_are_described_as_the_task_does(sent, verify, tmp_path, what, value, code, level):
    forge(sent, lambda record: [metric.update({what: value}) for metric in record["metrics"]])
    for folder, words in ((exported(sent, tmp_path / "out"), ()), (sent, ("--replays", "0"))):
        exit_code, (row,), said = verify(folder, *words)
        assert (exit_code, row["verified"]) == (code, level), (row, said)
        assert what in row["how"]


def test_a_row_is_rescored_if_all_its_runs_are(sent, verify):
    """Also of a protocol whose rows rank from rescored on, of which the other runs may say anything."""
    for path in sorted(sent.glob("runs/*/*/*/draws.safetensors"))[1:]:
        path.unlink()
    code, (row,), said = verify(sent, "--replays", "0")
    assert (code, row["verified"]) == (0, "reported"), said
    assert "1 of 5 runs" in row["how"]


def test_the_labels_of_all_runs_of_a_row_are_checked(sent, verify, tmp_path):
    """The sender cannot know which run is repeated, and a row is named after any of them."""
    *_, last = sorted(path.name for path in sent.glob("runs/*/*"))
    for path in sorted(sent.glob("runs/*/*/*/spec.json")):
        copy = tmp_path / path.parents[1].name[:8]
        shutil.copytree(sent, copy)
        label = {"budget": "paper"} if path.parents[1].name == last else {"method": "psgld"}
        spoil_specs([copy / path.relative_to(sent)], **label)
        code, (row,), _ = verify(exported(copy, tmp_path / f"{copy.name}-out"), "--salt", "abc")
        assert (code, row["verified"]) == (0, "reported")
        assert "gives another run" in row["how"]


def test_truths_that_were_computed_there_are_named_and_not_refused(sent, verify, tmp_path):
    forge(sent, lambda record: record.update(truth="0" * 64))
    (sent / "truths").mkdir()
    (sent / "truths" / "a-0123.json").write_text(json.dumps(sealed({"mean": [0.0]})))
    for folder in (sent, exported(sent, tmp_path / "out")):
        code, (row,), said = verify(folder)
        assert (code, row["verified"]) == (0, "reported"), said
        assert "metrics of 5 attempts were computed with a truth" in said
    (sent / "truths" / "a-0123.json").write_text(json.dumps({**sealed({"mean": [0.0]}), "mean": [1.0]}))
    code, rows, _ = verify(sent, "--replays", "0")
    assert code == 4
    assert rows[-1] == {"file": "truths/a-0123.json", "refused": "is damaged: its checksum does not match"}


def test_a_reported_row_does_not_decide_how_others_rank(home, out, tmp_path, capsys):
    shutil.copytree(home / "r", tmp_path / "other", ignore=shutil.ignore_patterns("results.duckdb*", "locks"))
    for path in (tmp_path / "other" / "runs").glob("*/*/*/spec.json"):
        if json.loads(path.read_text())["method"] == "sgld":
            shutil.rmtree(path.parents[1])
    forge(tmp_path / "other", lambda record: [metric.update(version=99) for metric in record["metrics"]])
    exported(exported(tmp_path / "other", tmp_path / "forged", *plugin_of(home)), out)
    ranked = ranks(out, capsys)
    assert ranked["sgld"][:2] == (1, "run here")
    assert ranked["leimkuhler-matthews"][:2] == (None, "reported")


def test_an_unknown_level_is_none(out, capsys):

    def gold(rows):
        return type(rows).from_pylist([{**row, "level": "gold"} for row in rows.to_pylist()], rows.schema)

    alter(out, "verification", gold)
    assert ranks(out, capsys)["sgld"][:2] == (None, "reported")


@pytest.mark.parametrize(("name", "text"), [("origins", "x"), ("origins", '{"a": 1}'), ("task_params", "[1]")])
def test_records_that_are_none_are_named_with_their_folder(out, capsys, name, text):

    def other(rows):
        return type(rows).from_pylist([{**row, name: text} for row in rows.to_pylist()], rows.schema)

    alter(out, "run", other)
    assert bench(out, "report", "leaderboard") == 4
    assert f"{out} is not a complete set of published results: a file of run cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["２0260102T030405000-abcdef", f"20260102T{'0' * 5000}-abcdef"])
def test_names_of_attempts_are_ascii_and_short(out, verify, name):

    def renamed(rows):
        (first, *_), old = rows["attempt"].to_pylist(), rows.to_pylist()
        new = [
            {n: v.replace(first, name) if isinstance(v, str) else v for n, v in row.items()}
            if first in str(row)
            else row
            for row in old
        ]
        return type(rows).from_pylist(new, rows.schema)

    alter(out, "attempt", renamed)
    code, rows, said = verify(out, "--replays", "0")
    assert code == 4, said
    assert "internal error" not in said
    assert any("names another attempt" in row.get("refused", "") for row in rows)


def test_texts_that_stand_there_often_are_not_written_out(out, verify):
    """A dictionary makes gigabytes of equal texts a small file, whose header states the size of the dictionary."""
    import pyarrow as pa

    def bomb(_rows):
        count = 200_000
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["x" * 2**16]))
        return pa.table({"attempt": pa.array(["a"] * count), "file": pa.array(["spec.json"] * count), "content": texts})

    alter(out, "document", bomb)
    assert next(out.glob("document-*")).stat().st_size < 2**20
    code, _, said = verify(out)
    assert code == 4
    assert "at most 8,589,934,592 are read" in said


def steps(job):
    """The commands of a job in the workflow file, without the installation."""
    text = (ROOT / "docs" / "examples" / "leaderboard.yml").read_text()
    (body,) = re.findall(rf"^  {job}:\n(.*?)(?=^  \w|\Z)", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for block in re.findall(r"run: \|\n((?: {10}.*\n)+)", body)]


@pytest.mark.slow
def test_the_workflow_checks_a_request_and_takes_in_what_was_merged(sent, tmp_path, capsys):
    repository, remote = tmp_path / "repository", tmp_path / "remote.git"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q", "--bare", remote], check=True)
    subprocess.run([*git, "clone", "-q", remote, repository], check=True, capture_output=True)
    repository.joinpath("README").touch()
    told = {**os.environ, "GITHUB_SHA": "4f2a9c1"}

    def commit(message, *paths):
        for path in paths:
            path.parent.mkdir(exist_ok=True)
            path.write_text("")
        subprocess.run([*git, "add", "."], check=True, cwd=repository)
        subprocess.run([*git, "commit", "-qm", message], check=True, cwd=repository)

    def step(text):
        return subprocess.run(["bash", "-e", "-c", text], check=False, cwd=repository, env=told, capture_output=True)

    commit("first")
    subprocess.run([*git, "push", "-q", "-u", "origin", "main"], check=True, cwd=repository, capture_output=True)
    exported(sent, repository / "submissions" / "somebody")
    commit("submission")
    commit("another merge before the job began", repository / "unrelated")
    subprocess.run([*git, "push", "-q"], check=True, cwd=repository, capture_output=True)
    assert [len(steps(job)) for job in ("check", "board")] == [2, 3]
    assert b"may only change" in step(steps("check")[0]).stdout
    subprocess.run([*git, "checkout", "-q", "HEAD^"], check=True, cwd=repository)
    assert [step(text).returncode for text in steps("check")] == [0, 0]
    subprocess.run([*git, "checkout", "-q", "main"], check=True, cwd=repository)
    for text in steps("board"):
        answer = step(text)
        assert answer.returncode == 0, answer.stderr
    assert b"taken into" not in step(steps("board")[0]).stderr, "nothing is verified twice"
    assert ranks(repository / "board", capsys)["sgld"][:2] == (1, "run here")
    assert any("sgld" in page.read_text() for page in (repository / "public").rglob("*.html"))
    listed = ["git", "ls-tree", "-r", "--name-only", "main"]
    files = subprocess.run(listed, check=True, cwd=remote, capture_output=True, text=True)
    assert "board/manifest.json" in files.stdout


def renamed(folder, seeds, change=lambda _: None):
    """The same runs as attempts of somebody else, with other numbers."""
    for i, path in enumerate(sorted(folder.glob("runs/*/*/*/"))):
        if json.loads((path / "spec.json").read_text())["seed"] not in seeds:
            shutil.rmtree(path.parent)
            continue
        new = path.rename(path.with_name(f"{path.name[:-6]}{i:06x}"))
        record = json.loads((new / "result.json").read_text()) | {"attempt": new.name}
        change(record)
        seal(new / "result.json", record)


@pytest.mark.slow
def test_a_run_that_somebody_reports_stays_open_to_whoever_can_show_it(sent, verify, tmp_path, capsys):
    """Forged numbers, sent first for a run, neither keep the true ones away nor count once these are verified."""
    board, forged = tmp_path / "board", tmp_path / "copy"
    shutil.copytree(sent, forged)
    renamed(forged, range(5), better)
    first = exported(forged, tmp_path / "first")
    assert verify(first, "--into", board, "--replays", "0")[0] == 0
    assert ranks(board, capsys)["sgld"][:2] == (None, "reported")
    out = exported(sent, tmp_path / "second")
    code, rows, _ = verify(out, "--into", board, "--replays", "0")
    assert (code, {"already, as attempt" in row["refused"] for row in rows}) == (4, {True})
    code, (row,), said = verify(out, "--into", board)
    assert (code, row["verified"]) == (0, "run here"), said
    assert ranks(board, capsys)["sgld"][:2] == (1, "run here")
    query = "select distinct level from result join verification using (attempt) order by level"
    assert bench(board, "sql", query) == 0
    assert json.loads(capsys.readouterr().out) == [{"level": "replayed"}, {"level": "run here"}]
    assert verify(first, "--into", board)[0] == 4


def test_a_seed_that_nobody_verified_does_not_lower_its_row(sent, verify, tmp_path, capsys):
    board, more = tmp_path / "board", tmp_path / "more"
    shutil.copytree(sent, more)
    renamed(more, [4], better)
    renamed(sent, range(4))
    assert verify(exported(sent, tmp_path / "first"), "--into", board)[0] == 0
    code, _, said = verify(exported(more, tmp_path / "second"), "--into", board, "--replays", "0")
    assert code == 0, said
    capsys.readouterr()
    assert bench(board, "report", "leaderboard") == 0
    assert {(row["verified"], row["seeds"]) for row in json.loads(capsys.readouterr().out)} == {("run here", 5)}


PLUGIN = """
import os, time
from dataclasses import dataclass
from harness import Info, hook
from tasks.synthetic.mixture5 import Mixture5

@hook
def bench_tasks():
    return [Info("slow-to-build", "slow_to_build:Slow", "a task whose build can take for ever")]

@dataclass(frozen=True, kw_only=True)
class Slow(Mixture5):
    def build(self, *arguments, **more):
        if os.environ.get("SLOW_BUILD"):
            time.sleep(1000)
        return super().build(*arguments, **more)
"""


@pytest.mark.slow
def test_the_time_limit_covers_the_building_of_the_task(tmp_path):
    (tmp_path / "slow_to_build.py").write_text(PLUGIN)
    words = ["--plugin", "slow_to_build.py", "--results", "theirs"]
    asked = ["--sampler", "sgld", "--task", "slow-to-build", "--budget", "steps=50", "--draws", "none"]
    first = in_a_process([*words, "run", *asked, "--seeds", "0", "--set", "schedule.step_size=0.01"], tmp_path)
    assert first.returncode == 0, first.stderr
    began = time.monotonic()
    done = in_a_process([*words, "--json", "verify", "theirs", "--timeout", "3s"], tmp_path, SLOW_BUILD="1")
    assert time.monotonic() - began < 60
    (row,) = json.loads(done.stdout)
    assert row["how"] == "not replayed: it took more than 3 s", done.stderr
    assert row["verified"] == "reported"


def test_a_record_beyond_the_limits_is_not_run(tmp_path, capsys):
    """With this many chains, the worker's memory grew until it was killed."""
    words = ["--sampler", "sgld", "--task", "mixture5", "--budget", "steps=50", "--seeds", "0", "--draws", "none"]
    assert run(["--results", str(tmp_path / "theirs"), "run", *words]) == 0
    (spec,) = tmp_path.glob("theirs/runs/*/*/*/spec.json")
    record = json.loads(spec.read_text()) | {"chains": 10**9}
    record |= {"key": recorded_key(record), "group": recorded_key(record, "seed")}
    spec.write_text(json.dumps(record))
    result = json.loads((spec.parent / "result.json").read_text())
    result["key"] = record["key"]
    result["files"].pop("spec.json", None)
    result.pop("sha256", None)
    (spec.parent / "result.json").write_text(json.dumps(result))
    key = record["key"]
    (tmp_path / "forged/runs" / key[:2] / key).mkdir(parents=True)
    spec.parent.rename(tmp_path / "forged/runs" / key[:2] / key / spec.parent.name)
    capsys.readouterr()
    assert (
        run(["--results", str(tmp_path / "mine"), "--json", "verify", str(tmp_path / "forged"), "--timeout", "15s"])
        == 4
    )
    said = "".join(capsys.readouterr())
    assert "chains = 1000000000 is more than 100,000" in said
    assert len(said) < 2000


def test_a_board_ranks_a_row_after_its_owner_has_run_the_laws(out, verify, tmp_path, capsys):
    board = tmp_path / "board"
    assert verify(out, "--into", board)[0] == 0
    assert ranks(board, capsys)["sgld"][0] == 1

    def forget(rows):
        import pyarrow as pa

        at = rows.schema.get_field_index("laws")
        return rows.set_column(at, rows.schema.field("laws"), pa.array([""] * len(rows), rows.schema.types[at]))

    alter(board, "verification", forget)
    assert ranks(board, capsys)["sgld"][0] is None
