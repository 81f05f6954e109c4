"""Scores of a regression's predictions: on the test rows, and against a reference in function space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.tasks import Metric, Observer, Outcome, Reference, draw_grid, finite_or_none, steps_of_draws

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost

    Array = NDArray[np.float64]

COVERED = np.arange(1, 20) / 20
"""Probabilities of the central intervals whose coverage is measured: 5 % to 95 %."""

WIDE = 2 * 1.6448536269514722
"""Width of the central 90 % interval of a normal distribution, in sds."""

CACHED = 2**16
"""Numbers of draws, or of their predictions, that are added together."""

REGRESSION_METRICS = (
    Metric("lppd", "max", "nats", "log density of a test row under the mixture of all draws, mean over the rows"),
    Metric("rmse", "min", "sd", "root mean square error of the posterior mean on the test rows, in sds of the target"),
    Metric("nll", "min", "nats", "minus the log density under the normal with the mixture's mean and variance"),
    Metric("coverage50", "target", "1", "share of test rows in the mixture's central 50 % interval", target=0.5),
    Metric("coverage90", "target", "1", "share of test rows in the mixture's central 90 % interval", target=0.9),
    Metric("calibration_error", "min", "1", "mean of |coverage - p| of central intervals over p = 5 %, 10 % ... 95 %"),
    Metric(
        "interval_width", "min", "sd", "width of the 90 % interval of the normal with the mixture's mean and variance"
    ),
)
"""Of the predictions, whatever the posterior."""

FUNCTION_METRICS = (
    Metric("function_mean_error", "min", "sd", "error of E f(x), root mean square over test rows, in reference sds"),
    Metric("function_sd_error", "min", "1", "relative error of the sd of f(x), root mean square over test rows"),
    Metric(
        "function_quantile_error", "min", "1",
        "error of the shares of draws of f(x) below the reference's quantiles, root mean square over rows and levels",
    ),
    Metric("joint_error", "min", "1", "mean over chains of b2 at the end, worst test row and function of f(x)"),
)  # fmt: skip
"""Against a reference; None without one."""


class RegressionObserver(Observer):
    """`REGRESSION_METRICS` of the mixture of N(f(x), sigma^2) over draws and chains, and `FUNCTION_METRICS` of f(x).

    The weighted sums over draws of functions of f at the M test rows are kept for each chain, in float64. Curves over
    data passes, (1, n): rmse and lppd of all draws so far. With a reference, joint_error (C, 5 M): the signed errors of
    a chain's averages of z = (f - E f) / sd f, of z^2 and of the shares below three quantiles, in sds of what is
    averaged. b2 is the mean over chains of their squares. Arrays: mean and sd of f and the sd of y at the test rows.

    `problem` has `scored`, the test rows x and y, `reference` and its task's `predicted`, f and log sigma.
    """

    def __init__(self, problem: Any, chains: int, trajectory: Trajectory, cost: Cost) -> None:
        import torch

        self.problem, self.reference = problem, problem.function_reference()
        self.target: Tensor = problem.scored["y"].double()
        self.grid = draw_grid(trajectory)
        self.passes = cost.after(steps_of_draws(trajectory, self.grid).astype(np.float64))
        rows, like = len(self.target), {"dtype": torch.float64, "device": self.target.device}
        reference = self.reference
        levels = 0 if reference is None else len(reference.levels)
        self.tensors = {
            "seen": torch.zeros(1, dtype=torch.int64),
            "weight": torch.zeros((chains, 1), **like),
            "f": torch.zeros((2, chains, rows), **like),
            "below": torch.zeros((levels, chains, rows), **like),
            "variance": torch.zeros(1, **like),
            "density": torch.full((rows,), -torch.inf, **like),
            "distribution": torch.zeros(rows, **like),
            "curves": torch.full((2, len(self.grid)), torch.nan, **like),
        }
        if reference is not None:
            self.centre, self.sd, self.cuts = (
                torch.from_numpy(part).to(self.target.device)
                for part in (reference.mean, reference.sd, np.ascontiguousarray(reference.quantiles.T)[:, None])
            )

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        """Add a block of draws, some at a time: up to the next point of the curves, and as many as a cache holds."""
        import torch

        seen, most = (
            int(self.tensors["seen"]),
            max(1, CACHED // (draws.shape[1] * max(draws.shape[2], len(self.target)))),
        )
        points = self.grid[(self.grid > seen) & (self.grid <= seen + len(draws))] - seen
        stops = sorted({*range(most, len(draws), most), *points.tolist(), len(draws)})
        with torch.no_grad():
            for start, stop in itertools.pairwise([0, *stops]):
                self._add(draws[start:stop], weights[start:stop].double())
                if stop in points:
                    self._add_point()

    def _add(self, theta: Tensor, weight: Tensor) -> None:
        """Add draws theta (B, C, D) with weights (B, C); one after the other, so that their order fixes all bits."""
        import torch

        sums, x = self.tensors, self.problem.scored["x"]
        outputs = self.problem.task.predicted(theta.flatten(0, 1), x)
        f, log_sigma = (part.double().unflatten(0, weight.shape) for part in outputs)
        w = weight[..., None]
        error = (self.target - f) * (-log_sigma).exp()
        log_density = -error.square() / 2 - log_sigma - math.log(2 * math.pi) / 2 + w.log()
        of_draws = {
            "weight": w,
            "distribution": (w * torch.special.ndtr(error)).sum(1),
            "variance": (w * (2 * log_sigma).exp()).sum(1),
        }
        if self.reference is not None:
            of_draws["below"] = w[:, None] * ((f[:, None] < self.cuts) + 0 * f[:, None])  # not finite where f is not
            f = (f - self.centre) / self.sd
        of_draws["f"] = torch.stack([w * f, w * f.square()], 1)
        for name, parts in of_draws.items():
            total = sums[name] = sums[name].expand_as(parts[0]).contiguous()  # of one variance, or of one for each row
            for part in parts:
                total += part
        for part in log_density.logsumexp(1):
            sums["density"] = torch.logaddexp(sums["density"], part)
        sums["seen"] += len(theta)

    def _add_point(self) -> None:
        """Set the point of the curves that the number of draws so far has, if any draw has a weight."""
        import torch

        sums = self.tensors
        if not sums["weight"].sum() > 0:
            return
        mean, _ = self._moments()
        scores = (mean - self.target).square().mean().sqrt(), (sums["density"] - sums["weight"].sum().log()).mean()
        sums["curves"][:, int(np.searchsorted(self.grid, int(sums["seen"])))] = torch.stack(scores)

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance (M,) of f under the draws of all chains."""
        total = self.tensors["f"].sum(1) / self.tensors["weight"].sum()
        mean, variance = total[0], (total[1] - total[0].square()).clamp(min=0)
        return (mean, variance) if self.reference is None else (self.centre + self.sd * mean, self.sd**2 * variance)

    def outcome(self) -> Outcome:
        """The metrics, curves and arrays; nothing before the first draw that has a weight."""
        sums = {name: leaf.cpu().numpy() for name, leaf in self.tensors.items()}
        weight = sums["weight"].sum()
        if not weight > 0:
            return Outcome({})
        with np.errstate(all="ignore"):
            mean, variance = (part.cpu().numpy() for part in self._moments())
            metrics = scores(
                self.target.cpu().numpy(), mean, variance + sums["variance"] / weight,
                sums["density"] - np.log(weight), sums["distribution"] / weight,
            )  # fmt: skip
            curves = {name: (self.passes, sums["curves"][k : k + 1]) for k, name in enumerate(("rmse", "lppd"))}
            if self.reference is not None:
                errors = function_errors(self.reference, sums["f"] / sums["weight"], sums["below"] / sums["weight"])
                curves["joint_error"] = (np.arange(errors.shape[1], dtype=np.float64), errors)
                metrics |= {"joint_error": (errors**2).mean(axis=0).max()}
                metrics |= pooled_errors(self.reference, mean, variance, sums["below"].sum(axis=1) / weight)
        arrays = {"prediction": mean, "prediction_sd": np.sqrt(variance), "target": self.target.cpu().numpy()}
        return Outcome({name: finite_or_none(value) for name, value in metrics.items()}, curves, arrays)

    def state(self) -> dict[str, Tensor]:
        """Everything that `load` needs."""
        return dict(self.tensors)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state`."""
        self.tensors = {name: state[name].to(leaf.device, copy=True) for name, leaf in self.tensors.items()}


def scores(y: Array, mean: Array, variance: Array, log_density: Array, below: Array) -> dict[str, float]:
    """`REGRESSION_METRICS` from the mixture's mean, variance, log density and distribution function at y, all (M,)."""
    inside = np.array([(np.abs(below - 0.5) <= p / 2).mean() for p in COVERED])
    inside = np.where(np.isfinite(below).all(), inside, np.nan)
    return {
        "lppd": log_density.mean(),
        "rmse": np.sqrt(((y - mean) ** 2).mean()),
        "nll": ((y - mean) ** 2 / variance + np.log(2 * np.pi * variance)).mean() / 2,
        "coverage50": inside[9],
        "coverage90": inside[17],
        "calibration_error": np.abs(inside - COVERED).mean(),
        "interval_width": WIDE * np.sqrt(variance).mean(),
    }


def function_errors(reference: Reference, powers: Array, below: Array) -> Array:
    """Errors (C, 5 M) of averages of z and z^2, `powers` (2, C, M), and of shares `below` quantiles (3, C, M)."""
    levels = reference.levels[:, None, None]
    parts = [powers[0], (powers[1] - 1) / np.sqrt(reference.z4 - 1), *(below - levels) / np.sqrt(levels * (1 - levels))]
    return np.concatenate(parts, axis=1)


def pooled_errors(reference: Reference, mean: Array, variance: Array, below: Array) -> dict[str, float]:
    """The first of `FUNCTION_METRICS`, of all draws: moments (M,) of f and shares below the quantiles (3, M)."""
    errors = {
        "function_mean_error": (mean - reference.mean) / reference.sd,
        "function_sd_error": np.sqrt(variance) / reference.sd - 1,
        "function_quantile_error": below - reference.levels[:, None],
    }
    return {name: math.sqrt((error**2).mean()) for name, error in errors.items()}
