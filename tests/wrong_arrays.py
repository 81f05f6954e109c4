"""Tasks on each base whose arrays a test chooses, and ways in which arrays are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from support import make_loop

from harness.contracts.predictions import PREDICTIVE_METRICS
from harness.engine.trial import try_observer
from harness.tasks import MOMENT_METRICS, DataTask, Network, NetworkTask
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from tasks.mlp import MLP

CLASSES, WIDTH = 3, 4
ROWS = {"train": 23, "test": 11}


def right(rng=None):
    """Arrays of both parts that fit each other: x (n, WIDTH) and label (n,)."""
    rng = rng or np.random.default_rng(0)
    return {
        part: {"x": rng.normal(size=(n, WIDTH)), "label": np.arange(n) % CLASSES, "y": rng.normal(size=n)}
        for part, n in ROWS.items()
    }


class Given:
    """A task with the arrays `given`."""

    given: ClassVar = {}
    protocols: ClassVar = ()
    batch: ClassVar = 8
    prior_precision: ClassVar = 1.0

    def arrays(self, part):
        return self.given[part]


@dataclass(frozen=True, kw_only=True)
class Logits(Given, DataTask):
    metrics: ClassVar = PREDICTIVE_METRICS

    def dim(self):
        return WIDTH * CLASSES

    def logits(self, theta, rows):
        return torch.einsum("cnx,cxk->cnk", rows["x"].expand(len(theta), -1, -1), theta.view(-1, WIDTH, CLASSES))


@dataclass(frozen=True, kw_only=True)
class Line(Given, DataTask):
    metrics: ClassVar = MOMENT_METRICS

    def dim(self):
        return WIDTH

    def log_likelihood(self, theta, rows):
        return -((rows["y"] - torch.einsum("cnx,cx->cn", rows["x"].expand(len(theta), -1, -1), theta)) ** 2) / 2


@dataclass(frozen=True, kw_only=True)
class Module(Given, NetworkTask):
    def network(self):
        return Network(lambda: torch.nn.Sequential(torch.nn.Linear(WIDTH, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)))


@dataclass(frozen=True, kw_only=True)
class Layers(Given, NetworkTask):
    def network(self):
        return MLP([WIDTH, 5, CLASSES])


CLASSIFIERS = (Logits, Module, Layers)
BASES = (*CLASSIFIERS, Line)


def begin(base, arrays, **attributes):
    """Everything that a run does before its first step; return its loop."""
    task = type(base.__name__, (base,), {"given": arrays, **attributes})()
    loop = make_loop(task, SGLD(), Constant(step_size=1e-3), 4)
    try_observer(loop.problem, loop.theta, loop.trajectory, loop.cost)
    return loop
