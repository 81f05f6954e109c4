"""Scores on shifted rows: by hand from the predictions of each draw, for every likelihood, with any observer."""

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from generated import SMALL, Generated
from support import make_loop, run_loop

from harness import Bench, DataError, PluginError, diagnostics
from harness.contracts.data import problem
from harness.contracts.randomness import TUNING_SEED
from harness.contracts.schedule import Trajectory
from harness.contracts.task import Cost
from harness.tasks import Network, NetworkTask, Streams
from plugins.checking.task_laws import TASK_LAWS
from plugins.samplers.sgld import SGLD
from plugins.schedules.constant import Constant
from tasks.likelihoods import Classification, Custom, Heteroscedastic, Poisson, Regression, Token
from tasks.mlp import MLP
from tasks.networks.metrics import classifier_metrics
from tasks.shifts import SEVERITIES, WithShifts, shift_metrics, shifted_rows
from tasks.streamed import StreamedTask
from tasks.vision import cnn, stated
from tasks.vision.cnn import GENERATED, IMAGES, DigitsCNN, MnistCNN
from tasks.vision.corruptions import SHIFTS

pytestmark = [pytest.mark.numbers, pytest.mark.usefixtures("one_thread")]

N, M, FEATURES, CLASSES, POSITIONS, CHAINS, DRAWS = 23, 12, 3, 4, 5, 2, 6


def further(row, severity, generator):
    return row + 0.3 * severity + 0.1 * severity * generator.normal(size=row.shape)


def unchanged(row, _severity, _generator):
    return row


@dataclass(frozen=True, kw_only=True)
class Rows(NetworkTask):
    """Rows of numbers with labels and outputs as a likelihood asks for."""

    dtype = "float64"
    prior_precision = 2.0
    outputs: ClassVar = (CLASSES,)
    batch: int = 7

    def network(self):
        shape = self.outputs
        layers = torch.nn.Linear(FEATURES, int(np.prod(shape))), torch.nn.Unflatten(1, shape)
        return Network(lambda: torch.nn.Sequential(*layers) if len(shape) > 1 else torch.nn.Linear(FEATURES, *shape))

    def arrays(self, part):
        rng = np.random.default_rng(len(part))
        count = N if part == "train" else M
        return {"x": rng.normal(size=(count, FEATURES)), "label": self.labels(rng, count)}

    def labels(self, rng, count):
        return np.append(rng.integers(CLASSES, size=count - 1), CLASSES - 1)


class Unchanged(WithShifts, Rows):
    shifts: ClassVar = {"first": unchanged, "second": unchanged}


class Numbers(Unchanged):
    likelihood = Regression()
    outputs: ClassVar = (2,)

    def labels(self, rng, count):
        return rng.normal(size=(count, 2))


class Spread(Numbers):
    likelihood = Heteroscedastic()
    outputs: ClassVar = (4,)


class Counts(Unchanged):
    likelihood = Poisson()
    outputs: ClassVar = (1,)

    def labels(self, rng, count):
        return rng.poisson(2.0, size=count).astype(float)


class Tokens(Unchanged):
    likelihood = Token()
    outputs: ClassVar = (POSITIONS, CLASSES)

    def labels(self, rng, count):
        labels = rng.integers(CLASSES, size=(count, POSITIONS))
        labels[1, 2:] = -100
        return labels


def student(outputs, y):
    return torch.distributions.StudentT(4.0, outputs.flatten(1), 0.5).log_prob(y.reshape(len(y), -1)).sum(1)


class Function(Numbers):
    likelihood = Custom(student)


class Shifted(WithShifts, Rows):
    shifts: ClassVar = {"further": further, "still": unchanged}
    shifted_rows = 9


class OfMLP(Shifted):
    def network(self):
        return MLP([FEATURES, 5, CLASSES])


def observed(task, *, seed=0, scale=1.0):
    """The outcome of random draws with weights, the draws, and their weights."""
    built = task.build([Streams(seed, c, ("test",)) for c in range(CHAINS)], "cpu")
    keep = np.ones(DRAWS, dtype=bool)
    path = Trajectory(np.full(DRAWS, 0.1), np.ones(DRAWS), keep, keep, np.zeros(DRAWS, dtype=np.int64), ~keep)
    observer = built.observer(slice(0, CHAINS), path, Cost(0.0, 1.0))
    rng = np.random.default_rng(1)
    draws = torch.from_numpy(scale * rng.normal(size=(DRAWS, CHAINS, built.dim)))
    weights = torch.from_numpy(rng.uniform(0.5, 1.5, size=(DRAWS, CHAINS)))
    with torch.no_grad():
        observer.observe(draws.to(built.dtype), weights, np.arange(DRAWS) + 1)
    return observer.outcome(), draws, weights, built


@pytest.mark.parametrize("kind", [Unchanged, Numbers, Spread, Counts, Tokens, Function])
def test_rows_that_are_shifted_by_nothing_have_the_scores_of_the_test_rows(kind):
    outcome, *_ = observed(kind(batch=7))
    names = [metric.name.removeprefix("shift_") for metric in shift_metrics(kind.likelihood)]
    assert {f"shift_{name}" for name in names} <= {metric.name for metric in kind.metrics}
    assert "nll" in names
    for name in names:
        assert outcome.metrics[f"shift_{name}"] == pytest.approx(outcome.metrics[name], rel=1e-9)
        for shift in kind.shifts:
            x, y = outcome.curves[f"shift_{name}_{shift}"]
            np.testing.assert_array_equal(x, [0, *SEVERITIES])
            np.testing.assert_allclose(y, np.full((1, 6), outcome.metrics[name]), rtol=1e-9)


def test_the_metrics_are_the_means_of_the_scores_of_predictions_averaged_by_hand():
    task = Shifted(batch=7)
    outcome, draws, weights, built = observed(task)
    arrays = task.arrays("test")
    x, y = arrays["x"][:9], arrays["label"][:9]
    sets = shifted_rows(x, task.shifts).reshape(11, 9, FEATURES)
    np.testing.assert_array_equal(sets[0], x)
    by_hand = np.zeros((11, 9, CLASSES))
    for theta, share in zip(draws.flatten(0, 1), (weights / weights.sum()).flatten(), strict=True):
        leaves = {name: leaf.to(torch.float64) for name, leaf in built.network.weights(theta).items()}
        logits = sets @ leaves["weight"].numpy().T + leaves["bias"].numpy()
        each = np.exp(logits - logits.max(-1, keepdims=True))
        by_hand += float(share) * each / each.sum(-1, keepdims=True)
    stored = outcome.arrays["shifted_probabilities"]
    np.testing.assert_allclose(stored, by_hand, atol=1e-6)
    np.testing.assert_array_equal(outcome.arrays["shifted_classes"], y)
    scores = {
        "test_error": [100 * (p.argmax(1) != y).mean() for p in by_hand],
        "nll": [-np.log(p[np.arange(9), y]).mean() for p in by_hand],
        "ece": [diagnostics.calibration.ece(p, y) for p in by_hand],
    }
    for name, values in scores.items():
        assert outcome.metrics[f"shift_{name}"] == pytest.approx(np.mean(values[1:]), rel=1e-5)
        for k, shift in enumerate(task.shifts):
            curve = outcome.curves[f"shift_{name}_{shift}"][1][0]
            assert curve == pytest.approx([values[0], *values[1 + 5 * k : 6 + 5 * k]], rel=1e-5)
    assert stored.shape == (11, 9, CLASSES)


def test_the_scores_follow_from_the_stored_predictions_of_a_run():
    task = DigitsCNN(channels=2, hidden=8, shifted_rows=40)
    loop = run_loop(make_loop(task, SGLD(), Constant(step_size=1e-4, temperature=0.1), 46, chains=1, thin=23))
    outcome = loop.runs[0].observer.outcome()
    predictions, classes = (outcome.arrays[f"shifted_{name}"] for name in ("probabilities", "classes"))
    assert predictions.shape == (31, 40, 10)
    np.testing.assert_array_equal(classes, cnn.digits("test")[1][:40])
    np.testing.assert_allclose(predictions[0], outcome.arrays["probabilities"][:40], atol=1e-7)
    right = predictions.argmax(2) == classes
    confidence = predictions.max(2)
    eces = []
    for sure, correct in zip(confidence, right, strict=True):
        bins = np.minimum((sure * 15).astype(int), 14)
        gaps = [abs(correct[bins == b].mean() - sure[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
        eces.append(sum(gaps))
    nll = -np.log(predictions[:, np.arange(40), classes]).mean(1)
    for name, values in {"test_error": 100 * (1 - right.mean(1)), "nll": nll, "ece": np.array(eces)}.items():
        assert outcome.metrics[f"shift_{name}"] == pytest.approx(values[1:].mean(), rel=1e-4)
        for k, shift in enumerate(SHIFTS):
            curve = outcome.curves[f"shift_{name}_{shift}"][1][0]
            np.testing.assert_allclose(curve, [values[0], *values[1 + 5 * k : 6 + 5 * k]], rtol=1e-4, atol=1e-6)


def test_the_shifted_rows_are_the_same_in_every_run_and_those_held_out_when_settings_are_tuned():
    task = Shifted(batch=7)
    views = [observed(task, seed=seed)[3].sets["shifted rows"] for seed in (0, 1)]
    assert all(torch.equal(views[0][name], views[1][name]) for name in ("x", "label"))
    held_out = observed(task, seed=TUNING_SEED)[3].sets["shifted rows"]
    rows = task.arrays("train")["x"][9::10]
    np.testing.assert_array_equal(held_out["x"][: len(rows)], rows)


def test_rows_that_are_read_while_they_are_used_have_the_same_scores():
    @dataclass(frozen=True, kw_only=True)
    class Streamed(Shifted, StreamedTask):
        def count(self, part):
            return N if part == "train" else M

        def rows(self, part, indices):
            return {name: array[indices] for name, array in Rows.arrays(self, part).items()}

    (streamed, *_), (in_memory, *_) = observed(Streamed(batch=7)), observed(Shifted(batch=7))
    assert streamed.metrics == in_memory.metrics
    assert streamed.curves.keys() == in_memory.curves.keys()


def test_an_mlp_of_a_user_has_shifts_and_a_class_without_them_is_left_alone():
    assert observed(OfMLP(batch=7))[0].metrics["shift_nll"] > 0
    assert not any(metric.name.startswith("shift") for metric in Rows.metrics)
    assert not any(name.startswith("shift") for name in observed(Rows(batch=7))[0].metrics)


def test_the_order_of_the_bases_matters_and_a_wrong_one_is_refused():
    with pytest.raises(PluginError, match=r"class Late\(WithShifts, ...\)"):
        type("Late", (Rows, WithShifts), {"shifts": {"further": further}})


def test_metrics_that_a_task_states_are_not_added_to():
    class Stating(Shifted):
        metrics = Classification.metrics

    class Derived(Shifted):
        likelihood = Classification()

    assert tuple(Stating.metrics) == Classification.metrics
    names = [metric.name for metric in Derived.metrics]
    assert sorted(set(names)) == sorted(names)
    assert {"shift_test_error", "shift_nll", "shift_ece"} <= set(names)
    versions = {metric.name: metric.version for metric in Classification.metrics}
    assert {m.name: m.version for m in shift_metrics(Classification())} == {
        f"shift_{name}": versions[name] for name in ("test_error", "nll", "ece")
    }


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (lambda row, *_: row[1:], r"shifts\['mine'\] returns .* a row that is \(2,\), not \(3,\)"),
        (lambda row, severity, _: row / (3 - severity), "at severity 3 a row that is not finite"),
        (lambda row, *_: row.missing, "fails at severity 1: AttributeError"),
        (lambda *_: "words", r"a row that is \(\), not \(3,\)"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_shift_that_is_wrong_is_named_before_the_first_step(shift, words):
    class Wrong(WithShifts, Rows):
        shifts: ClassVar = {"mine": shift}

    with pytest.raises(PluginError, match=words):
        make_loop(Wrong(batch=7), SGLD(), Constant(step_size=1e-4, temperature=1.0), 3)


def test_a_name_that_is_no_word_is_refused():
    with pytest.raises(PluginError, match="'a/b' is not a word"):
        shifted_rows(np.zeros((1, 2)), {"a/b": unchanged})


def test_a_shift_cannot_change_the_test_rows():
    def in_place(row, *_):
        row *= 0
        return row

    x = np.ones((2, 3))
    assert shifted_rows(x, {"zero": in_place}).sum() == 6


def test_predictions_that_are_not_finite_have_no_score():
    outcome, *_ = observed(Shifted(batch=7), scale=np.nan)
    assert {outcome.metrics[f"shift_{name}"] for name in ("test_error", "nll", "ece")} == {None}
    assert np.isnan(outcome.curves["shift_nll_further"][1]).all()


def test_cifar_10_is_corrupted_on_request_alone():
    plain, corrupted = (Generated(**SMALL, corrupted=flag, shifted_rows=5) for flag in (False, True))
    few, more = (observed(task)[0] for task in (plain, corrupted))
    added = {metric.name for metric in shift_metrics(Classification())}
    assert more.metrics.keys() - few.metrics.keys() == added
    assert few.metrics.items() <= more.metrics.items()
    assert {m.name for m in corrupted.metrics} - {m.name for m in plain.metrics} == added
    assert tuple(plain.metrics) == classifier_metrics()
    assert more.arrays["shifted_probabilities"].shape == (31, 5, 10)


def test_the_digits_are_split_by_class_and_standardised():
    (train, labels), (test, classes) = cnn.digits("train"), cnn.digits("test")
    assert (len(train), len(test)) == (DigitsCNN.size, 355)
    counts = np.bincount(labels), np.bincount(classes)
    np.testing.assert_array_equal(counts[1], (counts[0] + counts[1]) // 5)
    rows = {image.tobytes() for image in train}
    assert not any(image.tobytes() in rows for image in test)
    assert DigitsCNN.moments == pytest.approx((train.mean(), train.std()), abs=1e-4)
    x = DigitsCNN().inputs(torch.from_numpy(train))
    assert x.shape == (DigitsCNN.size, 1, 8, 8)
    assert (float(x.mean()), float(x.std())) == pytest.approx((0, 1), abs=1e-3)


def test_other_digits_are_refused(monkeypatch):
    import sklearn.datasets

    images, classes = sklearn.datasets.load_digits(return_X_y=True)
    monkeypatch.setattr(sklearn.datasets, "load_digits", lambda **_: (images, 9 - classes))
    with pytest.raises(DataError, match="1,797 images"):
        cnn.digits.__wrapped__("train")


def test_the_unseen_sets_of_the_digits_are_made_or_of_files(monkeypatch):
    task = DigitsCNN()
    assert (tuple(task.unseen), task.datasets) == (GENERATED, ())
    sets = {name: task.arrays(name)["x"] for name in GENERATED}
    test = cnn.digits("test")[0].reshape(-1, 64)
    np.testing.assert_array_equal(np.sort(sets["scrambled"].reshape(-1, 64)), np.sort(test))
    assert not np.array_equal(sets["scrambled"].reshape(-1, 64), test)
    assert sets["noise"].mean() == pytest.approx(0.5, abs=0.02)
    of_files = replace(task, unseen_images="files")
    assert (tuple(of_files.unseen), of_files.datasets) == (IMAGES, DigitsCNN.datasets)
    images = np.random.default_rng(0).integers(256, size=(2, 28, 28), dtype=np.uint8)
    monkeypatch.setattr(cnn.idx, "load", lambda _: images)
    blocks = of_files.arrays("kmnist")["x"]
    padded = np.zeros((2, 32, 32))
    padded[:, 2:30, 2:30] = images / 255
    by_hand = [
        [[image[4 * i : 4 * i + 4, 4 * j : 4 * j + 4].mean() for j in range(8)] for i in range(8)] for image in padded
    ]
    np.testing.assert_allclose(blocks, by_hand, rtol=1e-6)
    names = [{m.name for m in one.metrics} for one in (DigitsCNN, task, of_files)]
    assert names[0] == names[1] | names[2]
    assert {field.name for field in fields(DigitsCNN)} >= {"unseen_images", "shifted_rows"}


@pytest.mark.parametrize("kind", [MnistCNN, DigitsCNN])
def test_the_networks_have_the_sizes_that_they_state(kind):
    assert f"{kind().dim():,} weights" in kind.__doc__
    assert kind().steps_per_epoch() == {MnistCNN: 600, DigitsCNN: 46}[kind]


@pytest.mark.data
def test_mnist_is_read_and_standardised():
    task = MnistCNN()
    for file in task.datasets:
        if wrong := problem(file):
            pytest.skip(f"{file.path} is {wrong} under BENCH_DATA")
    x = task.inputs(torch.from_numpy(task.arrays("train")["x"][:20_000]))
    assert x.shape == (20_000, 1, 28, 28)
    assert (float(x.mean()), float(x.std())) == pytest.approx((0, 1), abs=0.02)
    for name in IMAGES:
        assert task.arrays(name)["x"].shape == (10_000, 28, 28)


def test_settings_are_stated_for_every_protocol():
    for task, kind in {"digits-cnn": DigitsCNN, "mnist-cnn": MnistCNN}.items():
        assert stated.PROTOCOLS[task] == tuple(protocol.name for protocol in kind.protocols)
    assert {one.provenance for each in stated.stated(None, ()) for one in each.values.values()} == {"ours"}


@pytest.mark.parametrize("task", ["digits-cnn", "digits-cnn@unseen", "mnist-cnn", "cifar10@corrupted"])
def test_the_usual_samplers_need_no_setting(task, tmp_path):
    samplers = "csgld,csghmc" if task.startswith("cifar") else "sgld,csgld,psgld"
    frame = Bench(tmp_path).plan(samplers, task, budget="smoke", seeds=[0])
    assert len(frame) == 1 + samplers.count(",")


@pytest.mark.parametrize("law", ["blocks do not matter", "weights count"])
def test_the_observer_keeps_the_laws_of_blocks_and_weights(law):
    dict(TASK_LAWS)[law](OfMLP(batch=7))
