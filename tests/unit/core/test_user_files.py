"""A setting that names a file is identified by the content of the file, and its path is in no record."""

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import bench as bench_in

from harness import UsageError
from harness.cli.app import run
from harness.contracts import user_files
from harness.contracts.parameters import Configurable, param, schema
from harness.contracts.registry import registry
from harness.runs import plugin_metadata
from harness.system.errors import DataError

PLUGIN = '''
from dataclasses import dataclass
from pathlib import Path
import numpy as np
from harness import Info, Sampler, Schedule, hook, param
from harness.tasks import DensityTask, MOMENT_METRICS, Protocol, Truth
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant


def number(file):
    return float(Path(file).read_text())


@dataclass(frozen=True, kw_only=True)
class Well(DensityTask):
    """U = k theta^2 / 2 in one dimension, k from a file."""

    metrics = MOMENT_METRICS
    protocols = (Protocol("default", "ours", {"smoke": 200, "quick": 400, "paper": 800}, chains=2, seeds=(0,)),)
    file: str = param(meaning="the file with k", source="ours", kind="file")

    def dim(self):
        return 1

    def curvature(self):
        return number(self.file)

    def energy(self, theta):
        return self.curvature() * theta.square().sum(1) / 2

    def truth(self):
        return Truth.normal(mean=np.zeros(1), covariance=np.eye(1) / self.curvature())


@dataclass(frozen=True, kw_only=True)
class Filed(SGLD):
    """SGLD whose noise is scaled by a number in a file."""

    scale: str | None = param(None, meaning="the file with the scale", source="ours", kind="file")

    def step(self, theta, state, potential, h, T, noise):
        factor = number(self.scale) if self.scale else 1.0
        return super().step(theta, state, potential, h, factor * T, noise)


@dataclass(frozen=True, kw_only=True)
class FromFile(Constant):
    """A constant step size times a number in a file."""

    factor: str | None = param(None, meaning="the file with the factor", source="ours", kind="file")

    def trajectory(self, steps, steps_per_epoch):
        import dataclasses

        made = super().trajectory(steps, steps_per_epoch)
        return dataclasses.replace(made, step_size=made.step_size * (number(self.factor) if self.factor else 1.0))


@dataclass(frozen=True, kw_only=True)
class Careless(Well):
    """The same, but it reads a file that it does not declare."""

    file: str | None = param(None, meaning="a file that is not read", source="ours", kind="file")
    text: str = param("k.txt", meaning="the file with k", source="ours")

    def curvature(self):
        return number(self.text)


@dataclass(frozen=True, kw_only=True)
class Second(Well):
    """The same, and its file is another one."""

    file: str = param("j.txt", meaning="the file with k", source="ours", kind="file")


@dataclass(frozen=True, kw_only=True)
class Early(Second):
    """The same, and when it is made it reads a file that it does not declare."""

    def __post_init__(self):
        super().__post_init__()
        number("k.txt")


@hook
def bench_tasks():
    return [
        Info("well", "filed:Well", "k from a file"),
        Info("careless", "filed:Careless", "k from text"),
        Info("second", "filed:Second", "k from a file"),
        Info("early", "filed:Early", "k from a file, and more"),
    ]


@hook
def bench_samplers():
    return [Info("filed", "filed:Filed", "scaled noise")]


@hook
def bench_schedules():
    return [Info("from-file", "filed:FromFile", "scaled steps")]
'''
RUN = ["run", "--sampler", "sgld", "--task", "well", "--budget", "smoke", "--set"]


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """`bench --json WORDS` in a folder with the plugin and k.txt: the exit code, the records, and stderr.

    Each command knows as little of files as one in a process of its own.
    """
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "filed.py").write_text(PLUGIN)
    (folder / "k.txt").write_text("2.0")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))

    def bench(*words):
        for name, empty in (("FOLDERS", []), ("KNOWN", {})):
            monkeypatch.setattr(user_files, name, empty)
        monkeypatch.setattr(plugin_metadata, "_known", {})
        user_files._checksum.cache_clear()
        code = run(["--plugin", "filed.py", "--results", "r", "--json", *words])
        said = capsys.readouterr()
        return code, json.loads(said.out or "[]"), said.err

    bench.folder = folder
    yield bench
    sys.modules.pop("filed", None)
    registry.cache_clear()


def key_of(bench, *words):
    code, (row,), said = bench(*words)
    assert code == 0, said
    return row["run_key"]


def test_other_content_is_another_run_and_another_path_is_not(bench):
    first = key_of(bench, *RUN, "task.file=k.txt")
    (bench.folder / "other.txt").write_text("2.0")
    code, (row,), said = bench(*RUN, "task.file=other.txt")
    assert (row["run_key"], "1 done before, 0 to do" in said) == (first, True)
    assert key_of(bench, *RUN, f"task.file={bench.folder}/k.txt") == first
    (bench.folder / "k.txt").write_text("3.0")
    code, (row,), said = bench(*RUN, "task.file=k.txt")
    assert (code, row["run_key"] != first, "0 done before, 1 to do" in said) == (0, True, True)


def test_a_home_folder_is_understood(bench, monkeypatch):
    first = key_of(bench, *RUN, "task.file=k.txt")
    monkeypatch.setenv("HOME", str(bench.folder))
    code, (row,), said = bench(*RUN, "task.file=~/k.txt")
    assert (code, row["run_key"], "1 done before" in said) == (0, first, True)


def test_a_sampler_and_a_schedule_may_have_files_too(bench):
    words = ["--sampler", "filed", "--schedule", "from-file", "--task", "mixture5", "--budget", "steps=50",
             "--seeds", "0", "--set", "schedule.step_size=0.01"]  # fmt: skip
    files = {name: ("--set", f"{name}=k.txt") for name in ("sampler.scale", "schedule.factor")}
    both = key_of(bench, "run", *words, *files["sampler.scale"], *files["schedule.factor"])
    before = [key_of(bench, "plan", *words, *given) for given in files.values()]
    (bench.folder / "k.txt").write_text("1.5")
    after = [key_of(bench, "plan", *words, *given) for given in files.values()]
    assert len({key_of(bench, "plan", *words), both, *before, *after}) == 6


def test_no_path_is_in_the_results(bench):
    name = "a-name-that-nothing-else-has.txt"
    (bench.folder / "k.txt").rename(bench.folder / name)
    key = key_of(bench, *RUN, f"task.file={name}")
    assert bench("export", "--out", "out")[0] == 0
    files = [path for path in bench.folder.rglob("*") if path.is_file() and path.name != name]
    assert len(files) > 8
    assert not [path for path in files if name.encode() in path.read_bytes()]
    (spec,) = (bench.folder / "r" / "runs").glob("*/*/*/spec.json")
    value = json.loads(spec.read_text())["task"]["params"]["file"]
    assert user_files.IDENTIFIED.fullmatch(value)
    assert spec.parents[1].name == key
    assert [path.name for path in (bench.folder / "r" / "files").iterdir()] == [value.removeprefix("sha256:")]


def test_verbs_find_the_content_without_the_users_file_or_say_how_to_give_it(bench):
    key = key_of(bench, *RUN, "task.file=k.txt")
    (bench.folder / "k.txt").unlink()
    (copy,) = (bench.folder / "r" / "files").iterdir()
    assert bench("replay", key)[0] == 0
    assert bench("verify", "r")[1][0]["verified"] == "run here"
    same = bench(*RUN, f"task.file=sha256:{copy.name}")
    assert (same[0], "1 done before" in same[2]) == (0, True)
    copy.rename(bench.folder / "moved")
    for words in (["replay", key], [*RUN, f"task.file=sha256:{copy.name}", "--seeds", "1"]):
        code, _, said = bench(*words)
        assert (code, "--set task.file=PATH" in said, str(copy) in said) == (4, True, True), said
    assert bench(*RUN, "task.file=moved", "--seeds", "1")[0] == 0  # the same content under another name
    assert bench("replay", key)[0] == 0


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda _: None, "No such file"),
        (lambda path: path.mkdir(), "not an ordinary file"),
        (os.mkfifo, "not an ordinary file"),
        (lambda path: path.symlink_to(path), "loop|links"),
        (lambda path: (path.touch(), os.truncate(path, user_files.MOST_BYTES + 1)), "at most"),
    ],
)
def test_what_is_no_file_is_refused_before_anything_is_written(bench, make, what):
    make(bench.folder / "odd")
    code, _, said = bench(*RUN, "task.file=odd")
    assert code == 2, said
    assert re.search(rf"^bench: well\.file = 'odd'.*({what})", said, flags=re.MULTILINE), said
    assert not (bench.folder / "r").exists()


def test_a_declaration_that_cannot_work_is_refused():
    @dataclass(frozen=True, kw_only=True)
    class Number(Configurable):
        file: int = param(1, kind="file")

    with pytest.raises(TypeError, match="'file' and its type then str"):
        schema(Number)


@pytest.fixture
def known(monkeypatch, tmp_path):
    monkeypatch.setattr(user_files, "FOLDERS", [tmp_path / "files"])
    monkeypatch.setattr(user_files, "KNOWN", {})
    path = tmp_path / "given"
    path.write_text("one")
    return path


def test_content_that_changed_since_the_plan_is_not_read(known, tmp_path):
    identified = user_files.identify(str(known), "x")
    assert user_files.locate(identified) == str(known)
    known.write_text("two")
    with pytest.raises(DataError, match="is needed, and is not here"):
        user_files.locate(identified)
    known.write_text("one")
    user_files.keep(identified, tmp_path / "files")
    known.write_text("two")
    assert Path(user_files.locate(identified)).read_text() == "one"
    Path(user_files.locate(identified)).write_text("ono")  # a copy that was changed is none
    with pytest.raises(DataError):
        user_files.locate(identified)


def test_content_that_changes_while_it_is_copied_is_not_kept(known, tmp_path, monkeypatch):
    identified = user_files.identify(str(known), "x")
    monkeypatch.setattr(user_files, "locate", lambda _: str(known))
    known.write_text("two")
    with pytest.raises(DataError, match="changed while it was read"):
        user_files.keep(identified, tmp_path / "files")
    assert list((tmp_path / "files").iterdir()) == []


def test_a_job_of_a_launcher_has_its_files(bench):
    words = [*RUN, "task.file=k.txt", "--launcher", "local", "--set", "launcher.workers=1"]
    code, (row,), said = bench(*words)
    assert (code, row["status"]) == (0, "done"), said
    (bench.folder / "k.txt").unlink()
    assert bench("replay", row["run_key"])[0] == 0


def test_a_file_that_is_not_declared_is_a_warning_of_the_run(bench):
    words = ["run", "--sampler", "sgld", "--task", "careless", "--budget", "smoke"]
    code, _, said = bench(*words)
    path = str(bench.folder / "k.txt")
    assert (code, said.count(f"reads {path}, which is not declared")) == (0, 1), said
    events = b"".join(path.read_bytes() for path in (bench.folder / "r").rglob("events.jsonl"))
    assert events.count(b"not declared") == 1
    assert b"k.txt" not in events
    assert "not declared" not in bench(*RUN, "task.file=k.txt")[2]


def check(bench, *words):
    """`bench check` in a process of its own: what a process has imported and read is remembered in it."""
    done = bench_in(["--plugin", "filed.py", "--json", "check", *words], bench.folder)
    rows = [row for row in json.loads(done.stdout or "[]") if row["law"] == "bytes are in the key"]
    return done.returncode, {row["name"]: (row["outcome"], row["message"]) for row in rows}, done.stderr


@pytest.mark.slow
def test_a_file_that_is_not_declared_breaks_a_law_and_is_not_held_against_another_task(bench):
    (bench.folder / "j.txt").write_text("3.0")
    code, outcomes, said = check(bench, "careless", "second", "early")
    for name in ("careless", "early"):
        outcome, message = outcomes.pop(name)
        assert (code, outcome, str(bench.folder / "k.txt") in message) == (1, "failed", True), said
    assert [outcome for outcome, _ in outcomes.values()] == ["passed"], said


def test_what_a_module_reads_when_it_is_imported_is_held_against_each_of_its_tasks(bench):
    with (bench.folder / "filed.py").open("a") as plugin:
        plugin.write('\nnumber(__file__.replace("filed.py", "k.txt"))\n')
    (bench.folder / "j.txt").write_text("3.0")
    code, outcomes, said = check(bench, "second", "well", "--set", "task.file=j.txt")
    assert (code, {name: outcome for name, (outcome, _) in outcomes.items()}) == (
        1, {"second": "failed", "well": "failed"},
    ), said  # fmt: skip


def test_a_label_begins_the_refusal():
    with pytest.raises(UsageError, match=r"^x\.file = 'nowhere'"):
        user_files.identify("nowhere", "x.file")
