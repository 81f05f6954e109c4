"""Fixed targets: constructed curves whose share reached and area are known in closed form."""

import numpy as np
import pytest
from scored import final_errors, store, write_run

from harness.reporting.report import Request
from reports.across import task_fields
from reports.targets import (
    LEAST,
    area,
    costs_to_targets,
    load_targets,
    method_costs,
    seed_errors,
    share_reached,
    speed_up,
)

GRID = np.geomspace(LEAST, 1, 301)


def test_the_targets_are_spaced_evenly_from_one_to_a_ten_thousandth():
    targets = load_targets()
    assert targets.version == 1
    assert (targets.errors[0], targets.errors[-1]) == (1.0, 1e-4)
    steps = np.diff(np.log10(targets.errors))
    assert steps == pytest.approx(np.full(len(steps), steps.mean()), rel=0.01)


@pytest.mark.parametrize("errors", ["[]", "[1.0, 0.1, 0.1]", "[0.1, 1.0]", "[1.0, 0.0]"])
def test_targets_that_do_not_decrease_are_refused(tmp_path, errors):
    (tmp_path / "targets.toml").write_text(f"version = 2\nerrors = {errors}\n")
    with pytest.raises(ValueError, match="must be positive and decrease"):
        load_targets(tmp_path / "targets.toml")


def test_a_target_is_reached_where_the_error_falls_below_it_for_good():
    errors = [[0.5, 0.05, 0.5, 0.05, 0.01], [2.0, 1.0, np.nan, 0.3, 0.3], [0.1, 0.1, 0.1, 0.1, np.inf]]
    costs = costs_to_targets(errors, [1, 2, 3, 4, 5], [1.0, 0.1, 0.01])
    assert costs.tolist() == [[1, 4, 5], [4, np.inf, np.inf], [np.inf] * 3]


def test_the_error_of_a_seed_is_the_mean_of_its_chains_and_the_worse_of_z_and_its_square():
    z, squares = np.array([[1.0, 0.2], [3.0, 0.4], [5.0, np.nan]]), np.array([[0.0, 0.6], [0.0, 0.8], [6.0, 1.0]])
    assert seed_errors([z, squares], [0, 0, 1]).tolist() == [[2.0, 0.7], [6.0, np.inf]]


def test_an_error_that_falls_as_one_over_the_cost_has_the_area_of_a_straight_line():
    """E(c) = LEAST / c reaches 10^(-3 u) at LEAST 10^(3 u): for targets even in u, the area is their mean of 1 - u."""
    u = np.linspace(0, 1, 101)
    costs = costs_to_targets([LEAST / GRID] * 4, GRID, 10 ** (-3 * u) * (1 + 1e-9))
    assert area([costs]).value == pytest.approx(0.5, abs=0.003)
    assert share_reached([costs], [LEAST, LEAST**0.5, 1]) == pytest.approx([0.0, 0.5, 1.0], abs=0.01)


@pytest.mark.parametrize(
    ("cost", "known"), [(LEAST / 10, 1.0), (LEAST, 1.0), (LEAST**0.25, 0.25), (1, 0.0), (np.inf, 0)]
)
def test_the_area_of_a_step_is_the_part_of_the_axis_behind_it(cost, known):
    shown = area([np.full((5, 3), cost), np.full((2, 3), cost)])
    assert (shown.value, shown.low, shown.high) == pytest.approx((known,) * 3)


def test_the_area_is_that_under_the_curve():
    costs = [np.random.default_rng(k).uniform(0.002, 1.5, size=(3 + k, 6)) for k in range(4)]
    share = share_reached(costs, GRID)
    x = np.log(GRID) / -np.log(LEAST)
    assert area(costs).value == pytest.approx(np.trapezoid(share, x), abs=0.005)


def test_a_task_weighs_the_same_with_any_number_of_seeds():
    few, many = np.full((2, 3), LEAST), np.full((40, 3), np.inf)
    assert area([few, many]).value == 0.5
    assert share_reached([few, many], [1.0]).tolist() == [0.5]


def test_a_method_at_a_quarter_of_the_cost_is_four_times_as_fast():
    slow = [np.random.default_rng(k).uniform(0.1, 1, size=(5, 6)) for k in range(6)]
    fast = speed_up([task / 4 for task in slow], slow)
    assert (fast.value, fast.low, fast.high) == pytest.approx((4.0,) * 3)
    back = speed_up(slow, [task / 4 for task in slow])
    assert back.value == pytest.approx(0.25)
    unlike = speed_up([np.full((5, 6), LEAST), np.full((5, 6), np.inf)], [np.full((5, 6), np.inf)] * 2, 1 - 0.05 / 435)
    assert (unlike.low, unlike.high) == (pytest.approx(LEAST), pytest.approx(1 / LEAST)), "of two tasks, many pairs"
    never = speed_up(slow, [np.full((5, 6), np.inf)] * 6)
    assert never.value == pytest.approx(np.exp(-np.mean([np.log(task) for task in slow])))


def test_the_interval_holds_the_area_of_more_tasks_and_seeds():
    """Areas vary by task and by seed; 95 % of intervals are to hold the mean over all tasks."""
    generator, held = np.random.default_rng(1), 0
    for _ in range(100):
        exponents = generator.normal(1.2, 0.3, size=(8, 1, 1)) + generator.normal(0, 0.2, size=(8, 5, 1))
        shown = area(list(10 ** -np.clip(exponents, 0.0, 3.0)))
        held += shown.low <= 0.4 <= shown.high
    assert held >= 88


def test_one_seed_of_one_task_has_no_interval():
    shown = area([np.full((1, 2), 0.1)])
    assert (shown.low, shown.high) == (None, None)


def test_runs_of_a_store_reach_what_their_curves_say(tmp_path):
    """Two chains at E = 2 a / c in passes c of 1,000: the mean over chains halves the error of one that is twice the
    other's."""
    x = np.geomspace(1, 1000, 121)
    for method, scale in (("sgld", 1.0), ("csgld", 4.0)):
        for seed in range(5):
            b2 = scale * np.array([[0.5], [1.5]]) / x
            curves = {"joint_b2_z_max": (x, b2), "joint_b2_z2_max": (x, b2 / 2), **final_errors(np.full((2, 2), 0.1))}
            write_run(tmp_path, method=method, seed=seed, chains=2, curves=curves, metrics={"mean_error": 0.1})
    for seed in range(5):
        write_run(tmp_path, method="sgnht", seed=seed, chains=2, status="diverged")
    (field,) = task_fields(store(tmp_path), Request(), "joint_error")
    targets = load_targets()
    costs = {name: method_costs(field, group, targets) for name, group in field.rows.items()}
    assert costs["sgld"].shape == (5, len(targets.errors))
    expected = np.maximum(1 / targets.errors, 1.0) / 1000
    reached = expected <= 1
    assert costs["sgld"][0][reached] == pytest.approx(expected[reached], rel=0.07)
    assert np.isinf(costs["sgld"][:, ~reached]).all()
    assert np.isinf(costs["sgnht"]).all()
    assert speed_up([costs["csgld"]], [costs["sgld"]]).value == pytest.approx(0.397, abs=0.04)


def test_runs_without_curves_of_errors_have_no_costs(tmp_path):
    for method in ("sgld", "csgld"):
        for seed in range(5):
            curves = final_errors(np.full((2, 2), 0.1))
            write_run(tmp_path, method=method, seed=seed, chains=2, curves=curves, metrics={"mean_error": 0.1})
    (field,) = task_fields(store(tmp_path), Request(), "joint_error")
    assert method_costs(field, field.rows["sgld"], load_targets()) is None
