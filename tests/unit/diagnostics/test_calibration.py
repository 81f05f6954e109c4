"""Calibration, detection of unseen inputs and agreement: values by hand, closed forms, scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_curve, top_k_accuracy_score

from harness.analysis.diagnostics import agreement, total_variation
from harness.analysis.diagnostics.calibration import (
    aurc,
    brier,
    ece,
    error_rate,
    lppd,
    nll,
    selective_accuracy,
    top_accuracy,
)
from harness.analysis.diagnostics.ood import aupr, auroc, entropy, fpr95
from reports.figures.entropy import ecdf

pytestmark = pytest.mark.numbers

P = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.5, 0.25, 0.25], [0.2, 0.2, 0.6]])
Y = np.array([0, 2, 0, 2])


def drawn(n=2000, classes=10, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(classes, 0.3), size=n)
    return p, generator.integers(classes, size=n)


def test_ece_by_hand():
    # Ten bins: 0.5 right alone in [0.5, 0.6); 0.6 wrong and 0.6 right in [0.6, 0.7); 0.7 right in [0.7, 0.8).
    assert ece(P, Y, bins=10) == pytest.approx((0.5 + abs(1 - 1.2) + 0.3) / 4)
    assert ece(P, Y, bins=1) == pytest.approx(abs(3 - 2.4) / 4)


@pytest.mark.parametrize(
    ("bins", "parts", "expected"),
    [(10, 20, 0.1483333706855774), (15, 15, 0.12380944192409515), (8, 16, 0.15148809552192688)],
)
def test_ece_at_the_edges_of_bins_is_that_of_torchmetrics(bins, parts, expected):
    # multiclass_calibration_error of torchmetrics 1.9 of these very arrays, whose confidences are k / parts
    rows = np.arange(210)
    confidence = (rows % (parts // 2) + parts // 2 + 1) / parts
    p = np.stack([confidence, 1 - confidence], axis=1)
    assert ece(p, rows // 7 % 3 // 2, bins) == pytest.approx(expected, rel=1e-6)


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


def test_lppd_is_the_log_of_the_mean_over_draws():
    draws = np.array([[[0.9, 0.1], [0.5, 0.5]], [[0.3, 0.7], [0.1, 0.9]]])
    assert lppd(draws.mean(0), [0, 1]) == pytest.approx((np.log(0.6) + np.log(0.7)) / 2)


def test_risk_coverage_by_hand():
    # By confidence: 0.7 right, then two of 0.6, one of them right, then 0.5 right.
    assert selective_accuracy(P, Y, 25) == 1
    assert selective_accuracy(P, Y, 50) == pytest.approx(1.5 / 2)
    assert selective_accuracy(P, Y, 51) == pytest.approx(2 / 3)
    assert selective_accuracy(P, Y, 100) == pytest.approx(1 - error_rate(P, Y))
    # Error rates 0, 1/4, 1/3, 1/4 of the first one, two, three and four.
    assert aurc(P, Y) == pytest.approx((0 / 2 + 1 / 4 + 1 / 3 + 1 / 4 / 2) / 3)


def test_the_order_of_equals_does_not_matter_and_counts_by_its_expectation():
    p, y = np.repeat([[0.8, 0.2]], 4, axis=0), np.array([0, 0, 0, 1])
    assert aurc(p, y) == pytest.approx(0.25)
    assert aurc(p, y[::-1]) == aurc(p, y)
    assert selective_accuracy(p, y, 50) == selective_accuracy(p, y[::-1], 50) == pytest.approx(0.75)


@pytest.mark.parametrize("n", [1, 2, 50])
def test_all_right_and_all_wrong(n):
    p, _ = drawn(n)
    right = p.argmax(1)
    assert (aurc(p, right), selective_accuracy(p, right)) == (0, 1)
    assert aurc(p, (right + 1) % 10) == pytest.approx(1)
    assert selective_accuracy(p, (right + 1) % 10) == 0


def test_confidence_that_orders_the_errors_is_worth_more():
    p = np.array([[c, 1 - c] for c in (0.9, 0.8, 0.7, 0.6)])
    assert aurc(p, [0, 0, 1, 1]) < aurc(p, [1, 1, 0, 0])


SEEN = [0.0, 0.1, 0.2, 0.6]
UNSEEN = [0.1, 0.5, 0.9]


def test_detection_by_hand():
    # Pairs (unseen above seen): 0.1 beats 1 and ties 1, 0.5 beats 3, 0.9 beats 4.
    assert auroc(SEEN, UNSEEN) == pytest.approx((1.5 + 3 + 4) / 12)
    # Recall rises by 1/3 at 0.9 (precision 1), 0.5 (2/3), 0.1 (3/6).
    assert aupr(SEEN, UNSEEN) == pytest.approx((1 + 2 / 3 + 3 / 6) / 3)
    assert fpr95(SEEN, UNSEEN) == pytest.approx(2 / 3)
    assert ecdf(SEEN, [-1, 0.1, 0.15, 1]).tolist() == [0, 0.5, 0.5, 1]


def test_entropy_of_certainty_of_chance_and_of_a_coin():
    assert entropy(np.eye(10)).tolist() == [0.0] * 10
    assert entropy(np.full((2, 10), 0.1)) == pytest.approx(np.log(10))
    assert entropy([0.25, 0.75, 0.0]) == pytest.approx(-0.25 * np.log(0.25) - 0.75 * np.log(0.75))


def test_fpr95_is_read_off_the_roc_of_accepting_the_seen():
    generator = np.random.default_rng(0)
    seen, unseen = generator.normal(size=1001), generator.normal(1.0, size=700)
    truth = np.repeat([1, 0], [len(seen), len(unseen)])
    fpr, tpr, _ = roc_curve(truth, -np.concatenate([seen, unseen]), drop_intermediate=False)
    assert fpr95(seen, unseen) == pytest.approx(fpr[np.argmax(tpr >= 0.95)])


def test_scores_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="finite"):
        auroc([0.0, np.nan], [1.0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 3])
def test_scores_of_undefined_predictions_are_undefined(row, value):
    p = P.copy()
    p[row] = value
    scores = (error_rate, nll, lppd, brier, ece, aurc, selective_accuracy, lambda p, y: top_accuracy(p, y, 1))
    with np.errstate(all="ignore"):
        assert not any(np.isfinite(score(p, Y)) for score in scores)
        assert all(np.isfinite(score(P, Y)) for score in scores)
        assert not any(np.isfinite(score(*pair)) for score in (agreement, total_variation) for pair in ((p, P), (P, p)))
        assert not np.isfinite(entropy(p)[row])


FIRST = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.5, 0.5, 0.0], [0.3, 0.3, 0.4]]
SECOND = [[0.5, 0.4, 0.1], [0.8, 0.1, 0.1], [0.5, 0.0, 0.5], [0.3, 0.3, 0.4]]


def test_agreement_by_hand():
    assert agreement(FIRST, SECOND) == 0.75  # of equal probabilities the first class is taken, in both
    assert total_variation(FIRST, SECOND) == pytest.approx((0.2 + 0.7 + 0.5 + 0) / 4)
    assert (agreement(FIRST, FIRST), total_variation(FIRST, FIRST)) == (1, 0)
    assert (agreement([[1, 0]], [[0, 1]]), total_variation([[1, 0]], [[0, 1]])) == (0, 1)


def test_total_variation_is_the_largest_difference_of_an_events_probability():
    p, q = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 30))
    events = (np.arange(16)[:, None] >> np.arange(4)) & 1
    assert total_variation(p, q) == pytest.approx(np.abs((p - q) @ events.T).max(axis=1).mean())


@pytest.mark.parametrize("q", [SECOND[:3], [row[:2] for row in SECOND], SECOND[0]])
def test_other_shapes_are_refused(q):
    for score in (agreement, total_variation):
        with pytest.raises(ValueError, match="of one shape"):
            score(FIRST, q)


def test_nothing_is_refused():
    with pytest.raises(ValueError, match="of one shape"):
        agreement(np.ones((0, 3)), np.ones((0, 3)))
