"""Where the time goes, as a table, and what the machine can do at most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import limits
from parts import PARTS
from tables import grid, number, plural

LIMIT = (
    "**The limit.** A step of one chain takes {exponentials} exponentials, {slots} other operations of the vector unit "
    "(a fused multiply-add is one), {normals} normal random numbers, and moves {bytes} bytes (noise written and read, "
    "draw written). "
    "In the same run one core of this machine did {peak[exponentials]:.2f} exponentials, {peak[slots]:.1f} "
    "multiply-adds (in a matrix product) and {peak[normals]:.3f} normals a nanosecond, and copied {peak[bytes]:.1f} "
    "bytes. That makes {ns[exponentials]:.0f} + {ns[other arithmetic]:.0f} + {ns[normals]:.0f} = {ns[arithmetic]:.0f} "
    "ns of arithmetic against {ns[bytes]:.1f} ns of memory: {rate:.1f} million chain-steps a second at most."
)


def least(record: Mapping[str, Any]) -> float:
    """The least nanoseconds that a chain-step can take on one core of the machine."""
    return 1e9 / record["limits"]["floor"]["rate"]


def profile_table(record: Mapping[str, Any]) -> str:
    lines = [["ns a chain-step", *PARTS, "all", "of the limit"]]
    for row in record["profile"]:
        parts = row["parts"]
        total = sum(parts.values())
        share = f"{100 * least(record) / total:.1f} %"
        cells = (number(parts[part]) if parts[part] else "" for part in PARTS)
        lines.append([f"{row['mode']}, {plural(row['chains'])}", *cells, number(total), share])
    return grid(lines)


def explained(record: Mapping[str, Any]) -> str:
    """What bounds a step, in words with the numbers of this machine."""
    peaks, floor = record["limits"]["peaks"], record["limits"]["floor"]
    peak = {name: value / 1e9 for name, value in peaks.items()}
    counts = {"slots": limits.SLOTS, "exponentials": limits.EXPONENTIALS, "normals": limits.NORMALS}
    return LIMIT.format(**counts, bytes=limits.BYTES, peak=peak, ns=floor, rate=floor["rate"] / 1e6)
