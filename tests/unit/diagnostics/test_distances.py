from itertools import permutations

import numpy as np
import pytest

from harness.analysis.diagnostics import wasserstein2

pytestmark = pytest.mark.numbers


def test_equals_the_best_of_all_pairings():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 2)), rng.normal(1.0, 2.0, size=(6, 2))
    best = min(np.mean(np.sum((x - y[list(p)]) ** 2, axis=1)) for p in permutations(range(6)))
    assert wasserstein2(x, y) == pytest.approx(np.sqrt(best))


def test_in_one_dimension_it_pairs_the_order_statistics():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=300), rng.gamma(2.0, size=300)
    expected = np.sqrt(np.mean((np.sort(x) - np.sort(y)) ** 2))
    assert wasserstein2(x[:, None], y[:, None]) == pytest.approx(expected)


def test_a_shift_costs_its_length_and_a_shuffle_nothing():
    x = np.random.default_rng(2).normal(size=(200, 3))
    assert wasserstein2(x, x[::-1]) == 0.0
    assert wasserstein2(x, x[::-1] + np.array([3.0, 0.0, 4.0])) == pytest.approx(5.0)


@pytest.mark.parametrize("y", [np.zeros((3, 2)), np.zeros((4, 3)), np.full((4, 2), np.nan)])
def test_refuses_samples_that_cannot_be_paired(y):
    with pytest.raises(ValueError, match="both samples"):
        wasserstein2(np.zeros((4, 2)), y)
