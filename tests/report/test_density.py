"""The density figure: drawn from kept draws, on the target's own scale, with the same bytes each time."""

import numpy as np
import pytest
from safetensors.numpy import save
from scored import request, store, write_run

from harness import UsageError
from harness.reporting.rendering import figures
from reports.figures import plane
from reports.figures.density import Density, _target
from tasks.synthetic.mixture25 import Mixture25


@pytest.fixture
def results(tmp_path):
    exact = Mixture25().sample(2000, np.random.default_rng(0)).astype(np.float32).reshape(500, 4, 2)
    content = {"draws.safetensors": save({"draws": exact, "steps": np.arange(500)})}
    for seed in (3, 1):
        write_run(tmp_path, seed=seed, metrics={"modes_covered": 25.0}, files=content)
    return tmp_path


def test_saved_figures_have_the_same_bytes(results):
    (figure,) = Density().build(store(results), request()).figures
    first = figures.drawn(figure, "svg", "png")
    assert first == figures.drawn(figure, "svg", "png")


def test_the_target_and_exact_draws_agree_and_integrate_to_one():
    task = Mixture25()
    edges = plane.edges(plane.window(task), 120)
    area = np.diff(edges[0])[0] * np.diff(edges[1])[0]
    assert _target(task, edges).sum() * area == pytest.approx(1, abs=0.005)
    draws = task.sample(200_000, np.random.default_rng(1))
    drawn = plane.density(draws, edges)
    assert drawn.sum() * area == pytest.approx(1, abs=0.005)
    assert np.abs(drawn - _target(task, edges)).sum() * area / 2 < 0.1
    corner = plane.density(np.array([[4.0, -4.0]]), edges)
    row, column = np.unravel_index(corner.argmax(), corner.shape)
    assert edges[1][row] <= -4 <= edges[1][row + 1]
    assert edges[0][column] <= 4 <= edges[0][column + 1]


def test_missing_draws_are_said(tmp_path):
    write_run(tmp_path, metrics={"modes_covered": 25.0})
    built = Density().build(store(tmp_path), request())
    assert not built.figures
    (note,) = built.notes
    assert note.startswith("sgld: no draws of a finished run are on disk; `bench run`")


def test_a_task_without_a_density_is_refused_by_name(tmp_path):
    write_run(tmp_path, task="blr-heart", metrics={"rhat": 1.0})
    assert not Density().build(store(tmp_path), request()).figures
    with pytest.raises(UsageError, match="blr-heart has no density in one or two dimensions"):
        Density().build(store(tmp_path), request(tasks=("blr-heart",)))
