"""Figures made of draws and settings: schedules, velocities, paths and contours."""

import numpy as np
import pytest
from safetensors.numpy import save
from scored import request, store, write_run

from reports.figures import plane
from reports.figures.contours import energies, visible
from reports.figures.density import _target
from reports.figures.schedules import PIXELS, outline, shares
from reports.figures.trajectory import Trajectories
from tasks.synthetic.mixture25 import Mixture25

STEPS = 500


def write(results, draws, steps, **changes):
    content = {"draws.safetensors": save({"draws": draws.astype(np.float32), "steps": np.asarray(steps)})}
    write_run(results, metrics={"modes_covered": 25.0}, files=content, steps=STEPS, burn_in=0, thin=1, **changes)


@pytest.fixture
def results(tmp_path):
    """sgld that keeps all steps and csgld that keeps the second half of each of two cycles."""
    draws = Mixture25().sample(STEPS, np.random.default_rng(0)).reshape(STEPS, 1, 2)
    write(tmp_path, draws, np.arange(1, STEPS + 1), chains=1)
    kept = [k + 1 for k in range(STEPS) if k % 250 >= 125]
    params = {"step_size": 0.09, "temperature": 1.0, "cycles": 2, "beta": 0.5}
    write(tmp_path, draws[: len(kept)], kept, chains=1, method="csgld", params=params)
    return tmp_path


def test_velocities_are_moves_over_the_root_of_the_step(results):
    built = Trajectories().build(store(results), request(tasks=("mixture25",)))
    x = Mixture25().sample(STEPS, np.random.default_rng(0))[:, 0]
    by_method = {r["method"]: r for r in built.records}
    assert by_method["sgld"]["moves"] == STEPS - 1
    assert by_method["sgld"]["velocity_variance"] == pytest.approx((np.diff(x) / np.sqrt(0.02)).var(), rel=1e-4)
    assert by_method["csgld"]["moves"] == STEPS // 2 - 2  # none from one cycle to the next


def test_the_energy_of_exact_draws_is_that_of_the_target():
    """Where a cell has draws, within their sampling error; where it has none, the target is as high as it must be."""
    task = Mixture25()
    draws = task.sample(40_000, np.random.default_rng(1))
    bounds = plane.edges(plane.window(task), 90)
    estimate = energies(draws, bounds)
    exact = -np.log(_target(task, bounds))
    counts = plane.histogram(draws, bounds)
    error = np.abs(estimate - exact)[counts >= 20] * np.sqrt(counts[counts >= 20])
    assert error.max() < 5
    assert 0.8 < np.sqrt((error**2).mean()) < 1.2
    assert (exact[np.isnan(estimate)] > visible(len(draws), bounds)).mean() > 0.95
    x, y = np.meshgrid(*[(edges[:-1] + edges[1:]) / 2 for edges in bounds])
    saddle = (np.abs(x - 1) < 0.2) & (np.abs(y) < 0.2)  # between the modes at (0, 0) and (2, 0)
    assert np.isnan(estimate[saddle]).all()
    assert exact[saddle].min() - exact.min() > 10


def test_weights_of_draws_count():
    draws = np.array([[-4.0, -4.0], [4.0, 4.0]])
    bounds = plane.edges([(-5, 5), (-5, 5)], 10)
    estimate = energies(draws, bounds, np.array([0.25, 0.75]))
    assert np.sort(estimate[np.isfinite(estimate)]) == pytest.approx([-np.log(0.75), -np.log(0.25)])


def test_cells_are_as_fine_as_the_draws_allow_and_few_draws_are_points():
    task = Mixture25()
    ends = plane.window(task)
    draws = task.sample(200_000, np.random.default_rng(0))
    cells = [plane.resolution(draws[:n], ends) for n in (200_000, 10_000, 100)]
    assert cells[0] == plane.CELLS[0]
    assert cells[0] > cells[1]
    assert cells[2] is None
    assert plane.resolution(draws + 100, ends) is None


@pytest.mark.parametrize("steps", [1, 7, 1_600, 5_000_000])
def test_a_long_line_is_thinned_without_losing_its_ends_or_extremes(steps):
    values = np.sin(np.arange(steps) / 11.0)
    at, shown = outline(values)
    assert len(at) <= 2 * PIXELS
    assert (at[0], at[-1]) == (1, steps)
    assert (shown.min(), shown.max()) == (values.min(), values.max()) or steps < 20
    assert (shown == values[at.astype(int) - 1]).all()
    share = shares(np.arange(steps) % 4 == 0)
    assert len(share) <= PIXELS
    assert share.mean() == pytest.approx(0.25, abs=0.01) or steps < 20
