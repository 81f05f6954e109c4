"""Long HMC along the gradient of the Laplace approximation, as `bench truth` makes it where there are many terms."""

import numpy as np
import pytest
import torch

from harness import RunError, diagnostics
from harness.tasks import Streams
from plugins.samplers.hmc import HMC
from plugins.truths import computing
from plugins.truths.computing import AT_MODE, draws_at_mode, whitened
from plugins.truths.modes import laplace
from tasks.regression.blr import Heart
from tasks.synthetic.mixture25 import Mixture25

pytestmark = [pytest.mark.data, pytest.mark.usefixtures("one_thread")]


def silent(*_):
    """What a worker says goes nowhere."""


def test_the_draws_have_the_truth_that_ordinary_hmc_has_found():
    truth = Heart().truth()
    draws = draws_at_mode("blr-heart", Heart(), HMC(**AT_MODE), 600, silent)
    assert 0.5 < (draws[1:] != draws[:-1]).any(axis=2).mean() < 0.99
    for power, expected in ((1, truth.mean), (2, truth.mean**2 + truth.sd**2)):
        sums = draws**power
        error = sums.std(axis=(0, 1)) / np.sqrt(diagnostics.bulk_ess(sums))
        z = (sums.mean(axis=(0, 1)) - expected) / error
        assert np.abs(z).max() < 4.5, power
        assert (z**2).mean() < 2.5, power


def test_a_wrong_energy_is_not_hidden_by_the_approximation(monkeypatch):
    """U decides: with half of it, the draws have another covariance, though the leapfrog steps are the same."""
    task = Heart()
    whole = laplace(whitened(task, np.zeros(task.dim()), np.eye(task.dim())).build([Streams(0, 0)], "cpu"))
    monkeypatch.setattr(computing, "laplace", lambda _: whole)
    monkeypatch.setattr(computing.Whitened, "energy", lambda _, z, __: z.square().sum(1) / 4)
    draws = draws_at_mode("half", task, HMC(**AT_MODE), 4000, silent)
    z = np.linalg.solve(whole.root, (draws - whole.mean).reshape(-1, task.dim()).T)
    assert z.var(axis=1).mean() == pytest.approx(
        2.0, abs=0.4
    )  # of few effective draws; those of the approximation have 1


def test_without_a_mode_nothing_is_computed(monkeypatch):
    monkeypatch.setattr(computing, "laplace", lambda _: None)
    with pytest.raises(RunError, match="Hessian is not positive definite"):
        draws_at_mode("mixture25", Mixture25(), HMC(**AT_MODE), 10, silent)


def test_newtons_method_ends_where_lbfgs_stopped_early(monkeypatch):
    monkeypatch.setattr("plugins.truths.modes.ITERATIONS", 12)
    task = Heart()
    problem = whitened(task, np.zeros(task.dim()), np.eye(task.dim())).build([Streams(0, c) for c in range(2)], "cpu")
    at = laplace(problem)
    slope = problem.gradient(torch.from_numpy(at.mean).expand(2, -1), None)[0].numpy()
    assert np.linalg.norm(at.root.T @ slope) < 0.1
