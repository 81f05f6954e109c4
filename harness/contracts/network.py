"""Tasks that are the posterior of a network's weights: any torch module, as a function of one row of theta."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from harness.contracts.chain_sequence import ChainSequence
from harness.contracts.module import ROW_ALIGNMENT, Layout, Network, aligned
from harness.contracts.posterior import DataProblem, DataTask
from harness.contracts.predictions import Classification, Likelihood, unseen_metrics
from harness.contracts.task import Cost, Metric, Observer
from harness.system.errors import PluginError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.contracts.randomness import Streams
    from harness.contracts.schedule import Trajectory

    Batch = dict[str, Tensor]


class WithProblem(Protocol):
    """A network that makes its problem itself, as `tasks.mlp.MLP` does."""

    layout: Layout

    def start(self, generator: torch.Generator) -> Tensor:
        """Return starting weights (D,) float32."""

    def problem(self, task: NetworkTask, streams: Sequence[Streams], device: str) -> NetworkProblem:
        """Return the problem of `len(streams)` chains; `PluginError` for a task that it cannot be that of."""


@dataclass(frozen=True, kw_only=True)
class NetworkTask(DataTask):
    """The posterior of a network's weights: a subclass defines `network`, `arrays`, `protocols` and `prior_precision`.

        U(theta) = -sum_i log p(y_i | f(x_i; theta)) - log p(theta)

    `arrays(part)` has "x" and the labels y, "label", of any shapes (N, ...); they stay on the device unchanged, and
    `inputs` turns "x" into the network's input. The minibatches are those of `DataTask`, but short ones are cut and not
    filled up. `changes` and `change` augment them. Batch normalisation makes U a function of the batch; its running
    statistics are part of the draw.

    likelihood  of y given the network's outputs: `Classification()`, or one of `tasks.likelihoods`. A task may define
                `log_likelihood` in its place; its metrics are then those of the predictive density
    unseen     name -> part: `arrays(part)` has "x" of another kind, and metrics say how it is told from the test rows
    metrics    those of likelihood and unseen sets, unless they are stated; metrics of `scores` are stated with them
    precision  "float32", which stands for theta's own dtype, or "bfloat16": autocast in the forward pass of a module
    size       N, for tasks whose data takes long to read
    few        the number of rows of each set that are used; None for all
    in_laws    settings for testing laws, which also use few rows and float64
    """

    dtype: ClassVar[str] = "float32"
    opaque: ClassVar[bool] = True
    lanes: ClassVar[int] = 1
    provides: ClassVar[frozenset[str]] = frozenset({"terms", "layout"})
    likelihood: ClassVar[Likelihood] = Classification()
    unseen: ClassVar[Mapping[str, str]] = {}
    metrics: ClassVar[Sequence[Metric]] = likelihood.metrics
    precision: ClassVar[str] = "float32"
    size: ClassVar[int | None] = None
    few: ClassVar[int | None] = None
    in_laws: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        stated = vars(cls)
        if {"log_likelihood", "likelihood"} <= stated.keys():
            raise PluginError(f"{cls.__name__} states both log_likelihood and likelihood; one of them is enough")
        if "log_likelihood" in stated:
            cls.likelihood = Likelihood()
        elif "likelihood" in stated:
            if not isinstance(cls.likelihood, Likelihood):
                raise PluginError(f"{cls.__name__}.likelihood is {cls.likelihood!r:.80}; write an object, Regression()")
            cls.log_likelihood = NetworkTask.log_likelihood  # type: ignore[method-assign]
        if "metrics" not in stated and stated.keys() & {"likelihood", "unseen"} and isinstance(cls.unseen, Mapping):
            cls.metrics = (*cls.likelihood.metrics, *unseen_metrics(cls.likelihood, cls.unseen))

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self).log_likelihood is not NetworkTask.log_likelihood:
            object.__setattr__(self, "likelihood", Likelihood(self.log_likelihood))

    @property
    def classifies(self) -> bool:
        """Whether "label" is the class of a row, from 0 on."""
        return type(self.likelihood) is Classification and type(self).mean_loss is NetworkTask.mean_loss

    @property
    def tested(self) -> bool:
        """True: a network's metrics use the rows of "test"."""
        return True

    def network(self) -> Network | WithProblem:
        """Return `Network(make)`, of a function that makes a torch module, or `MLP(sizes)` of `tasks.mlp`."""
        raise NotImplementedError(f"{type(self).__name__} has no network")

    def inputs(self, x: Tensor) -> Tensor:
        """Return the network's input for rows "x" (..., inputs), in theta's dtype; make constants with `constant`."""
        import torch

        return x.to(getattr(torch, self.dtype))

    def changes(self, generator: np.random.Generator, shape: tuple[int, int]) -> Tensor | None:
        """Return the changes to the rows of an epoch, (batches, n, ...), or None for no changes."""
        return None

    def change(self, x: Tensor, changes: Tensor) -> Tensor:
        """Return the rows "x" (n, ...) of one chain's batch after their `changes` (n, ...) are applied."""
        return x

    def log_likelihood(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return log p(y | outputs) of each row, (n,), for outputs (n, ...) and labels y (n, ...); `likelihood`'s."""
        return self.likelihood.log_likelihood(outputs, y)

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the mean over rows of -log p(y | outputs), which is differentiated."""
        return self.likelihood.mean_loss(outputs, y)

    def scores(self, mean: NDArray[Any], y: NDArray[Any]) -> Mapping[str, float]:  # type: ignore[override]
        """Return metrics of one's own by name, of the mean prediction (M, ...) and the labels of the test rows."""
        return {}

    def extended(self) -> Network | WithProblem:
        """Return `network` with the likelihood's own parameters, if it has any."""
        return self.likelihood.extended(self.network())

    def dim(self) -> int:
        """Return the number of parameters, D."""
        return self.layout().dim

    def layout(self) -> Layout:
        """Return the parameters of the network, by name."""
        return self.extended().layout

    def terms(self) -> int:
        """Return the number of training rows, N."""
        rows = self.size or super().terms()
        return min(self.few or rows, rows)

    def start(self, generator: torch.Generator) -> Tensor:
        """Return the weights (D,) as the network's own initialisation draws them."""
        return self.extended().start(generator)

    def max_block(self, device: str) -> int:
        """Return 1 for a large network on a CPU, whose cache holds the weights of one run; otherwise 64."""
        return 1 if device == "cpu" and self.dim() > 20_000 else 64

    def for_laws(self) -> Self:
        """Return the same code in float64, with few rows and the settings `in_laws`."""
        small = type(f"Small{type(self).__name__}", (type(self),), {"dtype": "float64", "few": 60})
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        task: Self = small(**{**settings, **self.in_laws})
        return task

    def observer(self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost) -> Observer:
        """Return the likelihood's observer, with `unseen` sets and `scores`."""
        return self.likelihood.observer(
            problem, chains, trajectory, cost, unseen=self.unseen, scores=self._declared_scores
        )

    def _declared_scores(self, mean: NDArray[Any], y: NDArray[Any]) -> Mapping[str, float]:
        values = self.scores(mean, y)
        if unknown := values.keys() - {metric.name for metric in self.metrics}:
            raise PluginError(
                f"{type(self).__name__}.scores returns {min(unknown)!r}, which is not among its metrics; add "
                f"Metric({min(unknown)!r}, 'max', '1', 'what it measures') to those of its likelihood: Kind().metrics"
            )
        return values

    def build(self, streams: Sequence[Streams], device: str) -> NetworkProblem:
        """Return the problem of `len(streams)` chains."""
        network = self.extended()
        return (
            NetworkProblem(self, streams, device)
            if isinstance(network, Network)
            else network.problem(self, streams, device)
        )


class NetworkProblem(DataProblem):
    """The potential of a `NetworkTask`, computed one chain after the other, because a module's chains share no kernel.

    On a batch the *mean* loss is differentiated, under autocast if the task asks for it. The flat gradient is then
    multiplied in theta's precision by the number of rows that it stands for, and the prior is added. The usual loss is
    the mean over each batch, including the short one: there the last batch has the same weight as the others, here its
    weight is its share of the rows. The full U uses the rows without changes, in stretches; batch normalisation uses
    each stretch's own statistics, as in training, and does not update the running ones.

        index   (steps, C, n) int64   rows of the training set, with N in the empty places of a short batch
        change  (steps, C, n, ...)    if the task has `changes`

    labels   name of a set ("test", "train") -> y (n, ...)
    buffers  running statistics of normalisation, (C, B); B = 0 if there are none. Gradients on a batch update them. A
             draw consists of theta and buffers, so `block_limit` is 1 if there are any
    """

    task: NetworkTask
    network: Any
    cuts_batches: ClassVar[bool] = True
    """Whether short batches have fewer rows, or are filled up. If so, the blocks of a GPU are single steps."""

    stretch: ClassVar[int] = 500
    """Number of rows in one forward pass when a whole set goes through the network. The full U may depend on it."""

    stretch_on_gpu: ClassVar[int] = 2_500
    """The same for predictions on a GPU, which more rows keep busy. They do not depend on it."""

    def __init__(self, task: NetworkTask, streams: Sequence[Streams], device: str) -> None:
        import torch

        self.network = task.extended()
        super().__init__(task, streams, device)
        self.dtype: torch.dtype = getattr(torch, task.dtype)
        self._changes: ChainSequence | None = None
        self._compiled: Callable[..., Tensor] | None = None
        shape = (self.batches, task.batch_terms())
        if task.changes(streams[0].numpy("data"), shape) is not None:
            self._changes = ChainSequence([s.numpy("data") for s in streams], lambda g: task.changes(g, shape))
        statistics = self.network.first_statistics().to(device, self.dtype)
        self.buffers = _rows(statistics, len(streams))
        self.block_limit = 1 if len(statistics) or (self.cuts_batches and device != "cpu") else None

    def read(self) -> dict[str, Tensor]:
        """Return the training rows without an added row of zeros."""
        return self.set("train")

    @functools.cached_property
    def sets(self) -> dict[str, dict[str, Tensor]]:
        """The sets that were read, by name."""
        return {}

    def set(self, name: str) -> dict[str, Tensor]:
        """Return the rows of a set on the device; they are read once. Memory maps are not copied on a CPU."""
        import torch

        if name not in self.sets:
            arrays = {key: array[: self.task.few] for key, array in self.part(name).items()}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that a memory map cannot be written
                self.sets[name] = {key: torch.as_tensor(array).to(self.device) for key, array in arrays.items()}
            mapped = np.memmap if self.device == "cpu" else ()
            self.held_bytes += sum(array.nbytes for array in arrays.values() if not isinstance(array, mapped))
        return self.sets[name]

    def first_rows(self, count: int) -> Self:
        """Return a copy whose observers get only the first rows of each set."""
        few = copy.copy(self)
        vars(few).pop("labels", None)
        few.set = lambda name: {key: array[:count] for key, array in self.set(name).items()}  # type: ignore[method-assign]
        return few

    @functools.cached_property
    def labels(self) -> Mapping[str, Tensor]:
        """The labels (n, ...) of "train" and "test"."""
        return {name: self.set(name)["label"] for name in ("train", "test")}

    @property
    def reference(self) -> Tensor | None:
        """Predictive probabilities (M, K) to compare with those of the test rows, if the task has them."""
        return self.set("test").get("reference")

    def initial(self) -> Tensor:
        """Return `start` of each chain, (C, D)."""
        import torch

        return torch.stack([self.task.start(s.torch("init")) for s in self.streams]).to(self.device, self.dtype)

    def draw_batches(self, steps: int) -> Batch:
        """Return the indices of rows and the changes to the rows.

        On a GPU they are those of one step. A recorded step cannot read how many rows its batch has, so it gets its
        tensors in their final form, on the GPU and without empty places.
        """
        if self.epochs is None:
            return {}
        sequences = {"index": self.epochs} | ({} if self._changes is None else {"change": self._changes})
        batch = {name: sequence.take(steps) for name, sequence in sequences.items()}
        if self.device == "cpu":
            return batch
        assert steps == 1, "a network's block is one step on a GPU"
        size = int((batch["index"][0, 0] < self.terms).sum())
        return {name: sequences[name].sent(part, self.device)[:, :, :size] for name, part in batch.items()}

    def batch_rows(self, c: int, batch: Batch, size: int) -> tuple[Tensor, Tensor]:
        """Return the rows "x" of chain c's batch as a training step uses them, and their labels; `size` of each."""
        index = batch["index"][c, :size].to(self.device, non_blocking=True)
        x = self.arrays["x"][index]
        if "change" in batch:
            x = self.task.change(x, batch["change"][c, :size].to(self.device))
        return x, self.labels["train"][index]

    def stretches(self, name: str, length: int) -> Iterator[Tensor]:
        """Yield the rows "x" of a set without changes, in order, `length` at a time."""
        yield from self.set(name)["x"].split(length)

    def energy(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return U (C,)."""
        import torch

        losses = []
        with torch.no_grad():
            for c, x in enumerate(theta):
                parts = [self._mean_loss(c, x, part, update=False) * n for n, part in self.parts(c, batch)]
                losses.append(torch.stack(parts).sum() if parts else x.new_zeros(()))
            return torch.stack(losses) - self.task.log_prior(theta)

    def energy_and_gradient(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        """Return U (C,) and grad U (C, D)."""
        losses, gradient = self._differentiate(theta, batch)
        return losses - self.task.log_prior(theta.detach()), gradient

    def gradient(self, theta: Tensor, batch: Batch | None) -> Tensor:
        """Return grad U (C, D)."""
        return self._differentiate(theta, batch)[1]

    def compile_network(self) -> None:
        """Compile the loss and its gradient when they are first used, for each size of a batch."""
        import torch

        self._compiled = torch.compile(self._loss, fullgraph=True, dynamic=False, options={"compile_threads": 1})

    @contextmanager
    def _compiling(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if self._compiled is None or not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise
            raise PluginError(
                f"the network of {type(self.task).__name__} was not compiled; leave out run.compile=network. "
                f"The reason: {type(error).__name__}: {str(error).strip()}"
            ) from error

    def _differentiate(self, theta: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        """Return the likelihood's part of U (C,), and grad U (C, D)."""
        import torch

        by_chain = [self._differentiate_chain(c, x.detach(), batch) for c, x in enumerate(theta)]
        losses = torch.stack([loss for loss, _ in by_chain])
        return losses, by_chain[0][1][None] if len(by_chain) == 1 else torch.stack([slope for _, slope in by_chain])

    def _differentiate_chain(self, c: int, x: Tensor, batch: Batch | None) -> tuple[Tensor, Tensor]:
        import torch

        weights = x.requires_grad_()
        losses: list[Tensor] = []
        gradient: Tensor | None = None
        for n, part in self.parts(c, batch):
            with torch.enable_grad(), self._compiling(), self.network.safe_kernels():
                mean = self._mean_loss(c, weights, part, update=batch is not None)
                (slope,) = torch.autograd.grad(mean, weights)
            losses.append(mean.detach() * n)
            slope = slope.mul_(n)
            gradient = slope if gradient is None else gradient.add_(slope)
        assert gradient is not None
        return torch.stack(losses).sum(), self.task.add_prior_gradient(gradient, x.detach())

    def parts(self, c: int, batch: Batch | None) -> Iterator[tuple[float, tuple[Tensor, Tensor]]]:
        """Yield inputs and labels of chain c, each pair with the number of terms of U that its mean loss stands for."""
        if batch:
            index = batch["index"][c]
            size = len(index) if index.is_cuda else int((index < self.terms).sum())
            if size:
                x, label = self.batch_rows(c, batch, size)
                yield self.multiple * size, (self.task.inputs(x), label)
            return
        length = self.stretch if self.task.batch is None else self.task.batch
        for x, label in zip(self.stretches("train", length), self.labels["train"].split(length), strict=True):
            yield len(label), (self.task.inputs(x), label)

    def _mean_loss(self, c: int, weights: Tensor, part: tuple[Tensor, Tensor], *, update: bool) -> Tensor:
        statistics = self.buffers[c] if update else self.buffers[c].clone()
        loss = self._compiled if self._compiled is not None and weights.requires_grad else self._loss
        return loss(aligned(weights), statistics, *part)

    def _loss(self, weights: Tensor, statistics: Tensor, x: Tensor, label: Tensor) -> Tensor:
        return self.task.mean_loss(self.forward(weights, statistics, x, training=True), label)

    def forward(self, weights: Tensor, statistics: Tensor, x: Tensor, *, training: bool) -> Tensor:
        """Return the outputs for one chain's weights and statistics, in theta's precision."""
        import torch

        low = self.task.precision == "bfloat16"
        with torch.autocast(x.device.type, torch.bfloat16) if low else nullcontext():
            dtype = torch.bfloat16 if low and self._compiled is None else None  # compiled code casts where it computes
            outputs = self.network.forward(weights, statistics, x, training=training, low=dtype)
        return outputs.to(self.dtype)

    def predict(self, theta: Tensor, chains: slice, name: str) -> Iterator[Tensor]:
        """Yield the likelihood's `predicted` (C, m, ...) float32 of a set, in order, in stretches."""
        import torch

        length = self.stretch if self.device == "cpu" else self.stretch_on_gpu
        with torch.no_grad():
            for x in self.stretches(name, length):
                yield self.task.likelihood.predicted(self.outputs(theta, chains, self.task.inputs(x))).float()

    def outputs(self, theta: Tensor, chains: slice, x: Tensor) -> Tensor:
        """Return the network's outputs (C, n, ...) for inputs (n, ...) and draws theta (C, D) of `chains`."""
        import torch

        each = zip(theta, self.buffers[chains], strict=True)
        return torch.stack([self.forward(weights, statistics, x, training=False) for weights, statistics in each])

    def state(self) -> dict[str, Tensor]:
        """Return the place of each chain in its epoch, and the running statistics."""
        state = {f"order/{name}": leaf for name, leaf in super().state().items()}
        if self._changes is not None:
            state |= {f"changes/{name}": leaf for name, leaf in self._changes.state().items()}
        return state | {"buffers": self.buffers}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from `state`."""
        for name, sequence in (("order/", self.epochs), ("changes/", self._changes)):
            if sequence is not None:
                sequence.load({n.removeprefix(name): leaf for n, leaf in state.items() if n.startswith(name)})
        self.buffers.copy_(state["buffers"])


def _rows(statistics: Tensor, chains: int) -> Tensor:
    """Return statistics (B,) for each chain, (C, B), in rows that are aligned as a GPU's kernels need them."""
    import torch

    padded = torch.nn.functional.pad(statistics, (0, -len(statistics) % ROW_ALIGNMENT))
    return padded.repeat(chains, 1)[:, : len(statistics)]
