"""Which attempt a user means."""

import shutil

import fabricated
import pytest

from harness.results.ledger.ledger import Ledger
from harness.system.errors import DataError, UsageError
from plugins.upkeep.lookup import concluded_attempt

FIRST, SECOND = "abcdef01" + "0" * 56, "abcdef02" + "0" * 56


def concluded(results, key, number=0, **changes):
    folder = fabricated.unfinished(results, number=number, key=key)
    return fabricated.conclude(folder, **changes)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path)


def test_the_attempt_that_counts_is_meant(ledger):
    concluded(ledger.root, FIRST, number=1, status="error")
    done = concluded(ledger.root, FIRST, number=2)
    concluded(ledger.root, FIRST, number=3, status="error")
    assert concluded_attempt(ledger, FIRST).path == done
    shutil.rmtree(done)
    assert concluded_attempt(ledger, FIRST).result()["status"] == "error"


def test_a_run_without_a_result_has_nothing_to_compare_with(ledger):
    fabricated.unfinished(ledger.root, key=FIRST, events=("created", "started", "cancelled"))
    with pytest.raises(UsageError, match="is cancelled: it has no result yet"):
        concluded_attempt(ledger, FIRST)


def test_a_damaged_result_is_a_data_error(ledger):
    folder = concluded(ledger.root, FIRST)
    (folder / "result.json").write_text("{")
    with pytest.raises(DataError, match=r"result\.json cannot be read"):
        concluded_attempt(ledger, FIRST)
