"""A step with several minibatches: each of its gradient calls goes to the next one."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from support import both, make_loop, run_loop

from harness import PluginError, Sampler
from harness.contracts.randomness import Streams
from harness.engine.stepping.potential import CountingPotential
from harness.runs.plugin_metadata import _sampler
from plugins.checking.gaussian import GaussianTask
from plugins.samplers.amagold import AMAGOLD
from plugins.samplers.ggmc import GGMC
from plugins.schedules.constant import Constant

TASK = GaussianTask(variance=1.0)
STEPS = 1200
"""More than a block has."""


@dataclass(frozen=True, kw_only=True)
class Differences(Sampler):
    """Moves by g_1 - g_3 of four calls at one position: the difference of the two minibatches of a step."""

    gradients_per_step: ClassVar[int] = 4
    batches_per_step: ClassVar[int] = 2

    def step(self, theta, state, potential, h, T, noise):
        g = [potential.grad(theta) for _ in range(4)]
        return theta + (g[0] - g[2]) + (g[1] - g[0]) + (g[3] - g[2]), state


class Undivided(Differences):
    batches_per_step: ClassVar[int] = 3


def test_calls_go_through_the_batches_of_their_step_in_order():
    _, seen = both(TASK, Differences(), Constant(step_size=0.1), STEPS)
    problem = TASK.build([Streams(0, chain, ("test",)) for chain in range(2)], "cpu")
    slopes = problem.draw_batches(2 * STEPS)["slope"].unflatten(0, (STEPS, 2))
    path = problem.initial() + (slopes[:, 0] - slopes[:, 1]).cumsum(0)
    for draws, *_ in seen:
        torch.testing.assert_close(draws, path, rtol=1e-9, atol=1e-9)


def test_batches_that_do_not_divide_the_calls_are_refused_before_the_first_step():
    with pytest.raises(PluginError, match="batches_per_step is 3, no divisor of its 4"):
        _sampler(f"{__name__}:Undivided", {})


@pytest.mark.slow
@pytest.mark.parametrize("cls", [AMAGOLD, GGMC])
def test_a_batch_for_each_turn_is_accepted_more_often_than_one_for_all(cls):
    """The noise of one batch adds up along the stretch; that of several averages out."""

    def accepted(kind):
        loop = make_loop(GaussianTask(variance=40.0), kind(), Constant(step_size=0.02), 2000, chains=8)
        positions = []
        loop.runs[0].observer.observe = lambda draws, *_: positions.append(draws)
        run_loop(loop)
        path = torch.cat(positions)
        return (path[1:] != path[:-1]).any(-1).double().mean()

    assert accepted(cls) > 2 * accepted(type("OneBatch", (cls,), {"batches_per_step": 1}))


def test_the_batches_of_a_step_do_not_depend_on_how_many_steps_are_drawn_at_once():
    """In longer blocks they are cut out of one tensor, in single steps they are drawn one by one."""
    drawn = []
    for lengths in ((6,), (1, 3, 1, 1)):
        problem = TASK.build([Streams(0, chain) for chain in range(2)], "cpu")
        potential = CountingPotential(problem, TASK.terms(), batches=3)
        parts = [potential.draw_batches(steps) for steps in lengths]
        drawn.append({name: torch.cat([part[name] for part in parts]) for name in parts[0]})
    together, apart = drawn
    assert together.keys() == {"0/slope", "1/slope", "2/slope"}
    for name, leaf in together.items():
        assert torch.equal(leaf, apart[name])
