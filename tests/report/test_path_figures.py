"""Figures made of draws and settings: schedules, velocities, paths and contours."""

import numpy as np
import pytest
from safetensors.numpy import save
from scored import store, write_run

from harness.reporting.rendering import figures
from harness.reporting.report import Request
from reports.figures.contours import Contours, estimated
from reports.figures.sample_paths import SamplePaths
from reports.figures.schedules import Schedules
from reports.figures.trajectory import Trajectories
from tasks.synthetic.mixture25 import Mixture25

TARGETS = {
    "mixture25": "tasks.synthetic.mixture25:Mixture25",
    "constant": "plugins.schedules.constant:Constant",
    "cyclical": "plugins.schedules.cyclical:Cyclical",
}
STEPS = 500


class Offers:
    """A registry with what the runs name."""

    def find(self, kind, name):
        from harness.contracts.hookspecs import Info
        from harness.contracts.registry import Offer

        return Offer(Info(name, TARGETS[name]), kind, "tests", "sgmcmc-bench", "0.1.0")


def request(**asked):
    return Request(registry=Offers(), **asked)


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


def test_schedules_are_made_from_the_settings(results):
    made = Schedules().build(store(results), request())
    found = {r["method"]: (r["first_h"], r["kept"], r["steps"]) for r in made.records}
    assert found == {"sgld": (0.02, STEPS, STEPS), "csgld": (0.09, STEPS // 2, STEPS)}
    assert len(made.figures) == 1


def test_velocities_are_moves_over_the_root_of_the_step(results):
    made = Trajectories().build(store(results), request(tasks=("mixture25",)))
    x = Mixture25().sample(STEPS, np.random.default_rng(0))[:, 0]
    found = {r["method"]: r for r in made.records}
    assert found["sgld"]["moves"] == STEPS - 1
    assert found["sgld"]["velocity_variance"] == pytest.approx((np.diff(x) / np.sqrt(0.02)).var(), rel=1e-4)
    assert found["csgld"]["moves"] == STEPS // 2 - 2  # none from one cycle to the next


@pytest.mark.parametrize("report", [Schedules, Trajectories, SamplePaths, Contours])
def test_figures_are_drawn_with_the_same_bytes(results, report):
    (figure,) = report().build(store(results), request(tasks=("mixture25",))).figures
    assert figures.drawn(figure, "svg") == figures.drawn(figure, "svg")


def test_contours_of_exact_draws_are_those_of_the_target():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(200, 2))
    exact = (points**2).sum(axis=1) / 2 + np.log(2 * np.pi)
    found = estimated(rng.normal(size=(4_000, 2)), points)
    near = (points**2).sum(axis=1) < 4
    assert np.abs(found - exact)[near].mean() < 0.2


def test_draws_that_lie_on_a_point_have_no_density():
    assert (estimated(np.ones((50, 2)), np.zeros((3, 2))) == 1e3).all()
