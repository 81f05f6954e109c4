"""Cycle weights: the formula, what it does to an ensemble, and the warning that comes with it."""

import numpy as np
import pytest
from safetensors.numpy import save
from scored import store, write_run

from harness.reporting.report import Request
from reports.tables.cycle_weights import CycleWeights, log_weights, normalised

TERMS, IMAGES = 1000, 400
GOOD, BAD = 0.9, 0.3
"""Probability of the true class of the first and of the second cycle."""


def test_weights_are_harmonic_means_of_likelihoods():
    likelihoods = [np.array([0.2, 0.5, 0.1]), np.array([0.3])]
    expected = [3 / (1 / 0.2 + 1 / 0.5 + 1 / 0.1), 0.3]
    assert np.exp(log_weights([np.log(cycle) for cycle in likelihoods])) == pytest.approx(expected)
    far = log_weights([np.array([-1e5, -1.1e5]), np.array([-1.2e5])])
    assert far == pytest.approx([-1.1e5 + np.log(2), -1.2e5])
    assert normalised(far) == pytest.approx([1.0, 0.0])
    assert normalised(np.array([-1e6, -1e6])) == pytest.approx([0.5, 0.5])


def predictions(p):
    """The true class is 0 and has p; the wrong class 1 has the rest."""
    return np.tile([p, 1 - p, 0.0], (IMAGES, 1))


def write(results, losses, averaged_from=0, seed=0, *, by_cycle=True):
    """Two cycles of two draws; `losses` (4,) are mean training losses of the draws."""
    arrays = {"cycle": np.array([0, 0, 1, 1]), "chain": np.zeros(4, dtype=np.int64)}
    if by_cycle:
        first = averaged_from // 2
        arrays |= {
            "cycle_predictions": np.stack([predictions(GOOD), predictions(BAD)])[first:, None].astype(np.float32),
            "cycle_numbers": np.arange(first, 2), "test_labels": np.zeros(IMAGES, dtype=np.int64),
            "train_terms": np.array([TERMS]),
        }  # fmt: skip
    error = np.where(np.arange(4) >= averaged_from, 10.0, np.nan)
    passes = np.arange(1.0, 5)
    write_run(
        results, method="csgld", seed=seed, chains=1, metrics={"test_error": 3.0},
        files={"arrays.safetensors": save(arrays)},
        curves={"single_train_nll": (passes, np.array([losses])), "test_error": (passes, error[None])},
    )  # fmt: skip


def test_equal_likelihoods_are_equal_weights(tmp_path):
    write(tmp_path, [0.1, 0.1, 0.1, 0.1])
    (record,) = CycleWeights().build(store(tmp_path), Request()).records
    assert record["gap"] == pytest.approx(0, abs=1e-9)
    assert record["largest_weight"] == pytest.approx(0.5)
    assert record["nll_harmonic"] == pytest.approx(record["nll_equal"])
    assert record["nll_equal"] == pytest.approx(-np.log((GOOD + BAD) / 2))
    assert record["test_error_equal"] == 0


def test_the_largest_gap_decides_everything_and_the_warning_says_so(tmp_path):
    for seed in (0, 1):
        write(tmp_path, [0.1, 0.3, 0.2, 0.2], seed=seed)
    built = CycleWeights().build(store(tmp_path), Request())
    (record,) = built.records
    assert record["gap"] == pytest.approx(TERMS * 0.1 - np.log(2))  # the worse draw makes the first cycle's weight
    assert record["largest_weight"] == pytest.approx(1)
    assert record["nll_harmonic"] == pytest.approx(-np.log(BAD), rel=1e-5)
    assert record["test_error_harmonic"] == 100
    assert (record["seeds"], record["cycles"], record["terms"]) == (2, 2, TERMS)
    assert "infinite variance" in built.notes[0]
    assert "N = 1,000 training points the largest gap decides everything" in built.notes[0]


def test_draws_that_are_not_averaged_do_not_count(tmp_path):
    write(tmp_path, [9.0, 9.0, 0.2, 0.3], averaged_from=3)
    (record,) = CycleWeights().build(store(tmp_path), Request()).records
    assert record["gap"] is None
    assert record["largest_weight"] == 1
    assert record["cycles"] == 1


def test_what_is_missing_is_said_where_it_is_asked_for(tmp_path):
    assert not CycleWeights().build(store(tmp_path), Request()).records
    write(tmp_path, [0.1] * 4, by_cycle=False)
    assert not CycleWeights().build(store(tmp_path), Request()).notes
    (note,) = CycleWeights().build(store(tmp_path), Request(tasks=("mixture25",))).notes
    assert "--set task.by_cycle=true" in note
