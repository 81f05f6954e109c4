"""The built-in schedules keep the laws of schedules, and each law sees the bug that it is there for."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from planted import maker

from plugins.checking.suite import check_schedule
from plugins.schedules.constant import Constant
from plugins.schedules.constant_then_polynomial import ConstantThenPolynomial
from plugins.schedules.cyclical import Cyclical
from plugins.schedules.polynomial import Polynomial
from plugins.schedules.ramp_then_polynomial import RampThenPolynomial
from plugins.schedules.snapshot import Snapshot
from plugins.schedules.step_decay import StepDecay
from plugins.schedules.two_stages import TwoStages

RIGHT = [
    Constant(step_size=0.1),
    ConstantThenPolynomial(step_size=0.1),
    Cyclical(step_size=0.1),
    Cyclical(step_size=0.1, cycles=7, beta=0.25, explore_with_noise=True, rounding="none"),
    Polynomial(a=0.1),
    RampThenPolynomial(start=0.1, end=0.001, a=0.001),
    RampThenPolynomial(start=0.1, end=0.001, a=0.001, shape="geometric", ramp_with_noise=True),
    Snapshot(step_size=0.1, rounding="down"),
    StepDecay(step_size=0.1),
    TwoStages(step_size=0.01, first_step_size=0.1),
]


@pytest.mark.parametrize("schedule", RIGHT, ids=lambda schedule: type(schedule).__name__)
def test_the_built_in_schedules_keep_them(schedule):
    assert [result for result in check_schedule(schedule) if result.outcome != "passed"] == []


planted = maker(globals() | {"np": np, "replace": replace})
KeptWhileExploring = planted("KeptWhileExploring", Cyclical,
    trajectory="replace(trajectory, keep=np.ones(steps, dtype=bool))")  # fmt: skip
OneStepTooMany = planted("OneStepTooMany", Constant, step_sizes="super().step_sizes(steps + 1, steps_per_epoch)")
Restless = planted("Restless", Constant, counts=itertools.count(), step_sizes="step_sizes / (1 + next(self.counts))")
StandsStill = planted("StandsStill", Constant, step_sizes="np.linspace(self.step_size, 0, steps)")
LateBurnIn = planted("LateBurnIn", Constant, trajectory="late = np.arange(steps) == steps - 1; "
    "replace(trajectory, burn_in=late, keep=trajectory.keep & ~late, evaluate=trajectory.evaluate & ~late)"
)  # fmt: skip
EvaluatesTheRest = planted("EvaluatesTheRest", Cyclical, trajectory="replace(trajectory, evaluate=~trajectory.keep)")


@pytest.mark.parametrize(
    ("mutant", "law"),
    [
        (KeptWhileExploring, "draws are of the target"), (Restless, "pure"), (StandsStill, "one entry a step"),
        (LateBurnIn, "burn-in comes first"), (EvaluatesTheRest, "what is evaluated is kept"),
    ],
)  # fmt: skip
def test_each_bug_is_seen_by_its_law_alone(mutant, law):
    results = check_schedule(mutant(step_size=0.1))
    assert [result.law for result in results if result.outcome != "passed"] == [law], results


def test_a_schedule_of_another_length_is_seen():
    (result,) = check_schedule(OneStepTooMany(step_size=0.1), ["one entry a step"])
    assert result.outcome == "failed"
