"""The law of santa: exploring at a fixed temperature, its thermostats hold the mean of u_i^2 at h T."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from plugins.checking import SamplerLaw


class SantaLaw(SamplerLaw):
    """No stationary law of theta is claimed: the derivative of P is left out, and annealed it is an optimiser.

    From alpha <- alpha + (u^2 / T - h) / 2 twice a step, the time average of u_i^2 / (h T) is 1 wherever alpha stays
    bounded; and a step is the equation of the class, written once more here.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "time-homogeneity": "it anneals: its noise falls with the number of steps by design (anneal)"
    }

    shows: ClassVar[str] = (
        "A step is its equation; at anneal = 0 the time average of u_i^2 / (h T) is 1. No law of theta."
    )

    def check(self, sampler: Any) -> None:
        """One step by hand; then the mean at anneal = 0, at two temperatures."""
        import torch

        from plugins.checking.forms import Target, mean_is_one, snapshots

        one_step(sampler)
        exploring = replace(sampler, anneal=0.0)
        for T in (0.5, 3.0):
            h = 0.01
            path = snapshots(exploring, Target("gaussian", T, 20), h, steps=20_000)
            mean_is_one(
                f"u^2 / (h T) at T = {T:g}", path, lambda one, heat=h * T: one.state["u"].square() / heat, among=2
            )
            assert all(bool(torch.isfinite(one.state["alpha"]).all()) for one in path)


def one_step(sampler: Any) -> None:
    """The equation for one coordinate in plain numbers, at the third step."""
    import math

    import torch

    from harness import linear

    theta, u, alpha, V, xi, h, T, g = 0.7, 0.05, 0.2, 0.4, -0.6, 0.01, 1.5, 1.1

    class Slope:
        def grad(self, x: Any) -> Any:
            return torch.full_like(x, g)

    number = lambda value: torch.tensor([[value]], dtype=torch.float64)  # noqa: E731
    state = {"u": number(u), "alpha": number(alpha), "V": number(V), "t": torch.tensor([[2]])}
    moved, new = sampler.step(
        number(theta), state, Slope(), torch.tensor(h, dtype=torch.float64), torch.tensor(T, dtype=torch.float64),
        linear.ScriptedNoise([number(xi)]),
    )  # fmt: skip
    cooled = 3.0**-sampler.anneal
    V = sampler.decay * V + (1 - sampler.decay) * g * g
    P = math.sqrt(sampler.lam + math.sqrt(V))
    theta += u / (2 * P)
    alpha += (u * u / T - h * cooled) / 2
    u = math.exp(-alpha / 2) * u - h * g / (2 * P) + math.sqrt(2 * sampler.diffusion * h**1.5 * T * cooled) * xi
    u = math.exp(-alpha / 2) * u - h * g / (2 * P)
    alpha += (u * u / T - h * cooled) / 2
    theta += u / (2 * P)
    expected = {"theta": theta, "u": u, "alpha": alpha, "V": V}
    after = {"theta": moved, **new}
    for name, value in expected.items():
        got = float(after[name])
        assert abs(got - value) <= 1e-12 * max(abs(value), 1e-3), f"{name} after a step is {got:.12g}, not {value:.12g}"
