"""What a command does where the steps of a long run cannot be compiled: the mode that is executed is in the key."""

import json
import os
import shutil
import subprocess

import pytest
from support import bench_words

import harness
from harness.cli import app
from harness.runs.local import LaunchSummary

RUN = ["run", "--sampler", "sgld", "--task", "mixture5", "--seeds", "0-1", "--chains", "2", "--workers", "2"]

FAILS = "#!/bin/sh\necho 'x.cpp:7: error: there is no such thing' >&2; exit 1\n"
SCRIPTS = {
    "c++-that-fails": FAILS,
    # It compiles only code without vectors, so that neither the trial at the plan nor its identity fails.
    "c++-that-fails-later": f"""#!/bin/sh
code=$(mktemp); cat > "$code"
if grep -q vector_size "$code"; then rm "$code"; {FAILS.splitlines()[1]}; fi
g++ "$@" < "$code"; ended=$?; rm "$code"; exit $ended
""",
}


@pytest.fixture
def bench(tmp_path):
    """Run a command without a compiler that works, in a process of its own: workers have the environment of the first
    command of a process. Returns the exit code, stdout and stderr.
    """

    def bench(*words, compiler):
        script, where = tmp_path / compiler, {"CXX": ""}
        if compiler.startswith("c++"):
            script.write_text(SCRIPTS[compiler])
            script.chmod(0o700)
            where = {"CXX": str(script)}
        command = bench_words("--results", str(tmp_path / "results"), *words)
        environment = {**os.environ, "BENCH_CACHE": str(tmp_path / "cache"), **where}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return bench


def test_runs_that_cannot_be_compiled_are_plain_runs_by_their_key_and_are_done_once(bench, tmp_path):
    compiler = "c++-that-fails-later"
    code, _, said = bench(*RUN, "--budget", "steps=6000", compiler=compiler)
    told = (said.count("is not compiled and takes more time"), said.count("there is no such thing"))
    assert (code, told) == (0, (1, 1))
    assert "2 done\n" in said
    query = "select compile, executed, compiled, graphs, why_plain from run join attempt using (run_key)"
    for *mode, why in harness.Bench(tmp_path / "results").sql(query).rows():
        assert mode == ["plain", "plain", 0, 0]
        assert "there is no such thing" in why
    code, _, said = bench(*RUN, "--budget", "steps=6000", compiler=compiler)
    assert (code, said.splitlines()[0]) == (0, "2 runs: 2 done before, 0 to do")
    assert "compiled" not in said


def test_what_other_machines_could_not_compile_is_not_tried_again(bench, tmp_path):
    """This machine does not know why: with its cache gone it is like the one that submits jobs to a cluster."""
    words = [*RUN[:-2], "--budget", "steps=6000", "--launcher", "local"]
    code, _, said = bench(*words, compiler="c++-that-fails-later")
    assert (code, said.count("local job"), said.count("2 done\n")) == (0, 2, 1), said
    shutil.rmtree(tmp_path / "cache")
    code, _, said = bench(*words, compiler="c++-that-fails-later")
    assert (code, said.count("local job"), said.splitlines()[0]) == (0, 0, "2 runs: 2 done before, 0 to do"), said


def test_plain_runs_that_somebody_asked_for_do_not_stand_in_for_compiled_ones(tmp_path, monkeypatch):
    submitted = []

    def launch(_launching, blocks, _progress):
        submitted.extend(spec.execution.compile for block in blocks for spec in block.specs)
        return LaunchSummary(detached=True)

    monkeypatch.setattr("plugins.clusters.launching.CommandLauncher.launch", launch)
    words = [*RUN[:-2], "--budget", "steps=6000"]
    assert app.run(["--results", str(tmp_path), *words, "--set", "run.compile=plain"]) == 0
    app.run(["--results", str(tmp_path), "--launcher", "local", *words])
    assert submitted == ["compiled"] * 2


@pytest.mark.parametrize("compiler", ["c++-that-fails", "c++-that-fails-later"])
def test_a_mode_that_was_asked_for_and_is_impossible_is_an_error_and_writes_nothing(bench, tmp_path, compiler):
    code, _, said = bench(*RUN, "--budget", "steps=6000", "--set", "run.compile=compiled", compiler=compiler)
    assert (code, "run.compile" in said) == (2, True)
    assert not [path for path in (tmp_path / "results").rglob("*.json") if path.name != "ledger.json"]


def test_a_run_that_was_compiled_is_not_resumed_without_its_compiler(bench, tmp_path):
    """Its attempt stays where it is; the run of the command is a plain one, under its own key."""
    long = ["run", "--sampler", "sgld", "--task", "mixture5", "--seeds", "0", "--chains", "2", "--budget", "steps=6000"]
    code, _, said = bench(*long, compiler="")
    assert (code, "not compiled" in said) == (0, False)
    (done,) = (tmp_path / "results" / "runs").glob("*/*/*/")
    result = json.loads((done / "result.json").read_text())
    execution = result["executed"], result["compiled"], result["graphs"], result["why_plain"]
    assert execution == ("compiled", 2, 0, None)  # the steps of the burn-in, and those after it
    for name in ("result.json", "draws.safetensors", "curves.safetensors"):
        (done / name).unlink()  # as if it had been stopped
    before = {path: path.read_bytes() for path in done.iterdir()}
    code, _, said = bench(*long, compiler="c++-that-fails-later")
    assert (code, said.count("is not compiled and takes more time")) == (0, 1)
    assert {path: path.read_bytes() for path in done.iterdir()} == before
    keys = {path.parent.name for path in (tmp_path / "results" / "runs").glob("*/*/*/result.json")}
    assert len(keys) == 1
    assert done.parent.name not in keys


def test_only_long_runs_that_may_be_compiled_say_that_a_compiler_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("harness.engine.stepping.execution_mode.obstacle", lambda *_: "no C++ compiler")
    monkeypatch.setattr("plugins.clusters.launching.CommandLauncher.launch", lambda *_: LaunchSummary(detached=True))
    plain = ["--budget", "steps=6001", "--set", "run.compile=plain"]
    for words, warned in ((["--budget", "steps=600"], False), (plain, False), (["--budget", "steps=6000"], True)):
        app.run(["--results", str(tmp_path), "--launcher", "local", *RUN[:-2], *words])
        said = capsys.readouterr().err
        assert ("2 to do" in said, "not compiled" in said) == (True, warned)
