"""Observers of classifiers: scores of the averaged predictions, and how they change with the number of draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.analysis.diagnostics import agreement, calibration, total_variation
from harness.contracts.observers import finite_or_none
from harness.contracts.task import Metric, Observer, Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.contracts.schedule import Trajectory
    from harness.contracts.task import Cost

    Array = NDArray[np.float64]

AVERAGED: Mapping[Metric, Callable[[Array, NDArray[np.int64]], float]] = {
    Metric("test_error", "min", "%", "test error of the posterior mean of the predicted probabilities"): (
        lambda mean, labels: 100 * calibration.error_rate(mean, labels)
    ),
    Metric("nll", "min", "nats", "negative log-likelihood of a test row under the posterior mean"): calibration.nll,
    Metric(
        "ece", "min", "1", "expected calibration error of the posterior mean, 15 bins of equal width", version=2
    ): calibration.ece,
    Metric("brier", "min", "1", "Brier score of the posterior mean, summed over the classes"): calibration.brier,
    Metric(
        "lppd", "max", "nats", "log-likelihood of a test row under the posterior mean (LPPD): minus nll"
    ): calibration.lppd,
    Metric("aurc", "min", "1", "area under the risk-coverage curve of the posterior mean"): calibration.aurc,
    Metric(
        "selective_accuracy",
        "max",
        "%",
        f"accuracy of the posterior mean on the {calibration.COVERAGE} % of the rows "
        "where its largest probability is largest",
    ): lambda mean, labels: 100 * calibration.selective_accuracy(mean, labels),
}
"""Metrics, each with the function of the posterior mean of the probabilities (M, K) and the true classes (M,)."""

PREDICTIVE_METRICS = (
    *AVERAGED,
    Metric("single_test_error", "min", "%", "test error of a single draw, mean over the draws"),
    Metric("single_nll", "min", "nats", "negative log-likelihood of a test row, mean over the draws"),
)
"""The metrics that `PredictiveObserver` reports; a task that uses it lists them among its metrics."""


AGAINST_REFERENCE: Mapping[Metric, Callable[[Array, Array], float]] = {
    Metric("agreement", "max", "1", "share of test rows that posterior mean and reference put in the same class"): (
        agreement
    ),
    Metric("total_variation", "min", "1", "total variation distance of the posterior mean from the reference"): (
        total_variation
    ),
}
"""Metrics, each with the function of the posterior mean of the probabilities (M, K) and those of a reference."""

REFERENCE_METRICS = tuple(AGAINST_REFERENCE)
"""The metrics that `PredictiveObserver` adds if the test rows have a "reference"; such a task lists them too."""


def averaged_scores(mean: Array, labels: NDArray[np.int64], reference: Array | None = None) -> dict[str, float]:
    """Return the metrics `AVERAGED` by name and, if there is a reference, `AGAINST_REFERENCE`."""
    scores = {metric.name: float(score(mean, labels)) for metric, score in AVERAGED.items()}
    if reference is not None:
        scores |= {metric.name: score(mean, reference) for metric, score in AGAINST_REFERENCE.items()}
    return scores


RECORDED = 600
"""Largest number of draws of a chain for which curves have points, evenly spaced; means use all draws."""


def reference_of(problem: Any) -> Array | None:
    """Return the predictions (M, K) with which those of a problem are compared, or None if there are none."""
    probabilities = getattr(problem, "reference", None)
    return None if probabilities is None else probabilities.cpu().numpy().astype(np.float64)


LARGEST = 2**22
"""Largest number of probabilities that are kept, 16 MiB as float32; ImageNet has 50 million."""


class PredictiveObserver(Observer):
    """Scores of the posterior mean of predicted probabilities on test rows, computed on the device; no draw is kept.

    `problem` has `labels`, `predict` and optionally `reference`, like a `DataProblem`. The posterior mean is the
    weighted mean over draws and chains, in float64. Curves over data passes: test_error and nll of the mean so far (1,
    n); single_test_error and single_nll of each chain's draw (C, n). Arrays: the posterior mean `probabilities` (M, K)
    as float32, unless it has more than `LARGEST` numbers, and the true `classes` (M,).

    average  the number of last draws that enter the means; None for all
    """

    CURVES = ("test_error", "nll", "single_test_error", "single_nll")

    def __init__(
        self, problem: Any, chains: slice, trajectory: Trajectory, cost: Cost, *, average: int | None = None
    ) -> None:
        import torch

        self.problem, self.rows = problem, chains
        self.chains = chains.stop - chains.start
        self.labels: Tensor = problem.labels["test"]
        kept = np.flatnonzero(trajectory.keep) + 1
        self.first_averaged = 0 if average is None else max(0, len(kept) - average)
        self.stride = -(-len(kept) // RECORDED) or 1
        self.recorded = kept[:: self.stride]
        self.passes = cost.after(self.recorded.astype(np.float64))
        curves = torch.full((len(self.CURVES), len(self.recorded), self.chains), torch.nan, dtype=torch.float64)
        self.sums: dict[str, Tensor] = {}
        self.tensors = {
            "weight": self.zeros(1),
            "seen": torch.zeros(1, dtype=torch.int64, device=self.labels.device),
            "single": self.zeros(2),
            "curves": curves.to(self.labels.device),
        }

    def zeros(self, *shape: int) -> Tensor:
        """Return zeros in float64, on the device of the labels."""
        import torch

        return torch.zeros(shape, dtype=torch.float64, device=self.labels.device)

    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        """Add a block of draws."""
        import torch

        with torch.no_grad():
            for theta, weight in zip(draws, weights.to(torch.float64), strict=True):
                self.observe_draw(theta, weight)

    def observe_draw(self, theta: Tensor, weight: Tensor) -> tuple[int, Tensor, Tensor]:
        """Add a draw of every chain (C, D) with weights (C,).

        Return how many draws came before it, log p (C, M, K), and error rates (C,).
        """
        import torch

        tensors = self.tensors
        seen = int(tensors["seen"])
        tensors["seen"] += 1
        logs = torch.cat(list(self.problem.predict(theta, self.rows, "test")), dim=1).to(torch.float64)
        error = (logs.argmax(2) != self.labels).double().where(~logs.isnan().any(2), torch.nan).mean(1)
        loss = -logs.gather(2, self.labels.expand(self.chains, -1)[..., None]).mean((1, 2))
        if seen >= self.first_averaged:
            tensors["weight"] += weight.sum()
            tensors["single"] += torch.stack([(weight * error).sum(), (weight * loss).sum()])
            self.add("test", weight, logs)
        if seen % self.stride == 0:
            point = seen // self.stride
            if seen >= self.first_averaged:
                tensors["curves"][:2, point, 0] = self._running_scores()
            tensors["curves"][2, point], tensors["curves"][3, point] = 100 * error, loss
        return seen, logs, error

    def add(self, name: str, weight: Tensor, logs: Tensor) -> None:
        """Add the predictions for a set chain by chain, so that the sum is the same for any number of chains."""
        if name not in self.sums:
            self.sums[name] = self.zeros(*logs.shape[1:])
        for w, one in zip(weight, logs, strict=True):
            self.sums[name] += w * one.double().exp()

    def _running_scores(self) -> Tensor:
        """Return the error in percent and the NLL of the posterior mean so far; NaN if all weights are 0."""
        import torch

        mean = self.sums["test"] / self.tensors["weight"]
        wrong = (mean.argmax(1) != self.labels).double().where(~mean.isnan().any(1), torch.nan).mean()
        loss = -mean.gather(1, self.labels[:, None]).log().mean()
        return torch.stack([torch.where(self.tensors["weight"][0] > 0, 100 * wrong, torch.nan), loss])

    def means(self) -> dict[str, Array]:
        """Return the posterior mean of the probabilities (M, K) for each set."""
        return {name: (total / self.tensors["weight"]).cpu().numpy() for name, total in self.sums.items()}

    def outcome(self) -> Outcome:
        """Return `PREDICTIVE_METRICS`, with a reference also `REFERENCE_METRICS`, the curves and the arrays.

        All are empty before the first draw that has a weight.
        """
        if not float(self.tensors["weight"]) > 0:
            return Outcome({})
        mean, labels = self.means()["test"], self.labels.cpu().numpy()
        singles = (self.tensors["single"] / self.tensors["weight"]).tolist()
        values = {
            **averaged_scores(mean, labels, reference_of(self.problem)),
            "single_test_error": 100 * singles[0],
            "single_nll": singles[1],
        }
        points = -(-int(self.tensors["seen"]) // self.stride)
        drawn = self.tensors["curves"][:, :points].cpu().numpy()
        curves = {
            name: (self.passes[:points], drawn[k, :, : 1 if k < 2 else None].T.copy())
            for k, name in enumerate(self.CURVES)
        }
        arrays: dict[str, NDArray[Any]] = {}
        if mean.size <= LARGEST:
            arrays = {"probabilities": mean.astype(np.float32), "classes": labels.astype(np.int32)}
        return Outcome({name: finite_or_none(value) for name, value in values.items()}, curves, arrays)

    def state(self) -> dict[str, Tensor]:
        """Return everything that `load` needs."""
        return self.tensors | {f"sum/{name}": total for name, total in self.sums.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        device = self.labels.device
        self.tensors = {name: state[name].to(device, copy=True) for name in self.tensors}
        sums = {name.removeprefix("sum/"): leaf for name, leaf in state.items() if name.startswith("sum/")}
        self.sums = {name: total.to(device, copy=True) for name, total in sums.items()}
