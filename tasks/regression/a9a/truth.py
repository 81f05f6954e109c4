"""Makes the stored truth of the a9a posterior: python -m tasks.regression.a9a.truth.

The Hessian of U at the mode has eigenvalues from 1 to some 40,000, so HMC runs in the coordinates z = R^-1 (theta -
mode), R R' the inverse Hessian there: nearly a standard normal in 124 dimensions. As `tasks.regression.truth` it is the
harness's own HMC, and what it finds is written only if it passes the same thresholds.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import DensityProblem, DensityTask, hmc_draws, truth_record, write_truth
from tasks.datasets import libsvm
from tasks.regression.a9a.task import A9a, signed_design
from tasks.regression.laplace import laplace

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from harness import Streams

    Batch = dict[str, Tensor]

CHAINS = 16
BURN_IN = 100
DRAWS = 3000
SAMPLER = {"leapfrog": 3, "jitter": 0.4, "acceptance": 0.8}


class WhitenedProblem(DensityProblem):
    """U(mode + R z) as a function of z. One matrix product for all chains: its bits depend on how many there are."""

    @functools.cached_property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """The mode (D,), R (D, D), and the rows of the design (N, D)."""
        import torch

        mode, values, vectors = laplace(signed_design())
        return torch.from_numpy(mode), torch.from_numpy(vectors / np.sqrt(values)), torch.from_numpy(signed_design())

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        import torch

        mode, root, rows = self.parts
        x = mode + theta @ root.T
        margins = x @ rows.T
        energy = -torch.nn.functional.logsigmoid(margins).sum(1) + x.square().sum(1) / 2
        slope = x - (-margins).sigmoid() @ rows
        return energy, slope @ root

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        return self.energy_and_gradient(theta, batch)[0]

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        return self.energy_and_gradient(theta, batch)[1]


@dataclass(frozen=True, kw_only=True)
class Whitened(DensityTask):
    """The posterior of a9a in whitened coordinates."""

    protocols: ClassVar = ()
    metrics: ClassVar = ()

    def dim(self) -> int:
        return A9a.shape[1]

    def start(self, generator: Generator) -> Tensor:
        import torch

        return 2 * torch.randn(self.dim(), generator=generator, dtype=torch.float64)

    def build(self, streams: Sequence[Streams], device: str) -> WhitenedProblem:
        return WhitenedProblem(self, streams, device)


def main() -> None:
    """Make the truth; `RunError` where it is not good enough."""
    z = hmc_draws(Whitened(), SAMPLER, 1.0, chains=CHAINS, burn_in=BURN_IN, draws=DRAWS)
    mode, values, vectors = laplace(signed_design())
    draws = mode + z @ (vectors / np.sqrt(values)).T
    stated = {**SAMPLER, "coordinates": "whitened by the Hessian at the mode"}
    record = {
        "dataset": "a9a",
        "data_sha256": libsvm.A9A.sha256,
        "command": "python -m tasks.regression.a9a.truth",
        **truth_record(draws, "a9a", stated, BURN_IN),
        "hessian_eigenvalues": [float(values[0]), float(values[-1])],
    }
    write_truth(A9a().record(), record)


if __name__ == "__main__":
    main()
