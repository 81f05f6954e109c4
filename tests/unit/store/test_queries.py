from __future__ import annotations

import fabricated
import pytest

from harness.results.store import Store
from harness.system.errors import UsageError


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


def test_columns_of_one_name_stay_apart(store):
    assert store.rows("select 1 as a, 2 as a, 3 as b") == [{"a": 1, "a_1": 2, "b": 3}]


@pytest.mark.parametrize(
    "query",
    [
        "insert into meta values ('a', 'b')",
        "drop table run",
        "update run set seed = 0",
        "select * from read_csv('/etc/hostname')",
        "select * from '/etc/hostname'",
        "attach 'other.duckdb'",
        "copy run to 'run.csv'",
        "export database 'export'",
        "install httpfs",
        "set enable_external_access = true",
        "selec 1",
    ],
)
def test_a_query_can_neither_write_nor_reach_a_file(store, query):
    fabricated.concluded(store.results)
    store.refresh()
    before = store.path.read_bytes()
    with pytest.raises(UsageError, match="the query failed"):
        store.table(query)
    assert store.path.read_bytes() == before


def test_a_query_reaches_no_file_where_there_is_no_database(store):
    store.refresh()
    with pytest.raises(UsageError, match="disabled by configuration"):
        store.table("select * from read_csv('/etc/hostname')")
