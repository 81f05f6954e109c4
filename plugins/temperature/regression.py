"""Linear regression whose posterior is known, as a loop meets a model: a torch module and minibatches.

    y = X theta + e,  e ~ N(0, 1):  U(theta) = |y - X theta|^2 / 2 = sum_j a_j (theta_j - b_j)^2 / 2 + constant

The columns of X are orthogonal, with X'X = diag(a), and e is orthogonal to them, so b is the least-squares solution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

DIM = 64
"""Weights. Each is a replicate of the others, so a short run has many independent draws."""
CURVATURES = (0.5, 2.0)
"""Range of a_j / N."""
SOLUTION = 20.0
"""|b_j|, hundreds of posterior standard deviations: the first steps show the gradient, and the mean shows the prior."""


class Minibatches:
    """What a loop sees of the data, like a `DataLoader`: pairs (x (n, D), y (n, 1)), each row once an epoch.

    `dataset` has all N rows, `batch_size` is n, and its length is the number of minibatches, N / n.
    """

    def __init__(self, x: Tensor, y: Tensor, batch_size: int, seed: int) -> None:
        self.dataset = torch.utils.data.TensorDataset(x, y)
        self.batch_size = batch_size
        self._generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return len(self.dataset) // self.batch_size

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        x, y = self.dataset.tensors
        if self.batch_size == len(x):
            yield x, y
            return
        for rows in torch.randperm(len(x), generator=self._generator).split(self.batch_size):
            yield x[rows], y[rows]


@dataclass(frozen=True, eq=False)
class Regression:
    """Data (x, y) of `terms` rows, with their curvatures a (D,) and the solution b (D,)."""

    terms: int
    x: Tensor
    y: Tensor
    curvatures: Tensor
    solution: Tensor

    def minibatches(self, batch: int, seed: int) -> Minibatches:
        """Return its rows in minibatches, in an order that the seed decides."""
        return Minibatches(self.x, self.y, batch, seed)


def regression(terms: int) -> Regression:
    """Return the data of N rows; the solution does not depend on N."""
    generator = torch.Generator().manual_seed(terms)
    basis, _ = torch.linalg.qr(torch.randn(terms, DIM + 1, generator=generator, dtype=torch.float64))
    curvatures = terms * torch.logspace(*map(math.log10, CURVATURES), DIM, dtype=torch.float64)
    signs = 1.0 - 2.0 * (torch.arange(DIM) % 2)
    solution = SOLUTION * signs.double()
    x = basis[:, :DIM] * curvatures.sqrt()
    y = x @ solution + math.sqrt(terms) * basis[:, DIM]
    return Regression(terms, x, y[:, None], curvatures, solution)


def model() -> torch.nn.Module:
    """Return the linear model in float64, which begins at 0."""
    linear = torch.nn.Linear(DIM, 1, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(linear.weight)
    return linear
