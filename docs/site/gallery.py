"""Draw the gallery: `python docs/site/gallery.py [RESULTS]`; without a folder, from new runs in a temporary one.

It makes the runs that gallery.toml lists and are missing, then writes docs/gallery.md and the images in docs/gallery.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
CONTENTS = tomllib.loads(Path(__file__).with_name("gallery.toml").read_text(encoding="utf-8"))


def bench(results: str, line: str) -> None:
    """Run the bench command of a line; `CalledProcessError` if it fails."""
    program, *words = shlex.split(line)
    subprocess.run([program, "--results", results, *words], check=True)


def page() -> str:
    """The page: each figure with the command that draws it."""
    runs = "\n".join(CONTENTS["runs"])
    parts = [f"# Gallery\n\n{CONTENTS['text']}\n\n```sh\n{runs}\n```\n"]
    for figure in CONTENTS["figure"]:
        file = f"gallery/{figure['file']}"
        parts.append(
            f"## {figure['title']}\n\n![{figure['alt']}]({file})\n\n{figure['text']}\n\n"
            f"```sh\n{figure['command']} --out {figure['file']}\n```\n"
        )
    return "\n".join(parts)


def main(results: str) -> None:
    """Run, draw, write; images of figures that are gone from the list are removed."""
    for line in CONTENTS["runs"]:
        bench(results, line)
    folder = DOCS / "gallery"
    folder.mkdir(exist_ok=True)
    for figure in CONTENTS["figure"]:
        bench(results, f"{figure['command']} --out {shlex.quote(str(folder / figure['file']))}")
    for path in folder.iterdir():
        if path.name not in {figure["file"] for figure in CONTENTS["figure"]}:
            path.unlink()
    (DOCS / "gallery.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(scratch)
