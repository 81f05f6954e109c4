"""The data of the ravine regression, simulated by seed, and its posterior by quadrature."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from harness.tasks import Truth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.tasks import Streams

    Array = NDArray[np.float64]

N = 10_000
TRUE = (20.0, 10.0)
POINTS = 33
"""Along each axis of the grid: every half standard deviation from -8 to 8. The trapezoid rule is then exact to rounding
for a normal, and nearly for what is nearly one."""


def curve(theta: Array, x: Array) -> Array:
    """f(x) at theta (..., 2) and x (n,): (..., n)."""
    first, second = theta[..., :1], theta[..., 1:]
    return np.asarray((x - 1) ** 2 + 2 * np.sin(first * x) + first / 30 + np.cos(second * x - 1) - second / 20)


def slopes(theta: Array, x: Array) -> Array:
    """df/dtheta at theta (2,) and x (n,): (n, 2)."""
    return np.stack([2 * x * np.cos(theta[0] * x) + 1 / 30, -x * np.sin(theta[1] * x - 1) - 1 / 20], axis=1)


@functools.lru_cache(maxsize=128)
def simulate(source: Streams) -> Array:
    """x and y as (2, N): x ~ U[-2, 4], y ~ N(f(x), 1), from the stream "data" that the chains of a run share."""
    generator = source.numpy("data", per_chain=False)
    x = generator.uniform(-2.0, 4.0, N)
    return np.stack([x, curve(np.array(TRUE), x) + generator.standard_normal(N)])


def energy(theta: Array, rows: Array) -> Array:
    """U at points theta (n, 2) for data rows (2, N): (n,)."""
    x, y = rows
    parts = [((curve(part, x) - y) ** 2).sum(axis=1) / 2 for part in np.array_split(theta, -(-len(theta) // 64))]
    return np.asarray(np.concatenate(parts) + (theta**2).sum(axis=1) / 2)


@functools.lru_cache(maxsize=128)
def truth(source: Streams) -> Truth:
    """The moments of the posterior of one data set, by the trapezoid rule on a grid along the axes of its curvature."""
    rows = simulate(source)
    mode, precision = peak(rows)
    values, vectors = np.linalg.eigh(precision)
    ticks = np.linspace(-8, 8, POINTS)
    z = np.stack([axis.ravel() for axis in np.meshgrid(ticks, ticks)], axis=1)
    points = mode + z / np.sqrt(values) @ vectors.T
    heights = energy(points, rows)
    share = np.exp(heights.min() - heights)
    how = f"quadrature: the trapezoid rule on {POINTS} x {POINTS} points around the mode at (20, 10)"
    return Truth.of_points(points, share, how)


def peak(rows: Array) -> tuple[Array, Array]:
    """The mode of U near the true theta (2,), and its curvature there (2, 2), by Gauss and Newton's method."""
    x, y = rows
    theta = np.array(TRUE)
    for _ in range(50):
        J = slopes(theta, x)
        precision = J.T @ J + np.eye(2)
        step = np.linalg.solve(precision, J.T @ (curve(theta, x) - y) + theta)
        theta = theta - step
        if np.abs(step).max() < 1e-12:
            return theta, precision
    raise ArithmeticError("no mode found near the true theta in 50 steps")


@functools.cache
def curvature() -> float:
    """The largest eigenvalue of the Hessian of U at the true theta, in the mean over data sets."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    J = slopes(np.array(TRUE), 1 + 3 * nodes)
    return float(np.linalg.eigvalsh(N * (J * weights[:, None]).T @ J / 2 + np.eye(2)).max())
