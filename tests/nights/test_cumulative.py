"""The cumulative test of a row over nights: what it sees, and how often it is wrong in a year."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from plugins.nights.regression.changes import CUMULATIVE, NEW, Change, changes, cumulative
from plugins.nights.regression.night import MetricValues, Night, NightRow

NIGHTS, ROWS, YEARS = 50, 40, 40
SEEDS = 5
DRAWS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "skewed": lambda rng, shape: rng.lognormal(0, 1, shape),
    "a seed in ten fails": lambda rng, shape: rng.normal(0, 0.1, shape) + 3 * (rng.random(shape) < 0.1),
}


def night(values, standard=None):
    """A night of one row; its metric is better where it is smaller, and compared by difference (some are negative)."""
    rows = [
        {"a": NightRow(1, dict.fromkeys(by_seed, "k"), dict.fromkeys(by_seed, "done"), {"m": measured}, 1.0, "m")}
        for side in (values, standard) if side is not None
        for by_seed in [dict(enumerate(map(float, side)))]
        for measured in [MetricValues(1, "1", "min", None, by_seed)]
    ]  # fmt: skip
    return Night("s", rows[0], rows[1] if standard is not None else {})


def scores(differences):
    """The normal quantile of the p of each night's paired t, from differences (..., S)."""
    t = differences.mean(-1) / np.maximum(differences.std(-1, ddof=1) / math.sqrt(SEEDS), 1e-12)
    return stats.norm.isf(stats.t.sf(t, SEEDS - 1))


def alarms_in_a_year(rng, draw, share):
    """The alarms that begin in a year of nights in which a share of the seeds of each row is drawn again."""
    reference, drawn = draw(rng, (ROWS, SEEDS)), draw(rng, (NIGHTS, ROWS, SEEDS))
    values, last = reference, np.full_like(reference, np.nan)
    total, count, before, alarms = np.zeros(ROWS), np.zeros(ROWS), np.zeros(ROWS, dtype=bool), 0
    for new in drawn:
        values = np.where(rng.random(new.shape) < share, new, values)
        z = np.nan_to_num(scores(values - reference))
        fresh = np.isnan(last[:, 0]) | ((values - last).var(-1) >= NEW * (values - reference).var(-1))
        total, count = total + fresh * z, count + fresh
        last = np.where(fresh[:, None], values, last)
        p = 2 * stats.norm.sf(total / np.sqrt(np.maximum(count * (count + 1) / 2, 1)))
        alarm = (p * ROWS < CUMULATIVE) & (count > 1) & (2 * stats.norm.sf(z) < 0.05)
        alarms, before = alarms + int((alarm & ~before).sum()), alarm
    return alarms


def test_the_simulated_statistic_is_that_of_the_code():
    rng = np.random.default_rng(1)
    reference, *values = rng.standard_normal((4, SEEDS))
    shifted = [night(x + 3, reference) for x in values]
    evidence = cumulative(
        {"a": night(reference).rows["a"]}, shifted[-1], shifted[-2::-1], _change(shifted[-1], reference)
    )
    z = scores(np.stack(values) + 3 - reference)
    assert evidence.nights == 3
    assert evidence.p == pytest.approx(2 * NormalDist().cdf(-z.sum() / math.sqrt(6)), rel=1e-6)


def _change(tonight, reference) -> Change:
    return next(change for change in changes(night(reference), tonight) if change.comparison is not None)


def test_nights_with_the_same_numbers_or_that_follow_each_other_are_no_new_evidence():
    rng = np.random.default_rng(2)
    reference, once = rng.standard_normal((2, SEEDS))
    for nudge in (0.0, 1e-3):
        nights = [night(once + nudge * i * rng.standard_normal(SEEDS), reference) for i in range(5)]
        args = {"a": night(reference).rows["a"]}, nights[-1], nights[-2::-1]
        assert cumulative(*args, _change(nights[-1], reference)) is None


def test_a_decline_that_no_night_shows_is_found_over_several():
    """Of one row of 40, by three standard deviations of a seed, with noise that is new in every night."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((8, 40, SEEDS))
    noise[1:, 0] += 3.0

    def rows(values):
        return {f"r{i:02d}": night(of_row).rows["a"] for i, of_row in enumerate(values)}

    first, nights, outcomes = rows(noise[0]), [], []
    for values in noise[1:]:
        tonight = Night("s", rows(values), first)
        alone, over = (changes(Night("s", first), tonight, earlier=earlier)[0] for earlier in ((), nights[::-1]))
        outcomes.append((alone.outcome, over.outcome, bool(over.reason)))
        nights.append(tonight)
    assert outcomes[0] == ("unclear", "unclear", False)
    assert ("unclear", "worse", True) in outcomes


@pytest.mark.statistical
@pytest.mark.parametrize("name", DRAWS)
def test_false_alarms_in_a_year(name):
    """40 rows in 50 nights with new numbers, all of them or those of 3 seeds in 10: at most one alarm in five years."""
    rng = np.random.default_rng(11)
    alarms = [alarms_in_a_year(rng, DRAWS[name], share) for share in (1.0, 0.3) for _ in range(YEARS)]
    assert np.mean(alarms) <= 0.2
