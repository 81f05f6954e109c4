"""What the tasks of fully connected networks share: settings, and what is done to the inputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import param
from harness.tasks import NetworkTask, constant
from tasks.gauss_newton import PROVIDED
from tasks.mlp import MLP

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness import Trajectory
    from harness.tasks import Cost, DataProblem
    from tasks.networks.observer import ClassifierObserver

    Data = tuple[NDArray[Any], NDArray[np.int64]]
    Numbers = float | tuple[float, ...]

PREPROCESSING = {
    "standardised": "less their mean over the training inputs, by their sd",
    "divided": "divided by 255",
    "raw": "as they are",
}
"""What may be done to the numbers of an input."""


@dataclass(frozen=True, kw_only=True)
class DenseTask(NetworkTask):
    """Classification by a ReLU network of `depth` hidden layers of `width` units, with a normal prior on its weights.

    features  numbers of an input
    classes   K
    observed  arguments of `ClassifierObserver`, besides those that settings ask for
    """

    provides: ClassVar = PROVIDED
    features: ClassVar[int]
    classes: ClassVar[int]
    observed: ClassVar[Mapping[str, Any]] = {}
    in_laws: ClassVar = {"width": 4, "batch": 13}

    width: int = param(200, "[1, inf)", "units of a hidden layer", source="ours")
    depth: int = param(3, "[1, inf)", "hidden layers", source="ours")
    batch: int = param(100, "[1, inf)", "n, inputs in a minibatch", source="ours: not stated")  # type: ignore[misc]
    prior_precision: float = param(1.0, "[0, inf)", "of the prior N(0, I / prior_precision)", source="ours: not stated")  # type: ignore[misc]
    preprocessing: str = param(
        "standardised", choices=tuple(PREPROCESSING), meaning="what is done to the inputs", source="ours: not stated"
    )
    by_cycle: bool = param(
        False, meaning="whether what `bench report cycle-weights` needs is kept", source="changes no number"
    )

    def network(self) -> MLP:
        return MLP([self.features, *[self.width] * self.depth, self.classes])

    @abstractmethod
    def read(self, name: str) -> Data:
        """Inputs (n, features), bytes or float32, and classes (n,) of "train", "test" or an unseen set (then zeros)."""

    def arrays(self, part: str) -> Mapping[str, NDArray[Any]]:
        inputs, classes = self.read(part)
        return {"x": inputs, "label": classes}

    @abstractmethod
    def moments(self) -> tuple[Numbers, Numbers]:
        """The mean and sd of the training inputs, of all numbers or of each."""

    def standard(self) -> tuple[Numbers, Numbers]:
        """What is taken off inputs, and what they are divided by then, as `preprocessing` says."""
        if self.preprocessing == "standardised":
            return self.moments()
        return 0.0, 255.0 if self.preprocessing == "divided" else 1.0

    def inputs(self, x: Tensor) -> Tensor:
        x = super().inputs(x)
        shift, scale = (constant(numbers, x) for numbers in self.standard())
        return (x - shift) / scale

    def observer(
        self, problem: DataProblem, chains: slice, trajectory: Trajectory, cost: Cost, **further: Any
    ) -> ClassifierObserver:
        from tasks.networks.observer import ClassifierObserver

        told = {"unseen": tuple(self.unseen), **self.observed, **further}
        told |= {"train": True, "by_cycle": True} if self.by_cycle else {}
        return ClassifierObserver(problem, chains, trajectory, cost, **told)  # type: ignore[arg-type]
