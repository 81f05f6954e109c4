"""Detection of unseen inputs: values by hand, scikit-learn's ROC, closed forms."""

import numpy as np
import pytest
from sklearn.metrics import roc_curve

from harness.analysis.diagnostics.ood import aupr, auroc, ecdf, entropy, fpr95

pytestmark = pytest.mark.numbers

SEEN = [0.0, 0.1, 0.2, 0.6]
UNSEEN = [0.1, 0.5, 0.9]


def test_values_by_hand():
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
