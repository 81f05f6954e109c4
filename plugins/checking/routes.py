"""Two independent ways to the moments of a task, from its U alone: quadrature and importance sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from harness.tasks import Problem, Task, Truth
from plugins.checking.law import Array, built

CHUNK = 512
PROPOSALS = 20_000
FREEDOM = 10


BORDER = 1e-9
"""Largest share of the mass that the outermost points of a side may have."""

FARTHEST = 48.0
"""The largest distance of a side from the stated mean, in sd."""


@dataclass(frozen=True)
class RouteEstimate:
    """Mean and sd along the K directions of the truth, the first D of which are the coordinates; their errors; the
    method (`how`).
    """

    mean: Array
    sd: Array
    mean_error: Array
    sd_error: Array
    how: str


def quadrature(task: Task, truth: Truth) -> RouteEstimate:
    """Return the moments by the trapezoid rule on a grid over the stated mean +- 6 sd, exact up to rounding.

    The spacing is fine for the curvature.

    A side with mass at its border is moved outwards, to 48 sd at most.
    """
    curvature = task.curvature()
    step = truth.sd / 20 if curvature is None else np.full(task.dim(), 0.4 / np.sqrt(curvature))
    reach = np.full((task.dim(), 2), 6.0)
    while True:
        ends = truth.mean[:, None] + reach * [-1, 1] * truth.sd[:, None]
        axes = [np.arange(low, high, h) for (low, high), h in zip(ends, step, strict=True)]
        points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
        energy = energies(task, points)
        mass = np.exp(energy.min() - energy).reshape([len(axis) for axis in axes])
        border = np.array([[mass.take(side, axis).sum() for side in (0, -1)] for axis in range(task.dim())])
        short = (border > BORDER * mass.sum()) & (reach < FARTHEST)
        if not short.any():
            break
        reach = np.where(short, 2 * reach, reach)
    mean, sd = _weighted(points @ truth.directions.T, mass.ravel())
    exact = np.zeros_like(mean)
    return RouteEstimate(mean, sd, exact, exact, "quadrature")


def importance_sampling(task: Task, truth: Truth) -> RouteEstimate:
    """Return the moments by self-normalised importance sampling, from a multivariate t at the mode of U.

    The inverse Hessian is the scale of the t. Newton's method on differences of grad U finds the mode. The standard
    errors are those of the delta method. Raise `ArithmeticError` if no mode is found, or if the weights leave fewer
    than 1,000 effective draws, because U is too far from that of a Gaussian.
    """
    rng = np.random.default_rng(0)
    mode, hessian = _mode(task, truth.mean)
    root = np.linalg.inv(np.linalg.cholesky(hessian)).T
    dim = len(mode)
    normals = rng.standard_normal((PROPOSALS, dim))
    chi = rng.chisquare(FREEDOM, PROPOSALS) / FREEDOM
    t = normals / np.sqrt(chi)[:, None]
    points = mode + t @ root.T
    log_proposal = -(FREEDOM + dim) / 2 * np.log1p((t**2).sum(axis=1) / FREEDOM)
    log_weight = -energies(task, points) - log_proposal
    weights = np.exp(log_weight - log_weight.max())
    effective = weights.sum() ** 2 / (weights**2).sum()
    if effective < 1000:
        raise ArithmeticError(f"importance sampling has only {effective:.0f} effective draws of {PROPOSALS}")
    along = points @ truth.directions.T
    mean, sd = _weighted(along, weights)
    share = (weights / weights.sum())[:, None]
    z = (along - mean) / sd
    mean_error = sd * np.sqrt((share**2 * z**2).sum(axis=0))
    sd_error = sd / 2 * np.sqrt((share**2 * (z**2 - 1) ** 2).sum(axis=0))
    return RouteEstimate(mean, sd, mean_error, sd_error, f"importance sampling ({effective:.0f} effective draws)")


def energies(task: Task, points: Array) -> Array:
    """Return the full U (n,) at points (n, D)."""
    problem = built(task, CHUNK)
    filled = np.concatenate([points, np.repeat(points[-1:], -len(points) % CHUNK, axis=0)])
    parts = torch.from_numpy(filled).to(getattr(torch, task.dtype)).split(CHUNK)
    with torch.no_grad():
        return np.concatenate([problem.energy(part, None).double().numpy() for part in parts])[: len(points)]


def _mode(task: Task, start: Array) -> tuple[Array, Array]:
    """Return the mode of U near `start` and the Hessian there."""
    problem, theta = built(task, CHUNK), start
    for _ in range(50):
        gradient, hessian = _derivatives(problem, theta)
        step = np.linalg.solve(hessian, gradient)
        theta = theta - step
        if np.abs(step).max() < 1e-8:
            return theta, hessian
    raise ArithmeticError("no mode of U found by Newton's method from the stated mean")


def _derivatives(problem: Problem, theta: Array) -> tuple[Array, Array]:
    """Return grad U and, by central differences, the Hessian at theta (D,)."""
    dim, width = len(theta), 1e-5
    moves = np.concatenate([np.zeros((1, dim)), width * np.eye(dim), -width * np.eye(dim)])
    points = np.zeros((CHUNK, dim))
    points[: len(moves)] = moves
    with torch.no_grad():
        g = problem.gradient(torch.from_numpy(theta + points), None).numpy()
    hessian = (g[1 : dim + 1] - g[dim + 1 : 2 * dim + 1]) / (2 * width)
    return g[0], (hessian + hessian.T) / 2


def _weighted(points: Array, weights: Array) -> tuple[Array, Array]:
    share = (weights / weights.sum())[:, None]
    mean = (share * points).sum(axis=0)
    return mean, np.sqrt((share * (points - mean) ** 2).sum(axis=0))
