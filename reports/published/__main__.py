"""Writes docs/reproduction.md, the pages beside it, and the counts in README.md."""

from __future__ import annotations

from pathlib import Path

from harness import registry, write_set
from reports.published import FOLDER, counts, pages, with_counts

OWN = "sgmcmc-bench"

if __name__ == "__main__":
    papers = [path for plugin in registry().plugins if plugin.distribution == OWN for path in plugin.papers]
    readme = Path("README.md").read_text(encoding="utf-8")
    files = {**pages(FOLDER, papers), "README.md": with_counts(readme, counts(FOLDER, papers))}
    write_set(Path(), {name: text.encode() for name, text in files.items()})
