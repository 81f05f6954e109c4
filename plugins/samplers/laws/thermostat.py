"""The law of sgnht: its friction makes up for noise of any size, so the noise itself is looked at."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from plugins.checking import SamplerLaw

STEPS, CHAINS, DIM = 200, 64, 20
P_VALUES = 7
"""Three at each of two temperatures, and that of the mean of v^2."""


class SGNHTLaw(SamplerLaw):
    """Solved for its noise, a step gives white noise, and the long mean of v^2 is h T.

        xi = (v' - (1 - alpha) v + h grad U(theta)) / sqrt(2 a h T)

    Standard normal, alike in all coordinates, and independent from step to step.
    """

    shows: ClassVar[str] = (
        "A step is its equation; its noise, solved for, is white with variance 1; the long mean of v^2 is h T."
    )

    def check(self, sampler: Any) -> None:
        """Noise, alpha and theta along a path at two temperatures; then the mean of v^2 over a long one."""
        from plugins.checking.forms import Target, mean_is_one, snapshots

        for T in (0.5, 3.0):
            along(sampler, 0.01, T)
        h, T = 0.01, 2.0
        path = snapshots(sampler, Target("gaussian", T, DIM), h, steps=20_000)
        mean_is_one("v^2 / (h T)", path, lambda one: one.state["v"].square() / (h * T), among=P_VALUES)


def along(sampler: Any, h: float, T: float) -> None:
    """A path on a standard normal, step by step: three of the law's P_VALUES."""
    import torch
    from scipy.stats import chi2, norm

    from harness.engine import DirectNoise
    from plugins.checking.forms import OWN_LEVEL
    from plugins.checking.law import streams

    class Normal:
        def grad(self, x: Any) -> Any:
            return x.clone()

    number = torch.tensor([h, T], dtype=torch.float64)
    noise = DirectNoise([one.torch("noise") for one in streams(CHAINS)], torch.float64)
    theta = noise.normal(torch.zeros((CHAINS, DIM), dtype=torch.float64)) * math.sqrt(T)
    state, normals = sampler.init(theta, Normal(), number[0], number[1], noise), []
    for _ in range(STEPS):
        moved, new = sampler.step(theta, dict(state), Normal(), number[0], number[1], noise)
        normals.append((new["v"] - (1 - state["alpha"]) * state["v"] + h * theta) / math.sqrt(2 * sampler.a * h * T))
        heat = new["v"].square().mean(1, keepdim=True) - h * T
        for name, got, want in (("theta", moved, theta + new["v"]), ("alpha", new["alpha"], state["alpha"] + heat)):
            gap = float((got - want).abs().max())
            assert gap < 1e-12, f"at T = {T:g} a step's {name} is off by {gap:.2g}"
        theta, state = moved, new
    xi = torch.stack(normals)
    total, size = float(xi.square().sum()), xi.numel()
    p = 2 * min(chi2.sf(total, size), chi2.cdf(total, size))
    assert p >= OWN_LEVEL / P_VALUES, (
        f"at T = {T:g} the noise of a step has variance {total / size:.4g}, should be 1 (p = {p:.2g})"
    )
    for name, product in (("steps", xi[1:] * xi[:-1]), ("coordinates", xi[:, :, 1:] * xi[:, :, :-1])):
        p = float(2 * norm.sf(abs(float(product.sum())) / math.sqrt(product.numel())))
        assert p >= OWN_LEVEL / P_VALUES, f"at T = {T:g} the noise of neighbouring {name} is correlated (p = {p:.2g})"
