"""Whether a record whose types are right makes sense: what reports count on, so that one attempt cannot break them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.results.store.record import Malformed, Row

DIRECTIONS = ("max", "min", "target")
LEAST = {
    "steps": 1, "burn_in": 0, "thin": 1, "seed": 0, "chains": 1,
    "steps_done": 0, "passes": 0, "passes_per_step": 0, "draws_kept": 0, "draws_stored": 0, "draws_stride": 0,
    "seconds_sampling": 0, "seconds_observing": 0, "seconds_checkpoint": 0, "seconds_setup": 0,
}  # fmt: skip
"""Column of run or attempt -> its least value."""


def check_numbers(row: Row, where: str) -> None:
    """Refuse numbers that cannot be."""
    for name in LEAST.keys() & row.keys():
        if row[name] is not None and row[name] < LEAST[name]:
            raise Malformed(f"{where}: {name} = {row[name]} is less than {LEAST[name]}")


def check_origins(origins: Mapping[str, Any]) -> None:
    """Every setting's origin says how much to trust it, and where it is from."""
    for name, origin in origins.items():
        known = isinstance(origin, dict) and "value" in origin
        if not known or not all(isinstance(origin.get(key), str) for key in ("provenance", "source")):
            raise Malformed(f"spec.json: the origin of {name!r:.40} is not value, provenance and source")


def check_metrics(metrics: Iterable[Row]) -> None:
    """Each metric once, one of them primary at most, and better in a direction that there is."""
    seen: set[str] = set()
    primary = 0
    for metric in metrics:
        if metric["name"] in seen:
            raise Malformed(f"result.json: metric {metric['name']!r:.40} stands there twice")
        if metric["direction"] not in DIRECTIONS:
            raise Malformed(
                f"result.json: metric {metric['name']!r:.40}: direction {metric['direction']!r:.40} is not one of "
                f"{', '.join(DIRECTIONS)}"
            )
        seen.add(metric["name"])
        primary += metric["is_primary"]
    if primary > 1:
        raise Malformed(f"result.json: {primary} metrics are primary")


def check_file(name: str) -> None:
    """A file of an attempt lies in its directory."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise Malformed(f"result.json: files: {name!r:.40} is no file of the attempt's directory")
