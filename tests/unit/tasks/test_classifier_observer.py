"""The observer of classifiers, on predictions made of the draws themselves: every number worked out apart."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from harness.analysis.diagnostics.calibration import aurc, brier, ece, nll, selective_accuracy
from harness.contracts import predictions
from harness.contracts.schedule import Trajectory
from harness.contracts.task import Cost
from tasks.networks.metrics import classifier_metrics
from tasks.networks.observer import ClassifierObserver
from tasks.networks.sketch import WIDTH, sketch

pytestmark = pytest.mark.numbers

K, TEST, TRAIN, UNSEEN, DIM, CHAINS = 3, 8, 6, 5, 3000, 2
SIZES = {"test": TEST, "train": TRAIN, "strange": UNSEEN}


class Made:
    """Predicts log_softmax of what stands at fixed places of theta, in two stretches; one buffer a chain."""

    def __init__(self):
        generator = np.random.default_rng(0)
        self.labels = {n: torch.from_numpy(generator.integers(K, size=SIZES[n])) for n in ("test", "train")}
        self.columns = {n: torch.from_numpy(generator.permutation(DIM)[: m * K]) for n, m in SIZES.items()}
        self.buffers = torch.zeros((4, 1))

    def predict(self, theta, rows, name):
        logs = theta[:, self.columns[name]].view(len(theta), -1, K).log_softmax(2)
        self.buffers[rows] += 1
        yield from (logs[:, :2], logs[:, 2:])


def trajectory(draws, cycles=2):
    keep = np.tile([False, True], draws)
    return Trajectory(
        step_size=np.full(2 * draws, 0.1),
        temperature=np.ones(2 * draws),
        keep=keep,
        evaluate=keep,
        cycle=np.arange(2 * draws) * cycles // (2 * draws),
        burn_in=np.zeros(2 * draws, dtype=bool),
    )


def drawn(draws=12, seed=1):
    generator = torch.Generator().manual_seed(seed)
    theta = 2 * torch.randn((draws, CHAINS, DIM), generator=generator, dtype=torch.float64)
    return theta, torch.rand((draws, CHAINS), generator=generator, dtype=torch.float64)


def observed(theta, weights, sizes=None, *, resume=False, **options):
    problem, path = Made(), trajectory(len(theta))
    observer = ClassifierObserver(problem, slice(1, 3), path, Cost(1.0, 0.5), unseen=("strange",), **options)
    steps, start = np.flatnonzero(path.keep) + 1, 0
    for size in sizes or [len(theta)]:
        block = slice(start, start + size)
        observer.observe(theta[block], weights[block], steps[block])
        start += size
        if resume:
            state = {n: leaf.clone() for n, leaf in observer.state().items()}
            observer = ClassifierObserver(problem, slice(1, 3), path, Cost(1.0, 0.5), unseen=("strange",), **options)
            observer.load(state)
    return observer.outcome()


def probabilities(theta, name):
    """(draws, C, n, K)."""
    logits = theta[..., Made().columns[name]].reshape(*theta.shape[:2], -1, K)
    return logits.softmax(3).numpy()


def test_scores_are_of_the_weighted_mean_over_draws_and_chains():
    theta, weights = drawn()
    outcome = observed(theta, weights)
    metrics = outcome.metrics
    w = (weights / weights.sum()).numpy()[..., None, None]
    mean = {name: (w * probabilities(theta, name)).sum((0, 1)) for name in SIZES}
    y = Made().labels["test"].numpy()
    assert outcome.arrays["probabilities"] == pytest.approx(mean["test"])
    assert outcome.arrays["probabilities"].dtype == np.float32
    assert (outcome.arrays["classes"] == y).all()
    assert metrics["test_error"] == pytest.approx(100 * (mean["test"].argmax(1) != y).mean())
    assert metrics["nll"] == pytest.approx(nll(mean["test"], y))
    assert metrics["ece"] == pytest.approx(ece(mean["test"], y))
    assert metrics["brier"] == pytest.approx(brier(mean["test"], y))
    assert metrics["lppd"] == pytest.approx(np.log(mean["test"][np.arange(TEST), y]).mean())
    assert metrics["aurc"] == pytest.approx(aurc(mean["test"], y))
    assert metrics["selective_accuracy"] == pytest.approx(100 * selective_accuracy(mean["test"], y))
    entropies = {name: -(p * np.log(p)).sum(1) for name, p in mean.items()}
    assert metrics["entropy_strange"] == pytest.approx(entropies["strange"].mean())
    assert metrics["low_entropy_mass_strange"] == (entropies["strange"] < 0.5).mean()
    truth = np.repeat([0, 1], [TEST, UNSEEN])
    scores = {"": entropies, "_maxprob": {name: -p.max(1) for name, p in mean.items()}}
    for suffix, score in scores.items():
        area = roc_auc_score(truth, np.concatenate([score["test"], score["strange"]]))
        assert metrics[f"auroc{suffix}_strange"] == pytest.approx(area)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", SIZES)
def test_metrics_of_undefined_predictions_are_undefined(name, value):
    """One draw of one chain says nothing about one image of a set; only what uses this set is undefined."""
    theta, weights = drawn()
    usual = observed(theta, weights, train=True).metrics
    theta[-1, 0, Made().columns[name][0]] = value
    metrics = observed(theta, weights, train=True).metrics
    undefined = {key for key, number in usual.items() if number is not None and metrics.get(key) is None}
    of_strange, of_train = ({key for key in usual if part in key} for part in ("strange", "train"))
    assert undefined == {"strange": of_strange, "train": of_train, "test": set(usual)}[name]
    assert all(metrics[key] == usual[key] for key in metrics.keys() - undefined)


def test_predictions_of_very_many_images_are_not_kept(monkeypatch):
    monkeypatch.setattr(predictions, "LARGEST", TEST * K - 1)
    outcome = observed(*drawn())
    assert "probabilities" not in outcome.arrays
    assert outcome.metrics["nll"] is not None


def test_single_draws_pairs_of_draws_and_the_last_ones():
    theta, weights = drawn()
    outcome = observed(theta, weights, last=4, train=True)
    p, y = probabilities(theta, "test"), Made().labels["test"].numpy()
    wrong = (p.argmax(3) != y).mean(2)
    w = (weights / weights.sum()).numpy()
    assert outcome.metrics["single_test_error"] == pytest.approx(100 * (w * wrong).sum())
    losses = -np.log(p[..., np.arange(TEST), y]).mean(2)
    assert outcome.metrics["single_nll"] == pytest.approx((w * losses).sum())
    assert outcome.metrics["last4_test_accuracy"] == pytest.approx(100 * (1 - wrong[-4:].mean()))
    train = (probabilities(theta, "train").argmax(3) == Made().labels["train"].numpy()).mean(2)
    assert outcome.metrics["last4_train_accuracy"] == pytest.approx(100 * train[-4:].mean())
    classes = p.argmax(3).reshape(-1, TEST)
    cycle = np.repeat(trajectory(12).cycle[1::2], CHAINS)
    pairs = [(i, j) for i in range(len(classes)) for j in range(i)]
    apart = {(i, j): (classes[i] != classes[j]).mean() for i, j in pairs}
    assert outcome.metrics["disagreement"] == pytest.approx(np.mean(list(apart.values())))
    between = [share for (i, j), share in apart.items() if cycle[i] != cycle[j]]
    assert outcome.metrics["disagreement_between_cycles"] == pytest.approx(np.mean(between))
    assert outcome.arrays["cycle"].tolist() == cycle.tolist()
    assert outcome.arrays["sketch"].shape == (24, WIDTH)
    assert np.allclose(outcome.curves["single_test_error"][1], 100 * wrong.T)
    assert np.allclose(outcome.curves["single_train_error"][1], 100 * (1 - train.T))
    assert outcome.curves["single_test_error"][0].tolist() == (1 + 0.5 * np.arange(2, 25, 2)).tolist()
    assert outcome.curves["test_error"][1][0, -1] == pytest.approx(outcome.metrics["test_error"])
    assert outcome.curves["nll"][1][0, -1] == pytest.approx(outcome.metrics["nll"])


def test_only_the_last_draws_are_averaged_where_asked():
    theta, weights = drawn()
    whole = observed(theta, weights, average=5)
    assert observed(theta, weights, average=5, last=None).metrics["test_accuracy"] == pytest.approx(
        whole.metrics["last5_test_accuracy"]
    )
    late = observed(theta[-5:], weights[-5:])
    for name in ("test_error", "nll", "single_nll", "entropy_strange", "disagreement", "last5_test_accuracy"):
        assert whole.metrics[name] == pytest.approx(late.metrics[name]), name
    assert np.isnan(whole.curves["nll"][1][0, :7]).all()
    assert np.isnan(whole.curves["test_error"][1][0, :7]).all()
    assert np.isfinite(whole.curves["single_nll"][1]).all()


def test_predictions_of_each_cycle_and_likelihoods_of_the_training_images():
    theta, weights = drawn()
    outcome = observed(theta, weights, train=True, by_cycle=True, average=9)
    p = probabilities(theta, "train")[..., np.arange(TRAIN), Made().labels["train"].numpy()]
    assert np.allclose(outcome.curves["single_train_nll"][1], -np.log(p).mean(2).T)
    w, p = weights.numpy()[..., None, None], probabilities(theta, "test")
    assert outcome.arrays["cycle_numbers"].tolist() == [0, 1]
    for cycle, draws in enumerate((slice(3, 6), slice(6, 12))):
        mean = (w[draws] * p[draws]).sum(0) / w[draws].sum(0)
        assert np.allclose(outcome.arrays["cycle_predictions"][cycle], mean, atol=1e-6)
    assert outcome.arrays["test_labels"].tolist() == Made().labels["test"].tolist()
    assert outcome.arrays["train_terms"].tolist() == [TRAIN]
    late = observed(theta, weights, by_cycle=True, average=3)
    assert late.arrays["cycle_numbers"].tolist() == [1]


@pytest.mark.parametrize("options", [{}, {"train": True, "average": 4, "last": 3, "by_cycle": True}])
def test_blocks_and_restarts_do_not_matter(options):
    theta, weights = drawn()
    whole = observed(theta, weights, **options)
    for sizes, resume in (([1] * 12, False), ([5, 1, 6], True)):
        other = observed(theta, weights, sizes, resume=resume, **options)
        assert other.metrics == whole.metrics
        for name, (x, y) in whole.curves.items():
            assert np.array_equal(other.curves[name][0], x)
            assert np.array_equal(other.curves[name][1], y, equal_nan=True)
        for name, array in whole.arrays.items():
            if name != "buffers":  # they count the calls
                assert np.array_equal(other.arrays[name], array), name


def test_long_runs_are_recorded_at_evenly_spaced_draws(monkeypatch):
    monkeypatch.setattr("harness.contracts.predictions.RECORDED", 5)
    theta, weights = drawn()
    outcome = observed(theta, weights)
    assert outcome.arrays["steps"].tolist() == [2, 2, 8, 8, 14, 14, 20, 20]
    assert outcome.arrays["chain"].tolist() == [0, 1] * 4
    assert outcome.metrics["nll"] == pytest.approx(observed(theta, weights).metrics["nll"])


def test_all_listed_metrics_are_reported_and_nothing_is_said_of_no_draw():
    for last in (5, 3, None):
        listed = [metric.name for metric in classifier_metrics(("strange",), last=last, train=True, top=True)]
        assert len(set(listed)) == len(listed)
        assert set(listed) <= set(observed(*drawn(), last=last, train=True).metrics)
    empty = ClassifierObserver(Made(), slice(1, 3), trajectory(4), Cost(0.0, 1.0))
    assert not empty.outcome().metrics


def test_sketches_keep_distances():
    generator = torch.Generator().manual_seed(0)
    long = torch.randn((40, 20_001), generator=generator)
    short = sketch(long)
    assert torch.allclose(sketch(2 * long[:1] - long[1:2]), 2 * short[:1] - short[1:2], atol=1e-4)
    true, sketched = torch.pdist(long).square(), torch.pdist(short).square()
    ratio = (sketched / true).numpy()
    assert np.abs(ratio - 1).max() < 5 * (2 / WIDTH) ** 0.5
    assert np.abs(ratio.mean() - 1) < 0.02
