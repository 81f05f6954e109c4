"""RULES.md, held against the scoring code: who may be averaged, compared and ranked."""

import math

import numpy as np
import pytest
from scored import final_errors, low_error, moments, store, write_run

from harness.analysis.statistics import Verdict
from harness.reporting.report import Request
from harness.reporting.scores import score_fields
from harness.reporting.scoring.compare import PairOutcome, judge

SEEDS = range(6)
JOINT = "joint_error"
BULK = {"chains": 8, "metric": "ess_bulk"}
"""A metric of a task without several modes."""


def write_group(results, method="sgld", seeds=SEEDS, metric="modes_covered", value=10.0, curves=None, **changes):
    for seed in seeds:
        drawn = moments(0.01 * (-1) ** seed, 1 + 0.01 * (-1) ** seed) if curves is None else curves(seed)
        metrics = {metric: value(seed) if callable(value) else value}
        write_run(results, method=method, seed=seed, metrics=metrics, curves=drawn, **changes)


def scores(results):
    return score_fields(store(results), Request())


def standing(results, method="sgld", metric="modes_covered"):
    (score,) = scores(results)
    (group,) = [g for g in score.groups if g.method == method]
    return score.standing(group, metric)


def test_a_sound_group_is_ranked_and_the_better_leads(tmp_path):
    write_group(tmp_path, "sgld", value=lambda seed: 10.0 + seed / 10)
    write_group(tmp_path, "csgld", value=lambda seed: 20.0 + seed / 10)
    assert standing(tmp_path, "csgld").rank.rank == 1
    assert standing(tmp_path, "sgld").rank.rank == 2
    assert standing(tmp_path, "sgld").status == "ranked"


@pytest.mark.parametrize(
    ("curves", "status"),
    [
        (lambda _: moments(0.0, 0.0), "biased"),  # frozen at the mean
        (lambda seed: moments(0.0, 1.5 + 0.01 * seed), "biased"),
        (lambda seed: moments(0.2 + 0.01 * seed, 1.0), "biased"),
        (lambda seed: moments(0.3 * (-1) ** seed, 1.0), "undetermined"),
        (lambda _: {}, "undetermined"),  # the others of the field have the curves
    ],
    ids=["frozen", "too wide", "shifted", "noisy", "no record"],
)
def test_a_wrong_or_unknown_law_cannot_rank_whatever_its_value(tmp_path, curves, status):
    write_group(tmp_path, "sgld", value=lambda seed: 1.0 + seed / 10)
    write_group(tmp_path, "csgld", value=25.0, curves=curves)
    row = standing(tmp_path, "csgld")
    assert row.short == status
    assert row.rank is None
    assert standing(tmp_path, "sgld").rank.rank == 1


def test_the_worst_direction_decides(tmp_path):
    def curves(seed):
        lower = np.array([[1.0, 0.5 + seed / 1000, 1.0]])  # marginal variances right, correlation .5
        return {"whitened_mean": (np.arange(2), np.zeros((1, 2))), "whitened_second": (np.arange(3), lower)}

    write_group(tmp_path, curves=curves)
    assert standing(tmp_path).status.startswith("biased: variance in the narrowest direction is 0.49")


ERRORS = np.random.default_rng(0).standard_normal((len(SEEDS), 8, 4))


def with_errors(bias, spread):
    """Errors of 8 chains along 4 directions: a bias, in the last direction only, and a spread."""
    return lambda seed: moments() | final_errors(spread * ERRORS[seed] + bias * np.eye(4)[3])


def test_bias_and_variance_count_alike_in_the_joint_error(tmp_path):
    write_group(tmp_path, "sgld", curves=with_errors(0.0, 0.2), **BULK)
    write_group(tmp_path, "hmc", curves=with_errors(0.3, 0.0), **BULK)
    (score,) = scores(tmp_path)
    rough, precise = sorted(score.groups, key=lambda group: -len(group.method))
    estimate = score.estimate(rough, JOINT)
    flat = 0.2 * ERRORS.reshape(-1, 4)
    worst = (flat**2).mean(axis=0).argmax()
    assert estimate.mean == pytest.approx((flat[:, worst] ** 2).mean())
    assert estimate.low < estimate.mean < estimate.high
    assert score.estimate(rough, "joint_bias2").mean == pytest.approx(flat[:, worst].mean() ** 2)
    assert score.estimate(rough, "joint_variance").mean == pytest.approx(flat[:, worst].var())
    assert score.estimate(precise, JOINT).mean == pytest.approx(0.09)
    assert [score.standing(group, JOINT).rank.rank for group in (rough, precise)] == [1, 2]


def test_the_largest_bias_may_be_that_of_another_function_than_the_worst(tmp_path):
    """A function whose variance is large has the joint error, one with less error the bias that longer runs keep."""
    noise = ERRORS * [1.0, 0.1, 0.1, 0.1]
    write_group(tmp_path, curves=lambda seed: moments() | final_errors(noise[seed] + 0.3 * np.eye(4)[3]), **BULK)
    (score,) = scores(tmp_path)
    (group,) = score.groups
    flat = noise.reshape(-1, 4)
    assert score.estimate(group, JOINT).mean == pytest.approx((flat[:, 0] ** 2).mean())
    assert score.estimate(group, "joint_bias2").mean == pytest.approx(flat[:, 0].mean() ** 2)
    unbiased = (flat[:, 3].mean() + 0.3) ** 2 - flat[:, 3].var(ddof=1) / len(flat)
    assert score.estimate(group, "largest_bias2").mean == pytest.approx(unbiased)
    assert unbiased == pytest.approx(0.09, rel=0.2)


def test_where_nothing_is_biased_the_largest_bias_is_about_none(tmp_path):
    write_group(tmp_path, curves=with_errors(0.0, 0.2), **BULK)
    (score,) = scores(tmp_path)
    (group,) = score.groups
    joint, chains = score.estimate(group, JOINT).mean, ERRORS.shape[0] * ERRORS.shape[1]
    assert 0 <= score.estimate(group, "largest_bias2").mean < 6 * joint / chains


def test_few_seeds_on_several_modes_have_no_interval(tmp_path):
    write_group(tmp_path, "sgld", curves=with_errors(0.0, 0.2), chains=8)
    (score,) = scores(tmp_path)
    estimate = score.estimate(score.groups[0], JOINT)
    assert (estimate.low, estimate.high, estimate.interval, estimate.mean > 0) == (None, None, "none", True)


def test_what_is_precisely_wrong_never_stands_above_what_is_roughly_right(tmp_path):
    """At the budget where that shows: its squared bias is above the other's variance. Ranks, verdicts and `compare`."""
    write_group(
        tmp_path,
        "sgld",
        value=lambda seed: 10.0 + seed / 10,
        curves=with_errors(0.0, 0.25),
        chains=8,
        metric="ess_bulk",
    )
    precise = with_errors(0.5, 0.001)
    write_group(
        tmp_path, "hmc", value=25.0, curves=lambda seed: precise(seed) | moments(0.5), chains=8, metric="ess_bulk"
    )
    (score,) = scores(tmp_path)
    rough, wrong = sorted(score.groups, key=lambda group: -len(group.method))
    for metric in (JOINT, "ess_bulk"):
        above, below = (score.standing(group, metric).rank for group in (rough, wrong))
        assert above.rank == 1
        assert below is None or (below.rank, below.verdict) == (2, Verdict.WORSE)
        (comparison,) = judge([score.compare(wrong, rough, metric)])
        assert comparison.outcome != PairOutcome.BETTER


OUTCOME = {
    Verdict.WORSE: PairOutcome.WORSE,
    Verdict.TIED: PairOutcome.EQUIVALENT,
    Verdict.UNKNOWN: PairOutcome.UNDECIDED,
}


@pytest.mark.parametrize(
    ("bias", "spread", "verdict"),
    [(0.02, 0.01, Verdict.TIED), (0.3, 0.1, Verdict.WORSE), (-0.2, 0.22, Verdict.UNKNOWN)],
)
def test_a_verdict_of_two_rows_is_that_of_their_comparison(tmp_path, bias, spread, verdict):
    """The leaderboard works from the rows' estimates, and `bench compare` from their curves."""
    write_group(
        tmp_path, "sgld", value=lambda seed: 12.0 + seed % 3, curves=with_errors(0.2, 0.02), chains=8, metric="ess_bulk"
    )
    curves = with_errors(0.2 + bias, spread)
    write_group(
        tmp_path, "hmc", value=lambda seed: 12.0 + bias + seed**2 % 5, curves=curves, chains=8, metric="ess_bulk"
    )
    (score,) = scores(tmp_path)
    for metric in (JOINT, "ess_bulk"):
        best, other = score.ordered(metric)
        rank = score.standing(other, metric).rank
        (judged,) = judge([score.compare(other, best, metric)])
        assert OUTCOME[rank.verdict] == judged.outcome
        assert rank.verdict != Verdict.UNKNOWN or rank.seeds == judged.seeds_to_decide
        assert rank.verdict == verdict or metric != JOINT


def test_every_finished_row_ranks_by_the_joint_error_whatever_its_gate(tmp_path):
    write_group(tmp_path, "sgld", curves=with_errors(0.0, 0.2), chains=8)
    for method, law in (("hmc", moments(0.0, 0.0)), ("msgld", moments(5.0)), ("csgld", moments(0.0, 2.0))):
        errors = with_errors(0.1, 0.3)
        write_group(tmp_path, method, curves=lambda seed, e=errors, law=law: {**e(seed), **law}, chains=8)
    (score,) = scores(tmp_path)
    assert all(score.standing(group, JOINT).status == "ranked" for group in score.groups)
    assert [g.method for g in score.groups if score.standing(g, "modes_covered").status == "ranked"] == ["sgld"]


def test_a_chain_that_diverged_makes_the_joint_error_infinite(tmp_path):
    write_group(tmp_path, seeds=range(5), curves=with_errors(0.0, 0.2), chains=8)
    write_run(tmp_path, method="sgld", seed=5, chains=8, status="diverged")
    (score,) = scores(tmp_path)
    (group,) = score.groups
    assert score.estimate(group, JOINT).mean == math.inf
    assert score.standing(group, JOINT).short == "diverged 1 of 6 (up to 58 %)"


def test_fewer_than_five_seeds_are_shown_and_unranked(tmp_path):
    write_group(tmp_path, seeds=range(4))
    row = standing(tmp_path)
    assert (row.status, row.rank) == ("unranked: fewer than five seeds", None)
    (score,) = scores(tmp_path)
    assert score.estimate(score.groups[0], "modes_covered").mean == 10.0


def test_a_diverged_seed_counts_is_named_and_unranks(tmp_path):
    write_group(tmp_path, seeds=range(5))
    write_run(tmp_path, method="sgld", seed=5, metrics={"modes_covered": None}, status="diverged")
    row = standing(tmp_path)
    assert (row.status, row.rank) == ("diverged 1 of 6 (up to 58 %)", None)
    (score,) = scores(tmp_path)
    assert score.failures() == ["sgld: seed 5 diverged at step 120, chain 2"]
    record = score.record(score.groups[0], "modes_covered")
    assert (record["seeds"], record["measured"], record["diverged"], len(record["run_keys"])) == (6, 5, 1, 6)


def test_a_failed_seed_unranks_until_it_is_run_again(tmp_path):
    write_group(tmp_path, seeds=range(5))
    write_run(tmp_path, method="sgld", seed=5, status="timeout", number=1)
    assert standing(tmp_path).status.startswith("failed 1 of 6 (up to 58 %): timeout")
    write_run(tmp_path, method="sgld", seed=5, metrics={"modes_covered": 9.0}, curves=moments(), number=2)
    assert standing(tmp_path).status == "ranked"


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": "csgmcmc-code"},
        {"chains": 2},
        {"budget": "paper", "steps": 5000},
        {"task_part": {"version": 2}},
        {"task_part": {"params": {"radius": 0.5}}},
        {"task_part": {"source": "another"}},
        {"task_part": {"data": "another"}},
        {"task": "mixture5"},
    ],
    ids=["protocol", "chains", "budget", "version", "task settings", "task source", "task data", "task"],
)
def test_fields_are_never_pooled_nor_compared(tmp_path, changes):
    write_group(tmp_path)
    write_group(tmp_path, value=20.0, **changes)
    fields = scores(tmp_path)
    assert [len(score.groups) for score in fields] == [1, 1]
    assert sorted(score.estimate(score.groups[0], "modes_covered").mean for score in fields) == [10.0, 20.0]
    assert len({score.title for score in fields}) == 2


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"params": {"step_size": 0.01, "temperature": 1.0}}, "sgld (schedule.step_size=0.01)"),
        ({"dtype": "float32"}, "sgld (run.dtype=float32)"),
        ({"burn_in": 500}, "sgld (run.burn_in=500)"),
        ({"engine": 99}, "sgld (engine=99)"),
        ({"device": "cuda", "tf32": True}, "sgld (run.device=cuda, run.tf32=True)"),
    ],
    ids=["step size", "dtype", "burn-in", "engine", "device"],
)
def test_settings_are_not_pooled_and_the_label_tells_what_differs(tmp_path, changes, label):
    write_group(tmp_path)
    write_group(tmp_path, value=20.0, **changes)
    (score,) = scores(tmp_path)
    assert label in score.labels.values()
    assert len(set(score.labels.values())) == 2
    assert {score.estimate(g, "modes_covered").mean for g in score.groups} == {10.0, 20.0}


def test_a_group_under_two_names_is_one_group(tmp_path):
    write_run(tmp_path, method="csgld", seed=0, metrics={"modes_covered": 1.0})
    write_run(tmp_path, method="csgld", seed=1, metrics={"modes_covered": 2.0})
    for path in sorted(tmp_path.glob("runs/*/*/*/spec.json"))[:1]:
        path.write_text(path.read_text().replace('"method": "csgld"', '"method": "sgld"'))
    (score,) = scores(tmp_path)
    (group,) = score.groups
    assert group.method == "csgld"
    assert len(group.runs) == 2


def test_a_seed_without_a_value_leaves_no_mean(tmp_path):
    write_group(tmp_path, metric="last_mode_first_visit", value=lambda seed: None if seed == 3 else 100.0 + seed)
    (score,) = scores(tmp_path)
    (group,) = score.groups
    estimate = score.estimate(group, "last_mode_first_visit")
    assert estimate.mean is None
    assert estimate.remark == "none in 1 of 6 seeds"
    assert score.standing(group, "last_mode_first_visit").status == "unranked: none in 1 of 6 seeds"


HEADLINE = "passes_to_low_error"


def with_headline(costs, chains=8):
    """b2 curves whose chains get there at `costs`, the same in every seed."""
    return lambda seed: {**moments(0.01 * (-1) ** seed), **low_error(costs, chains)}


def headline(results):
    (score,) = scores(results)
    (group,) = score.groups
    return score, group, score.estimate(group, HEADLINE)


def test_the_headline_is_the_median_curve_over_chains_and_seeds(tmp_path):
    write_group(tmp_path, chains=8, curves=with_headline([100, 100, 100, 300, 300, 900, 900, 900]))
    score, group, estimate = headline(tmp_path)
    assert estimate.mean == pytest.approx(300)
    assert score.estimate(group, "low_error_share").mean == 1.0
    assert score.standing(group, HEADLINE).rank.rank == 1


def test_the_worse_of_z_and_z2_counts(tmp_path):
    def curves(seed):
        first, second = low_error([100.0] * 8, 8), low_error([500.0] * 8, 8)
        return {**moments(0.01 * (-1) ** seed), **first, "joint_b2_z2_max": second["joint_b2_z2_max"]}

    write_group(tmp_path, chains=8, curves=curves)
    assert headline(tmp_path)[2].mean == pytest.approx(500)


def test_the_headline_needs_32_chains(tmp_path):
    write_group(tmp_path, chains=4, curves=with_headline([100.0] * 4, 4))
    score, group, estimate = headline(tmp_path)
    assert estimate.mean is None
    assert estimate.remark == "needs 32 chains x seeds, has 24"
    assert score.standing(group, HEADLINE).rank is None


def test_never_is_infinity(tmp_path):
    write_group(tmp_path, chains=8, curves=with_headline([math.inf] * 5 + [100.0] * 3))
    score, group, estimate = headline(tmp_path)
    assert estimate.mean == math.inf
    assert score.estimate(group, "low_error_share").mean == pytest.approx(3 / 8)


def test_the_chains_of_a_diverged_run_count_as_never(tmp_path):
    write_group(tmp_path, seeds=range(5), chains=8, curves=with_headline([100.0] * 8))
    for seed in range(5, 11):
        write_run(tmp_path, method="sgld", seed=seed, chains=8, status="diverged")
    score, group, estimate = headline(tmp_path)
    assert estimate.mean == math.inf
    assert score.estimate(group, "low_error_share").mean == pytest.approx(5 / 11)
    assert score.standing(group, HEADLINE).rank is None


def test_requests_filter(tmp_path):
    write_group(tmp_path)
    write_group(tmp_path, "csgld", protocol="csgmcmc-code")
    write_group(tmp_path, "hmc", task="mixture5")
    filled = store(tmp_path)
    for request, methods in (
        (Request(tasks=("mixture25",)), {"sgld", "csgld"}),
        (Request(methods=("hmc",)), {"hmc"}),
        (Request(protocols=("csgmcmc-code",)), {"csgld"}),
        (Request(tasks=("mixture5",), methods=("sgld",)), set()),
    ):
        assert {g.method for score in score_fields(filled, request) for g in score.groups} == methods


@pytest.mark.parametrize(
    ("metrics", "curves", "reference"),
    [
        ({"test_error": 0.1, "agreement": 0.9}, {}, "function space"),
        ({"lppd": 0.1, "function_mean_error": 0.2}, final_errors(0.2 * ERRORS[0]), "function space"),
        ({"lppd": 0.1, "function_mean_error": None}, {}, "none"),  # no reference is accepted
        ({"modes_covered": 3.0, "mean_error": 0.2}, moments(), "truth"),
        ({"test_error": 0.1}, {}, "none"),
    ],
)
def test_the_reference_is_what_the_runs_were_measured_against(tmp_path, metrics, curves, reference):
    for seed in SEEDS[:2]:
        write_run(tmp_path, seed=seed, metrics=metrics, curves=curves, chains=8)
    (score,) = scores(tmp_path)
    assert score.reference == reference


def test_wall_time_ranks_nobody(tmp_path):
    """Earlier versions had budgets in seconds."""
    write_group(tmp_path, "sgld", value=lambda seed: 1.0 + seed / 10, budget="seconds=5")
    assert standing(tmp_path, "sgld").status == "unranked: equal seconds are not equal cost"
