"""Law 1: as the step size goes to 0, the law that follows from `step` on a quadratic potential is the target."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness import Sampler, linear
from plugins.checking.gaussian import TERMS, axes_of
from plugins.checking.law import TEMPERATURES, WATCHED, Broken, Law, Skip, cycles, heat, safe_x, within_limit

CURVATURES = (1.0, 4.0)
MANY = tuple(np.geomspace(0.05, 50.0, 24)[np.random.default_rng(0).permutation(24)].tolist())
"""More coordinates than a step might treat alike by accident, in no order."""

EXTREME = (1e-6, 0.02, 1e3)
"""Temperatures that are combined with MANY, where steps are as short as 1e-8."""

DENSE = {
    "D = 2, correlation .9": (1 / 1.9, 10.0),
    "D = 10, condition 100": tuple(np.geomspace(1.0, 100.0, 10).tolist()),
}
"""Eigenvalues of Gaussians with dense precision matrices, along axes given by `axes_of`."""

STIFFEST = 100.0
"""The largest of these curvatures."""

SHARES = (1e-5, 1e-6)
"""x as a share of the stability limit; there are two, so that the first order can be removed."""

CORRECTED = "gradient_variance"
"""The hyperparameter that gives a sampler the variance of its gradient noise."""


def check(sampler: Sampler) -> None:
    """Check lambda P_theta / T -> limit_bias, with an error of first order, at T = 0.5, 1, 3 and unequal curvatures."""
    limit = sampler.limit_bias()
    if not limit:
        _no_target(sampler, limit)
        return
    if turns := cycles(sampler):
        raise Skip(f"its steps are in turn of {WATCHED} kinds at most, by {', '.join(turns)}: whole-law tests its law")
    _hold(sampler, limit)
    if "terms" in sampler.needs:
        _hold_at(of_terms(sampler), limit, 1.0, CURVATURES, where=f" on a target of {TERMS} terms")
    if sampler.adaptive:  # the entries of many samplers start empty
        later = linear.settled(sampler, safe_x(sampler, 0.3) / STIFFEST)
        if limit == 1:  # then the limit does not depend on the entries
            _hold(later, limit)
        else:
            _in_proportion(sampler, later)
    if any(field.name == CORRECTED for field in dataclasses.fields(sampler)):
        _corrected(sampler)


def _hold(sampler: Sampler, limit: float) -> None:
    for T in TEMPERATURES:
        _hold_at(sampler, limit, T, CURVATURES)
    for T in EXTREME:
        _hold_at(sampler, limit, T, MANY, where=f" with {len(MANY)} curvatures")
    for dim in (1, 20):
        _hold_at(sampler, limit, 1.0, MANY[:dim], where=f" in {dim} dimension{'s'[: dim - 1]}")
    for name, curvature in DENSE.items():
        _hold_at(sampler, limit, 1.0, curvature, axes_of(len(curvature)), f" on a Gaussian with {name}")


def _hold_at(
    sampler: Sampler, limit: float, T: float, curvature: Sequence[float], axes: Tensor | None = None, where: str = ""
) -> None:
    order, heated = SHARES[0] / SHARES[1], heat(sampler, T)
    h = within_limit(sampler, safe_x(sampler, SHARES[0]) / max(curvature), SHARES[0], heated, curvature, axes)
    large, small = (_ratio(sampler, size, heated, curvature, axes) for size in (h, h / order))
    bias = (order * small - large) / (order - 1) - limit * np.eye(len(curvature))
    worst = bias.flat[np.abs(bias).argmax()]
    if not abs(worst) < 1e-3 * limit:
        i, j = np.unravel_index(np.abs(bias).argmax(), bias.shape)
        raise Broken(
            f"at T = {T:g}, h -> 0{where}: "
            + (
                f"lambda var(theta)/T is {worst + limit:.5g} where it should be {limit:.5g}"
                if i == j
                else f"coordinates {j} and {i} have a correlation of {worst / limit:.5g}, should be 0"
            )
        )
    if np.abs(large - limit * np.eye(len(curvature))).max() > 0.2 * limit:
        raise Broken(
            f"at T = {T:g}{where} the bias is not of first order in h: lambda var(theta)/T is {large.max():.5g} "
            f"at {SHARES[0]:g} of the stability limit"
        )


def of_terms(sampler: Sampler) -> Sampler:
    """Return the sampler on potentials of TERMS terms."""

    def of(potential: Any) -> Any:
        potential = copy.copy(potential)
        potential.terms = TERMS
        return potential

    cls = type(sampler)
    return linear.with_methods(
        sampler,
        init=lambda self, theta, potential, h, T, noise: cls.init(self, theta, of(potential), h, T, noise),
        step=lambda self, theta, state, potential, h, T, noise: cls.step(
            self, theta, state, of(potential), h, T, noise
        ),
    )


def _in_proportion(sampler: Sampler, later: Sampler) -> None:
    """Check B B' = -k G in theta, with one k whatever the values of the adaptive entries are.

    If entries bias the drift, the resulting variance says nothing about the noise. But noise of one temperature is tied
    to the response G to the gradient: a preconditioner M makes them 2 h T M and -h M, a friction scales k by a
    constant, and an added drift affects neither. The check does nothing for a sampler whose control variates leave no
    response to the error of a gradient.
    """
    h, T, theta = safe_x(sampler, SHARES[0]) / max(CURVATURES), heat(sampler, 1.0), slice(len(CURVATURES))
    first, second = (linear.derive(one, h, T, CURVATURES) for one in (sampler, later))
    noise, answer = first.injected()[theta, theta], -first.G[theta]
    k = np.trace(noise) / np.trace(answer)
    noise, answer = second.injected()[theta, theta], -second.G[theta]
    if not np.abs(answer).max() > 1e-6 * h:
        return
    gap = np.abs(noise - k * answer).max() / np.abs(noise).max()
    if not gap < 1e-3:
        raise Broken(
            f"once {', '.join(sampler.adaptive)} have settled, the noise has another temperature: by its answer to the "
            f"gradient its variance is off by {gap:.2g} (relative)"
        )


def _corrected(sampler: Sampler) -> None:
    """Check that B B' + V G G', the whole noise of a step, is the same for every V that the sampler is given."""
    h, T = safe_x(sampler, 0.3) / max(CURVATURES), heat(sampler, 1.0)
    alone = linear.derive(dataclasses.replace(sampler, **{CORRECTED: 0.0}), h, T, CURVATURES)
    if np.abs(alone.G).max() < 1e-6 * h:  # control variates: on a Gaussian the gradient has no noise
        return
    V = 0.5 * float(np.trace(alone.injected()) / np.trace(alone.G @ alone.G.T))
    corrected = linear.derive(dataclasses.replace(sampler, **{CORRECTED: V}), h, T, CURVATURES)
    gap = np.abs(corrected.injected(V) - alone.injected()).max() / np.abs(alone.injected()).max()
    if not gap < 1e-9:
        raise Broken(
            f"told that the gradient brings half of the noise ({CORRECTED} = {V:.3g}), a step has another total: its "
            f"variance differs by {gap:.2g} (relative) from that without"
        )


def _no_target(sampler: Sampler, limit: float | None) -> None:
    """Check that an optimiser contracts and requests no noise, and that a sampler without a stationary law has none."""
    step = linear.derive(sampler, safe_x(sampler, 0.3) / max(CURVATURES), heat(sampler, 1.0), CURVATURES)
    if limit == 0 and step.B.size:
        raise Broken(f"limit_bias declares an optimiser, and a step asks for {step.B.shape[1]} random numbers")
    _require(sampler, step)
    if limit == 0 and step.radius >= 1:
        raise Broken(f"at 0.3 of the stability limit it does not contract (spectral radius {step.radius:.12g})")
    if limit is None and step.radius < 1 - 1e-9:
        raise Broken(f"limit_bias declares no stationary law, and there is one (spectral radius {step.radius:.6g})")
    raise Skip("an optimiser: it draws no noise" if limit == 0 else "by its own declaration it has no stationary law")


def _ratio(
    sampler: Sampler, h: float, T: float, curvature: Sequence[float], axes: Tensor | None
) -> NDArray[np.float64]:
    """Return lambda^1/2 P_theta lambda^1/2 / T along the axes, (D, D)."""
    step = linear.derive(sampler, h, T, curvature, axes)
    _require(sampler, step)
    P = step.stationary()
    if P is None:
        same, others = np.eye(len(step.A)), [*step.entries.items()][1:]
        if kept := [name for name, at in others if np.array_equal(step.A[at], same[at])]:
            raise Broken(
                f"a step does not change {', '.join(kept)}; entries that only `adapt` or `refresh` changes are "
                "declared in `adaptive`, and this law holds them fixed: adaptive = (the names,)",
                "an entry of the state that is missing in `adaptive`",
            )
        raise Broken(
            f"at x = h lambda = {h * max(curvature):.3g} a step does not contract (spectral radius {step.radius:.12g}"
            "): there is no stationary law"
        )
    root = np.sqrt(curvature)
    along = P[: len(curvature), : len(curvature)]
    if axes is not None:
        along = axes.numpy().T @ along @ axes.numpy()
    return root[:, None] * along * root / T


def _obstacle(sampler: Sampler) -> str:
    """Return why a step has no matrix: uniform numbers, another answer when repeated, or one that is not finite."""
    probe = linear.Probe(sampler, safe_x(sampler, 0.1), 1.0, (1.0,) * max(2, sampler.least_dimension))
    if any(slot.kind == "uniform" for slot in probe.slots):
        return "it draws uniform numbers"
    z, one = torch.full((1, probe.size), 0.5, dtype=torch.float64), torch.ones(probe.dim, dtype=torch.float64)
    xi, b = z.new_full((1, probe.noise_size), 0.5), z.new_zeros((1, probe.dim))
    with torch.no_grad():
        repeated = torch.equal(probe.answer(z, xi, b, one), probe.answer(z, xi, b, one))
    return "its answers are not finite" if repeated else "a step that is repeated gives another answer"


def _require(sampler: Sampler, step: linear.LinearStep) -> None:
    """Raise `Skip` for a sampler that is not linear, and `Broken` for one that moves the mode."""
    if step.error == np.inf:
        raise Skip(
            f"no linear law: {_obstacle(sampler)}; the laws real-loop and whole-law test its stationary distribution"
        )
    if not step.linear:
        raise Skip(
            f"not linear on a quadratic potential: superposition error {step.error:.2g}; the law whole-law "
            "tests its stationary distribution"
        )
    if step.shift > 1e-12:
        raise Broken(f"a step without noise moves the mode by {step.shift:.3g}")


LAW = Law(
    1, "derived-law", check,
    "the scale of the noise (sqrt(2 h T), one number a coordinate), or a stationary law that is biased by "
    "construction and not declared in limit_bias, or the sign of a correction for gradient noise",
)  # fmt: skip
