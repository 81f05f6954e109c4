"""What can change a bit of a run beside its record (test_attempt) and variables (test_arithmetic): the id shows it."""

from dataclasses import replace

import pytest
from specs import run_spec

from harness.contracts import user_files
from harness.engine.stepping.execution_mode import obstacle
from harness.results import environment, spec
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.records import AttemptResult
from harness.results.spec import Origin
from harness.runs import uncompiled
from harness.system import cpp
from harness.system.files import read_json, sealed, write_json
from plugins.upkeep import verification

compiled = pytest.mark.skipif(obstacle() is not None, reason=f"compiled: {obstacle()}")


def identity(one):
    """What says which bits a run has: the run's key, and the id of the environment of this process."""
    return one.key, environment.collect("cpu", ())["id"]


@pytest.fixture
def wrapped(tmp_path, monkeypatch):
    """Make a compiler the one of this process that calls the usual one with one more flag, and says that it is it."""

    real, path = cpp.find_compiler()[0], tmp_path / "wrapped"

    def wrap(flag="", version=""):
        says = f"echo 'gcc version {version}' >&2" if version else ":"
        path.write_text(f'#!/bin/sh\ncase "$*" in *-dM*) {says};; esac\nexec {real} {flag} "$@"\n')
        path.chmod(0o700)
        monkeypatch.setenv("CXX", str(path))

    return wrap


def test_the_number_of_the_engine_is_in_the_key(monkeypatch):
    before = run_spec(0).key
    monkeypatch.setattr(spec, "ENGINE", spec.ENGINE + 1)
    assert run_spec(0).key != before


def test_the_content_of_a_file_of_the_user_is_in_the_key(tmp_path):
    keys = set()
    for content in ("1", "2"):
        (tmp_path / "file").write_text(content)
        file = user_files.identify(str(tmp_path / "file"), "task.file")
        one = run_spec(0)
        keys.add(replace(one, task=replace(one.task, params={"file": file})).key)
    assert len(keys) == 2


@compiled
@pytest.mark.parametrize(
    "how",
    [{"version": "99.9.9"}, {"flag": "-ffast-math"}, {"flag": "-DSOMETHING"}],
    ids=["version", "arithmetic", "macros"],
)
def test_another_compiler_is_another_environment(wrapped, how):
    before = identity(run_spec(0))
    wrapped(**how)
    assert identity(run_spec(0))[1] != before[1]


@compiled
def test_the_instructions_that_the_compiler_may_use_are_in_the_environment(wrapped):
    wrapped(flag="-DNOTHING")
    there = environment.collect("cpu", ())["compiler"]
    wrapped(flag="-DNOTHING -D__AVX999F__=1")
    cpp._identity.cache_clear()
    here = environment.collect("cpu", ())["compiler"]
    assert {*here["instructions"]} - {*there["instructions"]} == {"AVX999F"}
    assert here["macros"] != there["macros"]


@compiled
@pytest.mark.parametrize(
    ("name", "value"),
    [("harness.system.cpp.FLAGS", ("-std=c++17", "-O1", "-shared", "-fPIC")), ("harness.results.environment.LANES", 4)],
)
def test_flags_and_the_width_of_vectors_are_in_the_environment(monkeypatch, name, value):
    before = identity(run_spec(0))
    monkeypatch.setattr(name, value)
    cpp._identity.cache_clear()
    assert identity(run_spec(0))[1] != before[1]
    cpp._identity.cache_clear()


@compiled
def test_whether_sums_over_draws_are_compiled_is_in_the_environment(monkeypatch):
    """A plain run has the same draws without a compiler, but its metrics are rounded in another way."""
    before = identity(run_spec(0))
    with monkeypatch.context() as patch:
        patch.setattr("harness.analysis.diagnostics.counting.code", lambda: None)
        assert identity(run_spec(0))[1] != before[1]
    monkeypatch.setenv("CXX", "false")
    assert identity(run_spec(0))[1] != before[1]


def test_no_path_of_the_compiler_is_in_the_environment(wrapped, tmp_path):
    wrapped(flag="-DSOMETHING")
    assert str(tmp_path) not in str(environment.collect("cpu", ()))


def test_a_result_of_another_mode_than_its_runs_is_not_concluded_and_not_believed(ledger):
    attempt = Attempt.create(ledger.runs, run_spec(0), environment.collect("cpu", ()))
    result = AttemptResult(run_key=run_spec(0).key, status="done", executed="compiled")
    with pytest.raises(ValueError, match="was executed compiled, and its run is plain"):
        conclude(attempt, result)
    conclude(attempt, replace(result, executed="plain"))
    assert not list(verification.of_attempt(run_spec(0).key, attempt))
    record = read_json(attempt.path / "result.json")
    del record["sha256"]
    write_json(attempt.path / "result.json", sealed(record | {"executed": "compiled"}))
    (damage,) = verification.of_attempt(run_spec(0).key, attempt)
    assert damage.what == "was executed compiled, and its run is plain"


@pytest.fixture
def facts(tmp_path, monkeypatch):
    """What is known of runs that cannot be compiled, which is nothing yet."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(uncompiled, "_known", {})
    return uncompiled._known


def test_that_a_run_cannot_be_compiled_is_known_of_this_run_and_this_compiler_only(facts, monkeypatch):
    run, other = run_spec(0, compile="compiled"), run_spec(0, compile="compiled", chains=3)
    uncompiled.keep(run, "no such instruction", lasting=True)
    for _ in range(2):
        assert uncompiled.why(run) == "no such instruction"
        assert uncompiled.why(run_spec(5, compile="compiled")) == "no such instruction"  # another seed
        assert uncompiled.why(other) is uncompiled.why(run_spec(0)) is None
        facts.clear()  # as in another process
    monkeypatch.setattr(uncompiled, "identity", lambda: {"version": "99"})
    assert uncompiled.why(run) is None


def test_a_disk_that_was_full_is_known_of_this_command_only(facts):
    run = run_spec(0, compile="compiled")
    uncompiled.keep(run, "no space left", lasting=False)
    assert uncompiled.why(run) == "no space left"
    facts.clear()
    assert uncompiled.why(run) is None


def test_a_mode_is_asked_for_by_a_setting_alone():
    asked = {value: run_spec(0, origins={"run.compile": Origin(value, "user")}) for value in ("compiled", "none", None)}
    assert [uncompiled.asked_mode(one) for one in asked.values()] == ["compiled", None, None]
    assert uncompiled.asked_mode(run_spec(0, compile="compiled")) is None
