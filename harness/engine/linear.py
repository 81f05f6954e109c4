"""The law of a sampler on a quadratic potential, derived from its own `step`: exact, without Monte Carlo.

On U = sum_i lambda_i theta_i^2 / 2 most samplers are linear. With z = (theta, state), the noise xi that they draw and
the error b of the stochastic gradient, a step is

    z <- A z + B xi + G b,

so z stays Gaussian and its covariance follows P <- A P A' + B B' + V G G', where V is the variance of a coordinate of
b. The columns of A, B and G are the answers of `step` to basis vectors, each in a chain of its own. Linearity is not
declared but measured, by the difference between the answers to random vectors and the sums of the answers to basis
vectors. State entries named in `adaptive`, those that are not floating point, and those that change by themselves, such
as a count of steps, are held at the values that `init` gives them. A sampler with `adaptive` entries is probed with
vectors so short that these entries do not change within the step either.
"""

from __future__ import annotations

import copy
import dataclasses
import fnmatch
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from harness.contracts.module import Block, Layout
from harness.contracts.randomness import Slot, Streams
from harness.engine.interface import check_answer, check_signatures, check_state, entry
from harness.engine.stepping.noise import DirectNoise

if TYPE_CHECKING:
    from torch import Tensor

    from harness.contracts.sampler import Noise, Potential, Sampler, State
    from harness.contracts.schedule import Trajectory

    Array = NDArray[np.float64]

LINEAR = 1e-9
"""Largest relative superposition error of a linear sampler; rounding gives about 1e-15."""

LENGTHS = (0.1, 0.1, 1.0, 1.0, 1.0, 1.0, 30.0, 30.0, 1e-6, 1e6)
"""Lengths of the random vectors: a clip or a box shows in the long ones, a grid in the short ones. Samplers with
adaptive entries do without the last two."""

ROUNDINGS = 100
"""Allowed rounding, in units of eps: a step may add and subtract numbers of size 1 to 50, as control variates do."""

SHORT = 1e-6
"""Length of the vectors for a sampler with adaptive entries: V <- b V + (1 - b) g^2 changes by its square."""

DOUBLINGS = 60
"""Number of doublings: enough for a spectral radius of 1 - 1e-16."""

SETTLING = 12
"""Number of steps that adaptive entries get to settle."""

RESTING, STAYING = 1e-7, 5000
"""Step size and number of steps after which running means of the gradient have settled."""

LARGEST_X = 1e3
"""Largest step size in the search for a stability limit."""


@dataclass(frozen=True, eq=False)
class LinearStep:
    """z <- A z + B xi + G b: A (n, n), B (n, m), G (n, D); `entries` gives the places of theta and state entries in z.

    `error` is the relative superposition error (inf if an answer is not finite or not repeatable), `shift` the distance
    by which the origin moves without noise and gradient error.
    """

    A: Array
    B: Array
    G: Array
    entries: dict[str, slice]
    error: float
    shift: float

    @property
    def linear(self) -> bool:
        """Whether superposition holds, so that A, B and G have a meaning."""
        return self.error < LINEAR

    @property
    def radius(self) -> float:
        """The spectral radius of A: a stationary law exists if it is below 1."""
        return float(np.abs(np.linalg.eigvals(self.A)).max())

    def injected(self, gradient_variance: float = 0.0) -> Array:
        """Return Q = B B' + V G G', the covariance that one step adds."""
        return self.B @ self.B.T + gradient_variance * self.G @ self.G.T

    def stationary(self, gradient_variance: float = 0.0) -> Array | None:
        """Return P = A P A' + Q (n, n), the sum of A^k Q A'^k, or None if A is not stable.

        The sum is computed by doubling, because a bilinear transform loses digits if A has an eigenvalue near -1.
        """
        if not self.linear or self.radius >= 1 - 1e-13:
            return None
        A, P = self.A, self.injected(gradient_variance)
        for _ in range(DOUBLINGS):
            P, A = P + A @ P @ A.T, A @ A
        return P


class QuadraticPotential:
    """U(theta) = sum_i (lambda_i theta_i^2 / 2 + b_i theta_i), where b is the error of the gradient on a minibatch.

    `curvature` is lambda, (D,) or one row for each chain (C, D); `slope` is b (C, D), or None. With orthogonal `axes` Q
    (D, D), lambda belongs to the columns of Q: the Hessian is Q diag(lambda) Q'. Every operation is elementwise.
    """

    provides: ClassVar[frozenset[str]] = frozenset({"terms", "scores", "metric", "layout", "gauss_newton"})
    """What it offers beyond gradients, as in `Task.provides`."""

    def __init__(
        self, curvature: Tensor, slope: Tensor | None = None, axes: Tensor | None = None, terms: int = 1
    ) -> None:
        self.curvature, self.slope, self.axes, self.terms = curvature, slope, axes, terms

    @property
    def layout(self) -> Layout:
        """A matrix, nearly square, and a vector of the rest; in 1 dimension the vector alone."""
        wide = math.isqrt(self.curvature.shape[-1])
        high, rest = divmod(self.curvature.shape[-1] - 1, wide)
        return Layout((Block("weight", (high, wide)), Block("bias", (rest + 1,)))[high == 0 :])

    @property
    def full(self) -> QuadraticPotential:
        """U on all the data, where b is 0."""
        full = copy.copy(self)
        full.slope = None
        return full

    def energy(self, x: Tensor) -> Tensor:
        """Return U (C,) at x."""
        terms = self._exact(x) * x / 2 if self.axes is not None else self.curvature * x.square() / 2
        if self.slope is not None:
            terms = terms + self.slope * x
        total = terms[:, 0]
        for i in range(1, terms.shape[1]):  # a reduction may give other bits for another number of chains
            total = total + terms[:, i]
        return total

    def grad(self, x: Tensor) -> Tensor:
        """Return grad U = lambda x + b, (C, D)."""
        return self._exact(x) if self.slope is None else self._exact(x) + self.slope

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D)."""
        return self.energy(x), self.grad(x)

    def _exact(self, x: Tensor) -> Tensor:
        """Return the gradient without b."""
        if self.axes is None:
            return self.curvature * x
        along = (x[:, :, None] * self.axes).sum(1)
        return ((self.curvature * along)[:, None, :] * self.axes).sum(2)

    def scores(self, x: Tensor) -> Tensor:
        """Return the gradients of the terms, (C, D, D): a term is one coordinate's part of U, so the others are 0."""
        return self.grad(x).diag_embed()

    def metric(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return D = 1 / lambda on the diagonal, the inverse of U's Hessian, and its divergence, 0."""
        return self._dense(1 / self.curvature, x), x.new_zeros(x.shape)

    def gauss_newton(self, x: Tensor, *, last_layer: bool, full: bool) -> tuple[dict[int, list[Tensor]], float]:
        """Return the Hessian (C, D, D) as one block, without a prior."""
        return {0: [self._dense(self.curvature, x)]}, 0.0

    def _dense(self, eigenvalues: Tensor, x: Tensor) -> Tensor:
        """Return the matrices (C, D, D) that have these eigenvalues along the axes."""
        matrix = eigenvalues.expand_as(x).diag_embed()
        return matrix if self.axes is None else self.axes @ matrix @ self.axes.mT


class ScriptedNoise:
    """Noise that returns chosen values, one tensor (C, ...) for each request; without a script, zeros and one half.

    It records the requests.
    """

    def __init__(self, script: Sequence[Tensor] | None = None) -> None:
        self.script = script
        self.slots: list[Slot] = []

    def normal(self, like: Tensor) -> Tensor:
        """Return the next value, or zeros like `like`."""
        self.slots.append(Slot("normal", tuple(like.shape[1:]), like.dtype))
        return torch.zeros_like(like) if self.script is None else self.script[len(self.slots) - 1]

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Return the next value, or one half."""
        self.slots.append(Slot("uniform", tuple(shape[1:]), torch.float64))
        halves = torch.full(tuple(shape), 0.5, dtype=torch.float64)
        return halves if self.script is None else self.script[len(self.slots) - 1]


class Probe:
    """One sampler at one (h, T), probed with many vectors at once: every row of the arguments is a chain."""

    def __init__(
        self, sampler: Sampler, h: float, T: float, curvature: Sequence[float], axes: Tensor | None = None
    ) -> None:
        check_signatures(sampler)
        self.sampler = sampler
        self.axes = axes
        self.dim = dim = len(curvature)
        self.h, self.T = (torch.tensor(v, dtype=torch.float64) for v in (h, T))
        theta = torch.ones((1, dim), dtype=torch.float64)
        lam = torch.tensor(tuple(curvature), dtype=torch.float64)
        potential = QuadraticPotential(lam, axes=axes)  # what `init` learns about U must be true
        noise = DirectNoise([Streams(0, 0, ("probe",)).torch("sampler-init")], torch.float64)
        self.start: State = check_state(sampler, sampler.init(theta, potential, self.h, self.T, noise))
        asked = ScriptedNoise()
        check_answer(sampler, sampler.step(theta, dict(self.start), potential, self.h, self.T, asked))
        self.slots = asked.slots
        self.noise_size = sum(slot.numbers for slot in self.slots)
        fixed = held(sampler, self.start)
        self.free = [name for name, leaf in self.start.items() if leaf.is_floating_point() and name not in fixed]
        self._set_layout()
        running = {name for name in self.free if self._runs_by_itself(name)}
        self.free = [name for name in self.free if name not in running]
        self._set_layout()

    def _runs_by_itself(self, name: str) -> bool:
        """Return whether an entry changes, but not with theta, the other entries, noise and gradient: a step count.

        One that a step sets to zero is a linear function of these, as others are: a velocity that is lost at T = 0.
        """
        rows, columns = 3, self.entries[entry(name)]
        random = torch.randn((rows, self.size + self.noise_size + self.dim), dtype=torch.float64,
                             generator=Streams(0, 0, ("probe",)).torch("clocks"))  # fmt: skip
        z, xi, slope = random.split([self.size, self.noise_size, self.dim], dim=1)
        z = self.join(torch.ones((1, self.dim), dtype=torch.float64), self.start) + 0.01 * z
        z[:, columns] = z[0, columns]
        with torch.no_grad():
            after = self.answer(z, xi, slope, torch.ones(self.dim, dtype=torch.float64))[:, columns]
        return bool((after == after[0]).all() and after.any() and (after != z[:, columns]).any())

    def _set_layout(self) -> None:
        self.entries, self.size = {"theta": slice(0, self.dim)}, self.dim
        for name in self.free:
            start, self.size = self.size, self.size + self.start[name].numel()
            self.entries[entry(name)] = slice(start, self.size)

    def state(self, z: Tensor) -> State:
        """Return the state for the rows of z (R, n), including the entries that are held."""
        state = {name: leaf.expand(len(z), *leaf.shape[1:]).clone() for name, leaf in self.start.items()}
        for name in self.free:
            state[name] = z[:, self.entries[entry(name)]].reshape(state[name].shape)
        return state

    def join(self, theta: Tensor, state: State) -> Tensor:
        """Return position and state as rows (R, n): the inverse of `state`."""
        return torch.cat([theta, *(state[name].reshape(len(theta), -1) for name in self.free)], 1)

    def answer(self, z: Tensor, xi: Tensor, slope: Tensor, curvature: Tensor) -> Tensor:
        """Return z after one step (R, n) from z (R, n), noise xi (R, m), error b (R, D), curvature (D,) or (R, D)."""
        script, start = [], 0
        for slot in self.slots:
            script.append(xi[:, start : start + slot.numbers].reshape(len(z), *slot.shape))
            start += slot.numbers
        potential = QuadraticPotential(curvature, slope, self.axes)
        theta = z[:, : self.dim].clone()
        return self.join(*self.sampler.step(theta, self.state(z), potential, self.h, self.T, ScriptedNoise(script)))


def held(sampler: Sampler, state: State) -> list[str]:
    """Return the adaptive entries of a state; "name.*" in `adaptive` stands for all that begin with "name."."""
    return [name for name in state if any(fnmatch.fnmatchcase(name, pattern) for pattern in sampler.adaptive)]


def settled(sampler: Sampler, h: float, steps: int = SETTLING) -> Sampler:
    """Return the sampler with adaptive entries that start as some steps of size h at T = 1 leave them, seldom empty."""
    cls = type(sampler)
    known: dict[tuple[int | float, ...], State] = {}

    def init(self: Sampler, theta: Tensor, potential: Potential, _: Tensor, __: Tensor, noise: Noise) -> State:
        step_size, T = theta.new_tensor(h), theta.new_tensor(1.0)
        start = cls.init(self, theta, potential, step_size, T, noise)
        key = (*theta.shape, *potential.grad(theta)[0].tolist())
        if key not in known:
            x, state = theta, start
            for _step in range(steps):
                x, state = cls.step(self, x, state, potential, step_size, T, noise)
            known[key] = {name: state[name] for name in held(self, state)}
        return {**start, **known[key]}

    return with_methods(sampler, init=init)


@functools.lru_cache(maxsize=64)
def at_work(sampler: Sampler) -> Sampler:
    """Return the sampler with the adaptive entries of a chain that stays near theta = 1 at curvature 1.

    These take a second to settle, so samplers that are equal share them.
    """
    return settled(sampler, RESTING, STAYING) if sampler.adaptive else sampler


def with_methods(sampler: Sampler, **methods: Any) -> Sampler:
    """Return the sampler with some methods replaced."""
    kind = type(type(sampler).__name__, (type(sampler),), methods)
    return kind(**{field.name: getattr(sampler, field.name) for field in dataclasses.fields(sampler)})


def derive(
    sampler: Sampler, h: float, T: float, curvature: Sequence[float] = (1.0,), axes: Tensor | None = None
) -> LinearStep:
    """Return A, B and G of a step of size h at temperature T on a potential with these curvatures along `axes`."""
    D = len(curvature)
    lam = torch.tensor(tuple(curvature), dtype=torch.float64)
    with torch.no_grad():
        probe = Probe(sampler, h, T, curvature, axes)
        n, m = probe.size, probe.noise_size
        lengths = LENGTHS[:-2] if sampler.adaptive else LENGTHS
        generator = Streams(0, 0, ("probe",)).torch("vectors")
        random = torch.randn((len(lengths), n + m + D), generator=generator, dtype=torch.float64)
        random = random * torch.tensor(lengths, dtype=torch.float64)[:, None]
        origin = torch.zeros((1, n + m + D), dtype=torch.float64)
        size = SHORT if sampler.adaptive else 1.0
        vectors = size * torch.cat([origin, torch.eye(n + m + D, dtype=torch.float64), random])
        z, xi, slope = vectors.split([n, m, D], dim=1)
        answers = probe.answer(z, xi, slope, lam) / size
        repeated = probe.answer(z, xi, slope, lam) / size
    base, columns, responses = answers[0], answers[1 : 1 + n + m + D] - answers[0], answers[1 + n + m + D :]
    expected = base + (random[:, :, None] * columns).sum(1)
    rounding = ROUNDINGS * torch.finfo(torch.float64).eps / size  # of the 1 to which short vectors are added
    gap = ((responses - expected).abs().amax(1) - rounding).clamp(min=0)
    error = (gap / expected.abs().amax(1).clamp(min=1e-300)).max()
    exact = bool(answers.isfinite().all()) and torch.equal(answers, repeated)
    exact = exact and all(slot.kind == "normal" for slot in probe.slots)
    A, B, G = (part.T.contiguous().numpy() for part in columns.split([n, m, D]))
    if T == 0:  # then the harness draws no normals: a sampler that keeps its noise in its state keeps zeros
        B = np.zeros_like(B)
    return LinearStep(A, B, G, probe.entries, float(error) if exact else math.inf, float(base.abs().max()))


def stationary_variance(sampler: Sampler, x: float, T: float, gradient_variance: float = 0.0) -> float | None:
    """Return Var(theta) in the long run on U = theta^2 / 2 with step size x = h lambda; it is T for an exact sampler.

    Return None if the sampler is not linear, needs more than gradients, or is unstable at x.
    """
    if sampler.needs - QuadraticPotential.provides:
        return None
    P = derive(sampler, x, T).stationary(gradient_variance)
    return None if P is None else float(P[0, 0])


def along(
    sampler: Sampler, trajectory: Trajectory, curvature: Sequence[float], axes: Tensor | None = None
) -> list[LinearStep]:
    """Return the linear step of every step of a trajectory; raise ValueError if the sampler is not linear."""
    steps: dict[tuple[float, float], LinearStep] = {}
    pairs = list(zip(trajectory.step_size.tolist(), trajectory.temperature.tolist(), strict=True))
    for h, T in dict.fromkeys(pairs):
        steps[h, T] = derive(sampler, h, T, curvature, axes)
        if not steps[h, T].linear:
            raise ValueError(f"{type(sampler).__name__} is not linear at h = {h:g}, T = {T:g}: no exact moments")
    return [steps[pair] for pair in pairs]


def propagate(
    sampler: Sampler,
    trajectory: Trajectory,
    curvature: Sequence[float],
    P0: Array,
    gradient_variance: float = 0.0,
    axes: Tensor | None = None,
) -> Array:
    """Return the exact second moments E z z' (K, n, n) after each step of a trajectory, from P0 (n, n).

    The trajectory may have stages at T = 0. Raise ValueError if the sampler is not linear.
    """
    P, moments = P0, []
    for step in along(sampler, trajectory, curvature, axes):
        P = step.A @ P @ step.A.T + step.injected(gradient_variance)
        moments.append(P)
    return np.stack(moments)


def stability_limit(sampler: Sampler) -> float | None:
    """Return the smallest h, at curvature 1, at which the spectral radius of A reaches 1; inf if none does up to 1000.

    Return None if the sampler is not linear (Metropolis, thermostats) or needs more than gradients.
    """
    if sampler.needs - QuadraticPotential.provides or not derive(sampler, 1.0, 1.0).linear:
        return None
    probe = Probe(sampler, 1.0, 1.0, (1.0,))
    grid = np.geomspace(1e-9, LARGEST_X, 480)
    for _ in range(9):
        above = _radii(probe, grid) > 1 + 1e-13
        if not above.any():
            return math.inf if grid[-1] == LARGEST_X else float(grid[-1])
        first = int(above.argmax())
        grid = np.linspace(grid[max(first - 1, 0)], grid[first], 33)
    return float(grid[-1])


def working_limit(sampler: Sampler) -> float | None:
    """Return the stability limit with the adaptive entries of a run in progress."""
    return stability_limit(at_work(sampler))


def _radii(probe: Probe, h: Array) -> Array:
    """Return the spectral radius of A at each step size h (X,), at curvature 1."""
    n = probe.size
    size = SHORT if probe.sampler.adaptive else 1.0
    with torch.no_grad():
        z = size * torch.eye(n, dtype=torch.float64).repeat(len(h), 1)
        curvature = torch.ones(1, dtype=torch.float64)
        probe.h = torch.from_numpy(h).repeat_interleave(n)[:, None]
        xi = torch.zeros((len(z), probe.noise_size), dtype=torch.float64)
        slope = torch.zeros((len(z), 1), dtype=torch.float64)
        answers = probe.answer(z, xi, slope, curvature) - probe.answer(torch.zeros_like(z), xi, slope, curvature)
    columns = answers.reshape(len(h), n, n).numpy() / size
    return np.abs(np.linalg.eigvals(columns)).max(axis=1)
