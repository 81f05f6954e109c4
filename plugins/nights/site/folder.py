"""The folder of a site. Files are replaced after all are written, the start page last; then files that the new site
lacks are deleted. So a reader finds the old start page or the new one, with all files to which it links.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from harness import UsageError
from harness.reports import write_set
from harness.system import FILES, alone, listed_digests, read_json
from harness.system.files import holds

MANIFEST = "site.json"
STALE = "stale"
"""Manifest entry: files of the previous site that are being deleted."""
MADE_FROM = "made_from"
"""Manifest entry: a digest of everything from which the site was made."""
FIGURES = "figures"
"""Manifest entry: a digest of what each figure was drawn from, by its path without suffix."""
INDEX = "index.html"


def check_folder(folder: Path, name: str) -> None:
    """Raise `UsageError` if a folder cannot be created or written to, or holds something other than this site."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder} is a file; choose a folder")
    try:
        with tempfile.TemporaryFile(dir=next(path for path in (folder, *folder.absolute().parents) if path.exists())):
            pass
    except OSError as error:
        raise UsageError(f"--out {folder} cannot be written to: {error.strerror}; choose another folder") from error
    if not (folder / INDEX).exists() and not (folder / MANIFEST).exists():
        return
    owner = (read_json(folder / MANIFEST) or {}).get("site")
    if owner != name:
        what = f"the pages of {owner!r:.60}" if owner else f"an {INDEX} that is not from here"
        raise UsageError(f"--out {folder} holds {what}; choose another folder, or empty this one")


def is_current(folder: Path, made_from: str) -> bool:
    """Return whether a folder holds a complete site that `write` made with the same digest."""
    manifest = read_json(folder / MANIFEST) or {}
    digests = listed_digests(manifest)
    whole = digests and all(holds(folder / name, digest) for name, digest in digests.items())
    return bool(whole) and manifest.get(MADE_FROM) == made_from and STALE not in manifest


def drawn(folder: Path) -> dict[str, str]:
    """Return the digest of what each figure of a folder was drawn from, of those whose files are as they were written.

    The keys are the paths of all files of these figures.
    """
    manifest = read_json(folder / MANIFEST) or {}
    digests, figures = listed_digests(manifest) or {}, manifest.get(FIGURES)
    if not isinstance(figures, dict):
        return {}
    return {
        path: str(figures[stem])
        for path, digest in digests.items()
        if (stem := path.rpartition(".")[0]) in figures and holds(folder / path, digest)
    }


def write(
    folder: Path, name: str, contents: Mapping[str, bytes], made_from: str, figures: Mapping[str, str] | None = None
) -> None:
    """Write the files of a site, by their path below `folder`.

    Files of the previous site that the new one lacks are deleted; other files stay. `made_from` is a digest of all that
    the site depends on, for `is_current`, or "" for none; `figures` has those of the figures, by path without suffix,
    for `drawn`. Raise `UsageError` as `check_folder` does.
    """
    check_folder(folder, name)
    folder.mkdir(parents=True, exist_ok=True)
    files = {path: contents[path] for path in sorted(contents, key=_linked_first)}
    with alone(folder):
        before = read_json(folder / MANIFEST) or {}
        lists = [names for key in (FILES, STALE) if isinstance(names := before.get(key), dict | list)]
        named = {path for names in lists for path in names if isinstance(path, str) and _is_own(path)}
        stale = sorted(named - files.keys(), key=_linked_first, reverse=True)
        about = {"site": name, **({MADE_FROM: made_from} if made_from else {}), FIGURES: dict(figures or {})}
        write_set(folder, files, MANIFEST, **about, **({STALE: stale} if stale else {}))
        for path in stale:
            (folder / path).unlink(missing_ok=True)
        if stale:
            write_set(folder, files, MANIFEST, **about)


def _linked_first(name: str) -> tuple[bool, bool, str]:
    """Return a sort key that puts a file before the pages that link to it."""
    return name == INDEX, name.endswith(".html"), name


def _is_own(name: str) -> bool:
    """Return whether a site can have this file name; the manifest that it comes from may have been edited."""
    return (
        re.fullmatch(r"((figures/[A-Za-z0-9_-]+|tasks|methods|rows|suites)/)?[A-Za-z0-9_-]+\.[a-z]+", name) is not None
    )
