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
