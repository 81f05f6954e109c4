"""Contour SGLD: importance sampling that flattens the energy landscape as it learns it (Deng et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ContourSGLD(Sampler):
    """SGLD on a target whose m energy bins of width du are weighed down by the mass G that they are found to have.

        c     = 1 + zeta T (log G_J - log G_{J-1}) / du,    J the bin of U(theta)
        theta <- theta - h c grad U(theta) + sqrt(2 h T) xi,                     xi ~ N(0, I)
        J     = floor((U(theta) - low) / du)
        G     <- G + w G_J^zeta (e_J - G),    w = min(w1, w2 / (t^0.8 + 100))

    The flattened target is exp(-U/T) / G_J^zeta, so a draw weighs G_J^zeta, and every estimate uses the weights. With
    zeta = 0 it is sgld. Where G falls steeply with the energy, c is negative: the chain climbs. Energies out of [low,
    high] count for the bin at that end, and c = 1 there, as in the first bin. Where gradients are stochastic the
    energies are too, and the bins are noisy. Bins that are never met lose their mass, and c grows beside them: the
    range is to be the one that the chain lives in.

    A draw's weight needs its energy, so U and its gradient are asked for where a step ends, and the next one starts
    with them. State: G (C, m), the gradient (C, D), J and the count of steps t, both (C, 1). One gradient a step.

    Source: W. Deng, G. Lin, F. Liang, "A Contour Stochastic Gradient Langevin Dynamics Algorithm for Simulations of
    Multi-modal Distributions", NeurIPS 2020, algorithm 1; the constants of w as in their code, whose in-place update of
    G and whose rejection of moves out of a box are not followed.
    """

    zero_temperature: ClassVar[None] = None
    exempt: ClassVar[Mapping[str, str]] = {
        "potential": "the weight of a draw needs its energy, so a step asks for U and its gradient where it ends"
    }

    zeta: float = param(0.75, "[0, inf)", "how far the landscape is flattened", source="Deng et al. 2020, code")
    bins: int = param(100, "[2, 100000]", "m, energy bins", source="Deng et al. 2020, code")
    low: float = param(0.0, meaning="energy at the lower end of the first bin", source="ours: U of a task from 0 on")
    high: float = param(100.0, meaning="energy at the upper end of the last bin", source="ours")
    fastest: float = param(3e-3, "(0, 1)", "w1, largest rate of learning G", source="Deng et al. 2020, code")
    decay: float = param(10.0, "(0, inf)", "w2, of the later rate", source="Deng et al. 2020, code")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise UsageError(f"contour-sgld: low = {self.low:g} is not below high = {self.high:g}")

    @property
    def width(self) -> float:
        """du, in units of U."""
        return (self.high - self.low) / self.bins

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        import torch

        energy, gradient = potential.value_and_grad(theta)
        falling = torch.arange(self.bins, 0, -1, dtype=theta.dtype, device=theta.device)
        J = self._bin(energy)
        G = (falling / falling.sum()).expand(len(theta), -1).clone()
        return {"G": G, "gradient": gradient, "J": J, "t": torch.zeros_like(J)}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        import torch

        G, J, t = state["G"], state["J"], state["t"] + 1
        inside = (J > 0) & (self.bins > J)
        slope = (self._mass(G, J).log() - self._mass(G, J - 1).log()) / self.width
        drift = (1 + self.zeta * T * slope * inside) * state["gradient"]
        theta = theta - h * drift + (2 * h * T).sqrt() * noise.normal(theta)

        energy, gradient = potential.value_and_grad(theta)
        J = self._bin(energy)
        rate = (self.decay / ((0.8 * t.to(G.dtype).log()).exp() + 100)).clamp(max=self.fastest)
        share = (self.zeta * self._mass(G, J).log()).exp()
        here = (torch.arange(self.bins, device=G.device) == J.clamp(0, self.bins - 1)).to(G.dtype)
        return theta, {"G": G + rate * share * (here - G), "gradient": gradient, "J": J, "t": t}

    def _bin(self, energy: Tensor) -> Tensor:
        """J (C, 1) of energies (C,), -1 below the range and m above it; a lost chain's is -1."""
        import torch

        place = ((energy - self.low) / self.width).floor().nan_to_num(nan=-1.0).clamp(-1, self.bins)
        return place.to(torch.int64)[:, None]

    def _mass(self, G: Tensor, J: Tensor) -> Tensor:
        """G_J (C, 1), of the bins at the ends for energies out of range."""
        return G.gather(1, J.clamp(0, self.bins - 1))

    def log_weight(self, state: dict[str, Tensor]) -> Tensor:
        return self.zeta * self._mass(state["G"], state["J"]).log()[:, 0]

    def rescale(self, c: float) -> tuple[Sampler, float]:
        return replace(self, low=c * self.low, high=c * self.high), 1 / c
