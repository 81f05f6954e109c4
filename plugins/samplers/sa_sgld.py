"""SGLD with step sizes that adapt to the size of the gradient, by a change of time (SA-SGLD, after SamAdams)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, param

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SASGLD(Sampler):
    """SGLD whose step psi h falls where gradients have been large; a draw weighs psi.

        psi   =  m (z^r + M) / (z^r + m),                   from M at z = 0 down to m
        theta <- theta - psi h g + sqrt(2 psi h T) xi,      g = grad U(theta),  xi ~ N(0, I)
        z     <- e^(-alpha h) z + (1 - e^(-alpha h)) |g|^2 / omega

    A step of length psi is a change of time: the chain spends 1/psi as many steps per unit of time, so a draw weighs
    the psi of the step that leaves it, and weighted averages have the target exp(-U/T) as h -> 0, unweighted ones have
    not. psi is known before the batch of its step is drawn: it does not depend on that gradient. The authors take plain
    averages, and their z has the gradient of the step before with the injected noise in it.

    Safe where M h lambda < 2. There is no closed form of the stationary law at finite h. In the authors' code |g|^2 of
    the mean loss is divided by N, and alpha multiplies the step on the mean loss: alpha here is theirs times N, omega
    theirs times N^3. (Their cyclical script divides by alpha too, as in SamAdams; their plain one, and this, do not.)
    State: z (C, 1). One gradient a step.

    Source: arXiv 2511.11666 (SA-SGLD), after SamAdams, arXiv 2504.18911.
    """

    adaptive: ClassVar[tuple[str, ...]] = ("z",)

    alpha: float = param(
        50.0, "(0, inf)", "rate at which z forgets", unit=1, source="authors' code, lr 0.01", tune="[1, 1e6]"
    )
    omega: float = param(1.0, "(0, inf)", "divisor of |g|^2", unit=2, source="authors' code", tune="[1e-2, 1e8]")
    least: float = param(0.1, "(0, inf)", "m, smallest psi", source="authors' code", tune="[0.01, 1]")
    most: float = param(10.0, "(0, inf)", "M, largest psi", source="authors' code", tune="[1, 100]")
    power: float = param(0.25, "(0, inf)", "r", source="authors' code")

    @staticmethod
    def zero_temperature(  # type: ignore[override]
        sampler: SASGLD, theta: Tensor, memory: dict[str, Tensor], g: Tensor, h: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Gradient descent with the step psi h."""
        z = memory.get("z", theta.new_zeros((len(theta), 1)))
        root, left = z**sampler.power, (-sampler.alpha * h).exp()
        psi = sampler.least * (root + sampler.most) / (root + sampler.least)
        size = g.square().sum(1, keepdim=True)
        return theta - psi * h * g, {"z": left * z + (1 - left) * size / sampler.omega}

    def _log_psi(self, z: Tensor) -> Tensor:
        root = (self.power * z.log()).exp()  # the bits of a power depend on the number of chains
        return (self.least * (root + self.most) / (root + self.least)).log()

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        return {"z": theta.new_zeros((len(theta), 1))}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        z, g = state["z"], potential.grad(theta)
        size = self._log_psi(z).exp() * h
        moved = theta - size * g + (2 * size * T).sqrt() * noise.normal(theta)
        left = (-self.alpha * h).exp()
        return moved, {"z": left * z + (1 - left) * g.square().sum(1, keepdim=True) / self.omega}

    def log_weight(self, state: dict[str, Tensor]) -> Tensor:
        return self._log_psi(state["z"])[:, 0]
