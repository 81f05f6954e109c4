"""Text is data in every format, numbers stay what they are, and equal results give equal bytes."""

import csv
import io
import json
import re

import pytest

from harness import UsageError
from harness.reporting.rendering import FORMATS, figures, render
from harness.reporting.report import Result
from harness.reporting.tables import Column, Figure, Table

NASTY = '=<b>&x|y_z{50%}$[m](u)\\input"`*#~^\x1b[31m\u202e'
RESULT = Result(
    tables=[
        Table(
            title=f"a title {NASTY}",
            columns=[Column("name", NASTY), Column("value", "value", "right", ".2f")],
            rows=[{"name": NASTY, "value": 1.0}, {"name": "second\nline", "value": None}],
            notes=[NASTY],
        )
    ],
    records=[{"name": NASTY, "value": float("inf"), "run_keys": ["a", "b"]}, {"name": "x", "value": None}],
)


@pytest.mark.parametrize("form", FORMATS)
def test_rendering_is_the_same_each_time_and_has_no_control_characters(form):
    text = render(RESULT, form)
    assert text == render(RESULT, form)
    assert text.endswith("\n")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert all(len(line.rstrip("\n")) == len(line.rstrip()) for line in text.splitlines())


def test_json_has_no_infinity_and_says_so_beside_it():
    first, second = json.loads(render(RESULT, "json"), parse_constant=pytest.fail)
    assert first["value"] is None
    assert first["value_text"] == "inf"
    assert first["name"] == NASTY
    assert first["run_keys"] == ["a", "b"]
    assert second == {"name": "x", "value": None}


def test_csv_reads_back_and_no_cell_is_a_formula():
    rows = list(csv.DictReader(io.StringIO(render(RESULT, "csv"))))
    assert [row["value"] for row in rows] == ["inf", ""]
    assert rows[0]["name"].startswith("'=")
    assert rows[0]["run_keys"] == "a b"


def test_markdown_cells_cannot_end_or_format():
    lines = render(RESULT, "markdown").splitlines()
    body = [line for line in lines if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in body} == {3}
    assert "\\<b\\>" in lines[0]
    assert re.search(r"(?<!\\)[<\[`*_]", " ".join(body)) is None


def test_html_has_only_its_own_tags():
    text = render(RESULT, "html")
    tags = "table|caption|thead|tbody|tr|th|td|ul|li"
    assert re.search(rf"<(?!/?({tags})\b)", text) is None
    assert "&lt;b&gt;&amp;x" in text


def test_latex_special_characters_are_escaped():
    text = render(RESULT, "latex")
    row = next(line for line in text.splitlines() if "1.00" in line)
    cell = row.partition(" & ")[0]
    assert r"\textless{}b\textgreater{}\&x\textbar{}y\_z\{50\%\}\$[m](u)\textbackslash{}input" in cell
    assert cell.endswith(r"\#\textasciitilde{}\textasciicircum{}[31m")
    assert text.count(r"\\") == 3
    assert r"\begin{tabular}{lr}" in text


@pytest.mark.parametrize(("text", "expected"), [("a--b", "a-{}-b"), ("a---b", "a-{}-{}-b"), ("1 ± 2", r"1 $\pm$ 2")])
def test_latex_keeps_signs(text, expected):
    from harness.reporting.rendering.latex import escape

    assert escape(text) == expected


def test_an_unknown_format_gets_near_matches():
    with pytest.raises(UsageError, match="markdown"):
        render(RESULT, "markdwn")


def test_only_artists_with_many_points_become_pixels(monkeypatch):
    monkeypatch.setattr(figures, "COARSER", ((50, 10),))

    def draw(canvas):
        canvas.subplots().plot(range(40))

    (shown,) = figures.drawn(Figure("many", draw), "svg")
    assert b"<image" not in shown
