"""Small things that several tests build on."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time

import torch

from harness.cli.app import run
from harness.contracts.randomness import Streams
from harness.contracts.registry import registry
from harness.engine.loop import Loop
from harness.runs.source import forget_code
from plugins.samplers.hmc import HMC
from plugins.samplers.msgld import MSGLD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD

SAMPLERS = {"sgld": SGLD(), "sghmc": SGHMC(friction=0.3), "msgld": MSGLD(a=5.0), "hmc": HMC(leapfrog=3)}


def make_loop(task, sampler, schedule, steps, seeds=(0,), chains=2, burn_in=0, thin=1, device="cpu", mode="plain"):
    """A loop over some seeds of a task, ready to run."""
    torch.set_num_threads(1)
    trajectory = schedule.trajectory(steps, task.steps_per_epoch()).with_burn_in(burn_in, thin)
    sampler.check_steps(trajectory.step_size.tolist(), trajectory.temperature.tolist())
    streams = [Streams(seed, chain, ("test",)) for seed in seeds for chain in range(chains)]
    return Loop(task, sampler, trajectory, streams, chains, mode=mode, device=device)


def run_loop(loop):
    """Advance a loop to its end."""
    while not loop.finished:
        loop.advance_block()
    return loop


def both(task, sampler, schedule, steps, **how):
    """A loop in each mode, at its end, and the draws, weights and steps that the observer of its first run saw."""
    loops, seen = [make_loop(task, sampler, schedule, steps, mode=mode, **how) for mode in ("plain", "compiled")], []
    for loop in loops:
        parts = []
        loop.runs[0].observer.observe = lambda draws, weights, at, parts=parts: parts.append((draws, weights, at))
        run_loop(loop)
        seen.append([torch.cat([torch.as_tensor(part[i]) for part in parts]) for i in range(3)])
    return loops, seen


def forget(module):
    """What this process remembers of a plugin's file."""
    sys.modules.pop(module, None)
    registry.cache_clear()
    forget_code()


@contextlib.contextmanager
def importable(folder):
    """The folder at the end of the path; its modules and plugins are forgotten afterwards."""
    known = set(sys.modules)
    sys.path.append(str(folder))
    registry.cache_clear()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.path_importer_cache.pop(str(folder), None)
        registry.cache_clear()
        for name in set(sys.modules) - known:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def bench_here(results, *words):
    """`bench WORDS` on a results folder in this process: exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(["--results", str(results), *words])
    return code, out.getvalue(), err.getvalue()


def bench_words(*words):
    """The command `bench WORDS` by this interpreter; like the script, it does not import from the current folder."""
    return [sys.executable, "-c", "import sys; del sys.path[0]; from harness.cli import main; main()", *words]


def bench(words, folder=None, **environment):
    """`bench WORDS` to its end in a process of its own, in a folder, with further variables in its environment."""
    inherited = {name: value for name, value in os.environ.items() if name != "BENCH_RESULTS"}
    return subprocess.run(
        bench_words(*words), cwd=folder, env=inherited | environment, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip


def until(condition, seconds=120):
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def begun(results, *words):
    """`bench WORDS` in a process of its own, from when one of its runs has stored draws."""
    command = bench_words("--results", str(results), *words)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until(lambda: list(results.glob("runs/*/*/*/draws.part")))
    return process


def install(site, name, version="1.0", requires=(), **files):
    """What an installer leaves of a distribution in a folder: its metadata, and files beside them."""
    info = site / f"{name}-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"Requires-Dist: {line}\n" for line in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}")
    for file, content in files.items():
        (info / file).write_text(content)
