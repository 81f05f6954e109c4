from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_ind_from_stats

from plugins.papers.reported import match_cell

OURS = [4.2, 4.3, 4.4, 4.25, 4.35]  # mean 4.3, se .035, half-width .098


def verdict(ours=OURS, theirs=4.29, error=0.06, kind="se", runs=3, gap=0.5):
    return match_cell(ours, theirs, error, kind, runs, gap).verdict


def test_close_but_too_wide_for_the_gaps_is_inconclusive():
    half_width = 2.776445 * np.std(OURS, ddof=1) / np.sqrt(5)
    assert verdict(gap=2 * half_width * 1.001) == "match"
    assert verdict(gap=2 * half_width * 0.999) == "inconclusive"
    assert verdict(gap=None) == "inconclusive"


@pytest.mark.parametrize("error_se", [0.02, 0.06, 0.3])
def test_the_bound_is_welchs(error_se):
    # at the very bound Welch's p is .05: find it by bisection on scipy's test
    def p(shift):
        return ttest_ind_from_stats(
            np.mean(OURS),
            np.std(OURS, ddof=1),
            5,
            np.mean(OURS) + shift,
            error_se * np.sqrt(3),
            3,
            equal_var=False,
        ).pvalue

    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if p(middle) > 0.05 else (low, middle)
    assert verdict(theirs=np.mean(OURS) + low * 0.999, error=error_se) == "match"
    assert verdict(theirs=np.mean(OURS) + low * 1.001, error=error_se) == "mismatch"


def test_sd_is_divided_by_the_root_of_the_runs():
    theirs = 4.7
    assert verdict(theirs=theirs, error=0.3, kind="se", runs=10) == "match"
    assert verdict(theirs=theirs, error=0.3, kind="sd", runs=10) == "mismatch"


def test_unknown_must_come_out_the_same_both_ways():
    match = match_cell(OURS, 4.7, 0.3, "unknown", 10, 0.5)
    assert match.verdict == "inconclusive"
    assert "only if +- is se" in match.reason
    assert verdict(kind="unknown") == "match"
    assert verdict(theirs=9.0, kind="unknown") == "mismatch"


def test_one_run_gets_no_verdict():
    assert verdict(ours=[9.9]) == "inconclusive"


def test_no_variance_among_our_seeds_is_still_judged():
    # mixture25, sgld: exactly 1.0 in ten seeds against the paper's 1.8 +- .13 stays a mismatch
    assert verdict(ours=[1.0] * 10, theirs=1.8, error=0.13, runs=10) == "mismatch"
    assert verdict(ours=[1.0] * 10, theirs=1.2, error=0.13, runs=10) == "match"
    assert verdict(ours=[32.16] * 10, theirs=32.16, error=0.0) == "match"  # though the mean rounds


def test_without_a_printed_error_theirs_varies_as_ours():
    spread = np.std(OURS, ddof=1) * np.sqrt(1 / 5 + 1 / 1) * 2.776445
    assert verdict(theirs=4.3 + spread * 0.999, error=None, runs=1) == "match"
    assert verdict(theirs=4.3 + spread * 1.001, error=None, runs=1) == "mismatch"
    assert verdict(ours=[1.0, 1.0], error=None, runs=1) == "inconclusive"
