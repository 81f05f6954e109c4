"""Compare two attempts at one run bit for bit: draws, curves, arrays and result.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.system import read_bytes

FILES = ("draws.safetensors", "curves.safetensors", "arrays.safetensors")
FIELDS = (
    "status", "reason", "step", "chain", "steps_done", "passes", "passes_per_step", "draws_kept", "draws_stored",
    "draws_stride",
)  # fmt: skip
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Difference:
    """The first difference of two attempts within an array or a field.

    where   the element as text: "step 120, chain 2, coordinate 0"; "" for a field
    count   elements that differ, of `total`; `largest` is the largest |difference| among the finite ones
    """

    file: str
    entry: str
    where: str
    stored: str
    again: str
    count: int = 1
    total: int = 1
    largest: float | None = None


def differing_results(stored: Mapping[str, Any], again: Mapping[str, Any]) -> list[Difference]:
    """Return the fields of result.json and the metrics that differ; times are not compared."""
    ours, theirs = ({**{f: r.get(f) for f in FIELDS}, **_metrics(r)} for r in (stored, again))
    names = [*FIELDS, *dict.fromkeys(name for r in (ours, theirs) for name in r if name not in FIELDS)]
    return [
        Difference("result.json", name, "", str(ours.get(name)), str(theirs.get(name)))
        for name in names
        if ours.get(name) != theirs.get(name)
    ]


def differing_arrays(stored: Path, again: Path, file: str) -> list[Difference]:
    """Return the first difference in each array of one file that does not have the same bits.

    Raise `ValueError` if the stored file cannot be read, and `OSError` if it cannot be opened.
    """
    ours, theirs = _load(stored / file), _load(again / file)
    differences = []
    for name in dict.fromkeys([*sorted(ours), *sorted(theirs)]):
        one = _difference(file, name, ours, theirs)
        differences += [one] if one else []
    return differences


def _difference(file: str, name: str, ours: Arrays, theirs: Arrays) -> Difference | None:
    x, y = ours.get(name), theirs.get(name)
    if x is None or y is None or x.shape != y.shape or x.dtype != y.dtype:
        described = ["absent" if a is None else f"{a.dtype} {a.shape}" for a in (x, y)]
        return None if described[0] == described[1] else Difference(file, name, "", described[0], described[1])
    unlike = (_bits(x) != _bits(y)).reshape(x.shape)
    if not unlike.any():
        return None
    first = tuple(int(i) for i in np.argwhere(unlike)[0])
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(x.astype(np.float64) - y.astype(np.float64))[unlike]
    finite = apart[np.isfinite(apart)]
    return Difference(
        file, name, _location(name, first, ours), repr(x[first].item()), repr(y[first].item()), int(unlike.sum()),
        x.size, float(finite.max()) if finite.size else None,
    )  # fmt: skip


def _location(name: str, index: tuple[int, ...], arrays: Arrays) -> str:
    if name == "draws" and len(index) == 3:
        i, chain, coordinate = index
        steps = arrays.get("steps")
        step = f"step {int(steps[i]):,}" if steps is not None and i < len(steps) else f"draw {i:,}"
        return f"{step}, chain {chain}, coordinate {coordinate}"
    if name.endswith("/y") and len(index) == 2:
        return f"chain {index[0]}, point {index[1]}"
    return f"index {', '.join(map(str, index))}" if index else ""


def _bits(x: NDArray[Any]) -> NDArray[Any]:
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(f"u{flat.itemsize}")


def _load(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(read_bytes(path))
    except FileNotFoundError:
        return {}
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from None


def _metrics(result: Mapping[str, Any]) -> dict[str, Any]:
    values = {f"metric {m['name']}": m["value"] for m in result.get("metrics") or []}
    return {name: None if value is None or math.isnan(value) else value for name, value in values.items()}
