"""A task that has only an energy: its gradient by automatic differentiation keeps the laws, compiled too."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from harness.contracts.randomness import Streams
from harness.tasks import Problem
from plugins.checking.suite import check_task
from tasks.synthetic.mixture import MixtureProblem
from tasks.synthetic.mixture5 import Mixture5


class EnergyOnly(MixtureProblem):
    gradient = Problem.gradient
    energy_and_gradient = Problem.energy_and_gradient


@dataclass(frozen=True, kw_only=True)
class Automatic(Mixture5):
    def build(self, streams, device):
        return EnergyOnly(self, streams, device)


@pytest.mark.parametrize("law", ["gradient is that of the energy", "chains do not interact", "compiled is plain"])
def test_it_keeps_the_laws(law):
    (result,) = check_task(Automatic(), [law])
    assert result.outcome == "passed", result.message


class LeftAlone(Automatic):
    """One whose gradient the compiler leaves as it is, an operation of the compiled step."""

    opaque = True


def test_it_is_compiled_where_the_gradient_is_left_alone():
    (result,) = check_task(LeftAlone(), ["compiled is plain"])
    assert result.outcome == "passed", result.message


def test_the_gradient_is_the_one_written_by_hand():
    streams = [Streams(0, chain) for chain in range(3)]
    by_hand, automatic = Mixture5().build(streams, "cpu"), Automatic().build(streams, "cpu")
    theta = by_hand.initial()
    batch = {name: leaf[0] for name, leaf in by_hand.draw_batches(1).items()}
    for automatic_value, expected in zip(
        automatic.energy_and_gradient(theta, batch), by_hand.energy_and_gradient(theta, batch), strict=True
    ):
        assert torch.allclose(automatic_value, expected, rtol=1e-12)
        assert not automatic_value.requires_grad
