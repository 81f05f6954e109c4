"""Figures of kept predictions: reliability, rejection, and the detection of unseen images."""

import numpy as np
import pytest
from safetensors.numpy import save
from scored import store, write_run

from harness import diagnostics
from harness.reporting.rendering import figures
from harness.reporting.report import Request
from reports.figures.ood import RATES, OutOfDistribution, roc
from reports.figures.predictions import Predictions
from reports.figures.rejection import SHARES, Rejection, accuracies
from reports.figures.reliability import Reliability, binned, ece, wilson

METRICS = {"test_error": 10.0, "nll": 0.4}


def probabilities(seed, n=3_000):
    """Calibrated: the classes are drawn from the probabilities."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.3] * 4, size=n)
    return p.astype(np.float32), (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=3)


def write(results, seed=0, **changes):
    p, classes = probabilities(seed)
    unseen = {"entropy_test": diagnostics.ood.entropy(p).astype(np.float32)}
    unseen["entropy_letters"] = unseen["entropy_test"][::-1] + np.float32(0.2)
    arrays = {"probabilities": p, "classes": classes, **unseen}
    metrics = METRICS | {"entropy_letters": 1.0, "auroc_letters": 0.7}
    write_run(
        results,
        task="digits",
        seed=seed,
        chains=1,
        metrics=metrics,
        files={"arrays.safetensors": save(arrays)},
        **changes,
    )


def test_a_calibrated_classifier_is_on_the_diagonal():
    p, classes = probabilities(0, 20_000)
    one = Predictions(None, p.max(axis=1).astype(float), p.argmax(axis=1) == classes)
    assert ece(one) == pytest.approx(diagnostics.calibration.ece(p, classes), abs=1e-6)
    counts, sure, right = binned(one)
    there = counts > 0
    assert counts.sum() == 20_000
    low, high = wilson(right[there], counts[there])
    assert ((low <= sure[there]) & (sure[there] <= high)).mean() > 0.8
    assert wilson(np.array([0.0]), np.array([4.0]))[1] == pytest.approx(0.4899, abs=1e-3)


def test_rejecting_what_a_classifier_is_unsure_of_leaves_what_it_gets_right():
    sure = np.linspace(0.3, 1, 100)
    shares = accuracies(Predictions(None, sure, np.arange(100) >= 20))
    assert shares[0] == pytest.approx(80)
    assert shares[SHARES.searchsorted(0.2)] == pytest.approx(100)
    level = accuracies(Predictions(None, np.full(100, 0.5), np.arange(100) >= 20))
    assert level == pytest.approx(np.full(len(SHARES), 80))  # of equal confidence, whatever their order


@pytest.mark.parametrize("levels", [None, 5])
def test_the_area_under_the_curve_is_the_auroc(levels):
    rng = np.random.default_rng(0)
    seen, unseen = rng.normal(size=2_000), rng.normal(1.0, 1.0, size=1_500)
    if levels:
        seen, unseen = (np.round(scores).clip(-2, 2) for scores in (seen, unseen))
    assert np.trapezoid(roc(seen, unseen), RATES) == pytest.approx(diagnostics.ood.auroc(seen, unseen), abs=2e-3)


@pytest.mark.parametrize("report", [Reliability, Rejection, OutOfDistribution])
def test_figures_of_predictions_are_drawn_from_all_seeds_or_the_lowest(tmp_path, report):
    for seed in (2, 1):
        write(tmp_path, seed)
    built = report().build(store(tmp_path), Request())
    (figure,) = built.figures
    assert figures.drawn(figure, "svg")
    (record,) = built.records
    assert len(record["run_keys"]) == (1 if report is Reliability else 2)
    assert record.get("seed", 1) == 1


def test_what_is_missing_is_said(tmp_path):
    write_run(tmp_path, task="digits", metrics=METRICS)
    for report in (Reliability, Rejection):
        (note,) = report().build(store(tmp_path), Request()).notes
        assert "`bench run` of another seed, or with another --results, keeps them" in note
    assert not OutOfDistribution().build(store(tmp_path), Request()).notes
    (note,) = OutOfDistribution().build(store(tmp_path), Request(tasks=("digits",))).notes
    assert note == "digits has no images of unknown classes"
    write_run(tmp_path, metrics={"modes_covered": 2.0}, number=1)
    assert len(Reliability().build(store(tmp_path), Request()).notes) == 1
