"""Long HMC along the gradient of the Laplace approximation, as `bench truth` makes it where there are many terms."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from harness import RunError, UsageError, diagnostics
from harness.tasks import DataTask, Streams
from plugins.samplers.hmc import HMC
from plugins.truths import computing
from plugins.truths.computing import AT_MODE, draws_at_mode, refuse, route, whitened
from plugins.truths.modes import laplace
from tasks.deep_linear.task import DeepLinear1K
from tasks.regression.blr import Heart
from tasks.regression.flights.task import FlightDelays
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


@dataclass(frozen=True, kw_only=True)
class Means(DataTask):
    """Five numbers around theta, whose likelihood is quadratic, with Student's t as the prior."""

    protocols, metrics = (), ()

    def dim(self):
        return 2

    def terms(self):
        return 5

    def arrays(self, part):
        return {"x": np.arange(10.0).reshape(5, 2) / 10}

    def log_likelihood(self, theta, rows):
        return -3 * (rows["x"] - theta.unsqueeze(1)).square().sum(2)

    def log_prior(self, theta):
        return -20 * theta.square().sum(1).log1p()


def test_the_gradient_at_the_mode_has_the_prior_as_it_is_and_the_likelihood_expanded():
    """So where the likelihood is quadratic it is that of U, far from the mode too."""
    task, far = Means(), torch.tensor([[3.0, -4.0], [0.2, 5.0]], dtype=torch.float64)
    streams = [Streams(0, c) for c in range(2)]
    at = laplace(whitened(task, np.zeros(2), np.eye(2)).build(streams, "cpu"))
    expanded, exact = (whitened(task, at.mean, at.root, at_mode=each).build(streams, "cpu") for each in (True, False))
    assert exact.gradient(far, None).numpy() == pytest.approx(expanded.gradient(far, None).numpy(), abs=1e-3)
    assert np.abs(exact.gradient(far, None).numpy() - far.numpy()).max() > 0.3, "the prior is not normal"
    assert torch.equal(*(each.energy(far, None) for each in (expanded, exact)))


def test_the_number_of_terms_decides_on_the_route():
    many, few = route(FlightDelays()), route(Heart())
    assert (many.draws, many.sampler) == (draws_at_mode, AT_MODE)
    assert (few.draws, few.sampler) == (computing.whitened_draws, computing.SAMPLER)
    assert many.stated.keys() - few.stated.keys() == {"gradient"}


def test_what_compares_no_moments_gets_no_truth():
    with pytest.raises(UsageError, match="dln-1k has no metric that compares moments"):
        refuse("dln-1k", DeepLinear1K(), {})


def test_without_a_mode_nothing_is_computed(monkeypatch):
    monkeypatch.setattr(computing, "laplace", lambda _: None)
    with pytest.raises(RunError, match="Hessian is not positive definite"):
        draws_at_mode("mixture25", Mixture25(), HMC(**AT_MODE), 10, silent)


def test_newtons_method_ends_where_lbfgs_stopped_early(monkeypatch):
    monkeypatch.setattr("plugins.truths.modes.ITERATIONS", 3)
    task = Heart()
    problem = whitened(task, np.zeros(task.dim()), np.eye(task.dim())).build([Streams(0, c) for c in range(2)], "cpu")
    at = laplace(problem)
    slope = problem.gradient(torch.from_numpy(at.mean).expand(2, -1), None)[0].numpy()
    assert np.linalg.norm(at.root.T @ slope) < 0.1
