"""`bench report`: make a report of the results, as text on stdout or as files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import context
from harness.cli.options import Several, check_known, words
from harness.contracts.hookspecs import Info
from harness.contracts.plugin_errors import plugin_code
from harness.contracts.registry import load
from harness.reporting import rendering
from harness.reporting.rendering import SUFFIXES, figures
from harness.reporting.report import Figure, Report, Request, Result
from harness.results.store import Store
from harness.runs.plugin_metadata import protocols
from harness.system.errors import DataError, PluginError
from harness.system.files import write_set


def report(
    name: Annotated[str, typer.Argument(help="The report; `bench ls reports` lists them.")],
    task: Annotated[list[str] | None, typer.Option(help="Only these tasks, a,b,c; also TASK@PROTOCOL.")] = None,
    method: Several = None,
    protocol: Several = None,
    metric: Annotated[str | None, typer.Option(help="Rank by this metric.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A file, or a folder for text and figures; no figure is drawn without it.")
    ] = None,
) -> Result | None:
    """Make a report; `bench ls reports` lists them. The ending of --out is a format too."""
    form = context.current().form or _format_of(out)
    made = load_report(name)
    store = context.store()
    request = _request(store, task, method, protocol, metric)
    with plugin_code(f"report {name} failed"):
        result = made.build(store, request)
    if not isinstance(result, Result):
        raise PluginError(f"report {name}: build returned a {type(result).__name__}, not a harness.Result")
    notes = [f"note: {note}" for note in result.notes]
    if not result.tables and not result.records and not result.figures:
        notes.append(_nothing(store, name, filtered=bool(task or method or protocol)))
    if out is None:
        if result.figures:
            notes.append(f"{context.count(len(result.figures), 'figure')} not drawn; --out FOLDER writes them")
        return replace(result, notes=notes)
    with plugin_code(f"report {name} cannot be shown as {form}"):
        text = rendering.render(result, form)
    for note in notes:
        context.say(note)
    file = _place(out, name, rendering.SUFFIXES[form])
    if file.exists():
        file = file.resolve()  # the text goes where a link leads
        if not file.is_file():
            raise DataError(f"cannot write {file}: it is not an ordinary file; choose another --out")
    _write(file, text, () if form in {"csv", "json"} else result.figures)
    return None


def load_report(name: str) -> Report:
    """The report of that name; raises `UsageError` or `PluginError`."""
    offer = context.plugins().find("reports", name)
    assert isinstance(offer.info, Info)
    here = f"report {name} ({offer.distribution})"
    with plugin_code(here):
        made = load(offer.info.target)()
    if not isinstance(made, Report):
        raise PluginError(f"{here}: {offer.info.target} does not derive from harness.Report")
    return made


def _request(
    store: Store,
    tasks: Sequence[str] | None,
    methods: Sequence[str] | None,
    protocols: Sequence[str] | None,
    metric: str | None,
) -> Request:

    registry = context.plugins()
    seen = store.rows("select distinct task, method, protocol from run")
    asked = words(tasks)
    named = [word.partition("@")[0] for word in asked]
    wanted = [*words(protocols), *(word.partition("@")[2] for word in asked if "@" in word)]
    check_known("task", named, {r["task"] for r in seen} | {o.name for o in registry.offers("tasks")})
    check_known("method", words(methods), {r["method"] for r in seen} | _methods())
    check_known("protocol", wanted, {r["protocol"] for r in seen} | (_protocols(named) if wanted else set()))
    return Request(
        tasks=tuple(dict.fromkeys(named)),
        methods=tuple(words(methods)),
        protocols=tuple(dict.fromkeys(wanted)),
        metric=metric,
        registry=registry,
    )


def _methods() -> set[str]:
    registry = context.plugins()
    return {offer.name for kind in ("samplers", "methods") for offer in registry.offers(kind)}


def _protocols(tasks: Iterable[str]) -> set[str]:

    chosen = set(tasks)
    offers = [offer for offer in context.plugins().offers("tasks") if not chosen or offer.name in chosen]
    return {protocol["name"] for offer in offers for protocol in protocols(offer)}


def _nothing(store: Store, name: str, *, filtered: bool) -> str:
    here = context.current().results
    rows = store.rows("select distinct task, protocol from result order by all")
    if not rows:
        return f"no finished runs in {here} yet; for a first one: bench run --sampler NAME --task NAME"
    places = ", ".join(f"{row['task']}@{row['protocol']}" for row in rows)
    what = "of what was asked for" if filtered else f"that {name} is about"
    return f"no results {what} in {here}; there are results of {places}"


def _format_of(out: Path | None) -> str:

    means = {suffix: form for form, suffix in SUFFIXES.items()}
    return means.get(out.suffix.lower(), "table") if out is not None and not out.is_dir() else "table"


def _place(out: Path, name: str, suffix: str) -> Path:
    """The file for the text: `out` itself, or a file in it if it is a folder."""
    return out if out.suffix and not out.is_dir() else out / f"{name}{suffix}"


def _write(file: Path, text: str, drawn: Iterable[Figure]) -> None:

    names: list[str] = []
    files = {file.name: text.encode()}
    for figure in drawn:
        names.append(figures.unused(figure.name, names))
        files |= figures.files(figure, names[-1])
    try:
        write_set(file.parent, files)
    except OSError as error:
        raise DataError(f"cannot write {error.filename or file}: {error.strerror}; choose another --out") from error
    for name in files:
        context.say(f"wrote {file.parent / name}")
