"""`bench verify`: honest results become replayed, forged ones are refused, and nothing of a stranger's is executed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.cli.app import run
from harness.system.files import SEAL, sealed

ROOT = Path(__file__).parents[3]
TASK = ["--task", "gaussian2d", "--budget", "smoke", "--seeds", "0-4"]


def bench(results, *words):
    return run(["--results", str(results), "--json", *map(str, words)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    sampler = re.search(r"```python\n(# my_sampler.py.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    sampler = sampler.replace("my_sampler", "sent_sampler")  # this process knows the module from now on
    (folder / "sent_sampler.py").write_text(f"open({str(folder / 'ran')!r}, 'a').close()\n{sampler}")
    words = ["run", "--sampler", "sgld,leimkuhler-matthews", *TASK]
    assert run(["--results", str(folder / "r"), "--plugin", str(folder / "sent_sampler.py"), *words]) == 0
    (folder / "ran").unlink()
    return folder


@pytest.fixture
def sent(made, tmp_path):
    """A results folder of one row, as somebody sends it."""
    shutil.copytree(made / "r", tmp_path / "sent", ignore=shutil.ignore_patterns("results.duckdb*", "locks"))
    for path in (tmp_path / "sent" / "runs").glob("*/*/*/spec.json"):
        if json.loads(path.read_text())["method"] != "sgld":
            shutil.rmtree(path.parents[1])
    return tmp_path / "sent"


@pytest.fixture
def verify(tmp_path, capsys):
    def command(folder, *words):
        capsys.readouterr()
        code = bench(tmp_path / "mine", "verify", folder, *words)
        said = capsys.readouterr()
        return code, json.loads(said.out or "[]"), said.err

    return command


def exported(folder, out):
    assert bench(folder, "export", "--out", out) == 0
    return out


def forge(folder, change):
    """Change result.json of each attempt, with its checksum: anybody can compute that."""
    for path in folder.glob("runs/*/*/*/result.json"):
        record = json.loads(path.read_text())
        change(record)
        seal(path, record)


def seal(path, record):
    path.write_text(json.dumps(sealed({name: value for name, value in record.items() if name != SEAL})))


def better(record, factor=0.1):
    for metric in record["metrics"]:
        metric["value"] = metric["value"] and metric["value"] * factor


def alter(folder, table, change):
    """Change a table of an exported folder, and the manifest as its owner can."""
    (path,) = folder.glob(f"{table}-*.parquet")
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


def test_rows_from_elsewhere_rank_from_replayed_on(sent, verify, tmp_path, capsys):
    out = exported(sent, tmp_path / "out")
    assert ranks(out, capsys)["sgld"][:2] == (1, "run here")
    board = exported(out, tmp_path / "board")  # what somebody says of himself is not taken over
    rank, level, status = ranks(board, capsys)["sgld"]
    assert (rank, level) == (None, "reported")
    assert status.startswith("reported: ")
    code, (row,), said = verify(out, "--into", board, "--salt", "abc")
    assert code == 0, said
    assert (row["verified"], row["seeds"]) == ("replayed", "0-4")
    assert "same bits" in row["how"]
    assert ranks(board, capsys)["sgld"][:2] == (1, "replayed")
    assert verify(out, "--salt", "abc")[1] == [row], "the salt chooses the runs"
    before = sorted(path.name for path in board.iterdir())
    assert verify(out, "--into", board, "--salt", "abc")[0] == 0
    assert sorted(path.name for path in board.iterdir()) == before
    capsys.readouterr()
    assert bench(board, "sql", "select distinct level, salt from verification") == 0
    assert json.loads(capsys.readouterr().out) == [{"level": "replayed", "salt": "abc"}]


def test_kept_draws_are_scored_again(sent, verify):
    code, (row,), said = verify(sent, "--replays", "0")
    assert (code, row["verified"]) == (0, "rescored"), said
    assert "5 of 5 runs" in row["how"]
    forge(sent, better)
    code, (row,), _ = verify(sent, "--replays", "0")
    assert (code, row["verified"]) == (1, "refused")
    assert "by its draws" in row["how"]


def test_forged_numbers_are_found_by_a_replay_and_not_taken_in(sent, verify, tmp_path):
    forge(sent, better)
    out = exported(sent, tmp_path / "out")
    code, (row,), said = verify(out, "--into", tmp_path / "board")
    assert (code, row["verified"]) == (1, "refused"), said
    assert "other numbers in the same environment" in row["how"]
    assert not [*(tmp_path / "board").glob("attempt*")]


def test_a_forged_curve_is_found_by_a_replay(sent, verify, tmp_path):
    out = exported(sent, tmp_path / "out")

    def smaller(rows):
        kept = rows.to_pylist()
        for row in kept:
            row["y"] = [y if y is None else y / 2 for y in row["y"]]
        return type(rows).from_pylist(kept, rows.schema)

    alter(out, "curve_points", smaller)
    code, (row,), _ = verify(out)
    assert (code, row["verified"]) == (1, "refused")
    assert "curve" in row["how"]


def other_machine(folder):
    """Environments as of another processor; their attempts name them by checksum, and so does nothing else."""
    for path in folder.glob("runs/*/*/*/environment.json"):
        record = json.loads(path.read_text())
        record = {**{n: v for n, v in record.items() if n != "id"}, "cpu": "another processor"}
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        path.write_text(json.dumps({"id": hashlib.sha256(text.encode()).hexdigest(), **record}))


@pytest.mark.parametrize(("factor", "level"), [(1 + 1e-9, "replayed"), (1e-4, "refused")])
def test_of_another_machine_the_numbers_need_the_same_mean(sent, verify, tmp_path, factor, level):
    other_machine(sent)
    forge(sent, lambda record: better(record, factor))
    code, (row,), _ = verify(exported(sent, tmp_path / "out"), "--replays", "3")
    assert (code, row["verified"]) == (int(level == "refused"), level), row
    assert "on another machine" in row["how"]
    assert "Holm" in row["how"]


def test_a_forged_cost_of_another_machine_is_found(sent, verify, tmp_path):
    other_machine(sent)
    forge(sent, lambda record: record.update(passes=record["passes"] / 10))
    code, (row,), _ = verify(exported(sent, tmp_path / "out"))
    assert (code, row["verified"]) == (1, "refused")
    assert "another passes" in row["how"]


@pytest.mark.parametrize(("label", "value"), [("budget", "paper"), ("method", "psgld")])
def test_a_label_that_does_not_give_the_run_is_not_ranked(sent, verify, tmp_path, label, value):
    for path in sent.glob("runs/*/*/*/spec.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, label: value}))
        result = json.loads((path.parent / "result.json").read_text())
        files = {**result["files"], "spec.json": hashlib.sha256(path.read_bytes()).hexdigest()}
        seal(path.parent / "result.json", {**result, "files": files})
    code, (row,), said = verify(exported(sent, tmp_path / "out"))
    assert (code, row["verified"]) == (0, "reported"), said
    assert "gives another run" in row["how"]


def test_of_several_attempts_the_one_that_counts_is_verified(sent, verify, tmp_path):
    for path in [*sent.glob("runs/*/*/*")]:
        later = path.with_name(f"29990101T000000{path.name[-7:]}")
        shutil.copytree(path, later)
        record = json.loads((later / "result.json").read_text()) | {"attempt": later.name}
        better(record)
        seal(later / "result.json", record)
    code, (row,), said = verify(exported(sent, tmp_path / "out"), "--into", tmp_path / "board")
    assert (code, row["verified"], len(row["attempts"])) == (1, "refused", 5), said


def test_two_seeds_of_another_machine_stay_reported(sent, verify, tmp_path):
    other_machine(sent)
    forge(sent, lambda record: better(record, 1.01))
    for path in sorted(sent.glob("runs/*/*/*"))[2:]:
        shutil.rmtree(path)
    code, (row,), _ = verify(exported(sent, tmp_path / "out"))
    assert (code, row["verified"]) == (0, "reported")
    assert "fewer than three" in row["how"]


@pytest.mark.parametrize("table", ["metric", "run", "attempt", "environment"])
def test_rows_that_are_not_what_the_records_say_are_refused(sent, verify, tmp_path, table):
    out = exported(sent, tmp_path / "out")
    name, value = {
        "metric": ("value", 0.5), "run": ("steps", 7), "attempt": ("passes", 1.0), "environment": ("cpu", "faster"),
    }[table]  # fmt: skip

    def change(rows):
        import pyarrow as pa

        place = rows.schema.get_field_index(name)
        return rows.set_column(place, rows.schema.field(name), pa.array([value] * len(rows), rows.schema.types[place]))

    alter(out, table, change)
    code, rows, said = verify(out, "--replays", "0")
    assert code == 4, said
    assert {row["refused"] for row in rows} == {f"its row in {table} is not what its records say"}


def test_code_that_is_not_of_its_hash_and_a_key_that_is_not_of_its_parts(sent, verify, tmp_path):
    path = next(sent.glob("runs/*/*/*/spec.json"))
    out = exported(sent, tmp_path / "out")
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
    board, own = tmp_path / "board", tmp_path / "copy"
    shutil.copytree(sent, own)
    assert verify(exported(own, tmp_path / "first"), "--into", board, "--replays", "0")[0] == 0
    forge(sent, better)
    code, rows, _ = verify(exported(sent, tmp_path / "second"), "--into", board, "--replays", "0")
    assert code == 4
    assert {"has this attempt with another result.json" in row["refused"] for row in rows} == {True}
    for i, path in enumerate([*sent.glob("runs/*/*/*")]):
        new = path.rename(path.with_name(f"{path.name[:-6]}{i:06x}"))
        record = json.loads((new / "result.json").read_text()) | {"attempt": new.name}
        seal(new / "result.json", record)
    (sent / "results.duckdb").unlink()
    code, rows, said = verify(exported(sent, tmp_path / "third"), "--into", board, "--replays", "0")
    assert code == 4
    assert len(rows) == 5, said
    assert all("already, as attempt" in row["refused"] for row in rows), rows


def test_a_strangers_code_runs_only_when_asked(made, verify, tmp_path):
    words = ["bench", "--results", str(made / "r"), "--plugin", str(made / "sent_sampler.py")]
    subprocess.run([*words, "export", "--out", tmp_path / "out"], check=True)
    (made / "ran").unlink(missing_ok=True)
    code, rows, said = verify(tmp_path / "out")
    assert code == 0, said
    assert {row["method"]: row["verified"] for row in rows} == {"leimkuhler-matthews": "reported", "sgld": "replayed"}
    assert not (made / "ran").exists()
    answer = subprocess.run(
        ["bench", "--json", "verify", tmp_path / "out", "--execute"],
        check=True, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert {row["verified"] for row in json.loads(answer.stdout)} == {"replayed"}
    assert "whose code is executed" in answer.stderr
    assert (made / "ran").exists()


def test_a_replay_that_takes_too_long_leaves_the_row_reported(sent, verify, tmp_path):
    code, (row,), _ = verify(exported(sent, tmp_path / "out"), "--timeout", "0.0001")
    assert (code, row["verified"]) == (0, "reported")
    assert "timeout" in row["how"]


def test_a_table_that_states_a_huge_size_is_not_read(sent, verify, tmp_path, monkeypatch):
    from harness.results.store import published

    out = exported(sent, tmp_path / "out")
    monkeypatch.setattr(published, "MOST_BYTES", 100)
    code, _, said = verify(out)
    assert code == 4
    assert "at most 100 are read" in said


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


def steps(job):
    """The commands of a job in the workflow file, without the installation."""
    text = (ROOT / "docs" / "examples" / "leaderboard.yml").read_text()
    (body,) = re.findall(rf"^  {job}:\n(.*?)(?=^  \w|\Z)", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for block in re.findall(r"run: \|\n((?: {10}.*\n)+)", body)]


def test_the_workflow_checks_a_request_and_takes_in_what_was_merged(sent, tmp_path, capsys):
    repository, remote = tmp_path / "repository", tmp_path / "remote.git"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q", "--bare", remote], check=True)
    subprocess.run([*git, "clone", "-q", remote, repository], check=True, capture_output=True)
    repository.joinpath("README").touch()
    for message in ("first", "submission"):
        if message == "submission":
            exported(sent, repository / "submissions" / "somebody")
        subprocess.run([*git, "add", "."], check=True, cwd=repository)
        subprocess.run([*git, "commit", "-qm", message], check=True, cwd=repository)
    told = {**os.environ, "GITHUB_SHA": "4f2a9c1"}
    for job, count in (("check", 1), ("board", 3)):
        assert len(steps(job)) == count
        for step in steps(job):
            subprocess.run(["bash", "-e", "-c", step], check=True, cwd=repository, env=told, capture_output=True)
    assert ranks(repository / "board", capsys)["sgld"][:2] == (1, "replayed")
    assert any("replayed" in page.read_text() for page in (repository / "public").rglob("*.html"))
    listed = ["git", "ls-tree", "-r", "--name-only", "main"]
    files = subprocess.run(listed, check=True, cwd=remote, capture_output=True, text=True)
    assert "board/manifest.json" in files.stdout
