"""The linear regressions of posteriordb, with minibatches: one class, and a table of designs."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import param
from harness.tasks import Protocol, constant
from tasks.functions import ConstrainedDataTask, Positive, Real
from tasks.posteriordb.data import load_data
from tasks.posteriordb.designs import Design, Prior, class_name, posteriors
from tasks.posteriordb.posterior import BUDGETS, Referenced

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.tasks import Rows

    Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Regression(Referenced, ConstrainedDataTask):
    """y_i ~ N(x_i b, sigma^2), on the scale of the data; theta = (b, log sigma).

        U(theta) = sum_i [log sigma + (y_i - x_i b)^2 / (2 sigma^2)] - log p(b) - log p(sigma) - log sigma

    x_i are the columns of the design. A prior that the model does not state is flat, that of sigma on sigma > 0. Chains
    start at draws from the Gaussian approximation by least squares with twice its standard deviations: from the origin,
    where a residual is up to 1e5 sigma, no step size that suits the posterior is stable.

    Source: the model in posteriordb 1.0, https://github.com/stan-dev/posteriordb (M. Magnusson et al.,
    arXiv:2407.04967, 2024).
    """

    design: ClassVar[Design]
    protocols: ClassVar = (
        *Referenced.protocols,
        Protocol(
            "minibatches", "batches of 32 rows; ours",
            {name: 2 * steps for name, steps in BUDGETS.items()}, chains=4, burn_in=0.2, settings={"task.batch": 32},
        ),
    )  # fmt: skip
    batch: int | None = param(None, "[1, inf)", "n, rows in a minibatch; none: all of them", source="ours")  # type: ignore[misc]

    def terms(self) -> int:
        return int(self.stated("terms") or self.data["N"])

    def arrays(self, part: str) -> Mapping[str, Array]:
        import polars as pl

        columns = {}
        for name, values in load_data(self.posterior).items():
            array = np.asarray(values, dtype=np.float64)
            if array.shape[:1] == (self.terms(),):
                columns |= {name: array} if array.ndim == 1 else {f"{name}{j}": x for j, x in enumerate(array.T, 1)}
        stated = {"y": self.design.response, **{str(j): one for j, one in enumerate(self.design.columns)}}
        expressions = {name: pl.sql_expr(one).cast(pl.Float64) for name, one in stated.items()}
        frame = pl.DataFrame(columns).select(**expressions)
        return {"x": np.array(frame.drop("y")), "y": np.array(frame["y"])}

    def row_log_density(self, values: Mapping[str, Tensor], rows: Rows) -> Tensor:
        x = self.coordinates(values)
        b, sigma = x[:, :-1], x[:, -1:]
        return -((rows["y"] - (rows["x"] * b.unsqueeze(1)).sum(2)) / sigma).square() / 2 - sigma.log()

    def log_density(self, values: Mapping[str, Tensor]) -> Tensor:
        x = self.coordinates(values)
        location, precision, power, rate = (constant(each, x) for each in self.prior)
        square = (x - location).square()
        return -(precision * square / 2 + power * (rate * square).log1p()).sum(1)

    def grad(self, theta: Tensor, rows: Rows) -> Tensor:
        return self.value_and_grad(theta, rows)[1]

    def value_and_grad(self, theta: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        import torch

        x, present = rows["x"], rows["present"]
        b, log_sigma = theta[:, :-1], theta[:, -1:]
        z = (rows["y"] - (x * b.unsqueeze(1)).sum(2)) * (-log_sigma).exp()
        square = z.square()
        slope = (x * z.unsqueeze(2)).sum(1) * (-log_sigma).exp()
        return -square / 2 - log_sigma, torch.cat([slope, ((square - 1) * present).sum(1, keepdim=True)], 1)

    def prior_gradient(self, theta: Tensor) -> Tensor:
        import torch

        jacobian = torch.cat([torch.ones_like(theta[:, :-1]), theta[:, -1:].exp()], 1)
        x = torch.cat([theta[:, :-1], jacobian[:, -1:]], 1)
        location, precision, power, rate = (constant(each, x) for each in self.prior)
        off = x - location
        slope = off * (precision + 2 * power * rate / (1 + rate * off * off))
        return slope * jacobian - constant((*(0.0,) * (self.dim() - 1), 1.0), theta)

    def coordinates(self, values: Mapping[str, Tensor]) -> Tensor:
        """Return the coefficients and sigma, (C, D)."""
        import torch

        return torch.cat([values[one.name].reshape(len(values["sigma"]), -1) for one in self.parameters], 1)

    @functools.cached_property
    def prior(self) -> tuple[tuple[float, ...], ...]:
        """m, p, a, r (D,) of -log p(x) = sum_d p (x - m)^2 / 2 + a log(1 + r (x - m)^2): normal, or Student's t."""
        rows = []
        for one in self.parameters:
            location, scale, nu = self.design.priors.get(one.name, Prior(0, math.inf))
            location, scale = (float(self.data.get(each, each)) for each in (location, scale))
            tails = (0.0, 0.0) if nu == math.inf else ((nu + 1) / 2, 1 / (nu * scale**2))
            rows += [(location, scale**-2 if nu == math.inf else 0.0, *tails)] * one.size
        return tuple(zip(*rows, strict=True))

    @functools.cached_property
    def approximation(self) -> tuple[Array, Array]:
        """The mean (D,) and a root (D, D) of the covariance of the normal approximation to theta by least squares."""
        arrays = self.arrays("train")
        x, y = arrays["x"], arrays["y"]
        location, precision, power, rate = (np.array(each[:-1]) for each in self.prior)
        precision = precision + 2 * power * rate
        variance, freedom = y.var(), x.shape[0] - x.shape[1]
        for _ in range(20):
            hessian = x.T @ x / variance + np.diag(precision)
            b = np.linalg.solve(hessian, x.T @ y / variance + precision * location)
            variance = np.square(y - x @ b).sum() / freedom
        root = np.zeros((len(b) + 1,) * 2)
        root[:-1, :-1] = np.linalg.cholesky(np.linalg.inv(hessian))
        root[-1, -1] = (2 * freedom) ** -0.5
        return np.append(b, np.log(variance) / 2), root

    def start(self, generator: torch.Generator) -> Tensor:
        import torch

        mean, root = (torch.from_numpy(each).to(generator.device) for each in self.approximation)
        normal = torch.randn(len(mean), generator=generator, dtype=torch.float64, device=generator.device)
        return mean + 2 * root @ normal


def _class(task: str, posterior: str, design: Design) -> type[Regression]:
    """Return the class of a task."""
    columns = ", ".join(design.columns)
    summary = f"posteriordb's {posterior}, {design.summary}: y = {design.response}, x = ({columns})."
    attributes = {
        "__module__": __name__, "__doc__": f"{summary}\n\n    {Regression.__doc__}", "posterior": posterior,
        "design": design,
        "parameters": (*(Real(*each) for each in design.shapes().items()), Positive("sigma")),
    }  # fmt: skip
    return type(class_name(task), (Regression,), attributes)


globals().update({class_name(task): _class(task, *stated) for task, stated in posteriors().items()})
