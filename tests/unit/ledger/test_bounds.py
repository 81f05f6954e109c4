"""A record of a run is refused where it asks for more than the command line allows: it may be a stranger's."""

import copy
import json

import fabricated
import pytest
import specs

from harness.cli.app import run
from harness.contracts.offers import LONGEST
from harness.contracts.randomness import TUNING_SEED
from harness.results.ledger.attempt import Attempt
from harness.results.spec import MAX_CHAINS, MAX_CHARACTERS, MAX_STEPS, from_record, recorded_key
from harness.system.errors import DataError
from plugins.upkeep.stored_spec import recorded_spec

WRONG = {
    "chains": [10**9, MAX_CHAINS + 1, 0, -1, 1.5, "2", True, None, 10**30],
    "steps": [10**15, MAX_STEPS + 1, 0, -5, 2.0, None],
    "burn_in": [-1, 10, 10**15, "0"],
    "thin": [0, -1, 1.0, 10**30],
    "seed": [-1, 2 * TUNING_SEED, 10**30, "0", 0.5],
    "method": ["x" * 100_000, "x" * (LONGEST + 1), 5, None, "\ud800"],
    "budget": ["x" * 100_000, None],
    "dtype": ["x" * 100_000, 64],
    "compile": [True, "x" * 100_000],
    "sampler.name": ["x" * 100_000, 5],
    "sampler.target": ["x" * 100_000, None],
    "task.name": ["x" * (LONGEST + 1)],
    "task.version": ["1", 2**70],
    "task.protocol": ["x" * 100_000],
    "task.params": [{"a": "x" * MAX_CHARACTERS}, {str(k): k for k in range(200_000)}],
    "origins": [{str(k): {"value": k, "provenance": "user", "source": ""} for k in range(50_000)}],
}


def record_with(field, value):
    record = copy.deepcopy(specs.run_spec().to_json())
    *above, name = field.split(".")
    part = record[above[0]] if above else record
    part[name] = value
    return record


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_record_beyond_the_limits_is_refused(field, value):
    if field == "task.protocol":  # of the two places that have it, this one counts
        assert from_record(specs.run_spec().to_json()).protocol == "p"
    with pytest.raises(ValueError, match=r"is not a (possible|complete record of a) run|characters|is more than"):
        from_record(record_with(field, value))


def test_a_deeply_nested_record_is_refused():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(ValueError, match="run"):
        from_record(record_with("task.params", {"a": nested}))


@pytest.mark.parametrize(
    "change", [{"chains": MAX_CHAINS}, {"steps": MAX_STEPS, "burn_in": MAX_STEPS - 1}, {"seed": TUNING_SEED + 99}]
)
def test_what_the_command_line_allows_is_read(change):
    spec = specs.run_spec(**change)
    assert from_record(json.loads(json.dumps(spec.to_json()))) == spec


def stored(runs, **changes):
    """An attempt with a record beyond the limits, under the key that this record has."""
    attempt = Attempt.create(runs, specs.run_spec(**changes), {"id": "0" * 64})
    record = json.loads((attempt.path / "spec.json").read_text())
    assert recorded_key(record) == attempt.path.parent.name
    return attempt


def test_a_stored_record_says_what_is_wrong(tmp_path):
    with pytest.raises(DataError, match=r"chains = 1000000000 is more than 100,000"):
        recorded_spec(stored(tmp_path / "runs", chains=10**9))


@pytest.mark.parametrize("change", [{"chains": 10**9}, {"steps": 10**15}, {"method": "x" * 100_000}])
def test_a_run_beyond_the_limits_is_left_out_of_the_database(tmp_path, change, capsys):
    fabricated.concluded(tmp_path, 0, points=4)
    fabricated.conclude(fabricated.unfinished(tmp_path, 1, 1, **change), points=4)
    assert run(["--results", str(tmp_path), "sql", "from run", "--json"]) == 0
    said = capsys.readouterr()
    assert len(json.loads(said.out)) == 1
    assert "is more than" in said.err
    assert len(said.err) < 2000
