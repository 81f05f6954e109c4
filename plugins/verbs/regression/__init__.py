"""What nights found, kept from night to night, and what of it became worse.

A night is what one `bench nightly` found: rows (method, task, protocol, budget, chains, device, settings of the suite)
with the values of their metrics by seed. Finished runs are cached by their key, so tonight differs from last night
where code, settings or data changed, and nowhere else. Rows are matched by their names, which leave hashes of code
out, and compared by seed.
"""

from __future__ import annotations

from plugins.verbs.regression.changes import Change, changes
from plugins.verbs.regression.history import History
from plugins.verbs.regression.night import MetricValues, Night, Row
from plugins.verbs.regression.observe import SuiteCommand, observe

REGRESSION = 5
"""The exit code where a row became worse."""

__all__ = ["REGRESSION", "Change", "History", "MetricValues", "Night", "Row", "SuiteCommand", "changes", "observe"]
