"""Without data sets the tests that need one are skipped, also a single case that has no mark."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASE = "tests/contract/test_pretended_gpu.py::test_steps_of_densities_are_recorded_with_their_gradients[blr-heart-HMC]"


def test_a_case_whose_data_set_is_not_there_is_skipped_and_says_which(tmp_path):
    environment = {**os.environ, "BENCH_DATA": str(tmp_path)}
    words = ["-q", "-rs", "-p", "no:cacheprovider", "-n0", f"--basetemp={tmp_path / 'tests'}", CASE]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 skipped" in done.stdout
    assert "data set heart" in done.stdout
