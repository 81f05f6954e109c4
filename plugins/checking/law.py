"""The definition of a law, the exceptions by which it fails, and the trajectories on which laws are tested."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness import Sampler, Trajectory, linear
from harness.engine import Loop, UncompiledError, by_update
from harness.tasks import Problem, Streams, Task
from plugins.checking.gaussian import GaussianTask, Recorder

Array = NDArray[np.float64]
State = dict[str, Tensor]

CHAINS = 3
"""The chains on which the laws for tasks are tested."""

TEMPERATURES = (0.5, 1.0, 3.0)

LEVEL = 1e-3
"""Chance that a correct sampler fails a law that depends on chance: all its p-values share it, by Bonferroni."""


WATCHED = 12
"""Steps in which the entries that change by themselves are distinguished from others."""


HALVINGS = 40
"""Of a step size that is too long: down to 1e-12 of it, at which only a sampler that never contracts is unstable."""


class Broken(Exception):  # noqa: N818 - a verdict, not an error of the program
    """A law does not hold. The message says where and by how much; `cause` is the usual cause of this failure.

    `roundings` is the difference that was found, in units of the rounding of the numbers that a step was given.
    """

    def __init__(self, message: str, cause: str = "", roundings: float = math.inf) -> None:
        super().__init__(message)
        self.cause = cause
        self.roundings = roundings


class Skip(Exception):  # noqa: N818 - as for Broken
    """A law does not apply to this sampler or task; the message says why."""


@dataclass(frozen=True)
class Law:
    """One law: its number in the list, its name, its check (which raises `Broken` or `Skip`), and its usual cause."""

    number: int
    name: str
    check: Callable[[Sampler], None]
    cause: str
    exemptible: bool = True


def worst(p_values: Mapping[str, float]) -> tuple[str, float]:
    """Return the name and the value of the smallest p-value; a NaN counts as 0."""
    values = {name: 0.0 if math.isnan(p) else p for name, p in p_values.items()}
    return min(values.items(), key=lambda item: item[1])


def two_sided(off: float, error: float, freedom: int) -> float:
    """Return the p-value of a t test, for a mean that is `off` by a positive number; NaN if one of the numbers is."""
    from scipy.stats import t

    if error == 0:
        return float(off == 0)
    return float(2 * t.sf(off / error, freedom))


def trajectory(
    step_size: Sequence[float] | NDArray[np.float64],
    temperature: float | Sequence[float] | NDArray[np.float64],
    burn_in: int = 0,
    keep: NDArray[np.bool_] | None = None,
) -> Trajectory:
    """Return a trajectory with these step sizes; every draw after the burn-in is kept, or those of `keep`."""
    h = np.asarray(step_size, dtype=np.float64)
    burning = np.arange(len(h)) < burn_in
    kept = ~burning if keep is None else keep
    return Trajectory(
        step_size=h,
        temperature=np.broadcast_to(np.asarray(temperature, dtype=np.float64), h.shape).copy(),
        keep=kept,
        evaluate=kept,
        cycle=np.zeros(len(h), dtype=np.int64),
        burn_in=burning,
    )


def frozen(sampler: Sampler) -> Sampler:
    """Return the sampler with its adaptive entries held fixed, which is what its linear law describes."""
    cls = type(sampler)
    if not cls.adaptive:
        return sampler

    def step(self: Sampler, theta: Tensor, state: State, *given: Any) -> tuple[Tensor, State]:
        theta, new = cls.step(self, theta, state, *given)
        return theta, {**new, **{name: state[name] for name in linear.held(self, state)}}

    return linear.with_methods(sampler, step=step)


def random_script(slots: Sequence[Any], rows: int, generator: torch.Generator) -> list[Tensor]:
    """Return noise for a `ScriptedNoise`, (rows, ...) for each slot: standard normals, or uniforms on [0, 1)."""
    return [
        (torch.randn if slot.kind == "normal" else torch.rand)(
            (rows, *slot.shape), generator=generator, dtype=torch.float64
        )
        for slot in slots
    ]


def cycles(sampler: Sampler) -> list[str]:
    """Return the state entries that run through a cycle of WATCHED steps at most, whatever the noise, and on which a
    step depends: the coordinates whose turn it is, for example. Then no single step has the law of the chain.
    """
    dim = max(3, sampler.least_dimension)
    probe = linear.Probe(sampler, safe_x(sampler, 0.1), 1.0, (1.0,) * dim)
    generator = torch.Generator().manual_seed(0)
    potential = linear.QuadraticPotential(torch.ones(dim, dtype=torch.float64))
    theta = torch.ones((2, dim), dtype=torch.float64)
    with torch.no_grad():
        state = sampler.init(theta, potential, probe.h, probe.T, linear.ScriptedNoise())
        known = {*probe.free, *linear.held(sampler, state)}
        first, past = dict(state), {name: [leaf] for name, leaf in state.items() if name not in known}
        for _ in range(WATCHED if past else 0):
            noise = linear.ScriptedNoise(random_script(probe.slots, 2, generator))
            theta, state = sampler.step(theta, dict(state), potential, probe.h, probe.T, noise)
            past = {name: [*leaves, state[name]] for name, leaves in past.items() if same(*state[name])}
        turning = {name: leaves for name, leaves in past.items() if _returns(leaves)}
        script = random_script(probe.slots, 2, generator)

        def moved(changed: State) -> Tensor:
            noise = linear.ScriptedNoise(script)
            return sampler.step(theta, {**first, **changed}, potential, probe.h, probe.T, noise)[0]

        return [name for name, leaves in turning.items() if not all(same(moved({name: x}), moved({})) for x in leaves)]


def _returns(leaves: Sequence[Tensor]) -> bool:
    """Return whether an entry changes and is again as it was first."""
    as_first = [same(leaf, leaves[0]) for leaf in leaves[1:]]
    return any(as_first) and not all(as_first)


def heat(sampler: Sampler, T: float) -> float:
    """Return T, or for an adaptive sampler a T so small that entries which adapt to the gradient do not move.

    Then the law is that of small noise.
    """
    return T * linear.SHORT**2 if sampler.adaptive else T


def safe_x(sampler: Sampler, share: float, *, otherwise: float = 1.0) -> float:
    """Return `share` of the stability limit of x = h lambda, 2 at most; of `otherwise` if there is no limit."""
    limit = _stability_limit(sampler)
    return share * (otherwise if limit is None else min(limit, 2.0))


@functools.lru_cache(maxsize=64)
def _stability_limit(sampler: Sampler) -> float | None:
    """Return the limit of a sampler, which every law asks for many times."""
    return linear.stability_limit(sampler)


def within_limit(
    sampler: Sampler, h: float, share: float, T: float, curvatures: Sequence[float], axes: Tensor | None = None
) -> float:
    """Return h, halved until a linear sampler is stable at h / share: its limit there may be below that in one
    dimension and at T = 1, by which `safe_x` chooses h. Return h itself if no short step is stable.
    """
    for halvings in range(HALVINGS):
        step = linear.derive(sampler, 0.9 * h / share / 2**halvings, T, curvatures, axes)
        if not step.linear or step.radius < 1:
            return h / 2**halvings
    return h


def varying(sampler: Sampler, task: Task, steps: int, *, share: float = 0.4) -> NDArray[np.float64]:
    """Return step sizes that differ at every step and fall from `share` of the stability limit of the task."""
    curvature = task.curvature()
    assert curvature is not None
    return safe_x(sampler, share) / curvature / (1 + 0.3 * np.arange(steps, dtype=np.float64))


def streams(rows: int, seed: int = 0) -> list[Streams]:
    """Return the streams of `rows` chains."""
    return [Streams(seed, row, ("conformance",)) for row in range(rows)]


def loop(sampler: Sampler, task: Task, path: Trajectory, rows: int, seed: int = 0) -> Loop:
    """Return the harness's own loop with `rows` chains of one run."""
    return Loop(task, sampler, path, streams(rows, seed), rows)


def finish(running: Loop) -> Loop:
    """Run a loop to its end, and return it."""
    while not running.finished:
        running.advance_block()
    return running


def in_both_modes(make: Callable[[str], Loop]) -> tuple[Loop, Loop]:
    """Return the loop that `make` returns for a mode, plain and compiled, each at its end.

    Raise `Broken` if a step does something that no step may do, or if an update of many parameters is not compiled, and
    `Skip` if other steps are not.
    """
    plain = make("plain")
    try:
        compiled = make("traced")
    except UncompiledError as error:
        if by_update(plain.problem.dim, opaque=plain.task.opaque) or error.breach:
            raise Broken(f"it was not compiled: {error.reason}") from error
        raise Skip(f"its steps cannot be compiled: {error.reason}") from error
    return finish(plain), finish(compiled)


def draws(running: Loop, run: int = 0) -> Tensor:
    """Return the kept draws (K, C, D) of a run of a loop on a Gaussian; for an ensemble, theta alone."""
    recorder = running.runs[run].observer
    assert isinstance(recorder, Recorder)
    return recorder.draws()[:: running.sampler.particles]


def weights(running: Loop) -> Tensor:
    """Return the weights (K, C) of the kept draws of a loop on a Gaussian; they sum to 1."""
    recorder = running.runs[0].observer
    assert isinstance(recorder, Recorder)
    together = torch.cat(recorder.weights)[:: running.sampler.particles]
    return together / together.sum()


def path_of(sampler: Sampler, task: GaussianTask, path: Trajectory, rows: int, seed: int = 0) -> Tensor:
    """Return all draws (K, C, D) of the loop along a trajectory; raise `Broken` if it diverges."""
    return draws(walk(sampler, task, path, rows, seed))


def walk(sampler: Sampler, task: GaussianTask, path: Trajectory, rows: int, seed: int = 0) -> Loop:
    """Return a loop that has run to the end of a trajectory; raise `Broken` if it diverges."""
    running = finish(loop(sampler, task, path, rows, seed))
    lost = running.runs[0].divergence
    if lost is not None:
        x = float(path.step_size.max()) * task.curvature()
        raise Broken(
            f"on a Gaussian in {task.dim()} dimensions it goes to infinity by step {lost.step}, h lambda = {x:.3g}"
        )
    return running


def built(task: Task, chains: int = CHAINS, order: str = "shuffled") -> Problem:
    """Return the problem of a task on which the laws for tasks are tested, on CPU, with minibatches in this order."""
    return task.build([Streams(0, chain, ("laws",), order) for chain in range(chains)], "cpu")


def in_batches(task: Task) -> Task:
    """Return the task with minibatches whose size does not divide N, if it has the setting `batch` and it is None."""
    if getattr(task, "batch", task) is not None:
        return task
    return dataclasses.replace(task, batch=task.terms() // 7 + 1)  # type: ignore[call-arg]


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """Return the SHA-256 of the bytes of the tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def same(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are equal bit for bit, NaN included."""
    return fingerprint([one]) == fingerprint([other])


def distance(one: Tensor, other: Tensor) -> float:
    """Return the largest difference relative to the largest magnitude in `other`; inf if it is not finite."""
    gap = ((one - other).abs().max() / other.abs().max().clamp(min=1e-300)).item()
    return gap if np.isfinite(gap) else float("inf")


def roundings(gap: float, dtype: torch.dtype = torch.float64, size: float = 1.0) -> float:
    """Return a difference in units of the rounding of numbers of this dtype and size."""
    return gap / (torch.finfo(dtype).eps * size)


def all_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether no tensor contains NaN or infinity."""
    return all(bool(torch.isfinite(t).all()) for t in tensors if t.is_floating_point())
