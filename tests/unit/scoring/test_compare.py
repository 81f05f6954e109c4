"""Comparisons of two rows: what is paired, what is tested, when there is a verdict."""

import math

import numpy as np
import pytest
from scored import final_errors, low_error, moments, store, write_run

from harness.reporting.report import Request
from harness.reporting.scores import score_fields
from harness.reporting.scoring.compare import Comparison, compare, compare_values, judge
from harness.reporting.scoring.ratios import ratio_test

LOW_ERROR = "passes_to_low_error"


def rows(a, b):
    return dict(enumerate(a)), dict(enumerate(b))


def write(results, method, values, seeds=None, metric="modes_covered", curves=None, **changes):
    for i, value in enumerate(values):
        seed = i if seeds is None else seeds[i]
        seed_curves = curves(seed) if curves else None
        write_run(results, method=method, seed=seed, metrics={metric: value}, curves=seed_curves, **changes)


def score_of(results):
    (score,) = score_fields(store(results), Request())
    return score, {group.method: group for group in score.groups}


def write_costs(results, seeds=10, chains=4, **costs):
    """Runs that reach a low error at the cost of their method, one for all seeds or one for each."""
    for method, cost in costs.items():
        by_seed = np.broadcast_to(cost, seeds)
        curves = lambda seed, by_seed=by_seed: moments() | low_error([by_seed[seed]] * chains, chains)  # noqa: E731
        write(results, method, [1.0] * seeds, curves=curves, chains=chains)


def compared(results, metric="modes_covered", a="csgld", b="sgld"):
    score, groups = score_of(results)
    return score.compare(groups[a], groups[b], metric)


def test_ten_pairs_are_tested_by_permutation_and_have_its_interval():
    comparison = compare_values(*rows([s + 10 + s % 3 for s in range(10)], range(10)), "max")
    assert (comparison.a, comparison.b, comparison.effect) == (pytest.approx(15.4), 4.5, pytest.approx(10.9))
    assert comparison.interval == "sign flips 95 %"
    assert comparison.low < 10.9 < comparison.high
    assert (comparison.p, "permutation" in comparison.test) == (2 / 2**10, True)
    assert judge([comparison])[0].better == "a"


def test_three_to_nine_pairs_have_a_paired_t_and_two_have_no_verdict():
    comparison = compare_values(*rows([1.0, 2.0, 3.5], [0.0, 1.1, 2.4]), "max")
    assert "paired t" in comparison.test
    assert judge([comparison])[0].better == "a"
    (short,) = judge([compare_values(*rows([1.0, 2.0], [0.0, 1.1]), "max")])
    assert (short.p, short.better, short.low, short.interval) == (None, "", None, "none")
    assert "2 pairs of seeds: a verdict needs 3, a claim 10" in short.withheld


@pytest.mark.parametrize(
    ("direction", "target", "better"),
    [("max", None, "a"), ("min", None, "b"), ("target", 1.0, "b"), ("target", None, "")],
)
def test_better_is_where_the_metric_says(direction, target, better):
    a, b = rows([2.0 + 0.1 * s for s in range(10)], [1.0 + 0.01 * s for s in range(10)])
    (comparison,) = judge([compare_values(a, b, direction, target)])
    assert comparison.better == better


def test_distances_from_the_target_are_compared_not_values():
    a, b = rows([0.5] * 5 + [1.5] * 5, [1.1, 0.9] * 5)
    comparison = compare_values(a, b, "target", 1.0)
    assert comparison.effect == pytest.approx(0.4)
    assert (comparison.a, comparison.b) == (1.0, pytest.approx(1.0))


def test_holm_is_over_all_that_was_tested():
    weak = compare_values(*rows([0.1, 0.3, 0.35, 0.2, 0.5], [0.0, 0.0, 0.2, 0.1, 0.2]), "max")
    assert 0.01 < weak.p < 0.05
    assert judge([weak])[0].better == "a"
    untested = compare_values({0: 1.0}, {0: 2.0}, "max")
    comparisons = judge([weak, untested, weak, weak, weak])
    assert [c.better for c in comparisons] == [""] * 5
    assert comparisons[0].adjusted == pytest.approx(4 * weak.p)
    assert comparisons[1].adjusted is None


def test_seeds_that_one_side_did_not_run_are_left_out_and_named(tmp_path):
    write(tmp_path, "csgld", [10.0, 11.0, 12.5, 13.0])
    write(tmp_path, "sgld", [5.0, 6.1, 7.0], seeds=[1, 2, 7])
    comparison = compared(tmp_path)
    assert comparison.pairs == (1, 2)
    assert comparison.unpaired == {0: "B was not run", 3: "B was not run", 7: "A was not run"}


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [("diverged", "A diverged at step 120, chain 2", "A diverged in 1 of 11 seeds"),
     ("error", "A failed (error); --retry runs it again", "A failed in 1 of 11 seeds")],
)  # fmt: skip
def test_a_seed_that_was_lost_withholds_the_verdict(tmp_path, status, text, reason):
    write(tmp_path, "csgld", [20.0 + s / 10 for s in range(10)])
    write(tmp_path, "csgld", [None], seeds=[10], status=status)
    write(tmp_path, "sgld", [5.0] * 11)
    (comparison,) = judge([compared(tmp_path)])
    assert comparison.unpaired == {10: text}
    assert (comparison.withheld, comparison.better) == (reason, "")
    assert comparison.p == 2 / 2**10


def test_versions_of_a_metric_are_not_mixed(tmp_path):
    write(tmp_path, "csgld", [20.0, 21.0, 22.5], versions={"modes_covered": 2})
    write(tmp_path, "sgld", [5.0, 6.0, 7.0])
    comparison = compared(tmp_path)
    assert (comparison.version, comparison.pairs) == (2, ())
    assert "version 1 of the metric, not 2" in comparison.unpaired[0]
    assert "`bench rescore`" in comparison.unpaired[0]


def test_low_error_is_compared_by_its_ratio(tmp_path):
    write_costs(tmp_path, csgld=200 + 20 * np.arange(10.0), sgld=600 + 20 * np.arange(10.0))
    score, groups = score_of(tmp_path)
    (comparison,) = judge([score.compare(groups["csgld"], groups["sgld"], LOW_ERROR)])
    assert comparison.scale == "ratio"
    assert comparison.a == score.estimate(groups["csgld"], LOW_ERROR).mean
    assert comparison.b == score.estimate(groups["sgld"], LOW_ERROR).mean
    assert comparison.effect == pytest.approx(comparison.a / comparison.b)
    assert comparison.low < comparison.effect < comparison.high < 1
    assert (comparison.p < 1e-4, comparison.better, comparison.interval) == (True, "a", "bootstrap t 95 % (x2.26)")


def test_never_is_worse_than_late_and_a_diverged_seed_counts_as_never(tmp_path):
    write(tmp_path, "csgld", [1.0] * 10, curves=lambda _: moments() | low_error([900.0] * 4))
    write(tmp_path, "sgld", [1.0] * 4, curves=lambda _: moments() | low_error([100.0] * 4))
    write(tmp_path, "sgld", [None] * 6, seeds=range(4, 10), status="diverged")
    (comparison,) = judge([compared(tmp_path, LOW_ERROR)])
    assert len(comparison.pairs) == 10
    assert (comparison.b, comparison.effect) == (math.inf, 0.0)
    assert (comparison.favours, comparison.better) == ("a", "")  # four seeds of ten say the other thing
    assert comparison.p > 0.3


def test_a_diverged_seed_withholds_a_verdict_on_the_joint_error_as_on_any_mean(tmp_path):
    for method, error in (("csgld", 0.1), ("sgld", 0.4)):
        write(
            tmp_path, method, [1.0] * 9,
            curves=lambda s, e=error: moments() | final_errors(np.full((4, 2), e + 0.01 * s)),
        )  # fmt: skip
    write(tmp_path, "csgld", [None], seeds=[9], status="diverged")
    write(tmp_path, "sgld", [1.0], seeds=[9], curves=lambda _: moments() | final_errors(np.full((4, 2), 0.4)))
    (comparison,) = judge([compared(tmp_path, "joint_error")])
    assert (len(comparison.pairs), comparison.p < 1e-3, comparison.high < 1) == (9, True, True)
    assert (comparison.withheld, comparison.better) == ("A diverged in 1 of 10 seeds", "")


def test_a_difference_that_all_seeds_show_alike_is_found(tmp_path):
    """A median of all chains does not move when a few seeds change sides: the test is of seeds one by one."""
    write_costs(tmp_path, csgld=300.0, sgld=600.0)
    (comparison,) = judge([compared(tmp_path, LOW_ERROR)])
    assert (comparison.p, comparison.better) == (2 / 2**10, "a")


@pytest.mark.parametrize(
    ("chains", "seeds", "reason"),
    [
        (4, 3, "needs 32 chains x seeds, has 12"),
        (16, 2, "2 pairs of seeds: a verdict needs 3, a claim 10"),
    ],
)
def test_low_error_needs_chains_and_seeds(tmp_path, chains, seeds, reason):
    write_costs(tmp_path, seeds, chains, csgld=300.0, sgld=600.0)
    (comparison,) = judge([compared(tmp_path, LOW_ERROR)])
    assert comparison.withheld == reason
    assert (comparison.p, comparison.low, comparison.better) == (None, None, "")


@pytest.mark.parametrize(("never", "better"), [(0, "a"), (3, ""), (8, "a")])
def test_where_one_side_never_gets_there_the_end_on_its_side_is_infinite(tmp_path, never, better):
    """A group of which three seeds never get there, or all. Of three, so do a third of the resamples."""
    write_costs(tmp_path, 8, csgld=300 + 20 * np.arange(8.0), sgld=[2000.0] * never + [600.0] * (8 - never))
    (comparison,) = judge([compared(tmp_path, LOW_ERROR)])
    turned = compared(tmp_path, LOW_ERROR, "sgld", "csgld")
    assert (comparison.low == 0, turned.high == math.inf) == (never > 0, never > 0)
    assert comparison.effect == (0.0 if never == 8 else pytest.approx(comparison.a / 600))
    assert (comparison.better, comparison.high < 1) == (better, better == "a")
    assert turned.p == pytest.approx(comparison.p)


LAWS = {
    "normal": lambda draw, n: draw.normal(0.7, 1, n),
    "lognormal": lambda draw, n: np.exp(draw.normal(0.5, 1, n)) - 1,
    "counts": lambda draw, n: draw.integers(-1, 4, n),
    "nearly alike": lambda draw, n: 1 + 1e-9 * draw.normal(size=n),
    "alike": lambda draw, n: np.full(n, draw.integers(-1, 2)),
}


@pytest.mark.parametrize("scale", ["difference", "ratio"])
@pytest.mark.parametrize("law", LAWS)
def test_p_is_below_5_per_cent_exactly_where_the_interval_excludes_no_difference(law, scale):
    draw, rejected = np.random.default_rng(1), set()
    for n in [*range(3, 15), 17, 20] * 4:
        d = LAWS[law](draw, n)
        a = np.exp(d) if scale == "ratio" else d
        b = np.ones(n) if scale == "ratio" else np.zeros(n)
        tested = compare_values(*rows(a.tolist(), b.tolist()), "max", scale=scale)
        assert (tested.p < 0.05) == excludes(tested, float(scale == "ratio")), (n, d)
        rejected.add(tested.p < 0.05)
    assert rejected == {True, False} or "alike" in law


@pytest.mark.parametrize("metric", ["joint_error", "ess_mse", LOW_ERROR])
def test_the_same_holds_for_statistics_over_chains_and_seeds(metric):
    draw, rejected = np.random.default_rng(2), set()
    axis = np.arange(1.0, 9.0)
    for n in [3, 4, 5, 6, 10] * 20:
        sides = [draw.choice([0.05, 0.08, 0.2]) * draw.normal(size=(n, 4, 2, 8)) for _ in "ab"]
        if metric == LOW_ERROR:  # b2 falls along the axis, at some seeds never
            sides = [np.sort(side**2, axis=-1)[..., ::-1] for side in sides]
        tested = ratio_test(metric, axis, *map(list, sides))
        assert (tested.p < 0.05) == excludes(tested, 0.0), (n, tested)
        rejected.add(tested.p < 0.05)
    assert rejected == {True, False}


def excludes(tested, null):
    return tested.low is not None and not tested.low <= null <= tested.high


def test_costs_on_other_grids_are_compared_on_one_axis(tmp_path):
    """hmc's kept draws lie at other costs than sgld's."""
    write(tmp_path, "csgld", [1.0] * 10, curves=lambda _: moments() | low_error([400.0] * 4, points=20))
    write(tmp_path, "sgld", [1.0] * 10, curves=lambda _: moments() | low_error([400.0] * 4, points=50))
    score, groups = score_of(tmp_path)
    comparison = score.compare(groups["csgld"], groups["sgld"], LOW_ERROR)
    assert comparison.a == score.estimate(groups["csgld"], LOW_ERROR).mean
    assert comparison.b == score.estimate(groups["sgld"], LOW_ERROR).mean


def test_an_effective_size_behind_the_gate_gets_no_verdict(tmp_path):
    shrunk = [moments(0.0, 0.5 + 0.001 * seed) for seed in range(10)]
    sound = [moments(0.001 * (-1) ** seed, 1 + 0.001 * seed) for seed in range(10)]
    write(tmp_path, "csgld", [4000.0 + s for s in range(10)], metric="ess_bulk", curves=lambda s: shrunk[s])
    write(tmp_path, "sgld", [100.0 + s for s in range(10)], metric="ess_bulk", curves=lambda s: sound[s])
    score, groups = score_of(tmp_path)
    comparison = compare(groups["csgld"], groups["sgld"], "ess_bulk")
    ungated = judge([Comparison(**{**vars(comparison), "unit": "1"})])[0]
    assert ungated.better == "a"
    write_unit = score.compare(groups["csgld"], groups["sgld"], "ess_bulk")
    assert judge([write_unit])[0].better == ""
    assert write_unit.withheld.startswith("A is biased: ")
