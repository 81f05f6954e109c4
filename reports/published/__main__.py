"""Writes REPRODUCTION.md and the counts in README.md; `python -m reports.published FILE` writes the page alone."""

from __future__ import annotations

import sys
from pathlib import Path

from harness import registry, write_set
from reports.published import FOLDER, counts, page, with_counts

OWN = "sgmcmc-bench"

if __name__ == "__main__":
    papers = [path for plugin in registry().plugins if plugin.distribution == OWN for path in plugin.papers]
    target = Path(sys.argv[1]) if sys.argv[1:] else Path("REPRODUCTION.md")
    files = {target.name: page(FOLDER, papers).encode()}
    if not sys.argv[1:]:
        readme = Path("README.md").read_text(encoding="utf-8")
        files["README.md"] = with_counts(readme, counts(FOLDER, papers)).encode()
    write_set(target.parent, files)
