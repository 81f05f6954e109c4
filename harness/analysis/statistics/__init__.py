"""The rules of comparing: intervals over seeds, paired tests, matches with a paper's cells, ranks."""

from __future__ import annotations

from harness.analysis.statistics.intervals import Interval, bootstrap_interval, mean_interval, t_multiplier
from harness.analysis.statistics.match import ErrorKind, Match, Verdict, match_cell
from harness.analysis.statistics.ranks import Direction, Rank, rank_methods, rank_replicates
from harness.analysis.statistics.tests import PERMUTATION_SEEDS, PairedTest, holm, paired_t, paired_test, sign_flip

__all__ = [
    "PERMUTATION_SEEDS",
    "Direction",
    "ErrorKind",
    "Interval",
    "Match",
    "PairedTest",
    "Rank",
    "Verdict",
    "bootstrap_interval",
    "holm",
    "match_cell",
    "mean_interval",
    "paired_t",
    "paired_test",
    "rank_methods",
    "rank_replicates",
    "sign_flip",
    "t_multiplier",
]
