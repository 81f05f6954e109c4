"""The update alone, of one sampler: a worker that `samplers.py` starts, in a process of its own on one core.

One step of one chain with millions of float32 parameters, compiled with the copies back into theta and state, on a
diagonal Gaussian: grad U = lambda theta costs one vector read, and the compiler makes it part of the update. Noise is
drawn beforehand. Beside it a plain copy, which gives the machine's bandwidth at that moment, and the harness's own
compiled loop on 1,000 chains of mixture25.

argv[1] is {"sampler", "dim", "chains", "core"}. Protocol as in `serving`: a line when ready, an answer a line of stdin.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from serving import timed
from setting import Case, pin
from stepping import Silent, endless, looped

H = 1e-4
"""Small enough for every sampler; its size changes no speed."""

PROVIDED = frozenset({"terms"})
"""What the diagonal Gaussian gives beyond gradients: one term, which is all of U."""

MEMORY_DIM = 2**20
SMALL = (64, 128)
FEW = 3


class Flat:
    """U = sum_i lambda_i theta_i^2 / 2, with as few temporaries as it can have."""

    def __init__(self, curvature: Any) -> None:
        self.curvature = curvature

    def gradient(self, theta: Any, batch: Any) -> Any:
        return self.curvature * theta

    def energy_and_gradient(self, theta: Any, batch: Any) -> tuple[Any, Any]:
        gradient = self.curvature * theta
        return (gradient * theta).sum(1) / 2, gradient


class Update:
    """A sampler at its defaults with all that a step needs, in float32, one chain of dimension D."""

    def __init__(self, sampler: Any, dim: int) -> None:
        import torch

        from harness.engine.stepping.noise import DirectNoise
        from harness.engine.stepping.potential import BoundPotential

        generator = torch.Generator().manual_seed(1)
        self.sampler = sampler
        self.curvature = torch.rand(dim, generator=generator) + 0.5
        self.h, self.T = torch.tensor(H), torch.tensor(1.0)
        self.theta = torch.randn((1, dim), generator=generator)
        potential = BoundPotential(Flat(self.curvature), 1)
        asked = DirectNoise([generator], torch.float32)
        started = sampler.init(self.theta, potential, self.h, self.T, asked)
        self.state = {name: leaf.clone() for name, leaf in started.items()}
        asked = DirectNoise([generator], torch.float32)
        _, after = sampler.step(self.theta, dict(self.state), potential, self.h, self.T, asked)
        self.slots = asked.slots
        self.noise = [
            torch.randn((1, *slot.shape)) if slot.kind == "normal" else torch.rand((1, *slot.shape))
            for slot in asked.slots
        ]
        self.changed = sorted(name for name in self.state if after[name] is not self.state[name])

    def inputs(self) -> tuple[Any, ...]:
        return self.theta, self.state, self.curvature, self.h, self.T, self.noise

    def plain(self) -> tuple[Any, Any]:
        return self._step(*self.inputs())

    def _step(self, theta: Any, state: Any, curvature: Any, h: Any, T: Any, noise: Any) -> tuple[Any, Any]:
        from harness.engine.stepping.noise import StepNoise
        from harness.engine.stepping.potential import BoundPotential

        drawn = StepNoise(self.slots)
        drawn.start(noise)
        return self.sampler.step(theta, dict(state), BoundPotential(Flat(curvature), 1), h, T, drawn)

    def in_place(self, theta: Any, state: Any, curvature: Any, h: Any, T: Any, noise: Any) -> None:
        """The step with its results copied back into the buffers that it was given."""
        moved, after = self._step(theta, state, curvature, h, T, noise)
        theta.copy_(moved)
        for name in self.changed:
            state[name].copy_(after[name])

    def compiled(self) -> Callable[[], None]:
        """`in_place`, compiled by a first call."""
        import torch

        function = torch.compile(self.in_place, fullgraph=True, dynamic=False, options={"compile_threads": 1})
        function(*self.inputs())
        return lambda: function(*self.inputs())

    def vectors(self, *, of_state: bool = False) -> float:
        """Size of the state, or of all that a step must read and write once, in vectors of D float32."""
        sizes = {name: leaf.nbytes for name, leaf in self.state.items()}
        total = sum(sizes.values())
        if not of_state:
            total += sum(sizes[name] for name in self.changed) + sum(leaf.nbytes for leaf in self.noise)
            total += 2 * self.theta.nbytes + self.curvature.nbytes
        return total / self.theta.nbytes


def peak(act: Callable[[], Any]) -> int:
    """The most bytes alive at once of those allocated during a call, its results included."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        kept = act()
    del kept
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        most = max(most, live)
    return most


def unfit(sampler: Any) -> str:
    """Why the flat vector is not for this sampler; "" where it is."""
    needs = sorted(sampler.needs - PROVIDED)
    if needs:
        return f"needs {', '.join(needs)}, which a flat vector of this size does not have"
    few, many = (Update(sampler, dim) for dim in SMALL)
    for name, leaf in few.state.items():
        if many.state[name].numel() > 2 * leaf.numel():
            return f"its state entry {name} grows as the square of the dimension"
    return ""


def best(act: Callable[[], Any], seconds: float) -> float:
    """Seconds of the processor of the fastest of several calls."""
    ended, fastest = time.process_time() + seconds, float("inf")
    calls = 0
    while calls < FEW or time.process_time() < ended:
        began = time.process_time()
        act()
        fastest = min(fastest, time.process_time() - began)
        calls += 1
    return fastest


def flat(sampler: Any, dim: int) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """What is known of the flat step, and what to time of it."""
    import torch

    reason = unfit(sampler)
    if reason:
        return {"left_out": reason}, {}
    small = Update(sampler, min(dim, MEMORY_DIM))
    vector = small.theta.nbytes
    facts = {"state": small.vectors(of_state=True), "plain_peak": peak(small.plain) / vector}
    del small
    update = Update(sampler, dim)
    facts |= {"moved": update.vectors(), "normals": sum(leaf.nbytes for leaf in update.noise) / update.theta.nbytes}
    began = time.perf_counter()
    step = update.compiled()
    facts["compile"] = time.perf_counter() - began
    facts["compiled_peak"] = peak(step) / update.theta.nbytes
    source, target = torch.ones(dim), torch.empty(dim)
    return facts, {"step": step, "copy": lambda: target.copy_(source)}


def mixture(sampler: Any, chains: int) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """The same of a block of the harness's own compiled loop on mixture25."""
    from harness.engine.linear import stability_limit
    from plugins.checking.samplers.scale import rescaled
    from tasks.synthetic.mixture25 import Mixture25

    task = Mixture25(noise=0.0)
    needs = sorted(sampler.needs - task.provides)
    if needs:
        return {"left_out": f"needs {', '.join(needs)}, which mixture25 does not have"}, {}
    limit = stability_limit(sampler) or 1.0
    sampler, factor = rescaled(sampler, task.curvature())
    h = min(H, 0.05 * limit * factor)

    def at_start() -> Any:
        loop = looped(sampler, task, h, Case("bench", "", chains, "compiled"))
        loop.runs[0].observer = Silent()
        return loop

    block, advance = endless(at_start)
    return {"compile": timed(advance), "chain_steps": block * chains}, {"block": advance}


def attempt(question: Callable[[], Any]) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """The answer; where it fails the reason, for the other part may do without it."""
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - a sampler may fail in any way, and is then a row that says so
        line = (str(error).strip().splitlines() or [""])[0]
        return {"left_out": f"{type(error).__name__}: {line[:200]}"}, {}


def main(asked: Mapping[str, Any]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    pin()
    if cores:  # two get ready at a time, each on a core of its own
        os.sched_setaffinity(0, {cores[asked["core"] % len(cores)]})
    import torch

    from harness.contracts.registry import load, registry

    torch.set_num_threads(1)
    sampler = load(registry().find("samplers", asked["sampler"]).info.target)()
    facts, acts = attempt(lambda: flat(sampler, asked["dim"]))
    mixed, blocks = attempt(lambda: mixture(sampler, asked["chains"]))
    gc.collect()
    answers.write(json.dumps({"flat": facts, "mixture": mixed}) + "\n")
    answers.flush()
    if cores:  # all are timed on the same one
        os.sched_setaffinity(0, {cores[-1]})
    for line in sys.stdin:
        seconds = {name: best(act, float(line)) for name, act in {**acts, **blocks}.items()}
        answers.write(json.dumps(seconds) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
