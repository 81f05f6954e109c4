"""The laws of the baselines: what their draws are on a Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from harness import SamplerLaw


class SWAGLaw(SamplerLaw):
    """No stationary law of theta is claimed: it is a draw from a fit to all snapshots so far."""

    exempt: ClassVar[Mapping[str, str]] = {
        "time-homogeneity": "its fit is a mean over all snapshots since the start, by design"
    }
    shows: ClassVar[str] = (
        "On a Gaussian with noisy gradients the mean of theta^2 is the derived variance of the iterates of SGD, "
        "(h V / (2 lambda)) / (1 - x/2), times (1 + K / (K - 1)) / 2, at two step sizes."
    )

    def check(self, sampler: Any) -> None:
        """The second moment of the draws after many snapshots, most of SGD's correlation apart."""
        from plugins.laws.forms import Target, mean_is_one, snapshots

        sampler = replace(sampler, every=100)
        V, K = 2.0, sampler.rank
        for x in (0.1, 0.5):
            spread = (x * V / 2) / (1 - x / 2)
            found = snapshots(sampler, Target("gaussian", 1.0, 20, V), x, steps=300 * sampler.every)

            def ratio(one: Any, spread: float = spread) -> Any:
                n = one.steps // sampler.every
                return one.theta.square() / (spread * ((1 - 1 / n) * (1 + K / (K - 1)) / 2 + 1 / n))

            mean_is_one(f"theta^2 over its derived variance at x = {x:g}", found, ratio, burn_in=0.5, among=2)


class LaplaceLaw(SamplerLaw):
    """No stationary law is claimed but on a Gaussian with a diagonal Hessian: there it is the target."""

    clocks: ClassVar[Mapping[str, str]] = {"steps": "its bias correction 1 - decay^steps tends to 1"}
    shows: ClassVar[str] = (
        "On a Gaussian with a diagonal Hessian the variance is T / lambda, at two temperatures; noisy gradients of "
        "variance V add (h V / (2 lambda)) / (1 - x/2)."
    )

    def check(self, sampler: Any) -> None:
        """The second moment of the draws, with exact and with noisy gradients."""
        from plugins.laws.forms import Target, mean_is_one, snapshots

        x, steps = 0.2, 20_000
        for T, V in ((0.5, 0.0), (3.0, 0.0), (1.0, 4.0)):
            found = snapshots(sampler, Target("gaussian", T, 20, V), x, steps=steps)
            variance = T + (x * V / 2) / (1 - x / 2)
            name = f"theta^2 over its variance at T = {T:g}, V = {V:g}"
            mean_is_one(name, found, lambda one, variance=variance: one.theta.square() / variance, among=3)
