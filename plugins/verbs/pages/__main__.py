"""Write the pages of a distribution's samplers: `python -m plugins.verbs.pages [FOLDER [DISTRIBUTION]]`.

Without arguments into docs/samplers, of the samplers that come with the harness. Pages there of other samplers are
removed. A folder whose README.md is not from here is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.cli.pages.sampler import UNLIMITED, no_curve, sampler
from harness.contracts.registry import Registry, load, registry
from harness.reporting.rendering.figures import drawn
from harness.system.files import write_set
from plugins.verbs.pages import figure, index
from plugins.verbs.pages.sampler import page

HOME = Path("docs/samplers")
OWN = "sgmcmc-bench"


def records(known: Registry, distribution: str = OWN) -> list[dict[str, Any]]:
    """The records of the samplers of a distribution, by name."""
    return [sampler(offer, known) for offer in known.offers("samplers") if offer.distribution == distribution]


def texts(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The Markdown files, by name."""
    return {"README.md": index.index(found), **{f"{record['name']}.md": page(record) for record in found}}


def picture(record: Mapping[str, Any]) -> bytes:
    """The SVG of a sampler that has a stationary variance."""
    limit = None if record["stability_limit"] == UNLIMITED else record["stability_limit"]
    made = load(record["class"])()
    return drawn(figure.stationary(record["name"], made, limit, record["limit_bias"]), "svg")[0]


def write(folder: Path = HOME, distribution: str = OWN) -> None:
    """All files, and no other .md or .svg; the program ends where the folder has a README.md that is not from here."""
    readme = folder / "README.md"
    is_own = readme.exists() and index.MARK in readme.read_text(encoding="utf-8", errors="replace")
    if readme.exists() and not is_own:
        sys.exit(f"{readme} was not written by `python -m plugins.verbs.pages`; choose another folder")
    found = records(registry(), distribution)
    files = {name: text.encode() for name, text in texts(found).items()}
    files |= {f"{record['name']}.svg": picture(record) for record in found if not no_curve(record)}
    write_set(folder, files)
    for path in (*folder.glob("*.md"), *folder.glob("*.svg")) if is_own else ():
        if path.name not in files:
            path.unlink()


if __name__ == "__main__":
    asked = sys.argv[1:]
    write(Path(asked[0]) if asked else HOME, *asked[1:2])
