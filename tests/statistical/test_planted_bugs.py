"""Every planted bug is found by the law that is meant to find it, and right samplers of many kinds are not."""

from __future__ import annotations

import pytest
import torch
from planted.page import PAGE, page
from planted.table import BUGS, KINDS

from harness.conformance.suite import LAWS, check_samplers

LONG = {"whole-law"}
"""Laws that take more than a few seconds: bugs that only they find are left to `nox -s statistical`."""

SAID = ("Usual cause", "declares", "came back as", "must")
"""What a message has one of: the law's usual cause, or words of the harness for what is wrong."""


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, marks=[pytest.mark.slow, pytest.mark.statistical] if bug.laws[0] in LONG else [])
        for bug in BUGS
        if bug.laws
    ],
    ids=lambda bug: bug.name,
)
def test_the_law_that_is_meant_to_finds_the_bug(bug):
    (result,) = check_samplers([bug.sampler()], bug.laws[:1])[0]
    assert result.outcome == "failed", result
    assert any(part in result.message for part in SAID), result


def first_failure(bug):
    """What the first law that finds a bug says, the laws in their order."""
    for law in LAWS:
        (result,) = check_samplers([bug.sampler()], [law.name])[0]
        if result.outcome == "failed":
            return result
    return None


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=pytest.mark.xfail(reason=bug.awaits, strict=True)) for bug in BUGS if bug.awaits],
    ids=lambda bug: bug.name,
)
def test_a_bug_that_awaits_its_law_is_found_by_none(bug):
    assert first_failure(bug) is not None


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.unseen], ids=lambda bug: bug.name)
def test_what_no_law_can_find_is_found_by_none(bug):
    assert first_failure(bug) is None


def test_nineteen_bugs_in_twenty_are_found_and_all_kinds_are_planted():
    found = sum(bool(bug.laws) for bug in BUGS)
    assert len(BUGS) >= 80
    assert {bug.kind for bug in BUGS} == set(KINDS)
    assert found / (len(BUGS) - sum(bool(bug.unseen) for bug in BUGS)) >= 0.95


def test_the_page_is_the_table():
    assert PAGE.read_text() == page(), "run PYTHONPATH=tests python -m planted.page"
