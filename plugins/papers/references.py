"""The papers that samplers, schedules, methods, tasks and protocols come from, as BibTeX."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import PluginError

FILE = Path(__file__).with_name("references.bib")
ENTRY = re.compile(r"^% (.+)\n(@\w+\{[\w-]+,\n(?:  \w+ = \{.*\},\n)+\})$", re.MULTILINE)
FIELD = re.compile(r"^  (\w+) = \{+(.*?)\}+,$", re.MULTILINE)


@dataclass(frozen=True)
class Reference:
    """A BibTeX entry, and what it says. `venue` and `url` are "" where it does not say them."""

    key: str
    authors: tuple[str, ...]
    title: str
    venue: str
    year: int
    url: str
    bibtex: str


def references() -> Mapping[str, Sequence[str]]:
    """Return the BibTeX entries of the project by what they are the source of: "sampler sgld", "protocol csgmcmc"."""
    entries: dict[str, list[str]] = {}
    for subjects, entry in ENTRY.findall(FILE.read_text(encoding="utf-8")):
        for subject in subjects.split(", "):
            entries.setdefault(subject, []).append(entry)
    return entries


def parsed(bibtex: str) -> Reference:
    """Return the record of an entry that has each field on a line of its own; `PluginError` if it lacks one."""
    fields = dict(FIELD.findall(bibtex))
    for name in ("author", "title", "year"):
        if not fields.get(name) or (name == "year" and not fields[name].isdecimal()):
            raise PluginError(f"the BibTeX entry {bibtex!r:.80} states no {name}")
    addresses = {"doi": "https://doi.org/", "eprint": "https://arxiv.org/abs/", "url": ""}
    return Reference(
        key=bibtex.partition("{")[2].partition(",")[0],
        authors=tuple(fields["author"].split(" and ")),
        title=fields["title"],
        venue=fields.get("booktitle") or fields.get("journal") or "",
        year=int(fields["year"]),
        url=next((f"{start}{fields[name]}" for name, start in addresses.items() if name in fields), ""),
        bibtex=bibtex,
    )
