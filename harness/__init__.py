"""The public API of sgmcmc-bench: everything that a plugin author needs.

`__init__.pyi` lists the names. Importing this package imports neither torch nor any plugin; a name is resolved when it
is first used.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOME = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as \2$", _STUB, re.MULTILINE)}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    module = importlib.import_module(_HOME[name])
    if not hasattr(module, name):  # the name is a module of a package
        return importlib.import_module(f"{_HOME[name]}.{name}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
