"""Whether runs are compiled where it pays: seconds of a run in the mode that it has by default, over the other mode.

    python tests/benchmarks/chosen.py

The seconds are those of the whole run, with its compilation. Each mode has a cache folder of its own, empty at first.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GOAL = 1.2
ROUNDS = 3
"""Each mode is measured so often, in turn; the middle one counts."""
CASES = (
    ("sgld", "mixture25", "steps=2000"),
    ("sgld", "mixture25", "quick"),
    ("sghmc", "blr-german", "quick"),
    ("sgld", "airfoil@smile", "steps=10000"),
    ("sghmc", "landsat", "quick"),
    ("santa", "landsat", "quick"),
    ("santa", "notmnist", "quick"),
    ("sghmc", "notmnist", "quick", 8),
    ("sghmc", "mnist-sparse", "steps=600"),
)


def ratios(environment: Mapping[str, str], cases: Any = CASES) -> dict[str, float]:
    """Seconds by default over those of the other mode, of each case; one whose data are not there is left out."""
    ratios_of = {}
    for method, task, budget, *chains in cases:
        name = f"{method} on {task}, {budget}" + "".join(f", {n} chains" for n in chains)
        defaults, others = [], []
        try:
            for _ in range(ROUNDS):
                with tempfile.TemporaryDirectory() as folder:
                    mode, seconds = _run(method, task, budget, None, Path(folder, "default"), environment, *chains)
                    defaults.append(seconds)
                    other = "plain" if mode == "compiled" else "compiled"
                    others.append(_run(method, task, budget, other, Path(folder, "other"), environment, *chains)[1])
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"{name}: not measured: {error.stderr.strip()[:300]}\n")
            continue
        default, seconds = statistics.median(defaults), statistics.median(others)
        ratios_of[f"{name} ({mode})"] = default / seconds
        sys.stderr.write(f"{name}: {default:.2f} s {mode}, {seconds:.2f} s {other}\n")
    return ratios_of


def _run(
    method: str, task: str, budget: str, mode: str | None, folder: Path, environment: Mapping[str, str], chains: int = 1
) -> tuple[str, float]:
    """The mode of a run, and its seconds."""
    settings = [f"run.compile={mode}"] if mode else []
    if not task.startswith(("mixture", "blr")):
        settings.append("schedule.step_size=1e-7")
    program = [sys.executable, "-c", "from harness.cli import main; main()", "--results", str(folder)]
    words = f"run --sampler {method} --task {task} --budget {budget} --seeds 0 --chains {chains}".split()
    caches = {"BENCH_CACHE": str(folder / "cache"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache" / "inductor")}
    subprocess.run(
        [*program, *words, *(["--set", *settings] if settings else [])],
        env={**environment, **caches}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (attempt,) = folder.glob("runs/*/*/*/result.json")
    spec = json.loads(attempt.with_name("spec.json").read_text())
    return spec["compile"], sum(json.loads(attempt.read_text())["seconds"].values())


if __name__ == "__main__":
    print(json.dumps(ratios(os.environ), indent=1))  # noqa: T201 - a script
