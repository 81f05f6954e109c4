# What features use of planning and running beyond the public names.
# They are declared only here; `__init__.py` reads it.

from harness.runs import plan as plan
from harness.runs import plugin_metadata as plugin_metadata
from harness.runs import truths as truths
from harness.runs.children import EndedError as EndedError
from harness.runs.children import call as call
from harness.runs.failure import writing as writing
from harness.runs.job import Job as Job
from harness.runs.job import prepare as prepare
from harness.runs.plan import Planned as Planned
from harness.runs.plan import RunRequest as RunRequest
from harness.runs.plan import expand as expand
from harness.runs.plan import parse_seeds as parse_seeds
from harness.runs.plan import parse_settings as parse_settings
from harness.runs.plugin_metadata import instance as instance
from harness.runs.plugin_metadata import task_facts as task_facts
from harness.runs.resume import build as build
from harness.runs.session import curve_arrays as curve_arrays
from harness.runs.session import metric_values as metric_values
from harness.runs.settings import Pair as Pair
from harness.runs.settings import find_pair as find_pair
from harness.runs.settings import resolve as resolve
from harness.runs.source import content_hash as content_hash
from harness.runs.source import is_installed as is_installed
from harness.runs.source import source_hash as source_hash
from harness.runs.unchanged import note_code as note_code
