"""The rules of RULES.md as code: which runs may be averaged, compared and ranked, and what is shown with a number."""

from __future__ import annotations

from harness.reporting.scoring.accuracy import UNGATED
from harness.reporting.scoring.compare import Comparison, compare, compare_values, judge
from harness.reporting.scoring.estimates import Estimate, metric_estimate
from harness.reporting.scoring.formatting import number, with_interval
from harness.reporting.scoring.groups import Group, Run, differ_in_code
from harness.reporting.scoring.labels import labels, setting_text, settings_from
from harness.reporting.scoring.loading import load_groups
from harness.reporting.scoring.record import typical
from harness.reporting.scoring.score import FieldScore, check_metric, score_fields

__all__ = [
    "UNGATED",
    "Comparison",
    "Estimate",
    "FieldScore",
    "Group",
    "Run",
    "check_metric",
    "compare",
    "compare_values",
    "differ_in_code",
    "judge",
    "labels",
    "load_groups",
    "metric_estimate",
    "number",
    "score_fields",
    "setting_text",
    "settings_from",
    "typical",
    "with_interval",
]
