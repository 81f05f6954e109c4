"""What is measured on a GPU, in blocks: python tests/benchmarks/gpu_blocks.py BLOCK '{"device": "cuda:0"}'.

A block is a process of its own and prints a line of JSON for each of its cases as soon as it is over: what was asked,
the seconds it took, and what was measured, or the error. On the CPU, where the tests run them, all steps are plain.

- ready: versions, plugins, torch's compiler, the peak of matrix products of each precision and of a copy
- steps: ResNet-18 recorded and plain, by precision and memory order, in milliseconds of the GPU and of the host
- network: the same with run.compile=network, compiled anew unless torch's cache has it
- profile: the kernels of five recorded steps
- rows: whether two chains with the same weights have the same gradient, bit by bit; a step of several chains
- predict: predictions for 10,000 test images, by the number of images at a time
- memory: what ends a run that lacks memory, in its first steps and while a step is recorded
- chains, blackjax: samplers on mixture25 with 1,000 and 100,000 chains, ours and theirs
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Case = tuple[dict[str, Any], Callable[[], dict[str, Any]]]

HERE = Path(__file__).resolve().parent
ASKED = {"device": "cuda:0", "width": 64, "steps": 60, "chains": 100_000, "images": 10_000}
PRECISIONS = (("float32", False), ("float32", True), ("bfloat16", False))
"""The precision of the forward pass, and whether products of float32 are TF32."""
FAST = PRECISIONS[1:]
WARM, ROUNDS = 8, 3
"""Steps before any that count (three to warm up, one recorded, and some replayed), and rounds of `steps` steps."""
VARIANCE, MEANS = 0.03, (-4.0, -2.0, 0.0, 2.0, 4.0)
"""Of a mode of mixture25, and its means on both axes."""


def main(block: str, asked: Mapping[str, Any]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    for line in lines(block, asked):
        answers.write(json.dumps(line) + "\n")
        answers.flush()


def lines(block: str, asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The line of each case of a block, when it is over."""
    sys.path[:0] = [str(HERE.parents[1]), str(HERE)]
    for how, measure in BLOCKS[block]({**ASKED, **asked}):
        began = time.perf_counter()
        try:
            values = measure()
        except Exception as error:  # noqa: BLE001 - it is the finding of this case
            values = {"error": f"{type(error).__name__}: {error}"[:500]}
        yield {"block": block, "asked": how, "took": round(time.perf_counter() - began, 2), **values}


def ready(asked: Mapping[str, Any]) -> Iterator[Case]:
    import platform

    import torch

    device = asked["device"]

    def versions() -> dict[str, Any]:
        values = {"python": platform.python_version(), "torch": torch.__version__, "cores": os.cpu_count()}
        gpu = device != "cpu" and {"gpu": torch.cuda.get_device_name(device), "cudnn": torch.backends.cudnn.version()}
        return values | (gpu or {})

    def plugins() -> dict[str, Any]:
        from harness.contracts.registry import registry

        return {kind: len(registry().offers(kind)) for kind in ("samplers", "schedules", "tasks")}

    def compiler() -> dict[str, Any]:
        x = torch.rand(1000, device=device)
        compiled = torch.compile(lambda x: (2 * x).sin() + 1, fullgraph=True)(x)
        return {"right": bool(torch.allclose(compiled, (2 * x).sin() + 1, atol=1e-5))}

    def peak() -> dict[str, Any]:
        size = 8192 if device != "cpu" else 256
        values = {}
        for precision, tf32 in PRECISIONS:
            torch.backends.cuda.matmul.allow_tf32 = tf32
            a, b = torch.rand(2, size, size, device=device, dtype=getattr(torch, precision))
            values["tf32" if tf32 else precision] = 2 * size**3 / median_seconds(lambda: a @ b, device) / 1e12  # noqa: B023
        x = torch.rand(8 * size**2, device=device)
        return values | {"copy": 2 * x.nbytes / median_seconds(x.clone, device) / 1e12}

    for measure in (versions, plugins, compiler, peak):
        yield {"what": measure.__name__}, measure


def steps(asked: Mapping[str, Any]) -> Iterator[Case]:
    for precision, tf32 in PRECISIONS:
        for mode, last in (("compiled", True), ("compiled", False), ("plain", True)):
            yield of_steps(asked, precision, tf32=tf32, mode=mode, last=last)
    yield of_steps(asked, "bfloat16", batch=100)


def network(asked: Mapping[str, Any]) -> Iterator[Case]:
    for precision, tf32 in reversed(FAST):
        yield of_steps(asked, precision, tf32=tf32, mode="network")


def of_steps(asked: Mapping[str, Any], precision: str, **how: Any) -> Case:
    how = {"precision": precision, "tf32": False, "mode": "compiled", "last": True, "batch": 64, **how}
    return how, functools.partial(timed, asked, how)


def timed(asked: Mapping[str, Any], how: Mapping[str, Any]) -> dict[str, Any]:
    """Milliseconds of a step round by round; `ready` are the seconds until the first one that counts."""
    began = time.perf_counter()
    with memory_order(last=how["last"]):
        loop = looped(asked, **how)
        values = rounds_of(loop, asked)
    return {"ready": round(time.perf_counter() - began - sum(values["ms"]) * asked["steps"] / 1e3, 2), **values}


def rounds_of(loop: Any, asked: Mapping[str, Any], rounds: int = ROUNDS) -> dict[str, Any]:
    import torch

    device, times = asked["device"], asked["steps"]
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    warm_up(loop, device)
    values: dict[str, Any] = {"ms": [], "host_ms": []}
    for _ in range(rounds):
        wait(device)
        began = time.perf_counter()
        for _ in range(times):
            loop.advance_block()
        values["host_ms"].append(1e3 * (time.perf_counter() - began) / times)
        wait(device)
        values["ms"].append(1e3 * (time.perf_counter() - began) / times)
    values |= {"finite": bool(loop.theta.isfinite().all()), "graphs": len(getattr(loop.stage.stepper, "_graphs", ()))}
    return values if device == "cpu" else values | {"memory": torch.cuda.max_memory_allocated() / 1e6}


def profile(asked: Mapping[str, Any]) -> Iterator[Case]:
    for precision, tf32 in FAST:
        yield {"precision": precision, "tf32": tf32}, functools.partial(profiled, asked, precision, tf32=tf32)


def profiled(asked: Mapping[str, Any], precision: str, *, tf32: bool) -> dict[str, Any]:
    """Microseconds of a step, calls and name of each kernel."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recording

    loop = looped(asked, precision=precision, tf32=tf32)
    warm_up(loop, asked["device"])
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if asked["device"] != "cpu" else [])]
    times = 5
    with recording(activities=kinds) as trace:
        began = time.perf_counter()
        for _ in range(times):
            loop.advance_block()
        wait(asked["device"])
        wall = time.perf_counter() - began
    # A kernel's time is also that of the call that launched it, which is an event of the CPU.
    kernels = [event for event in trace.key_averages() if event.device_type != DeviceType.CPU]
    top = sorted(([e.self_device_time_total / times, e.count / times, e.key[:110]] for e in kernels), reverse=True)
    counts = {"gpu_us": sum(row[0] for row in top), "kernels": sum(row[1] for row in top)}
    return {"wall_ms": 1e3 * wall / times, **counts, "top": top[:30]}


def rows(asked: Mapping[str, Any]) -> Iterator[Case]:
    import networks
    import torch

    from harness.contracts.randomness import Streams

    def bits(precision: str) -> dict[str, Any]:
        set_up(asked["device"], "plain", tf32=precision == "float32")
        how = {"width": asked["width"], "batch": 64, "precision": precision}
        problem = networks.noise_task(how, 64).build([Streams(0, 0)] * 2, asked["device"])
        theta = problem.initial()[:1].expand(2, -1).contiguous()
        batch = {name: leaf[0, :1].expand(2, *leaf.shape[2:]) for name, leaf in problem.draw_batches(1).items()}
        first, second = problem.gradient(theta, batch)
        return {"equal": bool(torch.equal(first, second)), "apart": float((first - second).abs().max())}

    def several(precision: str, count: int) -> dict[str, Any]:
        loop = looped(asked, precision=precision, tf32=precision == "float32", chains=count)
        return {"ms_a_chain": [ms / count for ms in rounds_of(loop, asked, rounds=2)["ms"]]}

    for precision, tf32 in FAST:
        yield {"precision": precision, "tf32": tf32, "what": "bits"}, functools.partial(bits, precision)
        for count in (1, 2, 4):
            how = {"precision": precision, "tf32": tf32, "what": "chains", "chains": count}
            yield how, functools.partial(several, precision, count)


def predict(asked: Mapping[str, Any]) -> Iterator[Case]:
    import networks

    from harness.contracts.randomness import Streams

    def predicted(*, precision: str, tf32: bool, stretch: int) -> dict[str, Any]:
        set_up(asked["device"], "plain", tf32=tf32)
        how = {"width": asked["width"], "batch": 1, "precision": precision}
        problem = networks.noise_task(how, asked["images"]).build([Streams(0, 0)], asked["device"])
        problem.stretch = stretch
        theta = problem.initial()
        seconds = median_seconds(lambda: list(problem.predict(theta, slice(0, 1), "test")), asked["device"])
        return {"seconds": seconds, "images": asked["images"]}

    for precision, tf32 in FAST:
        for stretch in (500, 1_000, 2_500, 10_000):
            how = {"precision": precision, "tf32": tf32, "stretch": stretch}
            yield how, functools.partial(predicted, **how)


def memory(asked: Mapping[str, Any]) -> Iterator[Case]:
    """The errors and their causes; what is asked last is whether this process can go on."""

    def starved(at: int) -> dict[str, Any]:
        loop = looped(asked, precision="float32", batch=512 if asked["device"] != "cpu" else 4)
        for _ in range(at):
            loop.advance_block()
        with no_memory(asked["device"]):
            try:
                warm_up(loop, asked["device"])
            except Exception as error:  # noqa: BLE001 - it is what is asked for
                return {"ended": causes(error)}
        return {"ended": []}

    yield {"when": "first step"}, lambda: starved(0)
    yield {"when": "recording"}, lambda: starved(3)
    yield {"when": "afterwards"}, lambda: rounds_of(looped(asked, precision="float32"), {**asked, "steps": 1}, 1)


@contextlib.contextmanager
def no_memory(device: str) -> Iterator[None]:
    """50 MB more memory than what is reserved now; a CPU has as much as before."""
    import torch

    if device == "cpu":
        yield
        return
    wait(device)
    torch.cuda.empty_cache()
    most = torch.cuda.memory_reserved() + 50e6
    torch.cuda.set_per_process_memory_fraction(most / torch.cuda.get_device_properties(device).total_memory)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def causes(error: BaseException | None) -> list[str]:
    values = []
    while error is not None:
        values.append(f"{type(error).__module__}.{type(error).__qualname__}: {error}"[:300])
        error = error.__cause__ or error.__context__
    return values


def chains(asked: Mapping[str, Any]) -> Iterator[Case]:
    few, many = min(1_000, asked["chains"]), asked["chains"]
    for sampler, mode, count in (
        ("sgld", "compiled", many), ("sgld", "compiled", few), ("sghmc", "compiled", few), ("hmc", "compiled", few),
        ("sgld", "plain", few),
    ):  # fmt: skip
        how = {"library": "bench", "sampler": sampler, "mode": mode, "chains": count, "dtype": "float64"}
        yield how, functools.partial(ours, asked, sampler, mode, count)


def ours(asked: Mapping[str, Any], sampler: str, mode: str, count: int) -> dict[str, Any]:
    """Microseconds of a step of all chains, none of whose draws is kept."""
    from harness.contracts.randomness import Streams
    from harness.contracts.registry import load, registry
    from harness.engine.loop import Loop
    from plugins.schedules.constant import Constant

    device, most = asked["device"], 50 * asked["steps"]
    began = time.perf_counter()
    set_up(device, mode, tf32=False)
    task = load(registry().find("tasks", "mixture25").info.target)(noise=0.0)
    trajectory = Constant(step_size=0.02).trajectory(100 + 2 * most, task.steps_per_epoch())
    moving = load(registry().find("samplers", sampler).info.target)()
    loop = Loop(
        task, moving, trajectory.with_burn_in(len(trajectory) - 1), [Streams(0, c) for c in range(count)], count,
        mode=mode if device != "cpu" else "plain", device=device,
    )  # fmt: skip
    while loop.position < 100:
        loop.advance_block()
    wait(device)
    ready, began, first = time.perf_counter() - began, time.perf_counter(), loop.position
    while loop.position < first + most and not loop.finished:
        loop.advance_block()
    wait(device)
    done = loop.position - first
    seconds = (time.perf_counter() - began) / done
    finite = bool(loop.theta.isfinite().all())
    return {"us_a_step": 1e6 * seconds, "steps": done, "ready": round(ready, 2), "finite": finite}


def blackjax(asked: Mapping[str, Any]) -> Iterator[Case]:
    for dtype in ("float32", "float64"):
        for form in ("vmap", "one position"):
            for count in dict.fromkeys((min(1_000, asked["chains"]), asked["chains"])):
                how = {"library": "blackjax", "sampler": "sgld", "form": form, "chains": count, "dtype": dtype}
                yield how, functools.partial(theirs, asked, form, count, dtype)


def theirs(asked: Mapping[str, Any], form: str, count: int, dtype: str) -> dict[str, Any]:
    """A jitted scan over the steps, under vmap or of one position; the analytic gradient, and no state kept."""
    os.environ |= {"JAX_PLATFORMS": asked["device"].partition(":")[0], "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    import blackjax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", dtype == "float64")
    means = jnp.array([[x, y] for x in MEANS for y in MEANS], dtype=dtype)

    def score(x: Any, _: Any) -> Any:
        away = means - x
        return (jax.nn.softmax(-0.5 * (away**2).sum(-1) / VARIANCE)[:, None] * away).sum(0) / VARIANCE

    together = form == "one position"
    kernel = blackjax.sgld(jax.vmap(score, in_axes=(0, None)) if together else score)
    h, most = jnp.asarray(1e-3, dtype), 40 * asked["steps"]

    def scan(key: Any, x: Any) -> Any:
        return jax.lax.scan(lambda x, k: (kernel.step(k, x, None, h), None), x, jax.random.split(key, most))[0]

    run = jax.jit(scan if together else lambda key, x: jax.vmap(scan)(jax.random.split(key, count), x))
    x = run(jax.random.key(0), jnp.zeros((count, 2), dtype)).block_until_ready()
    began = time.perf_counter()
    x = run(jax.random.key(1), x).block_until_ready()
    seconds = (time.perf_counter() - began) / most
    return {"us_a_step": 1e6 * seconds, "steps": most, "finite": bool(jnp.isfinite(x).all())}


BLOCKS = {block.__name__: block for block in (ready, steps, network, profile, rows, predict, memory, chains, blackjax)}


def set_up(device: str, mode: str, *, tf32: bool) -> None:
    """Torch's flags as those of a worker."""
    import torch

    from harness.results.spec import Execution
    from harness.runs import job

    torch.set_num_threads(1)
    kind = device.partition(":")[0]
    job.set_up(Execution(device=kind, dtype="float32", compile=mode, tf32=tf32), device)


def looped(asked: Mapping[str, Any], **how: Any) -> Any:
    """The harness's loop on ResNet-18, as a worker has it, and images that are noise."""
    import networks

    how = {"tf32": False, "mode": "compiled", "batch": 64, "chains": 1, **how}
    set_up(asked["device"], how["mode"], tf32=how["tf32"])
    small = {"mode": "plain", "batch": min(how["batch"], 8)} if asked["device"] == "cpu" else {}
    loop, _ = networks.looped("msgld", {"width": asked["width"], **how, **small}, asked["device"])
    return loop


@contextlib.contextmanager
def memory_order(*, last: bool) -> Iterator[None]:
    """Inputs and kernels with channels last, as the harness has them, or first."""
    from harness.contracts import module
    from tasks.vision import cifar

    kept = module._module_shape, cifar.normalise
    if not last:
        module._module_shape = lambda piece, shape: kept[0](piece, shape).contiguous()
        cifar.normalise = lambda *images: kept[1](*images).contiguous()
    try:
        yield
    finally:
        module._module_shape, cifar.normalise = kept


def median_seconds(act: Callable[[], Any], device: str, times: int = 5) -> float:
    seconds = []
    for _ in range(2 + times):
        wait(device)
        began = time.perf_counter()
        act()
        wait(device)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[2:])


def warm_up(loop: Any, device: str) -> None:
    for _ in range(WARM if device != "cpu" else 1):
        loop.advance_block()
    wait(device)


def wait(device: str) -> None:
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
