"""sgmcmc-bench: the public face of the harness, everything that a plugin author needs.

`__init__.pyi` lists the names. Importing this package imports neither torch nor any plugin; a name is resolved when it
is first used.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_HOME = {alias.name: node.module for node in _STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    module = importlib.import_module(str(_HOME[name]))
    if not hasattr(module, name):  # a module within a package
        return importlib.import_module(f"{_HOME[name]}.{name}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
