"""No figure file is larger than 500 kB, whatever the length of the runs and the number of methods and cycles."""

import numpy as np
import pytest
from safetensors.numpy import save
from scored import request, store, write_run

from harness.reporting.rendering import figures
from harness.reporting.tables import Figure
from reports.figures.autocorrelation import Autocorrelation
from reports.figures.contours import Contours
from reports.figures.density import Density
from reports.figures.ess_draws import EssDraws
from reports.figures.marginals import Marginals
from reports.figures.rank_plots import RankPlots
from reports.figures.sample_paths import SamplePaths
from reports.figures.schedules import Schedules
from reports.figures.trace import Trace
from reports.figures.trajectory import Trajectories
from tasks.synthetic.mixture25 import Mixture25

METHODS = ("sgld", "csgld", "msgld", "sghmc")
DRAWS, CHAINS, STEPS = 2_000, 8, 200_000


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Long runs of many methods on the target with the most modes, as noisy as figures get: independent draws."""
    folder, task = tmp_path_factory.mktemp("long"), Mixture25()
    for k, method in enumerate(METHODS):
        draws = task.sample(DRAWS * CHAINS, np.random.default_rng(k)).reshape(DRAWS, CHAINS, 2).astype(np.float32)
        steps = np.arange(STEPS - DRAWS + 1, STEPS + 1)
        cyclical = {"step_size": 0.09, "temperature": 1.0, "cycles": 5_000, "beta": 0.25}
        write_run(
            folder, method=method, chains=CHAINS, steps=STEPS, burn_in=0, thin=1, metrics={"modes_covered": 25.0},
            number=k, files={"draws.safetensors": save({"draws": draws, "steps": steps})},
            params=cyclical if method == "csgld" else None,
        )  # fmt: skip
    return store(folder)


@pytest.mark.parametrize(
    "report",
    [Schedules, Trace,
     *(pytest.param(one, marks=pytest.mark.slow) for one in (
         Autocorrelation, Contours, Density, EssDraws, Marginals, RankPlots, SamplePaths, Trajectories))],
)  # fmt: skip
def test_files_of_long_runs_are_small(filled, report):
    for figure in report().build(filled, request(tasks=("mixture25",))).figures:
        (svg,) = figures.drawn(figure, "svg")
        assert len(svg) <= figures.LIMIT


def test_what_a_plugin_draws_becomes_pixels_where_it_is_large_and_stays_lines_where_it_is_small():
    def lines(canvas, points):
        axes = canvas.subplots(3, 3)
        for ax in axes.flat:
            ax.plot(np.random.default_rng(0).normal(size=points))
            ax.scatter(*np.random.default_rng(1).normal(size=(2, points)), s=3)

    for points, images in ((20, False), (30_000, True)):
        (svg,) = figures.drawn(Figure("f", lambda canvas, n=points: lines(canvas, n), (9.0, 9.0)), "svg")
        assert len(svg) <= figures.LIMIT
        assert (b"<image" in svg) == images


@pytest.mark.parametrize("aspect", ["auto", "equal"])
def test_a_file_of_a_small_figure_is_drawn_once(monkeypatch, aspect):
    from matplotlib.figure import Figure as Canvas

    times, draw = [], Canvas.draw
    monkeypatch.setattr(Canvas, "draw", lambda canvas, renderer: (times.append(renderer), draw(canvas, renderer))[1])
    (file,) = figures.drawn(Figure("f", lambda canvas: canvas.subplots().set_aspect(aspect), (2.0, 1.5)), "svg")
    assert b"<svg" in file
    assert len(times) == 1
