"""`bench cite`: the BibTeX of the papers behind results, or behind samplers, schedules, methods and tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from operator import itemgetter
from typing import Annotated

import typer

from harness import Bench, Method, Registry, Result, UsageError, registry
from plugins.papers.references import parsed

KINDS = ("samplers", "schedules", "methods", "tasks")
RUNS = """
select distinct unnest([method, schedule, task || '@' || protocol]) as name from result order by name
"""


def _completed(incomplete: str) -> list[str]:
    names = {*_cited(registry()), *registry().names("methods")}
    return [name for name in sorted(names) if name.startswith(incomplete)]


def cite(
    bench: Bench,
    name: Annotated[
        list[str] | None,
        typer.Argument(
            help="Samplers, schedules, methods, tasks (also TASK@PROTOCOL), papers; default: all results'.",
            autocompletion=_completed,
        ),
    ] = None,
) -> Result:
    """Print the BibTeX of the papers behind samplers, schedules, methods, tasks and papers, or behind all results.

    Examples:
        bench cite
        bench cite csgld mixture25
        bench cite csgmcmc
    """
    text = name if isinstance(name, str) else ",".join(name or [])
    names = [word.strip() for word in text.split(",") if word.strip()]
    names = names or [row["name"] for row in bench.store().rows(RUNS)]
    if not names:
        raise UsageError(f"there are no results in {bench.results}; name samplers or tasks: bench cite csgld mixture25")
    known = [facts() for facts in bench.registry.facts("reference")]
    cited_for: dict[str, list[str]] = {}
    without = []
    for one in names:
        subjects = [*_subjects(bench.registry, one)]
        entries = [entry for source in known for subject in subjects for entry in source.get(subject, ())]
        for entry in dict.fromkeys(entries):
            cited_for.setdefault(entry, []).append(one)
        without += [] if entries or f"schedule {one}" in subjects else [one]
    if not cited_for:
        raise bench.registry.unknown("no reference is known for", names[0], _cited(bench.registry))
    rows = sorted(
        ({**asdict(parsed(entry)), "cited_for": cited_for[entry]} for entry in cited_for), key=itemgetter("key")
    )
    notes = [f"no reference is known for {', '.join(without)}"] if without else []
    return Result([row["bibtex"] for row in rows], rows, notes=notes)


def _cited(known: Registry) -> set[str]:
    """Return the names of the samplers, schedules, methods, tasks and papers with a reference of their own."""
    pairs = [subject.split() for facts in known.facts("reference") for subject in facts()]
    return {name for kind, name in pairs if kind != "protocol"}


def _subjects(known: Registry, name: str) -> Iterator[str]:
    """Yield what a name stands for: "sampler sgld"; of a method also its sampler and schedule."""
    bare, _, protocol = name.rpartition(":")[2].partition("@")
    for kind in KINDS:
        bare = known.spelled(bare, known.names(kind))
        for offer in known.offers(kind):
            if offer.name == bare:
                yield f"{kind[:-1]} {bare}"
                if isinstance(offer.info, Method):
                    yield f"sampler {offer.info.sampler}"
                    yield f"schedule {offer.info.schedule}"
    yield f"protocol {protocol}" if protocol else f"paper {bare}"
