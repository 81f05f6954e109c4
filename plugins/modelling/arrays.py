"""Data as users have it, as arrays: pairs of arrays, torch data sets and loaders, files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import UsageError
from harness.contracts import user_files
from harness.system import user_path

Array = NDArray[Any]
Say = Callable[[str], None]
CLASSES = {"classification": 1, "token": 2}
"""Likelihoods of classes, and the number of axes of their labels."""
PAIR = "a pair (x, y) of arrays, a torch Dataset or DataLoader, or a path to a .npz file with x and y, or to a .csv"


def read(given: Any, name: str, say: Say) -> tuple[Array, Array]:
    """Return the arrays x and y of a set: of a pair, a torch data set or loader, or a file.

    A .npz file has "x" and "y"; the last column of a .csv file is y. `name` is the set's, for messages. Raises
    `UsageError` for anything else, and for arrays that are not of numbers, not finite or of different lengths.
    """
    if isinstance(given, str | Path):
        given = _of_file(user_path(Path(given)), name)
    elif not isinstance(given, tuple | list):
        given = _of_dataset(given, name, say)
    if len(given) != 2:
        raise UsageError(f"{name} has {len(given)} parts; give {PAIR}")
    x, y = array(given[0], f"{name} x"), array(given[1], f"{name} y")
    if len(x) != len(y):
        raise UsageError(f"{name}: x has {len(x):,} rows and y has {len(y):,}")
    return x, y


def inputs(given: Any, name: str, say: Say) -> Array:
    """Return the inputs of a set without labels: an array, or the x of what `read` accepts."""
    return array(given, name) if hasattr(given, "shape") else read(given, name, say)[0]


def classes(y: Array, likelihood: str, name: str) -> Array:
    """Return classes as 64-bit integers. `UsageError` if they are not whole numbers from 0 in the shape of the kind."""
    if y.dtype.kind == "f" or y.ndim != CLASSES[likelihood]:
        shape = {1: "(n,)", 2: "(n, positions)"}[CLASSES[likelihood]]
        raise UsageError(f"{name} y is {y.dtype} {y.shape}; {likelihood} needs classes 0 ... K - 1 as integers {shape}")
    if (y < 0).any() and not (likelihood == "token" and (y[y < 0] == -100).all()):
        raise UsageError(f"{name} y has the class {y.min()}; classes are numbered from 0")
    return y.astype(np.int64)


def array(values: Any, name: str) -> Array:
    """Return values as a contiguous array; floats become float32. `UsageError` if they are not finite numbers."""
    values = values.detach().cpu().numpy() if hasattr(values, "detach") else values
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        raise UsageError(f"{name} has masked values; fill them in, or leave these rows out")
    try:
        numbers = np.asarray(values)
    except ValueError as error:
        raise UsageError(f"{name} is not an array: {error}") from None
    if numbers.dtype.kind not in "biuf" or not numbers.size or not numbers.ndim:
        raise UsageError(f"{name} is not an array of numbers with a row for each case: {numbers.dtype} {numbers.shape}")
    if len(wrong := np.argwhere(~np.isfinite(numbers))):
        where = ", ".join(map(str, wrong[0]))
        raise UsageError(f"{name} has {len(wrong):,} values that are not finite, the first at [{where}]")
    kind = np.dtype(np.float32) if numbers.dtype.kind == "f" else numbers.dtype.newbyteorder("=")
    return np.ascontiguousarray(numbers, dtype=kind)


def _of_file(file: Path, name: str) -> Sequence[Any]:
    import polars as pl

    try:
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                return arrays["x"], arrays["y"]
        if file.suffix != ".csv":
            raise UsageError(f"{name} is {file}; give {PAIR}")
        table = pl.read_csv(file, has_header=False, infer_schema_length=None)
        if pl.String in table.dtypes:
            table = pl.read_csv(file, infer_schema_length=None)
    except (OSError, ValueError, KeyError, pl.exceptions.PolarsError) as error:
        raise UsageError(f"{name}: {file} cannot be read: {error}") from None
    wrong = [column.name for column in table if not column.dtype.is_numeric() or column.null_count()]
    if wrong or table.width < 2:
        raise UsageError(f"{name}: {file} is not a table of numbers; texts or empty cells are in: {', '.join(wrong)}")
    return table[:, :-1].to_numpy(), table[:, -1].to_numpy()


def _of_dataset(given: Any, name: str, say: Say) -> Sequence[Any]:
    """Return the rows of a torch data set, or of that of a loader, as its collate function joins them."""
    import torch
    from torch.utils.data import default_collate

    data, join = getattr(given, "dataset", given), getattr(given, "collate_fn", default_collate)
    if not hasattr(data, "__getitem__") or not hasattr(data, "__len__") or not len(data):
        raise UsageError(f"{name} is a {type(given).__name__} without rows to count; give {PAIR}")
    first, again = (join([data[0]]) for _ in range(2))
    if not isinstance(first, tuple | list):
        raise UsageError(f"{name}: a row is a {type(data[0]).__name__}, not a pair (x, y)")
    size = len(data) * sum(torch.as_tensor(part).nbytes for part in first)
    if size > user_files.MOST_BYTES:
        raise UsageError(
            f"{name} takes {size / 2**30:.1f} GiB as arrays, and compare_on reads at most "
            f"{user_files.MOST_BYTES / 2**30:g}; use a part of it, or write a task (docs/tasks.md)"
        )
    if not all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(first, again, strict=True)):
        say(f"note: {name}: rows differ each time they are read; they are read once, without further augmentation")
    return join([data[k] for k in range(len(data))])
