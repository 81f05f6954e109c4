"""Errors of mean and variance, coordinate by coordinate, in units of the truth."""

from __future__ import annotations

import numpy as np

from harness.analysis.diagnostics.arrays import Array
from harness.analysis.diagnostics.sums import DrawSums


def pooled_errors(sums: DrawSums) -> tuple[Array, Array]:
    """Return the errors of all chains together, (D,) each: (mean - true mean) / true sd, and variance / true variance.

    The variance is about the draws' own mean, with the divisor W - sum w^2 / W, which is n - 1 if all weights are 1. It
    is NaN before the second draw.
    """
    weight, dim = sums.weight.sum(), len(sums.mean)  # the first D directions are the axes
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        error = sums.z[:, :dim].sum(axis=0) / weight
        about_truth = sums.z2[:, :dim].sum(axis=0) / weight + 1
        divisor = 1 - sums.weight2.sum() / weight**2
        ratio = np.where(divisor > 0, (about_truth - error**2).clip(min=0) / divisor, np.nan)
    return np.asarray(error), ratio
