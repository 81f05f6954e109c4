"""What the tasks of fully connected networks share: sizes, data, and the version of them that laws are tried on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from harness import Task, UsageError, param

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor

    from harness import Cost, Streams, Trajectory
    from tasks.vision.dense import DenseClassifier
    from tasks.vision.observer import ClassifierObserver

    Data = tuple[NDArray[Any], NDArray[np.int64]]

PREPROCESSING = {
    "standardised": "less their mean over the training inputs, by their sd",
    "divided": "divided by 255",
    "raw": "as they are",
}
"""What may be done to the numbers of an input."""
FEW = 60
"""Inputs of a set that laws are tried on."""


@dataclass(frozen=True, kw_only=True)
class DenseTask(Task):
    """Classification by a ReLU network of `depth` hidden layers of `width` units, with a normal prior on its weights.

    features  numbers of an input
    classes   K
    train     N
    unseen    names of sets whose classes the network does not know
    observed  arguments of `ClassifierObserver`; `watched` adds what settings ask for
    few       inputs of each set that are used; none: all
    """

    features: ClassVar[int]
    classes: ClassVar[int]
    train: ClassVar[int]
    unseen: ClassVar[Sequence[str]] = ()
    observed: ClassVar[Mapping[str, Any]] = {}
    few: ClassVar[int | None] = None
    provides: ClassVar = frozenset({"terms", "layout"})
    dtype: ClassVar[str] = "float32"
    opaque: ClassVar = True

    width: int = param(200, "[1, inf)", "units of a hidden layer", source="ours")
    depth: int = param(3, "[1, inf)", "hidden layers", source="ours")
    batch: int = param(100, "[1, inf)", "n, inputs in a minibatch", source="ours: not stated")
    prior_precision: float = param(1.0, "[0, inf)", "of the prior N(0, I / prior_precision)", source="ours: not stated")  # type: ignore[misc]
    preprocessing: str = param(
        "standardised", choices=tuple(PREPROCESSING), meaning="what is done to the inputs", source="ours: not stated"
    )
    by_cycle: bool = param(
        False, meaning="whether what `bench report cycle-weights` needs is kept", source="changes no number"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch > self.terms():
            raise UsageError(f"task.batch = {self.batch} is more than the {self.terms()} inputs to train on")

    @property
    def sizes(self) -> list[int]:
        """Numbers of an input, units of each hidden layer, classes."""
        return [self.features, *[self.width] * self.depth, self.classes]

    def dim(self) -> int:
        return sum(out * (into + 1) for into, out in zip(self.sizes[:-1], self.sizes[1:], strict=True))

    def terms(self) -> int:
        return self.few or self.train

    def batch_terms(self) -> int:
        return self.batch

    def watched(self) -> dict[str, Any]:
        """What the observer is told."""
        return {**self.observed, **({"train": True, "by_cycle": True} if self.by_cycle else {})}

    def watch(self, problem: DenseClassifier, rows: slice, trajectory: Trajectory, cost: Cost) -> ClassifierObserver:
        """The observer of a run."""
        from tasks.vision.observer import ClassifierObserver

        return ClassifierObserver(problem, rows, trajectory, cost, **self.watched())

    def first_steps(self) -> int | None:
        """Steps until the prior changes; None: it does not."""
        return None

    def minus_log_prior(self, theta: Tensor, *, first: bool) -> Tensor:
        """-log p(theta) (C,) but for a constant; `first`: before the prior changes, where it does."""
        return self.prior_precision / 2 * theta.square().sum(1)

    def prior_gradient(self, theta: Tensor, *, first: bool) -> Tensor:
        """Its gradient (C, D)."""
        return self.prior_precision * theta

    def under_normal_prior(self, device: str) -> Tensor:
        """Which coordinates (D,) have the normal prior always, where the prior changes."""
        raise NotImplementedError

    @abstractmethod
    def read(self, name: str) -> Data:
        """Inputs (n, features), bytes or float32, and classes (n,) of "train", "test" or an unseen set (then zeros)."""

    @abstractmethod
    def moments(self) -> tuple[ArrayLike, ArrayLike]:
        """The mean and sd of the training inputs, of all numbers or of each."""

    def standard(self) -> tuple[ArrayLike, ArrayLike]:
        """What is taken off inputs, and what they are divided by then, as `preprocessing` says."""
        if self.preprocessing == "standardised":
            return self.moments()
        return 0.0, 255.0 if self.preprocessing == "divided" else 1.0

    def data(self, name: str) -> Data:
        """`read`, cut to the `few` first."""
        inputs, classes = self.read(name)
        return inputs[: self.few], classes[: self.few]

    def for_laws(self) -> Self:
        """The same code in float64, with few inputs and units."""
        small = type(f"Small{type(self).__name__}", (type(self),), {"dtype": "float64", "few": FEW})
        made: Self = small(**{**vars(self), "width": 4, "batch": 13})
        return made

    def max_block(self, device: str) -> int:
        """One run at a time on a CPU, whose cache holds the weights of one; on a GPU the more the better."""
        return 1 if device == "cpu" and self.dim() > 20_000 else 64

    def build(self, streams: Sequence[Streams], device: str) -> DenseClassifier:
        from tasks.networks.mlp import MLP
        from tasks.vision.dense import DenseClassifier

        return DenseClassifier(self, MLP(self.sizes), streams, device)
