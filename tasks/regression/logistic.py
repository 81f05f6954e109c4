"""The logistic posterior, of any design."""

from __future__ import annotations

import functools
import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness import MOMENT_METRICS, DataTask, Metric, Observer, Truth
from tasks.regression.laplace import laplace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Cost, DataProblem, Rows, Trajectory


@dataclass(frozen=True, kw_only=True)
class Logistic(DataTask):
    """U(theta) = sum_i log(1 + exp(-a_i theta)) + |theta|^2 / 2, with a_i the row of term i, signed by its class.

    shape      (N, D), the bias included
    """

    shape: ClassVar[tuple[int, int]]
    prior_precision: ClassVar[float] = 1.0
    provides: ClassVar = frozenset({"terms", "scores", "metric"})
    given: ClassVar = {"metric": "the inverse of the Hessian of U at the mode, found before the run"}
    metrics: ClassVar = (
        Metric("paper_ess_median", "max", "draws", "ESS of a chain by true moments, cut at 0.05: median coordinate"),
        Metric("paper_ess_mean", "max", "draws", "the same: mean over coordinates"),
        Metric("ess_bulk", "max", "draws", "rank-normalised ESS of all chains, split, worst coordinate", version=2),
        Metric("ess_tail", "max", "draws", "the same for the 5 % and 95 % quantiles", version=2),
        Metric("rhat", "min", "1", "rank-normalised split R-hat, worst coordinate"),
        *MOMENT_METRICS,
        Metric("temperature", "target", "1", "configurational temperature, mean over directions", target=1.0),
        Metric("temperature_min", "target", "1", "the coldest eigendirection of the Hessian at the mode", target=1.0),
        Metric("temperature_max", "target", "1", "the hottest eigendirection of the Hessian at the mode", target=1.0),
    )  # fmt: skip

    @abstractmethod
    def design(self) -> NDArray[np.float64]:
        """The rows a_i (N, D), times +1 for the positive class and -1 otherwise."""

    @abstractmethod
    def record(self) -> Path:
        """Where the truth is stored: what `tasks.regression.truth` or `tasks.regression.a9a.truth` wrote."""

    def dim(self) -> int:
        return self.shape[1]

    def terms(self) -> int:
        return self.shape[0]

    def arrays(self, part: str) -> Mapping[str, NDArray[np.float64]]:
        return {"a": self.design()}

    def log_likelihood(self, theta: Tensor, rows: Rows) -> Tensor:
        return self._log_sigmoid(margins(theta, rows["a"]))

    def grad(self, theta: Tensor, rows: Rows) -> Tensor:
        a = rows["a"]
        return pulls(a, margins(theta, a)).sum(1)

    def value_and_grad(self, theta: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        a = rows["a"]
        m = margins(theta, a)
        return self._log_sigmoid(m), pulls(a, m).sum(1)

    def scores(self, theta: Tensor, rows: Rows) -> Tensor:
        a = rows["a"]
        return -pulls(a, margins(theta, a))

    @staticmethod
    def _log_sigmoid(m: Tensor) -> Tensor:
        from torch.nn.functional import logsigmoid

        return logsigmoid(m)

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """The Hessian of U at its mode, everywhere: its inverse, and no divergence."""
        return self.inverse_metric.to(theta.device).expand(len(theta), -1, -1), theta.new_zeros(theta.shape)

    @functools.cached_property
    def inverse_metric(self) -> Tensor:
        """The inverse of the Hessian of U at the mode, (D, D)."""
        import torch

        _, values, vectors = laplace(self.design())
        return torch.from_numpy(vectors / values @ vectors.T)

    def curvature(self) -> float:
        return float(stored_truth(self.record())["hessian_eigenvalues"][1])

    def truth(self) -> Truth:
        return Truth.of_record(stored_truth(self.record()))

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        from tasks.regression.observer import LogisticObserver

        return LogisticObserver(self, chains.stop - chains.start, trajectory, cost)


def margins(theta: Tensor, a: Tensor) -> Tensor:
    """a_i theta, (C, n)."""
    return (a * theta[:, None, :]).sum(2)


def pulls(a: Tensor, m: Tensor) -> Tensor:
    """The gradient of the log-likelihood of each term, of margin m: (C, n, D). Rows of zeros have none."""
    return a * (-m).sigmoid()[:, :, None]


@functools.cache
def stored_truth(path: Path) -> dict[str, Any]:
    """The record in a file."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found
