"""The first step from exact draws, as h -> 0: a sampler without memory must leave every moment as it is.

If p is the law of the chain in the limit, E[f(theta') - f(theta)] / h -> 0 for theta from p and every f. The mean is
over independent exact draws and noise of both signs, which removes the term in h^-1/2; it is taken at h and h/2, and
the term in h is removed. A variance that is 1 % off changes by 2 % of itself in a unit of time, and N values of z^2
give the rate of change a standard error of about 4 / sqrt(N) where steps have the pace of sgld.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from harness import Sampler, linear
from harness.engine import BoundPotential
from plugins.checking.law import LEVEL, Array, Broken, cycles, random_script, safe_x, two_sided
from plugins.checking.targets import GRID, Target, TargetProblem

VALUES = 2**18
"""Coordinates drawn: a variance 1 % off is two standard errors away, one 2 % off five."""

SHARE = 0.1
"""The share of the level of whole-law that these p-values have together."""

SHORT = 1e-3
"""h in units of the stability limit."""

LEFT = 1.5
"""The part of the change from h to h/2 that is allowed: what is left of a term in h^1/2 is 1.42 of it."""


def applies(sampler: Sampler) -> bool:
    """Return whether a step depends on theta and normal numbers alone, and draws have no weights."""
    probe = linear.Probe(sampler, SHORT, 1.0, (1.0,) * max(2, sampler.least_dimension))
    return (
        not probe.free
        and not sampler.adaptive
        and not sampler.full_gradients_per_step
        and all(slot.kind == "normal" for slot in probe.slots)
        and type(sampler).log_weight is Sampler.log_weight
        and not cycles(sampler)
    )


def stays(sampler: Sampler, dims: tuple[int, ...], ratio: float = 1.0, seed: int = 1) -> None:
    """Check the first step on N(0, I) and on the quartic at T = 1 ; raise `Broken` if it changes p."""
    targets = [Target(kind, 1.0, dim, ratio=ratio) for dim in dims for kind in ("gaussian", "quartic")]
    moments = [(target, *change) for target in targets for change in changes(sampler, target, seed)]
    for target, name, rate, error, left, freedom in moments:
        p = two_sided(max(abs(rate) - left, 0.0), error, freedom)
        if not p * len(moments) >= SHARE * LEVEL:
            raise Broken(
                f"a step from exact draws changes {name} by {rate:.3g} +- {error:.2g} in a unit of time as h -> 0, and "
                f"should not change it: p = {p:.2g} among {len(moments)} ({target}; {sampler!r})",
                "a step size or preconditioner that depends on theta or the gradient, without its divergence in the "
                "drift (sgrld has it), or a wrong scale of the noise",
            )


def changes(sampler: Sampler, target: Target, seed: int = 1) -> list[tuple[str, float, float, float, int]]:
    """Return for each moment its name, rate of change, standard error, allowed remainder, and degrees of freedom."""
    generator = torch.Generator().manual_seed(seed)
    rows = VALUES // target.dim
    theta = _exact(target, rows, generator)
    sd = float(np.sqrt(target.ratio * target.T if target.coordinate is None else target.law_variance))
    potential = BoundPotential(TargetProblem(target, ()), 1)
    h = safe_x(sampler, SHORT, otherwise=0.1) / target.curvature
    script: list[Tensor] | None = None
    rates: list[dict[str, Array]] = []
    with torch.no_grad():
        before = _moments(theta / sd)
        for size in (h, h / 2):
            sizes = torch.tensor(size, dtype=torch.float64), torch.tensor(target.T, dtype=torch.float64)
            state = sampler.init(theta, potential, *sizes, linear.ScriptedNoise())
            if script is None:
                asked = linear.ScriptedNoise()
                sampler.step(theta, dict(state), potential, *sizes, asked)
                script = random_script(asked.slots, rows, generator)
            noises = [linear.ScriptedNoise([sign * x for x in script]) for sign in (1, -1)]
            both = [_moments(sampler.step(theta, dict(state), potential, *sizes, xi)[0] / sd) for xi in noises]
            rates.append({
                name: ((both[0][name] + both[1][name]) / 2 - value).numpy() / size for name, value in before.items()
            })  # fmt: skip
    moments = []
    for name in before:
        coarse, fine = (rate[name] for rate in rates)
        each = 2 * fine - coarse
        left = LEFT * abs(float((fine - coarse).mean()))
        moments.append((name, float(each.mean()), float(each.std(ddof=1)) / np.sqrt(rows), left, rows - 1))
    return moments


def _exact(target: Target, rows: int, generator: torch.Generator) -> Tensor:
    """Return exact draws (rows, D) of independent coordinates."""
    if target.coordinate is None:
        normals = torch.randn((rows, target.dim), generator=generator, dtype=torch.float64)
        return normals * (target.ratio * target.T) ** 0.5
    u = torch.rand((rows, target.dim), generator=generator, dtype=torch.float64)
    mass = target.coordinate
    return torch.from_numpy(np.interp(u.numpy(), np.cumsum(mass) - mass / 2, GRID))


def _moments(z: Tensor) -> dict[str, Tensor]:
    """Return moments (C,) of standardised draws (C, D); each is a mean or sum over the coordinates."""
    squares = z.square()
    return {
        "E z": z.mean(1), "E z^2": squares.mean(1), "E z^4": squares.square().mean(1), "E z_1^2": squares[:, 0],
        "E (sum z)^2 / D": z.sum(1).square() / z.shape[1],
    }  # fmt: skip
