"""An exported folder: Parquet files of finished attempts in shards, with their records and source code.

A shard is one file for each table, and `document-SHARD.parquet` with spec.json, result.json and rescored.json as they
were written. SHARD is a checksum of the shard's content. An export adds shards with what the folder lacks. It replaces
a shard only if an attempt in it has changed, for example by `bench rescore`, and removes nothing else.

`verification-SHARD.parquet` says what the owner of the folder did to verify each attempt: those from a results folder
were run here. Verification levels in another exported folder are not copied: its attempts count as reported, until
`bench verify` finds more.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
from duckdb import DuckDBPyConnection

from harness import BenchError, DataError
from harness.reports import Level, Store
from harness.results import ELSEWHERE, PARTS, Verification, connection, laws, rescored
from harness.runs import content_hash, source_hash
from harness.runs.source import made_of
from harness.system import FILES, alone, parse_json, read_bytes, sealed, write_json, write_whole
from plugins.sharing import published
from plugins.sharing.shards import OWN, Documents, Shards, shard_of, states_of

MOST = 500
"""Most attempts in a shard: with curves of 10,000 points each it has about 50 MB, half of GitHub's limit for a file."""
DOCUMENTS = ("spec.json", "result.json", rescored.FILE)


def export(
    store: Store,
    folder: Path,
    verified: Callable[[], Mapping[str, Verification]] | None = None,
) -> tuple[int, int, int]:
    """Add the finished attempts of a store to a folder.

    Return how many were new or changed, how many shards were written, and how many were kept.

    With `verified`, only attempts that it returns are added, with their levels: those that the folder lacks or has
    verified less. It is called when no other command writes to the folder any more.

    Raise `DataError` if the folder contains other files, is damaged, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with alone(folder):
            return _export(store, folder, verified() if verified else None)
    except OSError as error:
        raise DataError(f"{error.filename or folder} cannot be written: {error.strerror or error}") from error


def _export(store: Store, folder: Path, verified: Mapping[str, Verification] | None) -> tuple[int, int, int]:
    """Write one shard after the other, so that only the rows of one shard are in memory at once."""
    old = Shards.opened(folder)
    foreign = [path.name for path in folder.iterdir() if not OWN.fullmatch(path.name) and path.name[0] != "."]
    if not old.digests and foreign:
        raise DataError(f"{folder} has other files ({foreign[0]!r:.60}); choose a new or an exported folder by --out")
    before, had = old.contents()
    source = Shards.opened(store.results) if published.is_exported(store.results) else None
    with store.reading() as other:
        now = states_of(other)
        levels = _verified(other, sorted(now), exported=source is not None) if verified is None else verified
        better = _better(had, levels)
        same = {a for a, level in levels.items() if verified is None and a in had and had[a].level == level.level}
        changed = {a for a, state in now.items() if a in better or (a in same and before.get(a) != state)}
        levels = {attempt: level for attempt, level in levels.items() if attempt in changed}
        if verified is None and source is None:  # the laws of other attempts may have been run here since
            levels |= _with_laws(other, laws.read(store.results), {**had, **levels})
        fresh = changed | {attempt for attempt, level in levels.items() if had.get(attempt) != level}
        stale = {shard for shard, attempts in old.attempts.items() if attempts & fresh}
        shards = {attempt: shard for shard in stale for attempt in old.attempts[shard]}
        todo = sorted(fresh.union(shards), key=lambda attempt: (shards.get(attempt, ""), attempt))
        digests = {name: digest for name, digest in old.digests.items() if shard_of(name) not in stale}
        levels = {**had, **levels}
        code: dict[str, str] = {}
        written = 0
        for start in range(0, len(todo), MOST):
            batch = set(todo[start : start + MOST])
            documents = old.documents(batch) | _documents(store, source, other, batch & changed)
            code |= _code(documents)
            with connection.in_memory() as db:
                for table, contents in old.rows(batch - changed).items():
                    published.load(db, table, contents, folder)
                published.put(db, published.rows_of(other, sorted(batch & changed)))
                _put_levels(db, [levels[attempt] for attempt in batch if attempt in levels])
                files = _shard_files(db, sorted(batch), documents)
            for name, content in files.items():
                digests[name] = _put(folder, name, content)
            written += 1
        for name, content in _sources(code).items():
            digests.setdefault(name, _put(folder, name, content))
    if digests.keys() != old.digests.keys():
        write_json(folder / published.MANIFEST, sealed({FILES: dict(sorted(digests.items()))}))
    for path in folder.iterdir():
        if OWN.fullmatch(path.name) and path.name not in digests:
            with suppress(OSError):
                path.unlink()
    return len(fresh), written, len(old.attempts) - len(stale)


def _put(folder: Path, name: str, content: bytes) -> str:
    """Write a file whose name contains a checksum of its content; return the checksum of the file."""
    digest = hashlib.sha256(content).hexdigest()
    with suppress(OSError):
        if hashlib.sha256(read_bytes(folder / name)).hexdigest() == digest:
            return digest
    write_whole(folder / name, content)
    return digest


def _verified(db: DuckDBPyConnection, attempts: list[str], *, exported: bool) -> dict[str, Verification]:
    """Return the levels of attempts in an export: those of a results folder were run or scored here, or copied."""
    query = f"""select attempt, case when $1 or copied then '{Level.REPORTED}'
    when protocol = '{ELSEWHERE}' then '{Level.RESCORED}' else '{Level.RUN_HERE}' end
    from attempt join run using (run_key) where attempt in (select unnest($2::varchar[]))"""  # noqa: S608 - own names
    return {a: Verification(a, Level(level), "", "") for a, level in db.execute(query, [exported, attempts]).fetchall()}


def _with_laws(
    db: DuckDBPyConnection, known: Mapping[str, laws.Outcome], levels: Mapping[str, Verification]
) -> dict[str, Verification]:
    """Return the levels of the attempts of which the outcomes of the laws are known, by `laws.key`, with these."""
    query = """select attempt, sampler, sampler_source, sampler_params from attempt join run using (run_key)
    where attempt in (select unnest(?::varchar[]))"""
    rows = db.execute(query, [sorted(levels)]).fetchall() if known else []
    return {
        attempt: replace(levels[attempt], laws=outcome.to_json())
        for attempt, *identity in rows
        if (outcome := known.get(laws.key(*identity)))
    }


def _better(had: Mapping[str, Verification], verified: Mapping[str, Verification]) -> dict[str, Verification]:
    """Return the attempts that a folder lacks or that are now verified further than in it; the others stay unchanged.

    So nobody can replace rows or levels of others by sending altered copies of their attempts.
    """
    order = [*map(str, Level)]
    return {a: v for a, v in verified.items() if a not in had or order.index(v.level) > order.index(had[a].level)}


def _put_levels(db: DuckDBPyConnection, levels: list[Verification]) -> None:
    """Put verification levels into an open database."""
    if levels:
        rows = [{**asdict(one), "level": str(one.level)} for one in levels]
        published.put(db, {published.VERIFICATION: pa.Table.from_pylist(rows)})


def _shard_files(db: DuckDBPyConnection, attempts: list[str], documents: Documents) -> dict[str, bytes]:
    contents = {table: published.parquet(rows) for table, rows in published.rows_of(db, attempts).items()}
    levels = f"from {published.VERIFICATION} where attempt in (select unnest(?::varchar[])) order by attempt"
    contents[published.VERIFICATION] = published.parquet(db.sql(levels, params=[attempts]).to_arrow_table())
    chosen = set(attempts)
    kept = sorted((attempt, file, text) for (attempt, file), text in documents.items() if attempt in chosen)
    names = ("attempt", "file", "content")
    columns = {name: pa.array([row[i] for row in kept], pa.string()) for i, name in enumerate(names)}
    contents["document"] = published.parquet(pa.table(columns))
    total = hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents.values())).hexdigest()
    return {f"{table}-{total[:16]}.parquet": content for table, content in contents.items()}


def _documents(
    store: Store, source: Shards | None, db: DuckDBPyConnection, attempts: set[str]
) -> dict[tuple[str, str], str]:
    """Return the records of attempts in a store, which is a results folder or an exported one (`source`)."""
    if source is not None:
        return {key: text for key, text in source.documents(attempts).items() if key[1] in DOCUMENTS}
    query = "select attempt, path from attempt where attempt in (select unnest(?::varchar[]))"
    texts: dict[tuple[str, str], str] = {}
    for attempt, path in db.execute(query, [sorted(attempts)]).fetchall():
        for name in DOCUMENTS:
            with suppress(OSError, UnicodeDecodeError):
                texts[attempt, name] = read_bytes(store.results / path / name).decode()
    return texts


def _code(documents: Documents) -> dict[str, str]:
    """Return the targets of the samplers, schedules and tasks that records name, by source hash."""
    wanted = {}
    for (_, file), text in documents.items():
        spec = parse_json(text.encode()) if file == "spec.json" else {}
        for part in PARTS:
            component = spec.get(part)
            if isinstance(component, dict):
                wanted[str(component.get("source"))] = str(component.get("target"))
    return wanted


def _sources(wanted: Mapping[str, str]) -> dict[str, bytes]:
    """Return the code files by the hash in the run keys, if the installed code has that hash.

    `sha256` in a file is the hash of the code itself. It differs from the name if a package declares both to be equal.
    """
    sources = {}
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
                sources[f"source-{digest}.json"] = text.encode()
    return sources
