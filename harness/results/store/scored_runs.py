"""The concluded runs of a store for scoring: frames with their values, and their curves."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.contracts.randomness import TUNING_SEED
from harness.results.laws import BOARD, NONE
from harness.results.records import ELSEWHERE, Level, columns_of

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    from harness.results.store.store import Store


def _ranking(protocol: str) -> list[str]:
    """Return the levels of verification at which groups of a protocol rank."""
    return [str(level) for level in Level if level.ranks(protocol)]


_OF_OWNER = f"if(protocol = '{ELSEWHERE}', '{Level.RESCORED}', '{Level.RUN_HERE}')"
_LEVEL = f"coalesce(level, if(copied, '{Level.REPORTED}', {_OF_OWNER}))"
_RANKS = f"list_contains(if(protocol = '{ELSEWHERE}', {_ranking(ELSEWHERE)}, {_ranking('')}), {_LEVEL})"
_MADE = f"coalesce(verification.level = '{Level.RUN_HERE}' and verification.salt = '', verification.level is null)"
_MISSING = f"if({_MADE}, '', '{BOARD.to_json()}')"
_LAWS = f"if(protocol = '{ELSEWHERE}', '{NONE.to_json()}', coalesce(nullif(laws, ''), {_MISSING}))"
_RESULT = f"""(
    select result.*, {_LEVEL} as level, {_LAWS} as laws from result left join verification using (attempt)
    qualify {_RANKS} or not bool_or({_RANKS}) over (partition by group_key)
)"""  # noqa: S608 - words of ours
_TRIALS = f"""(
    select *, '{Level.RUN_HERE}' as level, '{NONE.to_json()}' as laws
    from run_status where concluded and seed >= {TUNING_SEED}
)"""  # noqa: S608 - words of ours
_SOURCE = {False: _RESULT, True: _TRIALS}
"""The reported runs, and the trials of `bench tune`. If some runs of a group rank, only these are reported."""
_CHOSEN = """
create temp table chosen as
select group_key, run_key, attempt, path, seed, status, reason, step, chain, passes, draws_kept, full_gradients, level,
    laws
from {source}
where ($1 is null or list_contains($1, task))
    and ($2 is null or list_contains($2, method))
    and ($3 is null or list_contains($3, protocol))
    and ($4 or substeps = 1)
"""
_GROUPS = """
select run.*, numbered.* exclude (group_key, run_key) from run join (
    select group_key, min_by(run_key, seed) as run_key,
        coalesce(min(method) filter (method <> sampler), min(method)) as name,
        coalesce(min(budget) filter (not contains(budget, '=')), min(budget)) as label
    from chosen join run using (group_key, run_key, seed) group by group_key
) numbered on numbered.run_key = run.run_key
order by group_key
"""
_ABOUT = ", ".join(f"metric.{name}" for name in columns_of("metric") if name not in ("attempt", "value"))
_METRICS = f"""
select group_key, list(seed) as seeds, list(coalesce(value, 'nan'::double)) as numbers, {_ABOUT}
from chosen join metric on metric.attempt = chosen.attempt
group by all
order by group_key, name, version desc, min(seed)
"""  # noqa: S608 - names of ours
_ORIGINS = """
select group_key, origins from chosen join run using (group_key, run_key, seed)
group by group_key, origins order by group_key, max(seed)
"""
_CODES = """
select run.task, task_source, task_data, max(attempt) as latest
from chosen join run using (group_key, run_key, seed) group by all order by all
"""
AT_ONCE = 5000
"""Number of attempts whose curves are in memory at once, 150 MB. For each batch, DuckDB scans all attempts' curves."""
_CURVES = """
select attempt, name, x, y from curve_points where attempt in (select unnest(?)) and list_contains(?, name)
"""


@dataclass(frozen=True)
class GroupFrames:
    """The concluded runs of groups. The runs of a group differ only in the seed.

    groups   a row for each group: the columns of `run` of its first seed, its method `name` and its budget `label`
    runs     a row for each run, by group and seed
    metrics  a row for each description of a metric in a group, with lists of `seeds` and `numbers`; newest first
    origins  the distinct origins of a group's settings as JSON, by their last seed
    codes    the versions of the code and data of each task, with the `latest` attempt
    """

    groups: pl.DataFrame
    runs: pl.DataFrame
    metrics: pl.DataFrame
    origins: pl.DataFrame
    codes: pl.DataFrame


def group_frames(store: Store, *filters: Collection[str], trials: bool = False, substeps: bool = False) -> GroupFrames:
    """Return the groups that have a concluded run.

    filters   the tasks, the methods and the protocols; an empty one selects all
    trials    whether to return the groups of `bench tune`, and only these
    substeps  whether to return those with several steps for each of the schedule too
    """
    with store.reading() as db:
        chosen = [*(list(names) or None for names in filters), substeps]
        db.execute(_CHOSEN.format(source=_SOURCE[trials]), chosen)
        return GroupFrames(
            groups=db.sql(_GROUPS).pl(),
            runs=db.sql("select * rename (run_key as key) from chosen order by group_key, seed").pl(),
            metrics=db.sql(_METRICS).pl(),
            origins=db.sql(_ORIGINS).pl(),
            codes=db.sql(_CODES).pl(),
        )


CurveKey = tuple[str, str]
"""An attempt and the name of a curve."""
CurveArrays = tuple["NDArray[np.float64]", "NDArray[np.float64]"]
"""A curve: x (n,) and y (C, n), or y (1, n) for a curve of the whole run, with NaN where a value does not exist."""


def curve_names(store: Store) -> set[str]:
    """Return the names of all curves."""
    with store.reading() as db:
        return {name for (name,) in db.execute("select distinct name from curve_points").fetchall()}


def curve_arrays(store: Store, attempts: Sequence[str], names: Sequence[str]) -> dict[CurveKey, CurveArrays]:
    """Return the named curves of the attempts."""
    curves: dict[CurveKey, CurveArrays] = {}
    axes: dict[bytes, NDArray[np.float64]] = {}
    with store.reading() as db:
        import pyarrow as pa

        for start in range(0, len(attempts), AT_ONCE):
            answer = db.sql(_CURVES, params=[attempts[start : start + AT_ONCE], list(names)])
            for part in pa.RecordBatchReader.from_stream(answer):
                xs, ys = (_lists(part.column(name)) for name in ("x", "y"))
                keys = zip(part.column("attempt").to_pylist(), part.column("name").to_pylist(), strict=True)
                for key, x, y in zip(keys, xs, ys, strict=True):
                    axis = axes.setdefault(x.tobytes(), x.copy())
                    curves[key] = axis, y.reshape(-1, len(x))  # a view, freed with all
    return curves


def _lists(column: Any) -> Iterator[NDArray[np.float64]]:
    """Return the lists of an Arrow column as arrays, with NaN for NULL."""
    ends, numbers = column.offsets.to_numpy(), column.values.to_numpy(zero_copy_only=False)
    return (numbers[start:stop] for start, stop in itertools.pairwise(ends.tolist()))
