import numpy as np
import pytest

from harness.analysis.statistics import Verdict, paired_test, rank_methods, rank_replicates
from harness.analysis.statistics import ranks as ranks_module
from harness.analysis.statistics import tests as statistical_tests
from harness.analysis.statistics.tests import paired_p

pytestmark = pytest.mark.numbers

BEST, TIED, WORSE, UNKNOWN, TOO_FEW = Verdict


def by_seed(values):
    return dict(enumerate(map(float, values)))


def spread(centre, n=10, sd=1.0, seed=0):
    return by_seed(centre + sd * np.random.default_rng(seed).normal(size=n))


def verdicts(ranks):
    return {name: rank.verdict for name, rank in ranks.items()}


def test_a_clear_order():
    values = {"b": spread(20, seed=1), "a": spread(10, seed=2), "c": spread(30, seed=3)}
    ranks = rank_methods(values, "min")
    assert {name: (r.rank, r.low, r.high, r.verdict) for name, r in ranks.items()} == {
        "a": (1, 1, 1, BEST),
        "b": (2, 2, 2, WORSE),
        "c": (3, 3, 3, WORSE),
    }
    assert {name: r.rank for name, r in rank_methods(values, "max").items()} == {"c": 1, "b": 2, "a": 3}


def test_what_is_not_shown_to_differ_is_not_tied():
    """Without a margin nothing is; with one, what lies wholly within it."""
    values = {"a": spread(10.0, seed=2), "b": spread(10.1, seed=1), "c": spread(30, seed=3)}
    ranks = rank_methods(values, "min")
    assert verdicts(ranks) == {"a": BEST, "b": UNKNOWN, "c": WORSE}
    assert (ranks["a"].low, ranks["a"].high) == (1, 2)
    assert verdicts(rank_methods(values, "min", margin=3.0)) == {"a": BEST, "b": TIED, "c": WORSE}
    assert rank_methods(values, "min", margin=0.8)["b"].verdict == UNKNOWN


def test_equivalent_is_not_worse_even_where_a_difference_is_shown():
    values = {"a": spread(10.0, sd=0.01, seed=1), "b": spread(10.1, sd=0.01, seed=2)}
    assert verdicts(rank_methods(values, "min")) == {"a": BEST, "b": WORSE}
    assert verdicts(rank_methods(values, "min", margin=0.5)) == {"a": BEST, "b": TIED}


def test_an_error_of_one_draw_is_not_tied_with_the_best():
    replicates = np.exp(0.01 * np.random.default_rng(0).normal(size=(2, 1000)))
    for factor, verdict in ((0.5, TIED), (1.2, UNKNOWN)):
        point = factor * np.array([1.0, 1.001])
        ranks = rank_replicates(point, replicates * point[:, None], "min", seeds=10, margin=np.log(1.5), limit=1.0)
        assert [rank.verdict for rank in ranks] == [BEST, verdict]


def test_replicates_over_other_seeds_are_not_paired():
    """A ratio that is the same in all replicates is known exactly only if they are over the same seeds."""
    replicates = np.exp(np.random.default_rng(0).normal(size=1000))
    point = np.array([1.0, 1.5])
    for seeds, verdict in ((10, WORSE), ([range(10)] * 2, WORSE), ([range(10), range(10, 20)], UNKNOWN)):
        noisy = np.stack([replicates, 1.5 * replicates * np.exp(0.01 * np.cos(np.arange(1000)))])
        assert rank_replicates(point, noisy, "min", seeds=seeds)[1].verdict == verdict
    with pytest.raises(ValueError, match="two seeds, got 1"):
        rank_replicates(point, noisy, "min", seeds=[range(10), range(1)])


def test_the_seeds_of_an_unknown_row_are_those_that_decide_its_pair():
    a, b = spread(10.0, seed=1), spread(10.6, seed=2)
    rank = rank_methods({"a": a, "b": b}, "min")["b"]
    differences = [b[seed] - a[seed] for seed in a]
    assert rank.verdict == UNKNOWN
    assert rank.seeds == paired_test(differences).seeds_to_decide(0.95)
    more = rank_methods({"a": a, "b": b, "c": spread(90, seed=3), "d": spread(99, seed=4)}, "min")["b"]
    assert more.seeds == paired_test(differences).seeds_to_decide(1 - 0.05 / 6)


def test_a_verdict_on_two_rows_depends_on_the_number_of_others_alone():
    pair = {"a": spread(10.0, seed=1), "b": spread(11.9, seed=2)}
    seen = set()
    for seed in range(40):
        centre, sd = 10.0 ** (seed % 5), 10.0 ** (seed % 4 - 3)
        others = {f"m{i}": spread(20 + centre, sd=sd, seed=10 * seed + i) for i in range(3)}
        seen.add(rank_methods(pair | others, "min")["b"].verdict)
    assert len(seen) == 1


def test_seeds_are_paired():
    # the seeds differ by 100, the methods by about 1 on every seed: only differences within seeds can see it
    draw = np.random.default_rng(5)
    seeds = 1000 + 100 * draw.normal(size=10)
    ranks = rank_methods({"a": by_seed(seeds), "b": by_seed(seeds + 1 + 0.1 * draw.normal(size=10))}, "min")
    assert verdicts(ranks) == {"a": BEST, "b": WORSE}


def test_methods_on_other_seeds_are_compared_without_pairing():
    seeds = 100 * np.random.default_rng(5).normal(size=20)
    a, b = dict(enumerate(seeds[:10])), {10 + i: x + 1 for i, x in enumerate(seeds[10:])}
    assert UNKNOWN in verdicts(rank_methods({"a": a, "b": b}, "min")).values()
    both = {"a": by_seed(seeds), "b": {int(s): seeds[s] + 1 + s / 100 for s in np.argsort(seeds)[-6:]}}
    assert rank_methods(both, "max")["a"].verdict == WORSE, "six seeds that both have are paired"


def test_fewer_than_five_seeds_are_unranked_and_do_not_move_the_others():
    values = {"few": spread(1, n=4), "a": spread(10), "b": spread(20)}
    ranks = rank_methods(values, "min")
    assert ranks["few"] is None
    assert ranks["a"].rank == 1
    assert rank_methods({"few": spread(1, n=4)}, "min") == {"few": None}
    assert rank_methods({}, "min") == {}


def test_infinite_values_tie_last():
    never = by_seed([np.inf] * 9)
    sometimes = by_seed([5, 5, 5, 5, 5, 5, 5, 5, np.inf])
    ranks = rank_methods({"never": never, "sometimes": sometimes, "always": by_seed([9] * 9)}, "min")
    assert ranks["always"].rank == 1
    assert ranks["never"].rank == ranks["sometimes"].rank == 2
    assert verdicts(ranks) == {"never": WORSE, "sometimes": UNKNOWN, "always": BEST}


def test_nothing_is_best_where_no_method_gets_there():
    ranks = rank_methods({name: by_seed([np.inf] * 6) for name in "ab"}, "min")
    assert verdicts(ranks) == {"a": UNKNOWN, "b": UNKNOWN}
    never = rank_replicates([np.inf, np.inf], np.full((2, 50), np.inf), "min", seeds=6)
    assert [rank.verdict for rank in never] == [UNKNOWN, UNKNOWN]


def test_equal_values_share_the_better_rank():
    ranks = rank_methods({"a": by_seed([25] * 6), "b": by_seed([25] * 6), "c": by_seed([1] * 6)}, "max")
    assert [ranks[n].rank for n in "abc"] == [1, 1, 3]
    assert [ranks[n].verdict for n in "abc"] == [TOO_FEW] * 3  # of six equal seeds p is .03, times three pairs
    ranks = rank_methods({"a": by_seed([25] * 9), "b": by_seed([25] * 9), "c": by_seed([1] * 9)}, "max")
    assert ranks["c"].verdict == WORSE


def test_a_pair_whose_seeds_agree_by_chance_is_not_told_apart():
    # a succeeds on all five seeds and z fails on all; of 32 equal methods one does either by chance
    patterns = {f"m{i:02}": [float(b) for b in f"{i:05b}"] for i in range(32)}
    ranks = rank_methods({name: by_seed(values) for name, values in patterns.items()}, "min")
    assert WORSE not in verdicts(ranks).values()


def test_means_and_their_bootstrap_replicates_are_ranked_alike():
    """Of values near a large one, whose logarithms differ as they do."""
    draw = np.random.default_rng(11)
    for _ in range(20):
        table = 1e4 + draw.normal(size=(5, 6)) - 3 * np.arange(5)[:, None]
        means = table[:, draw.integers(6, size=(40_000, 6))].mean(axis=2)
        seeds = {f"m{i}": by_seed(row) for i, row in enumerate(table)}
        by_mean = list(rank_methods(seeds, "max", level=0.9).values())
        # 40,000 replicates give an error to within 1 %; where that decides, the levels on both sides of it differ
        near = [[(r.rank, r.low, r.high, r.verdict) for r in rank_methods(seeds, "max", level=level).values()]
                for level in (0.88, 0.9, 0.92)]  # fmt: skip
        if near[0] == near[1] == near[2]:
            replicated = rank_replicates(table.mean(axis=1), means, "max", level=0.9, seeds=6)
            assert [(r.rank, r.low, r.high, r.verdict) for r in replicated] == near[1]
            assert by_mean[0].rank == replicated[0].rank


def test_p_of_many_pairs_is_that_of_each():
    draw = np.random.default_rng(3)
    for seeds in (1, 2, 5, 40):
        rows = draw.normal(size=(60, seeds)) + draw.normal(size=(60, 1))
        rows[:5] = 0
        rows[5:9] = draw.normal(size=(4, 1))
        rows[9:12] = 1e3 * (1 + 1e-8 * draw.normal(size=(3, seeds)))
        assert paired_p(rows).tolist() == [paired_test(row).p for row in rows]


def test_a_large_field_is_compared_at_once_and_with_the_best_one_by_one(monkeypatch):
    """A test of each pair by itself takes half a minute for a thousand methods. Rows of other seeds have their own."""
    tested = []
    monkeypatch.setattr(ranks_module, "paired_test", lambda values: tested.append(1) or paired_test(values))
    field = {f"m{i:03}": spread(i / 20, seed=i) for i in range(150)}
    ranks = rank_methods(field, "min", margin=0.5)
    assert len(tested) <= len(field)
    monkeypatch.setattr(ranks_module, "paired_p", lambda rows: np.array([paired_test(row).p for row in rows]))
    assert rank_methods(field, "min", margin=0.5) == ranks
    more = field | {"m000": spread(0, n=12, seed=0)}
    alone = rank_methods(more, "min", margin=0.5)
    assert {name: (rank.low, rank.high) for name, rank in alone.items()} == {
        name: (rank.low, rank.high) for name, rank in ranks.items()
    }


def test_pairs_whose_seeds_may_fail_share_the_law_of_their_signs():
    """Thirty differences without ties have one law, and to compute it for each pair takes 1.5 ms."""
    law = statistical_tests._law_of_signs
    law.cache_clear()
    rank_methods({f"m{i}": spread(i, n=30, seed=i) for i in range(12)}, "min", rare=True)
    assert (law.cache_info().misses, law.cache_info().hits) == (1, 65)
