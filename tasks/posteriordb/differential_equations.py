"""Models whose means solve differential equations: predators and prey, and the concentration of a drug.

The equations are solved by the classical Runge-Kutta method of order 4 with fixed steps, so U is a smooth function and
its gradient is exact. The error of a solution is that of log z or log C against `scipy.integrate.solve_ivp` with
tolerances of 1e-10, at about 60 of the reference draws, the extreme ones included. A gradient of 8 chains takes 18 ms
for `LotkaVolterra`, whose 80 steps are executed one after the other, and 6 ms for `Elimination`, so their budgets are
smaller than those of the others. Runs of `LotkaVolterra` are plain, because flips are not compiled.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tasks.functions import Positive
from tasks.posteriordb.data import load_data
from tasks.posteriordb.distributions import cauchy, normal
from tasks.posteriordb.posterior import Posterior

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from tasks.functions import Values

    Array = NDArray[np.float64]


SHORTER = (replace(Posterior.protocols[0], budgets={"smoke": 100, "quick": 4_000, "paper": 20_000}),)


def runge_kutta(slope: Callable[[Tensor, int], Tensor], z: Tensor, steps: Sequence[float]) -> list[Tensor]:
    """Return the solution of z' = slope(z, time) after each step.

    `slope` is given the number of the time: 2 k and 2 k + 2 are the ends of step k, 2 k + 1 is its middle.
    """
    import torch

    solution = []
    for k, h in enumerate(steps):
        first = slope(z, 2 * k)
        a = torch.add(z, first, alpha=h / 2)
        b = torch.add(z, slope(a, 2 * k + 1), alpha=h / 2)
        c = torch.add(z, slope(b, 2 * k + 1), alpha=h)
        z = torch.add((a - z + 2 * b + c) / 3, slope(c, 2 * k + 2), alpha=h / 6)
        solution.append(z)
    return solution


@dataclass(frozen=True, kw_only=True)
class LotkaVolterra(Posterior):
    """Hares u and lynxes v, whose pelts were counted in 21 years: u' = (a - b v) u, v' = (-c + d u) v.

    The counts are lognormal around u and v with the sds sigma; theta = (a, b, c, d) and z_init = (u, v) in year 0.
    a, c ~ N(1, 0.5^2), b, d ~ N(0.05, 0.05^2), all positive, sigma ~ lognormal(-1, 1), z_init ~ lognormal(log 10, 1).

    Solved for log u and log v, with 4 steps a year: their error is 2.2e-4 at most, a thousandth of sigma. Solutions of
    parameters far out overflow: a start without the reference is near the medians of the priors.

    Source: B. Carpenter, "Predator-Prey Population Dynamics: the Lotka-Volterra model in Stan", 2018.
    """

    posterior: ClassVar = "hudson_lynx_hare-lotka_volterra"
    parameters: ClassVar = (Positive("theta", 4), Positive("z_init", 2), Positive("sigma", 2))
    steps: ClassVar = 4
    protocols: ClassVar = SHORTER
    box: ClassVar = 0.1
    medians: ClassVar = (1.0, 0.05, 1.0, 0.05, 10.0, 10.0, math.exp(-1), math.exp(-1))

    def log_density(self, values: Values) -> Tensor:
        import torch

        theta, start, sigma = values["theta"], values["z_init"], values["sigma"]
        counts = torch.cat([self.data["y_init"][None], self.data["y"]]).log()
        z = torch.stack([start.log(), *self.solution(theta, start)], 1)
        likelihood = normal(counts, z, sigma[:, None, :]).sum((1, 2))
        return likelihood + self.priors(theta, start.log(), sigma.log())

    def start_without_reference(self, generator: torch.Generator) -> Tensor:
        uniform = super().start_without_reference(generator)
        return uniform + uniform.new_tensor(self.medians).log()

    def solution(self, theta: Tensor, start: Tensor) -> list[Tensor]:
        """Return log u and log v (n, 2) in each of the years."""
        import torch

        a, b, c, d = theta.unbind(1)
        growth, contact = torch.stack([a, -c], 1), torch.stack([-b, d], 1)

        def slope(z: Tensor, _: int) -> Tensor:
            return torch.addcmul(growth, contact, z.flip(1).exp())

        years = len(self.data["ts"])
        return runge_kutta(slope, start.log(), [1 / self.steps] * (self.steps * years))[self.steps - 1 :: self.steps]

    def priors(self, theta: Tensor, log_start: Tensor, log_sigma: Tensor) -> Tensor:
        """Return the logarithm of the prior (n,)."""
        a, b, c, d = theta.unbind(1)
        rates = sum(normal(x, 1, 0.5) for x in (a, c)) + sum(normal(x, 0.05, 0.05) for x in (b, d))
        others = normal(log_start, math.log(10)) - log_start + normal(log_sigma, -1) - log_sigma
        return rates + others.sum(1)


@dataclass(frozen=True, kw_only=True)
class Elimination(Posterior):
    """The concentration C of a drug that is absorbed from a dose D and eliminated by Michaelis-Menten kinetics.

        C' = exp(-k_a t) D k_a / V - (V_m / V) C / (K_m + C),   C(0) = 0

    Measured 20 times in 10 days, lognormal around C with the sd sigma; k_a, K_m, V_m, sigma ~ half-Cauchy(1).

    Far out C depends on V_m / K_m alone, so the posterior density of K_m falls like K_m^-3 and that of V_m likewise:
    they have means but no variances. Errors are those of their logarithms.

    Solved with 25 steps, of which those before the first measurement grow: C passes through K_m there, which may be
    near 0. The error of log C is 2.2e-5 at most. For large V_m / K_m steps are too long, so a start without the
    reference is on [-1, 1]^4.
    """

    posterior: ClassVar = "one_comp_mm_elim_abs-one_comp_mm_elim_abs"
    parameters: ClassVar = (Positive("k_a"), Positive("K_m"), Positive("V_m"), Positive("sigma"))
    protocols: ClassVar = SHORTER
    without_variance: ClassVar = ("K_m", "V_m")
    box: ClassVar = 1.0

    def functions(self, theta: Tensor) -> Mapping[str, Tensor]:  # type: ignore[override]
        values = super().functions(theta)
        return {**values, **{f"log {name}": values[name].log() for name in self.without_variance}}

    def judged(self, theta: Tensor) -> Tensor:
        import torch

        return torch.cat([each for name, each in self.functions(theta).items() if name not in self.without_variance], 1)

    def judged_names(self) -> list[str]:
        return [name for name in self.function_names() if name not in self.without_variance]

    def reference_draws(self) -> Mapping[str, Array]:
        draws = super().reference_draws()
        return {**draws, **{f"log {name}": np.log(draws[name]) for name in self.without_variance}}

    def log_density(self, values: Values) -> Tensor:
        import torch

        sigma = values["sigma"]
        concentrations = torch.stack(self.solution(values), 1)
        likelihood = normal(self.data["C_hat"].log(), concentrations.log(), sigma[:, None]).sum(1)
        return likelihood + sum(cauchy(values[one.name], 1) for one in self.parameters)

    def solution(self, values: Values) -> list[Tensor]:
        """Return C (n,) at each of the times."""
        import torch

        k_a, half, fastest = values["k_a"], values["K_m"], -values["V_m"] / self.data["V"]
        absorbed = (-k_a[:, None] * self.data["middles"]).exp() * (k_a * self.data["D"] / self.data["V"])[:, None]
        inflow = absorbed.unbind(1)

        def slope(c: Tensor, time: int) -> Tensor:
            return torch.addcmul(inflow[time], fastest, c / (half + c))

        return runge_kutta(slope, torch.zeros_like(k_a), np.diff(self.grid).tolist())[5:]

    @functools.cached_property
    def data(self) -> Mapping[str, Any]:
        """The data, and the ends and middles of the steps."""
        import torch

        ends = self.grid
        middles = np.sort(np.concatenate([ends, (ends[1:] + ends[:-1]) / 2]))
        return {**super().data, "middles": torch.from_numpy(middles)}

    @functools.cached_property
    def grid(self) -> Array:
        """The ends of the steps: 6 before the first measurement, in proportion to k^4, and one between two others."""
        times = np.array(load_data(self.posterior)["times"])
        return np.concatenate([times[0] * np.linspace(0, 1, 7) ** 4, times[1:]])
