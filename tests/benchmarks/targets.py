"""The targets by task name: how the task is set, its step sizes, and the law that draws are checked against.

Imports no torch and no jax.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from setting import BATCH, FRICTION, LEAPFROG, Case

Array = np.ndarray
STEP_SIZES = {"sgld": 0.01, "msgld": 0.01, "sghmc": 1e-4, "hmc": 0.01}
"""h on mixture25. sghmc's is small because the peers move by the old velocity, which is accurate for h lambda << alpha
only; hmc's leapfrog step is sqrt(h)."""

SCALED = {"sgld": 0.2, "sghmc": 0.003, "hmc": 0.1, "mclmc": 0.1}
"""h times the largest curvature of U: a tenth of sgld's limit; for sghmc below the friction, as above."""

WITHIN = {"sgld": 1.2, "msgld": 1.162, "sghmc": 1.0, "hmc": 1.0}
"""Variance within a mode over 0.03, in the stationary law at that h: 1 / (1 - h lambda / 2) for sgld."""

TOLERANCE = 0.15
"""Of a variance: the largest logarithm of its ratio to the one that it should be."""

MEAN_TOLERANCE = 0.5
"""Largest error of a mean, chains pooled, in sds of the posterior."""

GRADIENTS = {"hmc": LEAPFROG, "mclmc": 2}
"""Of a step, where it is more than one."""

SAMPLERS = {"sghmc": {"friction": FRICTION}, "mclmc": {"friction": FRICTION}, "hmc": {"leapfrog": LEAPFROG}}
"""Settings of samplers that have any."""


@dataclass(frozen=True)
class Target:
    """A task as it is measured.

    settings  of the task
    work      of a step on a batch, in units of a step on mixture25, about: how many steps a call of a peer has
    law       draws (B, C, D) -> a check, or None: the task has no law that so short a run reaches
    scaled    h times the largest curvature, by method; None: `STEP_SIZES`
    takes     what a gradient on all rows takes at least, by operations of `limits`
    checked   chain-steps of one gradient that the check looks at, at least: enough for the slowest method, one chain
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    work: float = 1.0
    law: Callable[[Any, Case, Array], dict[str, object]] | None = None
    scaled: Mapping[str, float] | None = field(default_factory=lambda: SCALED)
    checked: int = 6_000
    takes: Mapping[str, int] = field(default_factory=dict)


def within_modes(task: Any, case: Case, draws: Array) -> dict[str, object]:
    """The variance around the nearest mode."""
    flat = draws.reshape(-1, 2)[:: max(1, draws.size // 400_000)]
    squared = ((flat[:, None] - task.means) ** 2).sum(-1).min(-1)
    return of_variance("within_mode_variance", squared.mean() / 2 / task.variance, WITHIN[case.method])


def of_variance(what: str, ratio: float, wanted: float) -> dict[str, object]:
    right = abs(math.log(ratio / wanted)) < TOLERANCE
    return {"what": what, "value": float(ratio), "wanted": wanted, "right": right}


def means(task: Any, _: Case, draws: Array) -> dict[str, object]:
    """The largest error of a mean, in sds of the posterior."""
    import torch

    truth, flat = task.truth(), draws.reshape(-1, draws.shape[-1]).astype(float)
    if truth is None:
        truth, flat = task.function_truth(), task.judged(torch.from_numpy(flat)).numpy()
    worst = float(np.abs((flat.mean(axis=0) - truth.mean) / truth.sd).max())
    return {"what": "mean_error", "value": worst, "wanted": 0.0, "right": worst < MEAN_TOLERANCE}


def stiffest_variance(task: Any, case: Case, draws: Array) -> dict[str, object]:
    """The variance of a Gaussian along its stiffest direction: the others take longer than a check."""
    values, vectors = np.linalg.eigh(task.truth().covariance)
    x = h_times(case) if case.method == "sgld" else 0.0
    return of_variance("stiffest_variance", np.square(draws @ vectors[:, 0]).mean() / values[0], 1 / (1 - x / 2))


TARGETS = {
    "mixture25": Target({"noise": 0.0}, 1, within_modes, None),
    "blr-german": Target({"batch": BATCH}, 25, means, {"sgld": 0.2, "sghmc": 0.01}),
    "gaussian": Target({"noise": 0.0}, 10, stiffest_variance, checked=200_000),
    "blr-a9a": Target({"batch": 100}, 250),
    "flights": Target({"batch": 500}, 540),
    # The curvature at a draw is up to ten times the median, which `curvature` is.
    "pdb-eight-schools-noncentered": Target({}, 10, means, {name: x / 10 for name, x in SCALED.items()}, 500_000),
    "pdb-nes1980": Target({}, 150, means, checked=200_000),
    "lda-reuters": Target({"batch": 50}, 60_000),
    # Eight units on 48 rows, which are filled up to 64.
    "tiny-bnn": Target({"batch": 12}, 10, takes={"exponentials": 8 * 64}),
}


@functools.cache
def task_of(name: str) -> Any:
    """The task as it is measured."""
    from harness.contracts.registry import load, registry

    return load(registry().find("tasks", name).info.target)(**TARGETS[name].settings)


def full_batch(name: str) -> Any:
    """The task on all its rows, for samplers of full gradients."""
    import dataclasses

    task = task_of(name)
    return dataclasses.replace(task, batch=None) if getattr(task, "batch", None) else task


def sampler_of(method: str) -> Any:
    from harness.contracts.registry import load, registry

    return load(registry().find("samplers", method).info.target)(**SAMPLERS.get(method, {}))


def h_times(case: Case) -> float:
    """h times the largest curvature."""
    scaled = TARGETS[case.task].scaled
    return scaled[case.method] if scaled else STEP_SIZES[case.method] * task_of(case.task).curvature()


def step_size(case: Case) -> float:
    if TARGETS[case.task].scaled is None:
        return STEP_SIZES[case.method]
    return h_times(case) / float(task_of(case.task).curvature())


CHECKED_STEPS = 2_000
"""Steps of each chain that a check looks at, at least, after as many of the approach. HMC on mixture25 needs them: its
trajectories turn almost once around a mode, so it forgets little in a step.
"""


def streams(case: Case) -> list[Any]:
    """The random streams of the case's chains."""
    from harness.contracts.randomness import Streams

    return [Streams(0, chain, (case.task,)) for chain in range(case.chains)]


def start(case: Case) -> Array:
    """The starting points (C, D) of ours, for a peer."""
    from harness.contracts.density import starts

    return np.asarray(starts(task_of(case.task), streams(case), "cpu").numpy().astype(case.dtype))


def checked(case: Case) -> int:
    """The chain-steps that a check looks at, at least; 0 where there is no law to check."""
    target = TARGETS[case.task]
    least = max(target.checked // GRADIENTS.get(case.method, 1), CHECKED_STEPS * case.chains)
    return least if target.law else 0


def check(case: Case, draws: Array) -> dict[str, object]:
    """Whether draws (B, C, D) are from the law that they should be from: {"what", "value", "wanted", "right"}."""
    law = TARGETS[case.task].law
    assert law is not None, f"{case.task} has no law to check"
    return law(task_of(case.task), case, draws)
