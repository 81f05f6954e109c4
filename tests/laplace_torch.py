"""The Laplace approximation of small networks by laplace-torch, for tests that compare with it."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from harness.tasks import Network, NetworkTask, Protocol, Streams
from tasks.gauss_newton import PROVIDED, GaussNewtonProblem
from tasks.mlp import MLP

ROWS, CLASSES, PRIOR = 24, 3, 0.7


@dataclass(frozen=True, kw_only=True)
class Small(NetworkTask):
    """Classes of random rows by a small network in float64, all rows at once."""

    dtype: ClassVar[str] = "float64"
    provides: ClassVar = PROVIDED
    prior_precision: ClassVar = PRIOR
    protocols: ClassVar = (Protocol("p", "p", {"quick": 10}),)
    features: ClassVar = (4,)

    def arrays(self, part):
        rng = np.random.default_rng(0)
        label = np.arange(ROWS) % CLASSES
        return {"x": rng.standard_normal((ROWS, *self.features)), "label": label}

    def network(self):
        return MLP([4, 5, CLASSES])


@dataclass(frozen=True, kw_only=True)
class Images(Small):
    """The same by a network with convolutions, one of them with a stride and padding."""

    features: ClassVar = (2, 5, 5)

    def network(self):
        from torch import nn

        return Network(
            lambda: nn.Sequential(
                nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(3, 4, 2, stride=2, bias=False),
                nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(16, CLASSES),
            )
        )  # fmt: skip

    def build(self, streams, device):
        return GaussNewtonProblem(self, streams, device)


def module_of(problem):
    return getattr(problem.network, "module_network", problem.network)


def built(task):
    problem = task().build([Streams(0, 0)], "cpu")
    return problem, problem.initial()


def dense(blocks, dim):
    """The matrix (D, D) that factors of one chain stand for."""
    matrix = torch.zeros((dim, dim), dtype=torch.float64)
    for start, parts in blocks.items():
        block = parts[0][0] if len(parts) == 1 else torch.kron(parts[0][0], parts[1][0])
        matrix[start : start + len(block), start : start + len(block)] = block
    return matrix


def of_laplace_torch(problem, theta, subset, structure):
    """The approximation of laplace-torch at the weights theta, with the prior of the task."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        laplace = pytest.importorskip("laplace", reason="laplace-torch is not installed", exc_type=ImportError)
        from torch.utils.data import DataLoader, TensorDataset

        network = module_of(problem)
        module = network.make().double().eval()
        with torch.no_grad():
            for name, value in network.weights(theta[0]).items():
                module.get_parameter(name).copy_(value)
        rows = TensorDataset(problem.arrays["x"], problem.labels["train"])
        fit = laplace.Laplace(module, "classification", subset, structure, prior_precision=PRIOR)
        fit.fit(DataLoader(rows, batch_size=ROWS))
    return fit


def in_our_order(problem, matrix):
    """The rows and columns of a matrix over the module's own weights, in the order of theta: kernels differ."""
    network = module_of(problem)
    index = torch.arange(network.dim, dtype=torch.float64)
    places = torch.cat([piece.reshape(-1) for piece in network.weights(index).values()]).long()
    kept = places[-len(matrix) :]
    order = kept.argsort()
    return matrix[order][:, order]


def precisions(task, sampler, structure, *, library):
    """The precision (R, R) of the weights that are drawn, at the task's start, by the library or ours."""
    problem, theta = built(task)
    if library:
        fit = of_laplace_torch(problem, theta, "last_layer" if sampler.last_layer else "all", structure)
        matrix = fit.posterior_precision
        return in_our_order(problem, (matrix if structure == "full" else matrix.to_matrix()).double())
    blocks, prior = problem.gauss_newton(theta, last_layer=sampler.last_layer, full=structure == "full")
    matrix = dense(blocks, problem.dim)[min(blocks) :, min(blocks) :]
    return matrix + prior * torch.eye(len(matrix))
