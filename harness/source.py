"""The hash of the code behind a plugin's class, found without importing anything.

It covers the class's module and, transitively, the modules that it imports from its own top-level package and from
packages that offer plugins; and the data files (`DATA`) that lie with them, in folders that are no packages. So an edit
to any of them makes new run keys, and an edit elsewhere does not. The harness is left out: it has `spec.ENGINE`.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from harness.entries import entries
from harness.errors import PluginError

DATA = frozenset({".csv", ".json", ".npy", ".npz", ".safetensors", ".toml"})
"""Suffixes of files that belong to the code beside them: stored truths, tables, weights."""


@functools.cache
def source_hash(target: str) -> str:
    """SHA-256 over (name, file bytes) of everything that `target` ("package.module:Class") is made of."""
    start = target.partition(":")[0]
    rooms = {start.partition(".")[0], *_plugin_rooms()} - {"harness"}
    found: dict[str, Path] = {}
    queue = [start]
    while queue:
        name = queue.pop()
        if name in found:
            continue
        path = _file(name)
        if path is None:
            if name == start:
                raise PluginError(f"{target}: module {name!r} has no source file")
            continue
        found[name] = path
        queue.extend(module for module in _imports(name, path) if module.partition(".")[0] in rooms)
        found |= _data(name, path)
    total = hashlib.sha256()
    for name, path in sorted(found.items()):
        total.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


@functools.cache
def _plugin_rooms() -> frozenset[str]:
    """The top-level packages that offer plugins: a class may inherit from another distribution's."""
    return frozenset(entry.value.partition(":")[0].partition(".")[0].strip() for entry in entries().found)


def _file(name: str) -> Path | None:
    spec = _spec(name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _spec(name: str) -> ModuleSpec | None:
    """As `importlib.util.find_spec`, which would import the packages, or what it takes for one, above the module."""
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__spec__ is not None:
        return loaded.__spec__
    package = name.rpartition(".")[0]
    if not package:
        try:
            return importlib.util.find_spec(name)
        except ValueError:  # no name, or a module without a spec
            return None
    above = _spec(package)
    places = above.submodule_search_locations if above is not None else None
    return PathFinder.find_spec(name, places) if places is not None else None


def _data(name: str, path: Path) -> dict[str, Path]:
    """The data files in the folder of a package's module, and in folders there without Python files, by name."""
    if "." not in name and path.name != "__init__.py":
        return {}  # a file on its own: what lies beside it may be anything
    folders = [path.parent, *(p for p in path.parent.iterdir() if p.is_dir() and not any(p.glob("*.py")))]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return {
        f"{package}/{file.relative_to(path.parent).as_posix()}": file
        for folder in folders
        for file in folder.iterdir()
        if file.suffix in DATA and file.is_file()
    }


def _imports(name: str, path: Path) -> list[str]:
    """Names of modules that a file imports; some may be attributes, not modules."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: list[str] = []
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError as error:
        raise PluginError(f"{path}: line {error.lineno}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:  # a null byte, or expressions too deep
        raise PluginError(f"{path} does not parse: {error}") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, base] if base else parent)
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return found
