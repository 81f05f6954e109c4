import hashlib
import json
import sys

import pytest

from harness import Bench
from harness.cli.app import run
from harness.contracts.registry import registry
from harness.engine.stepping.execution_mode import obstacle
from plugins.inspection import doctor


def test_the_built_in_plugins_have_no_fault(capsys):
    assert run(["plugins", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    ours = [row for row in rows if row["distribution"] == "sgmcmc-bench"]
    assert {row["plugin"] for row in ours} >= {"samplers", "schedules", "methods", "papers", "tasks"}
    assert [(row["plugin"], row["problems"]) for row in ours if row["problems"]] == []


def test_doctor_names_a_results_folder_that_is_a_file(tmp_path, capsys):
    file = tmp_path / "results"
    file.write_text("")
    assert run(["--results", str(file), "doctor", "--json"]) == 1
    rows = {row["check"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["results folder"]["state"] == "problem"
    assert "--results" in rows["results folder"]["what to do"]
    assert rows["torch"]["state"] == "ok"
    assert rows["duckdb"]["state"] == "ok"
    assert "C++ compiler" in rows


def test_doctor_names_a_version_that_is_too_old():
    from packaging.requirements import Requirement

    assert doctor._version("duckdb", Requirement("duckdb>=1.0"))[1] == "ok"
    name, state, _, remedy = doctor._version("duckdb", Requirement("duckdb>=99"))
    assert (name, state, remedy) == ("duckdb", "problem", "pip install 'duckdb>=99'")
    assert doctor._version("a_module_that_is_not_there", None)[1] == "problem"


def test_doctor_says_which_compiler_is_used_or_that_none_is(tmp_path, monkeypatch):
    if obstacle() is None:
        what, state, described, remedy = next(doctor._compiler())
        assert (what, state, "version" in described, remedy) == ("C++ compiler", "ok", True, "")
    compiler = tmp_path / "my-c++"
    compiler.touch(mode=0o700)
    for named in (str(compiler), "no-such-compiler"):
        monkeypatch.setenv("CXX", named)
        _, state, described, _ = next(doctor._compiler())
        assert (state, named in described) == ("warning", True)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    _, state, described, remedy = next(doctor._compiler())
    assert (state, "long runs are not compiled" in described, "g++" in remedy) == ("warning", True, True)


def test_doctor_asks_for_no_version_that_only_an_extra_wants(monkeypatch):
    lines = ["duckdb>=1", 'duckdb<1; extra == "notebook"', 'duckdb<1; python_version < "3.9"']
    monkeypatch.setattr("importlib.metadata.requires", lambda _: lines)
    assert {name: state for name, state, *_ in doctor._versions()}["duckdb"] == "ok"


@pytest.fixture
def data_root(tmp_path, monkeypatch):
    """A task whose data set is one small file, and an empty data root."""
    root = tmp_path / "data"
    root.mkdir()
    monkeypatch.setenv("BENCH_DATA", str(root))
    source = (
        "from dataclasses import dataclass\nfrom typing import ClassVar\n"
        "from harness import Info, hook\nfrom harness.tasks import DataFile, Task\n"
        f"FILE = DataFile('small', 'small.txt', '{hashlib.sha256(b'12345').hexdigest()}', 5, ())\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Small(Task):\n    datasets: ClassVar = (FILE,)\n"
        "@hook\ndef bench_tasks():\n    return [Info('small-task', 'small_plugin:Small')]\n"
    )
    (tmp_path / "small_plugin.py").write_text(source)
    registry.cache_clear()
    yield root
    registry.cache_clear()
    sys.modules.pop("small_plugin", None)


@pytest.mark.parametrize(
    ("content", "listed", "verified", "code"),
    [
        (None, "missing", "missing", 4),
        (b"123", "size is 3, not 5", "truncated (3 of 5 bytes)", 4),
        (b"12346", "present", "altered", 4),
        (b"12345", "present", "ok", 0),
    ],
)
def test_data_ls_and_verify(data_root, capsys, content, listed, verified, code):
    if content is not None:
        (data_root / "small.txt").write_bytes(content)
    plugin = ["--plugin", str(data_root.parent / "small_plugin.py")]
    assert run([*plugin, "data", "ls", "--json"]) == 0
    row = next(r for r in json.loads(capsys.readouterr().out) if r["dataset"] == "small")
    assert (row["status"], row["tasks"]) == (listed, "small-task")
    for name in ("small", "small-task"):
        assert run([*plugin, "data", "verify", name, "--json"]) == code
        (row,) = json.loads(capsys.readouterr().out)
        assert row["status"].startswith(verified)
    assert run([*plugin, "data", "fetch", "small", "--json"]) == code  # it has no address to fetch from


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("content", [None, b"123", b"12346", b"12345"])
def test_doctor_has_one_row_for_data_and_warns_of_damage_and_of_a_folder_that_was_named(
    data_root, monkeypatch, content, named
):
    if content is not None:
        (data_root / "small.txt").write_bytes(content)
    if not named:
        monkeypatch.delenv("BENCH_DATA")
        monkeypatch.setattr("plugins.inspection.doctor.files.data_root", lambda: data_root)
    bench = Bench(plugins=[data_root.parent / "small_plugin.py"])
    (total, state, said, remedy), *damaged = doctor._data(bench)
    assert (total, state) == ("data sets", "warning" if named else "ok")  # the others are not there
    assert "mnist" in said
    assert ("small" in said.partition("; not there: ")[2].split(", ")) == (content is None)
    assert "bench data fetch" in remedy
    assert [name for name, *_ in damaged] == (["data set small"] if content in (b"123", b"12346") else [])
    assert all(row[1] == "warning" for row in damaged)


def test_a_data_file_is_listed_once_for_all_its_tasks(capsys):
    assert run(["data", "ls", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len({(row["dataset"], row["path"]) for row in rows}) == len(rows)
