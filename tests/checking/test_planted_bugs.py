"""Every planted bug is found by the law that is meant to find it, and right samplers of many kinds are not."""

from __future__ import annotations

import pytest
from planted import KINDS
from planted.bugs import BUGS
from planted.page import PAGE, page

from plugins.checking.check import LONG
from plugins.checking.suite import LAWS, NOTHING_SHOWN, LawResult, check_samplers

pytestmark = pytest.mark.usefixtures("one_thread")
SLOW = {*LONG} - {"time-homogeneity"}
"""Laws that take more than a few seconds for a bug: bugs that only they find are left to `nox -s statistical`."""
SLOW_BUGS = {"ProblemByTheCaller"}
"""Bugs that are slow themselves."""


def is_meant(bug, result):
    """Whether a law fails for the bug: by a finding of its own, or by an error of the harness that the bug names."""
    by_law = ". Usual cause: " in result.message or result.message.startswith(NOTHING_SHOWN)
    by_error = bool(bug.says) and result.message.startswith("PluginError: ")
    return result.outcome == "failed" and (by_law or by_error) and bug.says in result.message


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, marks=[pytest.mark.slow] if bug.laws[0] in SLOW or bug.name in SLOW_BUGS else [])
        for bug in BUGS
        if bug.laws
    ],
    ids=lambda bug: bug.name,
)
def test_the_law_that_is_meant_to_finds_the_bug(bug):
    (result,) = check_samplers([bug.sampler()], bug.laws[:1])[0]
    assert is_meant(bug, result), result


@pytest.mark.parametrize("error", [RuntimeError("The size of tensor a must match"), ValueError("must"), TypeError("")])
def test_an_error_of_torch_or_python_is_no_finding(error):
    bug = next(bug for bug in BUGS if bug.says)
    result = LawResult(bug.laws[0], "failed", f"{type(error).__name__}: {error} {bug.says}", 0.0)
    assert not is_meant(bug, result)


def first_failure(bug):
    """What the first law that finds a bug says, the laws in their order."""
    for law in LAWS:
        (result,) = check_samplers([bug.sampler()], [law.name])[0]
        if result.outcome == "failed":
            return result
    return None


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.unseen or bug.right], ids=lambda bug: bug.name)
def test_what_no_law_can_find_or_is_right_is_found_by_none(bug):
    assert first_failure(bug) is None


def test_97_per_cent_of_the_bugs_are_found_and_all_kinds_are_planted():
    caught = sum(bool(bug.laws) for bug in BUGS)
    assert len(BUGS) >= 80
    assert {bug.kind for bug in BUGS} == set(KINDS)
    assert caught / sum(not bug.right for bug in BUGS) >= 0.97


def test_the_page_is_the_table():
    assert PAGE.read_text() == page(), "run PYTHONPATH=tests python -m planted.page"
