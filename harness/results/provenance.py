"""From which commit a distribution's code comes, and whether it was changed since."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import harness
from harness.contracts.entry_points import entries

HOME = Path(harness.__file__).resolve().parent
SUFFIXES = (".py", ".toml", ".sql", ".html")
UNKNOWN = {"commit": None, "dirty": None}


@functools.cache
def code(distribution: str) -> dict[str, Any]:
    """{"commit", "dirty"} of a distribution, both None where no git checkout is known.

    The checkout is the one that its packages lie in (an editable installation, a development tree), or the one that
    pip installed them from. `dirty` says that the source differs from the commit: changed or untracked files in the
    checkout, or installed files that are not those of the checkout.
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
    theirs = [_counterpart(Path(unquote(address.path)), package) for package in packages]
    same = all(_equal(ours, other) for ours, other in zip(packages, theirs, strict=True))
    return {"commit": _git(root, "rev-parse", "HEAD") or None, "dirty": not same or _changed(root, theirs)}


def package_hash(distribution: str) -> str:
    """SHA-256 of the files of a distribution's packages."""
    total = hashlib.sha256()
    for package in _packages(distribution):
        files = package.rglob("*") if package.is_dir() else [package]
        for path in sorted(path for path in files if path.is_file() and path.suffix != ".pyc"):
            name = path.relative_to(package.parent)
            total.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _packages(distribution: str) -> list[Path]:
    """The top-level packages (folders, or single files) of a distribution: those of its entry points."""
    values = [entry.value for entry in entries().found if entry.distribution == distribution]
    tops = {value.partition(":")[0].partition(".")[0].strip() for value in values}
    found = {HOME} if distribution == "sgmcmc-bench" else set()
    for top in tops or {distribution.replace("-", "_")}:
        try:
            loaded = sys.modules.get(top)
            spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(top)
        except (ImportError, ValueError):
            continue
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            path = Path(spec.origin).resolve()
            found.add(path.parent if path.name == "__init__.py" else path)
    return sorted(found)


def _changed(root: Path, packages: list[Path]) -> bool:
    return bool(_git(root, "status", "--porcelain", "--", *map(str, packages)))


def _counterpart(checkout: Path, package: Path) -> Path:
    """Where an installed package lies in the checkout that it was installed from: at its root, or in src/."""
    inside = checkout / "src" / package.name
    return inside if inside.exists() else checkout / package.name


def _equal(package: Path, other: Path) -> bool:
    """Whether two packages have the same source."""
    return _contents(package) == _contents(other)


def _contents(package: Path) -> dict[str, bytes]:
    files = [package] if package.is_file() else [p for p in package.rglob("*") if p.suffix in SUFFIXES]
    return {path.relative_to(package.parent).as_posix(): path.read_bytes() for path in files}


def _origin(distribution: str) -> dict[str, Any]:
    """What pip wrote down about where it installed from (PEP 610)."""
    try:
        text = importlib.metadata.distribution(distribution).read_text("direct_url.json")
        record = json.loads(text or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _root(path: Path) -> Path | None:
    """The root of the git checkout that holds `path`."""
    folder = path if path.is_dir() else path.parent
    found = _git(folder, "rev-parse", "--show-toplevel") if folder.is_dir() else None
    return Path(found) if found else None


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of a git command that writes nothing; None where it fails or there is no git."""
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
