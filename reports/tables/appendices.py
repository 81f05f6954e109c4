"""The cyclical paper's appendix E, which compares csgld with sgld, and the bound of its appendix G, on Gaussians."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import Trajectory
from harness.reports import Request, number

Array = NDArray[np.float64]

STEPS, BETA = 20_000, 0.25
START = 10.0
"""The variance at the start, in each direction."""

SIZES, LENGTHS, CYCLE = (0.01, 0.02, 0.05, 0.1), (1_000, 5_000, STEPS), 50
"""Of appendix E, on N(0, 1): first step sizes, numbers of steps K, and the length of a cycle.

K grows by more cycles, so a short run is the beginning of a long one.
"""

CURVATURES = (0.5, 1.0)
"""m and M of appendix G."""
BOUND_SIZES, BOUND_CYCLES = (0.001, 0.01, 0.1, 0.5, 1.9), (2, 4, 10, 50)
"""Of appendix G: first step sizes below min(1/m, 2/M) = 2, and lengths of a cycle."""

VARIANTS = {
    "as proven, with noise in every step": True,
    "as the algorithm runs, T = 0 while it explores": False,
}
"""The algorithm of the proofs and the one of the paper, by whether every step has noise."""


def comparisons() -> list[dict[str, Any]]:
    """Return the findings on the two comparisons of appendix E.

    (i) sgld has the steps alpha_0 / k, with the first step of csgld. (ii) sgld has the steps h_0 / k, with the sum of
    the steps of csgld. Compared is Wasserstein-2 from the law of the last step to the target; the paper compares upper
    bounds of it.
    """
    cases = list(itertools.product(VARIANTS.values(), SIZES, LENGTHS))
    pairs: dict[str, list[tuple[float, float]]] = {"(i)": [], "(ii)": []}
    for noise, size, steps in cases:
        path = cyclical(size, CYCLE, steps, noise=noise)
        falling = 1 / np.arange(1, steps + 1)
        ours = _distance(path)
        pairs["(i)"].append((ours, _distance(_noisy(size * falling))))
        pairs["(ii)"].append((ours, _distance(_noisy(path.step_size.sum() / falling.sum() * falling))))
    return [_comparison(part, distances) for part, distances in pairs.items()]


def _comparison(part: str, distances: list[tuple[float, float]]) -> dict[str, Any]:
    nearer = sum(csgld < sgld for csgld, sgld in distances)
    ratios = [csgld / sgld for csgld, sgld in distances]
    evidence = (
        f"on N(0, 1) csgld is nearer to the target in {nearer} of {len(distances)} cases, with and without noise while "
        f"it explores; its Wasserstein-2 distance is {number(min(ratios))} to {number(max(ratios))} times that of sgld"
    )
    finding = "holds" if nearer == len(distances) else "fails"
    return {"table": "Appendix E", "of": part, "finding": finding, "evidence": evidence}


def bounds() -> list[dict[str, Any]]:
    """Return the findings on the bound of appendix G, for the proven variant and for the algorithm itself.

    With exact gradients it is (1 - A)^k W_0 + 1.65 M (alpha_0^3 d)^(1/2) / A, where A = m alpha_min if m alpha_min +
    M alpha_0 <= 2, else 2 - M alpha_0, and alpha_min is the last step of a cycle.
    """
    findings = []
    for how, noise in VARIANTS.items():
        ratios = [_ratio(a, cycle, noise=noise) for a, cycle in itertools.product(BOUND_SIZES, BOUND_CYCLES)]
        above = sum(ratio > 1 for ratio in ratios)
        evidence = (
            f"on N(0, diag(2, 1)) with exact gradients the distance is above the bound in {above} of {len(ratios)} "
            f"cases, and at most {max(ratios):.2f} times the bound"
        )
        finding = "fails" if above else "holds"
        findings.append({"table": "Appendix G", "of": how, "finding": finding, "evidence": evidence})
    return findings


def _ratio(size: float, cycle: int, *, noise: bool) -> float:
    """Return the largest ratio of the distance to the bound, over all steps."""
    least, most = CURVATURES
    variances = _variances(cyclical(size, cycle, STEPS, noise=noise), CURVATURES)
    distances = _wasserstein(variances)
    last = size / 2 * (np.cos(np.pi * (cycle - 1) / cycle) + 1)
    rate = least * last if least * last + most * size <= 2 else 2 - most * size
    start = _wasserstein(np.full((1, 2), START))[0]
    limit = 1.65 * most * np.sqrt(size**3 * len(CURVATURES)) / rate
    return float((distances / ((1 - rate) ** np.arange(1, STEPS + 1) * start + limit)).max())


def _wasserstein(variances: Array) -> Array:
    """Return Wasserstein-2 from centred normals with variances (K, 2) to the target: (K,)."""
    return np.asarray(np.sqrt(((np.sqrt(variances) - 1 / np.sqrt(CURVATURES)) ** 2).sum(axis=1)))


def _distance(trajectory: Trajectory) -> float:
    """Return Wasserstein-2 from the law of the last step to N(0, 1)."""
    return float(abs(np.sqrt(_variances(trajectory, (1.0,))[-1, 0]) - 1))


def _variances(trajectory: Trajectory, curvatures: tuple[float, ...]) -> Array:
    """Return the variances of sgld after each step (K, directions), for exact gradients: P <- (1 - h c)^2 P + 2 h T."""
    path = list(zip(trajectory.step_size.tolist(), trajectory.temperature.tolist(), strict=True))
    each = []
    for curvature in curvatures:
        variances, P = [], START
        for h, T in path:
            P = (1 - h * curvature) ** 2 * P + 2 * h * T
            variances.append(P)
        each.append(variances)
    return np.array(each).T


def cyclical(size: float, cycle: int, steps: int, *, noise: bool) -> Trajectory:
    """Return the trajectory of csgld; with `noise`, all steps have T = 1 and all draws are kept."""
    settings = {"step_size": size, "cycles": -(-steps // cycle), "beta": 0.0 if noise else BETA}
    trajectory: Trajectory = Request().plugin("schedules", "cyclical", **settings).trajectory(steps, 1)
    return trajectory


def _noisy(step_sizes: Array) -> Trajectory:
    """Return a trajectory with these step sizes and T = 1."""
    everywhere, K = np.ones(len(step_sizes), dtype=bool), len(step_sizes)
    return Trajectory(step_sizes, np.ones(K), everywhere, ~everywhere, np.zeros(K, dtype=int), ~everywhere)
