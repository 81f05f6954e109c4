"""Validation of the arrays of a task: what is wrong with them is a `DataError` that names array, row and column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from traceback import extract_tb, walk_tb
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.contracts.plugin_errors import format_error
from harness.system.device_errors import lacks_memory, of_cuda
from harness.system.errors import BenchError, DataError, PluginError

if TYPE_CHECKING:
    from torch import Tensor


_LIBRARY = re.compile("/(torch|harness)/")
SIGNED = {np.dtype(np.uint16): np.int32, np.dtype(np.uint32): np.int64, np.dtype(np.uint64): np.int64}
"""Types that torch cannot index or compare, and those that hold the same numbers."""


def row_count(here: str, arrays: Any) -> int:
    """Return the number of rows of arrays by name, which `here` returned; `DataError` if there is no such number."""
    if not isinstance(arrays, Mapping) or not arrays:  # to write arrays out takes longer than to count their rows
        raise DataError(f"{here}: {arrays!r:.40} is no dictionary of arrays")
    shapes = {k: v.shape if hasattr(v, "shape") else _numbers(f"{here}: {k}", v).shape for k, v in arrays.items()}
    rows, shown = {shape[:1] for shape in shapes.values()}, ", ".join(f"{k} {tuple(v)}" for k, v in shapes.items())
    require_data(len(rows) == 1 and () not in rows, here, f"the arrays must have the same number of rows: {shown}")
    require_data((0,) not in rows, here, f"there are no rows: {shown}")
    return int(rows.pop()[0])


def validated(task: Any, part: str, train: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a part in types and orders of memory that torch reads; the classes of rows become int64.

    `train` has a row of each array of "train", which other parts must be like; {} for itself. Raise `DataError` for
    other rows, masked or missing values, values that are not finite, and labels that are no classes.
    """
    here, arrays, largest = f"{type(task).__name__}.arrays({part!r})", task.arrays(part), np.finfo(task.dtype).max
    row_count(here, arrays)
    converted = {name: _numbers(f"{here}: {name}", array) for name, array in arrays.items()}
    classes = ["label"] if task.classifies and part in {"train", "test"} else []
    for name in ({*classes} | ({"x"} if hasattr(task, "mean_loss") else set())) - converted.keys():
        raise DataError(f"{here}: there is no array {name!r}")
    for name, array in converted.items():
        if array.dtype.kind == "f" and not -largest <= array.min(initial=0) <= array.max(initial=0) <= largest:
            row, *rest = np.argwhere(~(np.abs(array) <= largest))[0].tolist()
            column = f", column {rest[0] if len(rest) == 1 else rest}" if rest else ""
            raise DataError(f"{here}: {name} is {array[row, *rest]} at row {row}{column}, not finite in {task.dtype}")
    converted |= {name: _classes(f"{here}: {name}", converted[name], first=not train) for name in classes}
    for name in train.keys() & converted.keys() - {"label"}.difference(classes):
        array, like = converted[name], train[name]
        if like.dtype.kind == "f" and array.dtype.kind in "iu" and array.dtype != np.uint8:  # a column of whole numbers
            array = converted[name] = array.astype(like.dtype)
        what = f"it is {array.shape} of {array.dtype}, but rows of train are {like.shape[1:]} of {like.dtype}"
        alike = array.shape[1:] == like.shape[1:] and (array.dtype.kind == "f") == (like.dtype.kind == "f")
        require_data(alike, f"{here}: {name}", what)
    return converted


def require_data(right: object, here: str, what: str) -> None:
    """Raise `DataError` about `here` unless it is right."""
    if not right:
        raise DataError(f"{here}: {what}")


def _numbers(here: str, value: Any) -> NDArray[Any]:
    masked = np.argwhere(np.ma.getmaskarray(value)) if isinstance(value, np.ma.MaskedArray) else np.empty(0)
    require_data(not masked.size, here, f"it is masked, without a value, at {masked[:1].tolist()}")
    if hasattr(value, "detach"):
        value = (value.float() if "bfloat16" in str(value.dtype) else value).detach().cpu()
    try:
        array = value if isinstance(value, np.memmap) else np.asarray(value)
    except (TypeError, ValueError) as error:
        raise DataError(f"{here}: its rows have different lengths, or are not of numbers") from error
    require_data(array.dtype.kind in "biuf", here, f"it is of type {array.dtype}, not of numbers")
    dtype = np.float64 if array.dtype.itemsize > 8 else SIGNED.get(array.dtype, array.dtype.newbyteorder("="))
    array = array.astype(dtype, copy=False)
    return np.ascontiguousarray(array) if min(array.strides, default=0) < 0 else array


def _classes(here: str, label: NDArray[Any], *, first: bool) -> NDArray[np.int64]:
    kind = "a column; pass label[:, 0]" if label.shape[1:] == (1,) else "not one number a row; one-hot: label.argmax(1)"
    require_data(label.ndim == 1, here, f"it has shape {label.shape}, {kind}")
    require_data(label.dtype.kind != "f", here, f"it is of type {label.dtype}, not of integers: {label[:3]} ...")
    label = label.astype(np.int64, copy=False)
    least = int(label.argmin())
    require_data(label[least] >= 0, here, f"row {least} is {label[least]}; classes are 0 ... K - 1")
    require_data(not first or label[least] == 0, here, f"classes begin at 0, not {label[least]}: take that off")
    return label


@contextmanager
def explained(what: str, arrays: Mapping[str, Tensor]) -> Iterator[None]:
    """Turn what a task's function raises into a `PluginError` with shapes, line and layer, and without torch's text."""
    try:
        yield
    except Exception as error:
        if isinstance(error, BenchError) or lacks_memory(error) or of_cuda(error) or "CUDA" in str(error):
            raise
        *_, last = frames = extract_tb(error.__traceback__)
        parts = [f"{name} {tuple(array.shape)} {array.dtype}".replace("torch.", "") for name, array in arrays.items()]
        parts += [f"{f.filename}, line {f.lineno}: {f.line}" for f in frames if not _LIBRARY.search(f.filename)][-1:]
        seen = [frame.f_locals for frame, _ in walk_tb(error.__traceback__)]
        for layer in [names["self"] for names in seen if hasattr(names.get("self"), "named_buffers")][-1:]:
            given = next((x for names in seen[::-1] if (x := names.get("input")) is not None), None)
            parts += [f"the layer {' '.join(repr(layer).split()):.80} gets {tuple(getattr(given, 'shape', ()))}"]
        of_torch = isinstance(error, RuntimeError | IndexError) and not (last.line or "").startswith("raise")
        parts += [] if of_torch or "/torch/" in last.filename else [format_error(error)]
        raise PluginError(f"{what} fails on {'; '.join(parts)}") from error
