"""Law 14: on U(theta - a) the path is the path on U, moved by a: no step depends on where theta is."""

from __future__ import annotations

from harness import Sampler
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import Broken, Law, distance, path_of, trajectory, varying

PLACE = 2.0**20
"""a, in every coordinate: beyond any box that a sampler might confine parameters to."""

TOLERANCE = 1e-6
"""A coordinate near PLACE is rounded to 1e-10, and twelve stable steps do not amplify that much."""

CHAINS = 4
STEPS = 12


def check(sampler: Sampler) -> None:
    """Check that the path moves with the target, under varying step sizes and stochastic gradients."""
    here, there = (GaussianTask(variance=0.5, centre=centre) for centre in (0.0, PLACE))
    path = trajectory(varying(sampler, here, STEPS), 1.0)
    expected = path_of(sampler, here, path, CHAINS)
    gap = distance(path_of(sampler, there, path, CHAINS) - PLACE, expected)
    if not gap < TOLERANCE:
        raise Broken(f"moved by a = {PLACE:g}, the path on U(theta - a) is off by {gap:.2g} (relative)")


LAW = Law(
    14, "translation", check,
    "positions clipped, wrapped or reflected, a weight decay beside the prior, or a constant that stands for a place",
)  # fmt: skip
