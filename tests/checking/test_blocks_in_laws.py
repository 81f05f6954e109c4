"""The Gaussian of the laws has a matrix block and a vector block, and `adaptive` names the entries of all blocks."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

from harness import Sampler, linear
from plugins.checking.gaussian import GaussianProblem
from plugins.checking.suite import check_sampler

pytestmark = pytest.mark.usefixtures("one_thread")


class ByBlock(Sampler):
    """sgld with a factor for each block, that follows the mean square of the gradient, as layer-wise samplers have."""

    needs: ClassVar = frozenset({"layout"})
    adaptive: ClassVar = ("M.*",)
    zero_temperature = None
    exempt: ClassVar = {"coordinates": "each block has a step size of its own"}

    def init(self, theta, potential, h, T, noise):
        return {f"M.{block.name}": torch.ones_like(theta[:, :1]) for block in potential.layout.blocks}

    def step(self, theta, state, potential, h, T, noise):
        g = potential.grad(theta)
        parts = potential.layout.split(g)
        M = torch.cat([state[f"M.{k}"].expand(-1, x[0].numel()) for k, x in parts.items()], 1)
        new = {f"M.{k}": 0.9 * state[f"M.{k}"] + 0.1 / (1 + x.square().flatten(1).mean(1, keepdim=True))
               for k, x in parts.items()}  # fmt: skip
        return theta - h * M * g + (2 * h * T * M).sqrt() * noise.normal(theta), new


class Shared(ByBlock):
    """The same with one entry without its name in `adaptive`."""

    adaptive: ClassVar = ("M.bias",)


@pytest.mark.parametrize("dim", [1, 2, 3, 8, 24])
def test_blocks_cover_every_coordinate_once(dim):
    blocks = linear.QuadraticPotential(torch.ones(dim)).layout.blocks
    assert sum(block.size for block in blocks) == dim
    assert [len(block.shape) for block in blocks] == ([2, 1] if dim > 1 else [1])
    assert GaussianProblem(torch.ones(dim)).layout.blocks == blocks


@pytest.mark.slow
def test_the_entries_of_all_blocks_are_held():
    laws = ["derived-law", "real-loop", "one-step", "potential", "seeds", "restore"]
    assert {result.outcome for result in check_sampler(ByBlock, laws)} == {"passed"}
    assert check_sampler(Shared, ["derived-law"])[0].outcome == "skipped"
