"""A folder of submitted results, opened for `bench verify`: its rows, records, draws and sources.

Nothing in the folder is changed or executed. A results folder is exported to a temporary folder, so that both kinds are
read alike; the records of each attempt in an exported folder are written to a temporary folder and checked there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from duckdb import DuckDBPyConnection

from harness import DataError
from harness.reports import Level, Store
from harness.results import (
    KEY,
    KEY_VERSION,
    NAME,
    TABLES,
    Attempt,
    Ledger,
    changes,
    columns_of,
    connection,
    ingest,
    reader,
)
from harness.runs.source import hash_of, numbers_of
from harness.system import SEAL, columns, parse_json, read_json, read_set, seal_holds, write_folder, write_whole
from plugins.sharing import published
from plugins.sharing.exporting import DOCUMENTS, export
from plugins.sharing.shards import documents_of
from plugins.upkeep import verification
from plugins.upkeep.stored_spec import truth_of

COMPARED = ("run", "attempt", "metric", "environment", "task_version")
"""Tables that must agree with the records. Files and events are not stored, and curves are compared with a replay.
Whether an attempt was copied is not compared either: `bench verify` decides how far to trust it.
"""
_SOURCE = re.compile(r"source-([0-9a-f]{64})\.json")
Refused = dict[str, str]
"""For an attempt or a file, why it is refused."""


@dataclass
class SubmittedRuns:
    """An opened folder.

    store     its rows; its own verification levels are not used
    documents (attempt, file) -> text of spec.json, result.json and rescored.json
    places    attempt -> directory with its records, and with its draws if the folder has them
    sources   hash in run keys -> {"target": ..., "files": {name: text}}, each with this hash verified
    refused   attempts and files that are damaged or altered
    notes     what was not checked
    """

    store: Store
    documents: Mapping[tuple[str, str], str]
    places: dict[str, Attempt] = field(default_factory=dict)
    sources: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    refused: Refused = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@contextmanager
def opened(folder: Path) -> Iterator[SubmittedRuns]:
    """Open and check a folder; raise `DataError` if it is neither a results folder nor a complete exported one."""
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    Ledger(folder).check_version()
    with TemporaryDirectory(prefix="bench-verify-") as aside:
        if (folder / "runs").is_dir():
            exported, refused, notes = _exported(folder, Path(aside) / "exported")
        else:
            exported, refused, notes = folder, {}, []
        store = published.Published(exported)
        store.refresh()
        files = read_set(exported, published.MANIFEST) or {}
        submission = SubmittedRuns(store, documents_of(files), refused=refused, notes=notes)
        _lay_out(submission, Path(aside) / "records")
        for name, content in files.items():
            if match := _SOURCE.fullmatch(name):
                _take_source(submission, name, match[1], content)
        if exported is not folder:
            submission.places = {a: Attempt(folder / attempt.path.relative_to(Path(aside) / "records"))
                            for a, attempt in submission.places.items()}  # fmt: skip
        _check_truths(submission, folder)
        yield submission


def _exported(folder: Path, out: Path) -> tuple[Path, Refused, list[str]]:
    """Export the whole attempts of a results folder.

    Return the exported folder, what is wrong with the others, and what was left out because it cannot be read.
    """
    ledger = Ledger(folder)
    refused: Refused = {}
    for key in ledger.all_keys():
        for attempt in ledger.attempts(key) if KEY.fullmatch(key) else ():
            for damage in verification.of_attempt(key, attempt):
                if not (damage.path.name == verification.DRAWS and damage.what == "is missing"):
                    refused.setdefault(attempt.id, f"{damage.path.name} {damage.what}")
    store = Store(folder)
    notes = store.read_runs()
    if not store.rows("select 1 from attempt where concluded limit 1"):
        raise DataError("; ".join([f"{folder} has no finished runs", *notes[:1]]))
    export(store, out)
    return out, refused, notes


def _lay_out(submission: SubmittedRuns, folder: Path) -> None:
    """Write the records of each attempt as in a results folder, and compare its rows with them."""
    texts: dict[str, dict[str, bytes]] = {}
    for (attempt, file), text in submission.documents.items():
        if file in DOCUMENTS:
            texts.setdefault(attempt, {})[file] = text.encode()
    rows = submission.store.rows("""select attempt, run_key, path, code, document from attempt left join environment
    using (environment) where concluded order by attempt""")
    records = []
    for row in rows:
        try:
            records.append(_record(folder, row, texts.get(row["attempt"], {})))
        except (columns.Malformed, ValueError, RecursionError, OSError) as error:
            submission.refused.setdefault(row["attempt"], str(error))
        else:
            submission.places[row["attempt"]] = Attempt(folder / row["path"])
    _check_errors(submission, records)
    with connection.in_memory() as db, submission.store.reading() as theirs:
        ingest.ingest(db, changes.News(records))
        for table in COMPARED:
            have, stated = _rows(db, table), _rows(theirs, table)
            for record in records:
                keys = {tuple(row[name] for name in _key(table)) for row in record.rows.get(table, ())}
                if any(stated.get(key) != have.get(key) for key in keys | ({(record.attempt,)} & stated.keys())):
                    submission.refused.setdefault(record.attempt, f"its row in {table} is not what its records say")


def _check_errors(submission: SubmittedRuns, records: Iterable[reader.Record]) -> None:
    """Refuse attempts whose curves give another joint error than their metric."""
    query = "select name, x, y from curve_points where attempt = ? and starts_with(name, 'joint_')"
    for record in records:
        try:
            curves = {
                row["name"]: np.array(row["y"], dtype=np.float64).reshape(-1, len(row["x"]) or 1)
                for row in submission.store.rows(query, [record.attempt])
            }
            reader.check_joint_error(record.rows.get("metric", ()), curves)
        except (columns.Malformed, ValueError) as error:
            submission.refused.setdefault(record.attempt, str(error))


def _key(table: str) -> tuple[str, ...]:
    return TABLES[table].key or ("attempt",)


def _rows(db: DuckDBPyConnection, table: str) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Return the rows of a table by its key. They are not hashed: DuckDB's hash would not hinder a forger."""
    rows: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    key = ", ".join(_key(table))
    columns = ", ".join(name for name in columns_of(table) if name != "copied")
    query = f"select {key}, {columns} from {table} order by all"  # noqa: S608 - names from `TABLES`
    for row in db.execute(query).fetchall():
        rows.setdefault(row[: len(_key(table))], []).append(row)
    return rows


def _record(folder: Path, row: Mapping[str, Any], files: dict[str, bytes]) -> reader.Record:
    """Write the records of one attempt and read them; raise `Malformed` or `ValueError` if it is not complete."""
    name, key = row["attempt"], row["run_key"]
    if not NAME.fullmatch(name) or not KEY.fullmatch(key) or row["path"] != f"runs/{key[:2]}/{key}/{name}":
        raise columns.Malformed("its row names another attempt, run or place")
    if "spec.json" not in files:
        raise columns.Malformed("its spec.json is missing")
    spec = parse_json(files["spec.json"])
    if spec.get("key_version") != KEY_VERSION:
        raise columns.Malformed(
            f"spec.json has key version {spec.get('key_version')!r:.20}; this version knows {KEY_VERSION}"
        )
    if what := verification.spec_damage(spec, key):
        raise columns.Malformed(f"spec.json {what}")
    environment = {}
    if row["document"]:
        document = {"code": parse_json(row["code"].encode()), **parse_json(row["document"].encode())}
        environment["environment.json"] = columns.dump(document).encode()
    (folder / row["path"]).parent.mkdir(parents=True, exist_ok=True)
    write_folder(folder / row["path"], files | environment)
    record = reader.read(folder, row["path"], curves=False)
    if record.notes:
        raise columns.Malformed(record.notes[0])
    return record


def _check_truths(submission: SubmittedRuns, folder: Path) -> None:
    """Check the checksums of stored truths in a results folder, and note how many attempts used a truth."""
    for name in sorted(path.name for path in (folder / "truths").glob("*.json")):
        record = read_json(folder / "truths" / name)
        if record is None or SEAL not in record or not seal_holds(record):
            submission.refused[f"truths/{name}"] = "is damaged: its checksum does not match"
    if count := sum(bool(truth_of(attempt)) for attempt in submission.places.values()):
        submission.notes.append(
            f"note: metrics of {count} attempts were computed with a truth that `bench truth` made there; it is not "
            "computed again here, so these metrics are neither rescored nor replayed"
        )


def _take_source(submission: SubmittedRuns, name: str, digest: str, content: bytes) -> None:
    try:
        record = parse_json(content)
        files, target = dict(record["files"]), str(record["target"])
        code = hash_of({file: str(text).encode() for file, text in files.items()}, map(str, record["versions"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        submission.refused[name] = f"is no record of code: {error}"
        return
    if digest in (code, numbers_of(target, code)):
        submission.sources[digest] = {"target": target, "files": files}
    else:
        submission.refused[name] = "the code in it has another hash than its name"


def refuse_known(submission: SubmittedRuns, board: Path, levels: Mapping[str, Level] | None = None) -> None:
    """Refuse attempts at runs that a board has from another sender, unless they are verified further than those.

    levels    those found for the submitted attempts; if None, the best that a replay could give is assumed
    """
    files = read_set(board, published.MANIFEST) if (board / published.MANIFEST).exists() else None
    if not files:
        return
    there, here = (
        {attempt: text for (attempt, file), text in documents.items() if file == "result.json"}
        for documents in (documents_of(files), submission.documents)
    )
    store = published.Published(board)
    query = "select run_key, attempt, level from attempt join verification using (attempt) order by attempt desc"
    runs = {row["run_key"]: (row["attempt"], Level(row["level"])) for row in store.rows(query)}
    order = [*Level]
    for row in submission.store.rows("select run_key, attempt from attempt"):
        attempt = row["attempt"]
        first, level = runs.get(row["run_key"], (attempt, Level.REPORTED))
        reached = levels.get(attempt, Level.REPORTED) if levels is not None else Level.REPLAYED
        if order.index(reached) > order.index(level):
            continue
        if first != attempt:
            submission.refused.setdefault(attempt, f"{board} has run {row['run_key'][:12]} already, as attempt {first}")
        elif there.get(attempt, here.get(attempt)) != here.get(attempt):
            submission.refused.setdefault(attempt, f"{board} has this attempt with another result.json")


def run_here(board: Path) -> set[str]:
    """Return the keys of the runs that the owner of a board made."""
    if not (board / published.MANIFEST).exists():
        return set()
    query = "select run_key from attempt join verification using (attempt) where level = ?"
    return {row["run_key"] for row in published.Published(board).rows(query, [str(Level.RUN_HERE)])}


def code_of(submission: SubmittedRuns, folder: Path) -> tuple[list[str], list[str]]:
    """Write the submitted modules of samplers, schedules and tasks that consist of one file.

    Return the paths of the files, and notes on the others.

    Nothing is executed. Modules of built-in plugins and of packages are not written: packages have to be installed.
    """
    written: dict[str, str] = {}
    notes = []
    for digest, record in sorted(submission.sources.items()):
        target, files = record["target"], record["files"]
        if target.partition(".")[0] in ("plugins", "tasks"):
            continue
        (module,) = files if len(files) == 1 else ("",)
        if not re.fullmatch(r"[A-Za-z_]\w*", module) or module != target.partition(":")[0]:
            notes.append(f"{target} is not one file: install its package to have it replayed")
        elif written.setdefault(module, digest) != digest and files[module] != (folder / f"{module}.py").read_text():
            notes.append(f"{target} was submitted in two versions; the first is executed")
        else:
            write_whole(folder / f"{module}.py", str(files[module]).encode())
    return [str(folder / f"{module}.py") for module in written], notes
