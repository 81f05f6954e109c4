"""What a momentum needs: sghmc without friction, sghmc with known gradient noise, hmc that keeps its momentum."""

import numpy as np
import pytest
import torch
from kernels import Noise, scalars

from harness.engine.linear import derive, propagate
from harness.system.errors import UsageError
from plugins.checking.gaussian import GaussianTask
from plugins.checking.law import draws, finish, loop, trajectory
from plugins.samplers.hmc import HMC
from plugins.samplers.sghmc import SGHMC


@pytest.mark.parametrize("x", [0.01, 0.5, 3.0])
def test_sghmc_without_friction_preserves_volume_and_has_no_stationary_law(x):
    step = derive(SGHMC(friction=0.0), x, 1.0)
    assert np.linalg.det(step.A) == pytest.approx(1, abs=1e-12)
    assert step.stationary() is None
    assert step.stationary(1.0) is None
    assert np.abs(step.B).max() == 0
    assert SGHMC(friction=0.0).limit_bias() is None


@pytest.mark.parametrize("V", [0.5, 2.0])
def test_the_energy_of_sghmc_without_friction_grows_in_proportion_to_the_gradient_noise(V):
    """By h V / 2 a step in all, half of it in E theta^2 / 2, from the exact covariances."""
    h, steps = 0.01, 4000
    P = propagate(SGHMC(friction=0.0), trajectory(np.full(steps, h), 1.0), (1.0,), np.diag([1.0, h]), V)
    potential = P[:, 0, 0] / 2
    growth = np.polyfit(np.arange(steps), potential, 1)[0]
    assert growth == pytest.approx(h * V / 4, rel=0.02)
    still = propagate(SGHMC(friction=0.0), trajectory(np.full(steps, h), 1.0), (1.0,), np.diag([1.0, h]))
    assert still[:, 0, 0].max() < 1.06


@pytest.mark.parametrize(("alpha", "V", "T"), [(0.1, 5.0, 1.0), (0.5, 30.0, 1.0), (0.9, 3.0, 0.5)])
def test_a_known_gradient_variance_gives_sghmc_the_law_of_exact_gradients(alpha, V, T):
    h = 0.02
    exact = derive(SGHMC(friction=alpha), h, T).stationary()
    corrected = derive(SGHMC(friction=alpha, gradient_variance=V), h, T).stationary(V)
    np.testing.assert_allclose(corrected, exact, rtol=1e-9)
    noisy = derive(SGHMC(friction=alpha), h, T).stationary(V)
    np.testing.assert_allclose(noisy, exact * (1 + h * V / (2 * alpha * T)), rtol=1e-9)
    wrong = derive(SGHMC(friction=alpha, gradient_variance=V / 2), h, T).stationary(V)
    np.testing.assert_allclose(wrong, exact * (1 + h * V / (4 * alpha * T)), rtol=1e-9)


@pytest.mark.parametrize("friction", [0.0, 0.1])
def test_more_gradient_noise_than_a_step_should_have_is_refused(friction):
    sampler = SGHMC(friction=friction, gradient_variance=10.0)
    with pytest.raises(UsageError, match=r"sghmc: gradient_variance = 10 is more noise than a step of h = 0.05"):
        sampler.check_steps([0.001, 0.05], [1.0, 1.0])
    sampler.check_steps([0.05], [0.0])


def walk(sampler, steps=300, chains=512):
    task = GaussianTask(curvatures=(1.0, 1.0))
    return draws(finish(loop(sampler, task, trajectory(np.full(steps, 0.01), 1.0), chains, seed=2)))


def test_hmc_without_resampling_leaves_the_target_invariant_and_every_chain_on_its_energy():
    """From exact draws all chains together stay exact; one chain alone keeps the energy it was given."""
    kept, fresh = (walk(HMC(resample=resample, leapfrog=5, jitter=0.2)) for resample in (False, True))
    n = kept[-1].numel()
    for path in (kept, fresh):
        assert float(path[-1].square().mean()) == pytest.approx(1, abs=4 * (2 / n) ** 0.5)
    spread = [path.square().sum(2).mean(0).std() for path in (kept, fresh)]  # of the chains' mean energies
    assert float(spread[0]) > 3 * float(spread[1])


def test_hmc_without_resampling_turns_round_where_a_proposal_is_refused():
    theta = torch.tensor([[0.5, -0.2]], dtype=torch.float64)

    class Steep:
        calls = 0

        @property
        def full(self):
            return self

        def grad(self, x):
            return x

        def value_and_grad(self, x):
            self.calls += 1
            return x.square().sum(1) / 2 + 1e9 * (self.calls > 1), x

    h, T = scalars(0.01, 1.0)
    sampler, potential = HMC(resample=False), Steep()
    state = sampler.init(theta, potential, h, T, Noise(1))
    moved, after = sampler.step(theta, state, potential, h, T, Noise(1))
    assert torch.equal(moved, theta)
    assert torch.equal(after["r"], -state["r"])
