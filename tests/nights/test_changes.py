"""What counts as worse than the last night, and what does not."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from plugins.nights.regression.changes import changes, settled
from plugins.nights.regression.news import news
from plugins.nights.regression.night import History, MetricValues, Night, NightRow, from_json

LAST = dict(enumerate([10.0, 11.0, 9.5, 10.4, 10.2]))


def metric(values, direction="max", target=None, version=1):
    by_seed = dict(values) if isinstance(values, dict) else dict(enumerate(values))
    return MetricValues(version, "1", direction, target, {seed: float(value) for seed, value in by_seed.items()})


def row(metrics, statuses=None, version=1, seeds=5, key="k"):
    known = statuses or dict.fromkeys(range(seeds), "done")
    return NightRow(version, {seed: f"{key}{seed}" for seed in known}, known, metrics, 1.0)


def night(suite="s", **rows):
    return Night(suite, rows)


def outcomes(last, tonight, skipped=()):
    return {(c.row, c.metric): c.outcome for c in changes(last, tonight, skipped)}


def one(values, last=LAST, **kind):
    """The outcome of a single metric."""
    before, now = night(a=row({"m": metric(last, **kind)})), night(a=row({"m": metric(values, **kind)}))
    return outcomes(before, now)["a", "m"]


def scaled(factor, spread=0.01):
    return {seed: value * factor * (1 + spread * (-1) ** seed) for seed, value in LAST.items()}


@pytest.mark.parametrize(("direction", "lower", "higher"), [("max", "worse", "better"), ("min", "better", "worse")])
def test_worse_and_better_follow_the_direction(direction, lower, higher):
    assert one(scaled(0.5), direction=direction) == lower
    assert one(scaled(2.0), direction=direction) == higher


def test_with_a_target_it_is_the_distance_that_counts():
    near, far = [1.01, 0.98, 1.02, 0.99, 1.015], [1.3, 0.7, 1.31, 0.72, 1.28]
    assert one(far, dict(enumerate(near)), direction="target", target=1.0) == "worse"
    assert one(near, dict(enumerate(far)), direction="target", target=1.0) == "better"
    assert one(far, dict(enumerate(near)), direction="target") == "not compared"


def test_the_same_numbers_and_rounding_are_no_change():
    assert one(LAST) == "same"
    assert one({seed: value * (1 - 1e-9) for seed, value in LAST.items()}) == "same"
    assert one(dict.fromkeys(LAST, 0.0), dict.fromkeys(LAST, 0.0)) == "same"


def test_noise_is_undecided():
    assert one([10.3, 9.7, 11.0, 10.0, 10.1]) == "unclear"


def test_a_collapse_is_seen_even_where_it_widens_the_spread():
    assert one([2.0, 700.0, 90.0, 15.0, 3000.0], dict(enumerate([1.0, 1.1, 0.9, 1.0, 1.2])), direction="min") == "worse"
    assert one([0, 0, 0, 0, 0], dict(enumerate([20, 21, 19, 22, 20]))) == "worse"


def test_where_all_seeds_differ_alike_it_takes_seeds_enough():
    assert one({s: v - 1 for s, v in enumerate([25.0] * 5)}, dict(enumerate([25.0] * 5))) == "unclear"
    ten = dict(enumerate([25.0] * 10))
    before, now = night(a=row({"m": metric(ten)}, seeds=10)), night(a=row({"m": metric([24.0] * 10)}, seeds=10))
    assert outcomes(before, now)["a", "m"] == "worse"


def test_two_seeds_get_no_verdict_and_it_is_said():
    before, now = night(a=row({"m": metric([1.0, 1.1])}, seeds=2)), night(a=row({"m": metric([9.0, 9.5])}, seeds=2))
    (change,) = changes(before, now)
    assert (change.outcome, "2 pairs" in change.reason) == ("unclear", True)


def test_holm_covers_all_rows_that_differ_and_only_those():
    slight = {seed: v * (0.93 + 0.012 * seed) for seed, v in LAST.items()}
    assert one(slight) == "worse"
    noisy = {f"n{i}": row({"m": metric(LAST)}) for i in range(40)}
    rolled = {f"n{i}": row({"m": metric(np.roll(list(LAST.values()), i % 4 + 1))}) for i in range(40)}
    before, now = row({"m": metric(LAST)}), row({"m": metric(slight)})
    assert outcomes(night(a=before, **noisy), night(a=now, **noisy))["a", "m"] == "worse"
    assert outcomes(night(a=before, **noisy), night(a=now, **rolled))["a", "m"] == "unclear"


def test_only_common_seeds_are_paired():
    last = {seed: 10.0 + seed for seed in range(10)}
    before = night(a=row({"m": metric(last)}, seeds=10))
    now = night(a=row({"m": metric({**{s: v for s, v in last.items() if s < 5}, 50: 0.0})}, seeds=5))
    assert outcomes(before, now)["a", "m"] == "same"


def test_a_seed_that_newly_diverged_or_failed_is_a_regression_of_its_own_and_known_ones_are_not():
    fine, lost = dict.fromkeys(range(5), "done"), {**dict.fromkeys(range(3), "done"), 3: "diverged", 4: "error"}
    values = metric({s: LAST[s] for s in range(3)})
    before, now = night(a=row({"m": metric(LAST)}, fine)), night(a=row({"m": values}, lost))
    regressions = {c.outcome: c.reason for c in changes(before, now) if c.is_regression}
    assert regressions == {"diverged": "seed 3, which had a result", "failed": "seed 4, which had a result"}
    assert not any(c.is_regression for c in changes(now, now))
    assert not any(c.is_regression for c in changes(now, before))


def test_a_row_or_value_that_is_gone_is_a_regression_unless_the_suite_was_edited():
    before = night(a=row({"m": metric(LAST)}), b=row({"m": metric(LAST), "n": metric(LAST)}))
    now = night(b=row({"m": metric({}), "o": metric(LAST)}))
    assert outcomes(before, now) == {("a", ""): "gone", ("b", "m"): "gone", ("b", "n"): "gone", ("b", "o"): "new"}
    assert outcomes(before, replace(now, suite="edited"))["a", ""] == "dropped"
    assert outcomes(before, now, {"a"})["a", ""] == "skipped"


def test_other_versions_of_a_task_or_metric_are_not_compared():
    worse = {seed: value / 2 for seed, value in LAST.items()}
    before = night(a=row({"m": metric(LAST)}), b=row({"m": metric(LAST)}))
    now = night(a=row({"m": metric(worse)}, version=2), b=row({"m": metric(worse, version=2)}))
    assert outcomes(before, now) == {("a", ""): "not compared", ("b", "m"): "not compared"}


def record(history, tonight, *, accepted=False):
    return printed(history, tonight, accepted=accepted)[0]


def printed(history, tonight, *, accepted=False):
    """Record a night as `bench nightly` does; the outcomes of its changes, and what it prints."""
    last, again = history.last(tonight), history.again(tonight)
    differences = changes(last, tonight, (), history.earlier(tonight))
    tonight = settled(last, tonight, differences, accepted=accepted)
    known = (again or last).told if again or last else ()
    lines, findings = news(known, tonight, differences if last else [], {}, again=again is not None)
    history.record(replace(tonight, told=findings))
    return {c.outcome for c in differences}, lines


def told(folder, *nights):
    """What each of some nights in a row prints, of the row a with the metric m."""
    return [
        [line.split(": ")[1] for line in printed(History(folder, "s"), night(a=row({"m": metric(values)})))[1]]
        for values in nights
    ]


def test_what_is_better_is_printed_once_and_so_is_its_loss_and_the_reference_stays(tmp_path):
    better, lost = "m is better", "m is no longer better"
    assert told(tmp_path, LAST, scaled(2.0), scaled(2.0), scaled(2.1), LAST) == [[], [better], [], [], [lost]]


def test_a_regression_is_printed_once_however_its_numbers_change_until_half_of_it_is_left(tmp_path):
    nights = LAST, scaled(0.5), scaled(0.501), scaled(0.2), scaled(0.6), scaled(0.95, 0.1), scaled(0.5)
    worse, ended = ["m is worse"], ["m is no longer worse"]
    assert told(tmp_path, *nights) == [[], worse, [], [], [], ended, worse]


def test_other_seeds_that_diverge_are_printed_and_the_end_of_it_too(tmp_path):
    def lost(*seeds):
        statuses = {seed: "diverged" if seed in seeds else "done" for seed in range(5)}
        return night(a=row({"m": metric({s: v for s, v in LAST.items() if s not in seeds})}, statuses))

    lines = [printed(History(tmp_path, "s"), lost(*seeds))[1] for seeds in ((), (3,), (3,), (3, 4), ())]
    reasons = ["a: diverged: seed 3, which had a result", "a: diverged: seeds 3, 4, which had a result"]
    assert lines == [[], [reasons[0]], [], [reasons[1]], ["a: no longer diverged"]]


def test_a_creep_is_compared_with_the_accepted_night_and_not_with_the_night_before(tmp_path):
    """Each step is within the noise of the night before: the sum of the steps is not."""
    noise = [0.02, -0.03, 0.01, 0.035, -0.025]
    nights = [
        {seed: value * (0.97**i + noise[(seed + 2 * i) % 5] * (i > 0)) for seed, value in LAST.items()}
        for i in range(8)
    ]
    assert {one(after, before) for before, after in itertools.pairwise(nights)} == {"unclear"}
    lines = told(tmp_path, *nights)
    assert lines[1] == []
    assert [line for of_night in lines for line in of_night] == ["m is worse"]


def test_the_main_metrics_of_the_rows_are_a_family_of_their_own():
    """The clear change of a main metric is found among many other metrics that differ without a verdict."""
    slight = {seed: v * (0.93 + 0.012 * seed) for seed, v in LAST.items()}
    rolled = {f"n{i}": metric(np.roll(list(LAST.values()), i % 4 + 1)) for i in range(40)}
    before = {"m": metric(LAST), **{name: metric(LAST) for name in rolled}}
    for main, outcome in (("m", "worse"), ("", "unclear")):
        sides = [night(a=replace(row(metrics), main=main)) for metrics in (before, {"m": metric(slight), **rolled})]
        assert outcomes(*sides)["a", "m"] == outcome


def test_equal_ratios_of_all_seeds_are_no_noise():
    assert one({seed: value * 0.96 for seed, value in LAST.items()}) == "worse"


def test_records_of_an_earlier_version_are_read():
    """They lack the fields that came later, and their checksum is of what they have."""
    record = night(a=row({"m": metric(LAST)})).to_json()
    assert record.keys() == {"format", "suite", "rows", "standard", "accepted", "recorded", "sha256"}
    assert record["rows"]["a"].keys() == {"task_version", "keys", "statuses", "metrics", "seconds"}
    assert record["rows"]["a"]["metrics"]["m"].keys() == {"version", "unit", "direction", "target", "values"}
    assert from_json(json.loads(json.dumps(record))) is not None


def test_a_joint_error_of_each_seed_is_not_compared_with_that_of_all():
    before, now = row({"m": metric(LAST)}), row({"m": replace(metric(LAST), statistic="joint")})
    assert outcomes(night(a=before), night(a=now)) == {("a", "m"): "not compared"}


def test_a_regression_stays_one_until_it_recovers_or_is_accepted(tmp_path):
    good, bad = night(a=row({"m": metric(LAST)})), night(a=row({"m": metric(scaled(0.5))}))
    elsewhere = night(a=bad.rows["a"], b=row({"m": metric(LAST)}))
    assert record(History(tmp_path, "s"), good) == {"new"}
    assert record(History(tmp_path, "s"), bad) == {"worse"}
    assert record(History(tmp_path, "s"), bad) == {"worse"}, "the same command again says the same"
    assert record(History(tmp_path, "s"), elsewhere) == {"worse", "new"}, "another row's change does not clear it"
    assert record(History(tmp_path, "s"), elsewhere, accepted=True) == {"worse", "new"}
    assert len(list((tmp_path / "nights" / "s").glob("*.json"))) == 3
    assert History(tmp_path, "s").again(elsewhere).accepted
    assert record(History(tmp_path, "s"), bad) == {"same", "gone"}
    assert record(History(tmp_path, "s"), good) == {"better", "gone"}


def test_a_row_left_out_for_a_night_is_compared_with_the_night_before(tmp_path):
    good, without = night(a=row({"m": metric(LAST)}), b=row({})), night(b=row({}))
    record(History(tmp_path, "s"), good)
    history = History(tmp_path, "s")
    history.record(settled(good, without, changes(good, without, {"a"}), accepted=False))
    bad = night(a=row({"m": metric(scaled(0.5))}), b=row({}))
    assert outcomes(History(tmp_path, "s").last(bad), bad)["a", "m"] == "worse"


def test_time_alone_makes_no_other_night(tmp_path):
    first = night(a=row({"m": metric(LAST)}))
    record(History(tmp_path, "s"), first)
    slower = night(a=replace(first.rows["a"], seconds=99.0))
    assert History(tmp_path, "s").again(slower) is not None
    assert History(tmp_path, "s").last(slower) is None


def test_a_damaged_record_is_left_out_by_name(tmp_path):
    for factor in (1.0, 2.0):
        record(History(tmp_path, "s"), night(a=row({"m": metric(scaled(factor))})))
    first, second = sorted((tmp_path / "nights" / "s").glob("*.json"))
    assert from_json(json.loads(second.read_text())) is not None
    second.write_text(second.read_text().replace('"10', '"11', 1).replace("20.", "21.", 1))
    (second.parent / "notes.json").write_text("{}")
    history = History(tmp_path, "s")
    assert len(history.notes) == 2
    assert second.name in history.notes[1]
    tonight = night(a=row({"m": metric(scaled(3.0))}))
    assert history.last(tonight).digest == from_json(json.loads(first.read_text())).digest
    history.record(tonight)
    assert (second.parent / "000003.json").exists(), "the damaged one is not written over"


@pytest.mark.statistical
@pytest.mark.parametrize("seeds", [5, 10])
def test_false_alarms_are_rare_where_all_numbers_are_drawn_anew(seeds):
    """Nights of 60 values of many kinds, all redrawn from the same law: at most 5 % may have any regression."""
    rng = np.random.default_rng(7)
    kinds = [
        (lambda: rng.lognormal(0, 0.3, seeds), "min", None),
        (lambda: rng.lognormal(2, 1.5, seeds), "max", None),
        (lambda: rng.poisson(20, seeds), "max", None),
        (lambda: rng.binomial(25, 0.97, seeds), "max", None),
        (lambda: 1 + 0.1 * rng.standard_normal(seeds), "target", 1.0),
        (lambda: rng.standard_t(2, seeds), "min", None),
    ]

    def drawn():
        rows = {
            f"r{i}": row({f"m{j}": metric(draw(), way, aim) for j, (draw, way, aim) in enumerate(kinds)}, seeds=seeds)
            for i in range(10)
        }
        return night(**rows)

    nights = [drawn() for _ in range(81)]
    alarms = sum(any(c.is_regression for c in changes(a, b)) for a, b in itertools.pairwise(nights))
    assert alarms <= 9  # of 80 at 5 %: 4 expected, more than 9 in one case in a hundred


def test_a_value_that_most_seeds_lost_is_gone_and_one_that_some_lost_is_no_longer_the_same():
    before = night(a=row({"m": metric(range(1, 11))}, seeds=10))
    for left, outcome in ((1, "gone"), (5, "unclear"), (10, "same")):
        now = night(a=row({"m": metric(range(1, left + 1))}, seeds=10))
        assert outcomes(before, now)["a", "m"] == outcome


def test_a_time_limit_is_no_regression_and_the_row_waits_for_the_next_night():
    before = night(a=row({"m": metric(LAST)}))
    late = night(a=row({"m": metric([])}, dict.fromkeys(range(5), "timeout")))
    (change,) = changes(before, late)
    assert (change.outcome, change.is_regression) == ("unfinished", False)
    assert settled(before, late, [change], accepted=False).standard == before.rows
