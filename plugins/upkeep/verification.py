"""Checks that attempts are as they were written and that the database equals a rebuild: `bench ingest --verify`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from harness import DataError
from harness.reports import Store
from harness.results import (
    KEY_VERSION,
    Attempt,
    changes,
    checksum,
    columns_of,
    connection,
    environment,
    ingest,
    rescored,
)
from harness.results import spec as specs
from harness.system import read_json

DRAWS = "draws.safetensors"
REBUILD = "`bench ingest --rebuild` rebuilds it"
SHOWN = 3

Key = tuple[Any, ...]
Prints = dict[str, dict[Key, Key]]
"""Maps a table and the key of an attempt, a run or the like to the number of its rows and the sum of their hashes."""
_KEYS = {**dict.fromkeys(ingest.OWN, ("attempt",)), **ingest.SHARED}


@dataclass(frozen=True)
class Damage:
    """A problem with a file, and its remedy."""

    path: Path
    what: str
    remedy: str


def of_attempt(key: str, attempt: Attempt) -> Iterator[Damage]:
    """Yield what is wrong with an attempt at a run.

    Of an unfinished attempt, only the records are checked: its worker may be writing.
    """
    spec = read_json(attempt.path / "spec.json") or {}
    result, damage = attempt.read_result()
    if damage:
        remedy = "give the run's command again, which repeats the run; then `bench gc --delete` deletes this attempt"
        yield Damage(attempt.path / "result.json", damage.removeprefix("result.json "), remedy)
        return
    problems = [*_of_records(attempt, key, spec)]
    remedy = "give the run's command again, which starts a new attempt"
    if result is not None:
        remedy = "delete its folder, give the run's command again, then `bench ingest --rebuild`"
        if result.get("executed") not in (None, spec.get("compile")):
            problems.append(("result.json", f"was executed {result['executed']}, and its run is {spec.get('compile')}"))
        if result.get("key") != key:
            problems.append(("result.json", f"belongs to run {str(result.get('key'))[:12]}, not to the folder's"))
        problems += [*_altered_files(attempt, result.get("files")), *_of_events(attempt)]
        problems += [] if problems else _of_draws(attempt, spec, result)
    reported: set[str] = set()
    for name, what in problems:
        if name not in reported:  # one line per file: the first problem found
            reported.add(name)
            yield Damage(attempt.path / name, what, remedy)
    if result is not None:
        yield from _of_rescored(attempt)


def spec_damage(spec: Mapping[str, Any], key: str) -> str:
    """Return what is wrong with the record of a run of this key version, or "" if nothing is."""
    if specs.recorded_key(spec) != key:
        return "is altered: its parts do not match the run's key"
    if specs.recorded_key(spec, "seed") != spec.get("group"):
        return "is altered: its parts do not match the run's group"
    return ""


def _of_records(attempt: Attempt, key: str, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not spec:
        yield "spec.json", "cannot be read"
    elif spec.get("key") != key:
        yield "spec.json", f"belongs to run {str(spec.get('key'))[:12]}, not to the folder's"
    elif spec.get("key_version") == KEY_VERSION and (what := spec_damage(spec, key)):
        yield "spec.json", what
    try:
        whole = environment.is_whole(read_json(attempt.path / "environment.json") or {})
    except (TypeError, ValueError, RecursionError):
        whole = False
    if not whole:
        yield "environment.json", "is missing or altered: its id is not the checksum of the rest"


def _altered_files(attempt: Attempt, files: Any) -> Iterator[tuple[str, str]]:
    """Yield the files whose checksums are not those listed."""
    for name, digest in files.items() if isinstance(files, dict) else ():
        try:
            if Path(name).name != name or checksum(attempt.path / name) != digest:
                yield name, "is altered: its checksum does not match the recorded one"
        except FileNotFoundError:
            yield name, "is missing"
        except OSError as error:
            yield name, f"cannot be read: {error.strerror or error}"


def _of_draws(attempt: Attempt, spec: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Compare the draws' shape with the chains of the run, and their number with the draws kept and the stride."""
    from safetensors import SafetensorError, safe_open

    kept, stored, stride = (result.get(f"draws_{name}") for name in ("kept", "stored", "stride"))
    if isinstance(kept, int) and isinstance(stride, int) and stored != (-(-kept // stride) if stride else 0):
        yield "result.json", f"counts {stored} stored draws where every {stride}th of {kept} should be stored"
        return
    if DRAWS not in (result.get("files") or {}):
        if stored:
            yield "result.json", f"counts {stored} stored draws and lists no {DRAWS}"
        return
    try:
        with safe_open(attempt.path / DRAWS, framework="numpy") as file:
            draws, steps = (file.get_slice(name).get_shape() for name in ("draws", "steps"))
    except (OSError, SafetensorError) as error:
        yield DRAWS, f"cannot be read: {error}"
        return
    chains = spec.get("chains")
    if len(draws) != 3 or draws[:2] != [stored, chains] or steps != [stored]:
        yield DRAWS, f"holds draws {draws} of steps {steps}, not {stored} draws of {chains} chains"


def _of_rescored(attempt: Attempt) -> Iterator[Damage]:
    record, damage = rescored.read(attempt.path)
    remedy = "delete it, then `bench ingest --rebuild`; `bench rescore` writes it again"
    if damage:
        yield Damage(attempt.path / rescored.FILE, damage.removeprefix(f"{rescored.FILE} "), remedy)
    for name, what in _altered_files(attempt, record["files"]) if record else []:
        yield Damage(attempt.path / name, what, f"{remedy}, and {rescored.FILE} too")


def _of_events(attempt: Attempt) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with events.jsonl.

    A line without an end was cut off by a crash, which is no damage; a line with an end that cannot be read is.
    """
    try:
        lines = attempt.content("events.jsonl").splitlines()
    except OSError:
        lines = []
    whole = dict(attempt.numbered_events())
    for i, line in enumerate(lines):
        if line.endswith(b"}") and i not in whole:
            yield "events.jsonl", f"line {i + 1} cannot be read"
    if not {"finished", "failed"} & {event["event"] for event in whole.values()}:
        yield "events.jsonl", "is missing or cut short: the end of the run is not recorded"


def of_database(store: Store) -> list[Damage]:
    """Return what is wrong with a store's database.

    Rows that it lacks so far are no problem: the next reading command adds them. Nothing is changed. Attempts that
    cannot be read are left out on both sides, and are problems too. The attempts on disk are read one batch at a time,
    so that memory holds one batch and a few numbers for each attempt.
    """
    try:
        with connection.reading(store.path) as db:
            if os.path.lexists(store.path) and not connection.is_filled(db, store.path):
                raise DataError(f"{store.path} has no tables; `bench ingest` makes them")
            have, there = changes.known(db), prints(db)
    except connection.Older as state:
        raise DataError(f"{store.path} {state}; `bench ingest` rebuilds it") from state
    except connection.Damaged as state:
        return [Damage(store.path, str(state), REBUILD)]
    except (connection.Busy, connection.Refused) as obstacle:
        return [Damage(store.path, f"was not compared: {obstacle}", "end that, then verify again")]
    news = changes.news(store.results, changes.Known())
    wrong = [_different_rows(store.path, table, keys) for table, keys in _different(there, have, news).items() if keys]
    return [*map(_damage_of_note, news.notes), *wrong]


def _different(there: Prints, have: changes.Known, news: changes.News) -> dict[str, set[Key]]:
    """Return, by table, the keys whose rows differ from those of a rebuild."""
    rebuilt: Prints = {table: {} for table in _KEYS}
    pending: dict[str, set[Key]] = {table: set() for table in _KEYS}
    # In the order of a run's attempts, as the latest record of the run counts.
    for batch in ingest.batches(news.records):
        with connection.in_memory() as db:
            ingest.ingest(db, changes.News(batch))
            for table, of_batch in prints(db).items():
                rebuilt[table] |= of_batch
        for record in changes.missing(batch, have):
            for table in (*ingest.OWN, *ingest.SHARED):
                rows = record.rows.get(table, []) if table in ingest.SHARED else [{"attempt": record.attempt}]
                pending[table] |= {tuple(row[name] for name in _KEYS[table]) for row in rows}
    return {
        table: {
            key
            for key in rebuilt[table].keys() | there[table].keys()
            if rebuilt[table].get(key) != there[table].get(key)
            and (key not in pending[table] or (key in there[table] and table not in (*ingest.OWN, "run")))
        }
        for table in _KEYS
    }


def prints(db: DuckDBPyConnection) -> Prints:
    """Return the `Prints` of an open database."""
    tables: Prints = {}
    for table, names in _KEYS.items():
        key, row = ", ".join(names), ", ".join(columns_of(table))
        query = f"select {key}, count(*), sum(hash({row})) from {table} group by {key}"  # noqa: S608 - own names
        rows = db.execute(query).fetchall()
        tables[table] = {tuple(values[: len(names)]): tuple(values[len(names) :]) for values in rows}
    return tables


def _different_rows(path: Path, table: str, keys: set[Key]) -> Damage:
    first = ", ".join(" ".join(map(str, key)) for key in sorted(keys, key=str)[:SHOWN])
    what = f"table {table}: rows of {len(keys):,} {_KEYS[table][0]}s are not those that a rebuild would give: {first}"
    return Damage(path, f"{what}{' ...' if len(keys) > SHOWN else ''}", REBUILD)


def _damage_of_note(note: str) -> Damage:
    """Return a note of an ingest as a problem with the path at its beginning."""
    path, _, what = note.partition(": ")
    path, out, _ = path.partition(" is left out")
    return Damage(Path(path), f"is left out of the database: {what}" if out else what, "fix this, then verify again")
