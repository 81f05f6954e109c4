"""The rules of RULES.md as code: which runs may be averaged, compared, ranked, and what stands beside a number."""

from __future__ import annotations

from harness.reporting.scoring.claims import Ours
from harness.reporting.scoring.compare import Comparison, compare, compare_values, judge
from harness.reporting.scoring.estimates import Estimate, metric_estimate
from harness.reporting.scoring.formatting import number, with_interval
from harness.reporting.scoring.groups import Group, Run, differ_in_code
from harness.reporting.scoring.labels import labels, settings_from, title
from harness.reporting.scoring.loading import load_curves, load_fields, load_groups
from harness.reporting.scoring.record import typical
from harness.reporting.scoring.reported import own_settings
from harness.reporting.scoring.reproduction import CellEntry, ClaimEntry, Reproduction, reproduction
from harness.reporting.scoring.score import FieldScore, check_metric, score_fields
from harness.reporting.scoring.standing import Standing

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
