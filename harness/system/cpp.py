"""C++ code compiled into shared objects by the system's compiler, which are kept in the cache folder."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from harness.system.cache import folder
from harness.system.files import read_bytes, write_whole

COMPILERS = ("g++", "c++", "clang++")

FLAGS = (
    "-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-w", "-shared",
    "-fPIC", *(["-mprefer-vector-width=512"] if platform.machine() in {"x86_64", "AMD64"} else []),
)  # fmt: skip
"""Multiplications and additions are not fused, so that a step rounds as its separate operations do."""

PATIENCE = 300
"""Seconds after which the compiler is stopped. The longest of the built-in samplers' steps takes a few seconds."""


class CompilerError(Exception):
    """There is no C++ compiler, or it failed, or its output cannot be loaded."""


_FAILED: dict[tuple[str, str], str] = {}
"""The reason why a compiler failed in this process, by (compiler, source); the source "" stands for every source."""


@functools.cache
def built(source: str) -> ctypes.CDLL:
    """Return C++ code as a loaded shared object, from the cache folder if it is there.

    Raises `CompilerError`, and no other error of the compiler or the folder. What failed is not tried again in this
    process. The file's name is the hash of everything that it depends on, and its content ends with a SHA-256 of this
    hash and of the rest. A file whose checksum does not match, or that another user owns or may write to, is not
    loaded. If the cache folder cannot be written, this only costs time.
    """
    compiler = find_compiler()
    if compiler is None:
        raise CompilerError(f"no C++ compiler ({', '.join(COMPILERS)}) on the PATH")
    for place in ((compiler, ""), (compiler, source)):
        if place in _FAILED:
            raise CompilerError(_FAILED[place])
    try:
        return _loaded(compiler, source)
    except subprocess.TimeoutExpired:
        place, why = (compiler, ""), f"{compiler} did not end within {PATIENCE} s"
    except subprocess.CalledProcessError as error:
        said = error_line(error.stderr.decode(errors="replace")) or f"exit code {error.returncode}"
        place, why = (compiler, source), f"{compiler} failed: {said}"
    except OSError as error:
        place, why = (compiler, source), f"{compiler}: {error}"
    _FAILED[place] = f"{why}; CXX can name another C++ compiler"
    raise CompilerError(_FAILED[place])


def find_compiler() -> str | None:
    """Return the C++ compiler: the one that CXX names, else the first of `COMPILERS` on the PATH, or None."""
    return next(filter(None, map(shutil.which, filter(None, (os.environ.get("CXX"), *COMPILERS)))), None)


def _loaded(compiler: str, source: str) -> ctypes.CDLL:
    real = Path(compiler).resolve()
    made_by = [str(real), real.stat().st_size, real.stat().st_mtime_ns, FLAGS, os.getuid(), _processor()]
    key = hashlib.sha256(f"{made_by}\n{source}".encode())
    cached = folder("compiled") / f"{key.hexdigest()[:32]}.so"
    with suppress(OSError):
        if _is_intact(cached, key.digest()):
            return ctypes.CDLL(str(cached))
    with tempfile.TemporaryDirectory(prefix="sgmcmc-bench-", ignore_cleanup_errors=True) as place:
        made = Path(place, "block.so")
        _call([compiler, *FLAGS, "-x", "c++", "-", "-o", str(made)], source)
        with suppress(OSError):
            content = made.read_bytes()
            cached.parent.mkdir(parents=True, exist_ok=True)
            write_whole(cached, content + hashlib.sha256(key.digest() + content).digest(), sync=False)
            cached.chmod(0o600)
            return ctypes.CDLL(str(cached))
        return ctypes.CDLL(str(made))


def _call(command: list[str], source: str) -> None:
    """Run the compiler; kill it and its children if it takes too long or this process is interrupted."""
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=null, stderr=pipe, process_group=0) as process:
        try:
            _, said = process.communicate(source.encode(), PATIENCE)
        except BaseException:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=said)


def error_line(messages: str) -> str:
    """Return the most informative line of a compiler's messages, or "" if there are none."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[-1] if lines else "")[:300]


def _is_intact(path: Path, key: bytes) -> bool:
    """Return whether a file was made for this key, is whole, belongs to this user, and cannot be written by others."""
    about = path.stat()
    if about.st_uid != os.getuid() or about.st_mode & 0o022:
        return False
    content = read_bytes(path)
    return hashlib.sha256(key + content[:-32]).digest() == content[-32:]


@functools.cache
def _processor() -> str:
    """Return a text that differs between processors with different instructions."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines()
        return "\n".join(line for line in lines if line.startswith(("model", "flags", "Features", "cpu family")))
    return f"{platform.machine()} {platform.processor()} {platform.node()}"
