"""The report `factors`: each method's error over the lowest of its task, and what the verdicts make of the cells."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scored import final_errors, request, store, write_run

from reports.figures.factors import LABELS, LEADING, NO_VALUE, SHADES, Factors, figure, methods_of, text

ERRORS = {"sgld": 1.6, "sghmc": 0.1, "baoab": 0.1}
TASKS = ("mixture25", "gaussian2d")


@pytest.fixture
def report(tmp_path):
    for task in TASKS:
        for method, error in ERRORS.items():
            for seed in range(6):
                noise = np.random.default_rng([seed, len(method)]).normal(size=(8, 1)) * 0.02 + 1
                write_run(
                    tmp_path, method=method, task=task, seed=seed, chains=8, metrics={"mean_error": 0.1},
                    curves=final_errors(np.sqrt(error) * noise),
                )  # fmt: skip
    for seed in range(6):
        write_run(tmp_path, method="hmc", task=TASKS[0], seed=seed, chains=8, status="diverged")
    return Factors().build(store(tmp_path), request())


def test_a_factor_is_the_error_over_the_lowest_of_the_task(report):
    by_row = {(record["task"], record["method"]): record for record in report.records}
    for task in TASKS:
        lowest = min(by_row[task, method]["mean"] for method in ERRORS)
        for method in ERRORS:
            assert by_row[task, method]["factor"] == pytest.approx(by_row[task, method]["mean"] / lowest)
    assert 12 < by_row["gaussian2d", "sgld"]["factor"] < 20
    assert by_row["gaussian2d", "sgld"]["verdict"] == "worse"
    assert by_row["mixture25", "hmc"]["factor"] is None


def test_the_table_says_failed_and_not_run(report):
    (table,) = report.tables
    cells = {row["method"]: row for row in table.rows}
    assert [cells["hmc"][task] for task in TASKS] == ["failed", "-"]
    assert table.rows[-1]["method"] == "hmc"
    assert table.rows[-2]["method"] == "sgld"


def test_the_table_marks_what_leads(report):
    cells = {row["method"]: row["gaussian2d"] for row in report.tables[0].rows}
    leading = {one["method"] for one in report.records if one["task"] == "gaussian2d" and one["verdict"] != "worse"}
    assert {method for method, words in cells.items() if words.endswith("*")} == leading
    assert "sgld" not in leading
    assert leading


def cell(factor, verdict="worse"):
    return {"factor": factor, "verdict": verdict}


def test_methods_are_in_the_order_of_their_mean_logarithms_and_a_failure_counts_most():
    cells = {("a", "t"): cell(1.0), ("a", "u"): cell(100.0), ("b", "t"): cell(4.0), ("b", "u"): cell(4.0)}
    cells |= {("c", "t"): cell(1.0), ("c", "u"): cell(None)}
    assert methods_of(cells) == ["b", "a", "c"]
    assert methods_of(cells | {("b", "v"): cell(4.0), ("d", "v"): cell(1.0)}) == ["b", "a", "c", "d"]  # on one of three


def test_a_question_mark_says_that_the_seeds_do_not_decide():
    assert text(cell(1.346)) == "1.35"
    assert text(cell(12.4, "not known")) == "12 ?"
    assert text(cell(1.2, "too few seeds for a verdict")) == "1.20 ?"
    assert text(cell(1.0, "best")) == "1.00"
    assert text(cell(3.0, "tied with the best")) == "3.00"
    assert text(cell(12345.0)) == "12,345"


def test_colours_and_bold_follow_from_verdicts_and_factors():
    cells = {("a", "t"): cell(1.0, "best"), ("b", "t"): cell(1.5, "tied with the best"), ("c", "t"): cell(1.5),
             ("d", "t"): cell(5.0), ("e", "t"): cell(50.0), ("f", "t"): cell(None)}  # fmt: skip
    canvas = Figure()
    figure("factors", cells, {"t": "of one mode"}).draw(canvas)
    (ax,) = canvas.axes
    assert [to_hex(patch.get_facecolor()) for patch in ax.patches] == [
        LEADING, LEADING, *(colour for _, colour in SHADES), NO_VALUE,
    ]  # fmt: skip
    bold = [words.get_text() for words in ax.texts if words.get_fontweight() == "bold"]
    assert bold == ["1.00", "1.50", "of one mode"]


@pytest.mark.parametrize("tasks", [1, 2, 13])
def test_the_legend_is_no_wider_than_the_picture(tasks):
    cells = {(method, f"t{k}"): {"factor": 1.5, "verdict": "worse"} for method in ERRORS for k in range(tasks)}
    picture = figure("factors", cells)
    canvas = Figure(figsize=picture.size, layout="constrained")
    picture.draw(canvas)
    canvas.draw_without_rendering()
    (legend,) = canvas.legends
    assert [words.get_text() for words in legend.texts] == LABELS
    assert legend.get_window_extent().width <= canvas.bbox.width
