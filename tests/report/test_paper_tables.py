"""Tables of papers: few columns, the best values in bold, a caption and a label, and LaTeX accepts them."""

import re
import shutil
import subprocess

import pytest

from harness.reporting.rendering import render
from harness.reporting.report import Result
from harness.reporting.tables import Column, Table
from plugins.reporting.paper import printed

LATEX = shutil.which("pdflatex")
COLUMNS = [
    Column("rank", "rank", "right"), Column("verdict", "verdict"), Column("method", "method"),
    Column("seeds", "seeds", "right"), Column("status", "status"),
    *(Column(name, name, "right", best=way) for name, way in
      (("joint error", "min"), ("modes covered", "max"), ("NLL", "min"), ("accuracy", "max"), ("nothing", "min"))),
    Column("variance ratio", "variance ratio", "right"), Column("settings", "settings"),
]  # fmt: skip
ROWS = [
    ("1", "best", "sgld_50% & <x>", "0.0100 [0.005, 0.02]", "12", "1.5", ">4,000", "0.90"),
    ("2", "worse", "csgld (cycles=4)", "0.20 ± 0.03", "25", "1.25", "0.9", "1.1"),
    ("-", "-", "b² ≥ ∞", "1e-05", "1,000", "0.1", "0.99", "3"),
    ("3", "worse", "sghmc", "inf", "25", "-", "0.8", "0.7"),
]


def table(task="mixture25@csgmcmc"):
    keys = ("rank", "verdict", "method", "joint error", "modes covered", "NLL", "accuracy", "variance ratio")
    rows = [{**dict(zip(keys, row, strict=True)), "seeds": "5", "nothing": "-"} for row in ROWS]
    title = f"{task}, task version 2: quick budget, 4,000 steps, 8 chains; mean ± 95 % t interval over seeds"
    return Table(title, COLUMNS, rows, ["a note of many words"], keys=3)


def paper(*tables, chosen=False):
    return render(printed(Result(list(tables)), "leaderboard", chosen=chosen), "latex")


def test_a_paper_table_has_five_columns_and_its_best_values_in_bold():
    text = paper(table())
    header = text.partition("\\toprule\n")[2].splitlines()[0]
    assert header == r"{}Method & Joint error & Modes covered & NLL & Accuracy \\"
    assert re.findall(r"\\textbf{(.*?)}", text) == ["0.0100 [0.005, 0.02]", "25", "1.25", "0.9", "25"]
    assert "a note" not in text


def test_no_label_is_that_of_another_table():
    result = printed(Result([table("a-2"), table("a"), table("a")]), "best", chosen=False)
    assert len({one.label for one in result.tables}) == 3


def test_the_caption_says_where_and_the_label_is_of_one_table():
    text = paper(table(), table(), table("blr-heart@csgmcmc"))
    where = r"mixture25 (protocol csgmcmc): quick budget, 4,000 steps, 8 chains"
    assert (
        text.count(rf"\caption{{Results on {where}. 5 seeds. Intervals: 95 \%, over seeds. Best values in bold.}}") == 2
    )
    labels = re.findall(r"\\label{(.*?)}", text)
    assert labels == [f"tab:leaderboard-{name}" for name in
                      ("mixture25-csgmcmc", "mixture25-csgmcmc-2", "blr-heart-csgmcmc")]  # fmt: skip
    assert text.count(r"% \usepackage{booktabs}") == 3


def test_columns_that_were_asked_for_stay():
    text = paper(Table("", COLUMNS[2:], table().rows), chosen=True)
    assert text.partition("\\toprule\n")[2].splitlines()[0].count("&") == len(COLUMNS) - 3
    assert r"\caption{Leaderboard. Intervals" in text


def test_without_rows_or_numbers_nothing_is_bold():
    for rows in ([], [{"method": "sgld"}], [{"method": "sgld", "NLL": "1.0"}, {"method": "csgld", "NLL": "1.0"}]):
        assert "textbf" not in paper(Table("t@p: x", COLUMNS, rows, keys=3))


@pytest.mark.skipif(LATEX is None, reason="no pdflatex: apt-get install texlive-latex-recommended (nox -s latex)")
def test_latex_compiles_what_is_written(tmp_path):
    body = paper(table(), table()) + render(Result([table(), "a paragraph of 50 % & <b>"]), "latex")
    end = r"\ref{tab:leaderboard-mixture25-csgmcmc}\end{document}"
    document = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{body}{end}"
    (tmp_path / "paper.tex").write_text(document, encoding="utf-8")
    words = [LATEX, "-draftmode", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    for _ in range(2):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout[-2000:]
    assert "undefined references" not in done.stdout
    assert "multiply defined" not in done.stdout
