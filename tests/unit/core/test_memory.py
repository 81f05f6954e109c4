"""What is freed is used again, and not mapped anew."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import numpy as np
from harness.system.memory import keep_freed
if sys.argv[1] == "kept":
    keep_freed()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.empty(2**26, dtype=np.uint8).fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc has its own rules")
@pytest.mark.parametrize("kept", ["kept", "given back"])
def test_a_freed_array_is_mapped_once_where_it_is_kept(kept):
    done = subprocess.run([sys.executable, "-c", SCRIPT, kept], capture_output=True, text=True, check=True)
    assert (int(done.stdout) < 10) == (kept == "kept")
