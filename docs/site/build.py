"""Build the documentation site: `python docs/site/build.py [FOLDER]`, by default build/site; `nox -s docs` calls it.

The repository's Markdown files keep their paths in the site, so their links work there as in a checkout; the reference
of Python names and commands is generated. The build fails if a link does not resolve, if a page is missing from the
navigation, if a public name or command has no description, or if a page loads something from elsewhere.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.commands.build import build
from mkdocs.config import load_config
from reference import pages, verbs

from harness import registry

ROOT = Path(__file__).resolve().parents[2]
CONFIG = Path(__file__).with_name("mkdocs.yml")
STATIC = ("*.md", "*.svg", "*.png", "*.js", "*.css", "examples/*.py")
LINK = re.compile(r"\[([^][]*)\]\(([^)#\s]+)[^)]*\)")
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^>]*>"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|icon|preconnect|preload))[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>"
    r"|@import\s[^;]*//[^;]*|url\([\"']?(?:https?:)?//[^)]*\)"
)
"""What a browser would fetch from elsewhere when it opens a page."""


def assemble(tree: Path) -> None:
    """Copy what the site shows into a folder, and write the reference there."""
    docs = [path for pattern in STATIC for path in (ROOT / "docs").rglob(pattern)]
    top = [*ROOT.glob("*.md"), ROOT / "LICENSE", ROOT / "CITATION.cff"]
    for path in (*docs, *top):
        copy = tree / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    reference = tree / "docs" / "reference"
    reference.mkdir()
    for name, text in pages().items():
        (reference / name).write_text(text, encoding="utf-8")
    for notebook in (ROOT / "docs").glob("*.ipynb"):
        (tree / "docs" / f"{notebook.stem}.md").write_text(cells(notebook, tree / "docs"), encoding="utf-8")
    for page in tree.rglob("*.md"):
        unlink_source(page, tree)
        check_commands(page)


def cells(notebook: Path, folder: Path) -> str:
    """A notebook as Markdown, with its outputs; the images among them are written into the folder."""
    parts = []
    for i, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for j, output in enumerate(cell.get("outputs", ())):
            data = output.get("data", {})
            if "image/png" in data:
                image = folder / f"{notebook.stem}-{i}-{j}.png"
                image.write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![output of the cell above]({image.name})")
            elif table := "".join(data.get("text/html", ())):
                parts.append(re.sub(r"\n\s*\n", "\n", table))  # a blank line would end the HTML
            elif printed := "".join(output.get("text") or data.get("text/plain", ())):
                parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts)


def check_commands(page: Path) -> None:
    """`SystemExit` if a shell block of a page has a command or report that does not exist."""
    reports = {offer.name for offer in registry().offers("reports")}
    for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE):
        for verb, name in re.findall(r"^bench (?!-)(\S+)(?: ([a-z]\S*))?", block, flags=re.MULTILINE):
            if verb not in verbs() or (verb == "report" and name not in reports):
                raise SystemExit(f"{page.name}: there is no `bench {verb} {name}`".rstrip())


def unlink_source(page: Path, tree: Path) -> None:
    """Replace the links of a page to source code, which the site does not contain, by their texts."""

    def text(link: re.Match[str]) -> str:
        path = os.path.relpath(page.parent / link[2], tree)
        return link[1] if (ROOT / path).exists() and not (tree / path).is_file() else link[0]

    source = page.read_text(encoding="utf-8").replace("\\<", "&lt;")  # Python-Markdown would show the backslash
    page.write_text(LINK.sub(text, source), encoding="utf-8")


def navigation(entry: Any, tree: Path) -> Any:
    """The navigation with the pages that a pattern stands for in its place; without those that it names elsewhere."""
    if isinstance(entry, dict):
        ((title, part),) = entry.items()
        pages = navigation(part, tree)
        return {title: pages[0] if isinstance(part, str) and len(pages) == 1 else pages} if pages else None
    if isinstance(entry, str):
        matches = sorted(path for path in tree.glob(entry) if path.name != "README.md" or "*" not in entry)
        return [str(path.relative_to(tree)) for path in matches] if "*" in entry else [entry]
    parts = [navigation(part, tree) for part in entry]
    return [page for part in parts if part for page in (part if isinstance(part, list) else [part])]


def check_offline(site: Path) -> None:
    """`SystemExit` if a page or style sheet loads something from elsewhere."""
    for path in (*site.rglob("*.html"), *site.rglob("*.css")):
        if loaded := LOADED.search(path.read_text(encoding="utf-8")):
            raise SystemExit(f"{path.relative_to(site)} loads {loaded[0]:.200}; the site has to work offline")


def main(out: Path) -> None:
    """Build the site in a folder."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch).resolve()
        assemble(tree)
        config = load_config(str(CONFIG), docs_dir=str(tree), site_dir=str(out), strict=True)
        config.nav = navigation(config.nav, tree)
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
    check_offline(out)
    sys.stdout.write(f"{out}/index.html\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve())
