"""Law 14: on U(Q'(theta - b)) the path is the path on U, turned by Q and shifted by b, with its noise turned by Q.

Q is of the kind that the sampler follows in three dimensions (`plugins.running.moved`), and checked in many. So no step
depends on where theta is or on what a table says of it.
"""

from __future__ import annotations

import numpy as np
import torch

from harness import Sampler
from harness.engine import BoundPotential
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import Broken, Law, distance, path_of, roundings, safe_x, streams, trajectory, varying
from plugins.checking.samplers.coordinates import rooted
from plugins.running.moved import Moved, follows, path_of_turned_noise

PLACE = 2.0**20
"""a, in every coordinate: beyond any box that a sampler might confine parameters to."""

TOLERANCE = 1e-6
"""A coordinate near PLACE is rounded to 1e-10, and twelve stable steps do not amplify that much."""

CHAINS = 4
STEPS = 12

DIMS = (*range(1, 17), 25, 100)
"""Dimensions in which theta is moved: a branch on their number would show."""


def check(sampler: Sampler) -> None:
    """Check that the path moves with the target, under varying step sizes and stochastic gradients."""
    _check_shift(sampler)
    if {"layout", "gauss_newton"}.isdisjoint(sampler.needs):  # else coordinates have names, and `run.moved` is refused
        _check_moves(sampler)


def _check_moves(sampler: Sampler) -> None:
    """Check Q and b on Gaussians with correlations, and signs too if Q is a rotation.

    Noise that goes through a root of a matrix is left out, and a target that has a metric has no correlations.
    """
    amount, kind, x = float(not rooted(sampler)), follows(sampler), safe_x(sampler, 0.3)
    for D in [D for D in DIMS if sampler.least_dimension <= D]:
        curvatures = tuple(np.geomspace(0.5, 2, D).tolist())
        task = GaussianTask(curvatures=curvatures, variance=0.5, dense=not sampler.needs - {"terms"})
        for one in (kind, "signs") if kind == "rotation" else (kind,):
            off = _gap(sampler, task, x, amount, one)
            if not off < TOLERANCE:
                off = _gap(sampler, task, x, amount, one, mirrored=False)
            if not off < TOLERANCE:
                raise Broken(
                    f"moved by {one}{'' if one == 'shift' else ' and shift'} in {D} dimensions, the path is off by "
                    f"{off:.2g} (relative)"
                )


def _gap(sampler: Sampler, task: GaussianTask, x: float, amount: float, kind: str, *, mirrored: bool = True) -> float:
    """Return how far the path on the moved target is from the moved path, with this amount of noise."""
    inner = task.build(streams(CHAINS), "cpu")
    (batch,) = inner.batches(1)
    moved = Moved(inner, streams(CHAINS), torch.float64, kind)
    h = x / task.curvature()
    here, there = (
        path_of_turned_noise(sampler, BoundPotential(problem, 1, batch), theta, turn, h=h, mirrored=mirrored)
        for problem, theta, turn in (
            (inner, moved.start, lambda x: amount * x),
            (moved, moved.initial(), lambda x: amount * moved.turned(x)),
        )
    )
    return distance(moved.original(there), here)


def _check_shift(sampler: Sampler) -> None:
    here, there = (GaussianTask(variance=0.5, centre=centre) for centre in (0.0, PLACE))
    path = trajectory(varying(sampler, here, STEPS), 1.0)
    expected = path_of(sampler, here, path, CHAINS)
    gap = distance(path_of(sampler, there, path, CHAINS) - PLACE, expected)
    if not gap < TOLERANCE:
        off = f"moved by a = {PLACE:g}, the path on U(theta - a) is off by {gap:.2g} (relative)"
        raise Broken(off, roundings=roundings(gap, size=PLACE))


LAW = Law(
    14, "translation", check,
    "positions clipped, wrapped or reflected, a weight decay beside the prior, a constant that stands for a place, or "
    "knowledge of the coordinates",
)  # fmt: skip
