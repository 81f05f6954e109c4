"""What the fork server imports once for all workers. If an import fails, every worker reports why."""

from __future__ import annotations

from harness.contracts.plugin_errors import format_error
from harness.system.errors import RunError
from harness.system.memory import memory_limit

_failure = ""
try:
    import harness.runs.session  # noqa: F401 - and torch with it
except Exception as error:  # noqa: BLE001 - for lack of memory, libraries raise any of several
    _remedy = memory_limit() or "`bench doctor` says more"
    _failure = f"no run can be done, torch does not import: {format_error(error)}; {_remedy}"


def check() -> None:
    """Raise `RunError` where the import failed; importing torch a second time would not say why."""
    if _failure:
        raise RunError(_failure)
