"""The laws of the baselines: what their draws are on a Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from plugins.checking import SamplerLaw


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
        from plugins.checking.forms import Target, mean_is_one, snapshots

        sampler = replace(sampler, every=100)
        V, K = 2.0, sampler.rank
        for x in (0.1, 0.5):
            spread = (x * V / 2) / (1 - x / 2)
            path = snapshots(sampler, Target("gaussian", 1.0, 20, V), x, steps=300 * sampler.every)

            def ratio(one: Any, spread: float = spread) -> Any:
                n = one.steps // sampler.every
                return one.theta.square() / (spread * ((1 - 1 / n) * (1 + K / (K - 1)) / 2 + 1 / n))

            mean_is_one(f"theta^2 over its derived variance at x = {x:g}", path, ratio, burn_in=0.5, among=2)


class LaplaceLaw(SamplerLaw):
    """No stationary law is claimed but on a Gaussian: there it is the target, once w is at the mode."""

    shows: ClassVar[str] = (
        "On a Gaussian whose axes are not those of the coordinates, with curvatures from 0.5 to 4, the variance along "
        "every axis is T / lambda at two temperatures, with exact and with noisy gradients, about w, which does not "
        "move after the burn-in."
    )

    def check(self, sampler: Any) -> None:
        """The variance of the draws about w along each axis, and that w stays."""
        import numpy as np

        from plugins.checking.forms import Snapshot, mean_is_one
        from plugins.checking.gaussian import GaussianTask, axes_of
        from plugins.checking.law import loop, trajectory

        curvature, steps = (0.5, 1.0, 2.0, 4.0), 60
        settings = ((0.5, 0.0), (3.0, 4.0))
        for T, variance in settings:
            task = GaussianTask(curvatures=curvature, dense=True, variance=variance)
            running = loop(sampler, task, trajectory(np.full(2 * steps, 0.1), T, burn_in=steps), 256)
            running.stage.ends = {k: k + 1 for k in range(2 * steps)}
            draws, first = [], None
            while not running.finished:
                running.advance_block()
                if running.position > steps:
                    w = running.theta - running.state["offset"]
                    first = w if first is None else first
                    assert (w - first).abs().max() < 1e-12, f"w moves at step {running.position}, after the burn-in"
                    draws.append(Snapshot(running.position, running.state["offset"] @ axes_of(4), {}))
            for axis, value in enumerate(curvature):
                mean_is_one(
                    f"lambda (theta - w)^2 / T along axis {axis} at T = {T:g}", draws,
                    lambda one, axis=axis, ratio=value / T: one.theta[:, axis].square() * ratio, 0,
                    among=len(settings) * len(curvature),
                )  # fmt: skip


class LaplaceSignsLaw(SamplerLaw):
    """No stationary law is claimed but on a Gaussian with a diagonal Hessian: there it is the target."""

    clocks: ClassVar[Mapping[str, str]] = {"steps": "its bias correction 1 - decay^steps tends to 1"}
    shows: ClassVar[str] = (
        "On a Gaussian with a diagonal Hessian the variance is T / lambda, at two temperatures; noisy gradients of "
        "variance V add (h V / (2 lambda)) / (1 - x/2)."
    )
    p_values: ClassVar[int] = 3

    def check(self, sampler: Any) -> None:
        """The second moment of the draws, with exact and with noisy gradients."""
        from plugins.checking.forms import Target, mean_is_one, snapshots

        x, steps = 0.2, 20_000
        for T, V in ((0.5, 0.0), (3.0, 0.0), (1.0, 4.0)):
            path = snapshots(sampler, Target("gaussian", T, 20, V), x, steps=steps)
            variance = T + (x * V / 2) / (1 - x / 2)
            name = f"theta^2 over its variance at T = {T:g}, V = {V:g}"
            mean_is_one(name, path, lambda one, variance=variance: one.theta.square() / variance, among=self.p_values)


class LastLayerLaplaceSignsLaw(LaplaceSignsLaw):
    """Without a weight matrix it is laplace-signs. Of two layers, the first is SGD and the last is drawn."""

    shows: ClassVar[str] = (
        "Without a weight matrix it is laplace-signs: "
        f"{LaplaceSignsLaw.shows[0].lower()}{LaplaceSignsLaw.shows[1:]} With two layers, on a quadratic potential "
        "whose Hessian is diagonal within the last layer and has entries between the layers, the last layer's variance "
        "is T / H_ii about the minimum, at two temperatures, and the weights before it are those of SGD."
    )
    p_values: ClassVar[int] = LaplaceSignsLaw.p_values + 2

    def check(self, sampler: Any) -> None:
        """Two layers, then the law of laplace-signs."""
        for T in (0.5, 3.0):
            two_layers(replace(sampler, decay=0.9), T, among=self.p_values)
        super().check(sampler)


def two_layers(sampler: Any, T: float, *, among: int) -> None:
    """The law of LastLayerLaplaceSignsLaw with two layers. Probes before the last one would be noise in 1 / H_ii."""
    import torch

    from harness.tasks import Block, Layout
    from plugins.checking.forms import mean_is_one

    H = torch.ones((6, 6), dtype=torch.float64)
    H[:2, :2] = 10 * torch.eye(2)
    H[2:, 2:] = torch.diag(torch.tensor([0.5, 1.0, 2.0, 4.0]))

    class Potential:
        layout = Layout((Block("w1", (1, 1)), Block("b1", (1,)), Block("w2", (2, 1)), Block("b2", (2,))))

        def grad(self, x: Any) -> Any:
            return x @ H

    h, chains, steps = 0.1, 64, 2000
    w = torch.ones((chains, 6), dtype=torch.float64)
    snapshots = walk(sampler, Potential(), w, h, T, steps)
    for one in snapshots:
        w = w - h * w @ H
        assert (one.theta - w)[:, :2].abs().max() < 1e-9, f"step {one.steps} is not SGD before the last layer"
    name = f"theta^2 over T / H_ii in the last layer at T = {T:g}"
    mean_is_one(name, snapshots, lambda one: (one.theta.square() * H.diag() / T)[:, 2:], burn_in=0.5, among=among)


def walk(sampler: Any, potential: Any, theta: Any, h: float, T: float, steps: int) -> list[Any]:
    """Position and state of all chains after each step from theta."""
    import torch

    from harness.engine import DirectNoise
    from plugins.checking.forms import Snapshot
    from plugins.checking.law import streams

    noise = DirectNoise([one.torch("noise") for one in streams(len(theta))], theta.dtype)
    given = potential, *torch.tensor([h, T], dtype=theta.dtype), noise
    state, snapshots = sampler.init(theta, *given), []
    for k in range(steps):
        theta, state = sampler.step(theta, dict(state), *given)
        snapshots.append(Snapshot(k + 1, theta, state))
    return snapshots


class MCDropoutLaw(SamplerLaw):
    """On a Gaussian, which has no hidden units, it is SGD. With hidden units it is dropout's ridge regression."""

    shows: ClassVar[str] = (
        "Without hidden units it is SGD. Behind six hidden units, on a quadratic potential |A w - b|^2 / 2, the "
        "mean of the draws solves (A'A + p / (1 - p) diag(A'A)) w = A'b, and the share of units dropped is p, "
        "at p = 0.1 and 0.5; no weight before them and no bias is masked."
    )

    def check(self, sampler: Any) -> None:
        """The mean over time and chains, coordinate by coordinate."""
        for rate in (0.1, 0.5):
            ridge(replace(sampler, rate=rate))


def ridge(sampler: Any) -> None:
    """The law of MCDropoutLaw at the rate of the sampler."""
    import numpy as np
    import torch
    from scipy.stats import t

    from harness.tasks import Block, Layout
    from plugins.checking.forms import OWN_LEVEL

    chains, steps, burn_in, hidden, p = 64, 3000, 500, 6, sampler.rate
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((8, hidden)), rng.standard_normal(8)
    H, slope = torch.from_numpy(A.T @ A), torch.from_numpy(A.T @ b)
    first = Block("weight1", (hidden, 1))

    class Potential:
        layout = Layout((first, Block("weight2", (1, hidden)), Block("bias2", (1,))))

        def grad(self, x: Any) -> Any:
            front, behind, bias = x.split([hidden, hidden, 1], dim=1)
            return torch.cat([front - 1, behind @ H - slope, bias - 1], dim=1)

    theta = torch.zeros((chains, 2 * hidden + 1), dtype=torch.float64)
    snapshots = walk(sampler, Potential(), theta, 0.02, 1.0, steps)
    draws = torch.stack([one.theta for one in snapshots[burn_in:]]).numpy()
    assert np.abs(draws[..., [*range(hidden), -1]] - 1).max() < 0.01, (
        "a weight before the hidden units, or a bias, is masked"
    )
    behind = draws[..., hidden:-1]
    expected = np.linalg.solve(A.T @ A + p / (1 - p) * np.diag((A * A).sum(0)), A.T @ b)
    bound = t.isf(OWN_LEVEL / 4 / (hidden + 1), chains - 1)
    dropped = (behind == 0).mean(axis=(0, 2)) - p
    each = np.column_stack([behind.mean(0) - expected, dropped])
    off = np.abs(each.mean(0)) / (each.std(0, ddof=1) / np.sqrt(chains))
    assert off[:-1].max() < bound, f"at p = {p:g} the mean of the draws is off by {off[:-1].max():.2g} standard errors"
    assert off[-1] < bound, f"at p = {p:g} the share of dropped units is off by {dropped.mean():.2g}"
