"""What a plugin's report puts into figures and tables cannot act on the page, nor load anything."""

import html
import re

import numpy as np
import pytest
from markupsafe import Markup

from harness.reporting.rendering import figures, web
from harness.reporting.report import Result
from harness.reporting.tables import Column, Figure, Table
from plugins.nights.site.contents import contents, script
from plugins.nights.site.model import Section, Site, SiteField, SiteRow, Subject, SuitePage


def every_kind(canvas):
    axes = canvas.subplots(2, 2).ravel()
    axes[0].imshow(np.arange(4.0).reshape(2, 2))
    axes[1].plot([0, 1], label="<script>alert(1)</script> & <?xml ?>")
    axes[1].legend(title="$x^2$")
    axes[2].pcolormesh(np.arange(9.0).reshape(3, 3), shading="gouraud")
    axes[3].bar([1], [1], hatch="/")
    axes[3].set_rasterized(True)
    return axes


def test_addresses_and_names_that_a_figure_gives_its_parts_do_nothing():
    def draw(canvas):
        axes = every_kind(canvas)
        axes[1].text(0, 0, "x", url="javascript:alert(1)")
        axes[1].scatter([0], [1], urls=["https://example.org/alert"], gid='"><script>alert(1)</script>')
        axes[0].images[0].set_url("javascript:alert(1)")

    (shown,) = figures.drawn(Figure("a", draw), "svg")
    assert not re.search(rb"<script|href=\"(?!#|data:image/png)", shown)


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
    chart = {"x": str(raw), "y": str(raw), "log": "xy", "lines": [{"label": str(raw), "colour": str(raw)}]}
    figure = Figure("f", lambda _: None, caption=raw, chart=chart)
    section = Section("a", raw, Result(tables=tables, figures=[figure], notes=[raw]))
    name = str(raw)  # of the store
    row = SiteRow(
        key="0" * 64, label=raw, method=name, task=name, protocol=raw, budget=raw, chains=1, seeds=1, rank=1, value=raw,
        mean=1.0, status=raw, facts=[(raw, raw)], commands=[(raw, raw)], tables=tables,
    )  # fmt: skip
    subject = Subject(name, raw, name, [name, *tables])
    site = Site(
        "a", raw, "good", [raw], [(raw, raw)], changes=section, sections=[Section("b", raw, problem=raw)],
        fields=[SiteField(raw, name, raw, raw, 1, 1, raw, [row], tables[0])], tasks=[subject], methods=[subject],
        suites=[SuitePage(name, raw, tables)],
    )  # fmt: skip
    pages = {name: content.decode() for name, content in contents(site)[0].items() if name.endswith(".html")}
    for page in [*pages.values(), web.render(tables)]:
        ours = sum(f"<script>{code}</script>" in page for code in (script(), script(charts=True)))
        assert page.count("<script") == ours + script(charts=True).count("<script") * ("data-chart=" in page)
        assert html.escape("<script>") in page
    assert len(pages) == 8
