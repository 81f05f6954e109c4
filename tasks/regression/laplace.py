"""The mode of a logistic posterior and its curvature there, by Newton's method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Laplace(NamedTuple):
    """The mode (D,) and the Hessian of U there, as eigenvalues (D,) in rising order and eigenvectors (D, D)."""

    mode: Array
    eigenvalues: Array
    eigenvectors: Array


def laplace(design: Array) -> Laplace:
    """For U(theta) = sum_i log(1 + exp(-a_i theta)) + |theta|^2 / 2 with rows a_i (N, D), signed by class.

    Newton's method from 0. U is strictly convex, and with standardised covariates the full step converges.
    """
    theta = np.zeros(design.shape[1])
    for _ in range(100):
        step = np.linalg.solve(hessian(design, theta), gradient(design, theta))
        theta = theta - step
        if np.abs(step).max() < 1e-12:
            break
    else:
        raise ArithmeticError("Newton's method found no mode in 100 steps")
    values, vectors = np.linalg.eigh(hessian(design, theta))
    return Laplace(theta, values, vectors)


def gradient(design: Array, theta: Array) -> Array:
    """grad U at points (..., D)."""
    return np.asarray(theta - _misfit(design, theta) @ design)


def hessian(design: Array, theta: Array) -> Array:
    """The Hessian of U at theta (D,): (D, D)."""
    p = _misfit(design, theta)
    return np.asarray((design * (p * (1 - p))[:, None]).T @ design + np.eye(len(theta)))


def _misfit(design: Array, theta: Array) -> Array:
    """1 / (1 + exp(a_i theta)), the probability of the wrong class: (..., N)."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(theta @ design.T)))
