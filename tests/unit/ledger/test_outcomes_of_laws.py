"""An outcome of the laws is stored with its facts apart, and what is no outcome withholds a rank."""

from __future__ import annotations

import pytest

from harness.results.laws import BOARD, NONE, NOT_RUN, Outcome, Verdict


@pytest.mark.parametrize(
    "outcome",
    [
        NOT_RUN, NONE, BOARD, Outcome(Verdict.PASSED, ("scale", "seeds")),
        Outcome(Verdict.FAILED, ("potential",), 'of "quotes"; and: colons', ignores_gradient=True),
    ],
)  # fmt: skip
def test_an_outcome_is_read_as_it_was_written(outcome):
    assert Outcome.from_json(outcome.to_json()) == outcome


@pytest.mark.parametrize(
    "text",
    ["passed", "[]", "null", "{}", '{"verdict": "passed"}',
     '{"verdict": "good", "laws": [], "reason": "", "ignores_gradient": false}',
     '{"verdict": "passed", "laws": [], "reason": 1, "ignores_gradient": false}'],
)  # fmt: skip
def test_text_that_is_no_outcome_does_not_count_as_one(text):
    assert Outcome.from_json(text) == BOARD
    assert Outcome.from_json("") == NOT_RUN
