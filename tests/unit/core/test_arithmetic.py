"""What decides the bits of a result beside the code reaches every child process, and is in the environment's id."""

import json
import os
import subprocess
import sys

import pytest

from harness.results import environment
from harness.system import arithmetic
from plugins.checking.samplers import restore

pytestmark = pytest.mark.numbers

VARIABLES = {
    "ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "MKL_NUM_THREADS": "1", "MKL_DYNAMIC": "FALSE", "ONEDNN_MAX_CPU_ISA": "SSE41", "DNNL_MAX_CPU_ISA": "SSE41",
    "ONEDNN_DEFAULT_FPMATH_MODE": "BF16", "OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1", "OMP_DYNAMIC": "FALSE", "KMP_DETERMINISTIC_REDUCTION": "1",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3", "NVIDIA_TF32_OVERRIDE": "0", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":16:8", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2", "LD_PRELOAD": "/home/me/libm.so",
}  # fmt: skip
HARMLESS = (
    "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "MKL_VERBOSE", "OMP_DISPLAY_ENV", "OMP_PROC_BIND", "OMP_PLACES",
    "OMP_WAIT_POLICY", "CUBLAS_LOGINFO_DBG", "TORCHINDUCTOR_CACHE_DIR", "POLARS_MAX_THREADS", "HOME", "SHELL",
)  # fmt: skip


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_that_decides_bits_is_in_the_environment_and_reaches_the_process_of_the_law_restore(
    monkeypatch, name
):
    monkeypatch.delenv(name, raising=False)
    before = environment.collect("cpu", ())
    monkeypatch.setenv(name, VARIABLES[name])
    here = environment.collect("cpu", ())
    assert here["id"] != before["id"]
    assert here["variables"][name] == VARIABLES[name].rpartition("/")[2]
    assert restore._minimal_environment()[name] == VARIABLES[name]


@pytest.mark.parametrize("name", HARMLESS)
def test_other_variables_make_no_other_environment(monkeypatch, name):
    before = environment.collect("cpu", ())["id"]
    monkeypatch.setenv(name, "1")
    assert environment.collect("cpu", ())["id"] == before


def test_a_process_with_other_kernels_has_another_environment(monkeypatch):
    """The variable is recorded, and the instruction set that torch chose by it."""
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    here = environment.collect("cpu", ())
    code = "import json, torch; from harness.results.environment import collect; print(json.dumps(collect('cpu', ())))"
    given = os.environ | {"ATEN_CPU_CAPABILITY": "default"}
    done = subprocess.run([sys.executable, "-c", code], env=given, check=True, capture_output=True, text=True)
    other = json.loads(done.stdout)
    assert other["cpu_capability"] == "DEFAULT"
    assert other["variables"].keys() - here["variables"].keys() == {"ATEN_CPU_CAPABILITY"}
    assert here["id"] != other["id"]


CPUINFO = {
    "x86": (
        (
            "processor : 0\nmodel name : A\nflags : fpu sse2 smep avx2 fma avx512f amx_tile avx_vnni popcnt ht\n\n"
            "processor : 1\nmodel name : B\nflags : sse2\n"
        ),
        ("A", ["amx_tile", "avx2", "avx512f", "avx_vnni", "fma", "popcnt", "sse2"]),
    ),
    "arm": (
        "processor : 0\nFeatures : fp asimd evtstrm sve sve2 i8mm bf16 cpuid\n",
        (None, ["asimd", "bf16", "i8mm", "sve", "sve2"]),
    ),
    "unknown": ("", (None, [])),
}


@pytest.mark.parametrize("kind", CPUINFO)
def test_the_instruction_sets_of_a_processor_are_read(monkeypatch, tmp_path, kind):
    text, (model, features) = CPUINFO[kind]
    if text:
        (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(arithmetic, "CPUINFO", tmp_path / "cpuinfo")
    arithmetic.processor.cache_clear()
    name, instructions = arithmetic.processor()
    arithmetic.processor.cache_clear()
    assert instructions == features
    assert model in {None, name}
