"""Bayesian probabilistic matrix factorisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from harness import param
from harness.tasks import Protocol, Reference
from tasks.regression.uci.predicted import PredictedRegression

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

USERS, ITEMS, RANK, SIGMA = 60, 40, 3, 0.5


@dataclass(frozen=True, kw_only=True)
class BpmfSmall(PredictedRegression):
    """y_ij ~ N(u_i v_j, 0.5^2), with rank 3 and u_i, v_j ~ N(0, I), for 60 users and 40 items: D = 300.

        U(theta) = sum_ij (y_ij - u_i v_j)^2 / (2 * 0.5^2) + |theta|^2 / 2,    theta = (u_1, ..., u_60, v_1, ..., v_40)

    The matrix is drawn from the model. 960 of its 2,400 entries, 40 %, are the rows of minibatches; 80 others are the
    test rows. U is the same after any rotation of all u_i and v_j, so what is known is the posterior of u_i v_j at the
    test rows, by Gibbs sampling (`tasks.latent.gibbs`), with whose draws the gradient of U agrees (Stein's identities).
    Chains start at N(0, 0.3^2 I).

    Source: R. Salakhutdinov, A. Mnih, "Bayesian Probabilistic Matrix Factorization using Markov Chain Monte Carlo",
    ICML 2008, with fixed hyperparameters; the data are ours.
    """

    prior_precision: ClassVar[float] = 1.0
    record: ClassVar[Path | None] = Path(__file__).parent / "truth" / "bpmf-small.json"
    protocols: ClassVar = (
        Protocol(
            "batches", "batches of 192 entries, the first half burn-in, every tenth draw; ours",
            {"smoke": 1_000, "quick": 40_000, "paper": 400_000}, chains=4, burn_in=0.5, thin=10,
        ),
    )  # fmt: skip

    batch: int | None = param(192, "[1, inf)", "n, entries in a minibatch; none: all of them", source="ours")  # type: ignore[misc]

    def dim(self) -> int:
        return RANK * (USERS + ITEMS)

    def terms(self) -> int:
        return 960

    def start(self, generator: torch.Generator) -> Tensor:
        return 0.3 * super().start(generator)

    def curvature(self) -> float:
        """That at modes is about 240; four times as much, for U is quartic, and minibatches weigh entries unequally."""
        return 1000.0

    def arrays(self, part: str) -> Mapping[str, NDArray[Any]]:
        rng = np.random.RandomState(0)
        u, v = rng.standard_normal((USERS, RANK)), rng.standard_normal((ITEMS, RANK))
        order = rng.permutation(USERS * ITEMS)
        y = (u @ v.T).ravel() + SIGMA * rng.standard_normal(USERS * ITEMS)
        chosen = order[:960] if part == "train" else order[960:1040]
        return {"x": np.stack(np.divmod(chosen, ITEMS), axis=1), "y": y[chosen]}

    def function_reference(self) -> Reference | None:
        known = super().function_reference()
        if known is None or self.stored_reference is not None:
            return known
        return replace(known, how="Gibbs sampling, 16 chains of 1,000 draws; python -m tasks.latent.gibbs bpmf-small")

    def predicted(self, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        factors = theta.view(len(theta), USERS + ITEMS, RANK)
        user, item = x.long().expand(len(theta), -1, -1).unbind(2)
        u, v = (factors.gather(1, index[:, :, None].expand(-1, -1, RANK)) for index in (user, USERS + item))
        return (u * v).sum(2), theta.new_full((len(theta), 1), float(np.log(SIGMA)))
