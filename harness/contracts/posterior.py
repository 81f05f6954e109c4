"""Tasks that are a posterior of data: a likelihood, a prior and arrays; batches, scaling and padding are done here."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness.contracts.arrays import explained, require_data, row_count, validated
from harness.contracts.chain_sequence import ChainSequence, epochs, filled
from harness.contracts.density import moment_observer, starts
from harness.contracts.predictions import PredictiveObserver
from harness.contracts.randomness import ORDERS
from harness.contracts.task import Cost, Observer, Problem, Task, differentiate
from harness.system.errors import PluginError, UsageError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.contracts.randomness import Streams
    from harness.contracts.schedule import Trajectory

    Batch = dict[str, Tensor]

HELD_OUT = 10
"""One training row out of this many is held out when settings are tuned."""
GROUP_NUMBERS = 200_000
"""Most numbers in the rows of chains that are computed at once: beyond it each step maps memory anew."""


class Rows:
    """The rows of the arrays that a step uses: `rows["x"]` is (C, n, ...), or (1, n, ...) for all the data.

    Batches are filled up to one length with rows of zeros; `rows["present"]` is 0 for these and 1 for the others.
    """

    def __init__(self, arrays: Mapping[str, Tensor], index: Tensor | None) -> None:
        self.arrays, self.index = arrays, index

    def __getitem__(self, name: str) -> Tensor:
        import torch

        array = self.arrays[name]
        if self.index is None:
            return array[None]
        if array.ndim == 2:
            return torch.embedding(array, self.index)  # takes half the time of array[index]
        return array.take(self.index) if array.ndim == 1 else array[self.index]


@dataclass(frozen=True, kw_only=True)
class DataTask(Task):
    """A posterior: a subclass defines `dim`, `arrays`, `log_likelihood`, `protocols`, `metrics`, and a prior.

        U(theta) = -sum_{i=1..N} log p(row_i | theta) - log p(theta)

    A minibatch is the next n rows of the chain's own permutation of the N rows. An epoch is m = ceil(N/n) of them, the
    last one short, and each is scaled by m: the mean of the gradients of an epoch is exactly grad U. The setting
    `run.batch_order` offers other orders; a batch drawn with replacement has n rows and is scaled by N/n.

    prior_precision  of the prior N(0, I / prior_precision); for another prior leave it None and define `log_prior`
    batch            n, or None for all rows. Declare it as a parameter (`harness.param`) to make it a setting
    lanes            batches are filled up to a multiple of this, so that the rows of each chain have the same alignment
                     in the vector unit and a chain's bits do not depend on the others; 1 for networks
    """

    batch: ClassVar[int | None] = None
    lanes: ClassVar[int] = 16
    provides: ClassVar[frozenset[str]] = frozenset({"terms"})

    def __post_init__(self) -> None:
        """Raise `UsageError` if a batch has more rows than the data."""
        super().__post_init__()
        if self.batch is not None and self.batch > self.terms():
            name = self.datasets[0].dataset if self.datasets else "the data"
            raise UsageError(f"task.batch = {self.batch} is more than the {self.terms()} rows of {name}")

    def arrays(self, part: str) -> Mapping[str, NDArray[Any]]:
        """Return the data: named arrays of N rows. Floats are converted to the task's dtype, other types stay.

        `part` is "train", or "test" for the held-out rows of a classifier; "label" is the class of a row, 0 ... K - 1.
        If "test" has a "reference", it holds probabilities (M, K) with which predictions are compared.
        """
        raise NotImplementedError(f"{type(self).__name__} has no arrays")

    def logits(self, theta: Tensor, rows: Rows) -> Tensor:
        """Return the log-odds of the classes of each row, (C, n, K), up to a constant per row. For classifiers."""
        raise NotImplementedError(f"{type(self).__name__} has neither log_likelihood nor logits")

    def log_likelihood(self, theta: Tensor, rows: Rows) -> Tensor:
        """Return log p(row | theta), (C, n), at theta (C, D); unless overridden, that of `rows["label"]` by `logits`.

        It must be finite on a row of zeros, and chains must not interact.
        """
        label = rows["label"].expand(len(theta), -1)
        return self.logits(theta, rows).log_softmax(2).gather(2, label[..., None])[..., 0]

    def log_prior(self, theta: Tensor) -> Tensor:
        """Return log p(theta) (C,) up to a constant: N(0, I / prior_precision) unless overridden."""
        return -(self._precision() / 2) * theta.square().sum(1)

    def grad(self, theta: Tensor, rows: Rows) -> Tensor:
        """Return the gradient (C, D) of the sum of log_likelihood * present; by autograd unless overridden."""
        return self.value_and_grad(theta, rows)[1]

    def value_and_grad(self, theta: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return log_likelihood (C, n) and `grad` (C, D); override it if computing both together is cheaper."""
        if type(self).grad is not DataTask.grad:
            return self.log_likelihood(theta, rows), self.grad(theta, rows)

        def total(x: Tensor) -> tuple[Tensor, Tensor]:
            each = self.log_likelihood(x, rows)
            return (each * rows["present"]).sum(), each

        gradient, each = differentiate(total, theta)
        return each, gradient

    def prior_gradient(self, theta: Tensor) -> Tensor:
        """Return the gradient (C, D) of -log_prior."""
        if type(self).log_prior is not DataTask.log_prior:
            return differentiate(lambda x: (-self.log_prior(x).sum(), x), theta)[0]
        precision = self._precision()
        return theta if precision == 1 else precision * theta

    def add_prior_gradient(self, gradient: Tensor, theta: Tensor) -> Tensor:
        """Add the gradient of -log_prior to `gradient` (D,) of one chain, in place, and return it."""
        if type(self).log_prior is not DataTask.log_prior:
            return gradient.add_(self.prior_gradient(theta[None])[0])
        return gradient.add_(theta, alpha=self._precision())

    def scores(self, theta: Tensor, rows: Rows) -> Tensor:
        """Return the gradient of -log_likelihood * present of each row, (C, n, D). For tasks that provide "scores"."""
        raise NotImplementedError(f"{type(self).__name__} has no scores")

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inverse metric, (C, D, D) or its diagonal (C, D), and its divergence. For "metric"."""
        raise NotImplementedError(f"{type(self).__name__} has no metric")

    def start(self, generator: torch.Generator) -> Tensor:
        """Return the starting point (D,) of a chain, from its own generator; a draw from N(0, I) unless overridden."""
        import torch

        return torch.randn(self.dim(), generator=generator, dtype=torch.float64, device=generator.device)

    @property
    def classifies(self) -> bool:
        """Whether "label" is the class of a row, 0 ... K - 1."""
        return type(self).logits is not DataTask.logits

    @property
    def tested(self) -> bool:
        """Whether metrics use the rows of "test"."""
        return self.classifies

    def terms(self) -> int:
        """Return the number of rows, N. Override it with a number if reading the data takes long."""
        return row_count(f"{type(self).__name__}.arrays('train')", self.arrays("train"))

    def batch_orders(self) -> Sequence[str]:
        """Return the orders of minibatches, if there are any."""
        return ORDERS if self.batch is not None else ()

    def batch_terms(self) -> int:
        """Return the number of rows in a minibatch, n."""
        return self.terms() if self.batch is None else self.batch

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        """Return what turns draws into metrics: on held-out rows if these are `tested`, else against `truth`."""
        if self.tested:
            return PredictiveObserver(problem, chains, trajectory, cost)
        return moment_observer(self, trajectory, cost)

    def build(self, streams: Sequence[Streams], device: str) -> DataProblem:
        """Return the problem of `len(streams)` chains."""
        return DataProblem(self, streams, device)

    def _precision(self) -> float:
        if self.prior_precision is None:
            raise PluginError(f"{type(self).__name__} has no prior: set prior_precision or define log_prior")
        return self.prior_precision


class DataProblem(Problem):
    """The potential of a `DataTask`, as its docstring defines it, for C chains."""

    def __init__(self, task: DataTask, streams: Sequence[Streams], device: str) -> None:
        self.task = task
        self.streams = list(streams)
        self.device = device
        self.layout = task.layout()
        self.like: dict[str, NDArray[Any]] = {}
        self.dim, self.terms, self.batches = task.dim(), task.terms(), task.steps_per_epoch()
        self.arrays = self.read()
        self.row_numbers = max((leaf[0].numel() for leaf in self.arrays.values()), default=1)
        self.epochs: ChainSequence | None = None
        if task.batch is not None:
            self.epochs = epochs(streams, self.terms, task.batch_terms(), task.lanes)
        self.multiple: float = self.terms / task.batch_terms() if streams[0].order == "replaced" else self.batches

    def read(self) -> dict[str, Tensor]:
        """Return the arrays of the task, with rows of zeros added at the end, and "present"."""
        arrays = self.tensors(self.part("train"), filled(self.terms + 1, self.task.lanes))
        self._check_blank_row(arrays)
        return arrays

    def part(self, name: str) -> Mapping[str, NDArray[Any]]:
        """Return the task's arrays of a set.

        Of a classifier, the runs of a search by predictions do not use the test rows. Every tenth training row is held
        out in their place, and training uses the row before it twice, so that N, and with it U's scale and the cost,
        stay the same.
        """
        if not self.streams[0].holds_out or not self.task.tested or name not in {"train", "test"}:
            return self.valid(name)
        train = self.valid("train")
        rows = np.arange(len(next(iter(train.values()))))
        held_out = rows % HELD_OUT == HELD_OUT - 1
        chosen = rows[held_out] if name == "test" else rows - held_out
        return {key: values[chosen] for key, values in train.items()}

    def valid(self, name: str) -> dict[str, NDArray[Any]]:
        """Return the task's arrays of a set; raise `DataError` if they are wrong, or do not fit those of "train"."""
        arrays = validated(self.task, name, self.like)
        if name == "train":
            rows = len(next(iter(arrays.values())))
            fits = rows == self.terms or rows > self.terms == getattr(self.task, "few", None)
            require_data(fits, type(self.task).__name__, f"N is {self.terms}, but the arrays of train have {rows} rows")
            self.like = {key: rows[:1] for key, rows in arrays.items()}
        return arrays

    def tensors(self, arrays: Mapping[str, NDArray[Any]], length: int) -> dict[str, Tensor]:
        """Return arrays on the device, filled up with zeros to `length` rows, and "present"."""
        import torch

        dtype = getattr(torch, self.task.dtype)
        leaves = {"present": torch.zeros(length, dtype=dtype, device=self.device)}
        for name, array in arrays.items():
            leaf = torch.from_numpy(np.asarray(array)).to(self.device)
            leaves[name] = torch.zeros((length, *leaf.shape[1:]), dtype=leaf.dtype, device=self.device)
            leaves[name][: len(leaf)] = leaf
            leaves[name] = leaves[name].to(dtype) if leaf.is_floating_point() else leaves[name]
            leaves["present"][: len(leaf)] = 1
        return leaves

    def _check_blank_row(self, arrays: Mapping[str, Tensor]) -> None:
        import torch

        theta = arrays["present"].new_zeros((1, self.dim))
        blank = Rows(arrays, torch.full((1, self.task.lanes), self.terms, device=self.device))
        here = f"{type(self.task).__name__}.log_likelihood"
        with explained(here, {"theta": theta, **{name: blank[name] for name in arrays if name != "present"}}):
            each = self.task.log_likelihood(theta, blank)
            if each.shape != blank["present"].shape:
                raise ValueError(f"it returns {tuple(each.shape)}, not (1, n)")
            if not torch.isfinite(each).all():
                raise ValueError("it is not finite on rows of zeros, which fill up short batches and weigh nothing")

    def initial(self) -> Tensor:
        """Return `start` of each chain, (C, D)."""
        return starts(self.task, self.streams, self.device)

    def draw_batches(self, steps: int) -> Batch:
        """Return row indices, (steps, C, n filled up), with N in the empty places."""
        return {} if self.epochs is None else {"index": self.epochs.sent(self.epochs.take(steps), self.device)}

    def rows(self, chains: slice, batch: Batch | None) -> Rows:
        """Return the rows that these chains use."""
        if not batch:
            return Rows(self.arrays, None)
        index = batch["index"]
        return Rows(self.arrays, index if chains.stop - chains.start == len(index) else index[chains])

    def scale(self, batch: Batch | None) -> float:
        """Return the factor by which the sum over a batch is multiplied."""
        return self.multiple if batch else 1

    def _portions(self, theta: Tensor, batch: Batch | None) -> Iterator[tuple[Tensor, Rows]]:
        """Yield some chains at a time, so that memory is bounded, with their rows."""
        width = batch["index"].shape[1] if batch else len(self.arrays["present"])
        size = max(1, GROUP_NUMBERS // (width * self.row_numbers))
        if size >= len(theta):
            yield theta, self.rows(slice(0, len(theta)), batch)
            return
        for start in range(0, len(theta), size):
            chains = slice(start, min(start + size, len(theta)))
            yield theta[chains], self.rows(chains, batch)

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return U (C,)."""
        sums = [(self.task.log_likelihood(x, r) * r["present"]).sum(1) for x, r in self._portions(theta, batch)]
        return -self.scale(batch) * _joined(sums) - self.task.log_prior(theta)

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return grad U (C, D)."""
        likelihood = _joined([self.task.grad(x, rows) for x, rows in self._portions(theta, batch)])
        return self.task.prior_gradient(theta) - self.scale(batch) * likelihood

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D)."""
        sums, slopes = [], []
        for x, rows in self._portions(theta, batch):
            each, slope = self.task.value_and_grad(x, rows)
            sums.append((each * rows["present"]).sum(1))
            slopes.append(slope)
        scale = self.scale(batch)
        energy = -scale * _joined(sums) - self.task.log_prior(theta)
        return energy, self.task.prior_gradient(theta) - scale * _joined(slopes)

    def scores(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return the scores of the rows of a batch, (C, n, D), without the prior."""
        n = self.task.batch_terms() if batch else self.terms
        return _joined([self.task.scores(x, rows) for x, rows in self._portions(theta, batch)])[:, :n]

    def metric(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return the task's inverse metric and its divergence."""
        return self.task.metric(theta)

    def observer(self, rows: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        """Return the task's observer."""
        return self.task.observer(self, rows, trajectory, cost)

    @functools.cached_property
    def held_out(self) -> dict[str, Tensor]:
        """The arrays of the test rows, on the device."""
        arrays = self.part("test")
        return self.tensors(arrays, len(arrays["label"]))

    @functools.cached_property
    def labels(self) -> Mapping[str, Tensor]:
        """The classes (M,) of the rows of "test"."""
        return {"test": self.held_out["label"]}

    @property
    def reference(self) -> Tensor | None:
        """Predictive probabilities (M, K) to compare with a classifier's: "reference" of the test rows, or None."""
        return self.held_out.get("reference")

    def predict(self, theta: Tensor, chains: slice, name: str) -> Iterator[Tensor]:
        """Yield log p (C, m, K) of the classes of successive rows of a set, for draws theta (C, D) of `chains`."""
        yield self.task.logits(theta, Rows(self.held_out, None)).log_softmax(2)

    def state(self) -> dict[str, Tensor]:
        """Return the place of each chain in its epoch."""
        return {} if self.epochs is None else self.epochs.state()

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        if self.epochs is not None:
            self.epochs.load(state)


def _joined(parts: list[Tensor]) -> Tensor:
    import torch

    return parts[0] if len(parts) == 1 else torch.cat(parts)
