"""The ravine: data by seed, its potential and posterior, and the readings that the search tries."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from harness.contracts.randomness import Streams
from harness.contracts.schedule import Trajectory
from harness.contracts.task import Cost
from plugins.laws.task_laws import law_truth_by_another_route
from plugins.samplers.asgld import ASGLD
from plugins.samplers.msgld import MSGLD
from plugins.samplers.psgld import PSGLD
from plugins.samplers.sghmc import SGHMC
from plugins.samplers.sgld import SGLD
from tasks.regression import ravine_data as data
from tasks.regression.ravine import NAME, Ravine
from tasks.regression.ravine_observer import RavineObserver
from tasks.regression.ravine_search import settings


def streams(seed, chain=0):
    return Streams(seed, chain, (NAME,))


def test_a_run_has_the_data_of_its_seed_whatever_its_chain():
    problem = Ravine().build([streams(4), streams(4, 1), streams(5)], "cpu")
    assert problem.first.tolist() == [0, 0, data.N + 1]
    assert np.array_equal(problem.arrays["x"][: data.N].numpy(), data.simulate(streams(4))[0])


def test_data_seed_gives_every_run_the_data_of_that_seed():
    fixed = Ravine(data_seed=4).build([streams(9)], "cpu")
    assert np.array_equal(fixed.arrays["x"][: data.N].numpy(), data.simulate(streams(4))[0])
    assert np.array_equal(Ravine(data_seed=4).truth().mean, data.truth(streams(4)).mean)
    assert Ravine().truth() is None


def test_the_data_are_those_of_the_paper_and_the_noise_is_of_variance_one():
    x, y = data.simulate(streams(0))
    f = (x - 1) ** 2 + 2 * np.sin(20 * x) + 20 / 30 + np.cos(10 * x - 1) - 10 / 20
    residual = y - f
    assert -2 <= x.min() < -1.99 < 3.99 < x.max() <= 4
    assert abs(residual.mean()) < 5 / np.sqrt(data.N)
    assert abs(residual.var() - 1) < 5 * np.sqrt(2 / data.N)


def test_the_potential_is_half_the_squares_and_the_prior_once():
    theta = np.array([[20.0, 10.0], [3.0, -7.0]])
    rows = data.simulate(streams(1))
    problem = Ravine().build([streams(1), streams(1, 1)], "cpu")
    misfit = np.array([((rows[1] - data.curve(t, rows[0])) ** 2).sum() / 2 for t in theta])
    prior = (theta**2).sum(axis=1) / 2
    assert problem.energy(torch.from_numpy(theta), None).numpy() == pytest.approx(misfit + prior, rel=1e-12)
    assert data.energy(theta, rows) == pytest.approx(misfit + prior, rel=1e-12)


def test_the_truth_is_that_of_another_grid_and_nearly_normal():
    task = Ravine(data_seed=2)
    law_truth_by_another_route(task)
    truth = task.truth()
    assert truth.sd == pytest.approx([0.00353, 0.00705], rel=0.05)
    assert truth.z4 == pytest.approx(np.full(len(truth.directions), 3), abs=0.01)
    mode, precision = data.peak(data.simulate(streams(2)))
    assert truth.mean == pytest.approx(mode, abs=0.05 * truth.sd.min())
    assert truth.sd == pytest.approx(np.sqrt(np.diag(np.linalg.inv(precision))), rel=0.02)


def test_no_other_mode_has_mass():
    """The mean of U over data sets, less that at (20, 10), everywhere but near it: e^-500 and less of the posterior."""
    nodes, weights = np.polynomial.legendre.leggauss(300)
    x = 1 + 3 * nodes
    at = data.curve(np.array(data.TRUE), x)
    ticks = np.linspace(-40, 40, 321)
    points = np.stack([axis.ravel() for axis in np.meshgrid(ticks, ticks)], axis=1)
    far = points[np.abs(points - data.TRUE).max(axis=1) > 0.2]
    gap = [(data.curve(part, x) - at) ** 2 @ weights / 4 * data.N for part in np.array_split(far, 50)]
    surplus = np.concatenate(gap) + ((far**2).sum(axis=1) - np.square(data.TRUE).sum()) / 2
    assert surplus.min() > 500


def test_the_observer_counts_chains_that_came_near():
    draws = np.zeros((50, 2, 2))
    draws[:, 0] = 20.5, 10.1
    draws[:, 1] = 3.0, 0.0
    everywhere = np.ones(50, dtype=bool)
    path = Trajectory(np.ones(50), np.ones(50), everywhere, everywhere, np.zeros(50, dtype=np.int64), ~everywhere)
    observer = RavineObserver(Ravine(data_seed=0).truth(), 2, path, Cost(0.0, 1.0))
    observer.observe(torch.from_numpy(draws), torch.ones((50, 2)), np.arange(1, 51))
    found = observer.outcome().metrics
    assert found["converged"] == 0.5
    assert found["theta1"] == pytest.approx(11.75)
    assert found["theta2"] == pytest.approx(5.05)


class Scaled:
    """A gradient of c U at fixed noise: what a reading means, apart from how it is run."""

    terms = data.N

    def __init__(self, c):
        self.c = c

    def grad(self, x):
        return self.c * 1e5 * torch.sin(3 * x) + self.c * 1e4


class Fixed:
    def __init__(self):
        self.generator = torch.Generator().manual_seed(1)

    def normal(self, like):
        return torch.randn(like.shape, generator=self.generator, dtype=like.dtype)


LITERAL = {
    "sgld": (SGLD(), 1e-4),
    "sghmc": (SGHMC(friction=0.1), 1e-5),
    "asgld": (ASGLD(a=1000.0, beta1=0.9, beta2=0.999, lam=1e-5), 1e-4),
    "msgld": (MSGLD(a=10.0, beta1=0.99), 1e-4),
}


def path(sampler, h, T, c, steps=6):
    noise, potential = Fixed(), Scaled(c)
    theta = torch.tensor([[1.0, -2.0], [0.3, 4.0]], dtype=torch.float64)
    h, T = (torch.tensor(v, dtype=torch.float64) for v in (h, T))
    state = sampler.init(theta, potential, h, T, noise)
    for _ in range(steps):
        theta, state = sampler.step(theta, state, potential, h, T, noise)
    return theta.numpy()


@pytest.mark.parametrize("method", LITERAL)
@pytest.mark.parametrize("c", [1.0, 0.01, 1e-4])
def test_a_reading_of_c_u_is_run_as_one_of_u(method, c):
    sampler, step = LITERAL[method]
    h, parameters = settings(method, c)
    assert path(type(sampler)(**parameters), h, 0.3 / c, 1.0) == pytest.approx(path(sampler, step, 0.3, c), rel=1e-9)


@pytest.mark.parametrize("c", [1.0, 0.01])
def test_psgld_takes_v_from_the_mean_gradient(c):
    """One step by hand: G = 1 / (1e-6 + |c g| / N), theta - 1e-4 G c g + sqrt(2 1e-4 T G) xi, V starting at g^2."""
    h, parameters = settings("psgld", c)
    start = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    g = Scaled(c).grad(start)
    xi = Fixed().normal(start)
    G = 1 / (1e-6 + g.abs() / data.N)
    expected = start - 1e-4 * G * g + (2 * 1e-4 * 0.3 * G).sqrt() * xi
    sampler, noise = PSGLD(**parameters), Fixed()
    tensors = [torch.tensor(v, dtype=torch.float64) for v in (h, 0.3 / c)]
    state = {"V": Scaled(1.0).grad(start).square()}
    found, _ = sampler.step(start, state, Scaled(1.0), *tensors, noise)
    assert found.numpy() == pytest.approx(expected.numpy(), rel=1e-9)
