"""The imports that the fork server does once for all children.

If one fails, every child reports why, because a second import of torch would not say it.
"""

from __future__ import annotations

import gc

from harness.contracts.plugin_errors import format_error
from harness.runs import child
from harness.system.import_path import restore
from harness.system.memory import memory_limit

restore()
gc.disable()  # modules are not garbage, and collection would take an eighth of the time
try:
    # The observers of all tasks but networks need them.
    import scipy.spatial
    import scipy.special  # noqa: F401

    import harness.runs.session  # noqa: F401 - it imports torch
    from harness.contracts.offers import HARNESS
    from harness.results.environment import requirements
    from harness.results.provenance import digest, read_ahead

    requirements((HARNESS,))  # every worker records all three
    digest(HARNESS)
    read_ahead(HARNESS)
except Exception as error:  # noqa: BLE001 - libraries raise different errors for lack of memory
    _remedy = memory_limit() or "`bench doctor` says more"
    child.unusable = f"no run can be done, torch does not import: {format_error(error)}; {_remedy}"
finally:
    gc.freeze()  # so that workers neither scan these objects nor copy their pages
    gc.enable()
