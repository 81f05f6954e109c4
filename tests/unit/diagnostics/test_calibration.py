"""Calibration against values worked out by hand, and against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, top_k_accuracy_score

from harness.analysis.diagnostics.calibration import brier, ece, error_rate, nll, top_accuracy

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.5, 0.25, 0.25], [0.2, 0.2, 0.6]])
Y = np.array([0, 2, 0, 2])


def drawn(n=2000, classes=10, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(classes, 0.3), size=n)
    return p, generator.integers(classes, size=n)


def test_ece_by_hand():
    # Ten bins: 0.5 right alone in (0.4, 0.5]; 0.6 wrong and 0.6 right in (0.5, 0.6]; 0.7 right in (0.6, 0.7].
    assert ece(P, Y, bins=10) == pytest.approx((0.5 + abs(1 - 1.2) + 0.3) / 4)
    assert ece(P, Y, bins=1) == pytest.approx(abs(3 - 2.4) / 4)


def test_confidence_one_has_a_bin_and_is_calibrated_where_it_is_right():
    assert ece(np.eye(3), [0, 1, 2]) == 0.0
    assert ece(np.eye(3), [1, 2, 0]) == 1.0


def test_agreement_with_scikit_learn():
    p, y = drawn()
    assert nll(p, y) == pytest.approx(log_loss(y, p, labels=np.arange(10)), rel=1e-6)
    assert top_accuracy(p, y, 5) == pytest.approx(top_k_accuracy_score(y, p, k=5, labels=np.arange(10)))
    assert error_rate(p, y) == pytest.approx(1 - top_accuracy(p, y, 1))
    one_hot = np.eye(10)[y]
    assert brier(p, y) == pytest.approx(((p - one_hot) ** 2).sum(1).mean())


def test_impossible_truth_is_infinitely_unlikely_and_wrong_shapes_are_refused():
    assert nll([[1.0, 0.0]], [1]) == np.inf
    with pytest.raises(ValueError, match=r"got \(2,\) and \(1,\)"):
        nll([0.5, 0.5], [0])
