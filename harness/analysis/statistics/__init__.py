"""Statistics over seeds: intervals, paired tests, ranks."""

from __future__ import annotations

from harness.analysis.statistics.intervals import Interval, as_values, bootstrap_interval, mean_interval, t_multiplier
from harness.analysis.statistics.ranks import Direction, Rank, rank_methods, rank_replicates, tukey_multiplier
from harness.analysis.statistics.tests import (
    PERMUTATION_SEEDS,
    PairedTest,
    bootstrap_t,
    holm,
    paired_t,
    paired_test,
    same_mean,
    sign_flip,
)

__all__ = [
    "PERMUTATION_SEEDS",
    "Direction",
    "Interval",
    "PairedTest",
    "Rank",
    "as_values",
    "bootstrap_interval",
    "bootstrap_t",
    "holm",
    "mean_interval",
    "paired_t",
    "paired_test",
    "rank_methods",
    "rank_replicates",
    "same_mean",
    "sign_flip",
    "t_multiplier",
    "tukey_multiplier",
]
