"""What every page of a site must be: closed tags of our own, nothing from elsewhere, links that lead somewhere.

python tests/published.py FOLDER
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

OWN_TAGS = {
    "html", "head", "meta", "link", "title", "style", "body", "header", "h1", "h2", "h3", "p", "dl", "div", "dt",
    "dd", "nav", "a", "main", "section", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "ul",
    "li", "figure", "img", "figcaption",
}  # fmt: skip
VOID = {"meta", "link", "img"}


class Page(HTMLParser):
    """Collects tags, links and ids, and checks that tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.ids, self.open, self.attributes = set(), [], set(), [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        self.links += [value for name, value in attributes if name in {"href", "src"}]
        self.ids |= {value for name, value in attributes if name == "id"}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_pages(folder):
    """Every page is closed, asks for nothing from elsewhere, and links to what is there; so does every figure."""
    for path in folder.rglob("*.svg"):
        links = re.findall(r"""href=["']([^"']*)""", path.read_text())
        assert all(link.startswith(("#", "data:image/png")) for link in links), path
    texts = {path.name: path.read_text() for path in folder.glob("*.html")}
    for text in texts.values():
        assert "script-src 'none'" in text
        assert not re.search(r"@import|url\(", text.partition("</style>")[0])
    pages = {name: Page(text) for name, text in texts.items()}
    assert "index.html" in pages
    for page in pages.values():
        assert page.open == []
        assert page.tags <= OWN_TAGS
        assert not any(name.startswith("on") for name in page.attributes)
        for link in page.links:
            address = urlsplit(link)
            if link == "data:,":
                continue
            assert (address.scheme, address.netloc, address.query) == ("", "", "")
            if address.path:
                assert (folder / address.path).resolve().is_relative_to(folder.resolve())
                assert (folder / address.path).is_file(), link
            else:
                assert address.fragment in page.ids
    return pages


if __name__ == "__main__":
    print(f"{len(check_pages(Path(sys.argv[1])))} pages, {len(files(Path(sys.argv[1])))} files")  # noqa: T201
