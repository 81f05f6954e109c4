"""Parallel tempering: its law, its swaps, and what `bench truth` concludes where independent chains miss a mode."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from harness.tasks import DensityTask, Reference
from plugins.truths import tempering
from plugins.truths.tempering import LADDERS, RUNGS, Ladders, base_of, tempered_functions

pytestmark = pytest.mark.statistical


@dataclass(frozen=True, kw_only=True)
class Modes(DensityTask):
    """.3 N(-5, I) + .7 N(5, I) in two dimensions; chains start around the second mode."""

    def dim(self):
        return 2

    def energy(self, theta):
        low, high = (-(theta - centre).square().sum(1) / 2 for centre in (-5, 5))
        return -torch.logaddexp(low + np.log(0.3), high + np.log(0.7))

    def start(self, generator):
        return 5 + 3 * torch.randn(2, generator=generator, dtype=torch.float64)

    def functions(self, theta):
        return theta


class One(Modes):
    """N(5, I)."""

    def energy(self, theta):
        return (theta - 5).square().sum(1) / 2


@pytest.fixture(scope="module")
def two():
    """Enough draws to decide between the two modes: their mean is known to 0.4 and the modes are 3 and 7 from it."""
    return tempered_functions(Modes(), 600, lambda *_: None)


def reference(tempered, mean, sd):
    """One that independent chains agree on, with the tempering of a task."""
    flat = {"mean": [mean] * 2, "sd": [sd] * 2, "z4": [3.0] * 2, "rhat": [1.0] * 2, "mean_error": [0.02] * 2}
    return Reference.of_record({
        **flat, "sd_error": [0.02] * 2, "levels": [0.5], "quantiles": [[mean]] * 2, "chains": 16, "draws": 1,
        "acceptance": 0.8, "seconds": 1.0, "command": "", "tempering": tempered,
    })  # fmt: skip


@pytest.mark.slow
def test_tempering_finds_the_mode_that_chains_miss_and_its_weight():
    two = tempered_functions(Modes(), 1500, lambda *_: None)
    off = np.abs(np.array(two["mean"]) - 2.0) / np.array(two["mean_error"])
    assert off.max() < 5, two
    assert max(two["mean_error"]) < 0.1 * 4.7
    exact = (1 + 25 * (1 - 0.4**2)) ** 0.5
    assert two["sd"] == pytest.approx([exact] * 2, rel=0.05)
    assert max(two["rhat"]) < 1.05
    assert two["round_trips"] >= 100
    assert min(two["swap_acceptance"]) > 0.2


def test_a_reference_of_one_mode_is_refused_and_a_right_one_is_the_truth(two):
    missed = reference(two, 5.0, 1.0)
    assert missed.kind == "none"
    assert "parallel tempering has another mean for 100.0% of the functions" in missed.refused
    right = reference(two, two["mean"][0], two["sd"][0])
    assert (right.refused, right.kind) == ("", "truth")
    wrong_sd = reference(two, two["mean"][0], 1.3 * two["sd"][0])
    assert "another sd" in wrong_sd.refused


def test_tempering_that_did_not_mix_decides_nothing(two):
    for changed, told in (({"round_trips": 3}, "3 round trips"), ({"rhat": [1.2] * 2}, "R-hat")):
        truth = reference({**two, **changed}, 5.0, 1.0)
        assert (truth.refused, truth.kind) == ("", "function space")
        assert told in truth.tempering.unfit


@pytest.mark.slow
def test_one_mode_by_tempering_is_that_mode():
    truth = tempered_functions(One(), 1000, lambda *_: None)
    assert np.abs((np.array(truth["mean"]) - 5) / truth["mean_error"]).max() < 5
    assert truth["sd"] == pytest.approx([1, 1], rel=0.05)


def test_a_swap_is_accepted_by_the_energies_and_moves_all_of_a_replica():
    task = Modes()
    streams = [tempering.Streams(0, c, ("tempering",)) for c in range(LADDERS * RUNGS)]
    theta = torch.randn((LADDERS * RUNGS, 2), dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    ladders = Ladders(
        tempering.on_all_data(task).build(streams, "cpu"), base_of(task, theta), theta, torch.Generator().manual_seed(1)
    )
    before, heights = theta.clone(), ladders.at[0].clone()
    ladders._swap()
    moved = (ladders.theta != before).any(1).view(LADDERS, RUNGS)
    assert moved.any()
    assert not moved.all()
    for m, k in zip(*torch.nonzero(moved, as_tuple=True), strict=True):
        partner = k + 1 if k % 2 == 0 else k - 1
        assert torch.equal(ladders.theta.view(LADDERS, RUNGS, 2)[m, k], before.view(LADDERS, RUNGS, 2)[m, partner])
        assert ladders.at[0].view(LADDERS, RUNGS)[m, k] == heights.view(LADDERS, RUNGS)[m, partner]
    expected = ladders._evaluated(ladders.theta)
    for part, right in zip(ladders.at, expected, strict=True):
        assert torch.allclose(part, right)
