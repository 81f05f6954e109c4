"""The hash of the code of a plugin's class, computed without importing anything.

It covers, transitively from the class's module:

- the modules that it imports from its own top-level package, from packages that offer plugins, and from any other place
  except site-packages and the standard library (a file beside it, a folder on PYTHONPATH); also the `__init__.py` files
  of their packages that run code;
- the data files (`DATA`) in the folders of packages, and in subfolders that are not packages. A module declares any
  other file that it reads, relative to its folder: `__files__ = ["weights.bin"]`;
- the versions of installed code that the plugins' distributions require or the modules import, transitively, except
  what the harness itself requires (torch, numpy): those versions are recorded and not hashed.

So an edit to any of these makes new run keys, and an edit elsewhere does not. The harness is not covered: it has
`spec.ENGINE`. After an edit that changes no number, a file `equal_sources.json` in the top-level package can map the
new hash to the old one, {hash of the new code: hash of the old code}. The run keys then stay the same.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from packaging.utils import canonicalize_name

from harness.contracts.offers import HARNESS, EntryPoint, entries
from harness.results.environment import required, requirements
from harness.results.spec import PARTS, RunSpec
from harness.system.errors import PluginError
from harness.system.files import read_json

DATA = frozenset({".csv", ".json", ".npy", ".npz", ".safetensors", ".toml"})
"""Suffixes of data files that are hashed with the code beside them: stored truths, tables, weights."""
DECLARED = "__files__"
EQUAL = "equal_sources.json"
_KNOWN = sys.stdlib_module_names | {"harness"}
_INSTALLED = frozenset({"site-packages", "dist-packages"})


def source_hash(target: str) -> str:
    """Return `content_hash`, or the hash of older code if the package declares that it gives the same numbers."""
    return numbers_of(target, content_hash(target))


def numbers_of(target: str, digest: str) -> str:
    """Return the hash that run keys have for code with this hash.

    It is the hash of older code if the installed package declares that this gives the same numbers.
    """
    return _equal(target.partition(":")[0].partition(".")[0]).get(digest, digest)


def equal_code(spec: RunSpec) -> dict[str, str]:
    """Return, by part, the hash of the installed code of a run where that is declared equal to the code of its key."""
    parts = {part: getattr(spec, part) for part in PARTS}
    return {name: code for name, part in parts.items() if (code := content_hash(part.target)) != part.source}


@functools.cache
def content_hash(target: str) -> str:
    """Return the SHA-256 hash of the code of `target` ("package.module:Class"): its files by name, and versions.

    `PluginError` if a module does not parse, or a declared file does not exist.
    """
    files, versions = made_of(target)
    return hash_of({name: path.read_bytes() for name, path in files.items()}, versions)


def hash_of(files: Mapping[str, bytes], versions: Iterable[str]) -> str:
    """Return the hash of files by name and of lines of versions."""
    total = hashlib.sha256()
    for name, content in sorted(files.items()):
        total.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    for line in versions:
        total.update(line.encode())
    return total.hexdigest()


@functools.cache
def made_of(target: str) -> tuple[Mapping[str, Path], Sequence[str]]:
    """Return the files that `content_hash` covers, by name, and its lines of versions."""
    start = target.partition(":")[0]
    packages = plugin_packages()
    hashed = {start.partition(".")[0], *packages}
    files: dict[str, Path] = {}
    installed: set[str] = set()
    queue = [start]
    while queue:
        name = queue.pop()
        if name in files:
            continue
        path = _file(name)
        if path is None:
            if name == start:
                raise PluginError(f"{target}: module {name!r} has no source file")
            continue
        files[name] = path
        beside, imported = _read(name, path)
        files |= beside
        above = name.rpartition(".")[0]
        queue += [above] if above and _runs_code(above) else []
        foreign = packages.get(name.partition(".")[0]) != HARNESS  # a built-in imports what the harness requires
        for module in imported:
            top = module.partition(".")[0]
            if top in hashed or (foreign and is_local(top)):
                queue.append(module)
            elif foreign:
                installed.add(top)
    distributions = {packages[top] for name in files if (top := name.partition(".")[0].partition("/")[0]) in packages}
    return files, [*_versions(distributions, installed)]


@functools.cache
def _read(name: str, path: Path) -> tuple[Mapping[str, Path], Sequence[str]]:
    """Return the data files that belong to a module, by name, and the modules that it imports."""
    tree = _tree(path)
    return _data(name, path) | _declared(name, path, tree), _imports(name, path, tree)


def forget_code() -> None:
    """Let `content_hash` and `made_of` read the code of plugins again."""
    for cached in (content_hash, made_of, _read, _runs_code):
        cached.cache_clear()


@functools.cache
def _equal(top: str) -> Mapping[str, str]:
    """Return the hashes in `equal_sources.json`: new code -> older code that gives the same numbers."""
    file = _file(top)
    path = file.with_name(EQUAL) if file is not None and file.name == "__init__.py" else None
    if path is None or not path.is_file():
        return {}
    equal = read_json(path)
    if equal is None or not all(isinstance(value, str) for value in equal.values()):
        raise PluginError(f"{path} is not a JSON object of hashes")
    return equal


def _versions(distributions: Iterable[str], modules: Iterable[str]) -> list[str]:
    """Return the name and version of each distribution that these require and the harness does not."""
    given = required(HARNESS) | {HARNESS}
    needed = set(map(canonicalize_name, distributions)) - {HARNESS}
    unknown = {top for top in modules if top not in _KNOWN and canonicalize_name(top) not in given}
    if unknown:
        offered = importlib.metadata.packages_distributions()
        needed |= {canonicalize_name(name) for top in unknown for name in offered.get(top, [])}
    further_versions = requirements(tuple(sorted(needed)), given) if needed else {}
    packages = set(map(canonicalize_name, plugin_packages().values()))  # their files are hashed
    further = further_versions.keys() - packages
    if further:  # leave out what the harness's requirements require in turn
        further -= requirements((HARNESS,)).keys()
    return [f"{name} {further_versions[name]}\n" for name in sorted(further)]


@functools.cache
def plugin_packages() -> Mapping[str, str]:
    """Return the top-level packages that offer plugins, with their distributions.

    A class may inherit from a class of another distribution.
    """
    return {_module(entry.value).partition(".")[0]: entry.distribution for entry in _offered()}


@functools.cache
def _entry_point_modules() -> frozenset[str]:
    """Return the modules that entry points name. They list plugins, and are not part of a plugin's code."""
    return frozenset(_module(entry.value) for entry in _offered())


@functools.cache
def _offered() -> Sequence[EntryPoint]:
    """Return the entry points of plugins. The metadata of every installed package is read for them."""
    return entries()[0]


def _module(value: str) -> str:
    return value.partition(":")[0].strip()


def is_local(top: str) -> bool:
    """Return whether a top-level module is not installed, not part of Python, and not required by the harness."""
    spec = None if top in _KNOWN or canonicalize_name(top) in required(HARNESS) else _spec(top)
    if spec is None:
        return False
    places = [spec.origin] if spec.origin and spec.has_location else list(spec.submodule_search_locations or [])
    return bool(places) and all(_INSTALLED.isdisjoint(Path(folder).parts) for folder in places)


def is_installed(module: str) -> bool:
    """Return whether every worker can import a module, because it is installed."""
    top = module.partition(".")[0]
    return top != "__main__" and (top in {"harness", *plugin_packages()} or not is_local(top))


@functools.cache
def _runs_code(package: str) -> bool:
    """Return whether the `__init__.py` of a package runs code, and is not just the module of an entry point."""
    path = _file(package) if package not in _entry_point_modules() else None
    return path is not None and any(not isinstance(node, ast.Expr) for node in _tree(path).body)


def _file(name: str) -> Path | None:
    spec = _spec(name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _spec(name: str) -> ModuleSpec | None:
    """Return what `importlib.util.find_spec` returns, without importing the packages above the module."""
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__spec__ is not None:
        return loaded.__spec__
    package = name.rpartition(".")[0]
    if not package:
        try:
            return importlib.util.find_spec(name)
        except ValueError:  # not a module name, or a module without a spec
            return None
    above = _spec(package)
    places = above.submodule_search_locations if above is not None else None
    return PathFinder.find_spec(name, places) if places is not None else None


def _data(name: str, path: Path) -> dict[str, Path]:
    """Return the data files in the folder of a package's module and its subfolders without Python files, by name."""
    if "." not in name and path.name != "__init__.py":
        return {}  # a module outside any package: the files beside it may belong to anything
    folders = [path.parent, *(p for p in path.parent.iterdir() if p.is_dir() and not any(p.glob("*.py")))]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return {
        f"{package}/{file.relative_to(path.parent).as_posix()}": file
        for folder in folders
        for file in folder.iterdir()
        if file.suffix in DATA and file.name != EQUAL and file.is_file()
    }


def _declared(name: str, path: Path, tree: ast.Module) -> dict[str, Path]:
    """Return the files that a module declares in `__files__`, by name."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not any(
            isinstance(t, ast.Name) and t.id == DECLARED for t in node.targets
        ):
            continue
        try:
            files = {f"{name}/{file}": path.parent / file for file in ast.literal_eval(node.value)}
        except (ValueError, TypeError):
            raise PluginError(f"{path}: line {node.lineno}: {DECLARED} is not a list of file names") from None
        lost = [str(file) for file in files.values() if not file.is_file()]
        if lost:
            raise PluginError(f"{path}: line {node.lineno}: {DECLARED} names {lost[0]}, which is no file")
        return files
    return {}


def _tree(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes())
    except SyntaxError as error:
        raise PluginError(f"{path}: line {error.lineno}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:  # a null byte, or expressions too deep
        raise PluginError(f"{path} does not parse: {error}") from error


def _imports(name: str, path: Path, tree: ast.Module) -> list[str]:
    """Return the names of modules that a file imports. Some of them may be attributes and not modules."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, base] if base else parent)
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names
