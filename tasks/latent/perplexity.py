"""Perplexity of held-out words, by the predictive distribution averaged over draws and chains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.tasks import Metric, Observer, Outcome, draw_grid, finite_or_none, steps_of_draws

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost

PERPLEXITY_METRICS = (
    Metric("perplexity", "min", "1", "exp(-mean log p) of held-out words, p averaged over draws"),
    Metric("single_perplexity", "min", "1", "exp(-mean log p) of held-out words, log p averaged over draws"),
)


class PerplexityObserver(Observer):
    """`PERPLEXITY_METRICS` of the words that `problem.part("test")` counts, which no gradient has seen.

        perplexity = exp(-sum_dw c_dw log p_dw / sum_dw c_dw),  p_dw = mean over draws of sum_k s_dk phi_kw

    p_dw does not depend on the numbering of the topics, which may differ from draw to draw. For the second metric
    log p_dw is averaged instead. Curve: perplexity by all draws so far, over data passes, (1, n).
    """

    def __init__(self, problem: Any, trajectory: Trajectory, cost: Cost) -> None:
        import torch

        self.task, test, device = problem.task, problem.part("test"), problem.device
        count = torch.from_numpy(test["count"])
        row, term = count.nonzero(as_tuple=True)
        self.document = torch.from_numpy(test["document"]).to(device)
        self.row, self.term, self.count = row.to(device), term.to(device), count[row, term].to(device).double()
        self.grid = draw_grid(trajectory)
        self.passes = cost.after(steps_of_draws(trajectory, self.grid).astype(np.float64))
        like = {"dtype": torch.float64, "device": device}
        self.tensors = {
            "seen": torch.zeros(1, dtype=torch.int64),
            "weight": torch.zeros(1, **like),
            "probability": torch.zeros(len(self.count), **like),
            "log_probability": torch.zeros(1, **like),
            "curve": torch.full((len(self.grid),), torch.nan, **like),
        }

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        """Add a block of draws."""
        import torch

        sums = self.tensors
        with torch.no_grad():
            for theta, weight in zip(draws, weights.double()[..., None], strict=True):
                p = self.task.word_probabilities(theta, self.document, self.row, self.term).double()
                sums["probability"] += (weight * p).sum(0)
                sums["log_probability"] += (weight * self.count * p.log()).sum()
                sums["weight"] += weight.sum()
                sums["seen"] += 1
                point = int(np.searchsorted(self.grid, int(sums["seen"])))
                if point < len(self.grid) and self.grid[point] == int(sums["seen"]):
                    sums["curve"][point] = self._perplexity()

    def _perplexity(self) -> Tensor:
        log_p = (self.tensors["probability"] / self.tensors["weight"]).log()
        return (-(self.count * log_p).sum() / self.count.sum()).exp()

    def outcome(self) -> Outcome:
        """Return the metrics and the curve; nothing before the first draw that has a weight."""
        weight = self.tensors["weight"]
        if not weight > 0:
            return Outcome({})
        single = (-self.tensors["log_probability"] / weight / self.count.sum()).exp()
        metrics = {"perplexity": float(self._perplexity()), "single_perplexity": float(single)}
        curves = {"perplexity": (self.passes, self.tensors["curve"].cpu().numpy()[None])}
        return Outcome({name: finite_or_none(value) for name, value in metrics.items()}, curves)

    def state(self) -> dict[str, Tensor]:
        """Return everything that `load` needs."""
        return dict(self.tensors)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        self.tensors = {name: state[name].to(leaf.device, copy=True) for name, leaf in self.tensors.items()}
