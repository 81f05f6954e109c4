"""gaussian2d, bimodal1d and mixture2d: the potential is the density's, the metrics are what exact draws give."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from harness.contracts.randomness import Streams
from harness.contracts.schedule import Trajectory
from harness.contracts.task import Cost
from tasks.synthetic.bimodal1d import GRID, Bimodal1D, cell_masses
from tasks.synthetic.gaussian2d import Gaussian2D
from tasks.synthetic.mixture2d import Mixture2D


def observed(task, draws):
    """The metrics of draws (n, C, D)."""
    n, chains, _ = draws.shape
    everywhere = np.ones(n, dtype=bool)
    path = Trajectory(np.ones(n), np.ones(n), everywhere, everywhere, np.zeros(n, dtype=np.int64), ~everywhere)
    problem = task.build([Streams(0, c) for c in range(chains)], "cpu")
    observer = problem.observer(slice(0, chains), path, Cost(0.0, 1.0))
    observer.observe(torch.from_numpy(draws), torch.ones((n, chains), dtype=torch.float64), np.arange(1, n + 1))
    return observer.outcome().metrics


@pytest.mark.parametrize("task", [Gaussian2D(), Gaussian2D(rho=-0.4), Bimodal1D(), Mixture2D()])
def test_the_potential_is_minus_the_log_density_but_for_a_constant(task):
    points = np.random.default_rng(0).normal(size=(6, task.dim()))
    problem = task.build([Streams(0, c) for c in range(6)], "cpu")
    gap = problem.energy(torch.from_numpy(points), None).numpy() + task.log_density(points)
    assert gap == pytest.approx(np.full(6, gap[0]), abs=1e-12)


def test_densities_integrate_to_one():
    assert np.trapezoid(np.exp(Bimodal1D().log_density(GRID[:, None])), GRID) == pytest.approx(1, abs=1e-12)
    assert sum(cell_masses()) == pytest.approx(1, abs=1e-9)
    ticks = np.linspace(-8, 8, 401)
    points = np.stack([axis.ravel() for axis in np.meshgrid(ticks, ticks)], axis=1)
    for task in (Gaussian2D(), Mixture2D()):
        assert np.exp(task.log_density(points)).sum() * (ticks[1] - ticks[0]) ** 2 == pytest.approx(1, abs=1e-9)


def test_the_noise_of_gradients_has_the_stated_variance():
    for task, sd in ((Gaussian2D(), 1.0), (Bimodal1D(), 2.0), (Mixture2D(gradient_noise=0.5), 0.5)):
        tilt = task.build([Streams(0, 0)], "cpu").draw_batches(20_000)["tilt"].numpy()
        assert tilt.std() == pytest.approx(sd, rel=5 / math.sqrt(2 * tilt.size))
    assert Gaussian2D(gradient_noise=0.0).build([Streams(0, 0)], "cpu").draw_batches(3) == {}


def test_exact_draws_of_the_gaussian_have_its_correlation():
    n = 40_000
    draws = np.random.default_rng(1).multivariate_normal([0, 0], Gaussian2D().covariance, size=n)
    found = observed(Gaussian2D(), draws.reshape(-1, 2, 2))
    assert found["correlation"] == pytest.approx(0.9, abs=5 * (1 - 0.81) / math.sqrt(n))
    assert found["wasserstein2_normal"] < 5 / math.sqrt(n) * math.sqrt(2)


def test_exact_draws_of_the_bimodal_differ_from_it_by_chance_alone():
    n = 50_000
    weights = np.exp(Bimodal1D().log_density(GRID[:, None]))
    x = np.random.default_rng(2).choice(GRID, size=n, p=weights / weights.sum())
    found = observed(Bimodal1D(), x.reshape(-1, 1, 1))
    p = np.array(cell_masses())
    expected = 0.5 * np.sqrt(2 * p * (1 - p) / (np.pi * n)).sum()  # the mean of |share - p| / 2, summed over cells
    assert found["density_tv"] == pytest.approx(expected, rel=0.4)
    assert found["mass_right"] == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(n))


def test_exact_draws_of_the_mixture_meet_the_stated_targets():
    task, n = Mixture2D(), 100_000
    found = observed(task, task.sample(n, np.random.default_rng(4)).reshape(-1, 4, 2))
    targets = {metric.name: metric.target for metric in task.metrics}
    assert found["modes_covered"] == 4
    ratio = targets["within_mode_covariance_ratio"]
    assert found["within_mode_covariance_ratio"] == pytest.approx(ratio, abs=5 / math.sqrt(n))
    share = targets["share_within_r"]
    assert found["share_within_r"] == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / n))
