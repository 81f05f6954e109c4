"""Contour SGLD: importance sampling that flattens the energy landscape as it learns it (Deng et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ContourSGLD(Sampler):
    """SGLD on a target whose m energy bins of width du are weighed down by the mass G that they are found to have.

        s_j   = zeta T (log G_j - log G_{j-1}) / du,  within +-cap;  0 in the first bin and out of [low, high]
        theta <- theta - h (1 + s_J) grad U(theta) + sqrt(2 h T) xi,     J the bin of U(theta)
        draw weighs Psi(U)^zeta,                  U at the new theta
        G     <- G + w Psi(U)^zeta (e_J - G),     w = min(w1, w2 / (t^0.8 + 100)),  J the bin of this U

    Psi is the curve through G that s is the slope of: log Psi^zeta(U) rises by s_j du / T across bin j, and is that of
    the heaviest bin there. The chain samples exp(-U/T) / Psi(U)^zeta, so a draw weighs Psi^zeta, by the G that it was
    drawn with, and every estimate uses the weights. With zeta = 0 it is sgld. Where G falls steeply with the energy, s
    is below -1: the chain climbs. A bin that is never met loses its mass for ever, and beside it s has no bound but
    `cap`: [low, high] is to be the range that the chain lives in. Where gradients are stochastic so are the energies,
    the bins are noisy, and the draws are biased at every h (docs/step-bias.md).

    A draw's weight needs its energy, so U and its gradient are asked for where a step ends, and the next one starts
    with them. State: G (C, m), gradient (C, D), U (C, 1), the count of steps (C, 1), log weight (C,). One gradient a
    step.

    Source: W. Deng, G. Lin, F. Liang, "A Contour Stochastic Gradient Langevin Dynamics Algorithm for Simulations of
    Multi-modal Distributions", NeurIPS 2020, algorithm 1 and eq. 4 (Psi); the constants of w as in their code, whose
    in-place update of G, weights G_J^zeta and rejection of moves out of a box are not followed. The cap is ours.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "potential": "the weight of a draw needs its energy, so a step asks for U and its gradient where it ends"
    }

    zeta: float = param(
        0.75, "[0, inf)", "how far the landscape is flattened", source="Deng et al. 2020, code", tune="[0.1, 2]"
    )
    bins: int = param(100, "[2, 100000]", "m, energy bins", source="Deng et al. 2020, code")
    low: float = param(
        0.0, meaning="energy at the lower end of the first bin", unit=1, source="ours: U of a task from 0 on"
    )
    high: float = param(100.0, meaning="energy at the upper end of the last bin", unit=1, source="ours")
    fastest: float = param(3e-3, "(0, 1)", "w1, largest rate of learning G", source="Deng et al. 2020, code")
    cap: float = param(3.0, "(0, inf)", "largest |s|", source="ours: without it bins never met make steps explode")
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
        G = (falling / falling.sum()).expand(len(theta), -1).clone()
        return {
            "G": G,
            "gradient": gradient,
            "energy": energy[:, None],
            "t": theta.new_zeros((len(theta), 1), dtype=torch.int64),
            "log_weight": self._curve(G, T)(energy[:, None])[1][:, 0],
        }

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        import torch

        G, t = state["G"], state["t"] + 1
        curve = self._curve(G, T)
        slope, _ = curve(state["energy"])
        theta = theta - h * (1 + slope) * state["gradient"] + (2 * h * T).sqrt() * noise.normal(theta)

        energy, gradient = potential.value_and_grad(theta)
        energy = energy[:, None]
        _, log_weight = curve(energy)
        rate = (self.decay / ((0.8 * t.to(G.dtype).log()).exp() + 100)).clamp(max=self.fastest)
        here = (torch.arange(self.bins, device=G.device) == self._bin(energy).clamp(0, self.bins - 1)).to(G.dtype)
        G = G + rate * log_weight.exp() * (here - G)
        return theta, {"G": G, "gradient": gradient, "energy": energy, "t": t, "log_weight": log_weight[:, 0]}

    def _bin(self, energy: Tensor) -> Tensor:
        """The bin of each energy (C, 1): -1 below the range, m above it, -1 for a lost chain."""
        import torch

        index = ((energy - self.low) / self.width).floor().nan_to_num(nan=-1.0).clamp(-1, self.bins)
        return index.to(torch.int64)

    def _curve(self, G: Tensor, T: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """The function of energies (C, 1) that gives s_J and log Psi^zeta, (C, 1) both."""
        import torch

        log_G = G.log()
        s = (self.zeta * T * log_G.diff(dim=1) / self.width).clamp(-self.cap, self.cap)
        s = torch.cat([torch.zeros_like(s[:, :1]), s], dim=1)
        top = (s * self.width / T).cumsum(1)  # log Psi^zeta at the upper end of each bin, but for a constant
        most, heaviest = log_G.max(dim=1, keepdim=True)
        top = top + self.zeta * most - top.gather(1, heaviest)

        def at(energy: Tensor) -> tuple[Tensor, Tensor]:
            J = self._bin(energy)
            here = J.clamp(0, self.bins - 1)
            slope = s.gather(1, here) * ((J >= 0) & (self.bins != J))
            above = self.low + (here + 1) * self.width - energy
            return slope, top.gather(1, here) - slope * above / T

        return at

    def log_weight(self, state: dict[str, Tensor]) -> Tensor:
        return state["log_weight"]

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        if min(T) <= 0:
            raise UsageError("contour-sgld has no T = 0: its schedule must keep the temperature above 0 at every step")
