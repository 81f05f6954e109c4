"""The configurational temperature: the T that the draws imply."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def configurational_temperature(draws: ArrayLike, gradients: ArrayLike, centre: ArrayLike) -> Array:
    """Return T = mean over draws of (x - c) . grad U(x) / D; exact in expectation for exp(-U/T) and any c.

    draws and gradients: (n, ..., D), with the gradients of the full potential U at the draws. centre: (D,); the mean
    gives the least noise. Result: draws.shape[1:-1], one temperature per chain. It averages over directions, so hot and
    cold ones can cancel: see `directional_temperatures`. Raises ValueError if the shapes differ.
    """
    x, g = _displacements(draws, gradients, centre)
    return np.asarray((x * g).mean(axis=(0, -1)))


def directional_temperatures(draws: ArrayLike, gradients: ArrayLike, centre: ArrayLike, directions: ArrayLike) -> Array:
    """Return T_k = mean over draws of (e_k . (x - c)) (e_k . grad U(x)) for each column e_k of directions (D, K).

    The columns must be orthonormal (usually eigenvectors of the Hessian). Result: draws.shape[1:-1] + (K,). Raises
    ValueError if the shapes differ or the columns are not orthonormal.
    """
    x, g = _displacements(draws, gradients, centre)
    e = np.asarray(directions, dtype=np.float64)
    if e.ndim != 2 or len(e) != x.shape[-1]:
        raise ValueError(f"directions must have shape ({x.shape[-1]}, K), got {e.shape}")
    if not np.allclose(e.T @ e, np.eye(e.shape[1]), atol=1e-6):
        raise ValueError("directions must have orthonormal columns")
    return np.asarray(((x @ e) * (g @ e)).mean(axis=0))


def _displacements(draws: ArrayLike, gradients: ArrayLike, centre: ArrayLike) -> tuple[Array, Array]:
    x, g = np.asarray(draws, dtype=np.float64), np.asarray(gradients, dtype=np.float64)
    if x.ndim < 2 or g.shape != x.shape:
        raise ValueError(f"draws and gradients must have one shape (n, ..., D), got {x.shape} and {g.shape}")
    return x - np.asarray(centre, dtype=np.float64), g
