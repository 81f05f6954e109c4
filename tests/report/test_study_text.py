"""What docs say of the study in words, against its published records."""

import html
import json
import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from reports.field import overview

DOCS = Path(__file__).parents[2] / "docs"
PUBLISHED = json.loads((DOCS / "field/study-densities.json").read_text(encoding="utf-8"))
KINDS = ("task", "sampler", "ordering")
OF = {kind: [one for one in PUBLISHED["findings"] if one["finding"] == kind] for kind in KINDS}
LED = {one["task"]: one["leaders"] for one in OF["task"]}
SGNHT = [one for one in OF["task"] if "sgnht" in one["leaders"]]
ERROR = {(one["task"], one["method"]): float(one["mean"]) for one in PUBLISHED["leaderboard"] if one["ranked_by"]}


def counted(verdict, words=""):
    return [one for one in OF["ordering"] if one["verdict"].startswith(verdict) and words in (one["reason"] or "")]


def times(method, task="mixture25", other=None):
    """The error of a method over that of another one, or of the best one."""
    return ERROR[task, method] / (ERROR[task, other] if other else min(v for (t, _), v in ERROR.items() if t == task))


LEADING = {
    (one["task"], one["method"])
    for one in PUBLISHED["leaderboard"]
    if one["verdict"] in {"best", "tied with the best"} and one["ranked_by"]
}
SGLD = sorted(one["against_sgld"] for one in SGNHT)
SEEDS = sorted(one["seeds_to_decide"] for one in counted("undecided"))
TOLD = {
    "sgnht leads on four; where modes are far apart, psgld with cycles and resgld do":
        sum(method == "sgnht" for _, method in LEADING) == 4
        and {method for task, method in LEADING if task == "mixture25"} == {"psgld", "resgld"},
    "sgld, with which most papers compare, is best or tied with the best on none":
        "sgld" not in {method for _, method in LEADING},
    "Twelve samplers, each tuned by the same search, on seven densities":
        (len(OF["sampler"]), len(OF["task"])) == (12, 7),
    "sgnht leads on four of the seven targets": (len(SGNHT), len(OF["task"])) == (4, 7),
    "baoab and sghmc on two of these four": [t for t in LED if {"baoab", "sghmc"} & {*LED[t]}]
    == [t for t in LED if {"baoab", "sghmc", "sgnht"} <= {*LED[t]}] == ["gaussian", "gaussian2d"],
    "5 to 13 times as wrong there": 5 < SGLD[0] < SGLD[-1] < 13,
    "asgld leads on banana and is nine times as wrong as sgld on mixture25":
        LED["banana"] == ["asgld"] and round(times("asgld", other="sgld")) == 9,
    "csgld is worse than sgld on bimodal1d": times("csgld", "bimodal1d", "sgld") > 3,
    "sghmc is worse than sgld on banana, where sgnht is as good as sgld":
        times("sghmc", "banana", "sgld") > 3 and abs(times("sgnht", "banana", "sgld") - 1) < 0.1,
    "loses to sghmc on gaussian and gaussian2d": min(times("ggmc", t, "sghmc") for t in ("gaussian", "gaussian2d")) > 3,
    "sgnht leads on three, asgld on the fourth": LED["rosenbrock"] == ["sgnht"] and LED["banana"] == ["asgld"],
    "sgnht, sghmc and mclmc, which lead elsewhere or are exact, have 30 to 100 times the error":
        30 < min(map(times, ("sgnht", "sghmc", "mclmc"))) < max(map(times, ("sgnht", "sghmc", "mclmc"))) < 105,
    "psgld with cycles, resgld and csgld lead": LED["mixture25"][:3] == ["psgld", "resgld", "csgld"],
    "each of the twelve is at least ten times as wrong as the best one on some target":
        len(OF["sampler"]) == 12 and all(float(one["worst"]) > 10 for one in OF["sampler"]),
    "Of 46 statements that have runs 31 were tested": len(OF["ordering"]) - len(counted("not run")) == 46,
    "15 were refused": len(counted("refused")) == 15,
    "eight are about two samplers of which one got a cyclical schedule": len(counted("refused", "in schedule")) == 8,
    "seven are about hmc": len(counted("refused", "in price")) == 7,
    "14 more are undecided. Nine of them need at most 49 seeds, one 580":
        (len(SEEDS), sum(n <= 49 for n in SEEDS), SEEDS[-1]) == (14, 9, 580),
}  # fmt: skip


@pytest.mark.parametrize("words", TOLD)
def test_a_sentence_is_what_the_records_say(words):
    names = ("study.md", "which-sampler.md", "../README.md")
    pages = [" ".join((DOCS / name).read_text(encoding="utf-8").split()) for name in names]
    assert any(words in page for page in pages)
    assert TOLD[words]


def test_the_picture_has_every_row_and_is_of_these_records():
    picture = overview({"study-densities": PUBLISHED})
    canvas = Figure()
    picture.draw(canvas)
    (ax,) = canvas.axes
    shown = [words.get_text() for words in ax.texts]
    assert len(ax.patches) == 12 * 7
    assert shown.count("-") == 1  # mclmc moves in two dimensions or more
    assert f"{times('sgld', 'gaussian'):.0f}" in shown
    names = {label.get_text() for label in (*ax.get_xticklabels(), *ax.get_yticklabels())}
    in_docs = re.findall("<!-- (.*?) -->", (DOCS / "study.svg").read_text(encoding="utf-8"))
    assert [html.unescape(words) for words in in_docs if words not in names] == shown
