"""Figures at the widths of papers: every text is on the canvas, in at least 5.5 points, and over no other text."""

import itertools
import re
import warnings

import numpy as np
import pytest
import scored
from report import test_prediction_figures as predictions
from report import test_report_bytes as one_of_each
from report import test_sensitivity as sensitivity
from report import test_shift_report as shift
from scored import final_errors, request, store, write_run

from harness.contracts.registry import load
from harness.reporting.rendering import figures
from harness.reporting.report import Request
from harness.reporting.tables import Figure
from harness.system.errors import UsageError
from plugins.reporting.fitting import LEAST, WIDTHS, fitted
from reports import bench_reports
from reports.figures import factors
from reports.figures.ranks import Ranks

QUICK = {"convergence", "contours", "curves", "schedules", "profile", "trajectory"}
"""Reports that differ most in their panels; the others are drawn by the slow tests."""
OTHERS = ("ranks", "rejection", "reliability", "sensitivity", "shift", "theorem1")
"""Reports that need other runs than `test_report_bytes` makes."""


def page(figure, width, height=None, points=None):
    """The figure as drawn; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return figures.picture(fitted(figure, width, height, points))


def shown_texts(canvas):
    """The texts that are drawn, with their boxes in dots."""
    from matplotlib.text import Text

    hidden = set()
    for ax, name in itertools.product(canvas.axes, ("xaxis", "yaxis")):
        axis = getattr(ax, name)
        low, high = sorted(axis.get_view_interval())
        margin = 1e-9 * (high - low)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not ax.axison or not low - margin <= tick.get_loc() <= high + margin:
                hidden |= {tick.label1, tick.label2}
        hidden |= set() if ax.axison else {axis.label, axis.offsetText}
    texts = [text for text in canvas.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [(text, text.get_window_extent()) for text in texts if text not in hidden]


def assert_legible(canvas):
    drawn = shown_texts(canvas)
    assert drawn
    for text, box in drawn:
        inside = min(box.x0, box.y0, canvas.bbox.width - box.x1, canvas.bbox.height - box.y1)
        assert inside > -0.5, f"{text.get_text()!r} is cut off"
        assert text.get_fontsize() >= LEAST, text.get_text()
    for (first, a), (second, b) in itertools.combinations(drawn, 2):
        over = min(min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0))
        assert over <= 1, f"{first.get_text()!r} and {second.get_text()!r} overlap"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scored, "UNITS", {**scored.UNITS, **one_of_each.UNITS})
        return one_of_each.written(tmp_path_factory.mktemp("sizes"))


@pytest.mark.parametrize(
    ("name", "size"),
    [
        pytest.param(name, size, marks=() if name in QUICK and size == "column" else pytest.mark.slow)
        for name, target in sorted(one_of_each.REPORTS.items())
        if target.startswith("reports.figures.") and name not in OTHERS
        for size in WIDTHS
    ],
)
def test_the_figure_of_every_report_fits_a_paper(results, name, size):
    figures_of_it = one_of_each.shown(results, name)[2].figures
    assert figures_of_it
    canvas = page(figures_of_it[0], WIDTHS[size])
    assert canvas.get_figwidth() == WIDTHS[size]
    assert_legible(canvas)


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """The figures of `OTHERS`, by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scored, "UNITS", {**scored.UNITS, **shift.UNITS})
        folders = {name: tmp_path_factory.mktemp(name) for name in OTHERS}
        for seed in range(2):
            predictions.write(folders["reliability"], seed)
            predictions.write(folders["reliability"], seed, method="csgld")
        shift.written(folders["shift"])
        for method in ("sgld", "msgld", "a-method-whose-name-is-long"):
            for step, objective in sensitivity.TRIALS.items():
                sensitivity.write(folders["sensitivity"], method, step, objective)
        write_ranked(folders["ranks"], 4)
        folders["rejection"] = folders["reliability"]
        targets = {info.name: info.target for info in bench_reports()}
        return {name: load(targets[name])().build(store(folders[name]), request()).figures[0] for name in OTHERS}


@pytest.mark.slow
@pytest.mark.parametrize("size", WIDTHS)
@pytest.mark.parametrize("name", OTHERS)
def test_the_figures_of_other_runs_fit_a_paper(others, name, size):
    assert_legible(page(others[name], WIDTHS[size]))


def write_ranked(results, methods):
    for k, task, seed in itertools.product(range(methods), "abcde", range(5)):
        errors = final_errors(np.full((2, 1), 0.1 * (k + seed + 1)))
        write_run(results, method=f"method-{k}", task=task, seed=seed, chains=2, curves=errors, metrics={"rhat": 1.0})


LONG = "csgld (schedule.beta=0.5, schedule.cycles=12, schedule.temperature=0.1)"


def stranger(rows, columns, *, equal=False, shared=False):
    """A figure of another package, which knows nothing of sizes: long titles, labels and names, and many ticks."""

    def draw(canvas):
        axes = canvas.subplots(rows, columns, squeeze=False, sharex=shared, sharey=shared)
        for i, ax in enumerate(axes.flat):
            drawn = ax.scatter(*np.random.default_rng(i).normal(size=(2, 20)) * 1e5, c=np.arange(20))
            ax.set_title(f"{LONG}, seed {i}")
            ax.set_aspect("equal" if equal else "auto")
            ax.set(xticks=np.arange(-3e5, 3e5, 2e4)) if i == 0 else None
        for ax in axes[-1]:
            ax.set_xlabel(r"position of the first coordinate $\theta_1 / \sqrt{h T}$, in standard deviations")
        for ax in axes[:, 0]:
            ax.set_ylabel("velocity of the first coordinate, in standard deviations of its own")
        canvas.colorbar(drawn, ax=axes.ravel().tolist(), label="draws of the chain, from the first to the last one (%)")

    title = "A title that is a good deal longer than a column of a paper is wide, for which it has to be wrapped"
    return Figure("stranger", draw, (3.0 * columns, 2.6 * rows + 1), title=title)


@pytest.mark.parametrize(
    ("rows", "columns", "size", "more"),
    [
        (1, 3, "column", {}),
        (2, 2, "column", {"equal": True}),
        *(pytest.param(2, 4, size, {"shared": True}, marks=pytest.mark.slow) for size in WIDTHS),
    ],
)
def test_a_figure_that_knows_nothing_of_sizes_fits(rows, columns, size, more):
    assert_legible(page(stranger(rows, columns, **more), WIDTHS[size]))


def test_a_size_in_inches_is_kept_and_one_without_room_is_refused():
    canvas = page(stranger(1, 2), 7, 5, 9)
    assert canvas.get_size_inches().tolist() == [7, 5]
    assert_legible(canvas)
    assert {text.get_fontsize() for text, _ in shown_texts(canvas)} <= {9 * k for k in (0.694, 0.833, 1.0, 1.2)}
    with pytest.raises(UsageError, match=r"no room in 1\.2 x 1 inches .* give a larger --size"):
        page(stranger(2, 3), 1.2, 1)


def test_labels_that_panels_share_stay_readable_when_they_are_stacked():
    def draw(canvas):
        left, right = canvas.subplots(1, 2, sharey=True)
        left.set(ylabel="error", xlabel="passes", xlim=(0, 9))
        right.set(xlabel="seconds", xlim=(0, 900))

    canvas = page(Figure("two", draw, (8.0, 3.6)), 2.0)
    first, second = canvas.axes
    assert first.get_position().y0 > second.get_position().y1
    assert [ax.get_ylabel() for ax in canvas.axes] == ["error", "error"]
    assert all(any(label.get_text() for label in ax.get_yticklabels()) for ax in canvas.axes)


def test_fonts_of_a_pdf_are_truetype():
    (pdf,) = figures.drawn(
        fitted(Figure("f", lambda canvas: canvas.subplots().set_title("text")), 3.25, None, 8), "pdf"
    )
    assert b"/FontFile2" in pdf
    assert not re.search(rb"/Subtype /Type3", pdf)


@pytest.mark.slow
@pytest.mark.parametrize("size", WIDTHS)
def test_ranks_of_many_methods_fit(tmp_path, size):
    write_ranked(tmp_path, 25)
    (figure,) = Ranks().build(store(tmp_path), Request()).figures
    assert_legible(page(figure, WIDTHS[size]))


def test_a_panel_that_spans_a_grid_keeps_its_columns():
    def draw(canvas):
        for ax in canvas.subplot_mosaic("AA;BC").values():
            ax.set_title("a panel")
            ax.plot([0, 1])

    page(Figure("spanning", draw, (7.0, 5.0)), WIDTHS["text"])


def test_oblique_names_are_not_hidden_where_only_the_boxes_around_them_touch():
    names = ["banana", "gaussian", "gaussian2d", "rosenbrock", "bimodal1d", "mixture5", "mixture25"]
    cells = {(method, name): {"factor": 1.0, "verdict": "best"} for method in "ab" for name in names}
    canvas = page(factors.figure("factors", cells), WIDTHS["column"])
    assert {*names} <= {text.get_text() for text, _ in shown_texts(canvas)}
