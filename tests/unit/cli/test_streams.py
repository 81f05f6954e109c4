"""Standard streams that are closed or full, or whose reader has ended: the work is done, and a lost result is said."""

import contextlib
import json
import os
import subprocess
import sys

import pytest
from support import bench as in_a_process
from support import bench_words

from harness.cli.app import run

CLOSED, FULL, GONE = "closed", "full", "gone"
NO_READER = "the result could not be written to stdout: Broken pipe"
NO_SPACE = "the result could not be written to stdout: No space left on device"
NO_STREAM = "the result could not be written to stdout: Bad file descriptor"
RUN = ["run", "--sampler", "sgld", "--task", "mixture5", "--budget", "steps=50", "--seeds", "0"]
LOUD = """
import sys
from harness import Info, hook
@hook
def bench_samplers():
    print("imported")
    print("imported", file=sys.stderr)
    sys.stderr.flush()
    return [Info("loud", "loud:Loud", "prints while it runs")]
from plugins.samplers.sgld import SGLD
class Loud(SGLD):
    def step(self, *args, **more):
        print("a step", file=sys.stderr, flush=True)
        print("a step", flush=True)
        return super().step(*args, **more)
"""


def bench(words, *, stdin=None, stdout=None, stderr=None):
    """`bench WORDS` with these streams: CLOSED, FULL, GONE, or None for a pipe that is read; code, stdout, stderr."""
    with contextlib.ExitStack() as stack:

        def opened(kind):
            if kind == FULL:
                return stack.enter_context(open("/dev/full", "wb"))  # noqa: PTH123
            if kind == GONE:
                reader, writer = os.pipe()
                os.close(reader)
                stack.callback(os.close, writer)
                return writer
            return subprocess.PIPE

        def close():
            for number, kind in enumerate((stdin, stdout, stderr)):
                if kind == CLOSED:
                    os.close(number)

        done = subprocess.run(
            bench_words(*words), stdin=subprocess.DEVNULL, stdout=opened(stdout), stderr=opened(stderr), text=True,
            preexec_fn=close, timeout=120, check=False,
        )  # fmt: skip
    return done.returncode, done.stdout or "", done.stderr or ""


LISTING = ["ls", "samplers"]


@pytest.mark.parametrize(
    ("words", "streams", "code", "said"),
    [
        (LISTING, {"stdout": CLOSED}, 1, NO_STREAM),
        (LISTING, {"stdout": FULL}, 1, NO_SPACE),
        (LISTING, {"stdout": GONE}, 0, ""),
        (LISTING, {"stdout": GONE, "stderr": GONE}, 0, ""),
        (LISTING, {"stderr": CLOSED}, 0, ""),
        (LISTING, {"stderr": FULL, "stdin": CLOSED}, 0, ""),
        (LISTING, {"stdin": CLOSED, "stdout": CLOSED, "stderr": CLOSED}, 1, ""),
        (["--help"], {"stdout": FULL}, 1, NO_SPACE),
        (["--version"], {"stdout": CLOSED}, 1, NO_STREAM),
    ],
)
def test_a_reading_command(words, streams, code, said):
    ended, out, err = bench(words, **streams)
    assert (ended, err.removeprefix("bench: ").rstrip()) == (code, said)
    assert bool(out) == ("stdout" not in streams)


@pytest.mark.parametrize("streams", [{"stdout": FULL}, {"stderr": FULL}, {"stdout": CLOSED, "stderr": CLOSED}])
def test_a_usage_error_has_its_exit_code(streams):
    code, _, err = bench(["ls", "--nonsense"], **streams)
    assert code == 2
    assert "stderr" in streams or err.startswith("bench: No such option: --nonsense")


def test_completions_that_are_lost_are_said(monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # there may be no shell among its parents
    assert bench(["--show-completion", "bash"], stdout=FULL) == (1, "", f"bench: {NO_SPACE}\n")
    assert bench(["--show-completion", "bash"], stdout=GONE) == (0, "", "")


@pytest.mark.parametrize(
    ("streams", "code", "said"),
    [
        ({"stdout": GONE, "stderr": GONE}, 1, ""),
        ({"stdout": GONE}, 1, NO_READER),
        ({"stdout": FULL}, 1, NO_SPACE),
    ],
)
def test_a_command_that_acts_does_its_work(tmp_path, streams, code, said):
    ended, _, err = bench(["new", "task", "own", "--into", str(tmp_path)], **streams)
    assert ended == code, err
    assert said in err
    assert (tmp_path / "own/pyproject.toml").exists()


def runs_of(folder):
    return [json.loads(path.read_text())["status"] for path in folder.glob("runs/*/*/*/result.json")]


@pytest.mark.parametrize(
    ("streams", "more", "code"),
    [
        ({"stdout": GONE, "stderr": FULL}, ["--json"], 1),  # without --json, run has no result
        ({"stdin": CLOSED, "stdout": CLOSED, "stderr": CLOSED}, [], 0),
    ],
)
def test_runs_are_done_without_a_reader_also_by_a_plugin_that_prints(tmp_path, streams, more, code):
    plugin = tmp_path / "loud.py"
    plugin.write_text(LOUD)
    words = ["--results", str(tmp_path / "r"), "--plugin", str(plugin), *more, *RUN, "--set", "run.compile=plain"]
    words[words.index("sgld")] = "loud"
    ended, _, err = bench([*words, "--set", "schedule.step_size=0.01"], **streams)
    assert ended == code, err
    assert runs_of(tmp_path / "r") == ["done"]


def test_a_file_that_is_opened_does_not_become_a_stream(tmp_path):
    """With stdout closed, the first file that is opened has descriptor 1, and what is printed would go into it."""
    program = f"""
import os
from harness.system.streams import secure
secure()
file = open({str(tmp_path / "file")!r}, "w")
assert file.fileno() > 2, file.fileno()
assert all(os.get_inheritable(number) for number in range(3))
print("a result")
"""
    command = [sys.executable, "-c", program]
    closed = subprocess.run(command, preexec_fn=lambda: os.closerange(0, 3), check=False)
    assert closed.returncode == 0
    assert (tmp_path / "file").read_bytes() == b""


def test_a_slow_reader_of_a_stream_that_does_not_block_gets_all():
    """Node.js and ssh leave the streams of their children without blocking."""
    program = "from harness.system.streams import secure; secure(); print('x' * 10**6)"
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with subprocess.Popen([sys.executable, "-c", program], stdout=writer) as process:
        os.close(writer)
        with os.fdopen(reader) as stream:
            assert len(stream.read()) == 10**6 + 1
    assert process.returncode == 0


def test_what_the_terminal_cannot_show_is_replaced(tmp_path):
    (tmp_path / "accents.py").write_text(
        "from harness import Info, hook\n@hook\ndef bench_samplers():\n"
        "    return [Info('accents', 'accents:Accents', 'na\\u00efve \\U0001f600')]\n"
    )
    done = in_a_process(["--plugin", "accents.py", "ls", "samplers"], tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "na?ve ?" in done.stdout


def test_a_broken_pipe_in_the_work_is_not_the_end_of_the_reader(monkeypatch, capsys):
    """Typer takes it for one, and ends the program."""

    def verb():
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("plugins.inspection.plugins.plugins", verb)
    assert run(["plugins"]) == 1
    assert "internal error: BrokenPipeError" in capsys.readouterr().err
