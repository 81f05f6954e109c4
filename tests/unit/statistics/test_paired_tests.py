from itertools import product

import numpy as np
import pytest
from scipy import stats

from harness.analysis.statistics import bootstrap_t, holm, paired_t, paired_test, sign_flip
from harness.analysis.statistics.tests import MONTE_CARLO_DRAWS

pytestmark = pytest.mark.numbers


@pytest.mark.parametrize(("n", "least"), [(3, 0.25), (5, 0.0625), (10, 2 / 1024)])
def test_least_p(n, least):
    assert sign_flip(np.arange(1.0, n + 1)).p == least
    assert sign_flip(-np.arange(1.0, n + 1)).p == least


def test_equals_counting_all_patterns():
    d = np.array([0.3, -0.1, 0.7, 0.2, -0.4, 0.9])
    sums = [abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in product([-1, 1], repeat=6)]
    assert sign_flip(d).p == np.mean(np.array(sums) >= abs(d.sum()) - 1e-12)


def test_equal_differences_tie_despite_rounding():
    # 0.1 * 3 - 0.1 and so on differ in the last bit by the order of summation
    assert sign_flip([0.1, 0.1, 0.1, 0.1, -0.1, -0.1]).p == sign_flip([1, 1, 1, 1, -1, -1]).p


@pytest.mark.parametrize("n", [6, 10, 17])
def test_the_interval_of_sign_flips_is_where_they_do_not_reject(n):
    d = np.random.default_rng(n).normal(1.0, 1.0, size=n)
    flips = sign_flip(d)
    for end, outwards in ((flips.low, -1e-6), (flips.high, 1e-6)):
        assert sign_flip(d - end).p >= 0.05
        assert sign_flip(d - end - outwards).p < 0.05
    assert sign_flip(d[:5]).low is None
    assert sign_flip(np.full(10, 2.0)).low == 2.0


def test_monte_carlo_agrees_with_the_exact_p_and_repeats():
    d = np.random.default_rng(0).normal(0.4, 1.0, size=17)
    signs = 1 - 2 * ((np.arange(2**17)[:, None] >> np.arange(17)) & 1)
    exact = np.mean(np.abs(signs @ d) >= abs(d.sum()) - 1e-12)
    flips = sign_flip(d)
    assert flips.p == pytest.approx(exact, abs=5 * np.sqrt(exact * (1 - exact) / MONTE_CARLO_DRAWS))
    assert flips.p == sign_flip(d).p
    assert "patterns" in flips.method


@pytest.mark.parametrize("n", [2, 3, 5])
def test_paired_t_equals_scipys(n):
    rng = np.random.default_rng(2)
    ours, theirs = rng.normal(size=n), rng.normal(0.5, 1.0, size=n)
    paired = paired_t(ours - theirs)
    assert paired.p == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
    assert "normal" in paired.method
    interval = stats.ttest_rel(ours, theirs).confidence_interval()
    assert (paired.low, paired.high) == pytest.approx(interval)


@pytest.mark.parametrize(("d", "why"), [([2.0], "one seed"), ([2.0, 2.0, 2.0], "no variance"), ([0, 0], "no var")])
def test_no_t_claims_nothing(d, why):
    paired = paired_t(d)
    assert (paired.p, paired.low, paired.high) == (1.0, None, None)
    assert why in paired.method


def test_ten_seeds_decide_which_test():
    d = np.arange(1.0, 11.0)
    assert paired_test(d) == sign_flip(d)
    assert paired_test(d[:9]) == paired_t(d[:9])


@pytest.mark.parametrize("n", [3, 10])
def test_a_bootstrap_t_of_a_mean_is_the_paired_t(n):
    """Replicates that are normal with the bootstrap's variance; of a mean they show no bias."""
    d = np.random.default_rng(n).normal(0.8, 1.0, size=n)
    grid = stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    bootstrapped, known = bootstrap_t(d.mean(), d.mean() + grid * d.std() / np.sqrt(n), n), paired_t(d)
    assert (bootstrapped.low, bootstrapped.high) == pytest.approx((known.low, known.high), rel=2e-3)
    assert bootstrapped.p == pytest.approx(known.p, rel=2e-3)


def test_a_bootstrap_t_needs_nearly_all_replicates_on_one_side():
    """Values that are hardly ever reached: the sd is small, and the seeds are few."""
    replicates = np.repeat([1.0, -0.5], [970, 30])
    bootstrapped = bootstrap_t(1.0, replicates, 5)
    assert bootstrapped.p > 0.05
    assert bootstrapped.low == -0.5
    assert bootstrap_t(1.0, np.repeat([1.0, 0.5], [970, 30]), 5).p < 0.05


def test_a_bootstrap_t_widens_by_the_bias():
    replicates = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
    biased, unbiased = bootstrap_t(1.0, 1.5 + replicates, 5), bootstrap_t(1.0, 1.0 + replicates, 5)
    assert biased.low == pytest.approx(unbiased.low - 0.5 / (np.sqrt(2) - 1), abs=0.3)
    assert unbiased.p < biased.p == 1.0


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []
