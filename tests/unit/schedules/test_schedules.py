from dataclasses import replace

import numpy as np
import pytest

from harness import PluginError, UsageError
from plugins.schedules.constant import Constant
from plugins.schedules.constant_then_polynomial import ConstantThenPolynomial
from plugins.schedules.cyclical import Cyclical
from plugins.schedules.polynomial import Polynomial
from plugins.schedules.ramp_then_polynomial import RampThenPolynomial
from plugins.schedules.step_decay import StepDecay
from plugins.schedules.two_stages import TwoStages

pytestmark = pytest.mark.numbers


def test_cyclical_goldens_of_the_cifar_code():
    path = Cyclical(step_size=0.5, cycles=4, beta=0.9, rounding="down").trajectory(156_400, 782)
    assert path.step_size[0] == 0.5
    assert path.step_size[19_550] == pytest.approx(0.25, abs=1e-15)
    assert path.step_size[39_099] == pytest.approx(8.07e-10, rel=1e-3)
    assert path.step_size[39_100] == 0.5
    assert np.array_equal(np.unique(path.cycle), [0, 1, 2, 3])
    epochs_heated = np.flatnonzero(path.temperature[:39_100] > 0) // 782 + 1
    assert set(epochs_heated) == {46, 47, 48, 49, 50}


def test_samples_per_cycle_are_the_last_ends_of_epochs_as_the_cifar_code_saves_them():
    path = Cyclical(step_size=0.5, cycles=4, beta=0.9, rounding="down", samples_per_cycle=3).trajectory(156_400, 782)
    epochs = (np.flatnonzero(path.keep) + 1) / 782
    assert epochs.tolist() == [50 * cycle + epoch for cycle in range(4) for epoch in (48, 49, 50)]
    assert (np.flatnonzero(path.evaluate) + 1).tolist() == [39_100 * cycle for cycle in (1, 2, 3, 4)]


def test_cyclical_keeps_what_the_mixture_code_keeps():
    path = Cyclical(step_size=0.07, cycles=30, beta=0.0295, explore_with_noise=True, rounding="none").trajectory(
        50_000, 1
    )
    position = np.array([t * 30 % 50_000 / 30 for t in range(50_000)])  # mod(t - 1, L/M), exactly
    assert np.array_equal(path.keep, position + 1 > 50 + 1e-9)
    assert path.keep.sum() == 48_520
    assert (path.temperature == 1).all()


def test_cyclical_of_the_paper_explores_without_noise_for_a_quarter():
    path = Cyclical(step_size=0.09, cycles=30, beta=0.25).trajectory(50_000, 1)
    length = 1667
    k = np.arange(50_000)
    r = k % length / length
    assert np.allclose(path.step_size, 0.045 * (np.cos(np.pi * r) + 1), rtol=0, atol=1e-16)
    assert np.array_equal(path.temperature == 0, r < 0.25)
    assert np.array_equal(path.keep, r >= 0.25)
    assert path.evaluate[length - 1]
    assert path.evaluate.sum() == 30


def test_polynomial_counts_steps_from_one():
    steps = Polynomial(a=0.05, gamma=0.55).step_sizes(3, 1)
    assert np.allclose(steps, [0.05, 0.05 * 2**-0.55, 0.05 * 3**-0.55], rtol=1e-15)
    assert Polynomial(a=2.0, b=9.0, gamma=1.0).step_sizes(1, 1)[0] == pytest.approx(0.2)


def test_constant_then_polynomial_of_the_mixture_code():
    steps = ConstantThenPolynomial(step_size=0.043, hold=0.01).step_sizes(50_000, 1)
    t = np.arange(1, 50_001)
    code = np.where(t <= 500, 0.043, 0.043 * np.maximum(t - 500, 1.0) ** -0.55)
    assert np.allclose(steps, code, rtol=1e-14)


def test_step_decay_cuts_by_epoch():
    steps = StepDecay(step_size=0.1, gamma=0.5, length=2).step_sizes(12, 3)
    assert steps.tolist() == [0.1] * 6 + [0.05] * 6


def test_burn_in_and_thinning_apply_to_any_schedule():
    path = Constant(step_size=1.0).trajectory(10, 1).with_burn_in(4, thin=3)
    assert np.flatnonzero(path.keep).tolist() == [6, 9]
    assert path.burn_in.tolist() == [True] * 4 + [False] * 6
    fewer = Constant(step_size=1.0).trajectory(10, 1).with_burn_in(8, thin=3)
    assert np.flatnonzero(fewer.keep).tolist() == [9]
    with pytest.raises(UsageError, match="no draw is kept"):
        Constant(step_size=1.0).trajectory(10, 1).quiet(10).with_burn_in(8, thin=3)


def test_the_schedule_s_own_burn_in_stays_and_keeps_nothing():
    path = replace(Constant(step_size=1.0).trajectory(10, 1), burn_in=np.arange(10) < 4)
    assert path.with_burn_in(0).burn_in.sum() == 4
    assert np.flatnonzero(path.with_burn_in(2).keep).tolist() == [4, 5, 6, 7, 8, 9]
    assert path.with_burn_in(6).burn_in.sum() == 6


def test_thinning_leaves_each_cycle_its_evaluation():
    path = Cyclical(step_size=0.1, cycles=4, beta=0.5).trajectory(100, 1)
    assert np.flatnonzero(path.evaluate).tolist() == [24, 49, 74, 99]
    thinned = path.with_burn_in(0, thin=5)
    assert np.flatnonzero(thinned.evaluate).tolist() == [22, 45, 73, 96]
    assert thinned.keep[thinned.evaluate].all()
    assert np.array_equal(path.with_burn_in(0).evaluate, path.evaluate)


@pytest.mark.parametrize(
    "wrong", [{"keep": np.ones(9, bool)}, {"step_size": np.full(10, np.nan)}, {"temperature": np.full(10, -1.0)}]
)
def test_a_trajectory_that_cannot_be_is_refused(wrong):
    with pytest.raises(PluginError, match="trajectory"):
        replace(Constant(step_size=1.0).trajectory(10, 1), **wrong)


def test_a_ramp_goes_down_without_noise_and_the_decay_is_kept():
    path = RampThenPolynomial(start=0.1, end=0.001, a=0.01, gamma=0.5).trajectory(200, 1)
    assert path.step_size[0] == 0.1
    assert path.step_size[149] == pytest.approx(0.001, rel=1e-12)
    assert np.allclose(np.diff(path.step_size[:150]), -0.099 / 149, rtol=1e-9)
    assert np.allclose(path.step_size[150:], 0.01 * np.arange(1, 51) ** -0.5, rtol=1e-12)
    assert np.array_equal(path.temperature, [0.0] * 150 + [1.0] * 50)
    assert np.array_equal(path.keep, [False] * 150 + [True] * 50)


def test_a_geometric_ramp_falls_by_one_factor():
    path = RampThenPolynomial(start=0.1, end=0.001, a=0.01, shape="geometric", ramp_with_noise=True).trajectory(200, 1)
    assert np.allclose(path.step_size[1:150] / path.step_size[:149], 0.01 ** (1 / 149), rtol=1e-12)
    assert (path.temperature == 1).all()
    assert path.keep.all()


def test_two_stages_turn_the_noise_on_or_the_heat_down():
    on = TwoStages(step_size=0.01, first_step_size=0.1).trajectory(200, 1)
    assert np.array_equal(on.temperature, [0.0] * 150 + [1.0] * 50)
    down = TwoStages(
        step_size=0.05, first_step_size=0.5, first_temperature=1e-2, temperature=1e-5, share=0.4
    ).trajectory(250, 1)
    assert np.array_equal(down.temperature, [1e-2] * 100 + [1e-5] * 150)
    assert np.array_equal(down.step_size, [0.5] * 100 + [0.05] * 150)
    assert np.array_equal(down.keep, [False] * 100 + [True] * 150)
