"""The temporary names in a results folder: what an interrupted command leaves, and `bench gc` deletes once it is stale.

Below `runs/`, nothing is temporary of a run that no process holds. Elsewhere, age decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.results import FILE_NAMES, KEY, NAME
from harness.system.files import ABANDONED_SECONDS, ENDING


@dataclass(frozen=True)
class Temporary:
    """Patterns for the path of a folder below the results folder and for names in it, and why they can be deleted.

    seconds  age after which they are stale
    folder   whether they are folders of files
    """

    parent: str
    name: str
    why: str = "left by an interrupted write"
    seconds: float = ABANDONED_SECONDS
    folder: bool = False


_KEY, _NAME = KEY.pattern, NAME.pattern
_RUN = rf"runs/[0-9a-f]{{2}}/{_KEY}"
_KEPT = rf"[0-9a-f]{{12}}-{_NAME}-[0-9a-f]{{12}}"
_SUITE = r"[\w.-]+"
IN_ATTEMPT = rf"{FILE_NAMES}|\.({FILE_NAMES})\.{ENDING}"
"""The names of files in the folder of an attempt, those of an interrupted write included."""
TEMPORARY = (
    Temporary("", rf"\.(ledger\.json|seal\.key|results\.settled\.json|results\.duckdb)\.{ENDING}(\.wal)?"),
    Temporary("", r"results\.duckdb\.(damaged|older|foreign)-\d{8}T\d{6}(_[0-9a-f]{6})?(\.wal(\.\w+)?)?",
              "a database that was set aside when it was rebuilt", 0.0),
    Temporary("locks", rf"\.{_KEY}\.(notice|lock)\.{ENDING}"),
    Temporary("truths", rf"\.[\w.-]+\.json\.{ENDING}"),
    Temporary("(timings|laws)", rf"\.{_KEY}\.json\.{ENDING}"),
    Temporary("figures", rf"\.[\w-]+\.{_KEY}\.json\.{ENDING}"),
    Temporary("files", rf"\.{_KEY}\.{ENDING}"),
    Temporary("changed", rf"{_KEY}\.{_NAME}\.[0-9a-f]+", "a change that databases follow within 90 days", 90 * 86400.0),
    Temporary("tuning", rf"\.[\w.-]+\.json\.{ENDING}"),
    Temporary(f"nights/{_SUITE}", rf"\.\d+\.json\.{ENDING}"),
    Temporary("jobs", rf"\.[0-9a-f]{{16}}\.(json|log)\.{ENDING}"),
    Temporary("jobs/[0-9a-f]{16}", rf"\.[\w.+-]+\.{ENDING}"),
    Temporary("conflicts", rf"\.{_KEPT}\.{ENDING}", folder=True),
    Temporary("conflicts", _KEPT, "a second result of a run, which does not count", 0.0, folder=True),
    Temporary(_RUN, rf"\.(\d+\.json|{_NAME}\.copied)\.{ENDING}", seconds=0.0),
    Temporary(_RUN, rf"\.{_NAME}\.{ENDING}", seconds=0.0, folder=True),
    Temporary(rf"{_RUN}/{_NAME}", rf"\.({FILE_NAMES})\.{ENDING}", seconds=0.0),
)  # fmt: skip
"""All of them, except the trash folder of `bench gc` itself."""
