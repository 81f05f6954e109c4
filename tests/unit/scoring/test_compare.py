"""Comparisons of two rows: what is paired, what is tested, when there is a verdict."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scored import final_errors, low_error, moments, store, write_run

from harness.analysis.statistics.tests import unpaired_test
from harness.reporting.report import Request
from harness.reporting.scores import score_fields
from harness.reporting.scoring.accuracy import MARGINS
from harness.reporting.scoring.compare import PairOutcome, compare, compare_values, judge
from harness.reporting.scoring.ratios import ratio_test

LOW_ERROR = "passes_to_low_error"
BETTER, WORSE, EQUIVALENT, UNDECIDED = PairOutcome


def rows(a, b):
    return dict(enumerate(a)), dict(enumerate(b))


def write(results, method, values, seeds=None, metric="modes_covered", curves=None, **changes):
    for i, value in enumerate(values):
        seed = i if seeds is None else seeds[i]
        of_seed = curves(seed) if curves else None
        write_run(results, method=method, seed=seed, metrics={metric: value}, curves=of_seed, **changes)


def score_of(results):
    (score,) = score_fields(store(results), Request())
    return score, {group.method: group for group in score.groups}


def compared(results, metric="modes_covered"):
    score, groups = score_of(results)
    return score.compare(groups["csgld"], groups["sgld"], metric)


def alone(comparison):
    (judged,) = judge([comparison])
    return judged


@pytest.mark.parametrize("pairs", [3, 9, 10, 40])
def test_any_number_of_pairs_has_the_same_test(pairs):
    judged = alone(compare_values(*rows([s + 10 + s % 3 for s in range(pairs)], range(pairs)), "max"))
    assert judged.effect == pytest.approx(10 + np.mean([s % 3 for s in range(pairs)]))
    assert judged.low < judged.effect < judged.high
    assert (judged.tested.interval, judged.outcome, judged.nearer) == ("t", BETTER, judged.low)


def test_two_pairs_have_no_verdict():
    short = alone(compare_values(*rows([1.0, 2.0], [0.0, 1.1]), "max"))
    assert (short.p, short.outcome, short.low, short.detectable, short.seeds_to_decide) == (
        None, UNDECIDED, None, None, None
    )  # fmt: skip
    assert short.withheld == "2 pairs of seeds: a verdict needs 3"


def test_values_without_a_common_seed_are_compared_without_pairing():
    """Values that rise alike with their seeds, which would be equal differences if they were paired in order."""
    a, b = rows([2.0 + s for s in range(6)], [1.5 + s for s in range(6)])
    elsewhere = {seed + 100: value for seed, value in b.items()}
    assert alone(compare_values(a, b, "max")).low == pytest.approx(0.5)
    judged = alone(compare_values(a, elsewhere, "max"))
    assert (judged.pairs, judged.withheld, judged.outcome) == ((), "", UNDECIDED)
    assert (judged.a, judged.b, judged.effect) == (4.5, 4.0, 0.5)
    assert judged.tested == unpaired_test([*a.values()], [*b.values()])
    far = {seed: value + 100 for seed, value in elsewhere.items()}
    assert alone(compare_values(a, far, "max")).outcome == WORSE
    assert alone(compare_values(a, far, "target", 0.0)).outcome == BETTER
    short = alone(compare_values(a, {100: 1.0, 101: 2.0}, "max"))
    assert (short.p, short.withheld) == (None, "no seed of which both have a value")


def test_statistics_without_a_common_seed_are_compared_without_pairing(tmp_path):
    errors = [0.1, 0.2, 0.3, 0.5, 0.7, 1.0]
    for method, seeds, factor in (("csgld", range(6), 1), ("sgld", range(6), 1.1), ("sghmc", range(10, 16), 1.1)):
        write(
            tmp_path, method, [1.0] * 6, seeds, "mean_error",
            lambda s, f=factor: moments() | final_errors(np.full((4, 2), f * errors[s % 10])),
        )  # fmt: skip
    score, groups = score_of(tmp_path)
    paired, other = (score.compare(groups["csgld"], groups[name], "joint_error") for name in ("sgld", "sghmc"))
    assert (len(paired.pairs), len(other.pairs), other.unpaired) == (6, 0, {})
    assert paired.effect == pytest.approx(other.effect)
    assert alone(paired).outcome == EQUIVALENT
    assert (alone(other).outcome, other.tested.error > 10 * paired.tested.error + 0.1) == (UNDECIDED, True)


@pytest.mark.parametrize(
    ("direction", "target", "outcome"),
    [("max", None, BETTER), ("min", None, WORSE), ("target", 1.0, WORSE), ("target", None, UNDECIDED)],
)
def test_better_is_where_the_metric_says(direction, target, outcome):
    a, b = rows([2.0 + 0.1 * s for s in range(10)], [1.0 + 0.01 * s for s in range(10)])
    assert alone(compare_values(a, b, direction, target)).outcome == outcome


@pytest.mark.parametrize(
    ("factor", "spread", "outcome"),
    [
        (1.2, 0.001, EQUIVALENT),  # although the interval excludes 1
        (1.02, 0.05, EQUIVALENT),
        (1.4, 0.12, WORSE),  # it excludes 1, and reaches beyond 1.5
        (1.2, 0.6, UNDECIDED),
        (1.6, 0.001, WORSE),
        (0.6, 0.001, BETTER),
    ],
)
def test_equivalent_is_within_the_margin_whether_or_not_a_difference_is_shown(factor, spread, outcome):
    draw = np.random.default_rng(1)
    d = draw.normal(size=10)
    logs = np.log(factor) + spread * (d - d.mean()) / d.std()
    ratio = compare_values(*rows(np.exp(logs).tolist(), [1.0] * 10), "min", scale="ratio")
    judged = alone(replace(ratio, margin=MARGINS["joint_error"]))
    assert judged.outcome == outcome
    assert (judged.nearer is None) == (outcome in (EQUIVALENT, UNDECIDED))
    assert judged.nearer is None or 1 < judged.nearer < judged.effect or judged.effect < judged.nearer < 1
    without = alone(ratio).outcome
    assert without == (outcome if outcome != EQUIVALENT else WORSE if factor == 1.2 else UNDECIDED)


def test_two_hundredths_of_a_nat_are_the_margin_of_log_densities(tmp_path):
    for method, value in (("csgld", 0.51), ("sgld", 0.5)):
        write(tmp_path, method, [value + 0.001 * (s % 3) + 0.1 * s for s in range(10)], metric="lppd")
        write(tmp_path, method, [value + 0.001 * (s % 3) + 0.1 * s for s in range(10)], metric="rmse", task="mixture5")
    scores = {score.groups[0].task: score for score in score_fields(store(tmp_path), Request())}
    for task, metric, outcome in (("mixture25", "lppd", EQUIVALENT), ("mixture5", "rmse", BETTER)):
        a, b = sorted(scores[task].groups, key=lambda group: group.method)
        comparison = replace(compare(a, b, metric), direction="max")
        assert alone(comparison).outcome == outcome


def test_distances_from_the_target_are_compared_not_values():
    a, b = rows([0.5] * 5 + [1.5] * 5, [1.1, 0.9] * 5)
    comparison = compare_values(a, b, "target", 1.0)
    assert comparison.effect == pytest.approx(0.4)
    assert (comparison.a, comparison.b) == (1.0, pytest.approx(1.0))


def test_the_level_is_shared_by_all_that_were_tested_or_declared():
    weak = compare_values(*rows([0.1, 0.3, 0.35, 0.2, 0.5], [0.0, 0.0, 0.2, 0.1, 0.2]), "max")
    assert 0.01 < weak.p < 0.05
    assert alone(weak).outcome == BETTER
    untested = compare_values({0: 1.0}, {0: 2.0}, "max")
    judged = judge([weak, untested, weak, weak, weak])
    assert [c.outcome for c in judged] == [UNDECIDED] * 5
    assert judged[0].adjusted == pytest.approx(4 * weak.p)
    assert (judged[0].low, judged[0].high) == weak.tested.ends(1 - 0.05 / 4)
    assert judged[1].adjusted is None
    (declared,) = judge([weak], 4)
    assert (declared.low, declared.outcome) == (judged[0].low, UNDECIDED)
    assert declared.seeds_to_decide == weak.tested.seeds_to_decide(1 - 0.05 / 4) > 5


def test_seeds_that_one_side_did_not_run_are_left_out_and_named(tmp_path):
    write(tmp_path, "csgld", [10.0, 11.0, 12.5, 13.0])
    write(tmp_path, "sgld", [5.0, 6.1, 7.0], seeds=[1, 2, 7])
    comparison = compared(tmp_path)
    assert comparison.pairs == (1, 2)
    assert comparison.unpaired == {0: "B was not run", 3: "B was not run", 7: "A was not run"}


def test_rows_of_a_task_with_modes_are_not_told_apart_without_a_common_seed(tmp_path):
    write(tmp_path, "csgld", [20.0, 21.0, 22.0, 20.5, 21.5])
    write(tmp_path, "sgld", [5.0, 6.1, 7.0, 5.5, 6.5], seeds=range(10, 15))
    assert (alone(compared(tmp_path)).outcome, compared(tmp_path).p) == (UNDECIDED, 1.0)


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [("diverged", "A diverged at step 120, chain 2", "A diverged in 1 of 11 seeds"),
     ("error", "A failed (error); --retry runs it again", "A failed in 1 of 11 seeds")],
)  # fmt: skip
def test_a_seed_that_was_lost_withholds_the_verdict(tmp_path, status, text, reason):
    write(tmp_path, "csgld", [20.0 + s / 10 for s in range(10)], metric="ess_bulk")
    write(tmp_path, "csgld", [None], seeds=[10], status=status, metric="ess_bulk")
    write(tmp_path, "sgld", [5.0] * 11, metric="ess_bulk")
    judged = alone(compared(tmp_path, "ess_bulk"))
    assert judged.unpaired == {10: text}
    assert (judged.withheld, judged.outcome, judged.nearer) == (reason, UNDECIDED, None)
    assert judged.p == 2 / 4**10


def test_versions_of_a_metric_are_not_mixed(tmp_path):
    write(tmp_path, "csgld", [20.0, 21.0, 22.5], versions={"modes_covered": 2})
    write(tmp_path, "sgld", [5.0, 6.0, 7.0])
    comparison = compared(tmp_path)
    assert (comparison.version, comparison.pairs) == (2, ())
    assert "version 1 of the metric, not 2" in comparison.unpaired[0]
    assert "`bench rescore`" in comparison.unpaired[0]


def test_low_error_is_compared_by_its_ratio(tmp_path):
    write(tmp_path, "csgld", [1.0] * 10, curves=lambda seed: moments() | low_error([200.0 + 20 * seed] * 4))
    write(tmp_path, "sgld", [1.0] * 10, curves=lambda seed: moments() | low_error([600.0 + 20 * seed] * 4))
    score, groups = score_of(tmp_path)
    (comparison,) = judge([score.compare(groups["csgld"], groups["sgld"], LOW_ERROR)])
    assert comparison.scale == "ratio"
    assert comparison.a == score.estimate(groups["csgld"], LOW_ERROR).mean
    assert comparison.b == score.estimate(groups["sgld"], LOW_ERROR).mean
    assert comparison.effect == pytest.approx(comparison.a / comparison.b)
    assert comparison.low < comparison.effect < comparison.high < 1
    assert (comparison.p < 1e-4, comparison.outcome, comparison.tested.interval) == (True, BETTER, "bootstrap t")


def test_never_is_worse_than_late_and_a_diverged_seed_counts_as_never(tmp_path):
    write(tmp_path, "csgld", [1.0] * 10, curves=lambda _: moments() | low_error([900.0] * 4))
    write(tmp_path, "sgld", [1.0] * 4, curves=lambda _: moments() | low_error([100.0] * 4))
    write(tmp_path, "sgld", [None] * 6, seeds=range(4, 10), status="diverged")
    (comparison,) = judge([compared(tmp_path, LOW_ERROR)])
    assert len(comparison.pairs) == 10
    assert (comparison.b, comparison.effect) == (math.inf, 0.0)
    assert (comparison.favours, comparison.outcome) == ("a", UNDECIDED)  # four seeds of ten say the other thing
    assert comparison.p > 0.3


def test_a_diverged_seed_withholds_a_verdict_on_the_joint_error_as_on_any_mean(tmp_path):
    for method, error in (("csgld", 0.1), ("sgld", 0.4)):
        write(
            tmp_path, method, [1.0] * 9, metric="ess_bulk",
            curves=lambda s, e=error: moments() | final_errors(np.full((4, 2), e + 0.01 * s)),
        )  # fmt: skip
    write(tmp_path, "csgld", [None], seeds=[9], status="diverged", metric="ess_bulk")
    curves = moments() | final_errors(np.full((4, 2), 0.4))
    write(tmp_path, "sgld", [1.0], seeds=[9], curves=lambda _: curves, metric="ess_bulk")
    (comparison,) = judge([compared(tmp_path, "joint_error")])
    assert (len(comparison.pairs), comparison.p < 0.001, comparison.high < 1) == (9, True, True)
    assert (comparison.withheld, comparison.outcome) == ("A diverged in 1 of 10 seeds", UNDECIDED)


def test_a_difference_that_all_seeds_show_alike_is_found(tmp_path):
    """A median of all chains does not move when a few seeds change sides: the test is of seeds one by one."""
    for method, cost in (("csgld", 300.0), ("sgld", 600.0)):
        write(tmp_path, method, [1.0] * 10, curves=lambda _, cost=cost: moments() | low_error([cost] * 4))
    (comparison,) = judge([compared(tmp_path, LOW_ERROR)])
    assert (comparison.p, comparison.outcome) == (2 / 2**10, BETTER)


@pytest.mark.parametrize(
    ("chains", "seeds", "reason"),
    [
        (4, 3, "needs 32 chains x seeds, has 12"),
        (16, 2, "2 pairs of seeds: a verdict needs 3"),
    ],
)
def test_low_error_needs_chains_and_seeds(tmp_path, chains, seeds, reason):
    for method, cost in (("csgld", 300.0), ("sgld", 600.0)):
        curves = low_error([cost] * chains, chains)
        write(tmp_path, method, [1.0] * seeds, curves=lambda _, curves=curves: moments() | curves, chains=chains)
    (comparison,) = judge([compared(tmp_path, LOW_ERROR)])
    assert comparison.withheld == reason
    assert (comparison.p, comparison.low, comparison.outcome) == (None, None, UNDECIDED)


@pytest.mark.parametrize(("never", "outcome"), [(0, BETTER), (3, UNDECIDED), (8, BETTER)])
def test_where_one_side_never_gets_there_the_end_on_its_side_is_infinite(tmp_path, never, outcome):
    """A group of which three seeds never get there, or all. Of three, so do a third of the resamples."""
    costs = {"csgld": [300.0 + 20 * s for s in range(8)], "sgld": [2000.0] * never + [600.0] * (8 - never)}
    for method, by_seed in costs.items():
        write(tmp_path, method, [1.0] * 8, curves=lambda s, by_seed=by_seed: moments() | low_error([by_seed[s]] * 4))
    score, groups = score_of(tmp_path)
    (comparison,) = judge([score.compare(groups["csgld"], groups["sgld"], LOW_ERROR)])
    turned = alone(score.compare(groups["sgld"], groups["csgld"], LOW_ERROR))
    assert (comparison.low == 0, turned.high == math.inf) == (never > 0, never > 0)
    assert comparison.effect == (0.0 if never == 8 else pytest.approx(comparison.a / 600))
    assert (comparison.outcome, comparison.high < 1) == (outcome, outcome == BETTER)
    assert turned.p == pytest.approx(comparison.p)


@pytest.mark.parametrize("metric", ["joint_error", "ess_mse", LOW_ERROR])
def test_p_is_below_5_per_cent_exactly_where_the_interval_excludes_1(metric):
    draw, comparison = np.random.default_rng(2), set()
    axis = np.arange(1.0, 9.0)
    for n in [3, 4, 5, 6, 10] * 20:
        sides = [draw.choice([0.05, 0.08, 0.2]) * draw.normal(size=(n, 4, 2, 8)) for _ in "ab"]
        if metric == LOW_ERROR:  # b2 falls along the axis, at some seeds never
            sides = [np.sort(side**2, axis=-1)[..., ::-1] for side in sides]
        tested = ratio_test(metric, axis, *map(list, sides))
        low, high = tested.ends(0.95)
        assert (tested.p < 0.05) == (low is not None and not low <= 0 <= high), (n, tested)
        comparison.add(tested.p < 0.05)
    assert comparison == {True, False}


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
    assert alone(comparison).outcome == BETTER
    gated = alone(score.compare(groups["csgld"], groups["sgld"], "ess_bulk"))
    assert gated.outcome == UNDECIDED
    assert gated.withheld.startswith("A is biased: ")


@pytest.mark.parametrize("far", [1e100, 1e170, np.inf, np.nan])
def test_a_row_whose_error_overflows_is_the_worst_and_keeps_no_other_from_a_verdict(tmp_path, far):
    """Finished runs of a sampler that is lost: on a task of several modes, whose seeds are compared one by one."""
    levels = {"csgld": 0.01, "sgld": 1.0, "hmc": far, "sghmc": far}
    for seed in range(30):
        for method, error in levels.items():
            chains = np.full((4, 2), error) * np.random.default_rng(seed).uniform(1, 1.2, (4, 2))
            if method == "sghmc":
                chains[1:] = 1.0  # one chain of four
            curves = moments(mean_error=np.sqrt(error) if error < 2 else 0.0) | final_errors(chains)
            write_run(tmp_path, method=method, seed=seed, metrics={"modes_covered": 20.0}, curves=curves)
    score, groups = score_of(tmp_path)
    assert next(group.method for group in score.ordered("joint_error")) == "csgld"
    ranks = {m: standing.rank for m in groups if (standing := score.standing(groups[m], "joint_error")).rank}
    assert str(ranks["sgld"].verdict) == "worse"
    for method in ("hmc", "sghmc"):
        comparison = score.compare(groups["sgld"], groups[method], "joint_error")
        assert comparison.effect < 1e-90
        assert alone(comparison).outcome == BETTER
    equals = score.compare(groups["hmc"], groups["sghmc"], "joint_error")
    assert equals is None or math.isfinite(equals.tested.p if equals.tested else 0.0)
