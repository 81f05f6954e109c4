"""Bayesian logistic regression on three Statlog sets, as the cyclical SG-MCMC paper has it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness import DataFile, Protocol, param
from tasks.datasets import uci
from tasks.regression.logistic import Logistic

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class LogisticTask(Logistic):
    """Logistic regression with prior N(0, I) on all rows of a Statlog set; a subclass names the set.

    Covariates are standardised with the population sd, the bias column stands last; chains start at a draw from the
    prior. The paper gives neither prior nor batch size: this is the prior that reproduces the public reference
    posterior, and full-data gradients are the default.

    file       the data set
    positive   its class that counts as 1

    Source: R. Zhang et al., "Cyclical Stochastic Gradient MCMC for Bayesian Deep Learning", ICLR 2020, appendix.
    """

    file: ClassVar[DataFile]
    positive: ClassVar[int]
    budgets: ClassVar = {"smoke": 1_000, "quick": 4_000, "paper": 10_000}
    protocols: ClassVar = (Protocol("csgmcmc", "5,000 steps of burn-in, 5,000 draws", budgets, burn_in=0.5),)

    batch: int | None = param(None, "[1, inf)", "n, terms in a minibatch; none: all of them", source="not stated; ours")  # type: ignore[misc]

    def design(self) -> NDArray[np.float64]:
        attributes, classes = uci.load(self.file)
        rows = np.column_stack([uci.standardise(attributes), np.ones(len(attributes))])
        return np.asarray(np.where(classes == self.positive, 1.0, -1.0)[:, None] * rows)

    def record(self) -> Path:
        return Path(__file__).parent / "truth" / f"{self.file.dataset}.json"


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
