"""mnist-logistic: its components, its potential by other routes, and its truth."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import softmax

from harness.contracts.data import problem as missing
from harness.contracts.randomness import Streams
from harness.contracts.task import Cost
from harness.tasks import TUNING_SEED, DataProblem, DataTask, PredictiveObserver, Truth
from plugins.schedules.constant import Constant
from tasks.datasets import idx
from tasks.regression.mnist import task as task_module
from tasks.regression.mnist.task import MnistLogistic, basis, projected

pytestmark = pytest.mark.numbers
needs_data = pytest.mark.skipif(
    any(missing(file) is not None for file in MnistLogistic.datasets), reason="no MNIST under BENCH_DATA"
)


def build(task, chains=3):
    return task.build([Streams(0, chain, ("mnist",)) for chain in range(chains)], "cpu")


def probabilities(x, draws):
    """The mean over draws (S, D) of the probabilities of the classes of rows x (M, 41), (M, K)."""
    return np.mean([softmax(x @ draw.reshape(10, 41).T, axis=1) for draw in draws], axis=0)


def test_the_components_have_signs_and_directions_of_their_own():
    mean, components = basis()
    unit = components / np.linalg.norm(components, axis=0)
    assert (mean.shape, components.shape) == ((784,), (784, 40))
    assert unit.T @ unit == pytest.approx(np.eye(40), abs=1e-5)
    assert (components[np.abs(components).argmax(axis=0), np.arange(40)] > 0).all()
    assert (np.diff(np.linalg.norm(components, axis=0)) > 0).all()  # falling variances


@needs_data
@pytest.mark.slow
def test_the_components_are_those_of_the_covariance():
    images = idx.load(idx.MNIST_TRAIN[0]).reshape(60_000, 784) / 255
    covariance = np.cov(images.T, ddof=0)
    values, vectors = np.linalg.eigh(covariance)
    _, components = basis()
    assert np.abs((components * np.sqrt(values[::-1][:40]) * vectors[:, ::-1][:, :40]).sum(axis=0)) == pytest.approx(
        np.ones(40), abs=1e-5
    )


@needs_data
def test_covariates_have_mean_0_and_variance_1_and_a_bias():
    x = MnistLogistic().arrays("train")["x"]
    assert x.shape == (60_000, 41)
    assert x.mean(axis=0) == pytest.approx(np.append(np.zeros(40), 1), abs=1e-5)
    assert x.T @ x / 60_000 == pytest.approx(np.eye(41), abs=1e-4)
    assert MnistLogistic().arrays("test")["x"].shape == (10_000, 41)
    one = idx.load(idx.MNIST_TRAIN[0])[7:8]
    assert projected(one)[0] == pytest.approx(x[7], abs=1e-12)


@needs_data
def test_the_potential_is_the_log_loss_of_scikit_learn():
    from sklearn.metrics import log_loss

    task = MnistLogistic().for_laws()
    arrays, problem = task.arrays("train"), build(task)
    theta = problem.initial() / 5  # log_loss clips probabilities
    for chain, energy in zip(theta.numpy(), problem.energy(theta, None).numpy(), strict=True):
        p = probabilities(arrays["x"], chain[None])
        assert p.sum(axis=1) == pytest.approx(np.ones(60))
        loss = log_loss(arrays["label"], p, labels=range(10), normalize=False)
        assert energy == pytest.approx(loss + chain @ chain / 2, rel=1e-10)


@needs_data
def test_gradients_by_hand_are_those_of_autograd_and_of_differences_on_batches_and_on_all_rows():
    task = dataclasses.replace(MnistLogistic().for_laws(), batch=7)
    problem = build(task)
    theta = problem.initial() / 3
    batches = problem.draw_batches(task.steps_per_epoch())["index"]
    rows = problem.rows(slice(0, 3), {"index": batches[-1]})  # the short batch
    x = theta.clone().requires_grad_()
    (wanted,) = torch.autograd.grad((DataTask.log_likelihood(task, x, rows) * rows["present"]).sum(), x)
    assert torch.allclose(task.grad(theta, rows), wanted, rtol=1e-10, atol=1e-12)
    energy, gradient = problem.energy_and_gradient(theta, None)
    assert torch.allclose(DataProblem.energy(problem, theta, None), energy, rtol=1e-12)
    assert torch.allclose(DataProblem.gradient(problem, theta, None), gradient, rtol=1e-10, atol=1e-12)
    along = torch.randn(theta.shape, generator=torch.Generator().manual_seed(1)).double()
    ahead, behind = (problem.energy(theta + sign * 1e-5 * along, None) for sign in (1, -1))
    assert torch.allclose((ahead - behind) / 2e-5, (gradient * along).sum(1), rtol=1e-7)
    mean = torch.stack([problem.gradient(theta, {"index": index}) for index in batches]).mean(0)
    assert torch.allclose(mean, gradient, rtol=1e-10, atol=1e-11)


@needs_data
def test_a_chain_has_the_same_bits_whoever_runs_beside_it():
    task = MnistLogistic(batch=50).for_laws()
    task = dataclasses.replace(task, batch=50)
    alone, together = build(task, 1), build(task, 9)
    theta = together.initial()
    batch = {"index": together.draw_batches(1)["index"][0]}
    lone = {"index": alone.draw_batches(1)["index"][0]}
    assert torch.equal(alone.gradient(theta[:1], lone)[0], together.gradient(theta, batch)[0])


def a_truth():
    rng = np.random.default_rng(0)
    root = np.eye(410) + 0.1 * rng.normal(size=(410, 410)) / 20
    return Truth.normal(rng.normal(size=410) / 10, root @ root.T / 100)


@needs_data
def test_tuning_sees_neither_test_images_nor_the_truth_of_all_rows():
    task = MnistLogistic().for_laws()
    object.__setattr__(task, "truth", a_truth)
    problem = task.build([Streams(TUNING_SEED, chain) for chain in range(2)], "cpu")
    observer = problem.observer(slice(0, 2), Constant(step_size=1.0).trajectory(5, 1), Cost(0.0, 1.0))
    assert type(observer) is PredictiveObserver


@needs_data
@pytest.mark.parametrize("known", [False, True])
def test_metrics_are_of_the_test_images_and_of_a_truth_if_one_is_stored(known):
    task = MnistLogistic().for_laws()
    if known:
        object.__setattr__(task, "truth", a_truth)
    assert task.tested
    problem = build(task, 2)
    draws = torch.from_numpy(np.random.default_rng(1).normal(size=(5, 2, 410)) / 3)
    path = Constant(step_size=1.0).trajectory(5, 1)
    observer = problem.observer(slice(0, 2), path, Cost(0.0, 1.0))
    observer.observe(draws, torch.ones(5, 2), np.arange(5) + 1)
    metrics = observer.outcome().metrics
    test = task.arrays("test")
    p = probabilities(test["x"], draws.numpy().reshape(10, -1))
    assert metrics["nll"] == pytest.approx(-np.log(p[np.arange(60), test["label"]]).mean(), rel=1e-6)
    assert ("joint_error" in metrics) == known
    resumed = problem.observer(slice(0, 2), path, Cost(0.0, 1.0))
    resumed.load(observer.state())
    assert resumed.outcome().metrics == metrics
    assert set(metrics) <= {metric.name for metric in task.metrics}


def test_the_truth_is_the_prior_along_what_changes_no_probability():
    """What is added to all classes is N(0, 1) in each of 41 directions, and independent of the rest."""
    record = json.loads((Path(task_module.__file__).parent / "truth.json").read_text())
    assert (record["task"], record["chains"]) == ("mnist-logistic", 16)
    assert record["rhat"] < 1.01
    assert min(record["ess_z"], record["ess_z2"]) > 10_000
    truth = MnistLogistic().truth()
    alike = np.kron(np.ones((1, 10)), np.eye(41)) / np.sqrt(10)
    draws = min(record["ess_z"], record["ess_z2"])
    assert np.abs(alike @ truth.mean).max() < 4 / np.sqrt(draws)
    variances = np.diag(alike @ truth.covariance @ alike.T)
    assert np.abs(variances - 1).max() < 4 * np.sqrt(2 / draws)
    assert MnistLogistic().for_laws().truth() is None


@needs_data
@pytest.mark.slow
def test_the_steepest_direction_at_the_mode_is_known():
    """The mode by scikit-learn."""
    from sklearn.linear_model import LogisticRegression

    arrays = MnistLogistic().arrays("train")
    x, label = arrays["x"], arrays["label"]
    fitted = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-6, max_iter=1000).fit(x, label)
    p = probabilities(x, fitted.coef_.reshape(1, -1))
    gradient = fitted.coef_ + (p - np.eye(10)[label]).T @ x
    assert np.abs(gradient).max() < 0.5
    hessian = np.eye(410)
    for j in range(10):
        for k in range(10):
            weight = p[:, j] * ((j == k) - p[:, k])
            hessian[41 * j : 41 * j + 41, 41 * k : 41 * k + 41] += (x * weight[:, None]).T @ x
    truth, covariance = MnistLogistic().truth(), np.linalg.inv(hessian)
    shift = np.abs(truth.mean - fitted.coef_.ravel()) / np.sqrt(np.diag(covariance))
    assert np.median(shift) < 0.1
    assert np.sqrt(np.diag(truth.covariance) / np.diag(covariance)) == pytest.approx(np.ones(410), abs=0.15)
    assert np.linalg.eigvalsh(hessian)[[0, -1]] == pytest.approx([1, MnistLogistic().curvature()], rel=1e-3)
