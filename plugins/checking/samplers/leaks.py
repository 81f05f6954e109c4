"""Law 7: a step changes neither its arguments nor earlier draws, and chains do not affect each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from harness import Sampler
from harness.engine import Block, Loop, StepNoise
from plugins.checking.gaussian import Batch, GaussianTask
from plugins.checking.law import Broken, Law, fingerprint, same, streams, trajectory, varying

TASK = GaussianTask(variance=0.5)
CHAINS = 4
STEPS = 12
AT = 4
"""Index of the step (the fifth) at which a chain is disturbed; adaptation continues until the eighth."""

VICTIM = 1


def check(sampler: Sampler) -> None:
    """Check the arguments, the draws, a chain that is moved, and a chain that becomes NaN."""
    _check_arguments_unchanged(sampler)
    undisturbed = _walk(sampler)
    _check_others_unchanged(undisturbed, _walk(sampler, lambda theta, _: theta[VICTIM].add_(0.125)), "is moved")
    _check_stays_nan(undisturbed, _walk(sampler, lambda theta, _: theta[VICTIM].fill_(torch.nan)), "position")
    if sampler.gradients_per_step:
        _check_stays_nan(undisturbed, _walk(sampler, _lose_gradients), "gradient")


def _lose_gradients(_: Tensor, batch: Batch) -> None:
    for slope in batch.values():
        slope[VICTIM] = torch.nan


def _start(sampler: Sampler) -> Loop:
    path = trajectory(varying(sampler, TASK, STEPS), 1.0, burn_in=8)
    return Loop(TASK, sampler, path, streams(CHAINS), CHAINS // 2)


def _walk(sampler: Sampler, disturb: Callable[[Tensor, Batch], object] | None = None) -> list[Tensor]:
    """Return the draw of every step; `disturb` writes into position and slopes of step AT."""
    running = _start(sampler)
    stage = running.stage
    noise = stage.noise.draw(STEPS, heated=True)
    batches = stage.potential.draw_batches(STEPS)
    theta, state = running.theta, running.state
    draws: list[Tensor] = []
    for k in range(STEPS):
        batch = {name: leaf[k].clone() for name, leaf in batches.items()}
        if disturb is not None and k == AT:
            theta = theta.clone()
            disturb(theta, batch)
        block = Block(
            h=stage.h[k : k + 1], T=stage.T[k : k + 1], slots=stage.noise.slots,
            noise=[slot[k : k + 1] for slot in noise], batches={name: leaf[None] for name, leaf in batch.items()},
            keep=np.ones(1, dtype=bool), adapt=bool(running.trajectory.burn_in[k]),
        )  # fmt: skip
        with torch.no_grad():
            done = stage.stepper.advance(theta, state, block)
        theta, state = done.theta, done.state
        draws += done.draws
    return draws


def _check_arguments_unchanged(sampler: Sampler) -> None:
    running = _start(sampler)
    stage = running.stage
    noise = stage.noise.draw(2, heated=True)
    batches = stage.potential.draw_batches(2)
    theta, state = running.theta, running.state
    for k in range(2):
        handed = StepNoise(stage.noise.slots)
        handed.start([slot[k] for slot in noise])
        stage.potential.bind({name: leaf[k] for name, leaf in batches.items()})
        inputs = {"theta": theta, "h": stage.h, "T": stage.T, "the batch": torch.stack(list(batches.values()))}
        inputs |= {f"state {name!r}": leaf for name, leaf in state.items()}
        inputs |= {"noise": torch.cat([slot.flatten() for slot in noise])} if noise else {}
        before = {name: fingerprint([leaf]) for name, leaf in inputs.items()}
        keys = list(state)
        with torch.no_grad():
            theta, stepped = sampler.step(theta, state, stage.potential, stage.h[k], stage.T[k], handed)
            middle = {name: fingerprint([leaf]) for name, leaf in stepped.items()}
            adapted = sampler.adapt(stepped, stage.h[k], stage.T[k])
        if noise:
            inputs["noise"] = torch.cat([slot.flatten() for slot in noise])
        for name, leaf in inputs.items():
            if fingerprint([leaf]) != before[name]:
                raise Broken(f"step writes into {name}, which it was given to read")
        if list(state) != keys:
            raise Broken("step adds or removes entries of the state dict that it was given")
        for name, was in middle.items():
            if fingerprint([stepped[name]]) != was:
                raise Broken(f"adapt writes into state {name!r}, which it was given to read")
        state = adapted


def _check_others_unchanged(undisturbed: list[Tensor], disturbed: list[Tensor], what: str) -> None:
    others = [c for c in range(CHAINS) if c != VICTIM]
    for k, (one, other) in enumerate(zip(undisturbed, disturbed, strict=True)):
        if not same(one[others], other[others]):
            gap = (one[others] - other[others]).abs().max().item()
            raise Broken(f"when chain {VICTIM} {what} at step {AT + 1}, another is off by {gap:.2g} at step {k + 1}")


def _check_stays_nan(undisturbed: list[Tensor], disturbed: list[Tensor], where: str) -> None:
    _check_others_unchanged(undisturbed, disturbed, f"gets a NaN in its {where}")
    for k in range(AT + 1, STEPS):
        if bool(torch.isfinite(disturbed[k][VICTIM]).all()):
            raise Broken(
                f"a chain with a NaN in its {where} at step {AT + 1} is finite again at step {k + 1}; a comparison "
                "with NaN is false, so a step that chooses adds "
                "`| ~moved.isfinite().all(1, keepdim=True)` to its choice"
            )


LAW = Law(
    7, "no-leaks", check,
    "an in-place operation (name_, +=, out=), torch.randn instead of `noise`, a mean over the chains, or nan_to_num",
    exemptible=False,
)  # fmt: skip
