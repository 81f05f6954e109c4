"""What the ledger has and the database lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.ledger import locks
from harness.store import papers as paper_files
from harness.store import reader, scan
from harness.store.reader import Record

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from harness.store.record import Row

PAUSED = ("cancelled", "preempted")


@dataclass(frozen=True)
class Known:
    """What the database has: the concluded attempts, the unfinished ones (status, events), and the papers' files."""

    concluded: frozenset[str] = frozenset()
    unfinished: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    papers: frozenset[str] = frozenset()


@dataclass
class News:
    """What the database lacks; `papers` is None where they have not changed."""

    records: list[Record] = field(default_factory=list)
    papers: dict[str, list[Row]] | None = None
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.records) or self.papers is not None


def known(db: DuckDBPyConnection) -> Known:
    """What an open database has."""
    attempts = db.execute(
        "select attempt, concluded, status, (select count(*) from event where event.attempt = attempt.attempt) "
        "from attempt"
    ).fetchall()
    return Known(
        concluded=frozenset(attempt for attempt, concluded, _, _ in attempts if concluded),
        unfinished={attempt: (status, events) for attempt, concluded, status, events in attempts if not concluded},
        papers=frozenset(sha256 for (sha256,) in db.execute("select sha256 from paper").fetchall()),
    )


def news(results: Path, have: Known, papers: Iterable[Path]) -> News:
    """Read what is new below `results`. An attempt that is not whole is left out, with a note that names it."""
    found = News()
    present = scan.attempts(results)
    for attempt, path in present.items():
        if attempt in have.concluded:
            continue
        try:
            found.records.append(reader.read(results, path))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one attempt must not block the others
            found.notes.append(f"{results / path} is left out: {error}")
    _settle(results, found.records)
    found.records = [record for record in found.records if not _same(record, have)]
    gone = len((have.concluded | have.unfinished.keys()) - present.keys())
    if gone and (results / "runs").is_dir():
        found.notes.append(
            f"{gone} attempts are no longer in {results / 'runs'}; `bench ingest --rebuild` forgets them"
        )
    paths = list(papers)
    if paths and {paper_files.checksum(path) for path in paths} != have.papers:
        found.papers, notes = paper_files.read(paths)
        found.notes += notes
    return found


def _settle(results: Path, records: list[Record]) -> None:
    """The status of unfinished attempts: of a held run the one with the latest event is running, of a free one none."""
    by_key: dict[str, list[Record]] = {}
    for record in records:
        if not record.concluded:
            by_key.setdefault(record.run_key, []).append(record)
    for key, members in by_key.items():
        for record in members:
            last = record.last()
            if last is not None:
                record.row["status"] = last["event"] if last["event"] in PAUSED else "orphaned"
        if locks.held(results / "locks" / f"{key}.lock"):
            max(members, key=_recency).row["status"] = "running"


def _recency(record: Record) -> tuple[str, str]:
    last = record.last()
    return (last["time"].isoformat() if last else "", record.attempt)


def _same(record: Record, have: Known) -> bool:
    state = (record.row["status"], len(record.rows["event"]))
    return not record.concluded and have.unfinished.get(record.attempt) == state
