from __future__ import annotations

import numpy as np
import pytest

from harness.statistics import rank_methods, rank_replicates


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
    # the seeds differ by 100, the methods by 1 on every seed: only a paired bootstrap can see it
    seeds = 100 * np.random.default_rng(5).normal(size=10)
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
    assert (ranks["sometimes"].low, ranks["never"].low) == (1, 2)


def test_equal_values_share_the_better_rank_and_the_tier():
    ranks = rank_methods({"a": by_seed([25] * 5), "b": by_seed([25] * 5), "c": by_seed([1] * 5)}, "max")
    assert [ranks[n].rank for n in "abc"] == [1, 1, 3]
    assert [ranks[n].tier for n in "abc"] == [1, 1, 2]


def test_ties_of_three_and_their_tiers():
    tied = dict.fromkeys("abc", by_seed([25] * 5))
    ranks = rank_methods({**tied, "d": by_seed([1] * 5)}, "max")
    assert [(r.rank, r.low, r.high, r.tier) for r in ranks.values()] == [(1, 1, 1, 1)] * 3 + [(4, 4, 4, 2)]


@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2]])
def test_of_tied_leaders_the_wider_interval_counts(order):
    # the second leader and the third method change places in half of the replicates
    replicates = np.array([[1.0] * 10, [1.0] * 5 + [3.0] * 5, [2.0] * 10])
    ranks = rank_replicates(np.array([1.0, 1.0, 2.0])[order], replicates[order], "min")
    assert [r.tier for r in ranks] == [1, 1, 1]


def test_a_resample_without_any_seed_of_a_method_leaves_it_at_its_mean():
    ranks = rank_methods({"a": spread(10), "b": {0: 90.0}}, "min", minimum_seeds=1)
    assert (ranks["b"].rank, ranks["b"].low) == (2, 2)


def test_different_seed_sets():
    values = {"a": {s: 10.0 + s for s in range(8)}, "b": {s: 90.0 + s for s in range(5, 12)}}
    ranks = rank_methods(values, "min")
    assert [ranks[n].rank for n in "ab"] == [1, 2]
    assert ranks["b"].tier == 2


def test_order_of_the_methods_and_repeats_change_nothing():
    values = {"a": spread(10, seed=1), "b": spread(10.3, seed=2), "c": spread(10.6, seed=3)}
    again = rank_methods(dict(reversed(values.items())), "min")
    assert rank_methods(values, "min") == again


def test_replicates_decide_the_interval_and_it_holds_the_rank():
    # a is ahead in 90 % of the replicates, b in 10 %: both orders lie within 95 %
    replicates = np.array([[1.0] * 9 + [3.0], [2.0] * 10])
    first, second = rank_replicates([1.0, 2.0], replicates, "min")
    assert (first.low, first.high, second.low, second.high) == (1, 2, 1, 2)
    narrow = rank_replicates([1.0, 2.0], replicates, "min", level=0.5)
    assert [(r.low, r.high, r.tier) for r in narrow] == [(1, 1, 1), (2, 2, 2)]
    odd = rank_replicates([3.0, 2.0], np.tile([[1.0], [2.0]], 10), "min")[0]
    assert (odd.rank, odd.low, odd.high) == (2, 1, 2)


@pytest.mark.parametrize(
    ("point", "replicates", "direction", "message"),
    [
        ([1.0], [[1.0]], "best", "direction"),
        ([1.0, 2.0], [[1.0]], "min", "do not fit"),
        ([np.nan], [[1.0]], "min", "NaN"),
    ],
)
def test_refusals(point, replicates, direction, message):
    with pytest.raises(ValueError, match=message):
        rank_replicates(point, replicates, direction)
