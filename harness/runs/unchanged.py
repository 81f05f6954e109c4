"""Whether what measures a run is unchanged after plugins from outside the distribution were loaded.

The tables of modules and classes, and the code of functions, are compared as objects. They are noted before such a
plugin is imported. A run of built-in code alone notes nothing.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
import threading
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter, is_not
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.contracts.offers import HARNESS
from harness.contracts.registry import registry
from harness.results.spec import RunSpec
from harness.runs.source import made_of
from harness.system.errors import PluginError
from harness.system.import_path import PACKAGES

OURS = ("harness", *PACKAGES)
LIBRARIES = ("builtins", "math", "numpy", "safetensors", "scipy.special", "scipy.stats", "torch")
_UNUSED = (
    "_C._distributed _decomp _dynamo _export _functorch.apis _functorch.vmap _higher_order_ops _inductor _prims _refs "
    "_subclasses ao compiler cuda distributed distributions export fx jit onnx optim package profiler sparse testing"
)
UNUSED = ("numpy.f2py", "numpy.testing", *(f"torch.{name}" for name in _UNUSED.split()))
"""Parts of torch that no result is measured with; tensordict changes some of them."""
MADE_LATE = ("__abstractmethods__", "__annotations__", "__annotations_cache__", "__slotnames__")
"""Entries that Python adds to the tables of classes."""
STATES = {
    "the functions that torch calls first": torch._C._len_torch_function_stack,  # noqa: SLF001 - there is no other way
    "the dispatcher of torch": torch._C._len_torch_dispatch_stack,  # noqa: SLF001
    "the kernels of torch": lambda: {n for n in torch.library._impls if n[:5] == "aten/" and n[-5:] != "/Meta"},  # noqa: SLF001
    "torch's default dtype": torch.get_default_dtype,
    "numpy's handling of errors": np.geterr,
    "what sys.settrace sets": sys.gettrace,
    "what sys.setprofile sets": sys.getprofile,
    "what threading.settrace sets": lambda: threading._trace_hook,  # type: ignore[attr-defined]  # noqa: SLF001
}
"""Settings of the process that change what unchanged code computes."""
PLAIN = (bool, int, float, complex, str, bytes, type(None), tuple, list, dict, set, frozenset)
WRAPPERS: dict[type, str] = {
    staticmethod: "__func__", classmethod: "__func__", property: "fget", functools.cached_property: "func",
    type(functools.cache(len)): "__wrapped__", type(np.mean): "_implementation",
}  # fmt: skip
"""The attribute by which objects of these classes hold the function that they call."""
_ABSENT = object()


@dataclass(frozen=True, eq=False)
class Table:
    """The entries of a module, a class or a dictionary, at one time; `values` keeps the objects alive."""

    name: str
    now: Mapping[Any, Any]
    keys: tuple[Any, ...]
    values: tuple[Any, ...]
    ids: list[int]
    ours: bool

    def differing(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and the present value of each entry that something else has replaced, removed or hidden."""
        if [*map(id, self.now.values())] == self.ids and tuple(self.now) == self.keys:
            return
        before, now = dict(zip(self.keys, self.values, strict=True)), dict(self.now)
        for key in [*before, *(now.keys() - before.keys())]:
            old, new = before.get(key, _ABSENT), now.get(key, _ABSENT)
            if old is not new and self._matters(key, old, new) and not _is_wrapper(new, old):
                yield f"{self.name}.{key}", None if new is _ABSENT else new

    def _matters(self, key: Any, old: Any, new: Any) -> bool:
        if old is not _ABSENT:
            return (self.ours and isinstance(old, PLAIN) and bool(old)) or not isinstance(old, PLAIN)
        if not isinstance(self.now, types.MappingProxyType):  # a module's entry that was not there can hide a builtin
            return hasattr(builtins, str(key)) or (self.ours and callable(new) and not _is_own(new))
        return key not in MADE_LATE and not isinstance(new, PLAIN)


def _is_wrapper(new: Any, old: Any) -> bool:
    """Return whether a function of torch replaces another one that it calls, as torch's compiler does at its import."""
    code = getattr(new, "__code__", None)
    in_torch = code is not None and Path(code.co_filename).is_relative_to(Path(torch.__file__).parent)
    return in_torch and any(value is old for _, _, value in _cells([new]))


def _is_own(value: Any) -> bool:
    """Return whether a function or class is the one that its module has, of a package that is compared."""
    home = sys.modules.get(getattr(value, "__module__", None) or "")
    return home is not None and _compared(home.__name__) and getattr(home, value.__name__, None) is value


@functools.cache
def _compared(module: str) -> bool:
    of = (module.startswith((f"{name}.", name)) for name in LIBRARIES)
    return module.partition(".")[0] in OURS or (any(of) and not module.startswith(UNUSED))


@dataclass(frozen=True, eq=False)
class Unchanged:
    """What measures, as it was before plugins were loaded. `plugins` has their names by the top-level module."""

    modules: Mapping[str, types.ModuleType]
    tables: Sequence[Table]
    functions: Sequence[types.FunctionType]
    code: Mapping[str, Sequence[Any]]
    cells: Sequence[tuple[types.FunctionType, types.CellType, Any]]
    states: Mapping[str, Any]
    plugins: dict[str, str]

    def check(self) -> None:
        """Raise `PluginError`, which says what was changed and by which plugin, unless all is as it was."""
        for name, value in self._changes():
            raise PluginError(
                f"{name} was changed by {self._author(value)}: results are measured with unchanged code "
                f"of {HARNESS}, torch and numpy only (RULES.md 7)"
            )

    def _changes(self) -> Iterator[tuple[str, Any]]:
        yield from ((name, sys.modules.get(name)) for name, m in self.modules.items() if sys.modules.get(name) is not m)
        for table in self.tables:
            yield from table.differing()
        for part, noted in self.code.items():
            changed = compress(self.functions, map(is_not, map(attrgetter(part), self.functions), noted))
            yield from ((f"{part} of {function.__module__}.{function.__qualname__}", function) for function in changed)
        for function, cell, value in self.cells:
            if cell.cell_contents is not value:
                yield f"what {function.__module__}.{function.__qualname__} wraps", cell.cell_contents
        yield from ((name, None) for name, ask in STATES.items() if ask() != self.states[name])

    def _author(self, value: Any) -> str:
        """Return the plugin that a value comes from, or all plugins of the run."""
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        of = [str(getattr(value, "__module__", "")).partition(".")[0], *Path(getattr(code, "co_filename", "")).parts]
        known = [name for top, name in self.plugins.items() if top in of or f"{top}.py" in of]
        return " or ".join(known or self.plugins.values())


def watch(specs: Sequence[RunSpec], files: tuple[str, ...] = ()) -> Unchanged | None:
    """Note what measures, before the plugins of runs are imported. None if the runs have built-in code only.

    What was noted first in a process counts. `files` are one-off plugins.
    """
    targets = {part.target: part.name for spec in specs for part in (spec.sampler, spec.schedule, spec.task)}
    for name in {spec.warm_start for spec in specs if spec.warm_start}:
        targets[registry(files).target("samplers", name)] = name
    return note_code(targets)


def note_code(targets: Mapping[str, str]) -> Unchanged | None:
    """Note what measures, before classes are imported; `targets` has their names. None if all are built in."""
    foreign = {target: name for target, name in targets.items() if target.partition(".")[0] not in OURS}
    if not foreign and not _noted.cache_info().currsize:
        return None
    for target in targets.keys() - foreign:  # its modules are noted too, as long as nobody has changed them
        for module in made_of(target)[0]:
            if module.partition(".")[0] in OURS and "/" not in module:  # others are data files
                importlib.import_module(module)
    noted = _noted()
    for target, name in foreign.items():
        noted.plugins[target.partition(":")[0].partition(".")[0]] = f"the plugin of {name} ({target})"
    return noted


@functools.cache
def _noted() -> Unchanged:
    modules = {name: module for name, module in sys.modules.items() if _compared(name)}
    held: list[tuple[str, Mapping[str, Any], bool]] = [
        (name, vars(module), name.partition(".")[0] in OURS) for name, module in modules.items()
    ]
    classes: dict[type, str] = {}
    functions: dict[types.FunctionType, None] = {}
    for _, table, _ in held:
        for value in table.values():
            if isinstance(value, type) and _compared(value.__module__ or ""):
                classes[value] = f"{value.__module__}.{value.__qualname__}"
    held += [(name, vars(cls), name.partition(".")[0] in OURS) for cls, name in classes.items()]
    held += [
        (f"{name}.{key}", value, True)
        for name, table, ours in held
        if ours
        for key, value in table.items()
        if type(value) is dict and value and not str(key).startswith("__")
    ]
    for _, table, _ in held:
        for value in table.values():
            one = getattr(value, WRAPPERS[type(value)]) if type(value) in WRAPPERS else value
            if isinstance(one, types.FunctionType):
                functions[one] = None
    tables = [
        Table(name, table, tuple(table), (values := tuple(table.values())), [*map(id, values)], ours)
        for name, table, ours in held
    ]
    states = {name: ask() for name, ask in STATES.items()}
    code = {part: [*map(attrgetter(part), functions)] for part in ("__code__", "__defaults__", "__kwdefaults__")}
    return Unchanged(modules, tables, [*functions], code, [*_cells(functions)], states, {})


def _cells(functions: Iterable[types.FunctionType]) -> Iterator[tuple[types.FunctionType, types.CellType, Any]]:
    """Yield the functions and classes that functions wrap, each with its cell."""
    for function in functions:
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # it is empty
                if callable(cell.cell_contents):
                    yield function, cell, cell.cell_contents
