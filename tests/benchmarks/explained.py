"""Where the time goes, as a table and in words, against what the machine can do."""

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
COMPILED = (
    "**Compiled, {chains}**: {ns_steps:,.0f} ns in the compiled steps, gradient and update fused ({steps:.0f} % of "
    "{total:,.0f} ns), {ns_noise:,.0f} ns to draw the noise and {ns_layout:,.0f} ns to change the memory order "
    "and back. Observing the draws takes {ns_observing:,.0f} ns ({observing:.0f} %), passing them on "
    "{ns_keeping:,.0f} ns and writing them {ns_writing:,.0f} ns."
)
PLAINLY = (
    "**Plain, {chains}**: {ns_gradient:,.0f} ns in the gradient ({gradient:.0f} % of {total:,.0f} ns) and "
    "{ns_steps:,.0f} ns in the rest of the step, mostly the cost of calls into torch, which is shared by all chains. "
    "Noise is {noise:.0f} %, observing {observing:.0f} %, writing {writing:.0f} %."
)


def least(record: Mapping[str, Any]) -> float:
    """The least nanoseconds that a chain-step can take on one core of the machine."""
    return 1e9 / record["limits"]["floor"]["rate"]


def profile_table(record: Mapping[str, Any]) -> str:
    """Nanoseconds of a chain-step by part."""
    lines = [["ns a chain-step", *PARTS, "all", "of the limit"]]
    for row in record["profile"]:
        parts = row["parts"]
        total = sum(parts.values())
        share = f"{100 * least(record) / total:.1f} %"
        cells = (number(parts[part]) if parts[part] else "" for part in PARTS)
        lines.append([f"{row['mode']}, {plural(row['chains'])}", *cells, number(total), share])
    return grid(lines)


def explained(record: Mapping[str, Any]) -> str:
    """What bounds a step, and what each part is, in words with the numbers of this run."""
    peaks, floor = record["limits"]["peaks"], record["limits"]["floor"]
    limit = LIMIT.format(
        slots=limits.SLOTS,
        exponentials=limits.EXPONENTIALS,
        normals=limits.NORMALS,
        bytes=limits.BYTES,
        peak={name: value / 1e9 for name, value in peaks.items()},
        ns=floor,
        rate=floor["rate"] / 1e6,
    )
    paragraphs = [limit]
    by_row = {(row["mode"], row["chains"]): row["parts"] for row in record["profile"]}
    for mode, what in (("compiled", COMPILED), ("plain", PLAINLY)):
        paragraphs += [
            what.format(chains=plural(chains), total=sum(parts.values()), **shares(parts), least=least(record))
            for (m, chains), parts in by_row.items()
            if m == mode
        ]
    return "\n\n".join(paragraphs)


def shares(parts: Mapping[str, float]) -> dict[str, float]:
    """Percentages of the whole, and nanoseconds as ns_PART."""
    total = sum(parts.values())
    return {part: 100 * value / total for part, value in parts.items()} | {f"ns_{p}": v for p, v in parts.items()}
