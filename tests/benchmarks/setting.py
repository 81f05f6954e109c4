"""What is measured: the same target, step sizes and checks for every library. Imports no torch and no jax."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass

import numpy as np

BATCH = 64
FRICTION = 0.1
LEAPFROG = 10
STEP_SIZES = {"sgld": 0.01, "msgld": 0.01, "sghmc": 1e-4, "hmc": 0.01}
"""h on mixture25. sghmc's is small because the peers move by the old velocity, which is accurate for h lambda << alpha
only; hmc's leapfrog step is sqrt(h)."""

ON_GERMAN = {"sgld": 0.2, "sghmc": 0.01}
"""h on blr-german times the largest curvature of U: a tenth of sgld's limit; for sghmc below the friction, as above."""

WITHIN = {"sgld": 1.2, "msgld": 1.162, "sghmc": 1.0, "hmc": 1.0}
"""Variance within a mode over 0.03, in the stationary law at that h: 1 / (1 - h lambda / 2) for sgld."""

TOLERANCE = 0.15
MEAN_TOLERANCE = 0.5
"""blr-german: largest error of a mean, chains pooled, in sds of the posterior."""

CHECKED = 6_000
"""Chain-steps at least that a check looks at."""


@dataclass(frozen=True)
class Case:
    """One thing to time. `form` is how the library is used, "" where there is one way; `task` may be blr-german."""

    library: str
    method: str
    chains: int
    form: str = ""
    task: str = "mixture25"
    dtype: str = "float64"

    @property
    def name(self) -> str:
        extra = [self.form] if self.form else []
        extra += [self.dtype] if self.dtype != "float64" else []
        return f"{self.library} ({', '.join(extra)})" if extra else self.library

    @property
    def extra(self) -> bool:
        """Whether it is a row beside the main ones."""
        return self.dtype != "float64" or self.form.endswith("observed")

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "name": self.name}


def pin() -> None:
    """One core and one thread for this process and all its libraries, where the system can."""
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def mixture() -> tuple[np.ndarray, float]:
    from tasks.synthetic.mixture25 import Mixture25

    task = Mixture25()
    return task.means, task.variance


def german() -> tuple[np.ndarray, float]:
    """The signed design (1000, 25) of blr-german, and the largest curvature of U."""
    from tasks.regression.blr import German

    task = German(batch=BATCH)
    return task.design(), task.curvature()


def step_size(case: Case) -> float:
    return ON_GERMAN[case.method] / german()[1] if case.task == "blr-german" else STEP_SIZES[case.method]


def start(case: Case) -> np.ndarray:
    """Starting points (C, D) for a peer: within the grid of modes, or draws from the prior."""
    generator = np.random.default_rng(case.chains)
    if case.task == "blr-german":
        return generator.standard_normal((case.chains, german()[0].shape[1])).astype(case.dtype)
    return generator.uniform(-5, 5, (case.chains, 2)).astype(case.dtype)


def check(case: Case, draws: np.ndarray) -> dict[str, object]:
    """Whether draws (B, C, D) are from the law that they should be from: {"what", "value", "wanted", "right"}."""
    if case.task == "blr-german":
        from tasks.regression.blr import German

        truth = German().truth()
        error = float((np.abs(draws.mean(axis=(0, 1)) - truth.mean) / truth.sd).max())
        return {"what": "mean_error", "value": error, "wanted": 0.0, "right": error < MEAN_TOLERANCE}
    means, variance = mixture()
    flat = draws.reshape(-1, 2)[:: max(1, draws.size // 400_000)]
    squared = ((flat[:, None] - means) ** 2).sum(-1).min(-1)
    ratio, wanted = float(squared.mean() / 2 / variance), WITHIN[case.method]
    right = abs(math.log(ratio / wanted)) < TOLERANCE
    return {"what": "within_mode_variance", "value": ratio, "wanted": wanted, "right": right}
