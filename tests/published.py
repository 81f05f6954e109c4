"""What every page of a site must be: closed tags of our own, nothing from elsewhere, links that lead somewhere.

python tests/published.py FOLDER
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

OWN_TAGS = {
    "html", "head", "meta", "link", "title", "style", "body", "header", "h1", "h2", "h3", "p", "dl", "div", "dt",
    "dd", "nav", "a", "main", "section", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "ul",
    "li", "figure", "img", "figcaption", "ol", "span", "pre", "code", "article", "h4", "script", "svg", "line",
    "polyline", "circle", "math", "mtable", "mtr", "mtd", "mrow", "mi", "mo", "mn", "mtext", "mspace", "msub", "msup",
    "msubsup", "msqrt", "wbr",
}  # fmt: skip
VOID = {"meta", "link", "img", "wbr"}
PAPERS = ("https://doi.org/", "https://arxiv.org/abs/")
"""Where a reader may be led; nothing is loaded from there."""
START_PAGE = 500_000
"""Bytes, with its style and figures."""


class Page(HTMLParser):
    """Collects what a page has, and checks that tags are closed in order and ids are of one element each."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.ids, self.open, self.attributes = set(), [], set(), [], set()
        self.papers = set()
        self.policy, self.scripts, self.alts, self.images = "", [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.add(tag)
        self.attributes |= values.keys()
        self.links += [value for name, value in attributes if name in {"href", "src"}]
        self.papers |= {values["href"]} if tag == "a" and values.get("rel") == "noreferrer" else set()
        assert values.get("id") not in self.ids
        self.ids |= {values["id"]} if "id" in values else set()
        self.policy += values["content"] if values.get("http-equiv") == "Content-Security-Policy" else ""
        self.alts += [values["alt"]] if tag == "img" else [values["aria-label"]] if values.get("role") == "img" else []
        self.images += [values["src"]] if tag == "img" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_pages(folder):
    """Every page is closed, runs one script, which its policy allows by the hash and no other, asks for nothing from
    elsewhere, links to what is there, and tells each figure from the others; every figure asks for nothing either.
    """
    for path in folder.rglob("*.svg"):
        links = re.findall(r"""href=["']([^"']*)""", path.read_text())
        assert all(link.startswith(("#", "data:image/png")) for link in links), path
    assert not re.search(r"@import|url\(", (folder / "style.css").read_text())
    pages = {path.relative_to(folder).as_posix(): Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    loaded = {"index.html", "style.css", *pages["index.html"].images}
    assert sum((folder / name).stat().st_size for name in loaded) < START_PAGE
    for name, page in pages.items():
        assert page.open == []
        assert page.tags <= OWN_TAGS
        assert not any(attribute.startswith("on") for attribute in page.attributes)
        digest = base64.b64encode(hashlib.sha256("".join(page.scripts).encode()).digest()).decode()
        assert len(page.scripts) == 1
        assert page.policy.startswith(f"script-src 'sha256-{digest}'; object-src 'none';")
        assert len(set(page.alts)) == len(page.alts)
        assert all(page.alts)
        for link in page.links:
            _check_link(folder, name, link, pages)
    return pages


def _check_link(folder, name, link, pages):
    address = urlsplit(link)
    if link == "data:,":
        return
    if link.startswith(PAPERS):
        assert link in pages[name].papers
        return
    assert (address.scheme, address.netloc, address.query) == ("", "", "")
    target = (folder / name).parent / address.path if address.path else folder / name
    assert target.resolve().is_relative_to(folder.resolve())
    assert target.is_file(), f"{name} links to {link}"
    if address.fragment:
        assert address.fragment in pages[target.resolve().relative_to(folder.resolve()).as_posix()].ids, link


if __name__ == "__main__":
    print(f"{len(check_pages(Path(sys.argv[1])))} pages, {len(files(Path(sys.argv[1])))} files")  # noqa: T201
