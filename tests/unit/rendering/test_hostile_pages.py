"""What a plugin's report puts into figures and tables cannot act on the page, nor load anything."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest
from markupsafe import Markup

from harness.reporting.rendering import figures, svg, web
from harness.reporting.rendering.site import Section, Site, contents
from harness.reporting.report import Column, Figure, Result, Table

HEAD = '<?xml version="1.0"?>\n'
OPEN = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9">'
GOOD = '<rect id="kept" width="1" style="fill: url(#a); clip-path: url(\'#b\')"/>'
ATTACKS = {
    "a script": "<script>alert(1)</script>",
    "a script of no namespace": '<script xmlns="">alert(1)</script>',
    "a script of HTML": '<script xmlns="http://www.w3.org/1999/xhtml">alert(1)</script>',
    "an event": '<rect onclick="alert(1)"/>',
    "an event in capitals": '<rect OnLoad="alert(1)"/>',
    "HTML": '<foreignObject><body xmlns="http://www.w3.org/1999/xhtml"><img src="http://x"/></body></foreignObject>',
    "a link that is a script": '<a xlink:href="javascript:alert(1)"><text>x</text></a>',
    "one with a tabulator": '<a xlink:href="java&#9;script:alert(1)"><text>x</text></a>',
    "one of SVG 2": '<a href=" JavaScript:alert(1)"><text>x</text></a>',
    "a link outside": '<a xlink:href="https://example.org/alert"><text>x</text></a>',
    "a page as data": '<a xlink:href="data:text/html,&lt;script>alert(1)&lt;/script>"><text>x</text></a>',
    "an image outside": '<image xlink:href="http://example.org/alert.png"/>',
    "an image of SVG": '<image xlink:href="data:image/svg+xml;base64,YWxlcnQ="/>',
    "a shape outside": '<use href="http://example.org/alert.svg#a"/>',
    "a link that is animated": '<a><animate attributeName="href" to="javascript:alert(1)"/></a>',
    "an attribute that is set": '<set attributeName="onload" to="alert(1)"/>',
    "a style that loads": "<style>@import 'http://example.org/alert.css';</style>",
    "a style with an address": "<style>rect { fill: URL( 'http://example.org/alert') }</style>",
    "a style with an escape": "<style>rect { fill: u\\72l(http://example.org/alert) }</style>",
    "an attribute with an address": '<rect style="fill:url(http://example.org/alert)"/>',
    "a filter with an address": '<rect filter="url(http://example.org/alert)"/>',
    "another base": '<g xml:base="http://example.org/alert"/>',
    "a frame": '<iframe xmlns="http://www.w3.org/1999/xhtml" src="http://example.org/alert"/>',
}
GONE = re.compile(rb"alert|script|http://(?!www\.w3\.org)|https:", re.IGNORECASE)


@pytest.mark.parametrize("what", ATTACKS)
@pytest.mark.parametrize("depth", [0, 2])
def test_what_acts_or_loads_goes_and_the_rest_stays(what, depth):
    text = f"{HEAD}{OPEN}{'<g>' * depth}{ATTACKS[what]}{'</g>' * depth}{GOOD}</svg>"
    found = svg.cleaned(text.encode())
    assert not GONE.search(found), found
    assert b'id="kept"' in found
    assert b"url(#a)" in found
    assert svg.cleaned(found) == found


@pytest.mark.parametrize(
    "text",
    [
        f'{HEAD}<!DOCTYPE svg [<!ENTITY a "x">]>{OPEN}&a;</svg>', f"{OPEN}<g></svg>", "", "<html/>", "<svg/>",
        f"{OPEN}</svg>\N{LATIN SMALL LETTER E WITH ACUTE}".encode("latin-1"),
    ],
)  # fmt: skip
def test_what_is_no_svg_is_refused(text):
    with pytest.raises(ValueError, match=r"SVG|decode"):
        svg.cleaned(text if isinstance(text, bytes) else text.encode())


def every_kind(canvas):
    axes = canvas.subplots(2, 2).ravel()
    axes[0].imshow(np.arange(4.0).reshape(2, 2))
    axes[1].plot([0, 1], label="<script>alert(1)</script> & <?xml ?>")
    axes[1].legend(title="$x^2$")
    axes[2].pcolormesh(np.arange(9.0).reshape(3, 3), shading="gouraud")
    axes[3].bar([1], [1], hatch="/")
    axes[3].set_rasterized(True)
    return axes


def test_a_harmless_figure_is_what_matplotlib_writes(monkeypatch):
    (shown,) = figures.drawn(Figure("a", every_kind), "svg")
    monkeypatch.setattr(svg, "cleaned", lambda content: content)
    assert figures.drawn(Figure("a", every_kind), "svg") == [shown]


def test_addresses_and_names_that_a_figure_gives_its_parts_do_nothing():
    def draw(canvas):
        axes = every_kind(canvas)
        axes[1].text(0, 0, "x", url="javascript:alert(1)")
        axes[1].scatter([0], [1], urls=["https://example.org/alert"], gid='"><script>alert(1)</script>')
        axes[0].images[0].set_url("javascript:alert(1)")

    (shown,) = figures.drawn(Figure("a", draw), "svg")
    assert not re.search(rb"<script|href=\"(?!#|data:image/png)", shown)
    assert svg.cleaned(shown) == shown


class Raw:
    def __html__(self):
        return "<script>alert(1)</script>"

    def __str__(self):
        return self.__html__()

    def __format__(self, _):
        return self.__html__()


@pytest.mark.parametrize("raw", [Markup("<script>alert(1)</script>"), Raw()], ids=["marked", "an object"])
def test_no_text_of_a_report_is_markup(raw):
    columns = [Column("a", raw), Column("b", "b", "right", lambda _: raw)]
    tables = [Table(raw, columns, [{"a": raw, "b": 1}], notes=[raw, raw])]
    section = Section("a", raw, Result(tables=tables, figures=[Figure("f", lambda _: None, caption=raw)], notes=[raw]))
    site = Site("a", raw, "good", [raw], [(raw, raw)], [section, Section("b", raw, problem=raw)])
    pages = {name: content.decode() for name, content in contents(site)[0].items() if name.endswith(".html")}
    for page in [*pages.values(), web.render(tables)]:
        assert "<script" not in page
        assert html.escape("<script>") in page
    assert len(pages) == 3
