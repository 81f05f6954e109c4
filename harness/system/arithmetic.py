"""What decides the last bits of floating-point results beside the code: variables of libraries and the processor."""

from __future__ import annotations

import functools
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
_DECIDE = re.compile(
    r"""(ATEN|MKL|ONEDNN|DNNL|OPENBLAS|GOTO|BLIS|VECLIB|OMP|GOMP|KMP|NPY|CUBLAS|CUBLASLT|CUDNN|TORCHINDUCTOR)_\w+
    | \w+_NUM_THREADS | NVIDIA_TF32_OVERRIDE | TORCH_(ALLOW_TF32|BLAS|LINALG|CUDNN|MKLDNN|NNPACK)_\w+
    | GLIBC_TUNABLES | LD_PRELOAD""",
    re.VERBOSE,
)
"""Matches the variables that choose kernels, their precision or their threads, in the libraries below torch and NumPy.
libm chooses by GLIBC_TUNABLES, and LD_PRELOAD can replace it."""
_HARMLESS = re.compile(
    r"\w*_(VERBOSE|LOG|DISPLAY|WARN|DEBUG|CACHE|BLOCKTIME|WAIT|STACKSIZE|SETTINGS|DUPLICATE_LIB|INIT_AT_FORK|PROC_BIND"
    r"|PLACES|CPU_AFFINITY|AFFINITY)\w*"
)
"""Of these, those that only print, wait, place threads or name a folder. Notebooks and schedulers set some of them."""
_FEATURES = re.compile(
    r"(sse|ssse|avx|amx|fma|bmi|asimd|sve|neon|simd|bf16|i8mm)\w*|sme[0-9_]*|pni|f16c|fp16|fphp|fcma|popcnt|abm|vsx"
)
"""Matches the instruction sets, as the kernel names them, among which kernels are chosen."""


def decides(name: str) -> bool:
    """Return whether an environment variable can change the bits of a result. A child process must get it."""
    return _DECIDE.fullmatch(name) is not None and _HARMLESS.fullmatch(name) is None


def variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return these variables with their values, sorted. Of files, only the names are returned."""
    deciding = {name: value for name, value in sorted(environment.items()) if value and decides(name)}
    if "LD_PRELOAD" in deciding:
        deciding["LD_PRELOAD"] = " ".join(Path(path).name for path in re.split("[: ]+", deciding["LD_PRELOAD"]) if path)
    return deciding


@functools.cache
def processor() -> tuple[str, list[str]]:
    """Return the model of the processor, and its instruction sets, sorted; the latter are empty if unknown."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    facts = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in reversed(lines))
    }
    flags = facts.get("flags", facts.get("features", "")).split()
    model = facts.get("model name") or platform.processor() or platform.machine()
    return model, sorted({flag for flag in flags if _FEATURES.fullmatch(flag)})


def libc() -> str:
    """Return the C library, whose mathematical functions may round differently in each version: "glibc 2.36"."""
    return " ".join(platform.libc_ver()).strip()
