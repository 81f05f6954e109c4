"""SGLD on mixture25 as a plain torch loop: what `harness.engine.loop` is measured against.

Noise is drawn ahead, 1,000 steps at a time, by the harness's own generators. Forms: "same arithmetic" asks the task for
its gradient and writes out the sampler's step, so that its draws are the harness's to the bit; "by hand" is the
shortest loop that one would write for this target alone.
"""

from __future__ import annotations

from typing import Any

from serving import Work, serve
from setting import Case
from targets import step_size, streams, task_of

STEPS = 1_000


def prepare(case: Case) -> Work:
    import torch

    from harness.contracts.randomness import ChainNoise, Slot, noise_generators

    torch.set_num_threads(1)
    generators = noise_generators(streams(case), "cpu", torch.float64)
    noise = ChainNoise(generators, [Slot("normal", (2,), torch.float64)])
    problem = task_of(case.task).build(streams(case), "cpu")
    carry: dict[str, Any] = {"theta": problem.initial()}
    loop = by_hand(case) if case.form == "by hand" else same(problem, step_size(case))

    def advance() -> Any:
        with torch.no_grad():
            (xi,) = noise.draw(STEPS, heated=True)
            carry["theta"], kept = loop(carry["theta"], xi)
        return torch.stack(kept)

    return Work(STEPS * case.chains, advance)


def same(problem: Any, step: float) -> Any:
    """The operations of `plugins.samplers.sgld` on the task's own gradient."""
    import torch

    h, T = torch.full((STEPS,), step, dtype=torch.float64), torch.ones(STEPS, dtype=torch.float64)

    def loop(theta: Any, xi: Any) -> tuple[Any, list[Any]]:
        kept = []
        for h_k, T_k, xi_k in zip(h.unbind(0), T.unbind(0), xi.unbind(0), strict=True):
            variance = 2 * h_k * T_k - h_k * h_k * 0.0
            theta = theta - h_k * problem.gradient(theta, None) + variance.clamp(min=0).sqrt() * xi_k
            kept.append(theta)
        return theta, kept

    return loop


def by_hand(case: Case) -> Any:
    """Constants folded, one fused expression for the responsibilities."""
    import torch

    task = task_of(case.task)
    mu, precision, step = torch.from_numpy(task.means), 1 / task.variance, step_size(case)
    pull, offset = mu.T.contiguous() * precision, -mu.square().sum(1) * precision / 2

    def loop(theta: Any, xi: Any) -> tuple[Any, list[Any]]:
        kept = []
        for kick in (xi * (2 * step) ** 0.5).unbind(0):
            share = torch.addmm(offset, theta, pull).softmax(1)
            theta = theta * (1 - step * precision) + step * (share @ pull.T) + kick
            kept.append(theta)
        return theta, kept

    return loop


if __name__ == "__main__":
    serve(prepare)
