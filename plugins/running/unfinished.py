"""Which rows have runs that were begun and have no result, as those of a worker that died."""

from __future__ import annotations

from harness import Registry
from harness.reports import Store
from harness.system import count
from harness.tasks import TUNING_SEED

CAVEAT = "unfinished"
_ROWS = f"""
select group_key, count(*) as unfinished, list(distinct status order by status) as statuses from run_status
where not concluded and seed < {TUNING_SEED} group by group_key order by group_key
"""  # noqa: S608 - a number of ours


def caveats(store: Store, _: Registry) -> dict[str, dict[str, str]]:
    """Return the groups with runs that were begun and have no result: a row without them may have lost its worst."""
    return {
        row["group_key"]: {CAVEAT: f"{count(row['unfinished'], 'run')} without a result: {', '.join(row['statuses'])}"}
        for row in store.rows(_ROWS)
    }
