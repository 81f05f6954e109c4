"""Compiled code is kept, and nothing that is wrong with the folder or the compiler stops a run."""

import errno
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support import make_loop, until

from harness.engine.stepping import execution_mode
from harness.engine.stepping.making import UncompiledError
from harness.system import cpp
from harness.system.cpp import CompilerError, built
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from tasks.synthetic.mixture5 import Mixture5

pytestmark = pytest.mark.skipif(execution_mode.obstacle() is not None, reason=f"compiled: {execution_mode.obstacle()}")
SOURCE = 'extern "C" int answer() { return 42; }'
ONLY_CODE = 'case "$*" in *-dM*) false;; esac'
"""Shell code that fails where the compiler is asked for its identity."""


@pytest.fixture(autouse=True)
def _nothing_known(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(cpp, "_FAILED", {})
    cpp._built.cache_clear()
    yield
    cpp._built.cache_clear()


@pytest.fixture
def calls(monkeypatch):
    """The calls of the compiler that compile code; the others ask for its identity."""
    start, seen = subprocess.Popen, []

    def call(command, **how):
        seen.extend([command] * ("-dM" not in command))
        return start(command, **how)

    monkeypatch.setattr(cpp.subprocess, "Popen", call)
    return seen


def answer():
    cpp._built.cache_clear()
    return built(SOURCE).answer()


def files(folder):
    return list(folder.rglob("*.so"))


def test_what_is_compiled_is_kept_for_later_processes(tmp_path, calls):
    assert answer() == answer() == 42
    assert len(calls) == len(files(tmp_path)) == 1


def cut(file, size):
    """The start of a file, as a file of its own: the whole one is in use by this process."""
    start = file.read_bytes()[:size]
    file.unlink()
    file.write_bytes(start)


@pytest.mark.parametrize("spoil", [lambda f: cut(f, 5_000), lambda f: cut(f, 0), lambda f: f.chmod(0o666)])
def test_a_file_cut_short_or_open_to_others_is_made_again(tmp_path, calls, spoil):
    answer()
    spoil(files(tmp_path)[0])
    assert answer() == 42
    assert len(calls) == 2
    assert answer() == 42
    assert len(calls) == 2


def test_a_file_that_was_made_of_other_code_or_is_no_file_is_not_loaded(tmp_path, calls):
    built('extern "C" int answer() { return 41; }')
    (other,) = files(tmp_path)
    answer()
    (library,) = {*files(tmp_path)} - {other}
    library.unlink()  # this process has it loaded
    library.write_bytes(other.read_bytes())
    assert answer() == 42
    library.unlink()
    os.mkfifo(library)
    assert answer() == 42
    assert len(calls) == 4


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_folder_that_is_full_or_read_only_costs_time_only(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, "no")

    monkeypatch.setattr(cpp, "write_whole", refuse)
    assert answer() == 42
    assert not files(tmp_path)


@pytest.mark.parametrize("what", ["processor", "_identity", "os.getuid"])
def test_another_processor_compiler_or_user_gets_a_file_of_its_own(tmp_path, monkeypatch, what):
    answer()
    other = (lambda _: {"version": "13"}) if what == "_identity" else lambda: 12345
    with monkeypatch.context() as patch:
        patch.setattr(f"harness.system.cpp.{what}", other)
        answer()
    assert len(files(tmp_path)) == 2


def test_code_that_is_wrong_says_why():
    with pytest.raises(CompilerError, match="does not name a type"):
        built("nonsense x;")


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A function that makes a shell script the compiler."""

    def make(script):
        path = tmp_path / "compiler"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        monkeypatch.setenv("CXX", str(path))

    return make


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 3", "exit code 3"),
        (r"printf '\377\376 bad' >&2; exit 1", "bad"),
        ("exit 0", "block.so"),
        (f"{ONLY_CODE} || exit 0; for a; do out=$a; done; echo nonsense > $out", "block.so"),
        (f"{ONLY_CODE} || exit 0; exit 3", "exit code 3"),
        ("kill -9 $$", "exit code -9"),
    ],
)
def test_whatever_a_compiler_does_is_a_compiler_error_and_is_not_tried_again(compiler, calls, script, message):
    compiler(script)
    for _ in range(2):
        with pytest.raises(CompilerError, match=f"{message}.*; CXX can name another"):
            built(SOURCE)
    assert len(calls) <= 1


def test_a_folder_for_temporary_files_that_cannot_be_used_is_a_compiler_error(monkeypatch):
    monkeypatch.setattr(cpp.tempfile, "tempdir", "/proc/missing")
    with pytest.raises(CompilerError, match="/proc/missing"):
        built(SOURCE)


def test_a_compiler_that_hangs_ends_with_all_that_it_started_and_is_not_called_again(
    tmp_path, compiler, calls, monkeypatch
):
    monkeypatch.setattr(cpp, "PATIENCE", 1)
    compiler(f"{ONLY_CODE} || exit 0; sleep 1000 & echo $! > {tmp_path}/child; wait")
    for source in (SOURCE, SOURCE + " "):
        with pytest.raises(CompilerError, match="did not end within 1 s"):
            built(source)
    assert len(calls) == 1
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    until(lambda: not child.exists() or child.read_text().split()[2] == "Z", 30)


@pytest.mark.parametrize(
    ("named", "reason", "scope"),
    [
        ("false", "false failed: exit code 1", "compiler"),
        ("nosuch -m64", "'nosuch' is no program on the PATH", "compiler"),
        ("g++ 'm64", "No closing quotation", "compiler"),
    ],
)
def test_without_a_compiler_that_works_no_step_is_executed(monkeypatch, named, reason, scope):
    monkeypatch.setenv("CXX", named)
    with pytest.raises(UncompiledError, match=re.escape(reason)) as error:
        make_loop(Mixture5(), SGLD(), Constant(step_size=0.05), 2_500, mode="compiled")
    assert error.value.scope == scope
    assert reason in execution_mode.obstacle()


def test_a_lack_of_space_is_not_the_compilers_fault(compiler):
    compiler(f"{ONLY_CODE} || exit 0; echo 'x.s: No space left on device' >&2; exit 1")
    with pytest.raises(CompilerError, match="No space left") as error:
        built(SOURCE)
    assert not error.value.lasting


def test_a_compiler_of_several_words_is_used(tmp_path, monkeypatch):
    launcher = tmp_path / "my launcher"
    launcher.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/calls\nexec "$@"\n')
    launcher.chmod(0o700)
    monkeypatch.setenv("CXX", f"'{launcher}' {shutil.which('g++') or shutil.which('c++')}")
    assert answer() == 42
    assert (tmp_path / "calls").read_text().splitlines()


def test_a_compiler_that_changed_behind_its_name_makes_new_code(tmp_path, monkeypatch):
    """A wrapper, or a link, stays the same file while another compiler does the work."""
    real, chosen = cpp.find_compiler()[0], tmp_path / "chosen"
    for name, flag in (("one", ""), ("two", "-DOTHER")):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {real} {flag} "$@"\n')
        (tmp_path / name).chmod(0o700)
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nexec "$(cat {chosen})" "$@"\n')
    wrapper.chmod(0o700)
    monkeypatch.setenv("CXX", str(wrapper))
    source = 'extern "C" int answer() { return\n#ifdef OTHER\n43\n#else\n42\n#endif\n; }'
    answers = []
    for name in ("one", "two", "one"):
        chosen.write_text(str(tmp_path / name))
        cpp._built.cache_clear()
        cpp._identity.cache_clear()
        answers.append(built(source).answer())
    assert answers == [42, 43, 42]
