"""The observer of the ravine: where each chain's mean is, and the errors of moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from harness import MOMENT_METRICS, MomentObserver, Outcome, finite_or_none, from_tensors, to_tensors
from tasks.regression.ravine_data import TRUE

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Cost, Trajectory, Truth

NEAR = 1.5
"""How far the mean of theta_1 may be from the true one."""


class RavineObserver(MomentObserver):
    """What `MomentObserver` says, and converged, theta1 and theta2 by running sums of each chain."""

    def __init__(self, truth: Truth, chains: int, trajectory: Trajectory, cost: Cost) -> None:
        super().__init__(truth, trajectory, cost)
        self.total = np.zeros((chains, 2))
        self.weight = np.zeros((chains, 1))

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        super().observe(draws, weights, steps)
        w = weights.cpu().numpy()[:, :, None]
        self.total += (w * draws.cpu().numpy()).sum(axis=0)
        self.weight += w.sum(axis=0)

    def outcome(self) -> Outcome:
        plain = super().outcome()
        own: dict[str, float | None] = dict.fromkeys(("converged", "theta1", "theta2"))
        if self.seen:
            means = self.total / self.weight
            pooled = self.total.sum(axis=0) / self.weight.sum()
            own["converged"] = float((np.abs(means[:, 0] - TRUE[0]) < NEAR).mean())
            own["theta1"], own["theta2"] = (finite_or_none(value) for value in pooled)
        return Outcome({**own, **{m.name: plain.metrics[m.name] for m in MOMENT_METRICS}}, plain.curves)

    def state(self) -> dict[str, Tensor]:
        return super().state() | to_tensors({"means": {"total": self.total, "weight": self.weight}})

    def load(self, state: Mapping[str, Tensor]) -> None:
        super().load(state)
        own = from_tensors(state, "means")
        self.total, self.weight = own["total"], own["weight"]
