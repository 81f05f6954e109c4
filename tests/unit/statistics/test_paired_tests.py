from __future__ import annotations

import itertools
import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from harness.analysis.statistics import bootstrap_t, holm, most_failures, paired_test, power, with_signed_ranks
from harness.analysis.statistics.tests import FEWEST_RARE, POWER, signed_rank_p, unpaired_test

pytestmark = pytest.mark.numbers

LEVELS = (0.8, 0.95, 0.999)


@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_signed_ranks_are_those_of_all_patterns_of_signs(n):
    draw = np.random.default_rng(n)
    for d in (draw.normal(size=n), draw.integers(-2, 3, size=n).astype(float), np.ones(n), np.eye(n)[0]):
        ranks = stats.rankdata(np.abs(d[d != 0]))
        signs = np.array(list(itertools.product([-1, 1], repeat=len(ranks)))).reshape(2 ** len(ranks), -1)
        seen = abs(ranks @ np.sign(d[d != 0]))
        assert signed_rank_p(d) == pytest.approx((abs(signs @ ranks) >= seen - 1e-9).mean())
    if n == 12:
        assert signed_rank_p(draw.normal(size=n)) <= 1
        d = draw.normal(size=40)
        assert signed_rank_p(d) == pytest.approx(stats.wilcoxon(d, method="exact").pvalue)


def test_few_seeds_that_fail_alike_are_no_difference():
    """Four of thirty seeds lost a mode in one row: random signs would do so in one of eight cases."""
    d = np.repeat([1.0, 0.0], [4, 26])
    tested = with_signed_ranks(paired_test(d), d)
    assert tested.p == 1 / 8
    assert tested.ends(0.95)[0] == 0 < paired_test(d).ends(0.95)[0]


def test_signed_ranks_bound_p_and_the_interval():
    """Two of thirty seeds failed in one row: a t test of a ratio may be sure of it, signed ranks are not."""
    d = np.random.default_rng(0).normal(size=30)
    sure = bootstrap_t(3.0, 3.0 + 0.1 * d, 30)
    assert with_signed_ranks(sure, d).p == pytest.approx(stats.wilcoxon(d).pvalue)
    assert stats.wilcoxon(d).pvalue > 0.05 > sure.p
    low, high = with_signed_ranks(sure, d).ends(0.95)
    assert (low, high) == (0.0, sure.ends(0.95)[1])
    alike = with_signed_ranks(sure, 1 + abs(d))
    assert (alike.p, alike.ends(0.95)) == (2 / 2**30, sure.ends(0.95))
    assert with_signed_ranks(sure, np.zeros(30)).p == 1


@pytest.mark.parametrize("n", [1, 5, 29])
def test_where_seeds_may_fail_rarely_few_of_them_decide_nothing(n):
    tested = with_signed_ranks(paired_test(np.ones(n)), np.ones(n))
    assert (tested.p, tested.ends(0.5), tested.detectable(0.95)) == (1, (None, None), math.inf)
    assert n == 1 or tested.seeds_to_decide(1 - 0.05 / 10) == FEWEST_RARE == 30


@pytest.mark.parametrize("n", [2, 3, 5, 10, 40])
def test_a_paired_t_equals_scipys(n):
    rng = np.random.default_rng(2)
    ours, theirs = rng.normal(size=n), rng.normal(0.5, 1.0, size=n)
    tested, known = paired_test(ours - theirs), stats.ttest_rel(ours, theirs)
    assert tested.p == pytest.approx(max(known.pvalue, 2 / 4**n))
    for level in LEVELS:
        enough = 2 / 4**n < 1 - level
        assert tested.ends(level) == (pytest.approx(known.confidence_interval(level)) if enough else (None, None))
    assert "normal" in tested.method


def test_rows_that_differ_alike_in_all_seeds_may_do_so_by_chance():
    """Of two equal rows whose seeds succeed or fail, however little the values of a success vary."""
    draw, alike = np.random.default_rng(8), dict.fromkeys((3, 4, 5), 0)
    for n in alike:
        for a, b in (draw.random((4000, 2, n)) < 0.5) + 1e-4 * draw.normal(size=(4000, 2, n)):
            alike[n] += paired_test(a - b).p <= 2.001 / 4**n
        assert alike[n] / 4000 == pytest.approx(2 / 4**n, rel=0.4)
    fewest = paired_test([1.0, 1.0001, 1.0]).seeds_to_decide(1 - 0.05 / 55)
    values = 1 + 1e-4 * draw.normal(size=fewest)
    assert paired_test(values).p < 0.05 / 55 < paired_test(values[1:]).p
    assert paired_test(values[1:]).detectable(1 - 0.05 / 55) == np.inf


def test_an_unpaired_t_is_welchs_with_no_more_degrees_of_freedom():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=7), rng.normal(1.0, 4.0, size=12)
    tested, known = unpaired_test(a, b), stats.ttest_ind(a, b, equal_var=False)
    assert tested.estimate / tested.error == pytest.approx(known.statistic)
    assert tested.seeds - 1 <= known.df
    assert tested.p >= known.pvalue


@pytest.mark.parametrize("n", [1, 3, 5, 6, 12])
@pytest.mark.parametrize("value", [2.0, -0.1, 0.0])
def test_equal_differences_are_tested_by_counting_the_signs(n, value):
    """They have no t. What sign flips leave is the share of patterns whose sum is as large."""
    tested = paired_test([value * (1 + 1e-8 * (i % 2)) for i in range(n)])
    sums = [abs(sum(signs)) for signs in product([-1, 1], repeat=n)]
    assert tested.p == (np.mean(np.array(sums) == n) if value else 1.0)
    low, high = tested.ends(0.95)
    assert (low is not None) == (2.0 ** (1 - n) < 0.05)
    assert low is None or (low <= value * (1 + 1e-8) and high >= value)


def test_a_difference_that_varies_is_tested_by_a_t_however_little():
    assert paired_test([1.0, 1.0 + 1e-4, 1.0]).interval == "t"


@pytest.mark.parametrize("n", [3, 10])
def test_a_bootstrap_t_of_a_mean_is_the_paired_t(n):
    """Replicates that are normal with the bootstrap's variance; of a mean they show no bias."""
    d = np.random.default_rng(n).normal(0.8, 1.0, size=n)
    grid = stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    tested, known = bootstrap_t(d.mean(), d.mean() + grid * d.std() / np.sqrt(n), n), paired_test(d)
    assert tested.p == pytest.approx(known.p, rel=2e-3) or n == 3
    assert tested.ends(0.95) == pytest.approx(known.ends(0.95), rel=2e-3)


def test_a_bootstrap_t_needs_nearly_all_replicates_on_one_side():
    """Values that are hardly ever reached: the sd is small, and the seeds are few."""
    tested = bootstrap_t(1.0, np.repeat([1.0, -0.5], [970, 30]), 5)
    assert tested.p > 0.05
    assert tested.ends(0.95)[0] == -0.5
    assert bootstrap_t(1.0, np.repeat([1.0, 0.5], [970, 30]), 5).p < 0.05


def test_a_bootstrap_t_widens_by_the_bias():
    replicates = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
    biased, unbiased = bootstrap_t(1.0, 1.5 + replicates, 5), bootstrap_t(1.0, 1.0 + replicates, 5)
    assert biased.ends(0.95)[0] == pytest.approx(unbiased.ends(0.95)[0] - 0.5 / (np.sqrt(2) - 1), abs=0.3)
    assert unbiased.p < biased.p == 1.0


def drawn(law, n, draw):
    return {
        "normal": draw.normal(0.6, 1, n),
        "lognormal": np.exp(draw.normal(0.5, 1, n)) - 1,
        "counts": draw.integers(-1, 4, n),
        "alike": np.full(n, draw.integers(-1, 2)),
    }[law]


@pytest.mark.parametrize("law", ["normal", "lognormal", "counts", "alike"])
def test_p_is_small_exactly_where_the_interval_excludes_zero(law):
    draw, rejected = np.random.default_rng(4), set()
    for n in [*range(2, 15), 20] * 5:
        d = drawn(law, n, draw)
        replicates = d[draw.integers(n, size=(400, n))].mean(axis=1)
        for tested in (paired_test(d), bootstrap_t(float(d.mean()), replicates, n)):
            for level in (*LEVELS, 1 - 0.05 / 55):
                low, high = tested.ends(level)
                excluded = low is not None and not low <= 0 <= high
                assert (tested.p < 1 - level) == excluded, (n, level, d)
                rejected.add(excluded)
    assert rejected == {True, False}


@pytest.mark.parametrize("n", [3, 5, 10, 40])
@pytest.mark.parametrize("level", LEVELS)
def test_power_is_the_noncentral_ts(n, level):
    half = stats.t.isf((1 - level) / 2, n - 1)
    for effect in (0.0, 1.0, 4.0, 9.0):
        known = stats.nct.sf(half, n - 1, effect) + np.nan_to_num(stats.nct.cdf(-half, n - 1, effect))  # NaN if tiny
        assert power(effect, n, level) == pytest.approx(known, abs=1e-4)
    error = 0.5
    tested = paired_test(np.resize([-1.0, 1.0], n) * error * np.sqrt(n - 1) + 3.0)
    detectable = tested.detectable(level) / tested.error
    if 2 / 4**n > 1 - level:
        assert detectable == np.inf
        return
    assert power(detectable, n, level) == pytest.approx(POWER, abs=1e-3)


@pytest.mark.parametrize(("effect", "margin"), [(0.5, None), (0.0, 0.4), (0.1, 0.4), (0.6, 0.4)])
def test_the_stated_number_of_seeds_decides_in_four_of_five(effect, margin):
    draw = np.random.default_rng(5)
    d = draw.normal(size=12)
    tested = paired_test(effect + (d - d.mean()) / d.std(ddof=1))
    needed = tested.seeds_to_decide(0.99, margin)
    decided = 0
    for values in draw.normal(effect, 1.0, size=(2000, needed)):
        low, high = paired_test(values).ends(0.99)
        decided += not low <= 0 <= high or (margin is not None and -margin < low and high < margin)
    assert decided / 2000 == pytest.approx(POWER, abs=0.04)


def at_five(effect, sigma, draw):
    """A test of five seeds with this difference and spread."""
    return paired_test(draw.normal(effect, sigma, 5))


@pytest.mark.parametrize(
    ("mean", "seeds", "margin"), [(0.8, 20, None), (1.5, 10, None), (0.0, 20, 0.9), (0.0, 20, 1.2)]
)
def test_the_chance_to_decide_is_that_of_new_seeds_by_the_posterior_of_difference_and_spread(mean, seeds, margin):
    """With the spread of five seeds taken as exact, the second and the fourth would be .80 and .91, not .70 and .74."""
    draw = np.random.default_rng(6)
    d = stats.zscore(draw.normal(size=5), ddof=1) + mean
    sigma = np.sqrt(4 / draw.chisquare(4, 20_000))
    difference = draw.normal(mean, sigma / np.sqrt(5))
    new = difference[:, None] + sigma[:, None] * draw.normal(size=(20_000, seeds))
    half = stats.t.isf(0.005, seeds - 1) * new.std(axis=1, ddof=1) / np.sqrt(seeds)
    middle = new.mean(axis=1)
    decided = np.abs(middle) > half
    if margin is not None:
        decided |= np.abs(middle) + half < margin
    assert 0.5 < decided.mean() < 0.8
    assert paired_test(d).chance_to_decide(seeds, 0.99, margin) == pytest.approx(decided.mean(), abs=0.02)


def test_five_seeds_are_less_sure_than_the_difference_and_spread_that_they_show():
    draw = np.random.default_rng(7)
    for effect in (0.7, 1.0, 1.5):
        tested = at_five(effect, 1.0, draw)
        needed = tested.seeds_to_decide(0.99)
        assert tested.chance_to_decide(needed, 0.99) < POWER
    many = paired_test(0.3 + draw.normal(size=4000))
    needed = many.seeds_to_decide(0.99)
    assert many.chance_to_decide(needed, 0.99) == pytest.approx(POWER, abs=0.01)


def test_seeds_that_do_not_vary_decide_surely_or_never():
    alike = paired_test(np.ones(6))
    needed = alike.seeds_to_decide(0.999)
    assert [alike.chance_to_decide(n, 0.999) for n in (needed - 1, needed)] == [0, 1]
    assert paired_test(np.zeros(6)).chance_to_decide(40, 0.99) == 0
    assert paired_test([1.0, 1.1, 0.9, 1.2, 1.0]).chance_to_decide(3, 1 - 1e-9) == 0


def test_no_number_of_seeds_shows_no_difference_without_a_margin():
    d = np.tile([-1.0, 1.0], 4)
    assert paired_test(d).seeds_to_decide(0.95) is None
    assert paired_test(np.zeros(5)).seeds_to_decide(0.95) is None
    assert unpaired_test(np.ones(5), np.zeros(5)).seeds_to_decide(0.95) is None
    needed = paired_test(np.ones(5)).seeds_to_decide(0.999)
    assert paired_test(np.ones(needed)).p < 0.001 <= paired_test(np.ones(needed - 1)).p


DECIDED = [("normal", 0.9), ("normal", 0.1), ("lognormal", 0.8), ("counts", 0.9), ("alike", 1.0)]


@pytest.mark.parametrize("margin", [None, 0.5])
@pytest.mark.parametrize(("law", "shift"), DECIDED)
def test_more_seeds_never_decide_less(law, shift, margin):
    """The same seeds again, or others with the same mean and standard deviation."""
    draw, decisions = np.random.default_rng(6), set()

    def decided(d, level):
        low, high = paired_test(d).ends(level)
        if low is None:
            return False
        return not low <= 0 <= high or (margin is not None and -margin < low and high < margin)

    for n in [*range(3, 16), 20, 40] * 4:
        d = drawn(law, n, draw) * shift
        other = draw.normal(size=2 * n)
        like = d.mean() + (other - other.mean()) / other.std(ddof=1) * d.std(ddof=1)
        for level in (0.95, 1 - 0.05 / 55):
            before = decided(d, level)
            decisions.add(before)
            assert not before or decided(np.tile(d, 2), level), (n, level, d)
            assert not before or not d.std() or decided(like, level), (n, level, d)
    assert decisions == {True, False}


def test_the_bound_of_a_share_of_failures_is_exact():
    """At the bound, so few failures have the probability 5 %."""
    for failed, runs in ((0, 5), (0, 40), (1, 10), (7, 10)):
        assert stats.binom.cdf(failed, runs, most_failures(failed, runs)) == pytest.approx(0.05)
    assert most_failures(5, 5) == 1.0


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_where_signed_ranks_leave_it_open_more_seeds_would_decide_and_these_where_they_do_not():
    d = np.random.default_rng(0).normal(size=30)
    sure = bootstrap_t(3.0, 3.0 + 0.1 * d, 30)
    assert with_signed_ranks(sure, d).seeds_to_decide(0.95) == 31
    assert with_signed_ranks(sure, 1 + abs(d)).seeds_to_decide(0.95) == 30
