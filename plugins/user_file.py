"""A Python file of the user as a module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness import UsageError
from harness.contracts import plugin_code

if TYPE_CHECKING:
    from types import ModuleType

MODULE = "file_of_the_user"


def loaded(file: Path, hint: str) -> ModuleType:
    """Return the module of a file, which may import its neighbours.

    Raises `UsageError`, which ends with the hint, if it is no Python file, and `PluginError` if it fails.
    """
    spec = importlib.util.spec_from_file_location(MODULE, file) if file.suffix == ".py" else None
    if spec is None or spec.loader is None or not file.is_file():
        raise UsageError(f"{file} is not a Python file; {hint}")
    module = sys.modules[MODULE] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent.absolute()))
    try:
        with plugin_code(str(file)):
            spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module
