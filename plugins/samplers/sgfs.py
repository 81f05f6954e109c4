"""Stochastic gradient Fisher scoring (Ahn, Korattikara, Welling 2012), with the full Fisher matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SGFS(Sampler):
    """Langevin steps preconditioned by the Fisher information, which also stands for the noise of the minibatch.

        I     <- (1 - 1/t) I + 1/t V,    V = covariance (n - 1) of the scores of the n examples of the batch at step t
        theta <- theta - 2 (gamma N I + 4 B / epsilon)^-1 (g + eta),    eta ~ N(0, 4 B T / epsilon)

    with gamma = (N + n) / n, N the number of likelihood terms, B = b times the identity and epsilon = 2 h; in the form
    computed here theta <- theta - (b + h gamma N I / 2)^-1 (h g - sqrt(2 b h T) xi). Target exp(-U/T) as h -> 0, where
    it is sgld with step h / b. On a Gaussian whose precision is N I and whose gradient noise is that of n terms drawn
    with replacement, (N^2 / n) I, the stationary law is exactly exp(-U) at T = 1 and *every* step size, h -> infinity
    (b -> 0) included. Where there is less noise, as with all the data in every batch, long steps come out too cold.

    N I is the precision of the posterior only at T = 1 and for U as it is, so there is no rescaling to cU. State: I
    (C, D, D) and t, from one batch at the start. A step asks for the scores and for a gradient: two gradients a step.

    Source: S. Ahn, A. Korattikara, M. Welling, "Bayesian Posterior Sampling via Stochastic Gradient Fisher Scoring",
    ICML 2012. Checked against the authors' Matlab code (distributed in jgorham/stein_discrepancy:
    src/experiments/LR_HMC, with alpha^2 gamma N I in place of 4 B / epsilon), and derived anew: the gamma above is what
    makes the law of the Gaussian exact.
    """

    gradients_per_step: ClassVar[int] = 2
    needs: ClassVar[frozenset[str]] = frozenset({"scores", "terms"})
    adaptive: ClassVar[tuple[str, ...]] = ("I", "t")
    zero_temperature: ClassVar[None] = None
    exempt: ClassVar[Mapping[str, str]] = {
        "scale": "the covariance of the scores is the curvature of U at T = 1 only: cU at cT has no setting that walks "
        "the same path"
    }

    b: float = param(
        1.0,
        "(0, inf)",
        "B = b I; sgld with step h / b as h -> 0",
        source="ours; the paper leaves B free",
        tune="[0.1, 10]",
    )

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"I": covariance(potential.scores(theta)), "t": theta.new_ones((len(theta), 1, 1))}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        import torch

        scores = potential.scores(theta)
        g = potential.grad(theta)
        t = state["t"] + 1
        fisher = state["I"] + (covariance(scores) - state["I"]) / t
        n = scores.shape[1]
        gamma_N = (potential.terms + n) / n * potential.terms
        identity = torch.eye(theta.shape[1], dtype=theta.dtype, device=theta.device)
        inverse = self.b * identity + h.unsqueeze(-1) * gamma_N / 2 * fisher
        push = h * g - (2 * self.b * h * T).sqrt() * noise.normal(theta)
        root = torch.linalg.cholesky_ex(inverse).L
        # cholesky_solve has the same bits, but a GPU cannot record it
        half = torch.linalg.solve_triangular(root, push[:, :, None], upper=False)
        return theta - torch.linalg.solve_triangular(root.mT, half, upper=True)[:, :, 0], {"I": fisher, "t": t}


def covariance(scores: Tensor) -> Tensor:
    """The covariance (C, D, D) of scores (C, n, D), by n - 1."""
    centred = scores - scores.mean(1, keepdim=True)
    return centred.mT @ centred / max(scores.shape[1] - 1, 1)
