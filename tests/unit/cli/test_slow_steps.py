"""What a command says where the steps of a long run are not compiled: once and why; the mode is in the key."""

import os
import subprocess

import pytest
from support import bench_words

RUN = ["run", "--sampler", "sgld", "--task", "mixture5", "--seeds", "0-1", "--chains", "2", "--workers", "2"]


@pytest.fixture
def bench(tmp_path):
    """Run a command without a compiler that works, in a process of its own: workers have the environment of the first
    command of a process. Returns the exit code, stdout and stderr.
    """

    def bench(*words, compiler):
        script = tmp_path / compiler
        script.write_text("#!/bin/sh\nexit 3\n")
        script.chmod(0o700)
        where = {"CXX": str(script)} if compiler == "c++-that-fails" else {"CXX": "", "PATH": str(tmp_path)}
        command = bench_words("--results", str(tmp_path / "results"), *words)
        environment = {**os.environ, "BENCH_CACHE": str(tmp_path / "cache"), **where}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return bench


def modes(bench, compiler):
    _, shown, _ = bench("sql", "select distinct compile from run", "--csv", compiler=compiler)
    return shown.split()[1:]


def test_a_compiler_that_fails_is_one_warning_and_the_run_is_still_compiled_by_its_key(bench):
    code, _, said = bench(*RUN, "--budget", "steps=6000", compiler="c++-that-fails")
    assert (code, said.count("steps are not compiled: "), said.count("exit code 3")) == (0, 1, 1)
    assert modes(bench, "c++-that-fails") == ["compiled"]
    _, shown, _ = bench("sql", "select distinct event from event where event = 'warning'", "--csv", compiler="none")
    assert shown.split()[1:] == ["warning"]


def test_no_compiler_is_said_once_where_it_matters_and_the_runs_are_plain(bench):
    code, _, said = bench(*RUN, "--budget", "steps=6000", compiler="none")
    assert (code, said.count("long runs are not compiled and take more time")) == (0, 1)
    assert modes(bench, "none") == ["plain"]
    for words in (["--budget", "steps=600"], ["--budget", "steps=6001", "--set", "run.compile=plain"]):
        code, _, said = bench(*RUN, *words, compiler="none")
        assert (code, "2 to do" in said, "not compiled" in said) == (0, True, False)
