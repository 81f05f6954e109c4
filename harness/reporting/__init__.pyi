# What features use of reports beyond the public names.
# They are declared only here; `__init__.py` reads it.

from harness.reporting.requests import build as build
from harness.reporting.requests import find_report as find_report
from harness.reporting.requests import request_for as request_for
from harness.reporting.requests import why_empty as why_empty
from harness.reporting.scoring.labels import is_hash as is_hash
from harness.reporting.tables import table as table
