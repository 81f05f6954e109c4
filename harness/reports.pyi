# What authors of reports and features need beyond `harness`.
# They are declared only here; `reports.py` reads it.

from harness.application.results import Results as Results
from harness.contracts.parameters import suggestions as suggestions
from harness.contracts.registry import load_plugin as load_plugin
from harness.reporting.rendering import render as render
from harness.reporting.report import Records as Records
from harness.reporting.report import Report as Report
from harness.reporting.report import Request as Request
from harness.reporting.scores import load_groups as load_groups
from harness.reporting.scores import score_fields as score_fields
from harness.reporting.scoring.accuracy import UNGATED as UNGATED
from harness.reporting.scoring.compare import Comparison as Comparison
from harness.reporting.scoring.compare import compare as compare
from harness.reporting.scoring.compare import compare_values as compare_values
from harness.reporting.scoring.compare import judge as judge
from harness.reporting.scoring.estimates import Estimate as Estimate
from harness.reporting.scoring.estimates import metric_estimate as metric_estimate
from harness.reporting.scoring.formatting import number as number
from harness.reporting.scoring.formatting import with_interval as with_interval
from harness.reporting.scoring.groups import Group as Group
from harness.reporting.scoring.groups import Run as Run
from harness.reporting.scoring.labels import labels as labels
from harness.reporting.scoring.labels import setting_text as setting_text
from harness.reporting.scoring.labels import settings_from as settings_from
from harness.reporting.scoring.record import typical as typical
from harness.reporting.scoring.score import FieldScore as FieldScore
from harness.reporting.scoring.score import check_metric as check_metric
from harness.reporting.tables import Column as Column
from harness.reporting.tables import Figure as Figure
from harness.reporting.tables import Table as Table
from harness.results.records import Level as Level
from harness.results.store import Store as Store
from harness.runs.plugin_metadata import not_offered as not_offered
from harness.runs.plugin_metadata import step_limit as step_limit
from harness.system.files import write_set as write_set
