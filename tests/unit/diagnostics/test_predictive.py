"""Agreement and total variation, against numbers by hand and against the definition on random probabilities."""

import numpy as np
import pytest

from harness.analysis.diagnostics import agreement, total_variation

pytestmark = pytest.mark.numbers

P = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.5, 0.5, 0.0], [0.3, 0.3, 0.4]]
Q = [[0.5, 0.4, 0.1], [0.8, 0.1, 0.1], [0.5, 0.0, 0.5], [0.3, 0.3, 0.4]]


def test_numbers_by_hand():
    assert agreement(P, Q) == 0.75  # of equal probabilities the first class is taken, in both
    assert total_variation(P, Q) == pytest.approx((0.2 + 0.7 + 0.5 + 0) / 4)
    assert (agreement(P, P), total_variation(P, P)) == (1, 0)
    assert (agreement([[1, 0]], [[0, 1]]), total_variation([[1, 0]], [[0, 1]])) == (0, 1)


def test_total_variation_is_the_largest_difference_of_an_events_probability():
    p, q = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 30))
    events = (np.arange(16)[:, None] >> np.arange(4)) & 1
    assert total_variation(p, q) == pytest.approx(np.abs((p - q) @ events.T).max(axis=1).mean())


@pytest.mark.parametrize("q", [Q[:3], [row[:2] for row in Q], Q[0]])
def test_other_shapes_are_refused(q):
    for score in (agreement, total_variation):
        with pytest.raises(ValueError, match="of one shape"):
            score(P, q)


def test_nothing_is_refused():
    with pytest.raises(ValueError, match="of one shape"):
        agreement(np.ones((0, 3)), np.ones((0, 3)))
