"""Law 1: the law that follows from `step` on a quadratic potential is the target, as the step size goes to 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.conformance.law import TEMPERATURES, Broken, Law, Skip, heat, safe_x
from harness.conformance.linear import LinearStep, derive, settled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.sampler import Sampler

CURVATURES = (1.0, 4.0)
SHARES = (1e-5, 1e-6)
"""x as a share of the stability limit; two, so that the first order can be taken off."""


def check(sampler: Sampler) -> None:
    """lambda P_theta / T -> limit_bias, with an error of first order, at T = 0.5, 1, 3 and for unlike curvatures."""
    limit = sampler.limit_bias()
    if not limit:
        _no_target(sampler, limit)
        return
    _hold(sampler, limit)
    if sampler.adaptive and limit == 1:  # then so it is whatever the entries are; they start empty in many a sampler
        _hold(settled(sampler, safe_x(sampler, 0.3) / max(CURVATURES)), limit)


def _hold(sampler: Sampler, limit: float) -> None:
    for T in TEMPERATURES:
        large, small = (_ratio(sampler, safe_x(sampler, share), heat(sampler, T)) for share in SHARES)
        order = SHARES[0] / SHARES[1]
        bias = (order * small - large) / (order - 1) - limit * np.eye(len(CURVATURES))
        worst = bias.flat[np.abs(bias).argmax()]
        if not abs(worst) < 1e-3 * limit:
            i, j = np.unravel_index(np.abs(bias).argmax(), bias.shape)
            raise Broken(
                f"at T = {T:g}, h -> 0: "
                + (
                    f"lambda var(theta)/T is {worst + limit:.5g} where it should be {limit:.5g}"
                    if i == j
                    else f"coordinates {j} and {i} have a correlation of {worst / limit:.5g}, should be 0"
                )
            )
        if np.abs(large - limit * np.eye(len(CURVATURES))).max() > 0.2 * limit:
            raise Broken(
                f"at T = {T:g} the bias is not of first order in h: lambda var(theta)/T is {large.max():.5g} "
                f"at {SHARES[0]:g} of the stability limit"
            )


def _no_target(sampler: Sampler, limit: float | None) -> None:
    """An optimiser contracts and asks for no noise; what declares no stationary law has none."""
    step = derive(sampler, safe_x(sampler, 0.3) / max(CURVATURES), heat(sampler, 1.0), CURVATURES)
    if limit == 0 and step.B.size:
        raise Broken(f"limit_bias declares an optimiser, and a step asks for {step.B.shape[1]} random numbers")
    _require(step)
    if limit == 0 and step.radius >= 1:
        raise Broken(f"at 0.3 of the stability limit it does not contract (spectral radius {step.radius:.12g})")
    if limit is None and step.radius < 1 - 1e-9:
        raise Broken(f"limit_bias declares no stationary law, and there is one (spectral radius {step.radius:.6g})")
    raise Skip("an optimiser: it draws no noise" if limit == 0 else "by its own declaration it has no stationary law")


def _ratio(sampler: Sampler, x: float, T: float) -> NDArray[np.float64]:
    """lambda^1/2 P_theta lambda^1/2 / T, (D, D)."""
    step = derive(sampler, x / max(CURVATURES), T, CURVATURES)
    _require(step)
    P = step.stationary()
    if P is None:
        raise Broken(
            f"at x = h lambda = {x:.3g} a step does not contract (spectral radius {step.radius:.12g}): "
            "there is no stationary law"
        )
    D = len(CURVATURES)
    root = np.sqrt(CURVATURES)
    return root[:, None] * P[:D, :D] * root / T


def _require(step: LinearStep) -> None:
    """Skip a sampler that is not linear; one that moves the mode is broken."""
    if step.error == np.inf:
        raise Skip(
            "no linear law: it draws uniforms, or its answers are not finite or not repeatable; what it leaves "
            "stationary is left to the law real-loop"
        )
    if not step.linear:
        raise Skip(
            f"not linear on a quadratic potential: superposition error {step.error:.2g}; what it leaves stationary is "
            "left to the law real-loop"
        )
    if step.shift > 1e-12:
        raise Broken(f"a step without noise moves the mode by {step.shift:.3g}")


LAW = Law(
    1, "derived-law", check,
    "the scale of the noise (sqrt(2 h T), one number a coordinate), or a stationary law that is biased by "
    "construction and not declared in limit_bias",
)  # fmt: skip
