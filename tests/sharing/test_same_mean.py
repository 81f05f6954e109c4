import numpy as np
import pytest
from scipy.stats import ttest_ind

from plugins.sharing.agreement import same_mean

pytestmark = pytest.mark.numbers


def test_same_mean_is_students_t_of_logarithms():
    rng = np.random.default_rng(0)
    a, b = rng.normal(5, 1, 7), rng.normal(5, 1, 3)
    assert same_mean(np.exp(a), np.exp(b)) == pytest.approx(ttest_ind(a, b).pvalue)
    assert same_mean(a - 5, b - 5) == pytest.approx(ttest_ind(a, b).pvalue)
    assert same_mean([25, 25, 25, 25, 25], [25]) == 1
    assert same_mean([25, 25, 25, 25, 25], [24]) == pytest.approx(1 / 6)


@pytest.mark.parametrize("way", [1, -1])
def test_a_rare_event_in_few_runs_is_no_difference_from_none_in_many(way):
    """One of 35 values differs, and it falls among the five by chance in one of seven divisions."""
    assert same_mean(*[[0] * 30, [0, 0, 0, 0, 1]][::way]) == pytest.approx(2 / 7, abs=0.02)
    assert same_mean(*[[0] * 30, [1, 1, 1, 1, 1]][::way]) < 1e-3
    assert same_mean(*[[3.0] * 5, [4.0] * 5][::way]) == pytest.approx(2 / 252)
