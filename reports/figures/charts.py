"""The numbers of a figure for a page on which they can be read: axes and lines, in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reports.figures.parts import Array

INK = ""
"""The colour of text, of lines that are not a method."""


def chart(
    x: str, y: str, lines: Sequence[Mapping[str, Any]], caption: str, log: str = "xy", span: Sequence[float] = ()
) -> Any:
    """Return a chart: the words of its axes, its lines, its caption (the figure's describes the figure), the axes that
    are logarithmic, and the ends of its y axis.
    """
    return {"x": x, "y": y, "log": log, "range": [*span] or None, "lines": [*lines], "caption": caption}


def line(
    label: str, colour: str, x: Array, y: Array, low: Array | None = None, high: Array | None = None, **style: bool
) -> dict[str, Any]:
    """Return a line through points (n,), with a band from `low` to `high`, in four digits; None for what is not finite.

    style  dash=True; step=True for a value that holds until the next point; points=True for markers, end=True for one
           at the end
    """
    band = low is not None and high is not None and not np.isnan(low).any()
    return {
        "label": label, "colour": colour, "x": _numbers(x), "y": _numbers(y),
        "low": _numbers(low) if band else [], "high": _numbers(high) if band else [],
        **{name: style.get(name, False) for name in ("dash", "step", "points", "end")},
    }  # fmt: skip


def _numbers(values: Any) -> list[float | None]:
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float)]
