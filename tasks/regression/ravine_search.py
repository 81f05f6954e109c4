"""Whether any reading of the ravine example gives the published result: python -m tasks.regression.ravine_search.

The example's table A1 gives each sampler an "initial value" of 1e-4 or 1e-5, and no start, no decay, no scale of U. A
reading fills these in, alike for the five samplers, and everything else is as printed. The grid below is all that is
tried: 96 readings, each on the ten data sets of seeds 0 to 9, 30,000 iterations of n = 100, 10,000 dropped. A run
converges if the mean of theta_1 is within 1.5 of 20.

The published result, declared with the grid: msgld converges on at least 9 of the 10 data sets (the paper: 5 of 5),
asgld on at least 6 (4 of 5), sgld, sghmc and psgld each on at most 2 (0 of 5).

A reading that fails for msgld is out: the other four run only where msgld does as published.

All readings of a sampler advance side by side, with their own h and T, on the same minibatches. On c U at temperature
tau a sampler moves as on U at tau / c with h c, and a / c, lambda / c^2 where its parameters have a unit: so it is run.
Deterministic on one machine; minutes on one core. Prints a Markdown table of the readings under which msgld converges.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from harness.reports import load_plugin
from harness.tasks import Streams
from tasks.regression import ravine_data as data
from tasks.regression.ravine import NAME, NEAR, Ravine

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Sampler

    Array = NDArray[np.float64]

SEEDS = tuple(range(10))
STEPS, BURN_IN = 30_000, 10_000

STARTS = {"the prior": ((0.0, 0.0), 1.0), "N(0, 100 I)": ((0.0, 0.0), 10.0), "N((20, 10), I)": (data.TRUE, 1.0)}
SCALES = {"sum over N": 1.0, "a tenth of it": 0.1, "sum over the batch": 0.01, "mean": 1e-4}
"""c, what U is multiplied by, prior included."""

DECAYS: dict[str, Callable[[Array], Array]] = {
    "constant": np.ones_like,
    "halved every 4,000": lambda k: 0.5 ** ((k - 1) // 4000),
    "1/(1 + k/1000)": lambda k: 1 / (1 + k / 1000),
    "k^-0.55": lambda k: k**-0.55,
}
TEMPERATURES = {"tau = 1": 1.0, "tau = 0.01": 0.01}

WANTED = {"msgld": (9, 10), "asgld": (6, 10), "sgld": (0, 2), "sghmc": (0, 2), "psgld": (0, 2)}
"""Least and most data sets of 10 on which a sampler converges in the published result."""


class Reading(NamedTuple):
    """One way to fill in what the paper leaves open, by the names above."""

    start: str
    scale: str
    decay: str
    temperature: str


READINGS = [Reading(*names) for names in itertools.product(STARTS, SCALES, DECAYS, TEMPERATURES)]


def settings(method: str, c: float) -> tuple[float, dict[str, Any]]:
    """The step size on U, and the parameters, of a sampler of table A1 that is meant for c U.

    The V of psgld is of the mean gradient: epsilon c g / (lambda + c |g| / N) is N epsilon g / (N lambda / c + |g|).
    """
    if method == "sghmc":
        return 1e-5 * c, {"friction": 0.1}
    if method == "psgld":
        return 1e-4 * data.N, {"decay": 0.9, "lam": 1e-6 * data.N / c}
    if method == "asgld":
        return 1e-4 * c, {"a": 1000 / c, "beta1": 0.9, "beta2": 0.999, "lam": 1e-5 / c**2}
    return 1e-4 * c, {"a": 10.0, "beta1": 0.99} if method == "msgld" else {}


TASK = Ravine()


class Batch:
    """The potential of one step for chains that lie reading by reading, each reading over all data sets."""

    terms = data.N

    def __init__(self, rows: Any, scale: int) -> None:
        self.rows, self.scale = rows, scale

    def grad(self, x: Tensor) -> Tensor:
        """grad U on the minibatch, (C, 2)."""
        return x - self.scale * TASK.grad(x, self.rows)


class Normals:
    """Noise of all chains from one generator."""

    def __init__(self, seed: int) -> None:
        import torch

        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, like: Tensor) -> Tensor:
        """Standard normals in the shape of `like`."""
        import torch

        return torch.randn(like.shape, generator=self.generator, dtype=like.dtype)


def means(method: str, readings: Sequence[Reading], steps: int = STEPS, burn_in: int = BURN_IN) -> Array:
    """The mean of theta after burn-in for each reading and data set, (R, S, 2); NaN where a chain is lost.

    Readings of one scale share their sampler's parameters, so each scale is a run of its own.
    """
    averages = np.empty((len(readings), len(SEEDS), 2))
    for scale, c in SCALES.items():
        chosen = [i for i, reading in enumerate(readings) if reading.scale == scale]
        if chosen:
            averages[chosen] = _means(method, c, [readings[i] for i in chosen], steps, burn_in)
    return averages


def _means(method: str, c: float, readings: Sequence[Reading], steps: int, burn_in: int) -> Array:
    import torch

    torch.set_num_threads(1)
    step_size, parameters = settings(method, c)
    sampler: Sampler = load_plugin("samplers", method)(**parameters)
    problem = TASK.build([Streams(seed, 0, (NAME,)) for seed in SEEDS], "cpu")
    sets, noise = len(SEEDS), Normals(0)

    k = np.arange(1, steps + 1, dtype=np.float64)
    h = torch.from_numpy(step_size * np.stack([DECAYS[r.decay](k) for r in readings], axis=1))
    h = h.repeat_interleave(sets, dim=1)[:, :, None]
    T = torch.tensor([TEMPERATURES[r.temperature] / c for r in readings], dtype=torch.float64)
    T = T.repeat_interleave(sets)[:, None]
    centre = torch.tensor([STARTS[r.start][0] for r in readings], dtype=torch.float64).repeat_interleave(sets, dim=0)
    spread = torch.tensor([STARTS[r.start][1] for r in readings], dtype=torch.float64).repeat_interleave(sets)
    theta = centre + spread[:, None] * problem.initial().repeat(len(readings), 1)

    total = torch.zeros_like(theta)
    state: dict[str, Tensor] = {}
    with torch.no_grad():
        for start in range(0, steps, 100):
            indices = problem.draw_batches(min(100, steps - start))["index"]
            for offset, index in enumerate(indices):
                at = start + offset
                rows = problem.rows(slice(sets), {"index": index})
                repeated = {name: rows[name].repeat(len(readings), 1) for name in ("x", "rest", "present")}
                potential: Any = Batch(repeated, problem.batches)
                if at == 0:
                    state = sampler.init(theta, potential, h[0], T, noise)  # type: ignore[arg-type]
                theta, state = sampler.step(theta, state, potential, h[at], T, noise)  # type: ignore[arg-type]
                if at >= burn_in:
                    total += theta
    return np.asarray(total.reshape(len(readings), sets, 2) / (steps - burn_in))


def counts(method: str, readings: Sequence[Reading]) -> NDArray[np.int64]:
    """On how many data sets it converges under each reading."""
    return np.asarray((np.abs(means(method, readings)[:, :, 0] - data.TRUE[0]) < NEAR).sum(axis=1))


def main() -> None:
    """Run the grid and print what converged, and whether any reading gives the published result."""
    least, most = WANTED["msgld"]
    first = counts("msgld", READINGS)
    candidates = [i for i, count in enumerate(first) if least <= count <= most]
    others = {m: counts(m, [READINGS[i] for i in candidates]) for m in list(WANTED)[1:]} if candidates else {}
    lines = [f"| start | U | step | noise | {' | '.join(WANTED)} | published result |", "|---" * 10 + "|"]
    for i in np.flatnonzero(first).tolist():
        converged = {"msgld": int(first[i])}
        if i in candidates:
            converged |= {method: int(count[candidates.index(i)]) for method, count in others.items()}
        fits = len(converged) == len(WANTED) and all(low <= converged[m] <= high for m, (low, high) in WANTED.items())
        cells = [str(converged.get(method, "")) for method in WANTED]
        lines.append(f"| {' | '.join((*READINGS[i], *cells))} | {'yes' if fits else 'no'} |")
    print("\n".join(lines))  # noqa: T201 - this command's output


if __name__ == "__main__":
    main()
