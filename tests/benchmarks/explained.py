"""Where the time goes, as a table, and what the machine can do at most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from limits import COUNTS
from parts import PARTS
from tables import grid, number, plural

PEAK = (
    "**The limit.** In the same run one core of this machine did {exponentials:.2f} exponentials, {slots:.1f} "
    "multiply-adds (in a matrix product) and {normals:.3f} normals a nanosecond, and copied {bytes:.1f} bytes. "
)
STEP = (
    "A step of one chain on {task} takes {exponentials} exponentials, {slots} other operations of the vector unit (a "
    "fused multiply-add is one), {normals} normal random numbers, and moves {bytes} bytes. That makes "
    "{ns[exponentials]:.0f} + {ns[slots]:.0f} + {ns[normals]:.0f} = {ns[arithmetic]:.0f} ns of arithmetic against "
    "{ns[bytes]:.1f} ns of memory: {rate:.2f} million chain-steps a second at most. "
)
REASON = (
    "\n\nThe compiled loop does not reach this limit for three reasons: multiplications and additions are not fused, "
    "so that a step rounds as its operations do; each sum is taken in the order of its elements; on blr-german "
    "the rows of eight chains are read one by one from the second-level cache and rearranged into vectors of "
    "eight chains. For one chain the vectors have two elements, both of that chain. The metrics (*observing*) are "
    "computed from every draw."
)


def profile_table(record: Mapping[str, Any]) -> str:
    lines = [["ns a chain-step", *PARTS, "all", "steps, noise and batches, of the limit"]]
    for row in record["profile"]:
        parts, task = row["parts"], row["task"]
        least = 1e9 / record["limits"]["floors"][task]["rate"]
        share = least / sum(parts[part] for part in ("noise", "batches", "gradient", "around", "steps"))
        cells = (number(parts[part]) if parts[part] else "" for part in PARTS)
        label = f"{task}, {row['mode']}, {plural(row['chains'])}"
        lines.append([label, *cells, number(sum(parts.values())), f"{100 * share:.1f} %"])
    return grid(lines)


def explained(record: Mapping[str, Any]) -> str:
    """What bounds a step, in words with the numbers of this machine."""
    limits = record["limits"]
    words = [PEAK.format(**{name: value / 1e9 for name, value in limits["peaks"].items()})]
    for task, counts in COUNTS.items():
        floor = limits["floors"][task]
        words.append(STEP.format(task=task, **counts, ns=floor, rate=floor["rate"] / 1e6))
    return "".join(words) + REASON
