"""The commit that a distribution's code comes from, and whether the code was changed since."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlparse

import harness
from harness.contracts.offers import HARNESS, entries

HOME = Path(harness.__file__).resolve().parent
UNKNOWN = {"commit": None, "dirty": None}

Stamped: TypeAlias = tuple[tuple[str, str, int, int], ...]
"""Files by name, with path, size, and time of the last change in nanoseconds."""


@functools.cache
def code(distribution: str) -> dict[str, Any]:
    """Return {"commit", "dirty"} of a distribution, both None if no git checkout is known.

    The checkout is the one that contains its packages (an editable installation, a development tree), or else the one
    that pip installed them from. `dirty` says whether the source differs from the commit: the checkout has changed or
    untracked files, or the installed files differ from those of the checkout.
    """
    packages = _packages(distribution)
    for package in packages:
        root = _root(package)
        if root is not None and _git(root, "ls-files", "--", str(package)):
            return {"commit": _git(root, "rev-parse", "HEAD") or None, "dirty": _changed(root, packages)}
    origin = _origin(distribution)
    commit = origin.get("vcs_info", {}).get("commit_id")
    if commit:
        return {"commit": commit, "dirty": False}
    address = urlparse(origin.get("url", ""))
    root = _root(Path(unquote(address.path))) if address.scheme == "file" else None
    if root is None:
        return dict(UNKNOWN)
    originals = [_counterpart(Path(unquote(address.path)), package) for package in packages]
    same = all(map(_same, packages, originals))
    return {"commit": _git(root, "rev-parse", "HEAD") or None, "dirty": not same or _changed(root, originals)}


def read_ahead(distribution: str) -> None:
    """Read what `code` compares, so that in this process and forks of it only what has changed since is read again."""
    with suppress(OSError):  # of a file that is just being changed; `code` says it where it still matters
        code.__wrapped__(distribution)


@functools.cache
def digest(distribution: str) -> str | None:
    """Return the SHA-256 of the code that runs use: of the package `harness`, or of all packages of a plugin.

    None if there are none. It is computed once in a process: code that changes later has been imported already.
    """
    packages = [HOME] if distribution == HARNESS else _packages(distribution)
    return _hash(packages) if packages else None


def package_hash(distribution: str) -> str:
    """Return the SHA-256 of the files of all packages of a distribution."""
    return _hash(_packages(distribution))


def _hash(packages: list[Path]) -> str:
    """Hash names and contents. Compiled and hidden files do not count: a checkout has others than an installation."""
    total = hashlib.sha256()
    for package in packages:
        for name, path in _files(package):
            total.update(f"{name} {hashlib.sha256(Path(path).read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _files(package: Path) -> list[tuple[str, str]]:
    """Return the names and paths of the files of a package that are neither compiled nor hidden, by the names' parts.

    Every worker lists a thousand files, so no `Path` is made for each.
    """
    if not package.is_dir():
        return [(package.name, str(package))] if package.is_file() else []
    return sorted(_inside(str(package), package.name), key=lambda pair: pair[0].split("/"))


def _inside(folder: str, name: str) -> Iterator[tuple[str, str]]:
    with os.scandir(folder) as entries_of_folder:
        for entry in entries_of_folder:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _inside(entry.path, f"{name}/{entry.name}")
            elif not entry.name.endswith(".pyc") and entry.is_file():
                yield f"{name}/{entry.name}", entry.path


def _same(package: Path, other: Path) -> bool:
    """Return whether two packages of one name have the same `_hash`, in less time."""
    return _same_files(_stamped(package), _stamped(other))


def _stamped(package: Path) -> Stamped:
    """Return the files of a package, each with its size and the time of its last change."""
    stats = ((name, path, Path(path).stat()) for name, path in _files(package))
    return tuple((name, path, stat.st_size, stat.st_mtime_ns) for name, path, stat in stats)


@functools.cache
def _same_files(files: Stamped, others: Stamped) -> bool:
    """Return whether files have the same names and contents. Unchanged files are not read again."""
    sizes = [[(name, size) for name, _, size, _ in side] for side in (files, others)]
    return sizes[0] == sizes[1] and all(
        Path(mine[1]).read_bytes() == Path(theirs[1]).read_bytes() for mine, theirs in zip(files, others, strict=True)
    )


def _packages(distribution: str) -> list[Path]:
    """Return the top-level packages (folders, or single files) of a distribution: those of its entry points."""
    values = [entry.value for entry in entries()[0] if entry.distribution == distribution]
    tops = {value.partition(":")[0].partition(".")[0].strip() for value in values}
    packages = {HOME} if distribution == HARNESS else set()
    for top in tops or {distribution.replace("-", "_")}:
        try:
            loaded = sys.modules.get(top)
            spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(top)
        except (ImportError, ValueError):
            continue
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            path = Path(spec.origin).resolve()
            packages.add(path.parent if path.name == "__init__.py" else path)
    return sorted(packages)


def _changed(root: Path, packages: list[Path]) -> bool:
    return bool(_git(root, "status", "--porcelain", "--", *map(str, packages)))


def _counterpart(checkout: Path, package: Path) -> Path:
    """Return where an installed package is in the checkout that it was installed from: at its root, or in src/."""
    inside = checkout / "src" / package.name
    return inside if inside.exists() else checkout / package.name


def _origin(distribution: str) -> dict[str, Any]:
    """Return pip's record of where it installed a distribution from (PEP 610), or {} if there is none."""
    try:
        text = importlib.metadata.distribution(distribution).read_text("direct_url.json")
        record = json.loads(text or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _root(path: Path) -> Path | None:
    """Return the root of the git checkout that contains `path`, or None."""
    folder = path if path.is_dir() else path.parent
    root = _git(folder, "rev-parse", "--show-toplevel") if folder.is_dir() else None
    return Path(root) if root else None


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command that writes nothing, or None if it fails or git is missing."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
            env={**kept, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
