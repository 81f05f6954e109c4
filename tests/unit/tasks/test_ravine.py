"""The ravine: data by seed, its potential and its posterior."""

import numpy as np
import pytest
import torch

from harness.contracts.randomness import Streams
from harness.contracts.task import Cost
from plugins.schedules.constant import Constant
from tasks.regression import ravine_data as data
from tasks.regression.ravine import NAME, Ravine, observer

pytestmark = pytest.mark.numbers


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


def test_the_truth_is_nearly_normal():
    task = Ravine(data_seed=2)
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
    watched = observer(Ravine(data_seed=0).truth(), Constant(step_size=1.0).trajectory(50, 1), Cost(0.0, 1.0))
    watched.observe(torch.from_numpy(draws), torch.ones((50, 2)), np.arange(1, 51))
    metrics = watched.outcome().metrics
    assert metrics["converged"] == 0.5
    assert metrics["theta1"] == pytest.approx(11.75)
    assert metrics["theta2"] == pytest.approx(5.05)
