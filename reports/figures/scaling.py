"""Places in the plane for points that are far apart in many dimensions, and what their distances say of clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def distances(points: Array) -> Array:
    """Euclidean, (n, n), of points (n, d)."""
    from scipy.spatial.distance import pdist, squareform

    return np.asarray(squareform(pdist(points)))


def scaled(apart: Array) -> tuple[Array, float]:
    """Places (n, 2) for distances (n, n), along their principal axes, and the stress."""
    from sklearn.manifold import smacof

    scale = apart.max() or 1.0
    places, _ = smacof(
        apart / scale, metric=True, n_components=2, n_init=4, max_iter=500, eps=1e-6, random_state=0,
        normalized_stress=False,
    )  # fmt: skip
    places = (places - places.mean(0)) * scale
    _, _, axes = np.linalg.svd(places, full_matrices=False)
    places = places @ axes.T
    places *= np.where(places[np.abs(places).argmax(0), [0, 1]] < 0, -1, 1)
    error = ((distances(places) - apart) ** 2).sum() / ((apart**2).sum() or 1.0)
    return places, float(np.sqrt(error))


def mean_distances(apart: Array, cycle: NDArray[Any], chain: NDArray[Any]) -> dict[str, float | None]:
    """Within cycles, between them, between chains, and the ratio; None where there is no such pair."""
    upper = np.triu(np.ones(apart.shape, dtype=bool), 1)
    same_chain, same_cycle = chain[:, None] == chain, cycle[:, None] == cycle
    pairs = {
        "within": upper & same_chain & same_cycle,
        "between_cycles": upper & same_chain & ~same_cycle,
        "between_chains": upper & ~same_chain,
    }
    found = {name: float(apart[chosen].mean()) if chosen.any() else None for name, chosen in pairs.items()}
    between = found["between_cycles"] or found["between_chains"]
    return {**found, "ratio": between / found["within"] if between and found["within"] else None}
