"""The Laplace approximation with the generalised Gauss-Newton matrix, a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import Noise, Potential, Sampler, UsageError, param

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = 20_000
"""The most parameters of a full matrix: 3.2 GB for each chain in float64."""


@dataclass(frozen=True, kw_only=True)
class Laplace(Sampler):
    """A Gaussian at the end of SGD with the generalised Gauss-Newton matrix G of the likelihood. Not MCMC.

        w     <- w - h grad U(w)
        P      = G(w) + p I,    G = sum_i J_i' F_i J_i,    at the start and before every n-th step
        theta  = w + sqrt(T) P^(-1/2) xi

    J_i is the Jacobian of the outputs at row i, F_i their Fisher information, p the precision of the prior. With
    `structure=kron` each weight matrix or kernel has a block B x A and each bias a block B, as KFAC has them (see
    `tasks.gauss_newton`); `full` has all of G. A model that is linear in theta has G = the Hessian. The level of noise
    of a regression is a parameter with a block of its own, which is 2 N for its logarithm. Parameters of normalisation
    are not drawn, and their statistics are those of the end of SGD. Where P is 0 theta is w.

    The predictions are those of drawn weights (`pred_type="nn"`), which for a whole network are often far worse than
    those of w; the default of laplace-torch is linear in theta instead, which no draw of theta is.

    w moves in the burn-in and one step more, and stays there, so the draws are independent; G is computed there before
    the next n-th step, and until then the draws have an earlier one: in a run of fewer than n steps that of the start.
    Without burn-in w always moves. A warm start (`run.warm_start`) brings w near a mode before the first G.
    At T = 0 this is SGD. State: theta - w, 1 / sqrt(P) along the axes (C, D), the axes of each factor by the index of
    its first weight, and whether w moves (C, 1). One gradient a step; G costs a data pass for each output of the
    network, at the start and every n steps.

    Source: D. J. C. MacKay, "A Practical Bayesian Framework for Backpropagation Networks", Neural Computation 1992;
    H. Ritter, A. Botev, D. Barber, "A Scalable Laplace Approximation for Neural Networks", ICLR 2018; `Laplace(model,
    likelihood, "all", hessian_structure=structure, prior_precision=p)` of laplace-torch 0.3.
    """

    full_gradients_at_start: ClassVar[int] = 1
    needs: ClassVar[frozenset[str]] = frozenset({"gauss_newton"})
    exempt: ClassVar[Mapping[str, str]] = {
        "potential": "the gradient is at w, theta is a draw",
        "compiled": "a draw is a product with the axes of P",
    }
    last_layer: ClassVar[bool] = False

    structure: str = param("kron", choices=("kron", "full"), meaning="of G", source="laplace-torch")
    every: int = param(200, "[1, inf)", "n, steps from one G to the next", source="ours; G is computed once there")

    @property
    def refresh_every(self) -> int:  # type: ignore[override]
        return self.every

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> dict[str, Tensor]:
        dim = theta.shape[1]
        if self.structure == "full" and dim > LARGEST and not self.last_layer:
            raise UsageError(f"{dim:,} parameters are too many for sampler.structure=full; set sampler.structure=kron")
        moving = theta.new_ones((len(theta), 1))
        return {"offset": 0 * theta, "moving": moving, "burning": 0 * moving, **self.gaussian(theta, potential)}

    def gaussian(self, w: Tensor, potential: Potential) -> dict[str, Tensor]:
        """The axes of P at w, and 1 / sqrt(P) along them, 0 for weights that are not drawn."""
        import torch

        factors, prior = potential.full.gauss_newton(w, last_layer=self.last_layer, full=self.structure == "full")
        sd, axes = 0 * w, {}
        for start, matrices in factors.items():
            values = w.new_ones((len(w), 1, 1))
            for side, matrix in zip(("left", "right"), matrices, strict=False):
                eigenvalues, axes[f"{side} {start}"] = torch.linalg.eigh(matrix)
                values = values * eigenvalues.clamp(min=0).unsqueeze(2 if side == "left" else 1)
            P = (values + prior).flatten(1)
            sd[:, start : start + P.shape[1]] = P.rsqrt().where(P > 0, 0 * P)
        return {"sd": sd, **axes}

    def step(
        self, theta: Tensor, state: dict[str, Tensor], potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, dict[str, Tensor]]:
        w = theta - state["offset"]
        w = w - h * state["moving"] * potential.grad(w)
        offset = T.sqrt() * self.draw(state, noise.normal(theta).expand_as(theta))
        moved = {"offset": offset, "moving": 1 - state["burning"], "burning": state["burning"]}
        return w + offset, {**state, **moved}

    def draw(self, state: dict[str, Tensor], xi: Tensor) -> Tensor:
        """P^(-1/2) xi (C, D), for xi (C, D)."""
        import torch

        parts, end = [], 0
        for name, left in sorted(
            ((int(name.split()[1]), leaf) for name, leaf in state.items() if name.startswith("left")),
            key=lambda pair: pair[0],
        ):
            right = state.get(f"right {name}")
            into = 1 if right is None else right.shape[1]
            block = slice(name, name + left.shape[1] * into)
            z, sd = (x[:, block].unflatten(1, (-1, into)) for x in (xi, state["sd"]))
            z = left.mT @ z if right is None else left.mT @ z @ right
            z = left @ (sd * z)
            parts += [0 * xi[:, end : block.start], (z if right is None else z @ right.mT).flatten(1)]
            end = block.stop
        return torch.cat([*parts, 0 * xi[:, end:]], dim=1)

    def adapt(self, state: dict[str, Tensor], h: Tensor, T: Tensor) -> dict[str, Tensor]:
        on = 0 * state["moving"] + 1
        return {**state, "moving": on, "burning": on}

    def refresh(self, theta: Tensor, state: dict[str, Tensor], potential: Potential) -> dict[str, Tensor]:
        return {**state, **self.gaussian(theta - state["offset"], potential)}

    def limit_bias(self) -> None:
        return None
