"""SWAG: a Gaussian fitted to iterates of SGD (Maddox et al. 2019), a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SWAG(Sampler):
    """A Gaussian fitted to iterates of SGD; each position is one draw from it. Not MCMC.

        w     <- w - h grad U(w);  every n-th w is a snapshot
        theta  = m + sqrt(T/2) (sqrt(s) xi1 + D xi2 / sqrt(K - 1))

    m and s are mean and variance of the snapshots so far, coordinate by coordinate, D the deviations of the last K of
    them from the mean at their time. Before the first snapshot theta is w. On a quadratic potential of curvature lambda
    with gradients of variance V, x = h lambda, the snapshots have the variance (h V / (2 lambda)) / (1 - x/2), and
    theta has it times T (1 + K / (K - 1)) / 2: about T / lambda only where h V / 2 = 1. With exact gradients it is a
    point.

    A warm start (`run.warm_start`) brings w to the region of the snapshots. Statistics of batch normalisation are those
    of the iterates of SGD, and are not computed again for each draw. State: theta - w, m, the sum of squared
    deviations, D (C, K, D), and counts (C, 1) of snapshots and of steps since the last one. One gradient a step.

    Source: W. Maddox, T. Garipov, P. Izmailov, D. Vetrov, A. G. Wilson, "A Simple Baseline for Bayesian Uncertainty in
    Deep Learning", NeurIPS 2019, algorithm 1 and eq. 1.
    """

    zero_temperature: ClassVar[None] = None
    exempt: ClassVar[Mapping[str, str]] = {
        "potential": "the gradient is at w, and theta is a draw from the fit",
        "scale": "its variance is that of the iterates of SGD times T, and these have the same variance on c U at c T",
        "zero-temperature": "theta is the mean of the snapshots at T = 0, and w is moved by SGD at every T",
    }

    rank: int = param(20, "[2, 1000]", "K, snapshots whose deviations are kept", source="Maddox et al. 2019, K = 20")
    every: int = param(5, "[1, inf)", "n, steps from one snapshot to the next; an epoch in the paper", source="ours")

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        import torch

        C, D = theta.shape
        count = theta.new_zeros((C, 1), dtype=torch.int64)
        return {
            "offset": theta.new_zeros((C, D)), "mean": theta.clone(), "squares": theta.new_zeros((C, D)),
            "deviations": theta.new_zeros((C, self.rank, D)), "steps": count, "snapshots": count.clone(),
        }  # fmt: skip

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        import torch

        w = theta - state["offset"]
        w = w - h * potential.grad(w)
        due = state["steps"] + 1 == self.every
        steps = torch.where(due, 0, state["steps"] + 1)
        snapshots = state["snapshots"] + due
        count = snapshots.clamp(min=1).to(w.dtype)
        gap = w - state["mean"]
        mean = torch.where(due, state["mean"] + gap / count, torch.where(snapshots == 0, w, state["mean"]))
        squares = torch.where(due, state["squares"] + gap * (w - mean), state["squares"])
        shifted = torch.cat([state["deviations"][:, 1:], (w - mean)[:, None]], 1)
        deviations = torch.where(due[:, :, None], shifted, state["deviations"])
        kept = count.clamp(max=self.rank)

        diagonal = (squares / count).clamp(min=0).sqrt() * noise.normal(theta)
        low_rank = (deviations * noise.normal(deviations[:, :, 0])[..., None]).sum(1) / (kept - 1).clamp(min=1).sqrt()
        theta = mean + (T / 2).sqrt() * (diagonal + low_rank)
        return theta, {
            "offset": theta - w, "mean": mean, "squares": squares, "deviations": deviations, "steps": steps,
            "snapshots": snapshots,
        }  # fmt: skip

    def limit_bias(self) -> None:
        return None
