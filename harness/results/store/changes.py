"""What the ledger has and the database lacks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.results.ledger import ledger
from harness.results.ledger.ledger import KEY, Ledger
from harness.results.records import Status
from harness.results.store import reader
from harness.results.store.connection import Foreign
from harness.results.store.reader import Record
from harness.system.columns import Malformed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class Known:
    """What the database has: concluded attempts, and unfinished ones (status, number of events).

    `paths` maps attempts to their directories. Of settled parts of the ledger, it has only unfinished attempts.
    """

    concluded: frozenset[str] = frozenset()
    unfinished: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    settled: frozenset[str] = frozenset()


@dataclass
class News:
    """What the database lacks.

    `troubled` are the parts of the ledger in which something is wrong: they
    must be looked at again next time. `gone` counts the attempts that the database has and the ledger lacks. The
    records are read as they are taken, once; `notes` and `troubled` are complete after the last record.
    """

    records: Iterable[Record] = ()
    notes: list[str] = field(default_factory=list)
    troubled: set[str] = field(default_factory=set)
    gone: int = 0

    def __bool__(self) -> bool:
        records = iter(self.records)
        first = next(records, None)
        self.records = () if first is None else itertools.chain([first], records)
        return first is not None


_FOREIGN_PATHS = (
    "select path from attempt where not regexp_full_match(path, 'runs/[^/.][^/]*/[0-9a-f]{64}/[^/]+') "
    "or not ends_with(path, '/' || run_key || '/' || attempt) or attempt in ('.', '..') limit 1"
)
"""Selects a path from which an attempt would be read that is not in the ledger."""


def known(db: DuckDBPyConnection, settled: frozenset[str] = frozenset()) -> Known:
    """Return what an open database has. If parts of the ledger are settled, return only what the other parts need.

    Raises `Foreign` if a path in the database is not that of an attempt.
    """
    if db.execute(_FOREIGN_PATHS).fetchall():
        raise Foreign("is a database that bench did not write: it has paths that are not those of attempts")
    concluded = db.execute(
        "select attempt, path from attempt where concluded and not list_contains(?::varchar[], left(run_key, 2))",
        [[*settled]],
    ).fetchall()
    unfinished = db.execute(
        "select attempt, path, status, (select count(*) from event where event.attempt = attempt.attempt) "
        "from attempt where not concluded"
    ).fetchall()
    return Known(
        concluded=frozenset(attempt for attempt, _ in concluded),
        unfinished={attempt: (status, events) for attempt, _, status, events in unfinished},
        paths={attempt: path for attempt, path, *_ in [*concluded, *unfinished]},
        settled=settled,
    )


def news(results: Path, have: Known) -> News:
    """Read what is new below `results`. An attempt that is not intact is left out, with a note that names it."""
    fresh = News()
    present, misplaced = _attempts(results, have.settled)
    fresh.notes += [f"{results / path} is left out: {why}" for path, why in misplaced.items()]
    fresh.troubled |= set(map(_part, misplaced))
    present |= {name: [have.paths[name]] for name in have.unfinished if _part(have.paths[name]) in have.settled}
    fresh.records = _records(results, present, have, fresh)
    gone = have.paths.keys() - present.keys()
    fresh.troubled |= {_part(have.paths[name]) for name in gone}
    if gone and (results / "runs").is_dir():
        fresh.gone = len(gone)
        fresh.notes.append(
            f"{len(gone)} attempts are no longer in {results / 'runs'}; `bench ingest --rebuild` removes them"
        )
    return fresh


def reread(results: Path, keys: Mapping[str, str]) -> News:
    """Read some attempts, given with the keys of their runs. Those that are gone or not intact are left out."""
    fresh = News()
    paths = {attempt: f"runs/{key[:2]}/{key}/{attempt}" for attempt, key in keys.items()}
    present = {attempt: [path] for attempt, path in paths.items() if (results / path).is_dir()}
    fresh.records = _records(results, present, Known(), fresh)
    return fresh


def _attempts(results: Path, settled: frozenset[str]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the directories of each attempt below `results`, and misplaced directories with the reason.

    Attempts are all directories runs/<key[:2]>/<key>/<attempt>; if several have one name, all but one are copies. A
    misplaced directory is not named by a run's key, such as a copy of a run's folder. Parts (`key[:2]`) that are
    settled are left out. Links are not followed. Paths are texts: for thousands of runs, making Path objects would cost
    more than reading the directories.
    """
    top = f"{results}/"
    paths: dict[str, list[str]] = {}
    misplaced: dict[str, str] = {}
    for shard in ledger.folders(f"{top}runs"):
        for key in ledger.folders(f"{top}runs/{shard}") if shard not in settled else []:
            run = f"runs/{shard}/{key}"
            if not KEY.fullmatch(key) or not key.startswith(shard):
                misplaced[run] = "its name is not a run's key that begins with the name of its folder"
                continue
            for attempt in ledger.folders(f"{top}{run}"):
                paths.setdefault(attempt, []).append(f"{run}/{attempt}")
    return paths, misplaced


def _records(results: Path, present: Mapping[str, list[str]], have: Known, fresh: News) -> Iterator[Record]:
    """Yield the attempts that the database lacks, one run after the other."""
    by_run = sorted(present.items(), key=lambda item: item[1][0])
    for _, attempts in itertools.groupby(by_run, key=lambda item: item[1][0].rpartition("/")[0]):
        records: list[Record] = []
        for attempt, places in attempts:
            known = have.paths[attempt] if attempt in have.concluded else None
            records += _read(results, places, known, fresh)
        _settle(results, records)
        for record in missing(records, have):
            fresh.notes += [f"{results / record.row['path']}: {note}" for note in record.notes]
            yield record


def _read(results: Path, places: Iterable[str], known: str | None, fresh: News) -> Iterator[Record]:
    """Yield the record of an attempt that is not known.

    Of several folders of one name, the first that can be read counts; the others are copies.
    """
    if known is not None and known not in places:
        return
    for path in places:
        if path == known:
            continue
        try:
            if known is not None:
                raise Malformed(f"an attempt of this name is in {known}")  # noqa: TRY301
            record = reader.read(results, path)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one attempt must not block the others
            fresh.notes.append(f"{results / path} is left out: {error}")
            fresh.troubled.add(_part(path))
        else:
            known = path
            yield record


def missing(records: Iterable[Record], have: Known) -> list[Record]:
    """Return the records that a database lacks: concluded attempts that are new to it, and others that have changed."""
    return [
        record
        for record in records
        if record.attempt not in have.concluded
        and (
            record.concluded or have.unfinished.get(record.attempt) != (record.row["status"], len(record.rows["event"]))
        )
    ]


def damaged_since(results: Path, db: DuckDBPyConnection, records: Iterable[Record]) -> list[str]:
    """Return the attempts in an open database that can no longer be read and whose runs have a concluded record here.

    Their damage is the reason why the runs were repeated.
    """
    keys = [record.run_key for record in records if record.concluded]
    before = db.execute(
        "select attempt, path from attempt where concluded and run_key in (select unnest(?::varchar[]))", [keys]
    ).fetchall()
    return [attempt for attempt, path in before if not _reads(results, path)]


def _reads(results: Path, path: str) -> bool:
    try:
        reader.read(results, path)
    except Exception:  # noqa: BLE001 - as in `news`
        return False
    return True


def _settle(results: Path, records: list[Record]) -> None:
    """Set the status of unfinished attempts: of a run that is held, the latest attempt is running."""
    by_key: dict[str, list[Record]] = {}
    for record in records:
        if not record.concluded:
            by_key.setdefault(record.run_key, []).append(record)
    for key, members in by_key.items():
        for record in members:
            if events := record.rows["event"]:
                record.row["status"] = ledger.unfinished_status(events[-1]["event"])
        if Ledger(results).held(key):
            max(members, key=lambda record: record.attempt).row["status"] = Status.RUNNING


def _part(path: str) -> str:
    """Return the part of the ledger that contains an attempt's directory: runs/PART/..."""
    return path.split("/")[1]
