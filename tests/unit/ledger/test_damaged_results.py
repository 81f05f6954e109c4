"""A result.json that is not what was written counts as no result: the run is done again, and the damaged one stays."""

import json

import pytest
from specs import run_spec as spec

from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.records import AttemptResult
from harness.runs.resume import open_attempt

HERE = {"id": "3896b80d852ff19ae236040f8bf39c7c7007779189c6ea638369d0fa043e53ce", "cpu": "e"}


@pytest.fixture
def attempt(ledger):
    return Attempt.create(ledger.runs, spec(), HERE)


def flip(path, index, bit=1):
    content = bytearray(path.read_bytes())
    content[index] ^= bit
    path.write_bytes(content)


def change(**members):
    def damage(path):
        path.write_text(json.dumps(json.loads(path.read_text()) | members))

    return damage


DAMAGE = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "no object": lambda path: path.write_text("[1, 2]"),
    "nested too deep": lambda path: path.write_text("[" * 100_000),
    "not text": lambda path: path.write_bytes(b"\xff\xfe" * 40),
    "another value": change(passes=7.0),
    "another status": change(status="error"),
    "another attempt": change(attempt="20260101T000000000-aaaaaa"),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_result_is_not_trusted(ledger, attempt, damage):
    conclude(attempt, AttemptResult(status="done", passes=3.0))
    assert ledger.standing(spec().key).cached
    DAMAGE[damage](attempt.path / "result.json")
    standing = ledger.standing(spec().key)
    assert standing.status == "damaged"
    assert not standing.cached
    assert not standing.failed
    assert standing.unfinished is None
    assert standing.reason.startswith("result.json ")
    assert attempt.result() is None


def test_no_flipped_bit_changes_a_value_unseen(attempt):
    conclude(attempt, AttemptResult(status="done", passes=0.25))
    path = attempt.path / "result.json"
    whole, record = path.read_bytes(), attempt.result()
    passed = 0
    for index in range(len(whole)):
        for bit in (1, 32):
            flip(path, index, bit)
            flipped = attempt.result()
            if flipped is not None:  # white space, or the name of the seal
                passed += 1
                assert {**flipped, "sha256": ""} == {**flipped, **record, "sha256": ""}, (index, bit)
            path.write_bytes(whole)
    assert passed < len(whole) / 5


def test_what_no_key_holds_of_a_damaged_spec_is_mended(ledger, attempt):
    path = attempt.path / "spec.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"provenance", b"prgvenance").replace(b'"budget": "smoke"', b'"budget": "smoky"'))
    assert open_attempt(ledger, spec(), HERE)[0].id == attempt.id
    assert path.read_bytes() == whole


def test_an_attempt_concludes_once_even_when_its_result_was_damaged(attempt):
    conclude(attempt, AttemptResult(status="done"))
    flip(attempt.path / "result.json", -20)
    with pytest.raises(ValueError, match="already concluded"):
        conclude(attempt, AttemptResult(status="done"))


def test_a_result_from_before_seals_is_read(ledger, attempt):
    conclude(attempt, AttemptResult(status="done"))
    path = attempt.path / "result.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in record.items() if name != "sha256"}))
    assert ledger.standing(spec().key).cached
