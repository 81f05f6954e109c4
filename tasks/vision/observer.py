"""The observer of a classifier: predictive distributions streamed on the device, no draw kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from harness import Observer, Outcome, diagnostics, finite_or_none
from tasks.vision.scores import disagreements, mean_disagreements, unseen_values
from tasks.vision.sketch import WIDTH, sketch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Cost, Trajectory
    from tasks.vision.problem import Classifier

    Array = NDArray[np.float64]

RECORDED = 600
"""Most draws of a chain that curves, sketches and disagreements are of, evenly spaced; means are over all of them."""

CURVES = ("test_error", "nll", "single_test_error", "single_nll", "single_train_error", "single_train_nll")
"""The last two with `train` only."""


class ClassifierObserver(Observer):
    """Metrics of `classifier_metrics`: of the posterior mean, of single draws, and of pairs of draws.

    Each draw is taken through the test images and the unseen sets once. The posterior mean is the weighted mean of the
    probabilities over draws and chains, in float64.

    last     draws whose accuracies are averaged (`lastN_test_accuracy`, N = 5); none: all that are (`test_accuracy`)
    train    whether these are taken through the training images too
    average  only the last so many draws enter the posterior mean, single-draw means and disagreements; none: all
    share_kept  the share of the weights of theta (C, D) that are kept, (C,): its mean over averaged draws is `sparsity`
    by_cycle whether the mean prediction of each cycle of each chain is kept too, for cycle weights

    Curves over data passes, errors in percent: test_error and nll of the posterior mean so far (1, n);
    single_test_error, single_nll and, with `train`, single_train_error and single_train_nll (C, n). Arrays, draws by
    chains in a row: sketch (S, 1024), cycle, steps and chain (S,), buffers (S, B) where there are some; entropy_test
    and entropy_<set> of the posterior mean; disagreements (S', S') of the draws that are averaged; with `by_cycle`,
    cycle_predictions (M, C, n, K) of the M cycles `cycle_numbers` that have averaged draws, test_labels (n,) and N,
    train_terms (1,).
    Memory: sets x K float64, M times as much with `by_cycle`, and S x (test images + 4 KiB + buffers).
    """

    def __init__(
        self,
        problem: Classifier,
        rows: slice,
        trajectory: Trajectory,
        cost: Cost,
        *,
        last: int | None = 5,
        train: bool = False,
        average: int | None = None,
        by_cycle: bool = False,
        share_kept: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.problem, self.rows = problem, rows
        self.train = train
        self.prefix = f"last{last}_" if last is not None else ""
        kept = np.flatnonzero(trajectory.keep) + 1
        self.chains = rows.stop - rows.start
        self.first_averaged = 0 if average is None else max(0, len(kept) - average)
        self.first_last = self.first_averaged if last is None else max(0, len(kept) - last)
        self.stride = -(-len(kept) // RECORDED) or 1
        self.recorded = kept[:: self.stride]
        self.cycle = trajectory.cycle[self.recorded - 1]
        self.cycle_numbers, self.place = np.unique(trajectory.cycle[kept - 1], return_inverse=True)
        self.passes = cost.after(self.recorded.astype(np.float64))
        self.device = problem.buffers.device
        points, images = len(self.recorded), len(problem.labels["test"])
        self.sums = {"test": self._zeros(images, problem.classes)}
        byte = torch.uint8 if problem.classes <= 256 else torch.int16
        self.tensors = {
            "weight": self._zeros(1),
            "seen": torch.zeros(1, dtype=torch.int64, device=self.device),
            "single": self._zeros(2),
            "last": self._zeros(2),
            "curves": torch.full((6, points, self.chains), torch.nan, dtype=torch.float64, device=self.device),
            "predicted": torch.zeros((points, self.chains, images), dtype=byte, device=self.device),
            "sketch": torch.zeros((points, self.chains, WIDTH), device=self.device),
            "buffers": problem.buffers.new_zeros((points, self.chains, problem.buffers.shape[1])),
        }
        self.share_kept = share_kept
        if share_kept:
            self.tensors["kept"] = self._zeros(1)
        if by_cycle:
            self.tensors["cycle_sums"] = self._zeros(len(self.cycle_numbers), self.chains, images, problem.classes)
            self.tensors["cycle_weights"] = self._zeros(len(self.cycle_numbers), self.chains, 1, 1)

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    @torch.no_grad()
    def observe(self, draws: Tensor, weights: Tensor, steps: NDArray[np.int64]) -> None:
        for theta, weight in zip(draws, weights.to(torch.float64), strict=True):
            self._observe(theta, weight)

    def _observe(self, theta: Tensor, weight: Tensor) -> None:
        """One draw of every chain, theta (C, D), weights (C,)."""
        own, labels = self.tensors, self.problem.labels
        seen = int(own["seen"])
        own["seen"] += 1
        averaged, point = seen >= self.first_averaged, seen // self.stride
        recorded = seen % self.stride == 0
        logs = torch.cat(list(self.problem.predict(theta, self.rows, "test")), dim=1).to(torch.float64)
        predicted = logs.argmax(2)
        error = (predicted != labels["test"]).double().mean(1)
        loss = -logs.gather(2, labels["test"].expand(self.chains, -1)[..., None]).mean((1, 2))
        in_last = seen >= self.first_last
        train = self._train_scores(theta) if self.train and (in_last or recorded) else None
        if in_last:
            own["last"][0] += error.mean()
            own["last"][1] += 0 if train is None else train[0].mean()
        if averaged:
            own["weight"] += weight.sum()
            own["single"] += torch.stack([(weight * error).sum(), (weight * loss).sum()])
            self._add("test", weight, logs)
            if self.share_kept:
                own["kept"] += (weight * self.share_kept(theta)).sum()
            if "cycle_sums" in own:
                own["cycle_weights"][self.place[seen]] += weight[:, None, None]
                own["cycle_sums"][self.place[seen]] += weight[:, None, None] * logs.exp()
            for name in self.problem.unseen:
                self._add(name, weight, torch.cat(list(self.problem.predict(theta, self.rows, name)), dim=1))
        if recorded:
            own["curves"][:2, point, 0] = self._running_mean_scores()
            own["curves"][2, point], own["curves"][3, point] = 100 * error, loss
            if train is not None:
                own["curves"][4, point], own["curves"][5, point] = 100 * train[0], train[1]
            own["predicted"][point] = predicted.to(own["predicted"].dtype)
            own["sketch"][point] = sketch(theta)
            own["buffers"][point] = self.problem.buffers[self.rows]

    def _add(self, name: str, weight: Tensor, logs: Tensor) -> None:
        """Weigh in the predictions of all chains, one after the other: the sum is the same for any number of chains."""
        if name not in self.sums:
            self.sums[name] = self._zeros(*logs.shape[1:])
        for w, one in zip(weight, logs, strict=True):
            self.sums[name] += w * one.to(torch.float64).exp()

    def _train_scores(self, theta: Tensor) -> Tensor:
        """Error rate and mean negative log-likelihood of each chain on the training images, (2, C)."""
        start, found = 0, self._zeros(2, self.chains)
        labels = self.problem.labels["train"]
        for logs in self.problem.predict(theta, self.rows, "train"):
            true = labels[start : start + logs.shape[1]]
            found[0] += (logs.argmax(2) != true).double().sum(1)
            found[1] -= logs.gather(2, true.expand(self.chains, -1)[..., None]).double().sum((1, 2))
            start += logs.shape[1]
        return found / len(labels)

    def _running_mean_scores(self) -> Tensor:
        """Error in percent and NLL of the posterior mean so far; NaN before its first draw."""
        labels = self.problem.labels["test"]
        mean = self.sums["test"] / self.tensors["weight"]
        wrong = (mean.argmax(1) != labels).double().mean()
        loss = -mean.gather(1, labels[:, None]).log().mean()
        return torch.stack([torch.where(self.tensors["weight"][0] > 0, 100 * wrong, torch.nan), loss])

    def outcome(self) -> Outcome:
        own = {name: leaf.cpu().numpy() for name, leaf in self.tensors.items()}
        if not own["weight"][0] > 0:
            return Outcome({})
        points = -(-int(own["seen"][0]) // self.stride)
        labels = self.problem.labels["test"].cpu().numpy()
        mean = {name: (total.cpu().numpy() / own["weight"][0]) for name, total in self.sums.items()}
        singles = own["single"] / own["weight"][0]
        counted = max(1, int(own["seen"][0]) - self.first_last)
        entropies = {name: diagnostics.ood.entropy(p) for name, p in mean.items()}
        averaged = np.arange(points) * self.stride >= self.first_averaged
        pairs = disagreements(own["predicted"][:points][averaged].reshape(-1, len(labels)))
        cycle = np.repeat(self.cycle[:points], self.chains)
        values: dict[str, float | None] = {
            "test_error": 100 * diagnostics.calibration.error_rate(mean["test"], labels),
            "nll": diagnostics.calibration.nll(mean["test"], labels),
            "ece": diagnostics.calibration.ece(mean["test"], labels),
            "brier": diagnostics.calibration.brier(mean["test"], labels),
            "single_test_error": 100 * singles[0],
            "single_nll": singles[1],
            f"{self.prefix}test_accuracy": 100 * (1 - own["last"][0] / counted),
            f"{self.prefix}train_accuracy": 100 * (1 - own["last"][1] / counted) if self.train else None,
            **mean_disagreements(pairs, np.repeat(self.cycle[:points][averaged], self.chains)),
            **{f"top{k}": 100 * diagnostics.calibration.top_accuracy(mean["test"], labels, k) for k in (1, 5)},
            **unseen_values(mean, entropies),
            **({"sparsity": 100 * (own["kept"] / own["weight"])[0]} if self.share_kept else {}),
        }
        curves = {
            name: (self.passes[:points], own["curves"][k, :points, : 1 if k < 2 else None].T.copy())
            for k, name in enumerate(CURVES)
            if self.train or k < 4
        }
        flat = {name: own[name][:points].reshape(points * self.chains, -1) for name in ("sketch", "buffers")}
        arrays: dict[str, NDArray[np.generic]] = {
            "sketch": flat["sketch"],
            "cycle": cycle,
            "steps": np.repeat(self.recorded[:points], self.chains),
            "chain": np.tile(np.arange(self.chains), points),
            "disagreements": pairs,
            **{f"entropy_{name}": found.astype(np.float32) for name, found in entropies.items()},
            **({"buffers": flat["buffers"]} if flat["buffers"].size else {}),
            **(self._by_cycle(own, labels) if "cycle_sums" in own else {}),
        }
        return Outcome({name: finite_or_none(v) for name, v in values.items()}, curves, arrays)  # type: ignore[arg-type]

    def _by_cycle(self, own: Mapping[str, NDArray[Any]], labels: NDArray[np.int64]) -> dict[str, NDArray[np.generic]]:
        """The mean prediction of each cycle that has averaged draws."""
        there = own["cycle_weights"][:, 0, 0, 0] > 0
        return {
            "cycle_predictions": (own["cycle_sums"][there] / own["cycle_weights"][there]).astype(np.float32),
            "cycle_numbers": self.cycle_numbers[there],
            "test_labels": labels,
            "train_terms": np.array([len(self.problem.labels["train"])]),
        }

    def state(self) -> dict[str, Tensor]:
        return self.tensors | {f"sum/{name}": total for name, total in self.sums.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        for name in self.tensors:
            self.tensors[name] = state[name].to(self.device, copy=True)
        sums = {n.removeprefix("sum/"): leaf for n, leaf in state.items() if n.startswith("sum/")}
        self.sums = {name: total.to(self.device, copy=True) for name, total in sums.items()}
