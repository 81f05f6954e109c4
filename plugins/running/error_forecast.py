"""The joint error that a linear sampler will have on a task with a truth, from its equations: `bench plan --forecast`.

Take the target as normal with the truth's covariance S, and the noise of stochastic gradients as that at the truth's
mean. Along a principal axis of S, of sd s, the step of a linear sampler is z <- A z + B xi + G b (`harness.linear`). So
the stationary covariance P is known, and with K draws of a chain, each `thin` steps after the one before,

    rho_k = (A^(k thin) P)_00 / P_00,   r = P_00 / s^2
    b2_z  = r mean of rho_|j - k|,   b2_z2 = (r - 1)^2 / 2 + r^2 mean of rho_|j - k|^2,   j and k from 1 to K

The forecast is the largest of these over axes, at the mean step size and temperature of the draws. It leaves out
quantiles, other directions, the approach from the start, and the order of minibatches, whose noise is taken as
independent (shuffled ones have less). arXiv 2606.00293 predicts covariance and autocorrelation of SGD in this way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness import linear
from harness.runs import instance, plugin_metadata
from reports.orderings import gradient_noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness import Sampler
    from harness.results import RunSpec
    from harness.tasks import Task

    Array = NDArray[Any]

LOW = 0.01
"""The joint error whose cost is asked for: that of 100 exact draws."""


class Forecast(NamedTuple):
    """The joint error at the end of a run, and the steps, burn-in included, after which it is LOW; inf: never."""

    error: float
    steps: float


def of_run(spec: RunSpec, *_: object) -> Forecast | None:
    """Return the forecast of a run, or None: no truth, gradients of another kind, or a sampler that is not linear."""
    task: Task = instance(spec.task.target, spec.task.params)
    truth = task.truth()
    if truth is None:
        return None
    run = plugin_metadata.parts(spec, task.steps_per_epoch())
    sampler, path = run.sampler, run.trajectory
    kept = np.flatnonzero(path.keep)
    if len(kept) < 2:
        return None
    h, T = float(path.step_size[kept].mean()), float(path.temperature[kept].mean())
    variances, axes = np.linalg.eigh(truth.covariance)
    noise = gradient_noise(task, truth.mean)
    along = ((axes.T @ noise) * axes.T).sum(axis=1)
    thin = max(1, round((kept[-1] - kept[0]) / (len(kept) - 1)))
    return of_axes(sampler, h, T, variances, along, thin, len(kept), len(path))


def of_axes(
    sampler: Sampler, h: float, T: float, variances: Sequence[float] | Array, noise: Sequence[float] | Array,
    thin: int, kept: int, steps: int,
) -> Forecast | None:  # fmt: skip
    """Return the forecast from the variance of the target and of the gradient's noise along each axis."""
    if sampler.needs - linear.QuadraticPotential.provides or sampler.adaptive:
        return None
    functions: list[tuple[float, float, Array, Array]] = []
    for variance, of_gradient in zip(variances, noise, strict=True):
        step = linear.derive(sampler, h, T, (1 / variance,))
        P = step.stationary(of_gradient)
        if P is None:
            return None
        A, r = np.linalg.matrix_power(step.A, thin), float(P[0, 0] / variance)
        functions.append((0.0, r, A, P))
        functions.append(((r - 1) ** 2 / 2, r**2, np.kron(A, A), np.kron(P, P)))

    def error(draws: int) -> float:
        return max(bias + size * variance_of_mean(A, P, draws) for bias, size, A, P in functions)

    if max(bias for bias, *_ in functions) >= LOW:
        return Forecast(error(kept), math.inf)
    low, high = 1, 1
    while error(high) > LOW:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if error(middle) > LOW else (low, middle)
    return Forecast(error(kept), steps + (high - kept) * thin)


def variance_of_mean(A: Array, P: Array, draws: int) -> float:
    """Return the variance of the mean of K draws of a stationary chain over that of one: the mean of rho_|j - k|.

    rho_k = (A^k P)_00 / P_00. With A (x) A and P (x) P it is that of the squares, whose correlations are rho_k^2.

        sum over |k| < K of (1 - |k| / K) rho_k / K,   where sum over k < K of (K - k) A^k is a block of M^(K + 1)

    M = [[A, I, 0], [0, I, I], [0, 0, I]]. Nothing is subtracted or inverted, so A may be as near to I as it likes.
    """
    n, one = len(A), np.eye(len(A))
    M = np.block([[A, one, 0 * one], [0 * one, one, one], [0 * one, 0 * one, one]])
    total = np.linalg.matrix_power(M, draws + 1)[:n, 2 * n :]
    return float(2 * (total @ P)[0, 0] / (draws * P[0, 0]) - 1) / draws
