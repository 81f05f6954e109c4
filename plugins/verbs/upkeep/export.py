"""An exported folder: Parquet files of finished attempts in shards, with the records and the sources behind them.

A shard is one file for each table, and `document-SHARD.parquet` with spec.json, result.json and rescored.json as they
were written. SHARD is a checksum of the shard's content. An export adds shards with what the folder lacks. It replaces
a shard only where an attempt in it has changed, as by `bench rescore`; nothing else is taken away.

`verification-SHARD.parquet` says what the owner of the folder did to verify each attempt: those from a results folder
were run here. What another exported folder says is not taken over: its attempts are reported, until `bench verify`
finds more.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.results.ledger import rescored
from harness.results.records import ELSEWHERE, Level, Verification, columns_of
from harness.results.store import Store, connection
from harness.results.store.published import (
    ALL_TABLES,
    FILE,
    MANIFEST,
    VERIFICATION,
    by_table,
    load,
    parquet,
    put,
    read_rows,
    rows_of,
)
from harness.runs.source import content_hash, made_of, source_hash
from harness.system.errors import BenchError, DataError
from harness.system.files import (
    FILES,
    alone,
    parse_json,
    read_bytes,
    read_record,
    read_set,
    sealed,
    write_json,
    write_whole,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST = 500
"""Attempts of a shard: with curves of 10,000 points each it has about 50 MB, half of what GitHub takes as one file."""
DOCUMENTS = ("spec.json", "result.json", rescored.FILE)
_OF_ATTEMPT = [name for name in ALL_TABLES if "attempt" in columns_of(name)]
_OWN = re.compile(rf"{FILE.pattern}|document-[0-9a-f]{{16}}\.parquet|source-[0-9a-f]{{64}}\.json")


def export(
    store: Store,
    folder: Path,
    verified: Mapping[str, Verification] | None = None,
) -> tuple[int, int, int]:
    """Add the finished attempts of a store to a folder: how many were new or changed, shards written, shards kept.

    With `verified`, only the attempts in it that the folder lacks or has verified less, with their levels.

    Raises `DataError` where the folder has other things, is damaged, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder):
            return _export(store, folder, verified)
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error


def _export(store: Store, folder: Path, verified: Mapping[str, Verification] | None) -> tuple[int, int, int]:
    old = _present(folder)
    shards = _shards(old, folder)
    with connection.in_memory() as db, store.reading() as other:
        for table, contents in by_table(old).items():
            load(db, table, contents, folder)
        before, now = _states(db), _states(other)
        if verified is not None:
            verified = _better(db, verified)
            now = {attempt: state for attempt, state in now.items() if attempt in verified}
        fresh = sorted(attempt for attempt, state in now.items() if before.get(attempt) != state)
        put(db, rows_of(other, fresh))
        found = _verified(store, other, fresh) if verified is None else verified
        fresh = sorted({*fresh, *_put_levels(db, found)})
        stale = {shard for shard, attempts in shards.items() if attempts & set(fresh)}
        documents = documents_of(old, stale) | _documents(store, other, fresh)
        todo = sorted(set(fresh).union(*(shards[shard] for shard in stale)))
        digests = {name: hashlib.sha256(c).hexdigest() for name, c in old.items() if _shard(name) not in stale}
        written = 0
        for start in range(0, len(todo), MOST):
            for name, content in _shard_files(db, todo[start : start + MOST], documents).items():
                digests[name] = _put(folder, name, content)
            written += 1
        for name, content in _sources(documents).items():
            digests.setdefault(name, _put(folder, name, content))
    if digests.keys() != old.keys():
        write_json(folder / MANIFEST, sealed({FILES: dict(sorted(digests.items()))}))
    for path in folder.iterdir():
        if _OWN.fullmatch(path.name) and path.name not in digests:
            with suppress(OSError):
                path.unlink()
    return len(fresh), written, len(shards) - len(stale)


def _present(folder: Path) -> dict[str, bytes]:
    """The files of the set in a folder; none in an empty one."""
    try:
        old = read_set(folder, MANIFEST) or {}
    except ValueError as error:
        raise DataError(f"{folder} is damaged: {error}; restore its files, or choose another folder") from error
    strange = [path.name for path in folder.iterdir() if not _OWN.fullmatch(path.name) and path.name[0] != "."]
    if not old and strange:
        raise DataError(f"{folder} has other files ({strange[0]!r:.60}); choose a new or an exported folder by --out")
    return old


def _put(folder: Path, name: str, content: bytes) -> str:
    """Write a file whose name tells its content; its checksum."""
    digest = hashlib.sha256(content).hexdigest()
    with suppress(OSError):
        if hashlib.sha256(read_bytes(folder / name)).hexdigest() == digest:
            return digest
    write_whole(folder / name, content)
    return digest


def _shard(name: str) -> str:
    """The shard that a file is of; "" for sources, and for the files of sets without shards."""
    return name.removesuffix(".parquet").partition("-")[2] if name.endswith(".parquet") else "source"


def _shards(old: Mapping[str, bytes], folder: Path) -> dict[str, set[str]]:
    """Shard -> its attempts."""
    import pyarrow as pa

    found = {}
    for name, content in old.items():
        if name.startswith("attempt"):
            try:
                rows = read_rows(content, ["attempt"])
            except (OSError, ValueError, KeyError, pa.ArrowException) as error:
                raise DataError(f"{folder / name} cannot be read: {error}") from error
            found[_shard(name)] = set(rows["attempt"].to_pylist())
    return found


def _states(db: DuckDBPyConnection) -> dict[str, tuple[Any, ...]]:
    """Each finished attempt with what its rows are."""
    total: dict[str, dict[str, tuple[Any, ...]]] = {}
    for table in _OF_ATTEMPT:
        columns = ", ".join(columns_of(table))
        only = "where concluded" if table == "attempt" else ""
        query = f"select attempt, count(*), sum(hash({columns})) from {table} {only} group by attempt"  # noqa: S608
        for attempt, *state in db.execute(query).fetchall():
            total.setdefault(attempt, {})[table] = tuple(state)
    return {attempt: tuple(sorted(states.items())) for attempt, states in total.items() if "attempt" in states}


def _verified(store: Store, db: DuckDBPyConnection, attempts: list[str]) -> dict[str, Verification]:
    """What an export says of attempts: those of a results folder were run here, or scored here."""
    if _is_exported(store):
        return {attempt: Verification(attempt, Level.REPORTED, "", "") for attempt in attempts}
    query = "select attempt from attempt join run using (run_key) where protocol = $1"
    scored = {attempt for (attempt,) in db.execute(query, [ELSEWHERE]).fetchall()}
    return {a: Verification(a, Level.RESCORED if a in scored else Level.RUN_HERE, "", "") for a in attempts}


def _better(db: DuckDBPyConnection, verified: Mapping[str, Verification]) -> dict[str, Verification]:
    """The attempts that a folder lacks or that are verified further than it says: the others stay as they are there.

    So nobody replaces rows or levels of others by sending their attempts, altered, once more.
    """
    have = dict(db.execute(f"select attempt, level from {VERIFICATION}").fetchall())  # noqa: S608 - a name of ours
    order = [*map(str, Level)]
    return {a: v for a, v in verified.items() if a not in have or order.index(v.level) > order.index(have[a])}


def _put_levels(db: DuckDBPyConnection, verified: Mapping[str, Verification]) -> list[str]:
    """Put what is said of attempts into an open database; those of which it said something else before."""
    import pyarrow as pa

    before = {row[0]: row for row in db.execute(f"from {VERIFICATION}").fetchall()}
    changed = [v for v in verified.values() if before.get(v.attempt) != (v.attempt, str(v.level), v.how, v.salt)]
    if changed:
        put(db, {VERIFICATION: pa.Table.from_pylist([{**asdict(v), "level": str(v.level)} for v in changed])})
    return [v.attempt for v in changed]


def _is_exported(store: Store) -> bool:
    return (store.results / MANIFEST).exists() and not (store.results / "runs").exists()


def _shard_files(
    db: DuckDBPyConnection, attempts: list[str], documents: Mapping[tuple[str, str], str]
) -> dict[str, bytes]:
    import pyarrow as pa

    contents = {table: parquet(rows) for table, rows in rows_of(db, attempts).items()}
    levels = f"from {VERIFICATION} where attempt in (select unnest(?::varchar[])) order by attempt"
    contents[VERIFICATION] = parquet(db.sql(levels, params=[attempts]).to_arrow_table())
    own = set(attempts)
    kept = sorted((attempt, file, text) for (attempt, file), text in documents.items() if attempt in own)
    names = ("attempt", "file", "content")
    columns = {name: pa.array([row[i] for row in kept], pa.string()) for i, name in enumerate(names)}
    contents["document"] = parquet(pa.table(columns))
    total = hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents.values())).hexdigest()
    return {f"{table}-{total[:16]}.parquet": content for table, content in contents.items()}


def documents_of(files: Mapping[str, bytes], shards: set[str] | None) -> dict[tuple[str, str], str]:
    """The records in exported files: (attempt, file) -> text. Of all shards, or of some."""
    import pyarrow as pa

    found: dict[tuple[str, str], str] = {}
    for name, content in files.items():
        if name.startswith("document-") and (shards is None or _shard(name) in shards):
            try:
                for row in read_rows(content).to_pylist():
                    found[str(row["attempt"]), str(row["file"])] = str(row["content"])
            except (OSError, ValueError, pa.ArrowException, KeyError) as error:
                raise DataError(f"{name} cannot be read: {error}") from error
    return found


def _documents(store: Store, db: DuckDBPyConnection, attempts: list[str]) -> dict[tuple[str, str], str]:
    """The records of attempts of a store, a results folder or an exported one."""
    if _is_exported(store):
        chosen = set(attempts)
        there = documents_of(read_set(store.results, MANIFEST) or {}, None)
        return {key: text for key, text in there.items() if key[0] in chosen and key[1] in DOCUMENTS}
    query = "select attempt, path from attempt where attempt in (select unnest(?::varchar[]))"
    found: dict[tuple[str, str], str] = {}
    for attempt, path in db.execute(query, [attempts]).fetchall():
        for name in DOCUMENTS:
            with suppress(OSError, UnicodeDecodeError):
                found[attempt, name] = read_record(store.results / path / name).decode()
    return found


def _sources(documents: Mapping[tuple[str, str], str]) -> dict[str, bytes]:
    """The code of samplers, schedules and tasks by the hash in the run keys, where the installed code has that hash.

    `sha256` in the file is that of the code itself: another one where a package declares both to be equal.
    """
    wanted = {}
    for (_, file), text in documents.items():
        spec = parse_json(text.encode()) if file == "spec.json" else {}
        for part in ("sampler", "schedule", "task"):
            component = spec.get(part)
            if isinstance(component, dict):
                wanted[str(component.get("source"))] = str(component.get("target"))
    found = {}
    for digest, target in sorted(wanted.items()):
        with suppress(BenchError, OSError, UnicodeDecodeError, ValueError, ImportError):
            if re.fullmatch("[0-9a-f]{64}", digest) and source_hash(target) == digest:
                files, versions = made_of(target)
                record = {
                    "target": target,
                    "sha256": content_hash(target),
                    "files": {n: p.read_text() for n, p in files.items()},
                }
                text = json.dumps({**record, "versions": [*versions]}, indent=1, sort_keys=True)
                found[f"source-{digest}.json"] = text.encode()
    return found
