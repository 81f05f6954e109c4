"""The slides' comparison where it can be computed: stationary laws on gaussian2d."""

from __future__ import annotations

import numpy as np
import pytest

from harness.contracts.randomness import Streams
from harness.engine.gaussian import Recorder
from harness.engine.linear import derive
from harness.engine.loop import Loop
from plugins.laws.law import trajectory
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD
from tasks.synthetic.gaussian2d import Gaussian2D

CHAINS = 400
AXES = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
CURVATURES = (1 / 1.9, 1 / 0.1)


class Recorded(Gaussian2D):
    """gaussian2d with its draws recorded."""

    def observer(self, *_):
        return Recorder()


def last_draws(task, sampler, path, chains=CHAINS):
    """The last position of each chain (C, D)."""
    loop = Loop(task, sampler, path, [Streams(0, c) for c in range(chains)], chains)
    while not loop.finished:
        loop.advance_block()
    return loop.runs[0].observer.draws()[-1].numpy()


@pytest.mark.parametrize("sampler", [SGLD(gradient_variance=1.0), SGHMC(friction=0.05, gradient_variance=1.0)])
def test_known_noise_of_the_gradient_leaves_the_law_that_steps_have(sampler):
    """At the settings for the task, both axes have the variance that the linear step says, in 400 chains."""
    found = last_draws(Recorded(), sampler, trajectory(np.full(600, 0.05), 1.0)) @ AXES
    for i, curvature in enumerate(CURVATURES):
        exact = derive(sampler, 0.05, 1.0, (curvature,)).stationary(1.0)[0, 0]
        assert found[:, i].var() == pytest.approx(exact, rel=5 * np.sqrt(2 / CHAINS))
        assert abs(found[:, i].mean()) < 5 * np.sqrt(exact / CHAINS)
