"""The regressions as tasks: name, class and summary.

A task is named by posteriordb's model, or by the data where a model has several sets.
"""

from __future__ import annotations

from tasks.posteriordb.designs import class_name, posteriors

REGRESSIONS = [
    (name, f"tasks.posteriordb.regressions:{class_name(name)}", f"{design.summary} ({posterior})")
    for name, (posterior, design) in posteriors().items()
]
