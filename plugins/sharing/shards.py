"""An exported folder that is read one shard at a time: of 20,000 runs, only 500 are in memory at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection
from pyarrow import compute

from harness import DataError
from harness.reports import Level
from harness.results import Verification, columns_of, connection
from harness.system import listed_digests, read_json, read_set
from plugins.sharing import published

OWN = re.compile(rf"{published.FILE.pattern}|document-[0-9a-f]{{16}}\.parquet|source-[0-9a-f]{{64}}\.json")
"""Names of the files that an exported folder has beside its manifest."""
Documents = Mapping[tuple[str, str], str]
"""(attempt, file) -> text"""
State = tuple[Any, ...]
_OF_ATTEMPT = [name for name in published.ALL_TABLES if "attempt" in columns_of(name)]


@dataclass(frozen=True)
class Shards:
    """The shards of an exported folder.

    digests   file -> SHA-256
    attempts  shard -> its attempts
    """

    folder: Path
    digests: Mapping[str, str]
    attempts: Mapping[str, set[str]]

    @classmethod
    def opened(cls, folder: Path) -> Shards:
        """Return the shards of a folder whose files match its manifest; none for a folder without a manifest.

        Raise `DataError` if the folder is damaged.
        """
        try:
            digests = {}
            if read_set(folder, published.MANIFEST, ()) is not None:
                digests = listed_digests(read_json(folder / published.MANIFEST))
            for name in digests:  # only one file at a time is in memory
                read_set(folder, published.MANIFEST, {name})
        except ValueError as error:
            raise DataError(f"{folder} is damaged: {error}; restore its files, or choose another folder") from error
        attempts = {}
        for name in (name for name in digests if name.startswith("attempt")):
            try:
                (content,) = (read_set(folder, published.MANIFEST, {name}) or {}).values()
                attempts[shard_of(name)] = set(published.read_rows(content, ["attempt"])["attempt"].to_pylist())
            except (OSError, ValueError, KeyError, pa.ArrowException) as error:
                raise DataError(f"{folder / name} cannot be read: {error}") from error
        return cls(folder, digests, attempts)

    def contents(self) -> tuple[dict[str, State], dict[str, Verification]]:
        """Return the state of each attempt's rows, as `states_of` does, and the verification levels in the folder."""
        states: dict[str, State] = {}
        levels: dict[str, Verification] = {}
        known = set(map(str, Level))
        for shard in self.attempts:
            with connection.in_memory() as db:
                for table, contents in published.by_table(self._files(shard)).items():
                    published.load(db, table, contents, self.folder)
                for attempt, state in states_of(db).items():
                    states[attempt] = () if attempt in states else state  # if two shards have it, it is written again
                for attempt, level, *more in db.execute(f"from {published.VERIFICATION}").fetchall():
                    if level in known:
                        levels[attempt] = Verification(attempt, Level(level), *more)
        return states, levels

    def _files(self, shard: str, prefix: str = "") -> dict[str, bytes]:
        names = {name for name in self.digests if shard_of(name) == shard and name.startswith(prefix)}
        return read_set(self.folder, published.MANIFEST, names) or {}

    def rows(self, attempts: set[str]) -> dict[str, list[bytes]]:
        """Return the rows of some attempts, and those of no attempt, as the contents of Parquet files by table."""
        chosen = pa.array(sorted(attempts), pa.string())
        tables: dict[str, list[bytes]] = {}
        for shard in self._with(attempts):
            for table, contents in published.by_table(self._files(shard)).items():
                for rows in map(published.read_rows, contents):
                    if "attempt" in rows.column_names:
                        rows = rows.filter(compute.is_in(rows["attempt"], chosen))  # noqa: PLW2901
                    tables.setdefault(table, []).append(published.parquet(rows))
        return tables

    def documents(self, attempts: set[str]) -> dict[tuple[str, str], str]:
        """Return the records of some attempts."""
        texts: dict[tuple[str, str], str] = {}
        for shard in self._with(attempts):
            there = documents_of(self._files(shard, "document-"))
            texts |= {key: text for key, text in there.items() if key[0] in attempts}
        return texts

    def _with(self, attempts: set[str]) -> Iterator[str]:
        return (shard for shard, of_shard in self.attempts.items() if of_shard & attempts)


def shard_of(name: str) -> str:
    """Return the shard of a file; "" for files of sets without shards, "source" for sources."""
    return name.removesuffix(".parquet").partition("-")[2] if name.endswith(".parquet") else "source"


def states_of(db: DuckDBPyConnection) -> dict[str, State]:
    """Return the state of each finished attempt: the counts and hashes of its rows by table."""
    total: dict[str, dict[str, State]] = {}
    for table in _OF_ATTEMPT:
        columns = ", ".join(columns_of(table))
        only = "where concluded" if table == "attempt" else ""
        query = f"select attempt, count(*), sum(hash({columns})) from {table} {only} group by attempt"  # noqa: S608
        for attempt, *state in db.execute(query).fetchall():
            total.setdefault(attempt, {})[table] = tuple(state)
    return {attempt: tuple(sorted(states.items())) for attempt, states in total.items() if "attempt" in states}


def documents_of(files: Mapping[str, bytes]) -> dict[tuple[str, str], str]:
    """Return the records in exported files: (attempt, file) -> text."""
    texts: dict[tuple[str, str], str] = {}
    for name, content in files.items():
        if name.startswith("document-"):
            try:
                for row in published.read_rows(content).to_pylist():
                    texts[str(row["attempt"]), str(row["file"])] = str(row["content"])
            except (OSError, ValueError, pa.ArrowException, KeyError) as error:
                raise DataError(f"{name} cannot be read: {error}") from error
    return texts
