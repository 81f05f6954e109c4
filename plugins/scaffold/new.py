"""`bench new`: write a package with a sampler, schedule, task or report, to be edited."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import keyword
import shlex
from pathlib import Path
from typing import Annotated

import typer

from harness import Bench, Registry, Result, UsageError, options
from harness.contracts import KINDS as OFFERED
from harness.contracts import name_problem
from harness.reports import suggestions
from plugins.scaffold.package import KINDS, Package, write

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


def new(
    bench: Bench,
    kind: Annotated[
        str, typer.Argument(help="sampler, schedule, task or report.", autocompletion=options.completes(words=KINDS))
    ],
    name: Annotated[str, typer.Argument(help="Name: lower-case letters, digits and hyphens.")],
    into: Annotated[Path | None, typer.Option(help="Folder to create the package in; default: here.")] = None,
) -> Result:
    """Write a package, as a new folder NAME, that installs, works and passes its checks; then edit it.

    Examples:
        bench new sampler my-sampler
        bench new task my-task --into packages
    """
    if kind not in KINDS:
        raise UsageError(f"unknown kind {kind!r:.80}{suggestions(kind, KINDS)}")
    _check_name(name, bench.registry)
    folder = write(Package(kind, name), into or Path())
    shown = shlex.quote(str(folder))
    install = "pip install -e " + shlex.quote(f"{folder if folder.is_absolute() else f'./{folder}'}[test]")
    commands = [command.format(name=name, folder=shown) for command in (install, *NEXT[kind])]
    text = f"made the {kind} {name} in {shown}; edit {shlex.quote(str(folder / 'src'))}, then"
    records = [{"kind": kind, "name": name, "folder": str(folder), "commands": commands}]
    return Result(["\n".join([text, *(f"  {command}" for command in commands)])], records, changed=True)


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
