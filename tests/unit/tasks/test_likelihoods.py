"""Likelihoods of networks and the observer of their predictions, against scipy and sums over the draws."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import log_softmax, logsumexp, softmax

from harness import PluginError
from harness.contracts.schedule import Trajectory
from harness.tasks import Cost, Metric, Network, NetworkTask, Streams
from plugins.checking.task_laws import TASK_LAWS
from tasks.likelihoods import (
    NOT_SCORED,
    Classification,
    Custom,
    Heteroscedastic,
    Likelihood,
    Poisson,
    Regression,
    Token,
    sample_scores,
)
from tasks.mlp import MLP

pytestmark = [pytest.mark.numbers, pytest.mark.usefixtures("one_thread")]

N, FEATURES, CLASSES, POSITIONS, CHAINS = 23, 3, 4, 5, 2


def student(outputs, y):
    return torch.distributions.StudentT(4.0, outputs.flatten(1), 0.5).log_prob(y.reshape(len(y), -1)).sum(1)


def convolution(*shape):
    """A network with two axes in its outputs."""
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, int(np.prod(shape))), torch.nn.Unflatten(1, shape))


@dataclass(frozen=True, kw_only=True)
class Made(NetworkTask):
    """Made-up rows, with labels and outputs of the shapes that a kind asks for."""

    dtype = "float64"
    prior_precision = 2.0
    batch: int = 7
    targets = ()
    outputs = (1,)

    def network(self):
        return Network(lambda: convolution(*self.outputs))

    def arrays(self, part):
        rng = np.random.default_rng(len(part))
        return {"x": rng.normal(size=(N, FEATURES)), "label": self.labels(rng)}

    def labels(self, rng):
        return rng.normal(size=(N, *self.targets))


class Classes(Made):
    outputs = (CLASSES,)

    def labels(self, rng):
        return rng.integers(CLASSES, size=N)


class Fixed(Made):
    likelihood = Regression(sigma=0.4)


class Learnt(Made):
    likelihood = Regression()
    targets, outputs = (2, 3), (2, 3)


class Spread(Made):
    likelihood = Heteroscedastic()
    targets, outputs = (2,), (4,)


class Counts(Made):
    likelihood = Poisson()

    def labels(self, rng):
        return rng.poisson(2.0, size=N)


class Tokens(Made):
    likelihood = Token()
    outputs = (POSITIONS, CLASSES)

    def labels(self, rng):
        padded = np.arange(POSITIONS) < rng.integers(2, POSITIONS + 1, size=N)[:, None]
        return np.where(padded, rng.integers(CLASSES, size=(N, POSITIONS)), NOT_SCORED)


class Students(Made):
    likelihood = Custom(student, mean=lambda outputs: outputs)


class Own(Made):
    def log_likelihood(self, outputs, y):
        return student(outputs, y)


class Dense(Made):
    """All chains at once."""

    likelihood = Heteroscedastic()

    def network(self):
        return MLP([FEATURES, 4, 2])


KINDS = {kind.__name__: kind for kind in (Classes, Fixed, Learnt, Spread, Counts, Tokens, Students, Own, Dense)}


def logs(kind, outputs, y):
    """log p of each row, or token, by scipy."""
    if kind in {Classes, Tokens}:
        counted = y != NOT_SCORED
        return log_softmax(outputs, axis=-1)[counted][np.arange(counted.sum()), y[counted]]
    mean, target = outputs.reshape(len(outputs), -1), y.reshape(len(y), -1)
    if kind is Counts:
        return stats.poisson(np.exp(mean)).logpmf(target).sum(1)
    k = target.shape[1]
    sd = 0.4 if kind is Fixed else np.exp(mean[:, k:])
    law = stats.t(4, mean, 0.5) if kind in {Students, Own} else stats.norm(mean[:, :k], sd)
    return law.logpdf(target).sum(1)


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


def built(task):
    return task.build([Streams(0, c, ("test",)) for c in range(CHAINS)], "cpu")


def observed(task, draws=8, scale=0.5):
    """The outcome of random draws, the outputs of each draw and chain, and the shares of their weights."""
    problem = built(task)
    keep = np.ones(draws, dtype=bool)
    path = Trajectory(np.ones(draws), np.ones(draws), keep, keep, np.zeros(draws, dtype=int), ~keep)
    observer = problem.observer(slice(0, CHAINS), path, Cost(0.0, 1.0))
    generator = torch.Generator().manual_seed(3)
    theta = scale * torch.randn((draws, CHAINS, task.dim()), generator=generator, dtype=torch.float64)
    weights = torch.rand((draws, CHAINS), generator=generator, dtype=torch.float64)
    observer.observe(theta, weights, np.arange(draws) + 1)
    x = torch.from_numpy(task.arrays("test")["x"])
    with torch.no_grad():
        outputs = torch.stack([problem.outputs(each, slice(0, CHAINS), x) for each in theta])
    return observer.outcome(), outputs.flatten(0, 1).numpy(), (weights / weights.sum()).flatten().numpy()


def test_densities_are_scipys_and_the_loss_is_their_mean(kind):
    task = kind()
    problem = built(task)
    y = task.arrays("train")["label"]
    outputs = problem.outputs(problem.initial(), slice(0, CHAINS), torch.from_numpy(task.arrays("train")["x"]))[0]
    expected = logs(kind, outputs.detach().numpy(), y)
    each = task.log_likelihood(outputs, torch.from_numpy(y))
    assert each.shape == (N,)
    assert float(each.sum()) == pytest.approx(expected.sum())
    if kind is not Tokens:
        assert each.detach().numpy() == pytest.approx(expected)
    assert float(task.mean_loss(outputs, torch.from_numpy(y))) == pytest.approx(-expected.sum() / N)
    energy = problem.energy(problem.initial(), None)[0] - float(problem.initial()[0].square().sum())
    assert float(energy) == pytest.approx(-expected.sum())


def test_the_density_of_a_row_is_averaged_over_draws_and_chains(kind):
    outcome, outputs, shares = observed(kind())
    y = kind().arrays("test")["label"]
    each = np.stack([logs(kind, one, y) for one in outputs])
    mixture = logsumexp(each + np.log(shares)[:, None], axis=0).mean()
    assert outcome.metrics["nll"] == pytest.approx(-mixture, abs=1e-5)
    assert outcome.metrics["lppd"] == pytest.approx(mixture, abs=1e-5)
    assert outcome.metrics["single_nll"] == pytest.approx(-(shares @ each.mean(1)), abs=1e-5)
    assert outcome.curves["nll"][1][0, -1] == pytest.approx(outcome.metrics["nll"])
    listed = {metric.name for metric in kind.metrics}
    assert listed == outcome.metrics.keys()
    assert all(value is not None for value in outcome.metrics.values())


def test_a_density_below_the_smallest_number_is_no_zero():
    outcome, *_ = observed(Classes(), draws=1, scale=5000.0)
    assert outcome.metrics["nll"] > 200


@pytest.mark.parametrize("kind", [Fixed, Learnt, Spread, Counts, Students], ids=lambda kind: kind.__name__)
def test_the_error_of_numbers_is_that_of_the_mean(kind):
    outcome, outputs, shares = observed(kind())
    y = kind().arrays("test")["label"]
    first = outputs.reshape(*outputs.shape[:2], -1)[..., : y[0].size]
    means = np.exp(first) if kind is Counts else first
    off = (np.tensordot(shares, means, 1) - y.reshape(N, -1)) ** 2
    assert outcome.metrics["rmse"] == pytest.approx(np.sqrt(off.mean()), rel=1e-5)
    single = np.sqrt(((means - y.reshape(N, -1)) ** 2).mean((1, 2)))
    assert outcome.metrics["single_rmse"] == pytest.approx(shares @ single, rel=1e-5)
    assert outcome.curves["rmse"][1][0, -1] == pytest.approx(outcome.metrics["rmse"])
    assert outcome.arrays["prediction"].shape == y.shape


def test_scores_of_tokens_leave_out_the_padding():
    outcome, outputs, shares = observed(Tokens())
    y = Tokens().arrays("test")["label"]
    mean = np.tensordot(shares, softmax(outputs, axis=-1), 1)[y != NOT_SCORED]
    assert (y == NOT_SCORED).any()
    assert outcome.metrics["test_error"] == pytest.approx(100 * (mean.argmax(1) != y[y != NOT_SCORED]).mean())
    assert outcome.arrays["probabilities"] == pytest.approx(mean, abs=1e-5)


def test_crps_and_coverage_of_values_with_shares():
    rng = np.random.default_rng(0)
    values, shares, y = rng.normal(size=(40, 7)), rng.dirichlet(np.ones(40)), rng.normal(size=7)
    apart = np.abs(values[:, None] - values[None])
    expected = shares @ np.abs(values - y) - np.einsum("i,j,ijm->m", shares, shares, apart) / 2
    assert sample_scores(values, shares, y)["crps"] == pytest.approx(expected.mean())
    many, even = rng.normal(size=(1000, 2000)), np.full(1000, 1e-3)
    y = rng.normal(size=2000)
    scores = sample_scores(many, even, y)
    exact = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / np.sqrt(np.pi)
    assert scores["crps"] == pytest.approx(exact.mean(), rel=0.02)
    assert scores["coverage50"] == pytest.approx(0.5, abs=5 * np.sqrt(0.25 / 2000))
    assert scores["coverage90"] == pytest.approx(0.9, abs=5 * np.sqrt(0.09 / 2000))
    assert sample_scores(0 * many, even, 0 * y) == {"crps": 0.0, "coverage50": 1.0, "coverage90": 1.0}


@pytest.mark.parametrize(("kind", "exact"), [(Fixed, stats.norm), (Counts, stats.poisson)])
def test_values_are_drawn_from_the_predictive_distribution(kind, exact):
    """One draw of one weight: 128 values of each row."""
    outputs = torch.tensor([[0.3], [1.2]], dtype=torch.float64)
    drawn = kind.likelihood.sample(outputs, 20_000, torch.Generator().manual_seed(0))
    law = exact(outputs.numpy(), 0.4) if kind is Fixed else exact(np.exp(outputs.numpy()))
    error = np.abs(drawn.numpy().mean(0) - law.mean()) / (law.std() / np.sqrt(20_000))
    assert error.max() < 5
    mean, variance = kind.likelihood.mean_and_variance(outputs)
    assert mean.numpy() == pytest.approx(law.mean())
    assert variance.numpy() == pytest.approx(law.var())


POTENTIAL = ("mean of batches", "gradient is that of the energy", "prior counted once", "chains do not interact")
OBSERVER = ("blocks do not matter", "weights count", "state restores the batches")


@pytest.mark.parametrize(
    ("law", "kind"),
    [
        *((law, kind) for law in POTENTIAL for kind in (Learnt, Spread, Counts, Tokens, Own, Dense)),
        *((law, kind) for law in OBSERVER for kind in (Learnt, Tokens)),
    ],
)
def test_the_laws_of_tasks_hold(law, kind):
    dict(TASK_LAWS)[law](kind())


def test_a_dense_network_has_the_potential_of_its_module():
    class Module(Dense):
        def network(self):
            return Network(MLP([FEATURES, 4, 2]).make)

    a, b = built(Dense()), built(Module())
    theta = a.initial()
    batch = {name: leaf[0] for name, leaf in a.draw_batches(4).items()}
    for of in (None, batch):
        assert torch.allclose(a.energy(theta, of), b.energy(theta, of))
        assert torch.allclose(a.gradient(theta, of), b.gradient(theta, of))


def test_a_learnt_noise_level_is_the_last_coordinate():
    class OfMLP(Learnt):
        targets = ()

        def network(self):
            return MLP([FEATURES, 4, 1])

    for task in (Learnt(), OfMLP()):
        assert task.layout().blocks[-1].name == "noise.log_sigma"
        assert task.dim() == sum(leaf.numel() for leaf in task.network().make().parameters()) + 1
        assert float(built(task).initial()[0, -1]) == 0.0


class Unseen(Made):
    """Rows far away, where the predictions of a network with a learnt variance are uncertain."""

    likelihood = Heteroscedastic()
    outputs = (2,)
    unseen: ClassVar = {"far": "elsewhere"}

    def arrays(self, part):
        arrays = super().arrays(part)
        return {**arrays, "x": 50 + arrays["x"]} if part == "elsewhere" else arrays


class UnseenClasses(Unseen):
    likelihood = Classification()
    outputs = (CLASSES,)
    labels = Classes.labels


@pytest.mark.parametrize("kind", [Unseen, UnseenClasses])
def test_unseen_sets_are_told_from_the_test_rows(kind):
    outcome, outputs, shares = observed(kind())
    assert outcome.metrics.keys() == {metric.name for metric in kind.metrics}
    assert outcome.arrays["entropy_far"].shape == outcome.arrays["entropy_test"].shape == (N,)
    if kind is UnseenClasses:
        mean = np.tensordot(shares, softmax(outputs, axis=-1), 1)
        entropy = -(mean * np.log(mean)).sum(1)
        assert outcome.metrics["low_entropy_mass_far"] is not None
    else:
        f, s = outputs[..., 0], outputs[..., 1]
        variance = shares @ (f**2 + np.exp(2 * s)) - (shares @ f) ** 2
        entropy = np.log(2 * np.pi * np.e * variance) / 2
        assert outcome.metrics["auroc_far"] > 0.9
    assert outcome.arrays["entropy_test"] == pytest.approx(entropy, abs=1e-5)


def test_scores_of_ones_own_are_metrics():
    class Scored(Fixed):
        metrics = (*Regression().metrics, Metric("mae", "min", "1", "mean absolute error"))

        def scores(self, mean, y):
            return {"mae": np.abs(mean - y).mean()}

    class Undeclared(Scored):
        metrics = Regression().metrics

    outcome, outputs, shares = observed(Scored())
    y = Scored().arrays("test")["label"]
    assert outcome.metrics["mae"] == pytest.approx(np.abs(shares @ outputs[..., 0] - y).mean(), rel=1e-5)
    with pytest.raises(PluginError, match=r"Undeclared\.scores returns 'mae', which is not among its metrics"):
        observed(Undeclared())


def test_metrics_follow_from_what_a_class_states():
    class Back(Own):
        likelihood = Regression()

    assert Own.metrics == Likelihood().metrics
    assert Back.metrics == Regression().metrics
    assert Back.log_likelihood is NetworkTask.log_likelihood
    assert Made.metrics == Classification.metrics
    with pytest.raises(PluginError, match="states both"):
        type("Both", (Made,), {"likelihood": Regression(), "log_likelihood": student})
    with pytest.raises(PluginError, match="write an object"):
        type("Class", (Made,), {"likelihood": Regression})
    with pytest.raises(PluginError, match="has no uncertainty"):
        type("NotTold", (Own,), {"unseen": {"far": "elsewhere"}})
    with pytest.raises(PluginError, match="positive"):
        Regression(sigma=0.0)


@pytest.mark.parametrize(
    ("likelihood", "outputs", "targets", "message"),
    [
        (Regression(sigma=1.0), (2,), (), "the outputs stand for 2 numbers .* the labels have 1"),
        (Regression(), (2,), (), "the outputs stand for 2 numbers .* the labels have 1"),
        (Heteroscedastic(), (3,), (), "3 is odd"),
        (Poisson(), (1,), (2,), "the outputs stand for 1 numbers .* the labels have 2"),
        (Token(), (POSITIONS, CLASSES), (3,), r"not \(7, 5, 4\) for \(7, 3\)"),
        (Custom(lambda outputs, y: (outputs - y[:, None]).square()), (1,), (), r"one number for each row, \(7,\), not"),
        (Custom(lambda outputs, y: (outputs - y).sum()), (1,), (), r"one number for each row, \(7,\), not \(\)"),
    ],
)
def test_outputs_that_do_not_fit_the_labels_are_an_error(likelihood, outputs, targets, message):
    task = type("Wrong", (Made,), {"likelihood": likelihood, "outputs": outputs, "targets": targets})()
    problem = built(task)
    with pytest.raises(PluginError, match=message):
        problem.gradient(problem.initial(), {name: leaf[0] for name, leaf in problem.draw_batches(1).items()})


@pytest.mark.parametrize("kind", [Classes, Fixed, Tokens, Own])
def test_predictions_that_are_not_finite_have_no_metric(kind):
    class Lost(kind):
        def inputs(self, x):
            return x / 0

    outcome, *_ = observed(Lost())
    assert not outcome.metrics
    assert np.isnan(outcome.curves["single_nll"][1]).all()
