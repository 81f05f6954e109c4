"""The names that a package offers, declared in an `__init__.pyi` and resolved when they are first used."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any


def face(package: str, file: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package that offers names of its modules.

    Its `__init__.py` at `file` calls this; the `__init__.pyi` beside it has a line `from module import name as name`
    for each name, and is the only place that lists them. Importing the package imports none of these modules.
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    modules = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as \2$", stub, re.MULTILINE)}

    def resolve(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules[name] == package:  # the name is a module of this package
            return importlib.import_module(f"{package}.{name}")
        module = importlib.import_module(modules[name])
        if not hasattr(module, name):  # the name is a module of a package
            return importlib.import_module(f"{modules[name]}.{name}")
        return getattr(module, name)

    return list(modules), resolve, lambda: sorted(modules)
