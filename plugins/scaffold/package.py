"""`bench new`: a package with a sampler, schedule, task or report, from the templates beside this file.

It is filled in memory, then written as a folder in one operation. A model is one file, for `bench compare-on`.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import importlib.util
import keyword
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from harness import Bench, Registry, Result, UsageError, options
from harness.contracts import KINDS as OFFERED
from harness.contracts import name_problem
from harness.reports import suggestions
from harness.system import write_folder, write_whole
from harness.system.files import holds

TEMPLATES = Path(__file__).parent / "templates"
KINDS = {
    "sampler": "stochastic gradient Langevin dynamics",
    "schedule": "a cosine decay of the step size",
    "task": "a correlated Gaussian with noisy gradients",
    "report": "what runs cost, method by method",
}
"""The kinds of packages, and what each one contains as generated."""

MODEL = "model"
NEXT = {
    "sampler": ("bench check {name}", "bench run --sampler {name},sgld --task mixture5"),
    "schedule": (
        "python -m pytest {folder}",
        "bench run --sampler sgld --schedule {name} --set schedule.step_size=0.05 --task mixture5",
    ),
    "task": ("bench check {name}", "bench run --sampler sgld --task {name}"),
    "report": ("python -m pytest {folder}", "bench report {name}"),
}
"""For each kind, the commands that check it and use it once it is installed."""


@dataclass(frozen=True)
class Package:
    """A package to write: its kind, and its name, from which the names of module and class are formed."""

    kind: str
    name: str

    @property
    def module(self) -> str:
        """The import name: my_sgld for my-sgld."""
        return self.name.replace("-", "_")

    @property
    def cls(self) -> str:
        """The class name: MySgldSampler for my-sgld. The kind at its end avoids all names of the harness."""
        return "".join(word.capitalize() for word in [*self.name.split("-"), self.kind])

    def files(self) -> dict[str, str]:
        """Return the text of each file, by its path below the package's folder."""
        places = {
            "pyproject.toml": "pyproject.toml",
            "README.md": f"{self.kind}/README.md",
            f"src/{self.module}/__init__.py": "init.py",
            f"src/{self.module}/{self.kind}.py": f"{self.kind}/{self.kind}.py",
            f"tests/test_{self.module}.py": f"{self.kind}/test.py",
        }
        words = {"kind": self.kind, "name": self.name, "module": self.module, "cls": self.cls}
        words |= {"summary": KINDS[self.kind], "bench": importlib.metadata.version("sgmcmc-bench")}
        return {
            path: Template((TEMPLATES / f"{template}.template").read_text(encoding="utf-8")).substitute(words)
            for path, template in places.items()
        }


def write(package: Package, into: Path) -> Path:
    """Write the package as a new folder with its name in `into`, which is created if needed, and return that folder.

    If that folder has these very files and no others, nothing is done: an earlier command was stopped at its end.

    Raise `UsageError` if the folder exists otherwise or cannot be written; then nothing is left behind.
    """
    folder = into / package.name
    files = {path: text.encode() for path, text in package.files().items()}
    created: list[Path] = []
    try:
        for missing in _missing(into):
            missing.mkdir()
            created.append(missing)
        write_folder(folder, files)
    except BaseException as error:
        for parent in reversed(created):
            with suppress(OSError):
                parent.rmdir()
        if isinstance(error, OSError) and error.errno in {errno.EEXIST, errno.ENOTEMPTY}:
            if _holds(folder, files):
                return folder
            raise UsageError(f"{folder} already exists, and nothing is overwritten; choose another name") from error
        if isinstance(error, OSError):
            what = f"{error.filename or folder}: {error.strerror or error}"
            raise UsageError(f"{what}; choose another folder by --into DIR") from error
        raise
    return folder


def _holds(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Return whether a folder has exactly these files."""
    there = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    named = {str(path.relative_to(folder)) for path in there} == files.keys()
    return named and all(holds(folder / name, hashlib.sha256(content).hexdigest()) for name, content in files.items())


def _missing(folder: Path) -> list[Path]:
    """Return the folder and its parents that do not exist, from the top."""
    return [*reversed([parent for parent in (folder, *folder.parents) if not parent.exists()])]


def new(
    bench: Bench,
    kind: Annotated[
        str,
        typer.Argument(
            help="sampler, schedule, task, report or model.", autocompletion=options.completes(words=[*KINDS, MODEL])
        ),
    ],
    name: Annotated[
        str | None, typer.Argument(help="Name: lower-case letters, digits and hyphens; of a model, my-model.")
    ] = None,
    into: Annotated[Path | None, typer.Option(help="Folder to create the package in; default: here.")] = None,
) -> Result:
    """Write a package, as a new folder NAME, that installs, works and passes its checks; then edit it.

    A model is one file, NAME.py, with a network and data, for `bench compare-on`.

    Examples:
        bench new sampler my-sampler
        bench new task my-task --into packages
        bench new model
    """
    if kind not in (*KINDS, MODEL):
        raise UsageError(f"unknown kind {kind!r:.80}{suggestions(kind, [*KINDS, MODEL])}")
    name = name or ("my-model" if kind == MODEL else "")
    _check_name(name, bench.registry)
    if kind == MODEL:
        return _new_model(name, into or Path())
    folder = write(Package(kind, name), into or Path())
    shown = shlex.quote(str(folder))
    install = "pip install -e " + shlex.quote(f"{folder if folder.is_absolute() else f'./{folder}'}[test]")
    commands = [command.format(name=name, folder=shown) for command in (install, *NEXT[kind])]
    text = f"made the {kind} {name} in {shown}; edit {shlex.quote(str(folder / 'src'))}, then"
    records = [{"kind": kind, "name": name, "folder": str(folder), "commands": commands}]
    return Result(["\n".join([text, *(f"  {command}" for command in commands)])], records, changed=True)


def _new_model(name: str, into: Path) -> Result:
    """Write the file of a model, unless it is there with this content. `UsageError` if it is another file."""
    file = into / f"{name.replace('-', '_')}.py"
    text = (TEMPLATES / MODEL / "model.py.template").read_text(encoding="utf-8")
    try:
        if file.exists() and file.read_text(encoding="utf-8", errors="replace") != text:
            raise UsageError(f"{file} already exists, and nothing is overwritten; choose another name")
        into.mkdir(parents=True, exist_ok=True)
        write_whole(file, text.encode())
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}; choose another folder by --into DIR") from error
    commands = [f"bench compare-on {shlex.quote(str(file))}"]
    records = [{"kind": MODEL, "name": name, "folder": str(into), "commands": commands}]
    return Result([f"made the model {file}; edit it, then\n  {commands[0]}"], records, changed=True)


def _check_name(name: str, registry: Registry) -> None:
    """Raise `UsageError` if a package of this name could not be installed beside the existing ones."""
    if problem := name_problem(name) or (f"{name!r} must not end in a hyphen" if name.endswith("-") else ""):
        raise UsageError(f"name {problem}")
    for offered in OFFERED:
        for offer in registry.offers(offered):
            if offer.name == name:
                raise UsageError(
                    f"there is a {offered[:-1]} {name!r} already, of {offer.distribution}; choose another name"
                )
    if keyword.iskeyword(name):
        raise UsageError(f"{name!r} cannot be the name of a Python package; choose another name")
    if _importable(name.replace("-", "_")) or _installed(name):
        raise UsageError(f"a Python package {name!r} is installed already; choose another name")


def _importable(module: str) -> bool:
    """Return whether a module of that name exists; a folder in the current directory does not count."""
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
