"""The floor: the errors of the averages of n independent draws from the target itself.

The average of f over n of them has mean E f and variance Var f / n, so n b2_f has mean 1 for every f and n. Jointly the
errors times the root of n have the correlations of the functions f, and by the central limit theorem they are normal,
N(0, Gamma), for n of a hundred or more. So in the figures and tables of errors

    typical chain  median of max over directions of b2, the worse of z and z^2:      c / n
    joint error    E max over all f of the mean of b2 over R chains:                 c_R / n
                   its standard deviation over sets of R chains:                     s_R / n

and the constants, which do not depend on n, are computed from random G ~ N(0, Gamma).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness import BenchError
from harness.reports import Group, Request
from harness.tasks import quantile_levels
from reports.figures.parts import Array, settings_of, task_of

DRAWS = 5_000
"""Exact draws from which Gamma is estimated, with correlations accurate to 0.014."""
REPLICATES = 4_000
"""Random G: they give the constant of the typical chain to about 2 %, and that of 40 chains to 2 %."""
SETS = 400
"""Sets of chains: they give the standard deviation of their joint errors to 4 %."""
CELLS = 20_000_000
UNIQUE = 1e-6
"""Added to the variances: where functions depend on each other, the root of Gamma, and so the random G, would otherwise
be that of rounding, and another one on another processor."""


@dataclass(frozen=True, eq=False)
class ExactDraws:
    """The squares of the errors of `REPLICATES` chains of exact draws, times the number of draws: (REPLICATES, F).

    The first `directions` are for z, as many for z^2, and the rest for the indicators of the truth's quantiles.
    """

    squares: Array
    directions: int

    @property
    def typical(self) -> float:
        """n times the median of a chain's b2 in its worst direction, the worse of z and z^2."""
        k = self.directions
        return max(float(np.median(part.max(axis=1))) for part in (self.squares[:, :k], self.squares[:, k : 2 * k]))

    def joint(self, chains: int) -> float:
        """Return n times the expected joint error over `chains` chains."""
        size = min(chains, len(self.squares))
        groups = self.squares[: len(self.squares) // size * size].reshape(-1, size, self.squares.shape[1])
        return float(groups.mean(axis=1).max(axis=1).mean())

    def joint_sd(self, chains: int) -> float:
        """Return n times the standard deviation of the joint error of `chains` chains, drawn with replacement."""
        rng = np.random.default_rng(0)
        sets = (rng.integers(len(self.squares), size=chains) for _ in range(SETS))
        return float(np.std([self.squares[rows].mean(axis=0).max() for rows in sets]))


def exact_draws(truth: Any, draws: Array) -> ExactDraws:
    """Return the exact draws of a truth, with correlations from draws (n, D)."""
    rng = np.random.default_rng(0)
    z = (draws - truth.mean) @ truth.directions.T
    parts = [z, (z - z.mean(axis=0)) ** 2]
    if truth.quantiles is not None:
        cuts = np.quantile(z, quantile_levels(), axis=0)
        parts.append((z[:, None, :] <= cuts).reshape(len(z), -1).astype(np.float64))
    functions = np.concatenate(parts, axis=1)
    functions -= functions.mean(axis=0)
    functions /= np.linalg.norm(functions, axis=0)
    gamma = functions.T @ functions + UNIQUE * np.eye(functions.shape[1])
    root = np.linalg.cholesky(gamma)
    return ExactDraws((rng.standard_normal((REPLICATES, len(root))) @ root.T) ** 2, z.shape[1])


def floor(group: Group, request: Request) -> ExactDraws | str:
    """Return the exact draws of a group's task, or the reason why there are none.

    If the task has no `sample`, the correlations are those of a normal law with the truth's covariance.
    """
    made_of = group.task, json.dumps(settings_of(group, "task."), sort_keys=True, default=str)
    return request.once(("exact draws", *made_of), lambda: _floor(group, request))


def _floor(group: Group, request: Request) -> ExactDraws | str:
    try:
        task = task_of(group, request)
        truth = task.truth()
    except BenchError as error:
        return f"no floor of exact draws: {error}"
    if truth is None:
        return "no floor of exact draws: the task states no truth of its own"
    rng = np.random.default_rng(0)
    count = int(min(DRAWS, CELLS / (len(truth.directions) * 42)))
    if hasattr(task, "sample"):
        return exact_draws(truth, np.asarray(task.sample(count, rng), dtype=np.float64))
    return exact_draws(truth, rng.multivariate_normal(truth.mean, truth.covariance, count))
