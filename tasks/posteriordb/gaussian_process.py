"""Gaussian processes with the covariance alpha^2 exp(-(x - x')^2 / (2 rho^2)), at 11 points.

rho ~ Gamma(25, rate 4), alpha ~ half-N(0, 2^2). A gradient of 8 chains takes 0.7 ms. Runs are plain, because the
gradient of a Cholesky factor is not compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tasks.functions import Positive, Real
from tasks.posteriordb.distributions import normal
from tasks.posteriordb.posterior import Posterior

if TYPE_CHECKING:
    from torch import Tensor

    from tasks.functions import Values


@dataclass(frozen=True, kw_only=True)
class GaussianProcess(Posterior):
    """A subclass defines what is observed of the function."""

    def root(self, values: Values, diagonal: Tensor | float) -> Tensor:
        """Return the Cholesky factor (n, 11, 11) of the covariance plus a diagonal; NaN where there is none."""
        import torch

        x = self.data["x"].to(values["rho"])
        distance = (x[:, None] - x) / values["rho"][:, None, None]
        covariance = values["alpha"][:, None, None].square() * (-distance.square() / 2).exp()
        identity = torch.eye(len(x), dtype=x.dtype, device=x.device)
        factor, failed = torch.linalg.cholesky_ex(covariance + diagonal * identity)
        return torch.where(failed[:, None, None] == 0, factor, torch.nan)

    def priors(self, values: Values) -> Tensor:
        """Return the logarithm of the prior of rho and alpha (n,)."""
        rho = values["rho"]
        return 24 * rho.log() - 4 * rho + normal(values["alpha"], 0, 2)


@dataclass(frozen=True, kw_only=True)
class GaussianProcessRegression(GaussianProcess):
    """y ~ N(0, covariance + sigma I), so sigma ~ half-N(0, 1) is a variance; the function is integrated out."""

    posterior: ClassVar = "gp_pois_regr-gp_regr"
    parameters: ClassVar = (Positive("rho"), Positive("alpha"), Positive("sigma"))

    def log_density(self, values: Values) -> Tensor:
        import torch

        root = self.root(values, values["sigma"][:, None, None])
        y = self.data["y"][:, None].expand(len(root), -1, -1)
        z = torch.linalg.solve_triangular(root, y, upper=False)
        log_determinant = (root * torch.eye(11, dtype=root.dtype, device=root.device)).sum(2).log().sum(1)
        return self.priors(values) + normal(values["sigma"]) - z.square().sum((1, 2)) / 2 - log_determinant


@dataclass(frozen=True, kw_only=True)
class GaussianProcessPoisson(GaussianProcess):
    """k_i ~ Poisson(exp(f_i)), f = L f_tilde, f_tilde ~ N(0, I), with L L' the covariance plus 1e-10 I."""

    posterior: ClassVar = "gp_pois_regr-gp_pois_regr"
    parameters: ClassVar = (Positive("rho"), Positive("alpha"), Real("f_tilde", 11))

    def log_density(self, values: Values) -> Tensor:
        f = self.process(values)
        likelihood = (self.data["k"] * f - f.exp()).sum(1)
        return self.priors(values) + normal(values["f_tilde"]).sum(1) + likelihood

    def process(self, values: Values) -> Tensor:
        """Return f (n, 11)."""
        return (self.root(values, 1e-10) * values["f_tilde"][:, None, :]).sum(2)

    def functions(self, theta: Tensor) -> Mapping[str, Tensor]:  # type: ignore[override]
        """Return rho, alpha and f."""
        values = self.constrained_values(theta)
        return {"rho": values["rho"][:, None], "alpha": values["alpha"][:, None], "f": self.process(values)}

    def reference_values(self) -> dict[str, Tensor]:
        """Return rho, alpha and f_tilde of the reference draws, which have f."""
        import torch

        draws = self.reference_draws()
        rho, alpha, *f = (torch.from_numpy(draws[name].ravel()) for name in self.judged_names())
        values = {"rho": rho, "alpha": alpha}
        root = self.root(values, 1e-10)
        f_tilde = torch.linalg.solve_triangular(root, torch.stack(f, 1)[..., None], upper=False)[..., 0]
        return {**values, "f_tilde": f_tilde}
