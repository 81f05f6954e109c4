"""The pages for a newcomer say what the code says: step sizes, laws of samplers, the joint error, navigation."""

import re
import sys
import tomllib
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from plugins.pages.conventions import CONVENTIONS, Step

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def table(page, header):
    """The rows of the first table of a page whose first column has this header, as lists of cells."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {header} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


@pytest.fixture(scope="module")
def picture():
    """The script of the picture of the joint error."""
    sys.path.insert(0, str(DOCS / "site"))
    yield __import__("joint_error")
    sys.path.remove(str(DOCS / "site"))


def test_step_sizes_are_converted_as_the_code_does():
    numbers = {tuple(re.findall(r"[\d.]+", row[0]))[:1]: row[-1] for row in table("step-sizes.md", "you have")}
    by_name = {convention.name: convention for convention in CONVENTIONS}
    N, lr, momentum, decay = 50_000, 0.1, 0.9, 0.0005
    here = Step(h=lr / N, N=N, alpha=1 - momentum)
    assert by_name["mean loss (csgmcmc, bnn_priors)"].to(here)["lr"] == pytest.approx(lr)
    assert by_name["momentum on the mean loss (csgmcmc)"].to(here)["momentum"] == pytest.approx(momentum)
    assert float(numbers["0.1",]) == here.h
    assert float(numbers["0.9",]) == pytest.approx(here.alpha)
    rows = {row[1]: row[-1] for row in table("step-sizes.md", "you have")}
    assert float(rows["precision of the prior N(0, I / precision)"]) == pytest.approx(decay * N)
    assert float(rows["standard deviation of the prior"]) == pytest.approx((decay * N) ** -0.5)


def test_a_step_of_sgd_with_weight_decay_is_a_step_on_the_page_s_potential():
    rng = np.random.default_rng(0)
    N, lr, decay, s2 = 40, 0.1, 0.03, 0.7
    theta, x, y = rng.normal(size=3), rng.normal(size=(N, 3)), rng.normal(size=N)
    step = lr * (2 * x.T @ (x @ theta - y) / N + decay * theta)  # on the mean squared error
    h, precision = 2 * s2 * lr / N, decay * N / (2 * s2)
    assert h * (x.T @ (x @ theta - y) / s2 + precision * theta) == pytest.approx(step)


def test_the_biased_samplers_of_the_guide_are_those_of_the_samplers_pages():
    rows = [line.strip("|").split(" | ") for line in (DOCS / "samplers/README.md").read_text().splitlines()]
    adapted = {re.search(r"\[(.*?)\]", row[0])[1]: row[-2].strip() for row in rows if row[0].startswith(" [")}
    told = dict(table("which-sampler.md", "sampler"))
    assert told == {name: adapted[name] for name in told}
    off = {name for name, value in adapted.items() if re.fullmatch(r"[\d.]+", value) and abs(float(value) - 1) > 0.1}
    assert told.keys() == off


def test_the_joint_error_of_the_picture_is_that_of_a_simulated_chain(picture):
    n, h, chains = 2_000, 0.025, 4_000
    rng = np.random.default_rng(0)
    decay, spread = picture.law(h)
    x = rng.normal(size=(chains, 2)) * np.sqrt(spread)
    sums, squares = np.zeros((chains, 2)), np.zeros((chains, 2))
    for _ in range(n):
        x = decay * x + np.sqrt(2 * h) * rng.normal(size=x.shape)
        sums += x
        squares += x**2
    scale = np.sqrt(picture.CURVATURE)
    of_z = ((sums / n * scale) ** 2).mean(axis=0)
    of_z2 = ((squares / n * scale**2 - 1) ** 2 / 2).mean(axis=0)
    along = picture.TILT + np.array([0, np.pi / 2])
    assert picture.parts(h, n, along).total == pytest.approx(np.maximum(of_z, of_z2), rel=0.15)


def curves(svg):
    """The long curves of a picture at 50 points each, in units of their height and width: fonts do not matter."""
    shapes = []
    for path in re.findall(rb' d="(M[^"]+)"', svg):
        points = np.array(re.findall(rb"[ML] ([-\d.]+) ([-\d.]+)", path), dtype=float)
        if len(points) >= 40:
            points = (points - points.min(axis=0)) / np.ptp(points, axis=0)
            along = np.append(0, np.hypot(*np.diff(points, axis=0).T).cumsum())
            shapes.append([np.interp(np.linspace(0, along[-1], 50), along, axis) for axis in points.T])
    return np.array(shapes)


def test_the_picture_of_the_joint_error_is_current(picture):
    page = (DOCS / "joint-error.md").read_text(encoding="utf-8")
    assert picture.numbers() in page, "python docs/site/joint_error.py"
    assert picture.page(page) == page
    (image,) = picture.figures.drawn(picture.PICTURE, "svg")
    written = (DOCS / "joint-error.svg").read_bytes()
    assert np.abs(curves(image) - curves(written)).max() < 0.02


def test_the_page_of_the_joint_error_tells_what_the_picture_shows(picture):
    large, small = (picture.parts(h, 10**6).total.max() for h in (picture.STEP, picture.SMALL))
    assert large > 0.01 > small  # "never to low error"
    counts = np.geomspace(300, 1e6, 60).astype(int)
    sooner, later = (
        next(n for n in counts if picture.parts(h, int(n)).total.max() < 0.03) for h in (picture.STEP, picture.SMALL)
    )
    assert sooner < later
    there = picture.parts(picture.STEP, picture.DRAWS)
    worst = int(there.total.argmax())
    assert there.bias2[worst] > there.variance[worst]
    wide = int(np.abs(picture.ANGLES - picture.TILT).argmin())
    assert there.variance[wide] > there.bias2[wide]


def test_the_citation_has_the_version_of_the_project_and_a_date():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert re.search(r"^version: (.*)$", text, re.MULTILINE)[1] == project["version"]
    assert date.fromisoformat(re.search(r"^date-released: (.*)$", text, re.MULTILINE)[1].strip('"'))


def test_every_page_is_in_the_navigation_once():
    text = (DOCS / "site/mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    entries = re.findall(r"((?:docs/)?[\w*/-]+\.md)$", text, re.MULTILINE)
    assert len(entries) == len(set(entries))
    named = {entry for entry in entries if "*" not in entry}
    matched = {str(path.relative_to(ROOT)) for entry in entries if "*" in entry for path in ROOT.glob(entry)}
    pages = {str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md"))}
    written = {entry for entry in named if entry.startswith("docs/reference/")} | {"docs/notebook.md"}
    assert pages - {"docs/site"} == (named | matched) - written


PLAIN = (
    r"\bof ours at\b",
    r"\bfor good\b",
    r"\bdecides nothing\b",
    r"\bOptimisers? of torch\b",
    r"\bhours: of\b",
    r"\bneeds: what\b",
    r"\bwhat there is\b",
    r"\ban error against it\b",
)
"""Phrases that have to be read twice."""
ELSEWHERE = ("reports/tables/leaderboard.py", "CHANGELOG.md")


def test_no_page_or_message_has_a_phrase_that_has_to_be_read_twice():
    files = [path for folder in ("docs", "reports", "plugins") for path in (ROOT / folder).rglob("*.[mp][dy]")]
    phrases = re.compile("|".join(PLAIN), re.IGNORECASE)
    read = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in (*files, *ROOT.glob("*.md"))}
    assert {
        name: said[0] for name, text in read.items() if name not in ELSEWHERE and (said := phrases.search(text))
    } == {}
