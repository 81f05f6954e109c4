"""Attempts are read and ingested a batch at a time: memory holds one batch, whatever their number."""

import weakref

import fabricated
import pytest

from harness.results.store import Store, ingest, reader
from plugins.upkeep import verification


@pytest.fixture
def alive(monkeypatch):
    """The greatest number of attempts' records that are in memory at once, in batches of four."""
    monkeypatch.setattr(ingest, "MAX_ATTEMPTS", 4)
    read, seen, most = reader.read, [], [0]

    def counting(*arguments):
        record = read(*arguments)
        seen.append(weakref.ref(record))
        most[0] = max(most[0], sum(known() is not None for known in seen))
        return record

    monkeypatch.setattr(reader, "read", counting)
    return most


def test_memory_holds_one_batch_of_attempts(tmp_path, alive):
    for seed in range(24):
        fabricated.concluded(tmp_path, seed)
    store = Store(tmp_path)
    for work in (store.refresh, lambda: verification.of_database(store, []), store.rebuild):
        alive[0] = 0
        assert work() == []
        assert 4 <= alive[0] <= 6


def test_what_is_ingested_in_batches_is_what_is_ingested_at_once(tmp_path, monkeypatch):
    for seed in range(6):
        fabricated.concluded(tmp_path, seed)
        fabricated.concluded(tmp_path, seed, number=1)
    found = []
    for most in (1, 500):
        monkeypatch.setattr(ingest, "MAX_ATTEMPTS", most)
        store = Store(tmp_path)
        store.rebuild()
        found.append({table: sorted(map(repr, store.rows(f"from {table}"))) for table in (*ingest.SHARED, *ingest.OWN)})
    assert found[0] == found[1]
    assert all(found[0].values())
