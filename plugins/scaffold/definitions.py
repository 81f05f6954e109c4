"""A class that was defined in a script or a notebook, as a plugin file of its own in the results folder.

Workers import that file, never the script or the notebook. It has the class and what its source names, found by name
where the class was defined: functions and classes with their source, modules and what they contain as imports, and
constants that are literals. Its name ends with the hash of its text, so the same definition has the same run keys
wherever it is written, and another definition has others.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import linecache
import re
import symtable
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
from harness import UsageError
from harness.runs import is_installed
from harness.system import write_whole
from harness.system.text import plain

FOLDER = "definitions"
"""The folder of a results folder that has the files."""
_ANNOTATIONS = 0x1000000
"""Flag of code that was compiled with `from __future__ import annotations`: `__future__.annotations.compiler_flag`."""


def keep(cls: type, kind: str, results: Path) -> tuple[Path, str]:
    """Write the plugin file of a class to a results folder, unless it is there; return it and the name of its offer.

    cls   a sampler, schedule or task that no plugin offers
    kind  "samplers", "schedules" or "tasks"

    Raises `UsageError` if its source cannot be had, or if it uses a value that is no literal, whose name is given.
    """
    parts = Parts()
    parts.add(cls.__name__, cls)
    summary = plain((inspect.getdoc(cls) or cls.__name__).partition("\n")[0])
    return parts.keep(kind, cls.__name__, offered_name(cls.__name__), summary, results)


def offered_name(name: str) -> str:
    """Return the name by which a class is offered: `MySampler` is my-sampler."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower().replace("_", "-")
    return words.strip("-")


class Parts:
    """The parts of a module, each once, in an order in which every definition finds what it names."""

    def __init__(self) -> None:
        self.imports = {"from harness import Info, hook"}
        self.constants: list[str] = []
        self.definitions: list[str] = []
        self.future = False
        self._known: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The module."""
        future = ["from __future__ import annotations\n"] if self.future else []
        body = "\n\n\n".join(self.definitions)
        return "\n".join([*future, *sorted(self.imports), "", *self.constants, "", body, ""])

    def keep(self, kind: str, cls: str, name: str, summary: str, results: Path) -> tuple[Path, str]:
        """Write the module with the offer of one of its classes; see the function `keep`."""
        offer = f'    return [Info({name!r}, f"{{__name__}}:{cls}", {summary!r})]\n'
        text = f"{self.text}\n\n@hook\ndef bench_{kind}():\n{offer}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        path = results / FOLDER / f"{name.replace('-', '_')}_{digest}.py"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode())
        return path, f"{path.stem}:{name}"

    def add(self, name: str, value: Any) -> None:
        """Add what a name stands for, and before it all that this needs."""
        if name in self._known:
            if self._known[name] is not value:
                raise UsageError(
                    f"{name!r} names two things in what the class uses; rename one, or write a plugin file"
                )
            return
        self._known[name] = value
        if isinstance(value, types.ModuleType):
            self._import_module(name, value)
        elif (home := _installed(name, value)) is not None:
            self.imports.add(home)
        elif isinstance(value, type | types.FunctionType):
            self._define(name, value)
        else:
            self._constant(name, value)

    def _import_module(self, name: str, module: types.ModuleType) -> None:
        if not is_installed(module.__name__):
            raise UsageError(f"{name} is the module {module.__name__}, which no worker has; {_write(name)}")
        self.imports.add(
            f"import {module.__name__}" if name == module.__name__ else f"import {module.__name__} as {name}"
        )

    def _define(self, name: str, value: Any) -> None:
        if value.__name__ != name or "." in value.__qualname__:
            raise UsageError(f"{value.__qualname__} is not defined at the top level as {name}; {_write(name)}")
        source, function = _source(value)
        self.future = self.future or bool(function.__code__.co_flags & _ANNOTATIONS)
        space = function.__globals__
        for used in _names(source):
            if used != name and used in space and space[used] is not getattr(builtins, used, space):
                self.add(used, space[used])
        self.definitions.append(source)

    def _constant(self, name: str, value: Any) -> None:
        text = repr(value)
        try:
            same = ast.literal_eval(text) == value
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            same = False
        if not same:
            kind = type(value).__name__
            raise UsageError(f"the class uses {name}, a live {kind} that is no literal; {_write(name)}")
        self.constants.append(f"{name} = {text}")


def _write(name: str) -> str:
    return f"write the class with {name} to a file of its own, and give that: Bench(plugins=['FILE.py'])"


def _installed(name: str, value: Any) -> str | None:
    """Return the import of a class, a function or another object of an installed module; None if it has none."""
    module = getattr(value, "__module__", None)
    qualified = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    if not isinstance(module, str) or not isinstance(qualified, str) or not is_installed(module):
        return None
    for public in (harness, harness.tasks, harness.reports):
        if qualified in dir(public) and getattr(public, qualified) is value:
            module = public.__name__
    if not qualified or "." in qualified or getattr(sys.modules.get(module), qualified, None) is not value:
        return None
    return f"from {module} import {qualified}" + (f" as {name}" if name != qualified else "")


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """Yield a function, or the functions in the body of a class, without those that `dataclass` made."""
    members = [value] if isinstance(value, types.FunctionType) else vars(value).values()
    for member in members:
        inner = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
        if isinstance(inner, types.FunctionType) and inner.__code__.co_filename != "<string>":
            yield inner


def _source(value: Any) -> tuple[str, types.FunctionType]:
    """Return the source of a class or function with its decorators, and a function of it. Raises `UsageError`."""
    function = next(_functions(value), None)
    if function is None:
        raise UsageError(f"{value.__name__} has no function, by which its source is found; {_write(value.__name__)}")
    lines = linecache.getlines(function.__code__.co_filename)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:  # a cell with commands of the notebook itself
        tree = ast.Module([], [])
    kind = ast.FunctionDef if isinstance(value, types.FunctionType) else ast.ClassDef
    nodes = [node for node in tree.body if isinstance(node, kind) and node.name == value.__name__]
    if not nodes:
        raise UsageError(f"the source of {value.__name__} cannot be found; {_write(value.__name__)}")
    node = nodes[-1]
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "".join(lines[first - 1 : node.end_lineno]).rstrip(), function


def _names(source: str) -> list[str]:
    """Return the names outside it that a definition reads, in order, also those within annotations."""
    tree = ast.parse(source)
    read = _globals(symtable.symtable(source, "<definition>", "exec"))
    for node in ast.walk(tree):
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if annotation is not None:
                read |= {part.id for part in ast.walk(annotation) if isinstance(part, ast.Name)}
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return [name for name in dict.fromkeys(names) if name in read]


def _globals(scope: symtable.SymbolTable) -> set[str]:
    """Return the names that a scope, or one within it, reads from outside the definition."""
    # Symbols of a function named `top`, as symtable calls a module's scope, are global and local at once.
    read = {name.get_name() for name in scope.get_symbols() if name.is_global() and not name.is_local()}
    return read.union(*map(_globals, scope.get_children()))
