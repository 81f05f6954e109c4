"""What a task is: a potential with its data, protocols, metrics and truth.

A `Task` is the description (a frozen dataclass of settings); `Task.build` makes the `Problem`: the potential of all
chains of a block as tensors. The harness wraps a Problem into the `Potential` that samplers see.
"""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from harness.contracts.data import DataFile
from harness.contracts.parameters import Configurable
from harness.system.columns import entry
from harness.system.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.contracts.layout import Layout
    from harness.contracts.randomness import Streams
    from harness.contracts.schedule import Trajectory

    Batch = dict[str, Tensor]
    Array = NDArray[np.float64]


DIRECTIONS = ("max", "min", "target")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")

LEVELS = 40
"""Quantiles of a direction: steps of 2.5 % in its distribution function."""


def _require(right: bool, where: str, what: str) -> None:  # noqa: FBT001 - what is asked
    if not right:
        raise UsageError(f"{where}: {what}")


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def _is_whole(value: Any, least: int) -> bool:
    return type(value) is int and value >= least


@dataclass(frozen=True)
class Metric:
    """A number that a task reports for a run. `direction` is "max", "min", or "target" (best where equal `target`).

    Each field but `summary` is kept with the value, and is a column of the results.
    """

    name: str = entry("name of the metric")
    direction: str = entry("max, min, or target: where better is", among=DIRECTIONS)
    unit: str = entry("unit of the value")
    summary: str = entry("what it measures", column=None)
    version: int = entry("raised when the meaning of the metric changes", 1)
    target: float | None = entry("best value, where direction is target", None)

    def __post_init__(self) -> None:
        here = f"metric {self.name!r:.80}"
        _require(_is_name(self.name), here, "its name is not a word of lower-case letters, digits, - and _")
        _require(self.direction in DIRECTIONS, here, f"direction {self.direction!r:.40} is not max, min or target")
        _require(_is_whole(self.version, 1), here, f"version {self.version!r:.40} is not a whole number of at least 1")


@dataclass(frozen=True)
class Protocol:
    """A named way to run a task, as a paper (or its code) did: lengths, chains, seeds, burn-in.

    budgets  name ("smoke", "quick", "paper") -> gradients of a chain on the task's batch; a sampler that asks for
             several a step, or for full ones, makes fewer steps
    burn_in  share of the steps, in [0, 1)
    settings task settings of this protocol, by field name
    budget_settings  of a budget by its name: settings by dotted name ("task.width", "run.thin") that make it what it
             says, seconds or minutes; they go before those of a paper
    """

    name: str
    summary: str
    budgets: Mapping[str, int]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    chains: int = 1
    burn_in: float = 0.0
    thin: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        here = f"protocol {self.name!r:.80}"
        _require(_is_name(self.name), here, "its name is not a word of lower-case letters, digits, - and _")
        _require(len(self.budgets) > 0 and len(self.seeds) > 0, here, "it has no budget or no seed")
        for name, gradients in self.budgets.items():
            _require(_is_name(name), here, f"the budget {name!r:.40} has a name that is not a lower-case word")
            _require(_is_whole(gradients, 1), here, f"budget {name}: {gradients!r:.40} is not a number of gradients")
        for name in self.budget_settings:
            _require(name in self.budgets, here, f"settings are stated for a budget {name!r:.40} that it has not")
        _require(all(_is_whole(seed, 0) for seed in self.seeds), here, f"seeds {self.seeds!r:.40} are not numbers")
        _require(_is_whole(self.chains, 1), here, f"chains = {self.chains!r:.40} is not a number of chains")
        _require(_is_whole(self.thin, 1), here, f"thin = {self.thin!r:.40} is not a whole number of at least 1")
        _require(0 <= self.burn_in < 1, here, f"burn_in = {self.burn_in!r:.40} is not a share in [0, 1)")


@dataclass(frozen=True, eq=False)
class Truth:
    """The moments of the target at T = 1, with the Monte Carlo error of mean and sd (0 where exact).

    mean, covariance      (D,) and (D, D)
    z3, z4                (K,): E z^3 and E z^4 of z = (v x - E v x) / sd(v x) along each of the K `directions` v, of
                          which the first D are the coordinate axes
    mean_mcse, sd_mcse    (D,)
    how                   how they were obtained, with the command that does it
    quantiles             (K, m): of v x at the levels (j - 1/2) / m, where exact draws or a closed form give them

    `Truth.normal` and `Truth.of_points` fill these in for a Gaussian, and from weighted points or draws.
    """

    mean: Array
    covariance: Array
    z3: Array
    z4: Array
    mean_mcse: Array
    sd_mcse: Array
    how: str
    quantiles: Array | None = None

    def __post_init__(self) -> None:
        import numpy as np

        dim, here = len(self.mean), "the truth of a task"
        _require(np.shape(self.covariance) == (dim, dim), here, f"its covariance is not of shape ({dim}, {dim})")
        definite = np.allclose(self.covariance, self.covariance.T) and np.linalg.eigvalsh(self.covariance).min() > 0
        _require(bool(definite), here, "its covariance is not symmetric and positive definite")
        count = len(self.directions)
        for name in ("z3", "z4"):
            _require(np.shape(getattr(self, name)) == (count,), here, f"{name} is not of shape ({count},): directions")

    @classmethod
    def normal(cls, mean: Array, covariance: Array, how: str = "closed form") -> Truth:
        """The Gaussian N(mean, covariance), exactly."""
        import numpy as np
        from scipy.special import ndtri

        along, zero = directions(covariance), np.zeros(len(mean))
        sd = np.sqrt(((along @ covariance) * along).sum(axis=1))
        third = np.zeros(len(along))
        return cls(
            mean,
            covariance,
            third,
            third + 3,
            zero,
            zero,
            how,
            (along @ mean)[:, None] + sd[:, None] * ndtri(quantile_levels()),
        )

    @classmethod
    def of_points(cls, points: Array, shares: Array | None = None, how: str = "", **known: Any) -> Truth:
        """The moments of points (n, D) of these shares (n,), equal ones by default: of a quadrature, or of draws.

        `known` may give mean_mcse and sd_mcse, 0 without them, and quantiles.
        """
        import numpy as np

        share = np.full(len(points), 1 / len(points)) if shares is None else shares / shares.sum()
        mean = share @ points
        centred = points - mean
        covariance = (centred * share[:, None]).T @ centred
        third, fourth = [], []
        for direction in directions(covariance):
            along = centred @ direction
            z = along / np.sqrt(share @ along**2)
            third.append(share @ z**3)
            fourth.append(share @ z**4)
        zero = np.zeros(len(mean))
        moments = {"mean_mcse": zero, "sd_mcse": zero, **known}
        return cls(mean, covariance, np.array(third), np.array(fourth), how=how, **moments)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Truth:
        """The truth in a stored record of long HMC: moments, the covariance's lower triangle, and how it was made."""
        import numpy as np

        lower = np.zeros((len(record["mean"]),) * 2)
        lower[np.tril_indices(len(lower))] = np.concatenate(record["covariance"])
        where = record["sampler"].get("coordinates")
        how = (
            f"HMC{f' in coordinates {where}' if where else ''}, {record['chains']} chains of {record['draws']} draws: "
            f"R-hat {record['rhat']:.4f}, ESS {record['ess_z']:.0f} (z) and {record['ess_z2']:.0f} (z^2) or more along "
            f"every direction, acceptance {record['acceptance']:.2f}; {record['command']}"
        )
        moments = {name: np.array(record[name]) for name in ("mean", "z3", "z4", "mean_mcse", "sd_mcse")}
        return cls(**moments, covariance=lower + np.tril(lower, -1).T, how=how)

    @property
    def sd(self) -> Array:
        """Of each coordinate (D,)."""
        import numpy as np

        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @functools.cached_property
    def directions(self) -> Array:
        """The unit vectors (K, D) along which samplers are held to it: `harness.analysis.diagnostics.directions`."""
        return directions(self.covariance)


def directions(covariance: Array) -> Array:
    """As `harness.analysis.diagnostics.directions`, imported late."""
    from harness.analysis.diagnostics import directions as found

    return found(covariance)


def quantile_levels() -> Array:
    """(j - 1/2) / 40, j = 1 ... 40: the levels of a truth's quantiles."""
    import numpy as np

    return (np.arange(LEVELS) + 0.5) / LEVELS


@dataclass(frozen=True)
class Cost:
    """What a run costs in passes through the data: once for the sampler's `init`, then for every step."""

    at_start: float
    per_step: float

    def after(self, steps: Array) -> Array:
        """Data passes spent by the end of each of `steps`, counted from 1."""
        return self.at_start + self.per_step * steps


@dataclass(frozen=True)
class Outcome:
    """What an observer yields for one run.

    metrics  name -> value, None where it does not exist (a run that never visited all modes)
    curves   name -> (x, y): x (n,) with the unit in the task's docs, y (chains, n), or (1, n) for the run as a whole
    arrays   name -> array, for figures
    """

    metrics: Mapping[str, float | None]
    curves: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


class Observer(ABC):
    """Turns the draws of one run into metrics, as they come; blocks may be cut anywhere."""

    @abstractmethod
    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        """Kept draws (B, C, D), their weights (B, C), and the steps (B,), counted from 1, that made them."""

    @abstractmethod
    def outcome(self) -> Outcome:
        """The metrics of everything observed."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """All that is needed to go on, as tensors, for the checkpoint."""

    @abstractmethod
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state`."""


class Problem(ABC):
    """The potential of C chains. Row c of every tensor is a chain; a problem does not care which run it is of.

    U may be random in each step: by the minibatch or by noise added to the gradient. All of that is drawn in
    `draw_batches`; `energy` and `gradient` are pure functions of (theta, batch), with batch None for the full U.
    """

    dim: int

    block_limit: int | None = None
    """Most steps between two looks at what the problem carries; 1 where an observer must see the buffers of a draw."""

    layout: Layout | None = None
    """The weights of a network within theta, where the task provides "layout"."""

    under_normal_prior: Tensor | None = None
    """The coordinates (D,) whose prior is the task's N(0, I / prior_precision), True and False; None: all of them."""

    @abstractmethod
    def initial(self) -> Tensor:
        """Starting points (C, D), each from its chain's own "init" stream."""

    def draw_batches(self, steps: int) -> Batch:
        """Everything random about U in the next `steps` steps: named tensors (steps, C, ...). {} where U is exact."""
        return {}

    @abstractmethod
    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """U (C,) on the batch of one step (tensors (C, ...)), on the full-data scale; None: all the data."""

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        """U (C,) and grad U (C, D); by automatic differentiation unless the task knows better."""
        import torch

        def total(x: Tensor) -> tuple[Tensor, Tensor]:
            value = self.energy(x, batch)
            return value.sum(), value

        gradient, value = torch.func.grad(total, has_aux=True)(theta)  # unlike autograd.grad, it can be compiled
        return value, gradient

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """grad U (C, D)."""
        return self.energy_and_gradient(theta, batch)[1]

    def scores(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Gradients of the likelihood terms of a batch, (C, n, D), where the task provides "scores"."""
        raise NotImplementedError(f"{type(self).__name__} has no scores")

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse metric (C, D, D) and its divergence (C, D), where the task provides "metric"."""
        raise NotImplementedError(f"{type(self).__name__} has no metric")

    @abstractmethod
    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        """An observer for the run whose chains are `rows`."""

    def state(self) -> dict[str, Tensor]:
        """What `draw_batches` carries from step to step, as tensors whose leading axis is the chains."""
        return {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state`."""


@dataclass(frozen=True, kw_only=True)
class Task(Configurable):
    """Base of every task: a frozen dataclass of settings.

    version    raised when the meaning of the task or of its numbers changes
    protocols  the first is the default
    metrics    the first is the primary one
    datasets   files it reads, with checksums
    provides   what samplers may need beyond gradients: "terms", "scores", "metric", "layout"
    opaque     whether the compiler leaves energy and gradient as they are, and compiles the sampler's step alone; on a
               GPU, steps of these tasks are recorded as a CUDA graph unless a setting says otherwise
    given      what those of them are that cost a sampler no gradients, "metric": stated on the rows that use them
    prior_precision  of a prior N(0, I / prior_precision), where the prior is one
    """

    version: ClassVar[int] = 1
    protocols: ClassVar[Sequence[Protocol]]
    metrics: ClassVar[Sequence[Metric]]
    datasets: ClassVar[Sequence[DataFile]] = ()
    provides: ClassVar[frozenset[str]] = frozenset()
    given: ClassVar[Mapping[str, str]] = {}
    dtype: ClassVar[str] = "float64"
    opaque: ClassVar[bool] = False
    prior_precision: ClassVar[float | None] = None

    def dim(self) -> int:
        """Number of parameters D."""
        raise NotImplementedError

    def terms(self) -> int:
        """N, the number of likelihood terms in U; 1 for a plain density."""
        return 1

    def batch_terms(self) -> int:
        """n, how many of them a stochastic gradient looks at."""
        return self.terms()

    def steps_per_epoch(self) -> int:
        """Batches in one pass through the data."""
        return -(-self.terms() // self.batch_terms())

    def curvature(self) -> float | None:
        """Largest eigenvalue of the Hessian of U at a mode, where known: step sizes beyond 2/curvature explode sgld."""
        return None

    def truth(self) -> Truth | None:
        """The exact moments, where they are known."""
        return None

    def for_laws(self) -> Task:
        """What the laws are tried on: the task, unless it is too large; then the same code, small, in float64."""
        return self

    def max_block(self, device: str) -> int:
        """How many runs advance together on `device`."""
        return 64

    def build(self, streams: Sequence[Streams], device: str) -> Problem:
        """The problem of `len(streams)` chains, chain c drawing from `streams[c]`."""
        raise NotImplementedError
