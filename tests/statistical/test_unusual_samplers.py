"""Right samplers that are unusual: `bench check` finds nothing wrong with them."""

import gc
import time

import pytest
from planted.kronecker import KRONECKER
from planted.plain import QuickContour, Tamed, Weighted
from planted.unusual import UNUSUAL

from plugins.checking.check import LONG
from plugins.checking.suite import LAWS, check_samplers

pytestmark = pytest.mark.usefixtures("one_thread")

SLOW = {"compiled", "restore", *LONG}
ALL = [*UNUSUAL, *KRONECKER, Tamed, Weighted, QuickContour]
QUICK = {
    "LeimkuhlerMatthews", "Barker", "RandomScan", "ByTheNorm", "Rademacher", "SystematicScan", "Lazy", "Weighted",
}  # fmt: skip
"""Those that are checked in every run of the tests."""


def wrong(sampler, laws):
    return [result for result in check_samplers([sampler()], laws)[0] if result.outcome == "failed"]


@pytest.mark.parametrize(
    "sampler",
    [pytest.param(one, marks=[] if one.__name__ in QUICK else pytest.mark.slow, id=one.__name__) for one in ALL],
)
def test_no_quick_law_finds_anything(sampler):
    assert wrong(sampler, [law.name for law in LAWS if law.name not in SLOW]) == []


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("sampler", ALL, ids=lambda sampler: sampler.__name__)
def test_no_other_law_finds_anything(sampler):
    assert wrong(sampler, SLOW) == []


def test_the_quick_ones_are_among_them():
    assert {one.__name__ for one in ALL} >= QUICK


def test_a_collection_during_a_step_is_not_the_samplers():
    """Others' callbacks of the collector, and their destructors, run in whichever frame sets it off."""
    before, told = gc.get_threshold(), []

    def others(*_):
        told.append(time.perf_counter())

    gc.callbacks.append(others)
    gc.set_threshold(1)
    try:
        assert wrong(QuickContour, ["isolation"]) == []
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(others)
    assert told
    assert gc.isenabled()
