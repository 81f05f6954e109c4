"""Runs of a loop on regressions, and what they say: temperature, prior precision and size of the gradient.

If a loop samples exp(-(U(theta) + p |theta|^2 / 2) / T), the stationary mean and variance of coordinate j are

    m_j = a_j b_j / (a_j + p),    v_j = T / (a_j + p)

so p = a_j (b_j / m_j - 1) and T = v_j (a_j + p), each measured by all D coordinates.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from harness import UsageError
from harness.contracts import plugin_code

if TYPE_CHECKING:
    from torch import Tensor

    from plugins.temperature.regression import Regression

ARGUMENTS = ["model", "data", "lr"]
TERMS, BATCH = 256, 64
FEWER = 2
"""Rows N of the first run, which are all in each step, and rows n of a minibatch; lr and T are divided by FEWER."""
FACTOR = 4
"""By how much a run has more rows than the first."""
FIRST = 1e-4
TIME = (15, 50)
"""Steps in which the loop is to do all but 1/e of its way to where it rests; the learning rate is chosen so."""
OVERDAMPED = 10
"""Least steps for that, in units of 1/(1 - m): with a momentum m and larger steps, the loop swings."""
PILOT = 400
TRIES = 60
LENGTH = 160
"""Draws of a run, in units of that time; so each coordinate has some 80 independent draws."""
BURN_IN = 30
"""Steps before the first draw, in the same unit; doubled until the run is stationary, at most DOUBLED times."""
DOUBLED = 4
DRIFT, WANDERING = 0.25, 0.6
"""Largest difference of the means of the halves of a run, in standard deviations: towards the solution, and at all."""
FIRST_STEPS = 64
"""First steps on other minibatches, whose mean is the gradient."""
SILENT = 1e-10
"""A temperature below it is none: the loop adds no noise."""
SEED = 1


class Estimate(NamedTuple):
    """A number with its standard error."""

    value: float
    error: float


@dataclass(frozen=True)
class Run:
    """What a run with N rows, n in a minibatch, a learning rate and, if the loop has one, a temperature says.

    temperature  T, the mean over coordinates
    prior        p, the precision of a normal prior about 0, in the units of U
    slope        of log T_j against log a_j: 0 if the loop samples exp(-U/T), about 1 if its steps ignore the curvature
    shared       variance of the sum of the standardised coordinates over D: 1 if they are independent, D if they
                 have one noise
    """

    terms: int
    batch: int
    lr: float
    asked: float | None
    temperature: Estimate
    prior: Estimate
    slope: Estimate
    shared: float
    mean: Tensor


@dataclass(frozen=True)
class Pilot:
    """How a loop moves towards the solution, all rows in each step.

    lr        the learning rate that was chosen
    time      steps in which it does all but 1/e of its way
    momentum  speed after some steps over that of the first: 1/(1 - m) for a momentum m
    gradient  first step over lr grad U
    of_more   the same with FACTOR times the rows
    of_batch  the same with minibatches of BATCH rows
    """

    lr: float
    time: int
    momentum: float
    gradient: Estimate
    of_more: Estimate
    of_batch: Estimate


Loop = Callable[..., Iterator[Any]]


def runs_of(loop: Loop, what: str, length: int = LENGTH) -> tuple[Pilot, list[Run]]:
    """Return the pilot of a loop, a first run, and those with other N, lr and n and, if it has one, T, in this order.

    All rows are in each step, except where n is another. If the loop adds no noise, all runs have minibatches.
    Raises `UsageError` if the loop does not fit, `PluginError` if it fails.
    """
    from plugins.temperature.regression import regression

    asked = 1.0 if "temperature" in _parameters(loop, what) else None
    small, large = regression(TERMS), regression(FACTOR * TERMS)
    with plugin_code(what):
        pilot = _pilot(loop, what, small, large, asked)

        def run(data: Regression, batch: int, slower: int = 1, colder: int = 1, start: Tensor | None = None) -> Run:
            lr, T = pilot.lr / slower, asked and asked / colder
            return _run(loop, what, data, batch, lr, T, slower * pilot.time, length, start)

        first = run(small, TERMS)
        silent = first.temperature.value < SILENT
        if silent:
            first = run(small, BATCH, start=first.mean)
        batch, more, start = (BATCH, BATCH, first.mean) if silent else (TERMS, FACTOR * TERMS, first.mean)
        rest = [run(large, more, start=start), run(small, batch, slower=FEWER, start=start)]
        rest.append(run(small, BATCH // FEWER if silent else BATCH, start=start))
        rest += [run(small, batch, colder=FEWER, start=start)] if asked and not silent else []
    return pilot, [first, *rest]


def _parameters(loop: Loop, what: str) -> list[str]:
    names = list(inspect.signature(loop).parameters)
    if (
        names[:3] != ["model", "data", "lr"]
        or set(names[3:]) - {"temperature"}
        or not inspect.isgeneratorfunction(loop)
    ):
        raise UsageError(
            f"{what} is not a generator `def {loop.__name__}(model, data, lr)`, with a fourth argument `temperature` "
            "if it has one, that yields after each step (docs/temperature.md)"
        )
    return names


def _steps(
    loop: Loop,
    what: str,
    data: Regression,
    batch: int,
    lr: float,
    asked: float | None,
    start: Tensor | None = None,
    seed: int = SEED,
) -> Iterator[Tensor]:
    """Yield theta (D,) after each step, without end."""
    import torch

    from plugins.temperature.regression import model

    torch.manual_seed(seed)
    linear = model()
    if start is not None:
        linear.weight.data.copy_(start)
    further = () if asked is None else (asked,)
    for _ in loop(linear, data.minibatches(batch, seed), lr, *further):
        yield linear.weight.detach()[0].clone()
    raise UsageError(f"{what} ended; it has to go on (`while True`) as long as it is asked")


def _pilot(loop: Loop, what: str, data: Regression, more: Regression, asked: float | None) -> Pilot:
    """Find a learning rate by which the loop does all but 1/e of its way within `TIME` steps.

    With a momentum it is smaller, so that the loop does not swing.
    """
    lr, (least, most) = FIRST, TIME
    for _ in range(TRIES):
        way = _way(loop, what, data, lr, asked, 8 * most)
        fifth = len(way) // 5
        rest, before = sum(way[-fifth:]) / fifth, sum(way[-2 * fifth : -fifth]) / fifth
        time = next((k for k, done in enumerate(way) if done > (1 - math.exp(-1)) * rest), 0)
        diverged, moving = not math.isfinite(way[-1]), rest - before >= 0.05 * rest
        if diverged or max(way) > 3 * max(rest, 1e-9) or (not moving and time < least):
            lr /= 3 if diverged or time < least / 3 else 1.5
        elif moving or time > most:
            lr *= 10 if rest < 1e-3 else 2 if moving else 1.3
        else:
            momentum = _momentum(way, time, rest, _first_step(loop, what, data, data.terms, lr, asked).value, lr, data)
            if time >= OVERDAMPED * momentum or momentum < 1.5:
                break
            least, most = math.ceil(OVERDAMPED * momentum), math.ceil(3 * OVERDAMPED * momentum)
    else:
        raise UsageError(
            f"{what} comes to no rest at any learning rate that was tried; it has to fit model(x) to y, by steps "
            "proportional to lr"
        )
    gradients = [
        _first_step(loop, what, of, batch, lr, asked)
        for of, batch in ((data, data.terms), (more, more.terms), (data, BATCH))
    ]
    return Pilot(lr, time, momentum, *gradients)


def _way(loop: Loop, what: str, data: Regression, lr: float, asked: float | None, steps: int) -> list[float]:
    """Return the mean share of the way from 0 to the solution after each step, up to the first infinite one."""
    way = [0.0]
    for theta in _steps(loop, what, data, data.terms, lr, asked):
        way.append((theta / data.solution).mean().item())
        if len(way) > steps or not abs(way[-1]) < 1e9:
            return way
    return way


def _momentum(way: Sequence[float], time: int, rest: float, gradient: float, lr: float, data: Regression) -> float:
    """Return the speed half-way to `time` over that of plain steps lr grad U."""
    half = time // 2
    speed = math.log((rest - way[half]) / (rest - way[time])) / (time - half)
    return speed / (lr * gradient * data.curvatures.mean().item() / rest)


def _first_step(loop: Loop, what: str, data: Regression, batch: int, lr: float, asked: float | None) -> Estimate:
    """Return the first step from 0 over lr grad U, the mean over minibatches and coordinates."""
    import torch

    orders = range(1 if batch == data.terms else FIRST_STEPS)
    firsts = [next(_steps(loop, what, data, batch, lr, asked, seed=SEED + order)) for order in orders]
    return _estimate(torch.stack(firsts).mean(0) / (lr * data.curvatures * data.solution))


def _run(
    loop: Loop, what: str, data: Regression, batch: int, lr: float, asked: float | None, time: int, length: int,
    start: Tensor | None,
) -> Run:  # fmt: skip
    import torch

    burn_in, draws, path = BURN_IN * time, length * time, _steps(loop, what, data, batch, lr, asked, start)
    for _ in range(DOUBLED + 1):
        for _ in range(burn_in):
            next(path)
        kept = torch.stack([next(path) for _ in range(draws)])
        if not kept.isfinite().all():
            raise UsageError(f"{what} diverges with N = {data.terms}, minibatches of {batch} rows and lr = {lr:.3g}")
        sd = kept.std(0).clamp(min=1e-300)
        drift = (kept[draws // 2 :].mean(0) - kept[: draws // 2].mean(0)) * data.solution.sign() / sd
        rests = drift.mean().abs() < DRIFT and drift.abs().mean() < WANDERING
        if rests or sd.max() ** 2 * data.terms < SILENT:
            return _said(kept, data, batch, lr, asked, length)
        burn_in *= 2
    raise UsageError(
        f"{what} has no stationary distribution after {burn_in} steps with lr = {lr:.3g}: the halves of a run differ. "
        "A learning rate that decays, or noise that does, has to be constant here"
    )


def _said(draws: Tensor, data: Regression, batch: int, lr: float, asked: float | None, length: int) -> Run:
    """Return what draws (K, D) say; that their mean is not the stationary one takes 2 time / K of the variance."""
    mean, a = draws.mean(0), data.curvatures
    variance = draws.var(0) / (1 - 2 / length * a.mean() / a)
    prior = _estimate(a * (data.solution / mean - 1))
    temperatures = variance * (a + max(prior.value, 0.0))
    z = (draws - mean) / variance.sqrt().clamp(min=1e-300)
    slope, shared = _slope(a.log(), temperatures.clamp(min=1e-300).log()), z.sum(1).var().item() / z.shape[1]
    return Run(data.terms, batch, lr, asked, _estimate(temperatures), prior, slope, shared, mean)


def _estimate(values: Tensor) -> Estimate:
    return Estimate(values.mean().item(), (values.std() / math.sqrt(len(values))).item())


def _slope(x: Tensor, y: Tensor) -> Estimate:
    """Return the slope of a least-squares line."""
    x = x - x.mean()
    slope = (x @ y / (x @ x)).item()
    residuals = y - y.mean() - slope * x
    return Estimate(slope, ((residuals @ residuals) / (len(x) - 2) / (x @ x)).sqrt().item())
