"""What a task is: a potential with its data, protocols, metrics and truth.

A `Task` is the description (a frozen dataclass of settings); `Task.build` makes the `Problem`: the potential of all
chains of a block as tensors. The harness wraps a Problem into the `Potential` that samplers get.
"""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from harness.contracts.data import DataFile
from harness.contracts.parameters import Configurable, of_part
from harness.contracts.randomness import TUNING_SEED
from harness.contracts.truth import Reference, Truth
from harness.system.columns import entry
from harness.system.errors import UsageError, require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.contracts.module import Layout
    from harness.contracts.randomness import Streams
    from harness.contracts.sampler import GaussNewton
    from harness.contracts.schedule import Trajectory

    Batch = dict[str, Tensor]
    Array = NDArray[np.float64]


DIRECTIONS = ("max", "min", "target")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def _is_whole(value: Any, least: int) -> bool:
    return type(value) is int and value >= least


@dataclass(frozen=True)
class Metric:
    """A number that a task reports for a run. `direction` is "max", "min", or "target", for values best at `target`.

    Each field except `summary` is stored with the value, and is a column of the results.
    """

    name: str = entry("name of the metric")
    direction: str = entry("max, min, or target: where better is", among=DIRECTIONS)
    unit: str = entry("unit of the value")
    summary: str = entry("what it measures", column=None, at="")
    version: int = entry("raised when the meaning of the metric changes", 1)
    target: float | None = entry("best value, where direction is target", None)

    def __post_init__(self) -> None:
        here = f"metric {self.name!r:.80}"
        require(_is_name(self.name), here, "its name is not a word of lower-case letters, digits, - and _")
        require(self.direction in DIRECTIONS, here, f"direction {self.direction!r:.40} is not max, min or target")
        require(_is_whole(self.version, 1), here, f"version {self.version!r:.40} is not a whole number of at least 1")


@dataclass(frozen=True)
class Protocol:
    """A named way to run a task, as in a paper (or its code): lengths, chains, seeds, burn-in.

    budgets  name ("smoke", "quick", "paper") -> gradients of a chain on the task's batch; a sampler that needs several
             gradients a step, or full ones, makes fewer steps
    burn_in  share of the steps, in [0, 1)
    settings  by dotted name ("task.width", "run.warm_start")
    budget_settings  name of a budget -> settings by dotted name that make it as long as its name says, seconds or
                     minutes; they take precedence over those of a paper
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

    def task_settings(self) -> dict[str, Any]:
        """Return the settings of the task by field name."""
        return of_part(self.settings, "task")

    def __post_init__(self) -> None:
        here = f"protocol {self.name!r:.80}"
        require(_is_name(self.name), here, "its name is not a word of lower-case letters, digits, - and _")
        require(len(self.budgets) > 0 and len(self.seeds) > 0, here, "it has no budget or no seed")
        for name, gradients in self.budgets.items():
            require(_is_name(name), here, f"the budget {name!r:.40} has a name that is not a lower-case word")
            require(_is_whole(gradients, 1), here, f"budget {name}: {gradients!r:.40} is not a number of gradients")
        for name in self.budget_settings:
            require(name in self.budgets, here, f"it has settings for {name!r:.40}, which is not one of its budgets")
        for name in itertools.chain(self.settings, *self.budget_settings.values()):
            dotted = isinstance(name, str) and "." in name
            require(dotted, here, f"the setting {name!r:.40} has no dotted name, such as task.width or run.thin")
        for name in ("burn_in", "thin"):
            require(f"run.{name}" not in self.settings, here, f"the setting run.{name} is its field {name}")
        usual = all(_is_whole(seed, 0) and seed < TUNING_SEED for seed in self.seeds)
        require(usual, here, f"seeds {self.seeds!r:.40} are not numbers from 0, below {TUNING_SEED:,}")
        require(_is_whole(self.chains, 1), here, f"chains = {self.chains!r:.40} is not a number of chains")
        require(_is_whole(self.thin, 1), here, f"thin = {self.thin!r:.40} is not a whole number of at least 1")
        require(0 <= self.burn_in < 1, here, f"burn_in = {self.burn_in!r:.40} is not a share in [0, 1)")


@dataclass(frozen=True)
class Cost:
    """The cost of a run in data passes: once for the sampler's `init`, then for every step."""

    at_start: float
    per_step: float

    def shared(self, particles: int) -> Cost:
        """Return the cost if each step stands for one particle of an ensemble (`Trajectory.shared`)."""
        return Cost(self.at_start, self.per_step / particles)

    def after(self, steps: Array) -> Array:
        """Return the data passes spent by the end of each of `steps`, counted from 1."""
        return self.at_start + self.per_step * steps


def data_passes(calls: tuple[int, int], batch_terms: int, terms: int, refresh_every: int = 0, price: int = 1) -> float:
    """Return the cost of gradient calls, on the batch and on all the data (`price` each), in data passes.

    A step whose state is refreshed every n steps costs 1/n of a call on all the data more.
    """
    on_batch, on_all = calls
    return on_batch * batch_terms / terms + price * (on_all + (1 / refresh_every if refresh_every else 0))


@dataclass(frozen=True)
class Outcome:
    """What an observer reports for one run.

    metrics  name -> value, or None if it does not exist (for example, the run never visited all modes)
    curves   name -> (x, y): x (n,) with the unit in the task's docs, y (chains, n), or (1, n) for the run as a whole
    arrays   name -> array, for figures
    """

    metrics: Mapping[str, float | None]
    curves: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class Observer(ABC):
    """An object that turns the draws of one run into metrics as they arrive, in blocks of any lengths."""

    @abstractmethod
    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        """Add kept draws (B, C, D), their weights (B, C), and the steps (B,), counted from 1, that made them."""

    @abstractmethod
    def outcome(self) -> Outcome:
        """Return the metrics of everything observed."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Return all that is needed to continue, as tensors, for the checkpoint."""

    @abstractmethod
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""


def differentiate(function: Callable[[Tensor], tuple[Tensor, Tensor]], theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient at theta of a function's first result, a number, and the function's second result."""
    import torch

    if torch.compiler.is_compiling():  # autograd.grad cannot be compiled
        gradient, value = torch.func.grad(function, has_aux=True)(theta)
        return gradient, value
    with torch.enable_grad():  # func.grad cannot be called in an operation that the compiler does not compile
        x = theta.detach().requires_grad_()
        total, value = function(x)
        (gradient,) = torch.autograd.grad(total, x)
    return gradient, value.detach()


class Problem(ABC):
    """The potential of C chains. Row c of every tensor is a chain; a problem does not use which run it belongs to.

    U may be random in each step: by the minibatch or by noise added to the gradient. `draw_batches` draws all of it;
    `energy` and `gradient` are pure functions of (theta, batch), where batch None means the full U.
    """

    dim: int

    block_limit: int | None = None
    """Most steps between two observations of the problem's state; 1 if an observer needs the buffers of each draw."""

    layout: Layout | None = None
    """The weights of a network within theta, if the task provides "layout"."""

    held_bytes: int = 0
    """The size of the rows that it holds in memory."""

    under_normal_prior: Tensor | None = None
    """A mask (D,) of the coordinates whose prior is the task's N(0, I / prior_precision); None means all of them."""

    @abstractmethod
    def initial(self) -> Tensor:
        """Return the starting points (C, D), each drawn from its chain's own "init" stream."""

    def draw_batches(self, steps: int) -> Batch:
        """Return what is random about U in the next `steps` steps: named tensors (steps, C, ...); {} if U is exact."""
        return {}

    def compile_network(self) -> None:
        """Compile the network, which no mode of execution compiles; raise `UsageError` if there is none."""
        raise UsageError("run.compile = network: this task's network is no torch module; ask for compiled")

    @abstractmethod
    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return U (C,) on the batch of one step (tensors (C, ...)), on the full-data scale; None: all the data."""

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D); by automatic differentiation unless overridden."""

        def total(x: Tensor) -> tuple[Tensor, Tensor]:
            value = self.energy(x, batch)
            return value.sum(), value

        gradient, value = differentiate(total, theta)
        return value, gradient

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return grad U (C, D)."""
        return self.energy_and_gradient(theta, batch)[1]

    def scores(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return the gradients of the likelihood terms of a batch, (C, n, D), if the task provides "scores"."""
        raise NotImplementedError(f"{type(self).__name__} has no scores")

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inverse metric, (C, D, D) or its diagonal (C, D), and its divergence, if it provides "metric"."""
        raise NotImplementedError(f"{type(self).__name__} has no metric")

    def gauss_newton(self, theta: Tensor, *, last_layer: bool, full: bool) -> GaussNewton:
        """Return what `harness.Potential.gauss_newton` does, if the task provides "gauss_newton"."""
        raise NotImplementedError(f"{type(self).__name__} has no gauss_newton")

    def original(self, theta: Tensor) -> Tensor:
        """Return positions (..., D) in the task's coordinates, in which draws are stored and observed."""
        return theta

    @abstractmethod
    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        """Return an observer for the run whose chains are `rows`."""

    def state(self) -> dict[str, Tensor]:
        """Return what `draw_batches` carries from step to step, as tensors whose leading axis is the chains."""
        return {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""


@dataclass(frozen=True, kw_only=True)
class Task(Configurable):
    """Base class of every task: a frozen dataclass of settings.

    version    raised when the meaning of the task or of its numbers changes
    protocols  the first is the default
    metrics    the first is the primary one
    datasets   files that it reads, with checksums
    provides   what it offers samplers beyond gradients: "terms", "scores", "metric", "layout", "gauss_newton"
    opaque     True if the compiler does not compile energy and gradient, but the sampler's step alone; on a GPU, steps
               of these tasks on minibatches are recorded as a CUDA graph unless a setting says otherwise
    given      for those of `provides` that cost a sampler no gradients ("metric"), a text that says what they are; rows
               of the samplers that use them state it
    prior_precision  of the prior N(0, I / prior_precision), if the prior is one
    stored_truth, stored_reference  what `bench truth` computed; the harness sets one of them
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
    stored_truth: ClassVar[Truth | None] = None
    stored_reference: ClassVar[Reference | None] = None

    def dim(self) -> int:
        """Return the number of parameters, D."""
        raise NotImplementedError

    def terms(self) -> int:
        """Return N, the number of likelihood terms in U; 1 for a plain density."""
        return 1

    def batch_terms(self) -> int:
        """Return n, the number of terms that a stochastic gradient uses."""
        return self.terms()

    def batch_orders(self) -> Sequence[str]:
        """Return the values of `run.batch_order` that its problem follows: none, if it has no minibatches of rows."""
        return ()

    def priced_terms(self) -> int:
        """Return N as a gradient is priced, n/N of a data pass: that of the data, unless its noise is artificial."""
        return self.terms()

    def layout(self) -> Layout | None:
        """Return the blocks of theta, for tasks that provide "layout"."""
        return None

    def gauss_newton_gradients(self) -> int:
        """Return the price of `gauss_newton` in full gradients: one for each output of a network's last layer."""
        return layout.blocks[-1].shape[0] if (layout := self.layout()) else 1

    def steps_per_epoch(self) -> int:
        """Return the number of batches in one pass through the data."""
        return -(-self.terms() // self.batch_terms())

    def curvature(self) -> float | None:
        """Return the largest eigenvalue of U's Hessian at a mode, if known: sgld diverges for h beyond 2/curvature."""
        return None

    def truth(self) -> Truth | None:
        """Return the exact moments if they are known, else those that `bench truth` stored, else None."""
        return self.stored_truth

    def functions(self, theta: Tensor) -> Tensor:
        """Return functions (n, K) of theta (n, D), such as predictions, whose moments are in `function_reference`."""
        raise NotImplementedError(f"{type(self).__name__} has no functions")

    def function_reference(self) -> Reference | None:
        """Return the moments of `functions` that `bench truth` stored, or None.

        They take the place of a truth if the moments of theta cannot be known.
        """
        return self.stored_reference

    def for_laws(self) -> Task:
        """Return the task on which laws are tested: itself or, if it is too large, a small one in float64."""
        return self

    def max_block(self, device: str) -> int:
        """Return how many runs advance together on `device`."""
        return 64

    def build(self, streams: Sequence[Streams], device: str) -> Problem:
        """Return the problem of `len(streams)` chains, where chain c draws from `streams[c]`."""
        raise NotImplementedError
