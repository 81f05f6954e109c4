"""A training step of ResNet-18 by our samplers beside plain torch SGD with momentum: `nox -s benchmarks -- --networks`.

One process on one core. Ours is `Loop` as a worker drives it, in the mode that a paper's run has, on the
task cifar10: batch, crops and flips from the run's streams, gradient, noise, update, checks. Beside it what everyone
writes: a module in channels_last, `loss.backward()`, `torch.optim.SGD` with momentum and weight decay, on batches made
by the same crop, flip and normalise. Steps are measured in turn, A B A B. The images are noise, which costs the same.

python tests/benchmarks/networks.py '{"rounds": 5, "width": 64, "batch": 64, ...}' prints the record of one process.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from setting import pin
from tables import Goal, goal_table, grid, number, spread

SAMPLERS = ("sgld", "sghmc", "msgld", "asgld")
LIMIT = {"cpu": 1.05, "cuda": 1.05}
STEPS = 10_000
IMAGES = 5_000
FILE = "networks.json"
BY_HAND = (
    ("notmnist", "plain", 0.95), ("notmnist", "compiled", 0.95), ("mnist-sparse", "compiled", 0.95),
    ("mnist-cnn", "compiled", 1.02), ("cifar10, width 16", "compiled", 1.02),
)  # fmt: skip
"""Tasks and modes of `by_hand.py`, and the most that a step of ours may take over one that is written by hand."""
ALLOWED = 4
"""Vectors of D that a step may hold beyond the sampler's state, theta included and activations not."""

FULL = {"rounds": 7, "steps": 1, "width": 64, "batch": 64, "device": "cpu", "precision": "float32"}
QUICK = {**FULL, "rounds": 2, "width": 8}


def images() -> Any:
    import torch

    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (IMAGES, 32, 32, 3), dtype=torch.uint8, generator=generator)
    return pixels, torch.randint(0, 10, (IMAGES,), generator=generator)


def noise_task(asked: Mapping[str, Any], count: int) -> Any:
    """cifar10 on so many of these images, repeated where they are too few."""
    import torch

    from tasks.vision.cifar import Cifar10

    class Noise(Cifar10):
        """cifar10 on other images."""

        def images(self, name: str) -> Any:
            at = torch.arange(count) % IMAGES
            return tuple(part[at].numpy() for part in images())

    how = {name: asked[name] for name in ("width", "batch", "precision")}
    return Noise(**how, train_images=count, test_images=count)


def looped(sampler: str, asked: Mapping[str, Any], device: str) -> Any:
    """The harness's loop on cifar10 with these images."""
    from harness.contracts.randomness import Streams
    from harness.contracts.registry import load, registry
    from harness.engine.loop import Loop
    from harness.engine.stepping.execution_mode import Work, choose
    from plugins.schedules.constant import Constant

    task = noise_task(asked, IMAGES // asked["batch"] * asked["batch"])  # no short batch, compiled for itself
    instance = load(registry().find("samplers", sampler).info.target)()
    trajectory = Constant(step_size=1e-7, temperature=2e-5).trajectory(STEPS, task.steps_per_epoch())
    mode = asked.get("mode") or choose(None, 156_400, Work(device=device, dim=task.dim(), opaque=True))
    streams = [Streams(seed, 0) for seed in range(asked.get("chains", 1))]
    return Loop(task, instance, trajectory.with_burn_in(STEPS - 1), streams, 1, mode=mode, device=device), mode


def usual(asked: Mapping[str, Any], device: str) -> Callable[[], None]:
    """One step of SGD with momentum, written as everyone writes it."""
    import torch

    from tasks.networks.resnet import ResNet18
    from tasks.vision.augment import crop_and_flip, normalise
    from tasks.vision.cifar import Cifar10

    module = ResNet18(10, asked["width"]).to(device, memory_format=torch.channels_last).train()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.005, momentum=0.9, weight_decay=5e-4)
    generator, n = torch.Generator(device).manual_seed(0), asked["batch"]
    pixels, labels = (part.to(device) for part in images())

    def step() -> None:
        index = torch.randint(0, IMAGES, (n,), generator=generator, device=device)
        shift = torch.randint(0, 9, (n, 2), generator=generator, device=device)
        flip = torch.rand(n, generator=generator, device=device) < 0.5
        x = normalise(crop_and_flip(pixels[index], shift, flip, 4).float(), Cifar10.mean, Cifar10.sd)
        optimiser.zero_grad()
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=asked["precision"] == "bfloat16"):
            loss = torch.nn.functional.cross_entropy(module(x), labels[index])
        loss.backward()
        optimiser.step()

    return step


def seconds(act: Callable[[], Any], times: int, device: str) -> float:
    """Of one call: of the processor, or by the clock where a GPU computes."""
    import torch

    clock = time.process_time if device == "cpu" else time.perf_counter
    if device != "cpu":
        torch.cuda.synchronize()
    began = clock()
    for _ in range(times):
        act()
    if device != "cpu":
        torch.cuda.synchronize()
    return (clock() - began) / times


def beyond(loop: Any) -> dict[str, float]:
    """Vectors of D that a step holds beyond the activations, and those of the sampler's state. CPU.

    The activations are what the most of the gradient alone is, less the gradient itself.
    """
    from update import peak

    vector = loop.theta.nbytes
    batch = {name: leaf[0] for name, leaf in loop.problem.draw_batches(1).items()}
    activations = peak(lambda: loop.problem.gradient(loop.theta, batch)) / vector - 1
    state = sum(leaf.nbytes for leaf in loop.state.values()) / vector
    step = peak(loop.advance_block) / vector
    return {"state": state, "activations": activations, "held": 1 + state + step - activations}


def limit(step: Callable[[], Any], device: str) -> dict[str, float]:
    """Floating-point operations of a step's products and convolutions, and the most of them a second, of float32."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        step()
    a, b = torch.rand(2, 1024, 1024, device=device)
    return {
        "operations": counter.get_total_flops(),
        "peak": 2 * 1024**3 / min(seconds(lambda: a @ b, 1, device) for _ in range(20)),
    }


def measure(asked: Mapping[str, Any]) -> dict[str, Any]:
    device, times = asked["device"], asked["steps"]
    if device != "cpu":
        from harness.results.spec import Execution
        from harness.runs.job import set_up

        set_up(Execution(device="cuda", dtype="float32", deterministic=False), f"{device}:0")
    plain = usual(asked, device)
    plain()
    rows = []
    for name in SAMPLERS:
        began = time.perf_counter()
        loop, mode = looped(name, asked, device)

        def advance(loop: Any = loop) -> None:
            loop.advance_block()

        for _ in range(2):
            advance()
        ready = time.perf_counter() - began
        memory = beyond(loop) if device == "cpu" else {}
        ours, theirs = [], []
        for _ in range(asked["rounds"]):
            ours.append(seconds(advance, times, device))
            theirs.append(seconds(plain, times, device))
        row = {"sampler": name, "mode": mode, "ready": ready, "ours": ours, "sgd": theirs, "memory": memory}
        sys.stderr.write(
            f"{name} ({mode}): {statistics.median(a / b for a, b in zip(ours, theirs, strict=True)):.3f}\n"
        )
        rows.append(row)
        del loop, advance
    return {**asked, "dim": _dim(asked), "rows": rows, "limit": limit(plain, device)}


def _dim(asked: Mapping[str, Any]) -> int:
    from tasks.vision.cifar import Cifar10

    return Cifar10(width=asked["width"]).dim()


def record(environment: Mapping[str, str], *, quick: bool) -> dict[str, Any]:
    """The record, measured in a process of its own."""
    asked = QUICK if quick else FULL
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__)), json.dumps(asked)],
        env=dict(environment), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    rounds = 3 if quick else 15
    by_hand = [
        _printed("by_hand.py", {"task": task, "mode": mode, "rounds": rounds, "steps": 10}, environment)
        for task, mode, _ in BY_HAND
    ]
    chains = _printed("chains.py", {"rounds": rounds}, environment)
    return {**json.loads(done.stdout.splitlines()[-1]), "quick": quick, "by_hand": by_hand, "chains": chains}


def _printed(script: str, asked: Mapping[str, Any], environment: Mapping[str, str]) -> Any:
    """What another script prints, in a process of its own."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name(script)), json.dumps(asked)]
    done = subprocess.run(command, env=dict(environment), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _by_hand_rows(record: Mapping[str, Any], goals: list[Goal]) -> str:
    """The table of `by_hand.py`; its goals are added to the others."""
    peers = ("bench", "by hand", "posteriors")
    rows = [["SGHMC on", "mode", *(f"{name}, ms" for name in peers), "over by hand", "over posteriors"]]
    limits = {(task, mode): most for task, mode, most in BY_HAND}
    for row in record["by_hand"]:
        times = row["times"]
        over = {
            peer: [a / b for a, b in zip(times["bench"], times[peer], strict=True)]
            for peer in peers[1:]
            if peer in times
        }
        limit = limits[row["task"], row["mode"]]
        label = f"{row['task']}, {row['mode']}, time over SGHMC (by hand)"
        goals.append(Goal(label, over["by hand"], limit, False, _parts(row)))
        cells = [_milliseconds(times[name]) if name in times else "" for name in peers]
        ratios = [spread(over[name]) if name in over else "" for name in peers[1:]]
        rows.append([row["task"], row["mode"], *cells, *ratios])
    return grid(rows) + "\n"


def _reached(record: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """The shares of the machine's peak that a step of ours and of SGD reach, in words."""
    least = record["limit"]["operations"] / record["limit"]["peak"]
    ours, theirs = (least / statistics.median(row[name]) for name in ("ours", "sgd"))
    return f"its products run at {ours:.0%} of the peak of this machine, those of SGD at {theirs:.0%}."


def _parts(row: Mapping[str, Any]) -> str:
    """Where the time of a step goes, in words; "" in records without it."""
    if "gradients" not in row:
        return ""
    said = []
    for name in ("bench", "by hand"):
        step, gradient = (1e3 * statistics.median(row[part][name]) for part in ("times", "gradients"))
        said.append(f"{name} {number(gradient)} of {number(step)} ms, {number(step - gradient)} beside it")
    return f"the gradient of a batch takes {'; '.join(said)}."


def _chains(record: Mapping[str, Any]) -> str:
    """Several chains of a network, in turn and together."""
    rows = [["chains of digits-cnn", "in turn, ms a chain", "by vmap, ms a chain", "in turn over vmap", "bits of vmap"]]
    for row in record["chains"]:
        turn, together = row["times"]["in turn"], row["times"]["vmap"]
        ratios = [a / b for a, b in zip(turn, together, strict=True)]
        same = "as among the most chains" if row["same"] else "others than among the most chains"
        rows.append([str(row["chains"]), _milliseconds(turn), _milliseconds(together), spread(ratios), same])
    return f"{grid(rows)}\n\n{IN_TURN}" if len(rows) > 1 else ""


def section(record: Mapping[str, Any]) -> str:
    rows = [["", "mode", "ms a step", "SGD, ms", "over SGD", "state", "vectors held, without activations"]]
    goals: list[Goal] = []
    for row in record["rows"]:
        ratios = [a / b for a, b in zip(row["ours"], row["sgd"], strict=True)]
        memory = row["memory"]
        goals.append(
            Goal(f"{row['sampler']}, time over SGD's", ratios, LIMIT[record["device"]], False, _reached(record, row))
        )
        if memory:
            limit = memory["state"] + ALLOWED
            goals.append(Goal(f"{row['sampler']}, vectors held", [memory["held"]], limit, False))
        rows.append([
            row["sampler"], row["mode"], _milliseconds(row["ours"]), _milliseconds(row["sgd"]), spread(ratios),
            *(number(memory[name]) if memory else "" for name in ("state", "held")),
        ])  # fmt: skip
    by_hand = _by_hand_rows(record, goals)
    stated = {name: record[name] for name in ("dim", "width", "batch", "precision", "device", "rounds")}
    return PAGE.format(
        **stated,
        quick=" **A quick pass, not for the record.**" if record["quick"] else "",
        goals=goal_table(goals),
        table=grid(rows),
        by_hand=by_hand,
        shares=_shares(record),
        chains=_chains(record),
    )


def _shares(record: Mapping[str, Any]) -> str:
    """What share of the machine's operations each row reaches; "" in records without it."""
    rows = [["share of the peak of float32 products", "operations, 10^9", "peak, 10^9 a second", "bench", "by hand"]]
    steps = [(row["sampler"], row["ours"], row["sgd"], record.get("limit")) for row in record["rows"]]
    steps += [
        (f"{row['task']}, {row['mode']}", row["times"]["bench"], row["times"]["by hand"], row.get("limit"))
        for row in record["by_hand"]
    ]
    for name, ours, theirs, peak in steps:
        if peak:
            least = peak["operations"] / peak["peak"]
            shares = (f"{least / statistics.median(times):.0%}" for times in (ours, theirs))
            rows.append([name, f"{peak['operations'] / 1e9:.3g}", f"{peak['peak'] / 1e9:.0f}", *shares])
    return f"{grid(rows)}\n\n{WHY}" if len(rows) > 1 else ""


def _milliseconds(values: Sequence[float]) -> str:
    return spread([1e3 * value for value in values])


PAGE = """\
## Networks

A training step of ResNet-18 (first stage {width} channels, {dim:,} weights, {precision}, {device}, one core) on batches
of {batch} images, compared with plain torch SGD with momentum on the same network, batch and machine; {rounds} rounds,
measured in turn. Ours includes the noise, the prior and the checks. *Vectors held* is the peak memory in vectors of one
number per weight: theta, the state, and everything that a step allocates beyond the activations, including noise and
gradient.{quick}

{goals}

{table}

{by_hand}
{shares}

{chains}
"""

WHY = """\
The operations are those of the products and convolutions of the forward and backward pass. The peak is the rate of the
fastest of 20 products of two 1,024 x 1,024 matrices; a convolution can be faster, which gives shares above 100 %. The
rest of a step of a fully connected network is noise, one pass over theta, state, gradient and noise (24 bytes a weight
for SGHMC), the gather of the rows, and small operations and Python between them.
"""

IN_TURN = """\
Gradients of the chains of one run, on batches of 32 images. The harness computes them in turn, also where `vmap` is
faster: under `vmap` the last bits of a chain's gradient depend on how many chains are computed with it, so that runs
could not be divided otherwise among jobs, or resumed beside other runs, with the same numbers.
"""


def answer(measured: Callable[[Mapping[str, Any]], Any]) -> None:
    """Print what is measured, as the first argument asks, as JSON; everything else that is printed goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    pin()
    import torch

    torch.set_num_threads(1)
    answers.write(json.dumps(measured(json.loads(sys.argv[1]))) + "\n")
    answers.flush()


if __name__ == "__main__":
    answer(lambda asked: measure({**FULL, **asked}))
