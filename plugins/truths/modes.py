"""Starting points of long HMC at the modes of a target, with the Laplace approximation there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from harness.tasks import Problem

Array = NDArray[np.float64]

ITERATIONS = 300
"""Most iterations of L-BFGS from a starting point."""
NEGLIGIBLE = 30.0
"""A mode whose energy is higher by this holds e^-30 of the mass of the other, but for the ratio of their volumes."""
STEP = 1e-3
"""Width of the difference quotients of the Hessian, in standard deviations."""
NEWTON = 3
"""Most Newton steps from where L-BFGS ends."""
CONVERGED = 0.1
"""Largest distance, in standard deviations of the Laplace approximation, from the point found to the mode."""


class Laplace(NamedTuple):
    """Modes (k, D), the lowest of them (D,), and a root (D, D) of the inverse of the Hessian there."""

    modes: Array
    mean: Array
    root: Array


def laplace(problem: Problem) -> Laplace | None:
    """Return the modes that L-BFGS finds from the starting points of a problem's chains, or None if there is none.

    There is none if the Hessian at the lowest point is not positive definite or Newton's method does not end, as where
    a density grows without a bound. Modes with a negligible share of the mass are left out.
    """
    start = problem.initial().numpy()
    minima = [_descend(problem, x, row) for row, x in enumerate(start)]
    points, energies = (np.array(each) for each in zip(*minima, strict=True))
    energies[~np.isfinite(energies)] = np.inf
    mode, kept = points[energies.argmin()], points[energies < energies.min() + NEGLIGIBLE]
    for _ in range(1 + NEWTON):
        try:
            root = np.linalg.cholesky(np.linalg.inv(_hessian(problem, mode)))
        except np.linalg.LinAlgError:
            return None
        step = root.T @ _gradient(problem, mode)
        if np.linalg.norm(step) < CONVERGED:
            return Laplace(kept, mode, root)
        mode = mode - root @ step
    return None


def _evaluate(problem: Problem, x: Array, row: int = 0) -> tuple[float, Array]:
    """Return U and its gradient at x (D,), as chain `row` of the problem sees them."""
    theta = torch.from_numpy(x).expand(len(problem.initial()), -1).contiguous()
    energy, gradient = problem.energy_and_gradient(theta, None)
    return float(energy[row]), gradient[row].numpy()


def _gradient(problem: Problem, x: Array) -> Array:
    return _evaluate(problem, x)[1]


def _descend(problem: Problem, x: Array, row: int) -> tuple[Array, float]:
    result = minimize(
        lambda u: _evaluate(problem, u, row), x, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS}
    )
    return np.asarray(result.x), float(result.fun)


def _hessian(problem: Problem, x: Array) -> Array:
    """Return the Hessian at x (D, D) by central differences of the gradient."""
    scale = 1e-6 * np.maximum(1, np.abs(x))
    for _ in range(2):  # the second time with widths in standard deviations
        rows = [
            (_gradient(problem, x + width * unit) - _gradient(problem, x - width * unit)) / (2 * width)
            for width, unit in zip(scale, np.eye(len(x)), strict=True)
        ]
        hessian = (np.array(rows) + np.array(rows).T) / 2
        scale = STEP / np.sqrt(np.abs(np.diag(hessian)).clip(min=1e-300))
    return hessian
