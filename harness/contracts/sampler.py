"""What a sampler is: the one contract between a sampler and the harness.

Notation used everywhere: U(theta) = -sum_i log p(x_i | theta) - log p(theta) is the full-data sum, the target is
exp(-U/T), and the step size h multiplies grad U. C chains of dimension D are one tensor `theta` of shape (C, D).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from harness.contracts.parameters import Configurable

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.module import Layout

    State = dict[str, Tensor]
    GaussNewton = tuple[Mapping[int, Sequence[Tensor]], float]


class Noise(Protocol):
    """Random numbers for one step; every chain draws from its own stream.

    In `step`, at T = 0, `normal` returns a 0-dim zero and draws nothing. In `init` it always draws. Every step must
    request the same shapes in the same order. The object has no attributes other than these.
    """

    def normal(self, like: Tensor) -> Tensor:
        """Return standard normals with the shape, dtype and device of `like`, whose leading axis is the chains."""

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Return uniforms on [0, 1) of `shape`, whose leading axis is the chains."""


class Potential(Protocol):
    """U on the current minibatch: an unbiased estimate on the full-data scale, prior included.

    Everything random about U is fixed before the step and stays until the next one, so two calls in one step see
    the same U, unless the sampler declares `batches_per_step`. Returned tensors belong to the caller.

    A call costs one gradient for each chain, so x has the shape of theta: a call at another shape raises `PluginError`,
    and so does a call within `vmap`, automatic differentiation or a torch mode. Each further position (replicas) needs
    a call of its own. The object has no attributes other than these. It counts calls wherever they are made. The object
    that `init` gets cannot be used after `init` has returned.
    """

    terms: int

    def grad(self, x: Tensor) -> Tensor:
        """Return grad U at any x of theta's shape (C, D), as a (C, D) tensor."""

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D). Costs one gradient."""

    def scores(self, x: Tensor) -> Tensor:
        """Return the gradients of -log p(x_i | theta) for each example i of the batch, (C, n, D). Costs one gradient.

        For samplers that declare the need "scores".
        """

    def metric(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inverse metric D, and Gamma_i = sum_j dD_ij/dtheta_j (C, D), at x. Costs no gradient.

        D is (C, D, D), or (C, D) if it is diagonal. For samplers that declare the need "metric".
        """

    def gauss_newton(self, x: Tensor, *, last_layer: bool, full: bool) -> GaussNewton:
        """Return the Gauss-Newton matrix of the likelihood on all the data, and the precision of the prior.

        By the index of a block's first coordinate: its Kronecker factors (C, o, o) and (C, i, i), or one matrix.
        Costs `gauss_newton_gradients` of the task. For samplers that declare the need "gauss_newton".
        """

    @property
    def layout(self) -> Layout:
        """Names and shapes of a network's weights within theta. For samplers that declare the need "layout"."""

    @property
    def full(self) -> Potential:
        """U on all the data; each call costs one data pass."""


@dataclass(frozen=True, kw_only=True)
class Sampler(Configurable):
    """Base class of every sampler: a frozen dataclass of hyperparameters, declared with `harness.param`.

    Declarations (class attributes, all optional):

    gradients_per_step       calls of `potential.grad`, `value_and_grad` or `scores` that a step makes; a fixed number
    batches_per_step         B, the minibatches of a step: 1, or a divisor of the number of its gradient calls, which
                             go through them in order
    full_gradients_per_step  the calls of `potential.full`
    full_gradients_at_start  calls of `potential.full` in `init`; the plan subtracts them from the budget. Beyond the
                             budget `init` may make as many calls on a batch as a step, and one full one where steps
                             make some
    gradient_at              "start" if the first gradient of a step is at the theta that it gets; "end" if the last one
                             is at the theta that it returns, and is kept in the state for the next step
    refresh_every            n: `refresh` is called before every n-th step; 0: never
    step_unit                the power of U in the unit of h: -1 if h multiplies grad U, 0 if h has no unit (it
                             multiplies a gradient that was divided by its size). `param` declares the same for
                             hyperparameters
    particles                P, the number of positions that an ensemble holds; `ensemble` returns them, and all of them
                             are draws
    needs                    what it needs of a potential beyond gradients: "terms", "scores", "metric", "layout",
                             "gauss_newton" (its full gradients are then calls of it alone)
    least_dimension          the fewest dimensions in which it can move; the plan refuses a task with fewer
    adaptive                 state entries that the linear law holds fixed (psgld's V)
    zero_temperature         the optimiser that a step equals at T = 0: the name of a known one ("sgd", "heavy-ball",
                             "adam", ...); or a function (sampler, theta, memory, g, h) -> (theta, memory) that is
                             written independently of `step`, where memory is a dict that starts empty; or None if there
                             is none. A sampler that needs the metric is compared with the rule on D g
    exempt                   law of `bench check` -> reason why it does not apply; a sampler that is exempt from
                             "compiled" is never compiled

    A hyperparameter called `gradient_variance` is the variance of a coordinate of the stochastic gradient. That much of
    a step's noise is already there, so the total noise of a step does not depend on it.
    """

    free_text: ClassVar[bool] = False
    gradients_per_step: ClassVar[int] = 1
    batches_per_step: ClassVar[int] = 1
    full_gradients_per_step: ClassVar[int] = 0
    full_gradients_at_start: ClassVar[int] = 0
    gradient_at: ClassVar[str] = "start"
    refresh_every: ClassVar[int] = 0
    step_unit: ClassVar[int] = -1
    particles: ClassVar[int] = 1
    needs: ClassVar[frozenset[str]] = frozenset()
    least_dimension: ClassVar[int] = 1
    adaptive: ClassVar[tuple[str, ...]] = ()
    zero_temperature: ClassVar[str | Callable[..., Any] | None] = "sgd"
    exempt: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def settings(cls, task: str) -> Mapping[str, object]:
        """Return the author's settings for a task by dotted name ({"schedule.step_size": 0.1}), or {}."""
        return {}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> State:
        """Return the state before the first step: a dict of tensors, each with the chains as its leading axis."""
        return {}

    def step(
        self, theta: Tensor, state: State, potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, State]:
        """Make one step: return the new theta (C, D) and the new state. `h` and `T` broadcast against theta.

        Theta and the entries of the state keep their shape, dtype and device; otherwise `PluginError` is raised. The
        step must not change its arguments in place, branch in Python on a tensor's value, or use global random state,
        and chains never interact: the same code runs plain, compiled and in a CUDA graph.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def adapt(self, state: State, h: Tensor, T: Tensor) -> State:
        """Return the adapted state. Called after burn-in steps only: what it sets stays fixed while draws are kept."""
        return state

    def refresh(self, theta: Tensor, state: State, potential: Potential) -> State:
        """Return the state before every `refresh_every`-th step except the first; asks for one full gradient."""
        return state

    def ensemble(self, theta: Tensor, state: State) -> Tensor:
        """Return all particles (C, P, D) of an ensemble, of which theta is the first. They share the chain's weight."""
        return theta[:, None]

    def log_weight(self, state: State) -> Tensor | None:
        """Return the log importance weight of the current draw, (C,), or None if all draws have the same weight."""
        return None

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        """Raise `UsageError` if the sampler cannot use these step sizes and temperatures, a part of a trajectory."""

    def limit_bias(self) -> float | None:
        """Return the stationary variance over T/lambda as h*lambda -> 0: 1 unless the target is biased by construction.

        Return 0 for an optimiser, which draws no noise, and None if there is no stationary law.
        """
        return 1.0
