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


class AveragedNoise(Plain):
    """Leimkuhler and Matthews 2013: the mean of the noise of this step and the one before. Right, though unusual."""

    def init(self, theta, potential, h, T, noise):
        return {"xi": noise.normal(theta)}

    def step(self, theta, state, potential, h, T, noise):
        xi = noise.normal(theta).expand_as(theta)
        mixed = (xi + state["xi"]) / 2
        return theta - h * potential.grad(theta) + (2 * h * T).sqrt() * mixed, {"xi": xi}


@pytest.mark.parametrize("mutant", SEEN_BY, ids=lambda mutant: mutant.__name__)
def test_the_bug_is_seen(mutant):
    results = check_samplers([mutant()], SEEN_BY[mutant])[0]
    assert {result.law for result in results if result.outcome == "failed"} == SEEN_BY[mutant], results
    assert all("Usual cause" in result.message or "declares" in result.message for result in results)


@pytest.mark.parametrize("sampler", [Plain(), AveragedNoise()], ids=lambda sampler: type(sampler).__name__)
def test_no_law_sees_a_bug_where_none_is_planted(sampler):
    results = check_samplers([sampler])[0]
    assert [result for result in results if result.outcome != "passed"] == []
