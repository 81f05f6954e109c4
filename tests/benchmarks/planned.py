"""How far `bench plan` is off: predicted over taken seconds of runs that differ from the only finished one.

    python tests/benchmarks/planned.py

None of these cases was used to make the model of plugins/running/forecast.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GOAL = 2.0
CASES = (
    ("sgld on mixture5, chains 4 -> 40", "sgld mixture5 20000 4", "sgld mixture5 20000 40"),
    ("hmc on mixture5, steps 500 -> 4,000", "hmc mixture5 500 4", "hmc mixture5 4000 4"),
    ("baoab on gaussian2d, chains 40 -> 1, steps x 4", "baoab gaussian2d 5000 40", "baoab gaussian2d 20000 1"),
    ("sgld on mixture25, compiled, chains 4 -> 100", "sgld mixture25 200000 4", "sgld mixture25 200000 100"),
    ("psgld on blr-german, batch 32 -> 512", "psgld blr-german 4000 4 task.batch=32",
     "psgld blr-german 4000 4 task.batch=512"),
    ("sgnht on blr-australian, chains 2 -> 50", "sgnht blr-australian 4000 2", "sgnht blr-australian 4000 50"),
    ("sgld on ravine, another schedule", "sgld ravine 10000 4", "sgld ravine 20000 4 schedule=cyclical"),
    ("santa on landsat, width 16 -> 128", "santa landsat 1500 1 schedule.step_size=1e-5 task.width=16",
     "santa landsat 1500 1 schedule.step_size=1e-5 task.width=128"),
    ("sgld on landsat, batch 50 -> 400", "sgld landsat 1500 1", "sgld landsat 1500 1 task.batch=400"),
    ("sgdm on notmnist, width 50 -> 200", "sgdm notmnist 300 1 task.width=50", "sgdm notmnist 300 1 task.width=200"),
    ("sgld on mnist-sparse, steps x 3", "sgld mnist-sparse 100 1 schedule.step_size=1e-7",
     "sgld mnist-sparse 300 1 schedule.step_size=1e-7"),
)  # fmt: skip
"""What differs; method, task, steps, chains and settings of the finished run; those of the one asked for."""


def ratios(environment: Mapping[str, str], cases: Any = CASES) -> dict[str, float]:
    """Predicted over taken of each case; one whose data are not there is left out, and said so."""
    ratios_of = {}
    with tempfile.TemporaryDirectory() as temporary:
        for number, (name, finished, asked) in enumerate(cases):
            command = [sys.executable, "-c", "from harness.cli import main; main()", "--results"]
            command += [str(Path(temporary, str(number))), "--json"]
            try:
                _answer([*command, "run", *_words(finished, 0)], environment)
                (row,) = json.loads(_answer([*command, "plan", *_words(asked, 1)], environment))
                _answer([*command, "run", *_words(asked, 1)], environment)
            except subprocess.CalledProcessError as error:
                sys.stderr.write(f"{name}: not measured: {error.stderr.strip()[-200:]}\n")
                continue
            result = next(Path(temporary, str(number)).glob(f"runs/*/{row['run_key']}/*/result.json"))
            taken = sum(json.loads(result.read_text())["seconds"].values())
            if row["seconds"] is None:
                sys.stderr.write(f"{name}: nothing predicted\n")
                continue
            ratios_of[f"{name} ({taken:.2g} s)"] = row["seconds"] / taken
            sys.stderr.write(f"{name}: {row['seconds']:.2f} s predicted, {taken:.2f} s taken\n")
    return ratios_of


def _words(case: str, seed: int) -> list[str]:
    method, task, steps, chains, *settings = case.split()
    words = ["--sampler", method, "--task", task, "--budget", f"steps={steps}", "--chains", chains]
    schedule = [setting.partition("=")[2] for setting in settings if setting.startswith("schedule=")]
    params = [setting for setting in settings if not setting.startswith("schedule=")]
    words += ["--schedule", *schedule] if schedule else []
    return [*words, *(["--set", *params] if params else []), "--seeds", str(seed)]


def _answer(command: list[str], environment: Mapping[str, str]) -> str:
    return subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    print(json.dumps(ratios(os.environ), indent=1))  # noqa: T201 - a script
