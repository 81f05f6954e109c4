"""Colour, marker and stroke of a method: the same in every figure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

COLOURS = ("#0173b2", "#de8f05", "#029e73", "#c44601", "#cc78bc", "#56b4e9", "#882255", "#332288")
"""They are at least 13 CIE-Lab units apart with normal vision and with any kind of colour blindness."""
MARKERS: tuple[str, ...] = ("o", "s", "^", "D", "v", "p", "h", "d")
"""Markers of the built-in methods; those of the first eight are left out on lines."""
OUTSIDE: tuple[str, ...] = ("P", "X", "*", "<", ">")
"""Markers of all other methods."""
STROKES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (7, 2)), (0, (3, 1, 1, 1, 1, 1)))
FAINT = "#b8b8b8"
"""Colour of lines that a figure shows without naming them."""

ORDER = (
    "sgld", "csgld", "sghmc", "csghmc", "msgld", "asgld", "psgld", "hmc",
    "sgnht", "contour-sgld", "sghmc-svrg", "baoab", "sgld-cv", "sgld-svrg", "santa", "resgld",
    "sgrld", "sqnlmc", "adamax-sgld", "casgld", "cmsgld", "pmsgld", "adadelta-sgld", "sgfs",
    "snapshot-sgd", "snapshot-sgdm", "adam", "relativistic-sghmc", "ngvi", "sgd", "sgdm", "hmc-persistent",
    "sghmc-frictionless", "msgld-corrected", "deep-ensemble", "laplace-signs", "swag", "obabo", "ggmc", "amagold",
    "entropy-mcmc", "sglrw", "sa-sgld", "mclmc", "sghmc-prec", "csghmc-prec", "smile", "psmile", "mc-dropout",
    "last-layer-laplace-signs", "laplace", "last-layer-laplace", "sg-ubu", "samadams",
    "sg-barker", "sg-barker-corrected", "sg-zigzag", "rmsprop-sgld", "adam-sgld", "dq-sgld", "sg-bps",
)  # fmt: skip
"""The built-in methods: place k has colour k mod 8 and marker k div 8. New ones are added at the end."""


def look(method: str) -> dict[str, str]:
    """Return the colour and the marker of a method; for a method of another package they depend on its name only."""
    if method in ORDER:
        index, markers = ORDER.index(method), MARKERS
    else:
        index, markers = int.from_bytes(hashlib.sha256(method.encode()).digest()[:4]), OUTSIDE
    return {"color": COLOURS[index % len(COLOURS)], "marker": markers[index // len(COLOURS) % len(markers)]}


def looks(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the style of the line of each label "METHOD (settings)"; labels of one method have different strokes."""
    styles: dict[str, dict[str, Any]] = {}
    taken: dict[tuple[str, str], int] = {}
    for label in sorted(labels):
        style = look(method_of(label))
        k = taken.get((style["color"], style["marker"]), 0)
        taken[style["color"], style["marker"]] = k + 1
        styles[label] = {
            "color": style["color"],
            "linestyle": STROKES[k % len(STROKES)],
            **({"marker": style["marker"]} if style["marker"] != MARKERS[0] else {}),
            **({"alpha": 0.5} if k >= len(STROKES) else {}),
        }
    return styles


def method_of(label: str) -> str:
    """Return the method of a row's label: "sgld" for "sgld (schedule.step_size=0.1)"."""
    return label.partition(" (")[0]
