# What features use of reports beyond the public names.
# They are declared only here; `__init__.py` reads it.

from harness.reporting.requests import find_report as find_report
from harness.reporting.scoring.labels import is_hash as is_hash
from harness.reporting.tables import table as table
