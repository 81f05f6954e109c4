"""The law of sg-barker-corrected: the probabilities of its signs are those of its equation, for given scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from plugins.checking import SamplerLaw

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 20_000
"""Chains at one point, whose uniforms are evenly spread: their signs count a probability to 1 / ROWS."""


class SGBarkerCorrectedLaw(SamplerLaw):
    """As h -> 0 the correction vanishes and the target is that of sg-barker; at finite h its equation is shown."""

    shows: ClassVar[str] = (
        "With given scores and gradients tau is the running mean of N sd(scores) sqrt(1/n - 1/N), and the "
        "probabilities of the signs are 1 / (1 + exp(a z g / T)), certain where tau z / T >= 1.702. The target as "
        "h -> 0."
    )

    def check(self, sampler: Any) -> None:
        """Compare tau and the share of signs with the equation, for noise below the bound and beyond it."""
        import numpy as np
        import torch

        from harness import linear

        rng = np.random.default_rng(0)
        scores, N, h, T = rng.standard_normal((5, 2)), 40, 0.03, 1.7
        theta, g, z = np.array([0.3, -2.0]), np.array([1.1, -0.7]), np.sqrt(2 * h * T)

        class Given:
            terms = N

            def scores(self, x: Tensor) -> Tensor:
                return torch.from_numpy(scores).expand(len(x), -1, -1)

            def grad(self, x: Tensor) -> Tensor:
                return torch.from_numpy(g).expand_as(x)

        even = ((torch.arange(ROWS, dtype=torch.float64) + 0.5) / ROWS)[:, None].expand(-1, 2)
        start = torch.from_numpy(theta).expand(ROWS, 2)
        for before in (2.0, 60.0):
            noise = linear.ScriptedNoise([torch.zeros_like(start), even])
            size, heat = (torch.tensor(value, dtype=torch.float64) for value in (h, T))
            moved, state = sampler.step(start, {"tau": torch.full_like(start, before)}, Given(), size, heat, noise)
            s = N * np.sqrt(scores.var(0, ddof=1) * (1 / 5 - 1 / N))
            tau = sampler.keep * before + (1 - sampler.keep) * s
            gap = np.abs(state["tau"].numpy()[0] / tau - 1).max()
            assert gap < 1e-10, f"tau is off by {gap:.2g} (relative) from its equation"
            y = tau * z / T
            with np.errstate(invalid="ignore", divide="ignore"):
                a = 1.702 / np.sqrt(1.702**2 - y**2)
                p = np.where(y < 1.702, 1 / (1 + np.exp(a * z * g / T)), g < 0)
            up = (moved.numpy() > theta).mean(0)
            off = np.abs(up - p).max()
            assert off <= 1 / ROWS, f"at tau z / T = {y.round(3)} signs are positive with {up}, should be {p.round(4)}"
