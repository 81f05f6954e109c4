"""The fault campaign in short: a round of some faults on two short runs; and the judge sees what it is there to see."""

import fcntl
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from crash import verbs
from crash.campaign import FAULTS, play, schedule
from crash.figures import BEGIN, END, write
from crash.invariants import COUNTS, judge
from crash.scene import Scene, contents
from crash.surroundings import OUT_OF_REACH
from crash.workload import PATCHED, SHORT, References, Site

KILLED = "kill at a system call of gc --delete"
PLAYED = ("kill -9 of the launcher", "kill -9 of a worker", "two users of a group")
"""Some of each kind; the others are near to these, or a test without workers plays them."""
PLAYED_SLOWLY = (
    "checkpoint.safetensors of an unfinished run bit-flipped", "a full disk", "score twice at once", "links in runs",
    "commands whose locks do not reach each other", "two to eight launchers at once", KILLED,
)  # fmt: skip
"""Played by `nox -s statistical`, and with all the others by `nox -s crash`."""


@pytest.fixture(scope="session")
def references(tmp_path_factory):
    return References(tmp_path_factory.mktemp("references"))


@pytest.mark.parametrize("fault", [*PLAYED, *(pytest.param(f, marks=pytest.mark.slow) for f in PLAYED_SLOWLY)])
def test_the_same_command_makes_everything_right(fault, references, tmp_path):
    if fault == KILLED and shutil.which("strace") is None:
        pytest.skip("no strace here")
    for seed in range(1, 6):  # a moment by the clock may come when all is done
        command = verbs.TEN if fault in verbs.FAULTS else SHORT[0]
        record = play(fault, command, references, tmp_path / f"round-{seed}", seed)
        assert record["right"], json.dumps(record, indent=1)
        if record["strikes"]:
            return
        if OUT_OF_REACH in record["notes"]:
            pytest.skip(OUT_OF_REACH)
    pytest.fail("no round was struck")


@pytest.fixture
def scene(references, tmp_path):
    """A results folder in which all is well."""
    (tmp_path / "logs").mkdir()
    site = Site(tmp_path / "results", tmp_path / "logs", f"{os.getpid()}-{tmp_path.name}")
    scene = Scene(site, SHORT[0], references.of(SHORT[0]), random.Random(0))
    scene.copy_of_finished()
    scene.keep_finished()
    yield scene
    scene.bury()


def results(scene):
    return sorted(scene.results.glob("runs/*/*/*/result.json"))


def lose(scene):
    results(scene)[0].unlink()


def double(scene):
    first = results(scene)[0].parent
    other = first.with_name("20200101T000000000-aaaaaa")
    shutil.copytree(first, other)
    text = (other / "result.json").read_text().replace(first.name, other.name)
    (other / "result.json").write_text("".join(line for line in text.splitlines() if '"sha256": ' not in line))


def change_a_draw(scene):
    path = results(scene)[0].with_name("draws.safetensors")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def write_again(scene):
    path = results(scene)[0]
    path.write_bytes(path.read_bytes())


def forget_a_checkpoint(scene):
    scene.checkpoints[results(scene)[0].parent] = 1000


def leave_a_process(scene):
    words = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(words, env={"CRASH_MARK": scene.site.mark}, stdout=subprocess.PIPE) as left:
        left.stdout.readline()  # while a process is being replaced by its program, it shows no environment
        scene.gone()


def hold_a_lock(scene):
    scene.results.joinpath("locks").mkdir(exist_ok=True)
    descriptor = os.open(scene.results / "locks" / "x.lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def leave_a_file(scene):
    results(scene)[0].with_name("draws.part.old").write_bytes(b"x")
    scene.results.joinpath("notes.tmp").write_bytes(b"x")


def spoil_the_store(scene):
    import duckdb

    scene.run(["ingest"])
    with duckdb.connect(str(scene.results / "results.duckdb")) as db:
        db.execute("update metric set value = 1")


def change_a_strangers_file(scene):
    path = scene.results / "runs" / "photographs"
    path.mkdir()
    (path / "summer.jpg").write_text("a photograph")
    scene.outside = {path: contents(path)}
    (path / "summer.jpg").unlink()


def show_a_traceback(scene):
    process, _ = scene.run(["--debug", "run", "--sampler", "none", "--task", "mixture5"])
    assert "Traceback" in process.stderr()


def say_something_else(scene):
    scene.check(False, "exit code 7")


PLANTED = {
    "lost": lose, "doubled": double, "different": change_a_draw, "altered": write_again,
    "repeated": forget_a_checkpoint, "orphans": leave_a_process, "locks": hold_a_lock, "leftovers": leave_a_file,
    "store": spoil_the_store, "outside": change_a_strangers_file, "tracebacks": show_a_traceback,
    "other": say_something_else,
}  # fmt: skip


def test_the_judge_has_nothing_against_what_is_right(scene):
    assert not any(judge(scene).values())


APART = ("lost", "doubled", "different", "store")
"""What makes the judge complain of other things too."""


@pytest.mark.parametrize("kind", APART)
def test_the_judge_sees(kind, scene):
    PLANTED[kind](scene)
    assert judge(scene)[kind]


def test_the_judge_sees_all_the_others_at_once_and_tells_them_apart(scene, monkeypatch):
    monkeypatch.setattr("crash.scene.GONE_SECONDS", 0.2)
    others = [kind for kind in COUNTS if kind not in APART]
    for kind in others:
        PLANTED[kind](scene)
    assert [kind for kind, complaints in judge(scene).items() if complaints] == others


def test_a_change_below_runs_that_publish_does_not_make_is_seen(scene, tmp_path):
    foreign = results(scene)[0].with_name("notes.txt")
    (tmp_path / "plugins").mkdir()
    program = tmp_path / "plugins" / "writes.py"
    program.write_text(f"from pathlib import Path\nPath({str(foreign)!r}).write_text('x')\n")
    given = {**os.environ, "PYTHONPATH": str(PATCHED), "CRASH_WRITES": str(scene.site.writes)}
    subprocess.run([sys.executable, program], env=given | {"BENCH_RESULTS": str(scene.results)}, check=True)
    assert "writes.py" in "".join(judge(scene)["other"])


def test_the_long_form_plays_every_fault_and_is_the_same_for_a_seed():
    assert set(schedule(200, 3)) == set(FAULTS)
    assert schedule(200, 3) == schedule(200, 3) != schedule(200, 4)


def test_figures_replace_figures(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    record = {"fault": "Ctrl-C", "stages": ["set-up"], "complaints": {kind: [] for kind in COUNTS} | {"lost": ["a"]}}
    record |= {"strikes": 2, "commands": 3, "runs": 4, "finished_before": 1, "resumed": 1}
    record |= {"seconds": 5.0, "longest_end": 0.5, "right": False}
    where = {"cpu": "x", "cores": 2, "system": "Linux", "versions": {"python": "3"}}
    write(path, {"began": 0.0, "seed": 0, "seconds": 60.0, "machine": where, "rounds": [record]})
    text = path.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| runs without a result | 1 |" in text
    assert "| Ctrl-C | 1 | 2 | 4 | 1 | 1 | 1 |" in text


@pytest.mark.parametrize(("text", "mark"), [("", BEGIN), (END, BEGIN), (BEGIN, END), (END + BEGIN, END)])
def test_a_page_without_the_marks_is_left_as_it_is(tmp_path, text, mark):
    path = tmp_path / "page.md"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"lacks {mark}"):
        write(path, {})
    assert path.read_text() == text


@pytest.mark.parametrize("name", ["faults", "verbs", "clusters"])
def test_a_page_of_each_campaign_has_the_marks(name):
    text = (Path(__file__).parents[2] / "docs" / "reliability" / f"{name}.md").read_text(encoding="utf-8")
    assert (text.count(BEGIN), text.count(END)) == (1, 1)
