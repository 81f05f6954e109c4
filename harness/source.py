"""The hash of the code behind a plugin's class, found without importing it.

It covers the class's module and, transitively, the modules that it imports from its own top-level package; so an edit
to any of them makes new run keys, and an edit elsewhere does not.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import sys
from pathlib import Path

from harness.errors import PluginError


@functools.cache
def source_hash(target: str) -> str:
    """SHA-256 over (module name, file bytes) of everything that `target` ("package.module:Class") is made of."""
    start = target.partition(":")[0]
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
        queue.extend(_imports(name, path))
    total = hashlib.sha256()
    for name, path in sorted(found.items()):
        total.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _file(name: str) -> Path | None:
    try:
        loaded = sys.modules.get(name)
        spec = loaded.__spec__ if loaded is not None and loaded.__spec__ else importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _imports(name: str, path: Path) -> list[str]:
    """Names of modules of the same top-level package that a file imports; some may be attributes, not modules."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    room = name.partition(".")[0]
    found: list[str] = []
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError as error:
        raise PluginError(f"{path}: line {error.lineno}: {error.msg}") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, base] if base else parent)
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return [module for module in found if module.partition(".")[0] == room and module != room]
