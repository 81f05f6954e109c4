"""The variant "smile": rows, noise level and start of the UCI experiments of SMILE (arXiv 2602.06500), by its code."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.tasks import DataFile, Protocol, Rows
from tasks.datasets import uci
from tasks.mlp import MLP

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from tasks.gauss_newton import Factors

    Array = NDArray[np.float64]

BATCH = 256
ADAM_PASSES = 200
"""Data passes of the warm start; a short budget has fewer, if they were more than half of it."""
SHORT: Mapping[str, Mapping[str, object]] = {"smoke": {"run.burn_in": 0.5}, "quick": {"run.burn_in": 0.5}}
"""What the short budgets change besides the warm start."""


def protocol(rows: int, batch: int = BATCH) -> Protocol:
    """Return the protocol `smile` of a set of so many rows: chains start where `ADAM_PASSES` of Adam end.

    In the source these are of AdamW, with weight decay 0.005 and batches of 64, up to 200, and fewer if the rows for
    validation say so. Here Adam descends U on the task's minibatches.
    """
    n = cuts(rows)[0]
    budgets = {"smoke": 200, "quick": 2_000, "paper": 120_000 + ADAM_PASSES * n // batch}
    return Protocol(
        "smile",
        f"{ADAM_PASSES} data passes of Adam, 50,000 steps of warm-up and 10,000 of sampling, of two gradients each; "
        "every tenth draw is kept",
        budgets,
        chains=10,
        burn_in=5 / 6,
        thin=10,
        settings={"run.warm_start": "adam", "run.warm_passes": ADAM_PASSES, "run.warm_step_size": 0.01},
        budget_settings={
            name: {**short, "run.warm_passes": min(ADAM_PASSES, round(budgets[name] / 2 * batch / n, 1))}
            for name, short in SHORT.items()
        },
    )


class Smile:
    """One level of noise: theta is the weights of f and log sigma.

    Rows are permuted by `data_seed`, and the first 70 % are for training, the next 10 % for validation (read by `bench
    tune` alone), the rest for tests. Features and target are standardised by their mean and sd over all rows, as in the
    source: so the test rows take part in the scaling. The permutation is NumPy's, not that of the source, whose splits
    need jax. Chains start at torch's initialisation of the weights and log sigma = 0.

    outputs  of the network
    extra    parameters beside its weights
    parts    of the permuted rows, in their order
    """

    dtype: ClassVar[str] = "float64"
    outputs: ClassVar[int] = 1
    extra: ClassVar[int] = 1
    parts: ClassVar[Sequence[str]] = ("train", "validation", "test")

    def features(self, count: int, columns: Sequence[int] | None) -> int:
        return count

    def training_rows(self, n: int) -> int:
        return cuts(n)[0]

    def rows(self, file: DataFile, columns: Sequence[int] | None, data_seed: int) -> Mapping[str, Array]:
        table = standardised(file, data_seed)
        return dict(zip(self.parts, np.split(table, cuts(len(table))), strict=True))

    def start(self, network: MLP, generator: torch.Generator) -> Tensor:
        import torch

        weights = network.start(generator).double()
        return torch.cat([weights, weights.new_zeros(1)])

    def predicted(self, network: MLP, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        return network.logits(theta[:, :-1], x)[..., 0], theta[:, -1:]

    def roots(self, theta: Tensor, outputs: Tensor) -> Tensor:
        """Return 1 / sigma, (n, 1, 1): the root of the Fisher information of f."""
        return (-theta[-1]).exp().expand(len(outputs), 1, 1)

    def with_level(self, factors: Factors, theta: Tensor, terms: int, *, full: bool) -> Factors:
        """Return the factors with the Fisher information of log sigma, 2 N, which that of f has no part in."""
        import torch

        level = theta.new_full((len(theta), 1, 1), 2 * terms)
        if not full:
            return {**factors, theta.shape[1] - 1: [level]}
        return {at: [torch.stack([torch.block_diag(*pair) for pair in zip(one, level, strict=True)])]
                for at, (one,) in factors.items()}  # fmt: skip

    def value_and_grad(self, network: MLP, theta: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        import torch

        f, pullback = network.logits_and_pullback(theta[:, :-1], rows["x"])
        error, log_sigma = rows["y"] - f[..., 0], theta[:, -1:]
        slope = rows["present"] * error * (-2 * log_sigma).exp()
        by_sigma = (slope * error - rows["present"]).sum(1, keepdim=True)
        return log_normal(error, log_sigma), torch.cat([pullback(slope[..., None]), by_sigma], dim=1)


def log_normal(error: Tensor, log_sigma: Tensor) -> Tensor:
    """Return log N(error; 0, sigma^2)."""
    return -(error * (-log_sigma).exp()).square() / 2 - log_sigma - math.log(2 * math.pi) / 2


def cuts(n: int) -> tuple[int, int]:
    """Return where the training and the validation part of n rows end."""
    return int(0.7 * n), int((0.7 + 0.1) * n)


@functools.lru_cache(maxsize=4)
def standardised(
    file: DataFile, data_seed: int, columns: Sequence[int] | None = None, left_out: Callable[[int], int] = lambda _: 0
) -> Array:
    """Return the permuted table, each column less its mean, by its sd (divisor N), both without the first rows.

    `left_out` is how many these are, of the number of all rows; by default none.
    """
    table = uci.table(file, columns)
    table = table[np.random.RandomState(data_seed).permutation(len(table))]
    scaling = table[left_out(len(table)) :]
    return np.asarray((table - scaling.mean(axis=0)) / scaling.std(axis=0))
