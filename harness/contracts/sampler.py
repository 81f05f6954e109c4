"""What a sampler is: the one contract between a sampler and the harness.

Notation, everywhere: U(theta) = -sum_i log p(x_i | theta) - log p(theta) is the full-data sum, the target is
exp(-U/T), and the step size h multiplies grad U. C chains of dimension D are one tensor `theta` of shape (C, D).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from harness.contracts.parameters import Configurable

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.layout import Layout

    State = dict[str, Tensor]


class Noise(Protocol):
    """Random numbers for one step; every chain draws from a stream of its own.

    In `step`, at T = 0, `normal` returns a 0-dim zero and draws nothing. In `init` it always draws.
    A step must ask for the same shapes, in the same order, every time. The object has no other attributes than these.
    """

    def normal(self, like: Tensor) -> Tensor:
        """Standard normals in the shape, dtype and device of `like`, whose leading axis is the chains."""

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Uniforms on [0, 1) of `shape`, whose leading axis is the chains."""


class Potential(Protocol):
    """U on the current minibatch: an unbiased estimate on the full-data scale, prior included.

    Everything random about U is fixed before the step and stays until the next one, so two calls in one step see
    the same U. Returned tensors belong to the caller.

    A call costs one gradient a chain, so x has the shape of theta: a call at another shape raises `PluginError`, and
    so does one within `vmap`, automatic differentiation or a mode of torch. Further positions (replicas) take a call
    each. The object has no other attributes than these; it counts calls wherever they are made, and the one that `init`
    gets ends with it.
    """

    terms: int

    def grad(self, x: Tensor) -> Tensor:
        """grad U at any x of theta's shape (C, D), as a (C, D) tensor."""

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """U (C,) and grad U (C, D). Costs one gradient."""

    def scores(self, x: Tensor) -> Tensor:
        """Gradients of -log p(x_i | theta) for each example i of the batch, (C, n, D). Costs one gradient.

        For samplers that declare the need "scores".
        """

    def metric(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse metric D (C, D, D), and Gamma_i = sum_j dD_ij/dtheta_j (C, D), at x. Costs nothing.

        For samplers that declare the need "metric".
        """

    @property
    def layout(self) -> Layout:
        """Names and shapes of a network's weights within theta. For samplers that declare the need "layout"."""

    @property
    def full(self) -> Potential:
        """U on all the data: each call costs one pass through the data."""


@dataclass(frozen=True, kw_only=True)
class Sampler(Configurable):
    """Base of every sampler: a frozen dataclass of hyperparameters, declared with `harness.param`.

    Declarations (class attributes, all optional):

    gradients_per_step       calls of `potential.grad`, `value_and_grad` or `scores` a step makes; a fixed number
    full_gradients_per_step  the same for `potential.full`
    full_gradients_at_start  calls of `potential.full` in `init`; the plan takes them off the budget. Beyond them `init`
                             may make as many calls as a step
    gradient_at              "start" where the first gradient of a step is at the theta that it is given; "end" where
                             the last is at the theta that it returns, and is kept in the state for the next step
    refresh_every            `refresh` is called before every so many steps; 0: never
    step_unit                the power of U in the unit of h: -1 where h multiplies grad U, 0 where h has no unit (it
                             multiplies a gradient that was divided by its size). Of hyperparameters, `param` has it
    particles                P, positions that an ensemble holds; `ensemble` hands them over, all of them are draws
    needs                    what it asks of a potential beyond gradients ("terms", "scores", "metric", "layout")
    least_dimension          the fewest dimensions in which it can move; a task with fewer is refused at the plan
    adaptive                 state entries that the linear law holds fixed (psgld's V)
    zero_temperature         the optimiser that a step equals at T = 0: the name of one that is known ("sgd",
                             "heavy-ball", "adam", ...), or a function (sampler, theta, memory, g, h) -> (theta, memory)
                             written apart from `step`, memory being a dict that starts empty; None where none. A
                             sampler that needs the metric is compared with the rule on D g
    exempt                   law of `bench check` -> reason why it does not apply; a sampler that is exempt from
                             "compiled" is never compiled

    A hyperparameter called `gradient_variance` is the variance of a coordinate of the stochastic gradient: that much of
    the noise of a step is there already, so its whole noise does not depend on it.
    """

    gradients_per_step: ClassVar[int] = 1
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
        """The author's settings for a task by dotted name ({"schedule.step_size": 0.1}); {} where none."""
        return {}

    def init(self, theta: Tensor, potential: Potential, h: Tensor, T: Tensor, noise: Noise) -> State:
        """The state before the first step: a dict of tensors, each with the chains as its leading axis."""
        return {}

    def step(
        self, theta: Tensor, state: State, potential: Potential, h: Tensor, T: Tensor, noise: Noise
    ) -> tuple[Tensor, State]:
        """One step: the new theta (C, D) and the new state. `h` and `T` broadcast against theta.

        Theta and the entries of the state keep their shape, dtype and device: `PluginError` where they do not.
        No in-place change of the arguments, no Python branch on a tensor's value, no global random state, and
        chains never interact: the same code runs plain, compiled and in a CUDA graph.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def adapt(self, state: State, h: Tensor, T: Tensor) -> State:
        """Called after each burn-in step only; what it sets is frozen before the first kept draw."""
        return state

    def refresh(self, theta: Tensor, state: State, potential: Potential) -> State:
        """The state before every `refresh_every`-th step, the first excepted; asks for one full gradient."""
        return state

    def ensemble(self, theta: Tensor, state: State) -> Tensor:
        """All particles (C, P, D) of an ensemble, theta being the first. They share the chain's weight."""
        return theta[:, None]

    def log_weight(self, state: State) -> Tensor | None:
        """log importance weight of the current draw, shape (C,); None where all draws weigh the same."""
        return None

    def check_steps(self, h: Sequence[float], T: Sequence[float]) -> None:
        """Raise `UsageError` where step sizes and temperatures, a stretch of a trajectory, are impossible here."""

    def limit_bias(self) -> float | None:
        """Stationary variance over T/lambda as h*lambda -> 0; 1 unless the target is biased by construction.

        0 for an optimiser, which draws no noise; None where there is no stationary law.
        """
        return 1.0


def rescaled(sampler: Sampler, c: float) -> tuple[Sampler, float]:
    """The sampler and the factor on h that give the same path on c U at temperature c T, by the declared units."""
    powers = {field.name: field.metadata.get("unit", 0) for field in fields(sampler)}
    changed = {name: c**power * getattr(sampler, name) for name, power in powers.items() if power}
    return replace(sampler, **changed), float(c**sampler.step_unit)
