"""Stochastic gradient Riemannian Langevin dynamics (Patterson and Teh 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SGRLD(Sampler):
    """Langevin dynamics in a metric G(theta) that the task supplies; D = G^-1.

        theta <- theta - h (D g - T Gamma) + sqrt(2 h T) L xi,    L L' = D,  Gamma_i = sum_j dD_ij / dtheta_j

    with g = grad U(theta), xi ~ N(0, I) and L the Cholesky factor. Target exp(-U/T) as h -> 0, which needs Gamma
    wherever G varies. With a constant metric it is sgld in the coordinates that make D the identity: on a quadratic of
    Hessian G the stationary variance is (T / lambda) / (1 - h/2) in every direction, stable for h < 2. On cU the metric
    is cG, so h stays: it has no unit. A task may give D by its diagonal. State: none. One gradient a step.

    Source: S. Patterson, Y. W. Teh, "Stochastic Gradient Riemannian Langevin Dynamics on the Probability Simplex",
    NIPS 2013 (epsilon = 2 h), in the form of Y.-A. Ma, T. Chen, E. B. Fox, "A Complete Recipe for Stochastic
    Gradient MCMC", NIPS 2015.
    """

    step_unit: ClassVar[int] = 0
    needs: ClassVar[frozenset[str]] = frozenset({"metric"})

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        import torch

        g = potential.grad(theta)
        D, Gamma = potential.metric(theta)
        L = D.sqrt() if D.ndim == 2 else torch.linalg.cholesky_ex(D).L
        xi = noise.normal(theta).expand_as(theta)  # a 0-dim zero at T = 0
        return theta - h * (times(D, g) - T * Gamma) + (2 * h * T).sqrt() * times(L, xi), state


def times(matrix: Tensor, vector: Tensor) -> Tensor:
    """Matrices (C, D, D) or their diagonals (C, D) times vectors (C, D): bits do not depend on the other chains."""
    return matrix * vector if matrix.ndim == 2 else (matrix * vector[:, None, :]).sum(2)
