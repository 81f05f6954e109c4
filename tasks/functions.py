"""Densities that are judged by functions of theta, and parameters with constraints."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import PluginError
from harness.tasks import (
    MOMENT_METRICS,
    Cost,
    DataTask,
    DensityTask,
    MomentObserver,
    Observer,
    Outcome,
    Reference,
    Task,
    Truth,
    quantile_levels,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import DataProblem, Rows

    Array = NDArray[np.float64]
    Values = Mapping[str, Tensor]
    Bound = float | Callable[[Values], Tensor] | None

KEPT = 500
"""Most draws of a chain whose functions are stored, evenly spaced."""


@dataclass(frozen=True, kw_only=True)
class JudgedByFunctions(Task):
    """A task whose errors are those of named functions of theta, such as tau = exp(log tau).

    A subclass defines `functions`, and `function_truth` if the moments are known; otherwise `bench truth` computes them
    by long HMC on theta. Metrics and curves are those of a truth, with the functions in place of the coordinates. A run
    stores the functions of its draws, at most `KEPT` of a chain, by name: `bench report functions` has a table of them.
    """

    metrics = MOMENT_METRICS

    def functions(self, theta: Tensor) -> Mapping[str, Tensor]:  # type: ignore[override]
        """Return functions of theta (n, D) by name, (n, k) each."""
        raise NotImplementedError(f"{type(self).__name__} has no functions")

    def judged(self, theta: Tensor) -> Tensor:
        """Return the functions (n, K) that have errors; none is a linear combination of the others."""
        import torch

        return torch.cat([each.flatten(1) for each in self.functions(theta).values()], 1)

    def function_names(self) -> dict[str, list[str]]:
        """Return the names of the numbers of each function: "tau", or "eta[1]", "eta[2]" and so on."""
        import torch

        widths = {name: each.flatten(1).shape[1] for name, each in self.functions(torch.zeros(1, self.dim())).items()}
        return {n: [n] if k == 1 else [f"{n}[{i}]" for i in range(1, k + 1)] for n, k in widths.items()}

    def judged_names(self) -> list[str]:
        """Return the names of the numbers of `judged`."""
        return [label for labels in self.function_names().values() for label in labels]

    def function_truth(self) -> Truth | None:
        """Return the moments of `judged` at T = 1 if they are known, else those that `bench truth` stored, or None."""
        return self.stored_truth

    def truth(self) -> Truth | None:
        """Return None: what is known is the truth of the functions."""
        return None

    def function_reference(self) -> Reference | None:
        """Return `function_truth` as a reference in function space."""
        truth = self.function_truth()
        if truth is None:
            return None
        count, levels = len(truth.mean), quantile_levels()
        quantiles = np.full((count, len(levels)), np.nan) if truth.quantiles is None else truth.quantiles[:count]
        of = {"z4": truth.z4[:count], "quantiles": quantiles, "levels": levels, "mean_error": truth.mean_mcse}
        return Reference(truth.mean, truth.sd, **of, rhat=np.ones(count), how=truth.how, checksum=truth.checksum)


@dataclass(frozen=True, kw_only=True)
class FunctionTask(JudgedByFunctions, DensityTask):
    """A density that is judged by functions of theta: a subclass defines `functions`, `energy`, `dim`, `protocols`."""

    def observer(self, chains: int, trajectory: Trajectory, cost: Cost) -> Observer:
        """Return `FunctionObserver`."""
        return FunctionObserver(self, chains, trajectory, cost)


class FunctionObserver(Observer):
    """Errors of the moments of `JudgedByFunctions.judged` against the task's truth, and the functions of draws.

    Arrays: function_<name> (C, n, k) float32, their steps kept_steps (n,) and weights kept_weights (C, n), and
    true_moments (2, K), the true means and sds of all functions, NaN if they are not known.
    """

    def __init__(self, task: JudgedByFunctions, chains: int, trajectory: Trajectory, cost: Cost) -> None:
        import torch

        truth = task.function_truth()
        self.task, self.errors = task, None if truth is None else MomentObserver(truth, trajectory, cost)
        kept = np.flatnonzero(trajectory.keep) + 1
        self.gap = -(-len(kept) // KEPT) or 1
        self.steps = kept[:: self.gap]
        names = task.function_names()
        labels = [label for of_one in names.values() for label in of_one]
        self.truth = np.full((2, len(labels)), np.nan)
        if truth is not None:
            self.truth[:, [labels.index(name) for name in task.judged_names()]] = truth.mean, truth.sd
        shape = len(self.steps), chains
        self.tensors = {
            "seen": torch.zeros(1, dtype=torch.int64),
            "kept_weights": torch.zeros(shape, dtype=torch.float64),
            **{f"function/{name}": torch.zeros((*shape, len(of_one))) for name, of_one in names.items()},
        }

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        """Add a block of draws."""
        flat = draws.flatten(0, 1)
        if self.errors is not None:
            self.errors.add(self.task.judged(flat).unflatten(0, draws.shape[:2]).cpu().numpy(), weights.cpu().numpy())
        first = int(self.tensors["seen"])
        self.tensors["seen"] += len(draws)
        chosen = np.arange(-first % self.gap, len(draws), self.gap)
        if len(chosen):
            points = (first + chosen) // self.gap
            self.tensors["kept_weights"][points] = weights[chosen].double().cpu()
            for name, each in self.task.functions(draws[chosen].flatten(0, 1)).items():
                values = each.flatten(1).unflatten(0, (len(chosen), -1))
                self.tensors[f"function/{name}"][points] = values.float().cpu()

    def outcome(self) -> Outcome:
        """Return metrics and curves of the errors if there is a truth, and the functions; nothing before a draw."""
        points = -(-int(self.tensors["seen"]) // self.gap)
        if not points:
            return Outcome({})
        errors = Outcome({}) if self.errors is None else self.errors.outcome()
        arrays: dict[str, NDArray[Any]] = {
            name.replace("/", "_"): leaf[:points].transpose(0, 1).numpy().copy()
            for name, leaf in self.tensors.items()
            if name != "seen"
        }
        arrays |= {"kept_steps": self.steps[:points], "true_moments": self.truth}
        return Outcome(errors.metrics, errors.curves, arrays)

    def state(self) -> dict[str, Tensor]:
        """Return everything that `load` needs."""
        return self.tensors | ({} if self.errors is None else self.errors.state())

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        self.tensors = {name: state[name].clone() for name in self.tensors}
        if self.errors is not None:
            self.errors.load(state)


@dataclass(frozen=True)
class Real:
    """A parameter without constraints, of the given shape; a whole number k stands for (k,)."""

    name: str
    shape: Any = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", (self.shape,) if isinstance(self.shape, int) else tuple(self.shape))

    @property
    def size(self) -> int:
        """The number of coordinates of theta that it takes."""
        return math.prod(self.shape)

    def constrained(self, u: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        """Return the parameter (n, *shape) at u (n, size), and the logarithm of the Jacobian determinant (n,).

        `values` has the parameters that are declared before it.
        """
        return u.reshape(len(u), *self.shape), u.new_zeros(len(u))

    def value(self, u: Tensor, values: Values) -> Tensor:
        """Return the parameter of `constrained` alone, the same bits."""
        return self.constrained(u, values)[0]

    def unconstrained(self, value: Tensor, values: Values) -> Tensor:
        """Return u (n, size) at the parameter (n, *shape), the inverse of `constrained`."""
        return value.reshape(len(value), -1)

    def judged(self, value: Tensor) -> Tensor:
        """Return the coordinates (n, size) that have errors."""
        return value.reshape(len(value), -1)


@dataclass(frozen=True)
class Positive(Real):
    """x = exp(u) > 0, log Jacobian u."""

    def constrained(self, u: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        """Return exp(u), and the sum of u."""
        return self.value(u, values), u.sum(1)

    def value(self, u: Tensor, values: Values) -> Tensor:
        """Return exp(u)."""
        return u.exp().reshape(len(u), *self.shape)

    def unconstrained(self, value: Tensor, values: Values) -> Tensor:
        """Return log x."""
        return value.reshape(len(value), -1).log()


@dataclass(frozen=True)
class Bounded(Real):
    """lower < x < upper: numbers, or functions of the parameters before it; None: no bound on that side.

    x = lower + (upper - lower) / (1 + exp(-u)),  lower + exp(u)  or  upper - exp(u)
    """

    lower: Bound = None
    upper: Bound = None

    def constrained(self, u: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        """Return x, and the log Jacobian: the sum of log(upper - lower) + log s(u) + log s(-u), or of u."""
        import torch

        lower, upper = (self._bound(bound, u, values) for bound in (self.lower, self.upper))
        if lower is None or upper is None:
            if lower is None and upper is None:
                return super().constrained(u, values)
            x = upper - u.exp() if lower is None else lower + u.exp()  # type: ignore[operator]
            return x.reshape(len(u), *self.shape), u.sum(1)
        outward = torch.where(u >= 0, -u, u)
        small = outward.exp()
        width, share = upper - lower, torch.where(u >= 0, torch.ones_like(u), small) / (1 + small)
        x = lower + width * share
        return x.reshape(len(u), *self.shape), (width.log() + outward - 2 * (1 + small).log()).sum(1)

    def unconstrained(self, value: Tensor, values: Values) -> Tensor:
        """Return the logit of (x - lower) / (upper - lower), log(x - lower) or log(upper - x)."""
        x = value.reshape(len(value), -1)
        lower, upper = (self._bound(bound, x, values) for bound in (self.lower, self.upper))
        above = x if lower is None else (x - lower).log()
        below = 0 if upper is None else (upper - x).log()
        return below if lower is None and upper is not None else above - below  # type: ignore[return-value]

    def _bound(self, bound: Bound, u: Tensor, values: Values) -> Tensor | None:
        """Return a bound (n, size), or None."""
        if bound is None:
            return None
        value = bound(values) if callable(bound) else u.new_full((), bound)
        if value.ndim and value.ndim < 1 + len(self.shape):
            value = value.reshape(len(value), *[1] * len(self.shape))
        return value.expand(len(u), *self.shape).reshape(len(u), self.size)


@dataclass(frozen=True)
class Ordered(Real):
    """x_1 < x_2 < ... < x_K: x_1 = u_1, x_k = x_{k-1} + exp(u_k). `shape` is (K,)."""

    def constrained(self, u: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        """Return x (n, K), and the sum of u_k over k > 1."""
        import torch

        first, *others = u.unbind(1)
        steps = torch.stack(others, 1)
        return torch.stack(list(itertools.accumulate(steps.exp().unbind(1), initial=first)), 1), steps.sum(1)

    def unconstrained(self, value: Tensor, values: Values) -> Tensor:
        """Return x_1, and the logarithms of the differences."""
        import torch

        return torch.cat([value[:, :1], value.diff(dim=1).log()], 1)


@dataclass(frozen=True)
class PositiveOrdered(Ordered):
    """0 < x_1 < x_2 < ... < x_K: x_1 = exp(u_1), x_k = x_{k-1} + exp(u_k). `shape` is (K,)."""

    def constrained(self, u: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        """Return x (n, K), and the sum of u."""
        import torch

        return torch.stack(list(itertools.accumulate(u.exp().unbind(1))), 1), u.sum(1)

    def unconstrained(self, value: Tensor, values: Values) -> Tensor:
        """Return log x_1, and the logarithms of the differences."""
        import torch

        return torch.cat([value[:, :1], value.diff(dim=1)], 1).log()


@dataclass(frozen=True)
class Simplex(Real):
    """x_k > 0 with the sum 1, by breaking a stick: x_k = (1 - x_1 - ... - x_{k-1}) z_k. `shape` is (K,).

    z_k = 1 / (1 + exp(-u_k) (K - k)), so that u = 0 is the centre. The last x has no error of its own.

    Source: Stan Reference Manual, "Unit simplex".
    """

    @property
    def size(self) -> int:
        """The number of coordinates of theta that it takes, K - 1."""
        return self.shape[0] - 1

    def constrained(self, u: Tensor, values: Values) -> tuple[Tensor, Tensor]:
        """Return x (n, K), and the sum over k < K of log z_k + log(1 - z_k) + log(1 - x_1 - ... - x_{k-1})."""
        import torch

        offset = torch.arange(self.size, 0, -1, dtype=u.dtype, device=u.device).log()
        v = u - offset
        log_sum = (1 + torch.where(v >= 0, -v, v).exp()).log()
        log_z, log_rest = torch.where(v >= 0, -log_sum, v - log_sum), torch.where(v >= 0, -v - log_sum, -log_sum)
        *left, last = itertools.accumulate(log_rest.unbind(1))
        before = torch.stack([torch.zeros_like(last), *left], 1)
        x = torch.cat([before + log_z, last[:, None]], 1).exp()
        return x, (log_z + log_rest + before).sum(1)

    def unconstrained(self, value: Tensor, values: Values) -> Tensor:
        """Return log x_k - log(x_{k+1} + ... + x_K) + log(K - k)."""
        import torch

        after = value.flip(1).cumsum(1).flip(1)[:, 1:]
        return value[:, :-1].log() - after.log() + torch.arange(self.size, 0, -1, dtype=value.dtype).log()

    def judged(self, value: Tensor) -> Tensor:
        """Return all but the last, (n, K - 1)."""
        return value[:, :-1]


@dataclass(frozen=True, kw_only=True)
class Constrained(JudgedByFunctions):
    """A task of parameters with constraints, which it declares.

    theta is all parameters in a row, without constraints; x(theta) and its Jacobian follow from the declarations. A
    parameter that the density does not mention has a flat prior on the constrained scale. Errors, truths and what is
    stored of draws are on the constrained scale. Chains start uniformly on [-2, 2]^D in theta, as in Stan.

    parameters  `Real`, `Positive`, `Bounded`, `Ordered`, `PositiveOrdered` and `Simplex`, of other names and in the
                order of theta
    """

    parameters: ClassVar[Sequence[Real]] = ()
    box: ClassVar[float] = 2.0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        names = [parameter.name for parameter in cls.parameters]
        if len(set(names)) < len(names):
            raise PluginError(f"{cls.__name__}: two parameters have the same name: {', '.join(names)}")
        for one in cls.parameters:
            if isinstance(one, Simplex | Ordered) and (len(one.shape) != 1 or one.shape[0] < 2):
                raise PluginError(
                    f"{cls.__name__}: {type(one).__name__}({one.name!r}) needs a shape (K,), K at least 2"
                )

    start = DensityTask.start

    def dim(self) -> int:
        """Return D, the number of coordinates of theta."""
        return sum(parameter.size for parameter in self.parameters)

    def constrained(self, theta: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Return the parameters at theta (n, D) by name, (n, *shape), and the log Jacobian (n,)."""
        import torch

        values: dict[str, Tensor] = {}
        first, *others = theta.unbind(1)  # whose gradient is compiled, as that of a slice is not
        total, columns = 0 * first, iter((first, *others))  # a flat density has a gradient, too
        for parameter in self.parameters:
            u = torch.stack(list(itertools.islice(columns, parameter.size)), 1)
            values[parameter.name], log_jacobian = parameter.constrained(u, values)
            total = total + log_jacobian
        return values, total

    def constrained_values(self, theta: Tensor) -> dict[str, Tensor]:
        """Return the parameters of `constrained` alone, the same bits; those without constraints are views of theta."""
        values: dict[str, Tensor] = {}
        for parameter, u in zip(self.parameters, self.columns(theta), strict=True):
            values[parameter.name] = parameter.value(u, values)
        return values

    def columns(self, theta: Tensor) -> tuple[Tensor, ...]:
        """Return the coordinates (n, size) of each parameter, views of theta (n, D)."""
        return theta.split([parameter.size for parameter in self.parameters], 1)

    def unconstrained(self, values: Values) -> Tensor:
        """Return theta (n, D) at the parameters by name, (n, *shape): the inverse of `constrained`."""
        import torch

        return torch.cat([each.unconstrained(values[each.name], values) for each in self.parameters], 1)

    def functions(self, theta: Tensor) -> Mapping[str, Tensor]:  # type: ignore[override]
        """Return the parameters on the constrained scale, by name."""
        return {name: value.reshape(len(value), -1) for name, value in self.constrained_values(theta).items()}

    def judged_names(self) -> list[str]:
        """Return the names of the numbers of `judged`."""
        left_out = {f"{one.name}[{one.shape[0]}]" for one in self.parameters if isinstance(one, Simplex)}
        return [name for name in super().judged_names() if name not in left_out]

    def in_a_row(self, theta: Tensor) -> Tensor:
        """Return the parameters in a row (n, D), none of them a simplex, in a copy of theta (n, D)."""
        x, values = theta.clone(), self.constrained_values(theta)
        for parameter, u in zip(self.parameters, self.columns(x), strict=True):
            if type(parameter) is not Real:
                u.copy_(values[parameter.name].reshape(u.shape))
        return x

    def judged(self, theta: Tensor) -> Tensor:
        """Return the parameters (n, D) without the last of each simplex, and other functions."""
        import torch

        whole = all(type(parameter).judged is Real.judged for parameter in self.parameters)
        if whole and type(self).functions is Constrained.functions:
            return self.in_a_row(theta)
        of = {parameter.name: parameter.judged for parameter in self.parameters}
        return torch.cat([of[n](v) if n in of else v.flatten(1) for n, v in self.functions(theta).items()], 1)


@dataclass(frozen=True, kw_only=True)
class ConstrainedTask(Constrained, FunctionTask):
    """A density of parameters with constraints: a subclass defines `parameters`, `log_density` and `protocols`.

    U(theta) = -log p(x(theta)) - log |det dx/dtheta|
    """

    def log_density(self, values: Values) -> Tensor:
        """Return log p (n,) up to a constant, at parameters by name, (n, *shape) each."""
        raise NotImplementedError(f"{type(self).__name__} has no log_density")

    def energy(self, theta: Tensor) -> Tensor:
        """Return U (C,)."""
        values, log_jacobian = self.constrained(theta)
        return -self.log_density(values) - log_jacobian


@dataclass(frozen=True, kw_only=True)
class ConstrainedDataTask(Constrained, DataTask):
    """A posterior of data and of parameters with constraints, with minibatches.

        U(theta) = -sum_{i=1..N} log p(row_i | x(theta)) - log p(x(theta)) - log |det dx/dtheta|

    A subclass defines `parameters`, `arrays`, `row_log_density`, `protocols`, and `log_density` of the prior unless it
    is flat on the constrained scale.
    """

    def row_log_density(self, values: Values, rows: Rows) -> Tensor:
        """Return log p(row | x), (C, n), at parameters by name, (C, *shape) each."""
        raise NotImplementedError(f"{type(self).__name__} has no row_log_density")

    def log_density(self, values: Values) -> Tensor | float:
        """Return the prior's log p(x) (C,) up to a constant; 0 unless overridden."""
        return 0.0

    def log_likelihood(self, theta: Tensor, rows: Rows) -> Tensor:
        """Return `row_log_density` at theta."""
        return self.row_log_density(self.constrained(theta)[0], rows)

    def log_prior(self, theta: Tensor) -> Tensor:
        """Return the prior's log density of theta, with the Jacobian."""
        values, log_jacobian = self.constrained(theta)
        return self.log_density(values) + log_jacobian

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        """Return `FunctionObserver`."""
        return FunctionObserver(self, chains.stop - chains.start, trajectory, cost)
