"""Metrics and curves of fixed draws, pinned by the version of each metric and by the number of the engine.

    PYTHONPATH=tests BENCH_DATA=... python tests/metrics.py     after a version was raised, or a metric was added

It refuses a number that changed under its version: raise that first. tests/contract/test_metrics.py compares.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import rounding
import torch
from generated import Exact
from rounding import bound
from scipy.special import softmax

from harness.contracts.data import problem
from harness.contracts.randomness import Streams
from harness.contracts.registry import load, registry
from harness.contracts.schedule import Trajectory
from harness.contracts.task import Cost
from harness.results.spec import ENGINE
from harness.runs.session import metric_values
from harness.tasks import DataTask, Metric
from tasks.regression.uci.task import Yacht

WRITE = "write the file anew by PYTHONPATH=tests python tests/metrics.py."
FILE = Path(__file__).with_name("metrics.json")
DRAWS, BURN_IN, CHAINS, SCALE, SHIFT = 64, 16, 2, 0.5, 1e-9
INFOS = {offer.name: offer.info for offer in registry().offers("tasks")}


@dataclass(frozen=True, kw_only=True)
class MadeClassifier(DataTask):
    """A classifier of made-up rows, with predictions of a reference."""

    metrics: ClassVar = tuple(
        Metric(name, "max", "1", name)
        for name in (
            "test_error", "nll", "ece", "brier", "lppd", "aurc", "selective_accuracy", "agreement", "total_variation",
            "single_test_error", "single_nll",
        )
    )  # fmt: skip

    def dim(self):
        return 15

    def arrays(self, part):
        rng = np.random.default_rng(len(part))
        rows = {"x": rng.normal(size=(40, 5)), "label": rng.integers(3, size=40)}
        return rows | ({"reference": softmax(rng.normal(size=(40, 3)), axis=1)} if part == "test" else {})

    def logits(self, theta, rows):
        return torch.einsum("cnx,cxk->cnk", rows["x"].expand(len(theta), -1, -1), theta.view(-1, 5, 3))


@dataclass(frozen=True, kw_only=True)
class MadeRegression(Yacht):
    """A network on made-up rows."""

    datasets: ClassVar = ()

    def terms(self):
        return 30

    def arrays(self, part):
        rng = np.random.default_rng(len(part))
        return {name: rng.normal(size=(30, *shape)) for name, shape in {"x": (6,), "y": ()}.items()}


MADE = {
    "made classifier": MadeClassifier(),
    "made images": Exact(width=2, batch=16, train_images=70, test_images=30),
    "made regression": MadeRegression(batch=10),
}
ON_DATA = (
    "blr-a9a", "blr-heart", "energy", "flights", "landsat", "mnist-logistic", "mnist-sparse", "notmnist",
    "pdb-nes2000", "yacht",
)  # fmt: skip
SAME = {
    "airfoil": "energy", "bikesharing": "energy", "blr-australian": "blr-heart", "blr-german": "blr-heart",
    "cifar10": "made images", "cifar100": "made images", "concrete": "energy", "dln-10k": "dln-1k",
    "digits-cnn-px": "digits-cnn", "dln-100k": "dln-1k", "imagenet": "made images", "mnist-cnn": "digits-cnn",
    "power-plant": "energy", "protein": "energy", "wine-quality-red": "energy",
    **{name: "pdb-nes2000" for name in INFOS if name.startswith("pdb-") and name != "pdb-nes2000"},
}  # fmt: skip
"""Tasks whose observer is that of another one."""
KINDS = [*MADE, *(name for name in INFOS if name not in SAME)]


def task(kind):
    """The task in float64, where few rows do."""
    return (MADE[kind] if kind in MADE else load(INFOS[kind].target)()).for_laws()


def missing(kind):
    """What is missing for a kind, or None."""
    return next((f"{file.path} is {why}" for file in task(kind).datasets if (why := problem(file))), None)


def numbers(kind, shift=0.0):
    """{metric and version, or curve: numbers} of fixed draws, each off by a factor 1 +- shift."""
    torch.set_num_threads(1)
    subject = task(kind)
    keep = np.arange(DRAWS) >= BURN_IN
    cycle = np.arange(DRAWS) * 4 // DRAWS
    trajectory = Trajectory(np.full(DRAWS, 0.1), np.ones(DRAWS), keep, keep, cycle, ~keep)
    built = subject.build([Streams(0, chain, (kind,)) for chain in range(CHAINS)], "cpu")
    observer = built.observer(slice(0, CHAINS), trajectory, Cost(1.0, 0.5))
    rng = np.random.default_rng(0)
    draws = SCALE * rng.normal(size=(DRAWS - BURN_IN, CHAINS, built.dim))
    weights = rng.uniform(0.5, 1.5, size=draws.shape[:2])
    draws *= 1 + shift * rng.choice([-1, 1], size=draws.shape)
    with torch.no_grad():
        observer.observe(torch.from_numpy(draws), torch.from_numpy(weights), np.flatnonzero(keep) + 1)
    outcome = observer.outcome()
    values = {f"metric {v.name}, version {v.version}": [v.value] for v in metric_values(subject, outcome.metrics)}
    return values | {
        f"curve {name}, version {subject.version} of the task": summary(x, y) for name, (x, y) in outcome.curves.items()
    }


def summary(x, y):
    """Numbers that change with any point of a curve: x (n,), y (C, n)."""
    x, y = (np.asarray(part, dtype=np.float64).reshape(-1) for part in (x, y))
    there = np.isfinite(y)
    ramp = np.linspace(1, 2, len(y))[there]
    parts = (there, x * np.linspace(1, 2, len(x)), y[there] * ramp, abs(y[there]) * ramp, y[there] ** 2 * ramp)
    return [float(part.sum()) for part in parts]


def growth(plain, shifted):
    """By how much a relative difference of the draws grows in numbers, to three digits."""
    pairs = [(a, b) for a, b in zip(plain, shifted, strict=True) if a]
    return max((float(f"{abs(b - a) / abs(a) / SHIFT:.3g}") for a, b in pairs), default=0.0)


def check(kind, name, numbers, stored, grown):
    """Fail unless each number is the stored one within rounding."""
    what = name.partition(",")[0]
    remedy = (
        f"It is {name}, of {kind}. If {what} is meant to change, raise its version (of a curve, that of the task; or "
        f"ENGINE, if the arithmetic of the harness changed), then {WRITE}"
    )
    for a, b in zip(numbers, stored, strict=True):
        rounding.check([a], [b], bound("float64", DRAWS, grown), remedy)


def main():
    before = json.loads(FILE.read_text()) if FILE.exists() else {"engine": None, "kinds": {}}
    kinds = {}
    for kind in KINDS:
        if why := missing(kind):
            sys.exit(f"{kind} cannot be measured: {why}")
        plain, shifted = numbers(kind), numbers(kind, SHIFT)
        kinds[kind] = {}
        for name, computed in plain.items():
            stored, grown = before["kinds"].get(kind, {}).get(name, (None, None))
            if stored is not None and before["engine"] == ENGINE:
                check(kind, name, computed, stored, grown)
                kinds[kind][name] = [stored, grown]
            else:
                kinds[kind][name] = [computed, growth(computed, shifted[name])]
    lines = [
        f"{json.dumps(kind)}: {{\n" + ",\n".join(f" {json.dumps(n)}: {json.dumps(v)}" for n, v in names.items()) + "\n}"
        for kind, names in kinds.items()
    ]
    FILE.write_text(f'{{"engine": {ENGINE}, "kinds": {{\n{",".join(lines)}\n}}}}\n')


if __name__ == "__main__":
    main()
