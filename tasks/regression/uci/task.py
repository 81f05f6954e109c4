"""Regression on UCI sets by a small Bayesian network, with a noise level that is sampled too."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness import UsageError, param
from harness.tasks import Block, Layout, Reference, Rows
from tasks.datasets import uci
from tasks.gauss_newton import PROVIDED, factors, stacked
from tasks.mlp import MLP
from tasks.regression.uci.bde import Bde
from tasks.regression.uci.predicted import PredictedProblem, PredictedRegression
from tasks.regression.uci.smile import BATCH, Smile, protocol

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.tasks import Streams
    from tasks.gauss_newton import Factors

    Array = NDArray[np.float64]

WIDTHS = r"[1-9]\d{0,3}(-[1-9]\d{0,3}){0,7}"
STRETCH = 1000
"""Rows whose Jacobians are in memory at once."""
VARIANTS: Mapping[str, Smile | Bde] = {"smile": Smile(), "bde": Bde()}
"""What the settings of two sources do not share: the rows, the level of noise, and the start."""


@dataclass(frozen=True, kw_only=True)
class NetworkRegression(PredictedRegression):
    """y_i ~ N(f(x_i), sigma^2) with a ReLU network f; prior N(0, I) on theta.

        U(theta) = sum_i [(y_i - f(x_i))^2 / (2 sigma^2) + log sigma + log(2 pi) / 2] + |theta|^2 / 2

    The `variant` says which rows are for training, how sigma depends on theta and x, and where chains start: that of
    `Smile` or of `Bde`. Errors and likelihoods are in standardised units.

    shape   rows and features of its table
    columns  those of the file that "bde" reads, where they are others
    widest  about the largest eigenvalue of the Gauss-Newton matrix of U at optima that Adam finds
    record  the file of its reference, where there is one: of f at the test rows, at the default settings

    Source: the UCI experiments of SMILE (airfoil, energy, bikesharing) and of bde (airfoil, bikesharing), by their
    code. The other sets under SMILE's protocol are ours.
    """

    shape: ClassVar[tuple[int, int]]
    columns: ClassVar[tuple[int, ...] | None] = None
    widest: ClassVar[float]
    prior_precision: ClassVar[float] = 1.0
    provides: ClassVar = PROVIDED

    batch: int | None = param(BATCH, "[1, inf)", "n, rows in a minibatch; none: all of them", source="SMILE")  # type: ignore[misc]
    data_seed: int = param(1, "[0, 4294967295]", "of the permutation of the rows", source="SMILE: 1 to 3")
    hidden: str = param("16-16-16", meaning="units of the hidden layers", source="SMILE", later=True)
    variant: str = param(
        "smile", choices=("smile", "bde"), meaning="whose data, noise level and start", source="SMILE", later=True
    )

    def __post_init__(self) -> None:
        if not re.fullmatch(WIDTHS, self.hidden):
            raise UsageError(f"task.hidden = {self.hidden!r:.80} is not the units of 1 to 8 layers, such as 16-16-16")
        super().__post_init__()

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.model.dtype

    @property
    def model(self) -> Smile | Bde:
        """The rows, the level of noise, and the start."""
        return VARIANTS[self.variant]

    @functools.cached_property
    def network(self) -> MLP:
        """f, and s where sigma is predicted."""
        features = self.model.features(self.shape[1], self.columns)
        return MLP([features, *map(int, self.hidden.split("-")), self.model.outputs])

    def dim(self) -> int:
        return self.network.dim + self.model.extra

    def layout(self) -> Layout:
        noise = (Block("log_sigma", (self.model.extra,)),) if self.model.extra else ()
        return Layout((*self.network.layout.blocks, *noise))

    def terms(self) -> int:
        return self.model.training_rows(self.shape[0])

    def curvature(self) -> float | None:
        return self.widest if self._usual else None

    @property
    def _usual(self) -> bool:
        return (self.hidden, self.variant) == ("16-16-16", "smile")

    def arrays(self, part: str) -> Mapping[str, Array]:
        rows = self.model.rows(self.datasets[0], self.columns, self.data_seed)[part]
        return {"x": rows[:, :-1], "y": rows[:, -1]}

    def start(self, generator: torch.Generator) -> Tensor:
        return self.model.start(self.network, generator)

    def predicted(self, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """f (C, n) and log sigma, (C, 1) or (C, n), at x (C, n, features)."""
        return self.model.predicted(self.network, theta, x)

    def value_and_grad(self, theta: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        return self.model.value_and_grad(self.network, theta, rows)

    def grad(self, theta: Tensor, rows: Rows) -> Tensor:
        return self.value_and_grad(theta, rows)[1]

    def function_reference(self) -> Reference | None:
        return super().function_reference() if self.data_seed == 1 and self._usual else self.stored_reference

    def build(self, streams: Sequence[Streams], device: str) -> RegressionProblem:
        return RegressionProblem(self, streams, device)


class RegressionProblem(PredictedProblem):
    """The potential; `bench tune` is scored on the validation rows."""

    task: NetworkRegression

    def gauss_newton(self, theta: Tensor, *, last_layer: bool, full: bool) -> tuple[Factors, float]:
        """That of the network at the level of noise that theta has, and the Fisher information of the level."""
        network, model, x = self.task.network, self.task.model, self.arrays["x"][: self.terms]
        statistics = network.first_statistics().to(theta)
        by_chain = [
            factors(
                network.module_network, weights[: network.dim], statistics, x.split(STRETCH),
                functools.partial(model.roots, weights), last_layer=last_layer, full=full,
            )
            for weights in theta
        ]  # fmt: skip
        return model.with_level(stacked(by_chain), theta, self.terms, full=full), self.task.prior_precision

    def part(self, name: str) -> Mapping[str, Array]:
        if "validation" not in self.task.model.parts:  # rows for training are held out
            return super().part(name)
        return self.valid("validation" if name == "test" and self.tuned else name)


@dataclass(frozen=True, kw_only=True)
class Airfoil(NetworkRegression):
    """Airfoil Self-Noise: 1,052 rows to train on, 301 to test; 5 features, 658 parameters."""

    datasets: ClassVar = (uci.AIRFOIL,)
    shape: ClassVar = (1503, 5)
    protocols: ClassVar = (protocol(shape[0]), *Bde.protocols)
    widest: ClassVar = 6e6


@dataclass(frozen=True, kw_only=True)
class Energy(NetworkRegression):
    """Energy Efficiency, heating load: 537 rows to train on, 154 to test; 8 features, 706 parameters."""

    datasets: ClassVar = (uci.ENERGY,)
    shape: ClassVar = (768, 8)
    protocols: ClassVar = (protocol(shape[0]),)
    widest: ClassVar = 8e6


@dataclass(frozen=True, kw_only=True)
class Bikesharing(NetworkRegression):
    """Bike Sharing, rentals by hour: 12,165 rows to train on, 3,476 to test; 11 features, 754 parameters.

    The variant "bde" reads the season too: 12 features.
    """

    datasets: ClassVar = (uci.BIKESHARING,)
    shape: ClassVar = (17_379, 11)
    columns: ClassVar = (*range(2, 14), 16)
    protocols: ClassVar = (protocol(shape[0]), *Bde.protocols)
    widest: ClassVar = 3e6


@dataclass(frozen=True, kw_only=True)
class Concrete(NetworkRegression):
    """Concrete Compressive Strength: 721 rows to train on, 207 to test; 8 features, 706 parameters."""

    datasets: ClassVar = (uci.CONCRETE,)
    shape: ClassVar = (1030, 8)
    protocols: ClassVar = (protocol(shape[0]),)
    widest: ClassVar = 2e6


@dataclass(frozen=True, kw_only=True)
class PowerPlant(NetworkRegression):
    """Combined Cycle Power Plant: 6,697 rows to train on, 1,914 to test; 4 features, 642 parameters."""

    datasets: ClassVar = (uci.POWER_PLANT,)
    shape: ClassVar = (9568, 4)
    protocols: ClassVar = (protocol(shape[0]),)
    widest: ClassVar = 2e6


@dataclass(frozen=True, kw_only=True)
class Protein(NetworkRegression):
    """Protein Tertiary Structure: 32,010 rows to train on, 9,146 to test; 9 features, 722 parameters."""

    datasets: ClassVar = (uci.PROTEIN,)
    shape: ClassVar = (45_730, 9)
    protocols: ClassVar = (protocol(shape[0]),)
    widest: ClassVar = 2e6


@dataclass(frozen=True, kw_only=True)
class Wine(NetworkRegression):
    """Wine Quality, red wines: 1,119 rows to train on, 320 to test; 11 features, 754 parameters."""

    datasets: ClassVar = (uci.WINE,)
    shape: ClassVar = (1599, 11)
    protocols: ClassVar = (protocol(shape[0]),)
    widest: ClassVar = 5e5


@dataclass(frozen=True, kw_only=True)
class Yacht(NetworkRegression):
    """Yacht Hydrodynamics: 215 rows to train on, 62 to test; 6 features, 674 parameters."""

    datasets: ClassVar = (uci.YACHT,)
    shape: ClassVar = (308, 6)
    protocols: ClassVar = (protocol(shape[0], batch=64),)
    widest: ClassVar = 5e6

    batch: int | None = param(64, "[1, inf)", "n, rows in a minibatch; none: all of them", source="ours")  # type: ignore[misc]
