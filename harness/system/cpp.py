"""C++ code compiled into shared objects by the system's compiler, which are kept in the cache folder."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from harness.system.cache import folder
from harness.system.files import write_whole

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


@functools.cache
def built(source: str) -> ctypes.CDLL:
    """Return C++ code as a loaded shared object, from the cache folder if it is there; raises `CompilerError`.

    The file's name is the hash of everything that it depends on, and its content ends with the SHA-256 of the rest. A
    file whose checksum does not match, or that another user owns or may write to, is not loaded. If the cache folder
    cannot be written, this only costs time.
    """
    compiler = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CXX"), *COMPILERS)))), None)
    if compiler is None:
        raise CompilerError(f"no C++ compiler ({', '.join(COMPILERS)}) on the PATH")
    real = Path(compiler).resolve()
    toolchain = [str(real), real.stat().st_size, real.stat().st_mtime_ns, FLAGS, os.getuid(), _processor()]
    key = hashlib.sha256(f"{toolchain}\n{source}".encode()).hexdigest()
    cached = folder("compiled") / f"{key[:32]}.so"
    with suppress(OSError):
        if _is_intact(cached):
            return ctypes.CDLL(str(cached))
    with tempfile.TemporaryDirectory(prefix="sgmcmc-bench-") as place:
        output = Path(place, "block.so")
        try:
            command = [compiler, *FLAGS, "-x", "c++", "-", "-o", str(output)]
            subprocess.run(command, input=source, check=True, capture_output=True, text=True, timeout=PATIENCE)
            with suppress(OSError):
                content = output.read_bytes()
                cached.parent.mkdir(parents=True, exist_ok=True)
                write_whole(cached, content + hashlib.sha256(content).digest(), sync=False)
                cached.chmod(0o600)
                return ctypes.CDLL(str(cached))
            return ctypes.CDLL(str(output))
        except subprocess.CalledProcessError as error:
            raise CompilerError(f"{compiler} failed: {error.stderr.strip()[-1000:]}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompilerError(f"{compiler}: {error}") from error


def _is_intact(path: Path) -> bool:
    """Return whether a file belongs to this user, cannot be written by others, and matches its checksum."""
    about = path.stat()
    if about.st_uid != os.getuid() or about.st_mode & 0o022:
        return False
    content = path.read_bytes()
    return hashlib.sha256(content[:-32]).digest() == content[-32:]


@functools.cache
def _processor() -> str:
    """Return a text that differs between processors with different instructions."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines()
        return "\n".join(line for line in lines if line.startswith(("model", "flags", "Features", "cpu family")))
    return f"{platform.machine()} {platform.processor()} {platform.node()}"
