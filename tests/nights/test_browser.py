"""The pages in a browser: `nox -s pages`. Skipped without playwright or Chromium.

With BENCH_SCREENSHOTS=FOLDER a picture of every page at both widths, light and dark, and printed, is left there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from nights import TINY, fabricate, write_suite

from harness import Result
from harness.cli.app import run
from harness.reports import Figure
from harness.runs import plan
from harness.runs.source import source_hash
from plugins.nights.site.contents import contents
from plugins.nights.site.folder import write
from plugins.nights.site.model import Section, Site

pytestmark = pytest.mark.slow  # it needs a browser, which few machines have
api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: nox -s pages")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SUITE = TINY.replace('"hmc"]', '"hmc", "csgld", "psgld", "msgld", "sghmc", "baoab", "sgnht"]')
SUITE = SUITE.replace('"coverage", ', '"schedules", "findings", "needed-seeds", ')
WIDTHS = (400, 1280)
PAPER = 703
"""Pixels of A4 between margins of 12 mm."""
ENOUGH = 4.5
"""Contrast of text by WCAG 2, AA."""
CONTRAST = """(selector) => {
  const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (text) => rgb(text).map((c) => linear(c / 255))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    const own = getComputedStyle(node).backgroundColor;
    return own === "rgba(0, 0, 0, 0)" && node.parentElement ? behind(node.parentElement) : own;
  };
  return [...document.querySelectorAll(selector)].map((node) => {
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  });
}"""

BEYOND = """(width) => [...document.querySelectorAll("body *")].filter((node) => {
  const scrolls = (box) => /auto|scroll/.test(getComputedStyle(box).overflowX);
  for (let box = node; box; box = box.parentElement)
    if (box.matches("svg, .skip") || (box !== node && scrolls(box))) return false;
  const place = node.getBoundingClientRect();
  return place.width > 0 && (place.right > width + 1 || place.left < -1);
}).map((node) => node.outerHTML.slice(0, 80))"""
"""What is wider than the page and not in a box that scrolls."""
BROKEN = """() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  const broken = [];
  for (let text; (text = texts.nextNode()); )
    for (const word of text.textContent.matchAll(/[A-Za-z]{2,}/g)) {
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((line) => Math.round(line.top))).size > 1) broken.push(word[0]);
    }
  return broken;
}"""
"""Words that are broken at the end of a line, as no hyphen says."""
CUT = """() => [...document.querySelectorAll(".table, .equation, pre")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.textContent.trim().slice(0, 80))"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The pages of two nights that differ."""
    here = tmp_path_factory.mktemp("pages")
    suite = write_suite(here, SUITE)
    with pytest.MonkeyPatch.context() as patch:
        for word, factor in (("a", 1.0), ("b", 0.5)):
            patch.setattr(plan, "source_hash", lambda target, word=word: source_hash(target)[:-8] + word * 8)
            fabricate(
                here / "r", suite, lambda spec, f=factor: {"wasserstein2": f + 0.01 * spec.seed + len(spec.method)}
            )
            assert run(["--results", str(here / "r"), "nightly", str(suite), "--out", str(here / "site")]) == 0
    return here / "site"


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def show(browser, request):
    """Open a page of a folder from disk; what the browser complains of is an error at the end."""
    complaints, contexts = [], []

    def opened(name="index.html", width=1400, scheme="light", script=True, root=None):  # noqa: FBT002
        root = root or request.getfixturevalue("folder")
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((root / name).as_uri())
        return page

    opened.complaints = complaints
    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


LINES = {"sgld": [0.5, 0.25, 0.125], "hmc": [0.1, 0.2, 0.4]}


@pytest.fixture
def charted(tmp_path):
    """A folder with the page of a report, r.html, that has a chart of two lines."""
    lines = [
        {"label": label, "colour": "#0173b2", "x": [1, 10, 100], "y": values, "low": [], "high": []}
        for label, values in LINES.items()
    ]
    chart = {"x": "passes", "y": "error", "log": "xy", "lines": lines, "caption": "one panel of it"}
    figure = Figure("a", lambda canvas: canvas.subplots().plot([0, 1]), (3.0, 2.0), "two panels of it", chart=chart)
    files, _ = contents(Site("s", sections=[Section("r", "figures", Result(figures=[figure]))]))
    write(tmp_path / "s", "s", files, "")
    return tmp_path / "s"


def test_a_chart_has_the_values_under_the_pointer_and_its_own_caption(show, charted):
    page = show("r.html", root=charted)
    assert (page.get_by_text("one panel of it").is_visible(), page.get_by_text("two panels of it").is_visible()) == (
        1,
        0,
    )
    box = page.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator(".switches legend").text_content() == "passes: 10"
    assert page.locator(".switches output").all_text_contents() == ["0.25", "0.2"]
    page.emulate_media(media="print")
    assert (page.get_by_text("one panel of it").is_visible(), page.get_by_text("two panels of it").is_visible()) == (
        0,
        1,
    )
    assert page.locator(".picture img").is_visible()
    assert not page.locator(".chart").is_visible()


def test_the_axes_and_lines_of_a_chart_are_in_the_address(show, charted):
    page = show("r.html", root=charted)
    before = page.locator("canvas").screenshot()
    page.get_by_label("logarithmic x axis").uncheck()
    page.get_by_label("hmc").uncheck()
    assert page.locator("canvas").screenshot() != before
    address = page.evaluate("location.href")
    page.goto("about:blank")
    page.goto(address)
    names = ("logarithmic x axis", "logarithmic y axis", "sgld", "hmc")
    assert [page.get_by_label(name).is_checked() for name in names] == [False, True, True, False]
    page.get_by_label("logarithmic x axis").check()
    page.get_by_label("hmc").check()
    assert "#" not in page.evaluate("location.href")
    assert page.locator("canvas").screenshot() == before


def test_the_long_names_of_lines_fit_a_narrow_page(show, charted):
    page = show("r.html", width=400, root=charted)
    longer = "(schedule=constant-then-polynomial, sampler.gradient_variance=0.25)"
    page.eval_on_selector_all(".switches label", f"(all) => all.forEach((own) => own.append('{longer}'))")
    assert page.evaluate(BEYOND, 400) == []


def samples(folder):
    """A page of each kind."""
    first = [min(folder.glob(f"{kind}/*.html")) for kind in ("tasks", "methods", "rows", "suites")]
    return [
        "index.html",
        "rows.html",
        "night.html",
        "leaderboard.html",
        "schedules.html",
        "findings.html",
        "needed-seeds.html",
        *(str(p.relative_to(folder)) for p in first),
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_its_width_and_can_be_read(show, folder, width, scheme):
    for name in samples(folder):
        page = show(name, width, scheme)
        page.evaluate("document.querySelectorAll('details').forEach((own) => { own.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert page.evaluate(BEYOND, width) == [], name
        assert page.evaluate(BROKEN) == [], name
        for selector in ("p", "td, th", "a", "dt, dd, li, figcaption, summary", "button", "pre"):
            assert min(page.evaluate(CONTRAST, selector), default=ENOUGH) >= ENOUGH, (name, selector)
        assert page.evaluate("[...document.images].every((image) => image.naturalWidth > 0 || !image.complete)")
        if pictures := os.environ.get("BENCH_SCREENSHOTS"):
            page.screenshot(path=str(Path(pictures) / f"{_kind(name)}-{width}-{scheme}.png"), full_page=True)


def _kind(name):
    kind, inside, _ = name.partition("/")
    return f"{kind.removesuffix('.html')}{'-page' if inside else ''}"


def column(page, i):
    return page.eval_on_selector_all("tbody tr", f"(rows) => rows.map((row) => row.cells[{i}].textContent.trim())")


def test_on_paper_nothing_is_cut_off(show, folder):
    for name in samples(folder):
        page = show(name, width=PAPER)
        page.emulate_media(media="print")
        assert page.evaluate(BEYOND, PAPER) == [], name
        assert page.evaluate(CUT) == [], name
        if pictures := os.environ.get("BENCH_SCREENSHOTS"):
            page.screenshot(path=str(Path(pictures) / f"{_kind(name)}-print.png"), full_page=True)


def test_a_table_is_sorted_by_the_keyboard(show):
    page = show("rows.html")
    before = column(page, 0)
    button = page.locator("thead button", has_text="value")
    for _ in range(40):
        page.keyboard.press("Tab")
        if button.evaluate("(own) => own === document.activeElement"):
            break
    assert button.evaluate("(own) => getComputedStyle(own).outlineStyle") == "solid"
    states = []
    for _ in range(3):
        page.keyboard.press("Enter")
        states.append(page.locator("thead th", has_text="value").get_attribute("aria-sort"))
        values = [float(text.split()[0]) for text in column(page, 9)]
        if states[-1]:
            assert values == sorted(values, reverse=states[-1] == "descending")
    assert states == ["ascending", "descending", None]
    assert column(page, 0) == before


def test_rows_are_filtered_and_columns_chosen(show):
    page = show("rows.html")
    page.get_by_label("Filter").fill("SGLD mixture5 rank")
    shown = page.locator("tbody tr:visible")
    assert shown.count() == 4
    assert page.locator("output").text_content() == "4 of 8 rows"
    page.get_by_label("Filter").fill("")
    assert shown.count() == 8
    page.get_by_text("Columns").click()
    page.get_by_label("budget").uncheck()
    assert not page.locator("thead th", has_text="budget").is_visible()
    assert page.locator("tbody td:visible").count() == 8 * 10


def test_what_a_reader_chose_is_in_the_address(show):
    page = show("rows.html")
    page.get_by_label("Filter").fill("sgld")
    page.locator("thead button", has_text="value").click()
    chosen, address = column(page, 0), page.evaluate("location.href")
    page.goto("about:blank")
    page.goto(address)
    assert page.get_by_label("Filter").input_value() == "sgld"
    assert page.locator("thead th", has_text="value").get_attribute("aria-sort") == "ascending"
    assert column(page, 0) == chosen


def test_without_a_script_the_tables_are_complete(show):
    page = show("rows.html", script=False)
    assert page.locator("tbody tr:visible").count() == 8
    assert page.locator("button, .tools").count() == 0


def test_no_other_script_runs(show, folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    text = (copy / "index.html").read_text()
    (copy / "other.js").write_text("document.title = 'other'")
    foreign = "<script>document.title = 'inline'</script><script src=other.js></script>"
    foreign += "<img src=x onerror=\"document.title = 'on'\">"
    (copy / "index.html").write_text(text.replace("</body>", f"{foreign}</body>"))
    page = show("index.html", root=copy)
    page.wait_for_timeout(200)
    assert page.title().startswith("tiny")
    assert sum("Content Security Policy" in text for text in show.complaints) == 3
    show.complaints.clear()


def test_from_a_leader_to_its_runs_and_back(show):
    page = show()
    page.locator(".ranking .name").first.click()
    assert "bench replay" in page.content()
    page.locator("header a").first.click()
    assert page.locator("h1").text_content() == "mixture5"
    page.keyboard.press("Tab")
    assert page.locator(".skip").evaluate("(own) => own.getBoundingClientRect().left") >= 0
