"""The observer of classifiers: what the papers' tables and figures need beyond the scores of predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harness import diagnostics
from harness.tasks import Outcome, PredictiveObserver, finite_or_none
from tasks.networks.metrics import UNDEFINED, disagreements, mean_disagreements
from tasks.networks.sketch import WIDTH, sketch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, NetworkProblem


class ClassifierObserver(PredictiveObserver):
    """Metrics of `classifier_metrics`: those of `PredictiveObserver`, of pairs of draws, and on other sets.

    last     draws whose accuracies are averaged (`lastN_test_accuracy`, N = 5); none: all that are (`test_accuracy`)
    train    whether these are taken through the training images too
    share_kept  the share of the weights of theta (C, D) that are kept, (C,): its mean over averaged draws is `sparsity`
    by_cycle whether the mean prediction of each cycle of each chain is kept too, for cycle weights

    Curves as those of `PredictiveObserver` and, with `train`, single_train_error and single_train_nll (C, n). Arrays,
    draws by chains in a row: sketch (S, 1024), cycle, steps and chain (S,), buffers (S, B) where there are some;
    entropy_test and entropy_<set> of the posterior mean; disagreements (S', S') of the draws that are averaged; with
    `by_cycle`, cycle_predictions (M, C, n, K) of the M cycles `cycle_numbers` that have averaged draws, test_labels
    (n,) and N, train_terms (1,).
    Memory: sets x K float64, M times as much with `by_cycle`, and S x (test images x 2 bytes + 4 KiB + buffers).
    """

    def __init__(
        self,
        problem: NetworkProblem,
        chains: slice,
        trajectory: Trajectory,
        cost: Cost,
        *,
        last: int | None = 5,
        train: bool = False,
        average: int | None = None,
        unseen: Sequence[str] = (),
        by_cycle: bool = False,
        share_kept: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(
            problem, chains, trajectory, cost, average=average, unseen=dict(zip(unseen, unseen, strict=True))
        )
        self.train, self.by_cycle, self.share_kept = train, by_cycle, share_kept
        self.prefix = f"last{last}_" if last is not None else ""
        kept = np.flatnonzero(trajectory.keep) + 1
        self.first_last = self.first_averaged if last is None else max(0, len(kept) - last)
        self.cycle = trajectory.cycle[self.recorded - 1]
        self.cycle_numbers, self.cycle_index = np.unique(trajectory.cycle[kept - 1], return_inverse=True)
        shape, device = (len(self.recorded), self.chains), self.labels.device
        self.tensors |= {
            "last": self.zeros(2),
            "train_curves": torch.full((2, *shape), torch.nan, dtype=torch.float64, device=device),
            "predicted": torch.zeros((*shape, len(self.labels)), dtype=torch.int16, device=device),
            "sketch": torch.zeros((*shape, WIDTH), device=device),
            "buffers": problem.buffers.new_zeros((*shape, problem.buffers.shape[1])),
            "kept": self.zeros(1),
            "cycle_weights": self.zeros(len(self.cycle_numbers), self.chains, 1, 1),
        }

    def observe_draw(self, theta: Tensor, weight: Tensor) -> tuple[int, Tensor, Tensor]:
        seen, logs, error = super().observe_draw(theta, weight)
        sums, point = self.tensors, seen // self.stride
        recorded, in_last = seen % self.stride == 0, seen >= self.first_last
        train = self._train_scores(theta) if self.train and (in_last or recorded) else None
        if in_last:
            sums["last"][0] += error.mean() / 100
            sums["last"][1] += 0 if train is None else train[0].mean()
        if seen >= self.first_averaged:
            if self.share_kept:
                sums["kept"] += (weight * self.share_kept(theta)).sum()
            if self.by_cycle:
                if "cycle_sums" not in sums:
                    sums["cycle_sums"] = self.zeros(len(self.cycle_numbers), *logs.shape)
                sums["cycle_weights"][self.cycle_index[seen]] += weight[:, None, None]
                sums["cycle_sums"][self.cycle_index[seen]] += weight[:, None, None] * logs.exp()
        if recorded:
            if train is not None:
                sums["train_curves"][0, point], sums["train_curves"][1, point] = 100 * train[0], train[1]
            sums["predicted"][point] = logs.argmax(2).where(~logs.isnan().any(2), UNDEFINED).to(torch.int16)
            sums["sketch"][point] = sketch(theta)
            sums["buffers"][point] = self.problem.buffers[self.rows]
        return seen, logs, error

    def _train_scores(self, theta: Tensor) -> Tensor:
        """Error rate and mean negative log-likelihood of each chain on the training images, (2, C)."""
        start, totals = 0, self.zeros(2, self.chains)
        labels = self.problem.labels["train"]
        for logs in self.problem.predict(theta, self.rows, "train"):
            true = labels[start : start + logs.shape[1]]
            totals[0] += (logs.argmax(2) != true).double().where(~logs.isnan().any(2), torch.nan).sum(1)
            totals[1] -= logs.gather(2, true.expand(self.chains, -1)[..., None]).double().sum((1, 2))
            start += logs.shape[1]
        return totals / len(labels)

    def outcome(self) -> Outcome:
        plain = super().outcome()
        if not plain.metrics:
            return plain
        sums = {name: leaf.cpu().numpy() for name, leaf in self.tensors.items()}
        points = -(-int(sums["seen"][0]) // self.stride)
        mean, labels = self.means(), self.labels.cpu().numpy()
        counted = max(1, int(sums["seen"][0]) - self.first_last)
        averaged = np.arange(points) * self.stride >= self.first_averaged
        pairs = disagreements(sums["predicted"][:points][averaged].reshape(-1, len(labels)))
        cycle = np.repeat(self.cycle[:points], self.chains)
        values: dict[str, float | None] = {
            f"{self.prefix}test_accuracy": 100 * (1 - sums["last"][0] / counted),
            f"{self.prefix}train_accuracy": 100 * (1 - sums["last"][1] / counted) if self.train else None,
            **mean_disagreements(pairs, np.repeat(self.cycle[:points][averaged], self.chains)),
            **{f"top{k}": 100 * diagnostics.calibration.top_accuracy(mean["test"], labels, k) for k in (1, 5)},
            **({"sparsity": 100 * (sums["kept"] / sums["weight"])[0]} if self.share_kept else {}),
        }
        train = {
            f"single_train_{name}": (self.passes[:points], sums["train_curves"][k, :points].T.copy())
            for k, name in enumerate(("error", "nll"))
            if self.train
        }
        flat = {name: sums[name][:points].reshape(points * self.chains, -1) for name in ("sketch", "buffers")}
        arrays: dict[str, NDArray[np.generic]] = {
            **plain.arrays,
            "sketch": flat["sketch"],
            "cycle": cycle,
            "steps": np.repeat(self.recorded[:points], self.chains),
            "chain": np.tile(np.arange(self.chains), points),
            "disagreements": pairs,
            "entropy_test": diagnostics.ood.entropy(mean["test"]).astype(np.float32),
            **({"buffers": flat["buffers"]} if flat["buffers"].size else {}),
            **(self._cycles(sums, labels) if self.by_cycle else {}),
        }
        metrics = {**plain.metrics, **{name: finite_or_none(v) for name, v in values.items()}}
        return Outcome(metrics, {**plain.curves, **train}, arrays)

    def _cycles(self, sums: Mapping[str, NDArray[Any]], labels: NDArray[np.int64]) -> dict[str, NDArray[np.generic]]:
        """The mean prediction of each cycle that has averaged draws."""
        there = sums["cycle_weights"][:, 0, 0, 0] > 0
        return {
            "cycle_predictions": (sums["cycle_sums"][there] / sums["cycle_weights"][there]).astype(np.float32),
            "cycle_numbers": self.cycle_numbers[there],
            "test_labels": labels,
            "train_terms": np.array([len(self.problem.labels["train"])]),
        }
