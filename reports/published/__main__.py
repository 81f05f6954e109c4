"""Write REPRODUCTION.md: `python -m reports.published [FILE]`."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.registry import registry
from reports.published import FOLDER, page

OWN = "sgmcmc-bench"

if __name__ == "__main__":
    papers = [path for plugin in registry().plugins if plugin.distribution == OWN for path in plugin.papers]
    target = Path(sys.argv[1]) if sys.argv[1:] else Path("REPRODUCTION.md")
    target.write_text(page(FOLDER, papers), encoding="utf-8")
