"""The ratio of a statistic over chains x seeds of two groups: joint error, data passes to low error, or ess_mse."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.analysis.diagnostics import bootstrap_low_error
from harness.analysis.diagnostics.crossing import THRESHOLD, last_crossing
from harness.analysis.statistics import PairedTest, log_ratio_test
from harness.analysis.statistics.tests import unpaired
from harness.reporting.scoring.accuracy import (
    ESS_MSE,
    JOINT,
    LOW_ERROR,
    MEDIAN,
    chain_errors,
    median_size,
    medians,
    worst,
)
from harness.reporting.scoring.estimates import resampled_means

SeedRows = NDArray[np.float64]
_OF_SQUARES = {JOINT: worst, ESS_MSE: median_size}
"""The function of mean squared errors that gives each statistic."""


def ratio_test(
    metric: str, axis: SeedRows, a: Sequence[SeedRows], b: Sequence[SeedRows], *, paired: bool = True
) -> PairedTest:
    """Test whether log(A / B) is zero, from the curves (C, k, n) of each seed's chains on one axis.

    Both sides are resampled by the same seeds, or independently if they are not `paired`.
    """
    x, y = (
        np.append(_replicates(side, axis, metric), statistic(np.concatenate(side), axis, metric)) for side in (a, b)
    )
    return log_ratio_test(x, y if paired else unpaired(y), min(len(a), len(b)))


def on_axis(
    run_curves: tuple[SeedRows, SeedRows] | None, axis: SeedRows, chains: int, curves: int, metric: str
) -> SeedRows:
    """Return curves (C, k, n) at the points of a common axis: the last value at or before each point.

    Before the first value, and for a diverged run (`run_curves` is None), it is inf. Errors at the end have no axis.
    """
    if run_curves is None:
        return np.full((chains, curves, len(axis)), math.inf)
    x, y = run_curves
    if metric != LOW_ERROR:
        return y
    last = np.searchsorted(x, axis, side="right") - 1
    values = np.where(last >= 0, y[:, :, np.maximum(last, 0)], math.inf)
    return np.where(np.isnan(values), math.inf, values)


def statistic(rows: SeedRows, axis: SeedRows, metric: str) -> float:
    """Return the statistic of some chains; for low error the larger one of z and z^2."""
    if metric == LOW_ERROR:
        return max(last_crossing(curve, axis, THRESHOLD) for curve in np.median(rows, axis=0))
    if metric == MEDIAN:
        return float(medians(chain_errors(rows[:, 0]), np.zeros(len(rows)))[-1])
    with np.errstate(over="ignore", invalid="ignore"):
        return float(_OF_SQUARES[metric]((rows**2).mean(axis=0).ravel()))


def _replicates(side: Sequence[SeedRows], axis: SeedRows, metric: str) -> SeedRows:
    """Return the statistic on resampled seeds, which depend on the number of seeds only: both sides get the same."""
    rows, seed_of_row = np.concatenate(side), np.repeat(np.arange(float(len(side))), [len(part) for part in side])
    if metric == LOW_ERROR:
        return np.maximum(*(bootstrap_low_error(rows[:, k], axis, seed_of_row) for k in range(2)))
    if metric == MEDIAN:
        return medians(chain_errors(rows[:, 0]), seed_of_row)[:-1]
    with np.errstate(over="ignore", invalid="ignore"):
        means = resampled_means((rows**2).reshape(len(rows), -1), seed_of_row)
    assert means is not None
    return _OF_SQUARES[metric](means)
