"""Pure functions on arrays: float64 NumPy in and out, no torch, and no state except in accumulators."""

from __future__ import annotations

from harness.analysis.diagnostics import calibration, ood, predictive
from harness.analysis.diagnostics.bias import pooled_errors
from harness.analysis.diagnostics.calibration import error_rate, nll
from harness.analysis.diagnostics.coverage import ModeCounts
from harness.analysis.diagnostics.crossing import (
    THRESHOLD,
    LowErrorCost,
    bootstrap_low_error,
    last_crossing,
    passes_to_low_error,
    seed_counts,
)
from harness.analysis.diagnostics.directions import directions
from harness.analysis.diagnostics.distances import wasserstein2
from harness.analysis.diagnostics.ess import autocorrelation, bulk_ess, ess_of_autocorrelation, reference_ess, tail_ess
from harness.analysis.diagnostics.joint import Gate, JointMoments, eigenvalue_intervals, gate, norm_interval
from harness.analysis.diagnostics.low_error import CURVES, FinalErrors, LowError
from harness.analysis.diagnostics.moments import Moments
from harness.analysis.diagnostics.ood import ecdf
from harness.analysis.diagnostics.rhat import rank_normalised_split_rhat
from harness.analysis.diagnostics.sums import DrawSums
from harness.analysis.diagnostics.temperature import configurational_temperature, directional_temperatures

__all__ = [
    "CURVES",
    "THRESHOLD",
    "DrawSums",
    "FinalErrors",
    "Gate",
    "JointMoments",
    "LowError",
    "LowErrorCost",
    "ModeCounts",
    "Moments",
    "autocorrelation",
    "bootstrap_low_error",
    "bulk_ess",
    "calibration",
    "configurational_temperature",
    "directional_temperatures",
    "directions",
    "ecdf",
    "eigenvalue_intervals",
    "error_rate",
    "ess_of_autocorrelation",
    "gate",
    "last_crossing",
    "nll",
    "norm_interval",
    "ood",
    "passes_to_low_error",
    "pooled_errors",
    "predictive",
    "rank_normalised_split_rhat",
    "reference_ess",
    "seed_counts",
    "tail_ess",
    "wasserstein2",
]
