"""Every planted bug is seen by the law that is meant to see it."""

from __future__ import annotations

import pytest
import torch
from mutants import SEEN_BY, Plain

from harness.conformance.suite import check_samplers


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("mutant", SEEN_BY, ids=lambda mutant: mutant.__name__)
def test_the_bug_is_seen(mutant):
    results = check_samplers([mutant()], SEEN_BY[mutant])[0]
    assert {result.law for result in results if result.outcome == "failed"} == SEEN_BY[mutant], results
    assert all("Usual cause" in result.message or "declares" in result.message for result in results)


def test_the_sampler_that_the_bugs_are_planted_in_has_none():
    results = check_samplers([Plain()])[0]
    assert [result for result in results if result.outcome != "passed"] == []
