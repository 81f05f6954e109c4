"""The Laplace approximation of a network's last layer, with the generalised Gauss-Newton matrix, a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from plugins.baselines.laplace import Laplace


@dataclass(frozen=True, kw_only=True)
class LastLayerLaplace(Laplace):
    """The Laplace approximation of the last layer alone; all other weights are those of SGD. Not MCMC.

        w     <- w - h grad U(w)
        P      = G(w) + p I in the last layer,    at the start and before every n-th step
        theta  = w + sqrt(T) P^(-1/2) xi in the last layer,    w before it

    G is the generalised Gauss-Newton matrix of the likelihood, p the precision of the prior, as in `laplace`. The last
    layer is the last Linear layer with its bias, and the level of noise of a regression. The network is linear in it,
    so G is the Hessian of the likelihood with cross-entropy. Only for networks.

    As in `laplace` w moves in the burn-in and stays where it ends. State, and price, are those of `laplace`, without
    the axes of the layers before.

    Source: E. Daxberger, A. Kristiadi, A. Immer, R. Eschenhagen, M. Bauer, P. Hennig, "Laplace Redux - Effortless
    Bayesian Deep Learning", NeurIPS 2021; `Laplace(model, likelihood, "last_layer", hessian_structure=structure,
    prior_precision=p)` of laplace-torch 0.3, whose `kron` is the default there too.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"gauss_newton", "layout"})
    last_layer: ClassVar[bool] = True
