"""The variant "bde": rows, noise level and start of the benchmark of scikit-learn-contrib/bde, by its code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.tasks import DataFile, Protocol, Rows
from tasks.mlp import MLP
from tasks.regression.uci.smile import SHORT, log_normal, standardised

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from tasks.gauss_newton import Factors

    Array = NDArray[np.float64]

LEAST_SIGMA = 1e-6
SETTINGS = {"task.variant": "bde", "task.hidden": "16-16-16-16", "task.batch": None, "task.data_seed": 0}
_BDE = Protocol(
    "bde",
    "1,200 steps of Adam, 50,000 of warm-up and 1,000 of sampling, of two full gradients each; every tenth is kept",
    {"smoke": 1_400, "quick": 4_000, "paper": 103_201},
    chains=10,
    burn_in=50 / 51,
    thin=10,
    settings=SETTINGS,
    budget_settings=SHORT,
)


class Bde:
    """A level of noise at each input: theta is the weights of a network with two outputs, f and s.

    sigma(x) = log(1 + exp(s)) + 10^-6. Of the rows permuted by `data_seed` the first 20 % are for tests, the rest for
    training; this is scikit-learn's train_test_split. All columns are standardised by their mean and sd over the
    training rows. Chains start at weights N(0, 1 / inputs of the layer) and biases 0, and are float32. The attributes
    are those of `Smile`.
    """

    dtype: ClassVar[str] = "float32"
    outputs: ClassVar[int] = 2
    extra: ClassVar[int] = 0
    parts: ClassVar[Sequence[str]] = ("test", "train")
    protocols: ClassVar = (
        _BDE,
        replace(
            _BDE,
            name="bde-short",
            summary="bde with 2,000 steps of warm-up, ours",
            budgets={**_BDE.budgets, "paper": 7_201},
            burn_in=2 / 3,
        ),
        Protocol(
            "bde-ensemble",
            "the warm start of bde alone: 1,200 full gradients",
            {"smoke": 100, "quick": 400, "paper": 1_200},
            chains=10,
            settings=SETTINGS,
        ),
    )

    def features(self, count: int, columns: Sequence[int] | None) -> int:
        return len(columns) - 1 if columns else count

    def training_rows(self, n: int) -> int:
        return n - tests(n)

    def rows(self, file: DataFile, columns: Sequence[int] | None, data_seed: int) -> Mapping[str, Array]:
        table = standardised(file, data_seed, columns, tests)
        return dict(zip(self.parts, np.split(table, [tests(len(table))]), strict=True))

    def start(self, network: MLP, generator: torch.Generator) -> Tensor:
        import torch

        how = {"generator": generator, "dtype": torch.float64, "device": generator.device}
        pieces = [
            piece
            for into, out in network.shapes
            for piece in (torch.randn(into * out, **how) / math.sqrt(into), torch.zeros(out, dtype=torch.float64))
        ]
        return torch.cat([piece.to(generator.device) for piece in pieces])

    def predicted(self, network: MLP, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        outputs = network.logits(theta, x)
        return outputs[..., 0], softplus(outputs[..., 1]).log()

    def roots(self, theta: Tensor, outputs: Tensor) -> Tensor:
        """Return the root of the Fisher information of f and s, diagonal: 1 / sigma and sqrt(2) sigma' / sigma."""
        import torch

        s = outputs[:, 1]
        return (torch.stack([torch.ones_like(s), math.sqrt(2) * s.sigmoid()], 1) / softplus(s)[:, None]).diag_embed()

    def with_level(self, factors: Factors, theta: Tensor, terms: int, *, full: bool) -> Factors:
        """Return the factors as they are, because the level is an output of the network."""
        return factors

    def value_and_grad(self, network: MLP, theta: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        import torch

        outputs, pullback = network.logits_and_pullback(theta, rows["x"])
        error, sigma = rows["y"] - outputs[..., 0], softplus(outputs[..., 1])
        slope = rows["present"] * error / sigma.square()
        by_output = (slope * error - rows["present"]) / sigma * outputs[..., 1].sigmoid()
        return log_normal(error, sigma.log()), pullback(torch.stack([slope, by_output], dim=2))


def softplus(s: Tensor) -> Tensor:
    """Return sigma = log(1 + exp(s)) + 10^-6."""
    import torch

    return torch.nn.functional.softplus(s) + LEAST_SIGMA


def tests(n: int) -> int:
    """Return how many of n rows are for tests: 20 %, rounded up."""
    return -(-n // 5)
