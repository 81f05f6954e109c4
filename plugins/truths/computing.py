"""The moments of a task's target by long HMC, in a worker process.

Pilot runs find the covariance; the last run uses coordinates in which the covariance is the identity, so that
correlations and scales do not slow it down. A linear change of coordinates leaves HMC exact. Where the chains of the
first pilot run do not agree, they start at modes, in the coordinates of the Laplace approximation (`modes`).

With `LARGE` terms or more there are no pilot runs: the log likelihood is close to its quadratic expansion at the mode,
so this takes its place in the leapfrog steps, beside the prior. These are reversible and preserve volume with any
gradient, and U on all the data decides on every proposal, so the chains are exact, at one look at the data a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import beta
from torch import Tensor

from harness import RunError, Sampler, UsageError, diagnostics
from harness.contracts import plugin_code
from harness.results import Send
from harness.runs import Job, instance, prepare, truths
from harness.tasks import (
    MOMENT_METRICS,
    DataTask,
    DensityTask,
    Observer,
    Problem,
    Reference,
    Streams,
    Task,
    Truth,
    quantile_levels,
)
from plugins.truths import tempering
from plugins.truths.modes import laplace
from plugins.truths.reference import ESS_LIMIT, SEED, Array, compute_functions, hmc_draws, quality, truth_record

MOMENTS = {metric.name for metric in MOMENT_METRICS}
CHAINS, BURN_IN = 16, 500
PILOTS, PILOT_STEPS = 3, 400
"""Half of the steps of a pilot run are burn-in."""
AGREED = 1.1
"""R-hat of the first pilot run above which it is repeated from modes; the run of the smaller R-hat counts."""
SAMPLER = {"leapfrog": 8, "jitter": 0.5, "acceptance": 0.8}
LARGE = 100_000
AT_MODE = {"leapfrog": 6, "jitter": 0.4, "acceptance": 0.93}
FIRST, SPREAD = 0.25, 2.0
"""The step size h of the first step at a mode, and the sd of the starting points in units of the approximation's."""
ACCEPTANCE = (0.5, 0.98)
"""Limits for every chain: below, it hardly moves; above, the step size was not adapted."""
SMALL = 1e-4
"""Width of the difference quotient that is compared with the gradient; its error is about the square of this."""
NEAR = 0.01
"""Distance from a starting point with gradient 0 at which the two are compared."""
ROUNDING = 1e-6
"""Allowed error of the quotient, per unit of the energy, if the gradient is near 0."""


class Whitened(Problem):
    """U(mean + R z) of a problem, on all the data, as a function of z; chains start at `start` (C, D) if given.

    With `at_mode` the gradient is that of a posterior whose likelihood is replaced by its quadratic expansion around
    `mean`, where R is a root of the inverse Hessian: z + R' (g(theta) - g(mean) - G (theta - mean)), with the gradient
    g and the Hessian G at `mean` of -log p(theta).
    """

    def __init__(self, inner: Problem, mean: Array, root: Array, start: Array | None = None, *, at_mode: bool) -> None:
        self.inner, self.dim, self.at_mode = inner, inner.dim, at_mode
        self.mean, self.root = torch.from_numpy(mean), torch.from_numpy(root)
        self.start = inner.initial() if start is None else torch.from_numpy(start)
        if at_mode:
            prior = inner.task.prior_gradient  # type: ignore[attr-defined]
            steps = SMALL * torch.eye(inner.dim, dtype=torch.float64)
            self.at_mean = prior(self.mean[None])
            self.prior_hessian = (prior(self.mean + steps) - prior(self.mean - steps)) / (2 * SMALL)

    def expanded(self, z: Tensor) -> Tensor:
        """Return the gradient (C, D) in z with the quadratic expansion of the likelihood."""
        off = z @ self.root.T
        prior = self.inner.task.prior_gradient(self.mean + off)  # type: ignore[attr-defined]
        return z + (prior - self.at_mean - off @ self.prior_hessian) @ self.root

    def initial(self) -> Tensor:
        """Return the starting points, as z."""
        return torch.linalg.solve_triangular(self.root, (self.start - self.mean).T, upper=False).T

    def energy(self, theta: Tensor, batch: Mapping[str, Tensor] | None) -> Tensor:
        """Return U (C,) on all the data."""
        return self.inner.energy(self.mean + theta @ self.root.T, None)

    def energy_and_gradient(self, theta: Tensor, batch: Mapping[str, Tensor] | None) -> tuple[Tensor, Tensor]:
        """Return U (C,) and the gradient (C, D)."""
        if self.at_mode:
            return self.energy(theta, None), self.expanded(theta)
        energy, gradient = self.inner.energy_and_gradient(self.mean + theta @ self.root.T, None)
        return energy, gradient @ self.root

    def gradient(self, theta: Tensor, batch: Mapping[str, Tensor] | None) -> Tensor:
        """Return R' grad U (C, D), or its expansion."""
        if self.at_mode:
            return self.expanded(theta)
        return self.inner.gradient(self.mean + theta @ self.root.T, None) @ self.root

    def observer(self, *_: Any) -> Observer:
        """Raise `NotImplementedError`: the draws are recorded without an observer."""
        raise NotImplementedError


def whitened(task: Task, mean: Array, root: Array, start: Array | None = None, *, at_mode: bool = False) -> Task:
    """Return the task in the coordinates z of theta = mean + R z, in float64; for the rest see `Whitened`."""
    cls: Any = type(task)

    def build(self: Any, streams: Sequence[Streams], device: str) -> Problem:
        return Whitened(cls.build(self, streams, device), mean, root, start, at_mode=at_mode)

    changed = type(cls.__name__, (cls,), {"dtype": "float64", "build": build})
    return changed(**{f.name: getattr(task, f.name) for f in fields(task)})


def compute(job: Job, draws: int, send: Send) -> dict[str, Any]:
    """Return the record that `Truth.of_record` reads, or for a network's `functions` that of `Reference.of_record`.

    The truth of a task that has `judged` functions is that of these functions.

    Raise `UsageError` if the task states a truth or has no gradient, and `RunError` if the chains do not agree.
    """
    prepare(job)
    spec = job.specs[0]
    name = spec.task.name
    task: Task = instance(spec.task.target, spec.task.params)
    refuse(name, task, spec.task.params)
    mean, root = np.zeros(task.dim()), np.eye(task.dim())
    with plugin_code(f"{name}: its energy on all the data cannot be evaluated"):
        check_gradient(name, whitened(task, mean, root))
    judged = getattr(task, "judged", None)
    if type(task).functions is not Task.functions and judged is None:
        record = compute_functions(spec, task, draws, send)
        if task.dim() > tempering.LARGEST or Reference.of_record({"task": name, **record}).refused:
            return record
        return {**record, "tempering": tempering.tempered_functions(task, draws, send)}
    way = route(task)

    def quantities(theta: Array) -> Array:
        if judged is None:
            return theta
        values: Array = judged(torch.from_numpy(theta.reshape(-1, theta.shape[2]))).numpy()
        return values.reshape(*theta.shape[:2], -1)

    qualities = {}

    def enough(theta: Array) -> bool:
        reached = qualities[len(theta)] = quality(quantities(theta))
        if reached.too_few:
            send("say", {"text": f"effective size {reached.least:,.0f} of {ESS_LIMIT:,}: more draws"})
        return not reached.too_few

    theta = quantities(way.draws(name, task, instance(spec.sampler.target, way.sampler), draws, send, enough))
    stated, reached = {**way.sampler, **way.stated}, qualities.get(len(theta)) or quality(theta)
    try:
        record = {"command": f"bench truth {name}", **truth_record(theta, reached, name, stated, BURN_IN)}
    except RunError as error:
        raise RunError(f"{error}, by a larger --draws; nothing was stored") from None
    acceptance = (theta[1:] != theta[:-1]).any(axis=2).mean(axis=0)
    if acceptance.min() < ACCEPTANCE[0] or acceptance.max() > ACCEPTANCE[1]:
        raise RunError(
            f"{name}: a chain accepts {acceptance.min():.2f} and another {acceptance.max():.2f} of its proposals, "
            f"outside of {ACCEPTANCE[0]} to {ACCEPTANCE[1]}: the chains cannot be trusted, and nothing was stored"
        )
    return record | quantiles(theta)


def refuse(name: str, task: Task, given: Mapping[str, Any]) -> None:
    """Raise `UsageError` if a task states its truth, needs no moments, or has settings that may change its target."""
    known = task.truth() or task.function_reference()
    if known is not None and not (isinstance(known, Reference) and known.refused):
        raise UsageError(f"{name} states its truth itself ({known.how}); nothing was computed")
    if not {metric.name for metric in task.metrics} & MOMENTS and type(task).functions is Task.functions:
        raise UsageError(f"{name} has no metric that compares moments, so it has no use for a truth of them")
    for setting, kind in zip(truths.GRADIENTS_ONLY, (DataTask, DensityTask), strict=True):
        if setting in given and not isinstance(task, kind):
            raise UsageError(
                f"{name} is no harness.tasks.{kind.__name__}, of which alone task.{setting} is known to leave the "
                "target as it is: rename that setting"
            )


class Lengths(NamedTuple):
    """The numbers of chains, of steps of burn-in, of pilot runs, and of their steps, half of which are burn-in."""

    chains: int = CHAINS
    burn_in: int = BURN_IN
    pilots: int = PILOTS
    pilot_steps: int = PILOT_STEPS


Enough = Callable[[Array], bool]


def whitened_draws(
    name: str, task: Task, hmc: Sampler, draws: int, send: Send, enough: Enough = lambda _: True,
    lengths: Lengths = Lengths(),
) -> Array:  # fmt: skip
    """Return draws (n, C, D) of theta, by pilot runs and a last one of `draws` steps after its burn-in, or more."""
    dim, half, start, step_size = task.dim(), lengths.pilot_steps // 2, None, 1 / (task.curvature() or 1.0)
    mean, root = np.zeros(dim), np.eye(dim)

    def run(
        step_size: float, burn_in: int, draws: int, mean: Array, root: Array, start: Array | None,
        enough: Enough | None = None,
    ) -> Array:  # fmt: skip
        shown = whitened(task, mean, root, start)
        return hmc_draws(shown, hmc, step_size, chains=lengths.chains, burn_in=burn_in, draws=draws, enough=enough)

    for number in range(1, lengths.pilots + 1):
        send("say", {"text": f"pilot run {number} of {lengths.pilots}"})
        z = run(step_size, half, half, mean, root, start)
        if number == 1 and (rhat := largest_rhat(z)) > AGREED:
            send("say", {"text": f"the chains do not agree (R-hat {rhat:.2f}); looking for modes"})
            problem = whitened(task, mean, root).build([Streams(SEED, c) for c in range(lengths.chains)], "cpu")
            if (at := laplace(problem)) is not None:
                start = np.resize(at.modes, (lengths.chains, dim))
                again = run(1.0, half, half, at.mean, at.root, start)
                if largest_rhat(again) < rhat:
                    z, mean, root = again, at.mean, at.root
                else:
                    start = None
        start = None if start is None else mean + z[-1] @ root.T
        shift, factor = _moments(name, z.reshape(-1, dim))
        mean, root, step_size = mean + root @ shift, root @ factor, 1.0
    send("say", {"text": f"{lengths.chains} chains of {lengths.burn_in} + {draws} draws"})

    def theta(z: Array) -> Array:
        return np.asarray(mean + z @ root.T)

    return theta(run(step_size, lengths.burn_in, draws, mean, root, start, lambda z: enough(theta(z))))


def draws_at_mode(
    name: str, task: Task, hmc: Sampler, draws: int, send: Send, enough: Enough = lambda _: True
) -> Array:
    """Return draws (n, C, D) of theta by leapfrog steps with the likelihood expanded at the mode.

    Raise `RunError` if there is none.
    """
    send("say", {"text": "looking for the mode"})
    dim = task.dim()
    at = laplace(whitened(task, np.zeros(dim), np.eye(dim)).build([Streams(SEED, c) for c in range(2)], "cpu"))
    if at is None:
        raise RunError(f"{name}: its Hessian is not positive definite where L-BFGS ends; nothing was stored")
    start = at.mean + SPREAD * np.random.default_rng(SEED).standard_normal((CHAINS, dim)) @ at.root.T
    send("say", {"text": f"{CHAINS} chains of {BURN_IN} + {draws} draws"})
    at_mode = whitened(task, at.mean, at.root, start, at_mode=True)

    def theta(z: Array) -> Array:
        return np.asarray(at.mean + z @ at.root.T)

    lengths = {"chains": CHAINS, "burn_in": BURN_IN, "draws": draws}
    return theta(hmc_draws(at_mode, hmc, FIRST, **lengths, enough=lambda z: enough(theta(z))))


class Route(NamedTuple):
    """How draws are made: the settings of HMC, the function, and what the record says of it."""

    sampler: Mapping[str, float]
    draws: Callable[..., Array]
    stated: Mapping[str, str]


def route(task: Task) -> Route:
    """Return how the draws of a task are made."""
    if isinstance(task, DataTask) and task.terms() >= LARGE:
        gradient = "of the prior, and of the likelihood expanded there"
        return Route(
            AT_MODE, draws_at_mode, {"coordinates": "whitened by the Hessian at the mode", "gradient": gradient}
        )
    return Route(SAMPLER, whitened_draws, {"coordinates": "whitened by the covariance of pilot runs"})


def largest_rhat(draws: Array) -> float:
    """Return the largest R-hat of draws (n, C, D); infinite if a coordinate does not move."""
    return float(np.nan_to_num(diagnostics.rank_normalised_split_rhat(draws), nan=np.inf).max())


def check_gradient(name: str, task: Task) -> None:
    """Raise `UsageError` if a target is random, or its gradient is not that of its energy: HMC would not be exact."""
    problem = task.build([Streams(0, chain, ("truth",)) for chain in range(2)], "cpu")
    x = problem.initial()
    x = x + NEAR * (problem.gradient(x, None).norm(dim=1, keepdim=True) == 0)  # chains may start at a mode
    (energy, gradient), (again, _) = (problem.energy_and_gradient(x, None) for _ in range(2))
    size = gradient.norm(dim=1, keepdim=True)
    along = SMALL * gradient / size.clamp(min=1e-300)
    quotient = (problem.energy(x + along, None) - problem.energy(x - along, None)) / (2 * SMALL)
    error = (quotient - size[:, 0]).abs()
    smooth = torch.isfinite(energy) & (size[:, 0] > 0) & (error < 0.01 * size[:, 0] + ROUNDING * (1 + energy.abs()))
    if not torch.equal(energy, again) or not smooth.all():
        raise UsageError(
            f"{name} has no full gradient: its energy on all the data is random, or its gradient differs from the "
            "difference quotient of the energy at a starting point; HMC needs both to be exact"
        )


def _moments(name: str, points: Array) -> tuple[Any, Any]:
    """Return the mean and the Cholesky factor of the covariance of points (n, D); a small number of points suffices."""
    covariance = np.atleast_2d(np.cov(points.T))
    try:
        root = np.linalg.cholesky(0.99 * covariance + 0.01 * np.diag(np.diag(covariance)))
    except np.linalg.LinAlgError:
        raise RunError(f"{name}: HMC does not move from its starting points; nothing was stored") from None
    return points.mean(axis=0), root


def quantiles(draws: Array) -> dict[str, Any]:
    """Return the quantiles (K, m) of draws (n, C, D) along the truth's directions, and their Monte Carlo errors.

    An error is half the distance between the quantiles at the levels of the central 68 % of a beta distribution, with
    the effective size for the indicator of the quantile as the number of draws.
    """
    along = Truth.of_points(draws.reshape(-1, draws.shape[2])).directions
    rows, errors = zip(*(quantiles_and_errors(draws @ each, quantile_levels()) for each in along), strict=True)
    return {"quantiles": np.array(rows).tolist(), "quantile_mcse": np.array(errors).tolist()}


def quantiles_and_errors(z: Array, levels: Array) -> tuple[Array, Array]:
    """Return quantiles of draws (n, C), and their Monte Carlo errors as `quantiles` states them."""
    values = np.quantile(z, levels)
    size = diagnostics.bulk_ess((z[:, :, None] <= values).astype(np.float64))
    ends = beta.ppf(np.array([[0.1587], [0.8413]]), size * levels + 1, size * (1 - levels) + 1)
    low, high = np.quantile(z, ends)
    return values, (high - low) / 2
