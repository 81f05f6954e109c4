import numpy as np
import pytest

from harness.analysis.statistics import rank_methods, rank_replicates, t_multiplier
from harness.analysis.statistics.ranks import tukey_multiplier

pytestmark = pytest.mark.numbers


def by_seed(values):
    return dict(enumerate(map(float, values)))


def spread(centre, n=10, sd=1.0, seed=0):
    return by_seed(centre + sd * np.random.default_rng(seed).normal(size=n))


def test_clear_order_gives_a_tier_each():
    values = {"b": spread(20, seed=1), "a": spread(10, seed=2), "c": spread(30, seed=3)}
    ranks = rank_methods(values, "min")
    assert {name: (r.rank, r.low, r.high, r.tier) for name, r in ranks.items()} == {
        "a": (1, 1, 1, 1),
        "b": (2, 2, 2, 2),
        "c": (3, 3, 3, 3),
    }
    assert {name: r.rank for name, r in rank_methods(values, "max").items()} == {"c": 1, "b": 2, "a": 3}


def test_methods_that_cannot_be_told_apart_share_a_tier():
    values = {
        "a": spread(10.0, seed=1),
        "b": spread(10.1, seed=2),
        "c": spread(30, seed=3),
        "d": spread(30, seed=4),
    }
    ranks = rank_methods(values, "min")
    assert [ranks[name].tier for name in "abcd"] == [1, 1, 2, 2]
    assert (ranks["a"].low, ranks["a"].high) == (1, 2)


def test_seeds_are_paired():
    # the seeds differ by 100, the methods by 1 on every seed: only differences within seeds can see it
    seeds = 1000 + 100 * np.random.default_rng(5).normal(size=10)
    ranks = rank_methods({"a": by_seed(seeds), "b": by_seed(seeds + 1)}, "min")
    assert (ranks["a"].tier, ranks["b"].tier) == (1, 2)


def test_fewer_than_five_seeds_are_unranked_and_do_not_move_the_others():
    values = {"few": spread(1, n=4), "a": spread(10), "b": spread(20)}
    ranks = rank_methods(values, "min")
    assert ranks["few"] is None
    assert ranks["a"].rank == 1
    assert rank_methods({"few": spread(1, n=4)}, "min") == {"few": None}
    assert rank_methods({}, "min") == {}


def test_infinite_values_tie_last():
    never = by_seed([np.inf] * 6)
    sometimes = by_seed([5, 5, 5, 5, 5, np.inf])
    ranks = rank_methods({"never": never, "sometimes": sometimes, "always": by_seed([9] * 6)}, "min")
    assert ranks["always"].rank == 1
    assert ranks["never"].rank == ranks["sometimes"].rank == 2
    assert [(r.low, r.high, r.tier) for r in ranks.values()] == [(2, 3, 2), (1, 3, 1), (1, 2, 1)]


def test_equal_values_share_the_better_rank_and_the_tier():
    ranks = rank_methods({"a": by_seed([25] * 5), "b": by_seed([25] * 5), "c": by_seed([1] * 5)}, "max")
    assert [ranks[n].rank for n in "abc"] == [1, 1, 3]
    assert [ranks[n].tier for n in "abc"] == [1, 1, 2]


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2]])
def test_whoever_one_of_two_tied_leaders_does_not_beat_shares_their_tier(order):
    # the second leader and the third method change places in half of the replicates
    replicates = np.array([[1.0] * 10, [1.0] * 5 + [3.0] * 5, [2.0] * 10])
    ranks = rank_replicates(np.array([1.0, 1.0, 2.0])[order], replicates[order], "min")
    assert [r.tier for r in ranks] == [1, 1, 1]


def test_a_pair_whose_seeds_agree_by_chance_is_judged_by_the_errors_of_the_others():
    # a succeeds on all five seeds and z fails on all; of 32 equal methods one does either by chance
    patterns = {f"m{i:02}": [float(b) for b in f"{i:05b}"] for i in range(32)}
    ranks = rank_methods({name: by_seed(values) for name, values in patterns.items()}, "min")
    assert {r.tier for r in ranks.values()} == {1}


def test_methods_on_other_seeds_are_compared_without_pairing():
    seeds = 100 * np.random.default_rng(5).normal(size=20)
    a, b = dict(enumerate(seeds[:10])), {10 + i: x + 1 for i, x in enumerate(seeds[10:])}
    assert {r.tier for r in rank_methods({"a": a, "b": b}, "min").values()} == {1}
    both = {"a": by_seed(seeds), "b": {int(s): seeds[s] + 1 for s in np.argsort(seeds)[-6:]}}
    assert {r.tier for r in rank_methods(both, "max").values()} == {1, 2}, "six seeds that both have are paired"


def test_positive_values_are_compared_by_their_ratios():
    # factors of e^{+-1} about 1 and about 1,000: the worse method's spread hides the difference, not the ratio
    values = {"a": by_seed(np.exp([-1, -0.5, 0, 0.5, 1])), "b": by_seed(1000 * np.exp([1, -0.5, -1, 0.5, 0]))}
    assert [r.tier for r in rank_methods(values, "min").values()] == [1, 2]


def test_means_and_their_bootstrap_replicates_are_ranked_alike():
    draw = np.random.default_rng(11)
    for _ in range(20):
        table = draw.normal(size=(5, 6)) - 1.5 * np.arange(5)[:, None]
        means = table[:, draw.integers(6, size=(40_000, 6))].mean(axis=2)
        seeds = {f"m{i}": by_seed(row) for i, row in enumerate(table)}
        by_mean = list(rank_methods(seeds, "max", level=0.9).values())
        # 40,000 replicates give an error to within 1 %; where that decides, the levels on both sides of it differ
        near = {tuple(rank_methods(seeds, "max", level=level).values()) for level in (0.89, 0.91)}
        if near == {tuple(by_mean)}:
            assert rank_replicates(table.mean(axis=1), means, "max", level=0.9, seeds=6) == by_mean


@pytest.mark.parametrize(("methods", "df", "known"), [(3, 10, 3.877), (10, 9, 5.738), (20, 20, 5.714), (10, 4, 7.826)])
def test_the_studentised_range_is_that_of_the_printed_tables(methods, df, known):
    assert tukey_multiplier(methods, df) * 2**0.5 == pytest.approx(known, abs=2e-3)
    assert tukey_multiplier(2, df) == pytest.approx(t_multiplier(df), rel=1e-3)
