"""Files that a plugin's code reads although no run key covers their content.

Python reports each file that is opened. One that code of a plugin reads is covered if it is hashed with the plugin's
code (`source`), is declared in the task's `datasets` or named by a setting of the kind "file", or belongs to Python or
to an installed package. Files that the process made itself are its own. Libraries that open files without Python
(Polars, HDF5) are not seen.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import harness
from harness.contracts import plugin_process, user_files
from harness.contracts.data import DataFile, data_root
from harness.runs.source import made_of, plugin_packages
from harness.system.errors import PluginError

if TYPE_CHECKING:
    from types import FrameType

MOST = 1000
"""Number of files that are remembered."""
CODE = (".py", ".pyc", ".so", ".pyd")
SYSTEM = ("/proc/", "/dev/", "/sys/", "/etc/", "/usr/lib/", "/usr/share/")
COMPILERS = ("torch._inductor", "torch._dynamo", "triton")
"""Modules that read what they compiled before, on behalf of whoever called them."""
IMPORTING = "importlib._bootstrap"

_read: dict[str, tuple[str, bool]] = {}
"""Files that plugins' code has read: real path -> the module that read it, and whether that was during an import."""
_written: set[str] = set()
_HARNESS = str(Path(harness.__file__).parent) + os.sep


@functools.cache
def watch() -> None:
    """Begin to record the files that plugins' code reads in this process. An audit hook cannot be removed."""
    _libraries(), plugin_packages()  # worked out here, and not while a file is being opened
    sys.addaudithook(_audit)


def forget() -> None:
    """Forget the files that other plugins of this process have read, but not those that importing a module reads."""
    for path in [path for path, (_, importing) in _read.items() if not importing]:
        del _read[path]


def uncovered(targets: Iterable[str], data: Iterable[DataFile] = (), files: Iterable[str] = ()) -> list[str]:
    """Return the recorded files that are not covered by the run key of a run of these plugins.

    `data` are the declared data files, `files` the identified ones of settings. The readers are modules of `targets`.
    """
    if not _read:
        return []
    covered = {os.path.realpath(data_root() / file.path) for file in data}
    covered |= {os.path.realpath(user_files.locate(file)) for file in files}
    modules: set[str] = set()
    for target in targets:
        try:
            hashed, _ = made_of(target)
        except PluginError:  # it has no source file
            hashed = {}
        modules |= {target.partition(":")[0], *hashed}
        covered |= {os.path.realpath(path) for path in hashed.values()}
    return [path for path, (module, _) in _read.items() if path not in covered and module in modules]


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not isinstance(arguments[0], str | bytes):
        return
    name, flags = os.fsdecode(arguments[0]), arguments[2]
    if flags & os.O_CREAT and not Path(path := os.path.realpath(name)).exists():
        _written.add(path)
    if flags & os.O_ACCMODE == os.O_WRONLY or len(_read) >= MOST:
        return
    frame = sys._getframe(1)  # noqa: SLF001 - the only way to find who opens it
    module = _reader(frame)
    if not module:
        return  # most files are opened by the harness: only those of plugins are worth their real path
    path = os.path.realpath(name)
    if path in _written or path in _read or path.endswith(CODE) or path.startswith(SYSTEM) or not Path(path).is_file():
        return
    if _is_plugins(module, path) or not path.startswith(_libraries()):
        _read[path] = module, any(f.f_globals.get("__name__") == IMPORTING for f, _ in traceback.walk_stack(frame))


def _reader(frame: FrameType | None) -> str:
    """Return the name of the plugin's module that caused an event; "" if it was the harness or a compiler."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        file = frame.f_code.co_filename
        if file.startswith(_HARNESS) or name.startswith(COMPILERS):
            return ""
        if _is_plugins(name, file) or not _is_library(file):
            return name
        frame = frame.f_back
    return ""


def _is_plugins(module: str, file: str) -> bool:
    """Return whether a module, and a file of its package, are a plugin's although they may be installed."""
    top = module.partition(".")[0]
    return top in plugin_process.FILES or (top in plugin_packages() and f"{os.sep}{top}{os.sep}" in file)


@functools.cache
def _is_library(file: str) -> bool:
    """Return whether code, by its file, is of Python, of an installed package or of no file."""
    return file.startswith("<") or os.path.realpath(file).startswith(_libraries())


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Return the folders of Python and of installed packages."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    places = {sysconfig.get_paths()[name] for name in names} | {path for path in sys.path if "-packages" in path}
    return tuple(sorted(os.path.realpath(folder) + os.sep for folder in places))
