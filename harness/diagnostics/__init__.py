"""Pure functions on arrays: float64 NumPy in and out, no torch, no state but what an accumulator shows."""

from __future__ import annotations

from harness.diagnostics.bias import Gate, MeanVariance, RunningMoments, gate, mean_error, variance_ratio
from harness.diagnostics.coverage import ModeCounts
from harness.diagnostics.crossing import (
    LowErrorCost,
    bootstrap_low_error,
    gradients_to_low_error,
    last_crossing,
)
from harness.diagnostics.distances import thin_to, wasserstein2
from harness.diagnostics.ess import bulk_ess, ess_mse, ess_of_autocorrelation, reference_ess, tail_ess
from harness.diagnostics.low_error import CURVES, FinalErrors, LowError, Split, split_b2
from harness.diagnostics.moments import Moments
from harness.diagnostics.rhat import rank_normalised_split_rhat
from harness.diagnostics.temperature import configurational_temperature, directional_temperatures

__all__ = [
    "CURVES",
    "FinalErrors",
    "Gate",
    "LowError",
    "LowErrorCost",
    "MeanVariance",
    "ModeCounts",
    "Moments",
    "RunningMoments",
    "Split",
    "bootstrap_low_error",
    "bulk_ess",
    "configurational_temperature",
    "directional_temperatures",
    "ess_mse",
    "ess_of_autocorrelation",
    "gate",
    "gradients_to_low_error",
    "last_crossing",
    "mean_error",
    "rank_normalised_split_rhat",
    "reference_ess",
    "split_b2",
    "tail_ess",
    "thin_to",
    "variance_ratio",
    "wasserstein2",
]
