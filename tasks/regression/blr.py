"""Bayesian logistic regression on three Statlog sets, as the cyclical SG-MCMC paper has it."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import (
    MOMENT_METRICS,
    ChainSequence,
    DataFile,
    Metric,
    Observer,
    Problem,
    Protocol,
    Task,
    Truth,
    UsageError,
    param,
)
from tasks.datasets import uci
from tasks.regression.laplace import laplace

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Cost, Trajectory
    from harness.contracts.randomness import Streams

    Array = NDArray[np.float64]
    Batch = dict[str, Tensor]

LANES = 16
"""Rows are filled up to a multiple of this, so that every chain's terms lie alike in the vector unit: the last few
elements of an array go through another sigmoid, with other bits, and which they are would depend on the chains."""

GROUP_NUMBERS = 200_000
"""Most products of a group of chains at once: beyond it memory is mapped anew in each step."""


class LogisticProblem(Problem):
    """U(theta) = sum_i log(1 + exp(-a_i theta)) + |theta|^2 / 2, a_i the row of term i, signed by its class.

    A minibatch is the next stretch of n in the chain's own permutation of the N terms; m = ceil(N/n) of them are an
    epoch, the last one short. Each is scaled by m, so the mean of the gradients over an epoch is grad U exactly:

        U_b(theta) = m sum_{i in b} log(1 + exp(-a_i theta)) + |theta|^2 / 2.

    Products are summed chain by chain: the bits do not depend on the other chains.
    """

    def __init__(self, task: LogisticTask, streams: Sequence[Streams], device: str) -> None:
        import torch

        design = task.design()
        self.terms, self.dim = design.shape
        # The empty rows behind the terms fill short batches: their gradient is 0, and `energy` leaves them out.
        filled = np.zeros((_filled(self.terms + 1), self.dim))
        filled[: self.terms] = design
        self.rows = torch.from_numpy(filled).to(device)
        self.present = (torch.arange(len(filled), device=device) < self.terms).to(torch.float64)
        self.task = task
        self.streams = list(streams)
        self.device = device
        self.batches = task.steps_per_epoch()
        self.epochs: ChainSequence | None = None
        if task.batch is not None:
            self.epochs = ChainSequence([s.numpy("order") for s in streams], self._draw_epoch)

    def _draw_epoch(self, generator: np.random.Generator) -> Tensor:
        """One epoch: indices of rows, (m, n filled up to `LANES`)."""
        import torch

        n = self.task.batch_terms()
        order = torch.full((self.batches * n,), self.terms)
        order[: self.terms] = torch.from_numpy(generator.permutation(self.terms))
        return torch.nn.functional.pad(order.view(self.batches, n), (0, _filled(n) - n), value=self.terms)

    def initial(self) -> Tensor:
        import torch

        rows = [
            torch.randn(self.dim, generator=s.torch("init", self.device), dtype=torch.float64, device=self.device)
            for s in self.streams
        ]
        return torch.stack(rows)

    def draw_batches(self, steps: int) -> Batch:
        return {} if self.epochs is None else {"index": self.epochs.take(steps).to(self.device)}

    def _groups(self, theta: Tensor, batch: Batch | None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Groups of chains: theta (c, D), rows of the design (c or 1, n, D), margins a_i theta (c, n)."""
        width = len(self.rows) if batch is None else batch["index"].shape[1]
        size = max(1, GROUP_NUMBERS // (width * self.dim))
        for start in range(0, len(theta), size):
            x = theta[start : start + size]
            rows = self.rows[None] if batch is None else self.rows[batch["index"][start : start + size]]
            yield x, rows, (rows * x[:, None, :]).sum(2)

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        return self._energy(theta, batch, [margins for _, _, margins in self._groups(theta, batch)])

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        return self._gradient(batch, self._groups(theta, batch))

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        groups = list(self._groups(theta, batch))
        energy = self._energy(theta, batch, [margins for _, _, margins in groups])
        return energy, self._gradient(batch, groups)

    def _energy(self, theta: Tensor, batch: Batch | None, margins: list[Tensor]) -> Tensor:
        import torch

        present = self.present if batch is None else self.present[batch["index"]]
        misfit = -(torch.nn.functional.logsigmoid(torch.cat(margins)) * present).sum(1)
        return self._scale(batch) * misfit + theta.square().sum(1) / 2

    def _gradient(self, batch: Batch | None, groups: Iterable[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        import torch

        scale = self._scale(batch)
        return torch.cat([x - scale * (rows * (-m).sigmoid()[:, :, None]).sum(1) for x, rows, m in groups])

    def scores(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Those of the terms of a batch, (C, n, D), without the prior; zeros in the empty places of a short batch."""
        import torch

        n = self.terms if batch is None else self.task.batch_terms()
        groups = self._groups(theta, batch)
        return torch.cat([-(rows * (-m).sigmoid()[:, :, None])[:, :n] for _, rows, m in groups])

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """The Hessian of U at its mode, everywhere: its inverse, and no divergence."""
        return self.inverse_metric.expand(len(theta), -1, -1), theta.new_zeros(theta.shape)

    @functools.cached_property
    def inverse_metric(self) -> Tensor:
        """The inverse of the Hessian of U at the mode, (D, D)."""
        import torch

        _, values, vectors = laplace(self.task.design())
        return torch.from_numpy(vectors / values @ vectors.T).to(self.device)

    def _scale(self, batch: Batch | None) -> int:
        return 1 if batch is None else self.batches

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        from tasks.regression.observer import LogisticObserver

        return LogisticObserver(self.task, rows.stop - rows.start, trajectory, cost)

    def state(self) -> dict[str, Tensor]:
        return {} if self.epochs is None else self.epochs.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        if self.epochs is not None:
            self.epochs.load(state)


def _filled(n: int) -> int:
    return -(-n // LANES) * LANES


@dataclass(frozen=True, kw_only=True)
class LogisticTask(Task):
    """Logistic regression with prior N(0, I) on all rows of a data set; a subclass names the data set.

    Covariates are standardised with the population sd, the bias column stands last; chains start at a draw from the
    prior. The paper gives neither prior nor batch size: this is the prior that reproduces the public reference
    posterior, and full-data gradients are the default.

    file       the data set
    positive   its class that counts as 1
    shape      (N, D), the bias included

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, appendix.
    """

    file: ClassVar[DataFile]
    positive: ClassVar[int]
    shape: ClassVar[tuple[int, int]]
    prior_precision: ClassVar[float] = 1.0
    provides: ClassVar = frozenset({"terms", "scores", "metric"})
    given: ClassVar = {"metric": "the inverse of the Hessian of U at the mode, found before the run"}
    protocols: ClassVar = (
        Protocol(
            "csgmcmc",
            "5,000 steps of burn-in, 5,000 draws",
            {"smoke": 1_000, "quick": 4_000, "paper": 10_000},
            burn_in=0.5,
        ),
    )
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

    batch: int | None = param(None, "[1, inf)", "n, terms in a minibatch; none: all of them", source="not stated; ours")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch is not None and self.batch > self.terms():
            raise UsageError(f"task.batch = {self.batch} is more than the {self.terms()} rows of {self.file.dataset}")

    def dim(self) -> int:
        return self.shape[1]

    def terms(self) -> int:
        return self.shape[0]

    def batch_terms(self) -> int:
        return self.terms() if self.batch is None else self.batch

    def design(self) -> Array:
        """The rows a_i (N, D): standardised covariates and bias, times +1 for the positive class and -1 otherwise."""
        attributes, classes = uci.load(self.file)
        rows = np.column_stack([uci.standardise(attributes), np.ones(len(attributes))])
        return np.asarray(np.where(classes == self.positive, 1.0, -1.0)[:, None] * rows)

    def curvature(self) -> float:
        return float(stored_truth(self.file.dataset)["hessian_eigenvalues"][1])

    def truth(self) -> Truth:
        return truth_of(stored_truth(self.file.dataset))

    def build(self, streams: Sequence[Streams], device: str) -> LogisticProblem:
        return LogisticProblem(self, streams, device)


def truth_of(record: Mapping[str, Any]) -> Truth:
    """The truth that a stored record holds."""
    lower = np.zeros((len(record["mean"]),) * 2)
    lower[np.tril_indices(len(lower))] = np.concatenate(record["covariance"])
    where = record["sampler"].get("coordinates")
    how = (
        f"HMC{f' in coordinates {where}' if where else ''}, {record['chains']} chains of {record['draws']} draws: "
        f"R-hat {record['rhat']:.4f}, ESS {record['ess_z']:.0f} (z) and {record['ess_z2']:.0f} (z^2) or more along "
        f"every direction, acceptance {record['acceptance']:.2f}; {record['command']}"
    )
    moments = {name: np.array(record[name]) for name in ("mean", "z3", "z4", "mean_mcse", "sd_mcse")}
    return Truth(**moments, covariance=lower + np.tril(lower, -1).T, how=how)


@functools.cache
def stored_truth(dataset: str) -> dict[str, Any]:
    """The record that `python -m tasks.regression.truth` wrote for a data set."""
    record: dict[str, Any] = json.loads((Path(__file__).parent / "truth" / f"{dataset}.json").read_text())
    return record


@dataclass(frozen=True, kw_only=True)
class Australian(LogisticTask):
    """Australian credit approval: 690 rows, 14 covariates and bias; class 1 is positive."""

    file: ClassVar = uci.AUSTRALIAN
    datasets: ClassVar = (uci.AUSTRALIAN,)
    positive: ClassVar = 1
    shape: ClassVar = (690, 15)


@dataclass(frozen=True, kw_only=True)
class German(LogisticTask):
    """German credit, numeric: 1000 rows, 24 covariates and bias; bad credit (2) is positive."""

    file: ClassVar = uci.GERMAN
    datasets: ClassVar = (uci.GERMAN,)
    positive: ClassVar = 2
    shape: ClassVar = (1000, 25)


@dataclass(frozen=True, kw_only=True)
class Heart(LogisticTask):
    """Statlog heart disease: 270 rows, 13 covariates and bias; disease present (2) is positive."""

    file: ClassVar = uci.HEART
    datasets: ClassVar = (uci.HEART,)
    positive: ClassVar = 2
    shape: ClassVar = (270, 14)
