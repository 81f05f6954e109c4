"""Makes the stored truth of the a9a posterior: python -m tasks.regression.a9a.truth.

The Hessian of U at the mode has eigenvalues from 1 to some 40,000, so HMC runs in the coordinates z = R^-1 (theta -
mode), R R' the inverse Hessian there: nearly a standard normal in 124 dimensions. As `tasks.regression.truth` it is the
harness's own HMC in the harness's own loop, and what it finds is written only if it passes the same thresholds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import Problem, Task
from harness.engine.gaussian import Recorder
from tasks.regression.a9a.task import A9a, signed_design
from tasks.regression.laplace import laplace
from tasks.regression.truth import hmc_draws, record, write

if TYPE_CHECKING:
    from torch import Tensor

    from harness import Cost, Trajectory
    from harness.contracts.randomness import Streams

CHAINS = 16
BURN_IN = 100
DRAWS = 3000
SAMPLER = {"leapfrog": 3, "jitter": 0.4, "acceptance": 0.8}
COMMAND = "python -m tasks.regression.a9a.truth"


class WhitenedProblem(Problem):
    """U(mode + R z) as a function of z. One matrix product for all chains: its bits depend on how many there are."""

    def __init__(self, streams: Sequence[Streams]) -> None:
        import torch

        design = signed_design()
        mode, values, vectors = laplace(design)
        self.streams = list(streams)
        self.dim = len(mode)
        self.mode = torch.from_numpy(mode)
        self.root = torch.from_numpy(vectors / np.sqrt(values))
        self.rows = torch.from_numpy(design)

    def positions(self, z: Tensor) -> Tensor:
        """theta (C, D) at z (C, D)."""
        return self.mode + z @ self.root.T

    def initial(self) -> Tensor:
        import torch

        rows = [torch.randn(self.dim, generator=s.torch("init"), dtype=torch.float64) for s in self.streams]
        return 2 * torch.stack(rows)

    def energy(self, theta: Tensor, batch: Any) -> Tensor:
        return self.energy_and_gradient(theta, batch)[0]

    def energy_and_gradient(self, theta: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        import torch

        x = self.positions(theta)
        margins = x @ self.rows.T
        energy = -torch.nn.functional.logsigmoid(margins).sum(1) + x.square().sum(1) / 2
        slope = x - (-margins).sigmoid() @ self.rows
        return energy, slope @ self.root

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> Recorder:
        return Recorder()


@dataclass(frozen=True, kw_only=True)
class Whitened(Task):
    """The posterior of a9a in whitened coordinates, whose draws are only recorded."""

    protocols: ClassVar = ()
    metrics: ClassVar = ()

    def dim(self) -> int:
        return A9a.shape[1]

    def build(self, streams: Sequence[Streams], device: str) -> WhitenedProblem:
        return WhitenedProblem(streams)


def main() -> None:
    """Make the truth; `RunError` where it is not good enough."""
    z = hmc_draws(Whitened(), SAMPLER, 1.0, chains=CHAINS, burn_in=BURN_IN, draws=DRAWS)
    mode, values, vectors = laplace(signed_design())
    draws = mode + z @ (vectors / np.sqrt(values)).T
    found = {
        **record(A9a(), draws),
        "command": COMMAND,
        "sampler": {"name": "hmc", **SAMPLER, "coordinates": "whitened by the Hessian at the mode"},
        "burn_in": BURN_IN,
    }
    write(Path(__file__).parent / "truth.json", found)


if __name__ == "__main__":
    main()
