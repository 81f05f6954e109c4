"""The experiments of law 2 for samplers whose path has an exactly known law: linear ones and Metropolis kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness import Sampler, Trajectory, UsageError, linear
from harness.engine import Loop
from harness.tasks import Streams
from plugins.checking.gaussian import GaussianTask, axes_of
from plugins.checking.law import Array, Broken, cycles, draws, finish, heat, safe_x, trajectory, within_limit
from plugins.checking.samplers.coordinates import independent

CURVATURES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
STEPS = 16
LEAPFROG_LIMIT = 4.0
"""The h lambda up to which leapfrog steps are stable. For a Metropolis kernel, `Setting.share` refers to it."""


PValues: TypeAlias = dict[str, float]
"""p-values by the name of the property that would be wrong."""


@dataclass(frozen=True)
class Setting:
    """x of the stiffest direction as a share of the stability limit, T, gradient variance, and whether h is cyclic."""

    share: float
    T: float
    variance: float = 0.0
    cyclical: bool = False
    steps: int = STEPS
    chains: int = 256
    curvatures: tuple[float, ...] = CURVATURES
    dense: bool = False
    cold: bool = True

    @property
    def axes(self) -> Tensor | None:
        """The axes of the Hessian, or None if they are those of the coordinates."""
        return axes_of(len(self.curvatures)) if self.dense else None

    def path(self, sampler: Sampler) -> Trajectory:
        """Return a constant path, or falling cosine cycles of eight steps, the first three at T = 0 if `cold`."""
        h = safe_x(sampler, self.share) / max(self.curvatures)
        h = within_limit(sampler, h, self.share, self.T, self.curvatures, self.axes)
        if not self.cyclical:
            return trajectory(np.full(self.steps, h), self.T)
        position = np.arange(self.steps) % 8
        return trajectory(h / 2 * (np.cos(np.pi * position / 8) + 1), np.where(self.cold & (position < 3), 0.0, self.T))

    def __str__(self) -> str:
        cycles = f", in cycles{' with T = 0 stages' * self.cold}" if self.cyclical else ""
        dense = ", a dense precision matrix" if self.dense else ""
        return f"T = {self.T:g}, h at {self.share:g} of the limit, gradient variance {self.variance:g}{cycles}{dense}"


SETTINGS = (
    Setting(0.5, 1.0),
    Setting(0.1, 0.5, 1.0),
    Setting(0.45, 3.0, 2.0, cyclical=True),
    Setting(0.3, 0.01, 1.0, steps=400, chains=16),
    Setting(0.3, 1.0, 1.0, chains=600, curvatures=tuple(np.geomspace(1.0, 100.0, 10).tolist()), dense=True),
)
"""The cyclical one is not at half the limit, where a step of sgld forgets a direction: after steps at T = 0 nothing
would be left of it. One path is long, and one has many chains and a dense precision matrix."""


SMALL = (Setting(0.5, 1.0, curvatures=(1.0,)), Setting(0.3, 3.0, 1.0, curvatures=(1.0, 4.0), dense=True))
"""One and two dimensions, for samplers whose coordinates depend on each other."""


def experiments(sampler: Sampler) -> list[Experiment]:
    """Return one experiment for each setting, in the units of this sampler; none if a law is not known exactly.

    A sampler without noise of its own is tested with gradient noise.
    """
    least = 0.0 if sampler.limit_bias() else 1.0
    family: list[Experiment] = []
    cold = goes_cold(sampler)
    if cycles(sampler):
        return []
    for setting in SETTINGS if independent(sampler) else (*SETTINGS, *SMALL):
        variance = heat(sampler, max(setting.variance, least))
        scaled = replace(setting, T=heat(sampler, setting.T), variance=variance, cold=cold)
        first = float(scaled.path(sampler).step_size[0])
        if linear.derive(sampler, first, scaled.T, scaled.curvatures, scaled.axes).linear:
            family.append(LinearPath(sampler, scaled))
        elif is_metropolis(sampler, first, scaled.T):
            family.append(RankTest(sampler, scaled))
        else:
            return []
    return family


def goes_cold(sampler: Sampler) -> bool:
    """Return whether a sampler takes steps at T = 0."""
    try:
        sampler.check_steps([0.1], [0.0])
    except UsageError:
        return False
    return True


def is_metropolis(sampler: Sampler, h: float, T: float) -> bool:
    """Return whether a sampler draws uniforms and uses the full potential."""
    asks = {slot.kind for slot in linear.Probe(sampler, h, T, CURVATURES).slots}
    return "uniform" in asks and sampler.full_gradients_per_step > 0


@dataclass(frozen=True)
class Innovation:
    """The new information in a draw given those before it: its deviation from the forecast is N(0, root root').

    `A` makes the forecast, and `gain` (n, D) corrects it by the deviation.
    """

    A: Array
    gain: NDArray[Any]
    root: NDArray[Any] | None


class LinearPath:
    """A linear sampler: whitened by the exact joint law of all draws, its path is standard normal.

    Chains start from (theta, state) ~ N(0, start).
    """

    def __init__(self, sampler: Sampler, setting: Setting) -> None:
        self.sampler = sampler
        self.setting = setting
        self.chains = setting.chains
        self.dim = len(setting.curvatures)
        self.path = setting.path(sampler)
        self.h = float(self.path.step_size[0])

    def __str__(self) -> str:
        return str(self.setting)

    @cached_property
    def start(self) -> Array:
        """The stationary covariance, or T times the identity if the sampler declares no stationary law.

        For an optimiser it is that of its gradient noise. Raise `Broken` if there is none.
        """
        step = linear.derive(self.sampler, self.h, self.setting.T, self.setting.curvatures, self.setting.axes)
        if self.sampler.limit_bias() is None:
            return self.setting.T * np.eye(len(step.A))
        P = step.stationary(self.setting.variance)
        if P is None:
            raise Broken(f"no stationary law to start from ({self.setting})")
        return P

    @cached_property
    def end(self) -> Array:
        """The covariance (n, n) of (theta, state) after the last step."""
        return linear.propagate(
            self.sampler, self.path, self.setting.curvatures, self.start, self.setting.variance, self.setting.axes
        )[-1]

    @cached_property
    def filter(self) -> list[Innovation]:
        """The innovation of each draw."""
        steps = linear.along(self.sampler, self.path, self.setting.curvatures, self.setting.axes)
        return innovations(steps, self.start, self.setting.variance, self.dim)

    def p_values(self, streams: Sequence[Streams]) -> list[PValues | Broken]:
        """Return p-values of the whitened path's variance, correlation and mean, and of the last state's variance."""
        task, n = (
            GaussianTask(curvatures=self.setting.curvatures, variance=self.setting.variance, dense=self.setting.dense),
            len(self.start),
        )
        running = Loop(task, self.sampler, self.path, streams, self.chains)
        first = streams[:: self.chains]
        normals = np.concatenate([s.numpy("start").standard_normal((self.chains, n)) for s in first])
        values, vectors = np.linalg.eigh(self.start)
        z = torch.from_numpy(normals * np.sqrt(values.clip(min=0)) @ vectors.T)
        probe = linear.Probe(self.sampler, self.h, self.setting.T, self.setting.curvatures, self.setting.axes)
        running.stage.theta, running.stage.state = z[:, : self.dim].clone(), probe.state(z)
        finish(running)
        last = probe.join(running.theta, running.state).numpy()
        return [self._judged(draws(running, i).numpy(), last[run.rows]) for i, run in enumerate(running.runs)]

    def _judged(self, kept: Array, last: Array) -> PValues:
        from scipy.stats import norm

        white = whitened(kept, self.filter)
        serial = (white[1:] * white[:-1]).sum() / np.sqrt(white[1:].size)
        mean = white.sum() / np.sqrt(white.size)
        return {
            "variance of the path": _chi_square(float(np.square(white).sum()), white.size),
            "serial correlation of the noise": float(2 * norm.sf(abs(serial))),
            "mean of the path": float(2 * norm.sf(abs(mean))),
            "variance of position and state after the last step": _chi_square(*_whitened(last, self.end)),
        }


def innovations(steps: list[linear.LinearStep], P: Array, variance: float, D: int) -> list[Innovation]:
    """Return the innovations of a Kalman filter that observes theta, from z ~ N(0, P).

    Steps without any noise, which are known once theta and state are, bring no information and have no root.
    """
    least = 1e-10 * np.trace(P[:D, :D])
    per_step = []
    for step in steps:
        P = step.A @ P @ step.A.T + step.injected(variance)
        if np.trace(P[:D, :D]) < least:
            per_step.append(Innovation(step.A, np.zeros((len(P), D)), None))
            continue
        gain = np.linalg.solve(P[:D, :D], P[:D]).T
        per_step.append(Innovation(step.A, gain, np.linalg.cholesky(P[:D, :D])))
        left = np.eye(len(P)) - gain @ np.eye(D, len(P))
        P = left @ P @ left.T  # P - gain P[:D], which rounding could make indefinite
    return per_step


def whitened(path: Array, steps: list[Innovation]) -> Array:
    """Return the innovations of a path (K, C, D), scaled to N(0, I); draws without an innovation are left out."""
    mean = np.zeros((path.shape[1], len(steps[0].A)))
    white = []
    for draw, step in zip(path, steps, strict=True):
        mean = mean @ step.A.T
        if step.root is None:
            continue
        surprise = draw - mean[:, : path.shape[2]]
        white.append(np.linalg.solve(step.root, surprise.T).T)
        mean = mean + surprise @ step.gain.T
    return np.stack(white)


class RankTest:
    """A Metropolis kernel: started at exact draws, new positions and energies have uniform ranks among exact draws."""

    chains = 1024

    def __init__(self, sampler: Sampler, setting: Setting) -> None:
        self.sampler = sampler
        self.setting = setting
        h = setting.share * LEAPFROG_LIMIT / max(setting.curvatures)
        self.path = trajectory(np.full(STEPS, h), setting.T)

    def __str__(self) -> str:
        return str(self.setting)

    def p_values(self, streams: Sequence[Streams]) -> list[PValues | Broken]:
        """Return p-values of the ranks of coordinates and energies, and of the variance of a coordinate."""
        task = GaussianTask(curvatures=self.setting.curvatures, spread=self.setting.T, dense=self.setting.dense)
        running = Loop(task, self.sampler, self.path, streams, self.chains)
        start = running.theta
        still = (finish(running).theta == start).all(1).double()
        return [
            self._judged(draws(running, i)[-1].numpy(), float(still[run.rows].mean()))
            for i, run in enumerate(running.runs)
        ]

    def _judged(self, last: Array, still: float) -> PValues | Broken:
        from scipy.stats import chi2, kstest, norm

        if still > 0.5:
            return Broken(f"most chains never move ({self.setting}): the proposal is never accepted")
        axes = self.setting.axes
        white = (last if axes is None else last @ axes.numpy()) * np.sqrt(
            np.array(self.setting.curvatures) / self.setting.T
        )
        energy = np.square(white).sum(axis=1)
        return {
            "rank of the new position among exact draws": float(kstest(norm.cdf(white).ravel(), "uniform").pvalue),
            "rank of the new energy among exact draws": float(
                kstest(chi2.cdf(energy, white.shape[1]), "uniform").pvalue
            ),
            "variance of the new position": _chi_square(float(energy.sum()), white.size),
        }


Experiment: TypeAlias = LinearPath | RankTest
"""A sampler at one setting; what needs no random numbers is computed once. One repeat has `chains` chains, and
`p_values` returns the result of each repeat: so many streams in turn make one, independent of the others."""


def _whitened(z: Array, P: Array) -> tuple[float, int]:
    """Return the sum of squares and the degrees of freedom of rows z ~ N(0, P), where P may be singular."""
    values, vectors = np.linalg.eigh(P)
    kept = values > 1e-10 * values[-1]
    return float((np.square(z @ vectors[:, kept]) / values[kept]).sum()), len(z) * int(kept.sum())


def _chi_square(total: float, freedom: int) -> float:
    from scipy.stats import chi2

    if not np.isfinite(total):
        return 0.0
    return float(min(1.0, 2 * min(chi2.sf(total, freedom), chi2.cdf(total, freedom))))
