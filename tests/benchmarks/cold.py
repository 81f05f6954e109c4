"""The first result of a new user: `bench run` from cold, over a script that does the same in blackjax.

    python tests/benchmarks/cold.py --rounds 5

Nothing is cached on either side, each is a process of its own, and they alternate. `JAX_PYTHON` names another Python
that has blackjax. Both wall time and processor time are told, the second including the processes that bench starts.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

STEPS = 50_000
CHAINS = (1, 40)
GOAL, COMPILER_GOAL = 1.5, 0.3
WHY = "importing torch takes {:.2f} s of the {:.2f} s of the command, where the whole script takes {:.2f} s"
SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): what outlives the command becomes a child of this process, and is counted."""


def measure(rounds: int, chains: Sequence[int] = CHAINS, words: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Rows: ratios of the command over the script, and the seconds that a second process spends in the compiler."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for number in chains:
            ours, theirs, imports = [], [], []
            for turn in range(rounds):
                folder = Path(temporary, f"{number}-{turn}")
                imports.append(_cost([sys.executable, "-c", "import torch"], os.environ)[0])
                ours.append(_cost([*_bench(folder, "first", number), *words], _environment(folder)))
                theirs.append(_cost(_script(folder, number), os.environ))
                shutil.rmtree(folder)
            middle = [statistics.median(seconds for seconds, _ in side) for side in (ours, theirs)]
            why = WHY.format(statistics.median(imports), *middle)
            for what, side, goal in (("", 0, GOAL), (", processor time", 1, None)):
                name = f"`bench run` of {STEPS:,} SGLD steps from cold over a script with blackjax, {number} chain(s)"
                ratios = [a[side] / b[side] for a, b in zip(ours, theirs, strict=True)]
                rows.append(_row(f"{name}{what}", "ratio", ratios, goal) | {"seconds": [ours, theirs], "why": why})
        rows.append(_again(Path(temporary, "again"), rounds))
    return rows


def _again(folder: Path, rounds: int) -> dict[str, Any]:
    """Seconds of setup, the compiler's among them, of a process that another one preceded with the same code."""
    setups: dict[str, list[float]] = {"compiled": [], "plain": []}
    for turn, (mode, seconds) in itertools.product(range(rounds + 1), setups.items()):
        results = f"results-{turn}-{mode}"
        _cost([*_bench(folder, results, 40), "--set", f"run.compile={mode}"], _environment(folder))
        (result,) = (folder / results).glob("runs/*/*/*/result.json")
        seconds.append(json.loads(result.read_text())["seconds"]["setup"])
    compiled, plain = (seconds[1:] for seconds in setups.values())
    what = "second process with the same code: seconds of setup, the compiler's among them"
    why = f"of a plain run, which compiles nothing, the setup takes {statistics.median(plain):.2f} s"
    return _row(what, "s", compiled, COMPILER_GOAL) | {"why": why}


def _bench(folder: Path, results: str, chains: int) -> list[str]:
    code = "from harness.cli import main; main()"
    command = [sys.executable, "-c", code, "--results", str(folder / results), "run", "--sampler", "sgld", "--task"]
    return [*command, "mixture25", "--budget", f"steps={STEPS}", "--chains", str(chains), "--seeds", "0"]


def _script(folder: Path, chains: int) -> list[str]:
    python = os.environ.get("JAX_PYTHON") or sys.executable
    script = str(Path(__file__).with_name("cold_blackjax.py"))
    return [python, script, str(chains), str(STEPS), str(folder / "draws.npy")]


def _environment(folder: Path) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    caches = {name: str(folder / name) for name in ("BENCH_CACHE", "TORCHINDUCTOR_CACHE_DIR")}
    return {**os.environ, **caches}


def _cost(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Seconds by the clock and of processor time, with all processes that the command leaves behind."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    before, began = _used(), time.perf_counter()
    subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=True)
    wall = time.perf_counter() - began
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return wall, _used() - before


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(name: str, unit: str, values: Sequence[float], goal: float | None) -> dict[str, Any]:
    return {
        "name": name, "unit": unit, "value": statistics.median(values), "goal": goal,
        "spread": [min(values), max(values)], "repeats": len(values),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chains", type=int, nargs="+", default=CHAINS)
    asked, others = parser.parse_known_args()
    print(json.dumps(measure(asked.rounds, asked.chains, others), indent=1))  # noqa: T201 - a script
