"""A Bayesian network that is small enough for a truth of its predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import param
from harness.tasks import Protocol
from tasks.regression.uci.predicted import PredictedRegression
from tasks.regression.uci.smile import log_normal

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.tasks import Rows

UNITS, SIGMA = 8, 0.15
"""Units of the hidden layer, and the sd of the noise, which is known."""


@dataclass(frozen=True, kw_only=True)
class TinyNetwork(PredictedRegression):
    """y_i ~ N(f(x_i), 0.15^2) with f(x) = c + sum_j v_j tanh(w_j x + b_j), j = 1 ... 8, and the prior N(0, I).

        U(theta) = sum_i (y_i - f(x_i))^2 / (2 * 0.15^2) + |theta|^2 / 2,    theta = (w, b, v, c), D = 25

    The 48 training rows are simulated: x uniform on [-2, -0.5] and on [0.5, 2], and y of sin(2 x) + x / 2 with the
    noise above. The 33 test rows are at x = -3.2, -3, ..., 3.2: also in the gap and outside. Units can be exchanged and
    their signs turned, so what is known is the posterior of f at the test rows, by long HMC that parallel tempering
    confirms. Chains start at draws from the prior.

    Source: ours; the data with a gap as in A. Y. K. Foong et al., "'In-Between' Uncertainty in Bayesian Neural
    Networks", 2019.
    """

    prior_precision: ClassVar[float] = 1.0
    opaque: ClassVar[bool] = False
    record: ClassVar[Path | None] = Path(__file__).with_name("truth.json")
    protocols: ClassVar = (
        Protocol(
            "batches", "batches of 12 rows, the first half burn-in, every tenth draw; ours",
            {"smoke": 1_000, "quick": 40_000, "paper": 400_000}, chains=4, burn_in=0.5, thin=10,
        ),
    )  # fmt: skip

    batch: int | None = param(12, "[1, inf)", "n, rows in a minibatch; none: all of them", source="ours")  # type: ignore[misc]

    def dim(self) -> int:
        return 3 * UNITS + 1

    def terms(self) -> int:
        return 48

    def curvature(self) -> float:
        """The largest at modes that Adam finds, about."""
        return 1.5e4

    def arrays(self, part: str) -> Mapping[str, NDArray[Any]]:
        rng = np.random.RandomState(0)
        x = rng.uniform(0.5, 2, 48) * np.repeat([-1, 1], 24)
        rows = {"train": x, "test": np.arange(-16, 17) / 5}
        noise = {"train": rng.standard_normal(48), "test": rng.standard_normal(33)}[part]
        x = rows[part]
        return {"x": x[:, None], "y": np.sin(2 * x) + x / 2 + SIGMA * noise}

    def predicted(self, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        f, _, _ = _network(theta, x)
        return f, theta.new_full((len(theta), 1), float(np.log(SIGMA)))

    def value_and_grad(self, theta: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        import torch

        f, v, t = _network(theta, rows["x"])
        residual = rows["y"] - f
        r = residual * rows["present"] / SIGMA**2
        s = r[:, None] * v * (1 - t * t)
        parts = (s * rows["x"][..., 0].unsqueeze(1)).sum(2), s.sum(2), (r[:, None] * t).sum(2), r.sum(1, keepdim=True)
        return log_normal(residual, theta.new_full((1, 1), float(np.log(SIGMA)))), torch.cat(parts, 1)

    def grad(self, theta: Tensor, rows: Rows) -> Tensor:
        return self.value_and_grad(theta, rows)[1]


def _network(theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """f (C, n), v (C, 8, 1) and the hidden layer t (C, 8, n) at x (C, n, 1)."""
    w, b, v = (theta[:, k * UNITS : (k + 1) * UNITS, None] for k in range(3))
    # The last bits of torch's tanh depend on the number of chains.
    t = 1 - 2 / ((2 * (w * x[..., 0].unsqueeze(-2) + b)).exp() + 1)
    return (v * t).sum(1) + theta[:, -1:], v, t
