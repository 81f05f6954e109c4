"""What is freed is used again, and not mapped anew."""

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


def test_a_process_stays_within_the_free_memory():
    program = """
import re, resource
import numpy as np
from harness.system.memory import stay_within_free
free = 1024 * int(re.search("MemAvailable: *([0-9]+)", open("/proc/meminfo").read())[1])
stay_within_free()
assert resource.getrlimit(resource.RLIMIT_DATA)[0] < 1.2 * free
np.ones(1000)
try:
    np.empty(int(1.2 * free), np.int8)
except MemoryError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "refused\n", done.stderr
