"""The run that an attempt's record describes, and the code for it that is installed now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness import DataError, Info, PluginError, Registry
from harness.contracts import HARNESS, Offer
from harness.results import Attempt, Component, RunSpec, provenance, rescored
from harness.results import spec as specs
from harness.runs import source_hash
from harness.system import read_json


def recorded_spec(attempt: Attempt) -> RunSpec:
    """Return the RunSpec of an attempt; raise `DataError` if its record does not match the run key of its folder."""
    record = read_json(attempt.path / "spec.json")
    why = "is damaged"
    try:
        if record is not None and specs.recorded_key(record) == attempt.path.parent.name:
            return specs.from_record(record)  # entries that no key contains, such as the origins, may still be damaged
    except ValueError as error:
        why = str(error)
    raise DataError(f"{attempt.path}: spec.json {why}; the run's command repeats it")


def offer(registry: Registry, kind: str, part: Component, attempt: Attempt) -> Offer:
    """Return the registered plugin with that name; of several, one with the same code, or else from the same place.

    Raise `PluginError` if there is none.
    """
    offers = [o for o in registry.offers(f"{kind}s") if o.name == part.name and isinstance(o.info, Info)]
    if not offers:
        raise PluginError(
            f"{kind} {part.name} ({part.target}) is not provided by any installed plugin. The run used "
            f"{code(attempt)}: install that again, or give the file of a one-off plugin by `bench --plugin FILE ...`"
        )
    same = [o for o in offers if installed(o, part).source == part.source]
    return next(iter([*same, *(o for o in offers if installed(o, part).target == part.target), *offers]))


def installed(offer: Offer, part: Component) -> Component:
    """Return the part with the code that an offer has now."""
    return replace(part, target=offer.target, source=source_hash(offer.target))


def truth_of(attempt: Attempt) -> str | None:
    """Return the checksum of the stored truth with which the metrics of a run were computed, if any."""
    newer, _ = rescored.read(attempt.path)
    record = (newer or {}).get("code") or attempt.result()
    return record.get("truth") if isinstance(record, dict) else None


def code(attempt: Attempt) -> str:
    """Return the distributions that an attempt ran with, with versions, commits and digests."""
    words = []
    for name, entry in _recorded_code(attempt).items():
        dirty = "+changes" if entry.get("dirty") else ""
        commit = f", commit {str(entry['commit'])[:12]}{dirty}" if entry.get("commit") else ""
        source = f", source {str(entry['digest'])[:12]}" if entry.get("digest") else ""
        words.append(f"{name} {entry.get('version')}{commit}{source}")
    return "; ".join(words) or "an environment that is not recorded"


def other_code(attempt: Attempt) -> str:
    """Return how the code of the harness that made an attempt differs from the installed one; "" if it is the same."""
    engine = (read_json(attempt.path / "spec.json") or {}).get("engine")
    if engine != specs.ENGINE:
        return f"the row was made by engine {engine}, and here is engine {specs.ENGINE}"
    entry = _recorded_code(attempt).get(HARNESS, {})
    here = str(provenance.digest(HARNESS))
    if entry.get("digest") == here and not entry.get("before"):
        return ""
    there = str(entry.get("digest") or "not recorded")[:12]
    also = ", and in parts another" if entry.get("before") else ""
    return f"another version of {HARNESS} made the row (source {there}{also}; here {here[:12]})"


def _recorded_code(attempt: Attempt) -> dict[str, dict[str, Any]]:
    known = (read_json(attempt.path / "environment.json") or {}).get("code")
    entries = known.items() if isinstance(known, dict) else ()
    return {name: entry for name, entry in entries if isinstance(entry, dict)}  # others are damaged
