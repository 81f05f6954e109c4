"""The slides' comparisons, where they can be computed: stationary laws on gaussian2d, and heat without friction."""

from __future__ import annotations

import numpy as np
import pytest

from harness.contracts.randomness import Streams
from harness.engine.gaussian import Recorder
from harness.engine.linear import derive, propagate
from harness.engine.loop import Loop
from plugins.laws.law import trajectory
from plugins.samplers.hmc import HMC
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD
from tasks.synthetic.bimodal1d import Bimodal1D
from tasks.synthetic.gaussian2d import Gaussian2D, GaussianProblem

CHAINS = 400
AXES = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
CURVATURES = (1 / 1.9, 1 / 0.1)


class Recorded(Gaussian2D):
    """gaussian2d with its draws recorded."""

    def build(self, streams, device):
        problem = GaussianProblem(self, streams, device)
        problem.observer = lambda *_: Recorder()
        return problem


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


def test_without_friction_the_noise_of_the_gradient_heats_without_end():
    sampler, path = SGHMC(friction=0.0), trajectory(np.full(800, 0.05), 1.0)
    found = last_draws(Recorded(), sampler, path) @ AXES
    for i, curvature in enumerate(CURVATURES):
        start = np.diag([3.0, 0.05])  # uniform on [-3, 3], and v from N(0, h)
        exact = propagate(sampler, path, (curvature,), start, 1.0)[-1][0, 0]
        assert exact > 5 / curvature
        assert found[:, i].var() == pytest.approx(exact, rel=5 * np.sqrt(2 / CHAINS))


class RecordedBimodal(Bimodal1D):
    """bimodal1d with its draws recorded."""

    def build(self, streams, device):
        problem = super().build(streams, device)
        problem.observer = lambda *_: Recorder()
        return problem


def test_hmc_that_draws_its_momentum_anew_forgets_where_it_started_and_the_other_does_not():
    """The share of chains on the right after 60 proposals; those that keep r keep their H, and with it their side."""
    path = trajectory(np.full(60, 0.01), 1.0)
    task = RecordedBimodal()
    start = task.build([Streams(0, c) for c in range(CHAINS)], "cpu").initial().numpy()[:, 0]
    anew = last_draws(task, HMC(leapfrog=10, jitter=0.0), path)[:, 0]
    kept = last_draws(task, HMC(leapfrog=10, jitter=0.0, resample=False), path)[:, 0]
    chance = 5 / np.sqrt(CHAINS)
    assert abs(np.mean(anew > 0) - 0.5) < chance / 2
    assert abs(np.corrcoef(np.sign(anew), np.sign(start))[0, 1]) < chance
    assert np.corrcoef(np.sign(kept), np.sign(start))[0, 1] > chance
