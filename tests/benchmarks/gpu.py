"""All that needs a GPU, in steps that resume: the GPU's tests, the step benchmark, one run of each paper on CIFAR-10.

    python tests/benchmarks/gpu.py --out gpu-results --seconds 520      # again and again, until it says "all done"

Every call does what is left and ends in time: a run that is under way is ended as a scheduler would end it (SIGTERM),
and the next call goes on from its checkpoint. With compiled steps and bfloat16 the whole should take 25 minutes of an
H200: 2 for the tests, 3 for the benchmark, under 10 for each run. BENCH_DATA must name the folder of CIFAR-10.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEAST_SECONDS = 45.0
"""Less than this is too little to begin anything with."""
GRACE_SECONDS = 40.0
"""For a run that is ended to write its checkpoint."""
GPU_STEPS = {"rounds": 7, "steps": 100}
RUNS = {"msgld": "cifar10@adaptive-drift", "csgld": "cifar10@csgmcmc"}
"""The papers' runs: published test accuracy 93.51 +- 0.08 (MSGLD), test error 4.29 +- 0.06 (cSGLD)."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu-results"))
    parser.add_argument("--seconds", type=float, default=520.0, help="after which this call ends")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--precision", default="bfloat16", choices=("float32", "bfloat16"))
    parser.add_argument("--compile", default="compiled", choices=("plain", "compiled"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", default="paper")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + asked.seconds
    for name, command in steps(asked):
        done = asked.out / f"{name}.done"
        if done.exists():
            continue
        left = deadline - time.monotonic() - GRACE_SECONDS
        if left < LEAST_SECONDS:
            return again(f"{name} is next")
        began = time.monotonic()
        code = run(command, asked.out / f"{name}.log", left)
        seconds = time.monotonic() - began
        if code is None:
            return again(f"{name} was interrupted after {seconds:.0f} s")
        say(f"{name}: exit code {code}, {seconds:.0f} s in this call; {asked.out / name}.log")
        if code:
            return code
        done.write_text(json.dumps({"seconds": round(seconds, 1), "command": command}))
    say("all done")
    return 0


def steps(asked: argparse.Namespace) -> Iterator[tuple[str, Sequence[str]]]:
    """Name and command of each step."""
    bench = [str(Path(sys.executable).with_name("bench")), "--results", str(asked.out / "results")]
    yield "tests", [sys.executable, "-m", "pytest", "-q", str(HERE.parent / "contract" / "test_gpu.py")]
    kind = asked.device.partition(":")[0]
    for mode in dict.fromkeys(("plain", asked.compile)):
        wanted = {"device": kind, "precision": asked.precision, "mode": mode, **({} if kind == "cpu" else GPU_STEPS)}
        yield f"step-{mode}", [sys.executable, "-W", "ignore", str(HERE / "networks.py"), json.dumps(wanted)]
    settings = [f"run.compile={asked.compile}", f"task.precision={asked.precision}"]
    for method, task in RUNS.items():
        how = ["--seeds", str(asked.seed), "--budget", asked.budget, "--devices", asked.device, "--preemptible"]
        yield f"run-{method}", [
            *bench, "run", "--sampler", method, "--task", task, *how, *(w for s in settings for w in ("--set", s)),
        ]  # fmt: skip
    yield "report", [*bench, "report", "leaderboard", "--format", "markdown"]


def run(command: Sequence[str], log: Path, seconds: float) -> int | None:
    """The exit code; None where the time was over before its end."""
    with log.open("a") as stream:
        stream.write(f"$ {' '.join(command)}\n")
        stream.flush()
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=dict(os.environ))
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return None


def again(why: str) -> int:
    say(f"{why}; the same command goes on")
    return 3


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
