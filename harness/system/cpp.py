"""C++ code compiled into shared objects by the system's compiler, which are kept in the cache folder."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.system.arithmetic import processor
from harness.system.cache import folder
from harness.system.errors import FULL
from harness.system.files import read_bytes, write_whole

COMPILERS = ("g++", "c++", "clang++")

FLAGS = (
    "-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-w", "-shared",
    "-fPIC", *(["-mprefer-vector-width=512"] if platform.machine() in {"x86_64", "AMD64"} else []),
)  # fmt: skip
"""Multiplications and additions are not fused, so that a step rounds as its separate operations do."""

PATIENCE = 300
"""Seconds after which the compiler is stopped. The longest of the built-in samplers' steps takes a few seconds."""


KILLED = re.compile(r"[Kk]illed|memory exhausted|[Oo]ut of memory|[Cc]annot allocate memory|internal compiler error")
"""Matches what compilers say if the system ended them, as for lack of memory."""
INSTRUCTIONS = re.compile(r"__(?:AVX|SSE|FMA|F16C|ARM_(?:NEON|FEATURE)|ALTIVEC|VSX|riscv_v)\w*")
"""Predefined macros that name the processor's instructions which a compiler uses."""


class CompilerError(Exception):
    """There is no C++ compiler, or it failed, or its output cannot be loaded.

    lasting   whether the same compiler will fail on the same code again; False if, for example, the disk is full
    """

    def __init__(self, message: str, *, lasting: bool = True) -> None:
        super().__init__(message)
        self.lasting = lasting


Command = tuple[str, ...]
_FAILED: dict[tuple[Command, str], CompilerError] = {}
"""How a compiler failed in this process, by (compiler, source); the source "" stands for every source."""


def built(source: str) -> ctypes.CDLL:
    """Return C++ code as a loaded shared object, from the cache folder if it is there.

    Raises `CompilerError`, and no other error of the compiler or the folder. What failed is not tried again in this
    process. The file's name is the hash of everything that it depends on, and its content ends with a SHA-256 of this
    hash and of the rest. A file whose checksum does not match, or that another user owns or may write to, is not
    loaded. If the cache folder cannot be written, this only costs time.
    """
    return _built(find_compiler(), source)


@functools.cache
def compiled(source: Path) -> ctypes.CDLL | None:
    """Return the code of a C++ file as a loaded shared object, or None if there is no compiler or it fails."""
    try:
        return built(source.read_text(encoding="utf-8"))
    except CompilerError:
        return None


@functools.cache
def _built(compiler: Command, source: str) -> ctypes.CDLL:
    for failure in ((compiler, ""), (compiler, source)):
        if failure in _FAILED:
            raise CompilerError(str(_FAILED[failure]), lasting=_FAILED[failure].lasting)
    name, lasting, failure = shlex.join(compiler), True, (compiler, source)
    try:
        return _loaded(compiler, source)
    except subprocess.TimeoutExpired:
        failure, why = (compiler, ""), f"{name} did not end within {PATIENCE} s"
    except subprocess.CalledProcessError as error:
        messages = error.stderr.decode(errors="replace")
        why = f"{name} failed: {error_line(messages) or f'exit code {error.returncode}'}"
        lasting = error.returncode > 0 and not lacks_means(messages)
    except OSError as error:
        why, lasting = f"{name}: {error}", False
    _FAILED[failure] = CompilerError(f"{why}; CXX can name another C++ compiler", lasting=lasting)
    raise _FAILED[failure]


def find_compiler() -> Command:
    """Return the command of the C++ compiler: what CXX says, else the first of `COMPILERS` on the PATH.

    CXX may have several words, as "ccache g++" has. Raises `CompilerError` if it names no program, or there is none.
    """
    named = os.environ.get("CXX", "").strip()
    if not named:
        program = next(filter(None, map(shutil.which, COMPILERS)), None)
        if program is None:
            raise CompilerError(f"no C++ compiler ({', '.join(COMPILERS)}) on the PATH")
        return (program,)
    try:
        words = [named] if shutil.which(named) else shlex.split(named)
    except ValueError as error:
        raise CompilerError(f"CXX = {named!r:.200} is not a command: {error}") from None
    if not shutil.which(words[0]):
        raise CompilerError(f"CXX = {named!r:.200}: {words[0]!r:.200} is no program on the PATH")
    return tuple(words)


def identity() -> Mapping[str, Any]:
    """Return what the C++ compiler is, as facts of an environment: no path and no time is among them.

    version        what it says of itself
    flags          those that it is called with
    instructions   names of the instruction sets that it uses on this processor
    macros         SHA-256 of its predefined macros under these flags, which also state them

    Empty if there is no compiler that works.
    """
    try:
        return _identity(find_compiler())
    except (CompilerError, subprocess.SubprocessError, OSError):
        return MappingProxyType({})


@functools.cache
def _identity(compiler: Command) -> Mapping[str, Any]:
    macros, messages = _call([*compiler, *FLAGS, "-v", "-dM", "-E", "-x", "c++", "-"], "")
    lines = messages.decode(errors="replace").splitlines()
    names = {words[1] for line in macros.decode(errors="replace").splitlines() if len(words := line.split()) > 1}
    facts = {
        "version": next((line.strip() for line in lines if re.search(r"\bversion \d", line)), ""),
        "flags": list(FLAGS),
        "instructions": sorted(name.strip("_") for name in names if INSTRUCTIONS.fullmatch(name)),
        "macros": hashlib.sha256(macros).hexdigest(),
    }
    return MappingProxyType(facts)


def _loaded(compiler: Command, source: str) -> ctypes.CDLL:
    real = Path(shutil.which(compiler[0]) or compiler[0]).resolve()
    made_by = [
        compiler, str(real), real.stat().st_size, real.stat().st_mtime_ns, dict(_identity(compiler)), os.getuid(),
        processor(),
    ]  # fmt: skip
    key = hashlib.sha256(f"{made_by}\n{source}".encode())
    cached = folder("compiled") / f"{key.hexdigest()[:32]}.so"
    with suppress(OSError):
        if _is_intact(cached, key.digest()):
            return ctypes.CDLL(str(cached))
    with tempfile.TemporaryDirectory(prefix="sgmcmc-bench-", ignore_cleanup_errors=True) as scratch:
        compiled = Path(scratch, "block.so")
        _call([*compiler, *FLAGS, "-x", "c++", "-", "-o", str(compiled)], source)
        with suppress(OSError):
            content = compiled.read_bytes()
            cached.parent.mkdir(parents=True, exist_ok=True)
            write_whole(cached, content + hashlib.sha256(key.digest() + content).digest(), sync=False)
            cached.chmod(0o600)
            return ctypes.CDLL(str(cached))
        return ctypes.CDLL(str(compiled))


def _call(command: Sequence[str], source: str) -> tuple[bytes, bytes]:
    """Run the compiler and return its output and its messages, in English.

    It is killed with its children if it takes too long or this process is interrupted.
    """
    pipe, spoken = subprocess.PIPE, {**os.environ, "LC_ALL": "C"}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=spoken, process_group=0) as process:
        try:
            output, said = process.communicate(source.encode(), PATIENCE)
        except BaseException:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=said)
    return output, said


def error_line(messages: str) -> str:
    """Return the most informative line of a compiler's messages, or "" if there are none."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[-1] if lines else "")[:300]


def lacks_means(messages: str) -> bool:
    """Return whether a compiler's messages say that the disk is full, or memory was lacking."""
    return any(os.strerror(number) in messages for number in FULL) or KILLED.search(messages) is not None


def _is_intact(path: Path, key: bytes) -> bool:
    """Return whether a file was made for this key, is whole, belongs to this user, and cannot be written by others."""
    about = path.stat()
    if about.st_uid != os.getuid() or about.st_mode & 0o022:
        return False
    content = read_bytes(path)
    return hashlib.sha256(key + content[:-32]).digest() == content[-32:]
