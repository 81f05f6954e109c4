"""Posteriors of posteriordb: densities of its statements, judged against its reference draws."""

from __future__ import annotations

import copy
import csv
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness.tasks import DensityProblem, Protocol, Streams, Truth, quantile_levels
from tasks.functions import Constrained, ConstrainedTask
from tasks.posteriordb.data import files, load_data, reference_draws

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    Array = NDArray[np.float64]

BUDGETS = {"smoke": 1_000, "quick": 20_000, "paper": 100_000}


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    """Return the rows of posteriors.csv by posterior."""
    with (Path(__file__).with_name("posteriors.csv")).open(newline="") as table:
        return {row["posterior"]: row for row in csv.DictReader(table)}


@dataclass(frozen=True, kw_only=True)
class Referenced(Constrained):
    """A posterior with posteriordb's data and reference draws, 10 chains of 1,000, by Stan's NUTS.

    Errors are those of the parameters on the constrained scale, against the moments of these draws. The curvature, in
    posteriors.csv, is the median over 100 of the draws of the largest eigenvalue of the Hessian of U.

    posterior  the name in posteriordb, DATA-MODEL
    """

    posterior: ClassVar[str]
    protocols: ClassVar = (Protocol("exact", "exact gradients; ours", BUDGETS, chains=4, burn_in=0.2),)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "posterior" in vars(cls):
            cls.datasets = files(cls.posterior)

    @functools.cached_property
    def data(self) -> Mapping[str, Any]:
        """The data by name: tensors (float64) of what is a list, and numbers."""
        import torch

        data = load_data(self.posterior).items()
        return {k: torch.tensor(v, dtype=torch.float64) if isinstance(v, list) else v for k, v in data}

    def reference_draws(self) -> Mapping[str, Array]:
        """Return the reference draws (1000, 10) by the names of the functions' numbers, at least those judged."""
        return reference_draws(self.posterior)

    def reference_values(self) -> dict[str, Tensor]:
        """Return the parameters (10000, *shape) of the reference draws by name, on the constrained scale."""
        import torch

        draws, names = self.reference_draws(), self.function_names()
        numbers = {
            one.name: np.stack([draws[label].ravel() for label in names[one.name]], 1) for one in self.parameters
        }
        return {one.name: torch.from_numpy(numbers[one.name]).reshape(-1, *one.shape) for one in self.parameters}

    def function_truth(self) -> Truth:
        """Return the moments of the reference draws, whose errors are those of independent draws."""
        draws = self.reference_draws()
        points = np.stack([draws[name].ravel() for name in self.judged_names()], 1)
        truth = Truth.of_points(
            points, how=f"posteriordb's reference draws of {self.posterior}: 10 chains of 1,000 draws by Stan"
        )
        root = len(points) ** 0.5
        return replace(
            truth,
            mean_mcse=truth.sd / root,
            sd_mcse=truth.sd * np.sqrt(truth.z4[: len(truth.sd)] - 1) / (2 * root),
            quantiles=np.quantile(points @ truth.directions.T, quantile_levels(), axis=0).T,
        )

    def stated(self, column: str) -> float | None:
        """Return a number of posteriors.csv, or None if the posterior is not there."""
        row = _table().get(self.posterior)
        return None if row is None else float(row[column])

    def curvature(self) -> float | None:
        """Return the curvature in posteriors.csv, or None if the posterior is not there."""
        return self.stated("curvature")


@dataclass(frozen=True, kw_only=True)
class Posterior(Referenced, ConstrainedTask):
    """A posterior with exact gradients: a subclass defines `posterior`, `parameters` and `log_density`.

    U(theta) = -log p(x(theta)) - log |det dx/dtheta|, where p is the likelihood times the prior.

    Chains start at draws from a normal distribution with the mean and the covariance of the reference draws, without
    constraints: from farther away, no step size that suits the posterior is stable.
    """

    start_without_reference = ConstrainedTask.start
    """A starting point for computations that the reference draws are compared with."""

    @functools.cached_property
    def spread(self) -> tuple[Tensor, Tensor]:
        """The mean (D,) and a root (D, D) of the covariance of the reference draws without constraints."""
        import torch

        theta = self.unconstrained(self.reference_values())
        return theta.mean(0), torch.linalg.cholesky(theta.T.cov())

    def build(self, streams: Sequence[Streams], device: str) -> DensityProblem:
        """Return the problem of `len(streams)` chains, with the data on the device."""
        if device == "cpu":
            return super().build(streams, device)
        there = copy.copy(self)
        vars(there)["data"] = {k: v if isinstance(v, float | int) else v.to(device) for k, v in self.data.items()}
        return super(Posterior, there).build(streams, device)

    def start(self, generator: torch.Generator) -> Tensor:
        import torch

        mean, root = (each.to(generator.device) for each in self.spread)
        normal = torch.randn(len(mean), generator=generator, dtype=torch.float64, device=generator.device)
        return mean + root @ normal
