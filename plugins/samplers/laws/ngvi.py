"""The law of ngvi: with one component, on a Gaussian, q comes to the target itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from plugins.checking import SamplerLaw

if TYPE_CHECKING:
    from torch import Tensor

RATES = (0.02, 0.01)
STEPS = 2000
"""Forty and twenty times 1/h, in which q forgets its start."""

CHAINS = 128
P_VALUES = 10
"""At each of two temperatures: two coordinates of the mean of q at two rates, and the limit of its precision."""


class NGVILaw(SamplerLaw):
    """A fit, and no stationary law: what is shown is its fixed point on a Gaussian, whose q has one component.

    The mean over chains of tr(P^-1 L) / D, L the precision of the target at its temperature, tends to 1 as h -> 0; the
    divergence KL(q || target), in closed form, falls from its start to some h D; P stays positive definite.
    """

    shows: ClassVar[str] = (
        "With one component, on a correlated Gaussian: KL(q || target) falls to a tenth and less, the mean of q is the "
        "target's, and the precision of q tends to the target's as h -> 0."
    )

    def check(self, sampler: Any) -> None:
        """On a pair of correlated coordinates, at T = 0.5 and 3."""
        from plugins.checking.forms import Target

        for T in (0.5, 3.0):
            fits(replace(sampler, components=1), Target("correlated", T, 2))


def fits(sampler: Any, target: Any) -> None:
    """The fixed point at each rate, and its limit."""
    import torch
    from scipy.stats import t

    from plugins.checking.forms import OWN_LEVEL, snapshots

    bound = float(t.isf(OWN_LEVEL / P_VALUES / 2, CHAINS - 1))
    L = torch.from_numpy(target.precision) / target.T
    means, errors = [], []
    for rate in RATES:
        path = snapshots(sampler, target, rate, steps=STEPS, chains=CHAINS)
        first = snapshots(sampler, target, rate, steps=1, chains=CHAINS)[0]
        assert all(bool((torch.linalg.eigvalsh(one.state["P"]) > 0).all()) for one in path), "P is not positive"
        start, end = float(divergence(first.state, L).mean()), float(divergence(path[-1].state, L).mean())
        assert end < 0.1 * start, f"KL(q || target) goes from {start:.3g} to {end:.3g}, h = {rate:g}"
        ratio = (torch.linalg.inv(path[-1].state["P"][:, 0]) * L).sum((1, 2)) / len(L)
        means.append(float(ratio.mean()))
        errors.append(float(ratio.std()) / CHAINS**0.5)
        mu = path[-1].state["mu"][:, 0] @ torch.linalg.cholesky(L)
        off = float((mu.mean(0).abs() / (mu.std(0) / CHAINS**0.5)).max())
        assert off < bound, f"the mean of q is off by {off:.2g} standard errors, h = {rate:g}"
    limit = 2 * means[1] - means[0]
    error = (4 * errors[1] ** 2 + errors[0] ** 2) ** 0.5
    allowed = bound * error + 2 * (means[0] - means[1]) ** 2
    assert abs(limit - 1) < allowed, f"tr(P^-1 L) / D tends to {limit:.4g} +- {error:.2g} as h -> 0, should be 1"


def divergence(state: dict[str, Tensor], L: Tensor) -> Tensor:
    """KL(N(mu, P^-1) || N(0, L^-1)) of each chain, (C,)."""
    import torch

    P, mu = state["P"][:, 0], state["mu"][:, 0]
    inverse = torch.linalg.inv(P)
    trace = (inverse * L).sum((1, 2)) + ((mu @ L) * mu).sum(1)
    return (trace - len(L) + torch.logdet(P) - torch.logdet(L)) / 2
