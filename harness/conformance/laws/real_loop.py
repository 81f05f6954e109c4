"""Law 2: the harness's own loop gives the derived law; a Metropolis kernel leaves exact draws exact.

A sampler that is neither linear nor a Metropolis kernel is run until it is stationary: `stationary`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from harness.conformance.gaussian import GaussianTask
from harness.conformance.law import Broken, Law, Skip, draws, finish, heat, loop, safe_x, trajectory
from harness.conformance.laws import stationary
from harness.conformance.linear import LinearStep, Probe, along, derive, frozen, propagate
from harness.randomness import Streams

if TYPE_CHECKING:
    from harness.sampler import Sampler
    from harness.schedule import Trajectory

    Array = NDArray[np.float64]

Case = TypeVar("Case")

LEVEL = 1e-3
"""Chance that a correct sampler fails once. A repeat with another seed must fail too."""

CURVATURES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
CHAINS = 256
METROPOLIS_CHAINS = 1024
STEPS = 16
METROPOLIS_STEPS = 16
LEAPFROG_LIMIT = 4.0
"""h lambda up to which leapfrog steps are stable: what the shares of a Metropolis kernel's settings refer to."""


@dataclass(frozen=True)
class Setting:
    """x of the stiffest direction as a share of the stability limit, T, gradient variance, and whether in cycles."""

    share: float
    T: float
    variance: float = 0.0
    cyclical: bool = False

    def path(self, sampler: Sampler) -> Trajectory:
        """Constant, or falling cosine cycles of eight steps whose first three are at T = 0."""
        h = safe_x(sampler, self.share) / max(CURVATURES)
        if not self.cyclical:
            return trajectory(np.full(STEPS, h), self.T)
        place = np.arange(STEPS) % 8
        return trajectory(h / 2 * (np.cos(np.pi * place / 8) + 1), np.where(place < 3, 0.0, self.T))

    def __str__(self) -> str:
        cycles = ", in cycles with T = 0 stages" if self.cyclical else ""
        return f"T = {self.T:g}, h at {self.share:g} of the limit, gradient variance {self.variance:g}{cycles}"


OPTIMISER = "an optimiser that is not linear: there is no law to hold its loop to"
SETTINGS = (Setting(0.5, 1.0), Setting(0.1, 0.5, 1.0), Setting(0.45, 3.0, 2.0, cyclical=True))
"""In cycles not at half the limit, where a step of sgld forgets a direction: at T = 0 nothing would be left of it."""


def settings_for(sampler: Sampler) -> list[Setting]:
    """The settings in the units of this sampler; what has no noise of its own is seen under that of its gradients."""
    least = 0.0 if sampler.limit_bias() else 1.0
    return [
        replace(setting, T=heat(sampler, setting.T), variance=heat(sampler, max(setting.variance, least)))
        for setting in SETTINGS
    ]


def check(sampler: Sampler) -> None:
    """All p-values of all settings at LEVEL, by Bonferroni; what fails gets one repeat with a fresh seed."""
    sampler, settings = frozen(sampler), settings_for(sampler)
    if is_exact(sampler, settings):
        _hold(settings, lambda setting, seed: p_values(sampler, setting, seed))
        if "metric" in sampler.needs:  # which on a Gaussian is constant, and on the quartic is not
            _hold(stationary.targets(sampler)[-2:], lambda target, seed: stationary.p_values(sampler, target, seed))
    elif not sampler.limit_bias():
        raise Skip("not linear, and it declares no stationary law" if sampler.limit_bias() is None else OPTIMISER)
    else:
        _hold(stationary.targets(sampler), lambda target, seed: stationary.p_values(sampler, target, seed))


def is_exact(sampler: Sampler, settings: Sequence[Setting]) -> bool:
    """Whether its law is known exactly at all settings: it is linear, or a Metropolis kernel."""
    return all(_is_linear(sampler, setting) or _is_metropolis(sampler, setting) for setting in settings)


def _hold(settings: Sequence[Case], tested: Callable[[Case, int], dict[str, float]]) -> None:
    for setting in settings:
        first = tested(setting, 1)
        if min(first.values()) >= LEVEL / (len(settings) * len(first)):
            continue
        again = tested(setting, 2)
        name, p = min(again.items(), key=lambda item: item[1])
        if p < LEVEL / len(again):
            raise Broken(f"{name} is wrong: p = {p:.2g}, after a failure with another seed ({setting})")


def p_values(sampler: Sampler, setting: Setting, seed: int) -> dict[str, float]:
    """p-values of the real loop against the exact law, by the name of what would be wrong."""
    return _linear(sampler, setting, seed) if _is_linear(sampler, setting) else _metropolis(sampler, setting, seed)


def _is_linear(sampler: Sampler, setting: Setting) -> bool:
    return derive(sampler, float(setting.path(sampler).step_size[0]), setting.T, CURVATURES).linear


def _is_metropolis(sampler: Sampler, setting: Setting) -> bool:
    """Whether it draws uniforms and sees the full potential."""
    h = float(setting.path(sampler).step_size[0])
    asks = {slot.kind for slot in Probe(sampler, h, setting.T, CURVATURES).slots}
    return "uniform" in asks and sampler.full_gradients_per_step > 0


def _linear(sampler: Sampler, setting: Setting, seed: int) -> dict[str, float]:
    """Whitened by the exact joint law of all draws, the path is standard normal, whatever its autocorrelation."""
    from scipy.stats import norm

    path = setting.path(sampler)
    steps = along(sampler, path, CURVATURES)
    P = _start(sampler, setting)
    kept, last = run_from(sampler, setting, P, seed)
    white = innovations(kept, steps, P, setting.variance)
    P_last = propagate(sampler, path, CURVATURES, P, setting.variance)[-1]
    serial = (white[1:] * white[:-1]).sum() / np.sqrt(white[1:].size)
    mean = white.sum() / np.sqrt(white.size)
    return {
        "variance of the path": _chi_square(float(np.square(white).sum()), white.size),
        "serial correlation of the noise": float(2 * norm.sf(abs(serial))),
        "mean of the path": float(2 * norm.sf(abs(mean))),
        "variance of position and state after the last step": _chi_square(*_whitened(last, P_last)),
    }


def _start(sampler: Sampler, setting: Setting) -> Array:
    """The covariance of position and state to start from: the stationary one, or T where it is declared there is none.

    An optimiser has one by the noise of its gradients.
    """
    step = derive(sampler, float(setting.path(sampler).step_size[0]), setting.T, CURVATURES)
    if sampler.limit_bias() is None:
        return setting.T * np.eye(len(step.A))
    P = step.stationary(setting.variance)
    if P is None:
        raise Broken(f"no stationary law to start from ({setting})")
    return P


def run_from(sampler: Sampler, setting: Setting, P: Array, seed: int) -> tuple[Array, Array]:
    """The loop from (theta, state) ~ N(0, P): draws (K, C, D), and (theta, state) (C, n) at the end."""
    path, D = setting.path(sampler), len(CURVATURES)
    running = loop(sampler, GaussianTask(curvatures=CURVATURES, variance=setting.variance), path, CHAINS, seed)
    values, vectors = np.linalg.eigh(P)
    normals = Streams(seed, 0, ("conformance",)).numpy("start").standard_normal((CHAINS, len(P)))
    z = torch.from_numpy(normals * np.sqrt(values.clip(min=0)) @ vectors.T)
    probe = Probe(sampler, float(path.step_size[0]), setting.T, CURVATURES)
    running.theta, running.state = z[:, :D].clone(), probe.state(z)
    finish(running)
    return draws(running).numpy(), probe.join(running.theta, running.state).numpy()


def innovations(draws: Array, steps: list[LinearStep], P: Array, variance: float) -> Array:
    """What is new in each draw (K, C, D) given those before, scaled to N(0, I): a Kalman filter that sees theta.

    Steps without any noise, known once theta and state are, bring nothing new and are left out.
    """
    D = draws.shape[2]
    least = 1e-10 * np.trace(P[:D, :D])
    mean = np.zeros((draws.shape[1], len(P)))
    white = []
    for draw, step in zip(draws, steps, strict=True):
        mean = mean @ step.A.T
        P = step.A @ P @ step.A.T + step.injected(variance)
        if np.trace(P[:D, :D]) < least:
            continue
        surprise = draw - mean[:, :D]
        gain = np.linalg.solve(P[:D, :D], P[:D]).T
        white.append(np.linalg.solve(np.linalg.cholesky(P[:D, :D]), surprise.T).T)
        mean = mean + surprise @ gain.T
        P = P - gain @ P[:D]
    return np.stack(white)


def _whitened(z: Array, P: Array) -> tuple[float, int]:
    """Sum of squares and degrees of freedom of rows z ~ N(0, P), P perhaps singular."""
    values, vectors = np.linalg.eigh(P)
    kept = values > 1e-10 * values[-1]
    return float((np.square(z @ vectors[:, kept]) / values[kept]).sum()), len(z) * int(kept.sum())


def _chi_square(total: float, freedom: int) -> float:
    from scipy.stats import chi2

    if not np.isfinite(total):
        return 0.0
    return float(min(1.0, 2 * min(chi2.sf(total, freedom), chi2.cdf(total, freedom))))


def _metropolis(sampler: Sampler, setting: Setting, seed: int) -> dict[str, float]:
    """From exact draws, the ranks of the new positions and energies among exact draws are uniform."""
    from scipy.stats import chi2, kstest, norm

    D = len(CURVATURES)
    task = GaussianTask(curvatures=CURVATURES, spread=setting.T)
    h = setting.share * LEAPFROG_LIMIT / max(CURVATURES)
    running = loop(sampler, task, trajectory(np.full(METROPOLIS_STEPS, h), setting.T), METROPOLIS_CHAINS, seed)
    start = running.theta
    white = (draws(finish(running))[-1] * torch.tensor(CURVATURES).div(setting.T).sqrt()).numpy()
    if bool((running.theta == start).all(1).float().mean() > 0.5):
        raise Broken(f"most chains never move ({setting}): the proposal is never accepted")
    energy = np.square(white).sum(axis=1)
    return {
        "rank of the new position among exact draws": float(kstest(norm.cdf(white).ravel(), "uniform").pvalue),
        "rank of the new energy among exact draws": float(kstest(chi2.cdf(energy, D), "uniform").pvalue),
        "variance of the new position": _chi_square(float(energy.sum()), white.size),
    }


LAW = Law(
    2, "real-loop", check,
    "noise that is used twice or shared, something remembered outside the state, a minibatch or step size of another "
    "step, (Metropolis) a wrong acceptance ratio, or (not linear) the scale of the noise, or a stationary law that is "
    "biased by construction and not declared in limit_bias",
    exemptible=False,
)  # fmt: skip
