"""The site: the same bytes each time, nothing from elsewhere, every link leads somewhere, and text stays text."""

from __future__ import annotations

import json
import os

import pytest
from published import check_pages, files

from harness import UsageError
from harness.reporting.report import Result
from harness.reporting.tables import Column, Figure, Table
from plugins.nights.site import folder as folders
from plugins.nights.site.contents import contents
from plugins.nights.site.model import Section, Site, SiteField, SiteRow, Subject

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{ 7*7 }}{% x %}\x1b[31m\u202e ../../etc"


def draw(canvas):
    ax = canvas.subplots()
    ax.plot([0, 1], [1, 0])


def make(name="smoke", text=HOSTILE):
    table = Table(text, [Column("a", text), Column("b", "b", "right")], [{"a": text, "b": 1.5}], [text, "note"])
    chart = {"x": text, "y": text, "log": "xy", "lines": [{"label": text, "colour": text, "x": [1], "y": [None]}]}
    figures = [Figure(text, draw, (2.0, 1.5), caption=text), Figure("../../up", draw, (2.0, 1.5), chart=chart)]
    records = [{"a": text, "value": float("inf")}]
    first = Section("night", text, Result(tables=[table], records=records, notes=[text]))
    second = Section("density", "figures", Result(tables=[table], records=records, figures=figures))
    empty, broken = Section("nothing", "empty"), Section("broken", "x", problem=text)
    return Site(name, text, "bad", [text], [(text, text)], first, [second, empty, broken])


def publish(site, folder):
    files, problems = contents(site)
    folders.write(folder, site.name, files, "")
    return problems


@pytest.fixture
def folder(tmp_path):
    assert publish(make(), tmp_path / "site") == {"broken": HOSTILE}
    return tmp_path / "site"


def test_hostile_text_stays_text(folder):
    pages = check_pages(folder)
    assert set(pages) == {"index.html", "night.html", "density.html", "broken.html"}
    for name in pages:
        text = (folder / name).read_text()
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "{{ 7*7 }}" in text or "{{ 7" in text


def test_a_chart_has_a_caption_of_its_own(tmp_path):
    lines = {"x": "x", "y": "y", "lines": []}
    figures = [
        Figure("a", draw, (2.0, 1.5), "both panels of a", chart={**lines, "caption": "one panel of a"}),
        Figure("b", draw, (2.0, 1.5), "the caption of b", chart=lines),
    ]
    publish(Site("s", sections=[Section("r", "figures", Result(figures=figures))]), tmp_path)
    text = (tmp_path / "r.html").read_text()
    assert '<span class="of-picture">both panels of a</span><span class="of-chart">one panel of a</span>' in text
    assert 'data-label="one panel of a"' in text
    assert 'alt="both panels of a"' in text
    assert "<figcaption>the caption of b (" in text
    assert 'data-label="the caption of b"' in text


def test_it_has_every_form_of_every_section(folder):
    content = files(folder)
    assert {f"night.{end}" for end in ("html", "md", "csv", "json", "tex")} <= set(content)
    assert "nothing.html" not in content
    assert {name for name in content if name.startswith("figures/")} == {
        f"figures/density/{name}.svg"
        for name in ("script-alert-1-script-img-src-x-onerror-alert-1-7-7-x-31m-etc", "up")
    }
    assert json.loads(content["night.json"])[0]["value_text"] == "inf"


def test_the_same_content_gives_the_same_bytes_and_touches_nothing(folder):
    before = files(folder)
    times = {name: (folder / name).stat().st_mtime_ns for name in before if name != folders.MANIFEST}
    publish(make(), folder)
    assert files(folder) == before
    assert {name: (folder / name).stat().st_mtime_ns for name in times} == times


def test_what_the_new_site_lacks_goes_and_what_is_not_of_the_site_stays(folder):
    (folder / "CNAME").write_text("example.org")
    left = folder / ".index.html.0123456789abcdef"
    left.write_text("left by a kill")
    os.utime(left, (1, 1))
    publish(
        Site("smoke", "fine", "good", changes=Section("night", "", Result(notes=["x"], records=[{"a": 1}]))), folder
    )
    assert set(files(folder)) == {
        "CNAME", "index.html", "site.json", "style.css",
        *(f"night.{end}" for end in ("html", "md", "csv", "json", "tex")),
    }  # fmt: skip
    check_pages(folder)


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(UsageError, match="that is not from here"):
        publish(make(), tmp_path)
    assert (tmp_path / "index.html").read_text() == "mine"
    publish(make(), tmp_path / "a")
    with pytest.raises(UsageError, match="holds the pages of 'smoke'"):
        publish(make("nightly"), tmp_path / "a")
    with pytest.raises(UsageError, match="is a file"):
        publish(make(), tmp_path / "index.html")


def test_an_altered_manifest_removes_nothing_outside(folder):
    (folder.parent / "precious.txt").write_text("x")
    manifest = json.loads((folder / "site.json").read_text())
    manifest["files"] |= {"../precious.txt": "", "figures/../../precious.txt": "", "/etc/hostname": ""}
    for stale in (["../precious.txt"], 5, {}):
        (folder / "site.json").write_text(json.dumps({**manifest, "stale": stale}))
        publish(make(), folder)
    assert (folder.parent / "precious.txt").exists()


def test_a_figure_is_on_the_page_of_its_task_and_on_the_rows_of_its_method(tmp_path):
    figures = [Figure("both", draw, task="line"), Figure("one", draw, task="line", method="sgld"), Figure("no", draw)]
    rows = [SiteRow(name, name, name, "line", "ours", "quick", 1, 1) for name in ("sgld", "hmc")]
    field = SiteField("line", "line", "ours", "quick", 1, 9, "error", rows, Table("", [], []))
    section = Section("density", "", Result(figures=figures))
    subjects = {"tasks": [Subject("line")], "methods": [Subject("sgld"), Subject("hmc")]}
    assert publish(Site("s", "v", sections=[section], fields=[field], **subjects), tmp_path) == {}
    shown = {
        page: [name for name in ("both", "one", "no") if f"figures/density/{name}." in (tmp_path / page).read_text()]
        for page in ("tasks/line.html", "rows/sgld.html", "rows/hmc.html")
    }
    assert shown == {"tasks/line.html": ["both", "one"], "rows/sgld.html": ["one"], "rows/hmc.html": []}


def test_a_figure_that_cannot_be_drawn_is_a_problem_of_its_section_alone(tmp_path):
    def fail(_):
        raise ValueError("no ink")

    bad = Section("bad", "", Result(figures=[Figure("f", fail)]))
    good = Section("good", "", Result(records=[{"a": 1}]))
    (problem,) = publish(Site("s", "v", sections=[bad, good]), tmp_path).items()
    assert problem == ("bad", "figure 'f' was not drawn: ValueError: no ink")
    assert "no ink" in (tmp_path / "index.html").read_text()
    assert (tmp_path / "good.csv").exists()


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_run(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--out .*file/site cannot be written to: .*; choose another folder"):
        folders.check_folder(tmp_path / "file" / "site", "smoke")
