"""The rules of RULES.md as code: which runs may be averaged, compared, ranked, and what stands beside a number."""

from __future__ import annotations

from harness.scoring.claims import Ours
from harness.scoring.compare import Comparison, compare, compare_values, judge
from harness.scoring.estimates import Estimate, metric_estimate
from harness.scoring.groups import Group, Run, differ_in_code
from harness.scoring.labels import labels, settings_from, title
from harness.scoring.loading import load_curves, load_fields, load_groups
from harness.scoring.record import typical
from harness.scoring.reported import own_settings
from harness.scoring.reproduction import CellEntry, ClaimEntry, Reproduction, reproduction
from harness.scoring.score import FieldScore, check_metric, score_fields
from harness.scoring.standing import Standing
from harness.scoring.words import number, with_interval

__all__ = [
    "CellEntry",
    "ClaimEntry",
    "Comparison",
    "Estimate",
    "FieldScore",
    "Group",
    "Ours",
    "Reproduction",
    "Run",
    "Standing",
    "check_metric",
    "compare",
    "compare_values",
    "differ_in_code",
    "judge",
    "labels",
    "load_curves",
    "load_fields",
    "load_groups",
    "metric_estimate",
    "number",
    "own_settings",
    "reproduction",
    "score_fields",
    "settings_from",
    "title",
    "typical",
    "with_interval",
]
