"""The entry points of plugins in the installed distributions. A broken distribution does not hide the others."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass, field

from harness.contracts.hookspecs import GROUP
from harness.contracts.plugin_errors import format_error

HARNESS = "sgmcmc-bench"
"""The distribution that offers the built-in plugins."""
UNKNOWN = "unknown"


@dataclass(frozen=True)
class EntryPoint:
    """The entry point of a plugin, with the name and version of its distribution; version "" if it declares none."""

    name: str
    value: str
    distribution: str
    version: str


@dataclass(frozen=True)
class Entries:
    """The entry points that were found, sorted by distribution and name, and why some distributions are unreadable."""

    found: list[EntryPoint] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)


def entries() -> Entries:
    """Return all entry points of the group "bench"."""
    unreadable: dict[str, str] = {}
    try:
        points = [*importlib.metadata.entry_points(group=GROUP)]
    except Exception:  # noqa: BLE001 - it stops at the first distribution whose metadata cannot be read
        points, unreadable = _one_by_one()
    found = [EntryPoint(point.name, point.value, *_origin(point.dist)) for point in points]
    return Entries(sorted(found, key=lambda entry: (entry.distribution, entry.name)), unreadable)


def _one_by_one() -> tuple[list[importlib.metadata.EntryPoint], dict[str, str]]:
    points: list[importlib.metadata.EntryPoint] = []
    unreadable: dict[str, str] = {}
    seen = set()
    for dist in importlib.metadata.distributions():
        name = _origin(dist)[0]
        try:
            own = dist.entry_points.select(group=GROUP)
        except Exception as error:  # noqa: BLE001 - metadata that cannot be read
            unreadable[str(getattr(dist, "_path", name))] = format_error(error)
            continue
        points += [] if name in seen and name != UNKNOWN else own
        seen.add(name)
    return points, unreadable


def _origin(dist: importlib.metadata.Distribution | None) -> tuple[str, str]:
    try:
        return (str(dist.name or UNKNOWN), str(dist.version or "")) if dist else (UNKNOWN, "")
    except Exception:  # noqa: BLE001 - metadata that cannot be read
        return UNKNOWN, ""
