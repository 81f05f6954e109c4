"""Files of draws and predictions made by other software. They are data: no pickle, and nothing in them is executed."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness import DataError, UsageError
from harness.results import MAX_CHAINS

if TYPE_CHECKING:
    import polars as pl

Array = NDArray[np.float64]

TARGET = "plugins.sharing.elsewhere:Elsewhere"
"""The class that stands for the sampler of a run made by other software."""
LARGEST = 2**33
"""Most bytes of a file, and of its arrays as float64, which must fit into memory several times."""
ROUNDING = 1e-4
"""Largest deviation from 1 of the sum of a row's predicted probabilities."""


@dataclass(frozen=True)
class Submission:
    """The content of a file: draws (n, C, D) with log_weights (n, C) or None; or probabilities (M, K) of test rows.

    classes  the true classes (M,) of the test rows, as the sender has them
    ordered  whether the file says which test row each one is: `probabilities` and `classes` are in the task's order
    """

    draws: Array | None = None
    log_weights: Array | None = None
    probabilities: Array | None = None
    classes: Array | None = None
    ordered: bool = False

    @property
    def shape(self) -> str:
        """What the file was taken for: "4 chains of 2,000 draws of 14 coordinates"."""
        if self.draws is not None:
            draws, chains, dim = self.draws.shape
            return f"{chains:,} chains of {draws:,} draws of {dim:,} coordinates"
        assert self.probabilities is not None
        rows, classes = self.probabilities.shape
        return f"predictions of {classes:,} classes for {rows:,} test rows"


@dataclass(frozen=True)
class Declared:
    """The sender's statement about a file: all data passes of a chain, and those before the first draw."""

    path: Path
    passes: float
    warmup: float


def read(path: Path) -> Submission:
    """Return the arrays of a .npz, .safetensors or .parquet file.

    Raise `UsageError` for another file name, and `DataError` if the file cannot be read or its arrays do not fit.
    """
    known = _arrays(path)
    for name, array in known.items():
        if array.ndim != len(SHAPES[name].split(",")):
            raise DataError(f"{path}: {name} has shape {array.shape}, not ({SHAPES[name]})")
    if ("draws" in known) == ("probabilities" in known):
        raise DataError(f"{path} must hold draws (chain, draw, coordinate) or probabilities (row, class), and not both")
    if "probabilities" in known:
        return _predictions(path, known)
    draws, logs = known["draws"], known.get("log_weights")
    if not draws.size:
        raise DataError(f"{path}: there are no draws, of (chain, draw, coordinate) {draws.shape}")
    if len(draws) > MAX_CHAINS:
        raise DataError(f"{path}: there are {len(draws):,} chains; a run has at most {MAX_CHAINS:,}")
    storable = np.abs(draws) <= np.finfo(np.float32).max
    if not storable.all():
        chain = np.argwhere(~storable)[0][0]
        raise DataError(f"{path}: chain {chain} has draws that are not finite in float32, in which draws are stored")
    submission = Submission(draws.swapaxes(0, 1), None if logs is None else _normalised(path, logs, draws).T)
    if 1 < len(draws) >= draws.shape[1] and path.suffix != ".parquet":
        raise DataError(
            f"{path}: draws of shape {draws.shape} would be {submission.shape}; where there are no more draws than "
            "chains, the order of the axes cannot be told: make it (chain, draw, coordinate), or send a Parquet file, "
            "whose columns chain and draw say which is which"
        )
    return submission


def _arrays(path: Path) -> dict[str, Array]:
    """Return the known arrays of a file, as float64."""
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise UsageError(f"{path}: the name ends in none of {', '.join(_READERS)}")
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is not a file")
    try:
        _limited(path, path.stat().st_size)
        arrays = {name: np.asarray(array) for name, array in reader(path).items() if name in SHAPES}
    except DataError:
        raise
    except Exception as error:  # for a damaged archive, its library may raise anything
        raise DataError(f"{path} cannot be read: {str(error).partition(chr(10))[0]}") from error
    for name, array in arrays.items():
        kind, numbers = ("iu", "integers") if name in NUMBERED else ("f", "floating-point numbers")
        kind += "iu" if name == "log_weights" else ""
        if array.dtype.kind not in kind:
            wanted = numbers if array.dtype.kind in "fiub" else "numbers"
            raise DataError(f"{path}: {name} is of type {array.dtype}, not of {wanted}")
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def _normalised(path: Path, logs: Array, draws: Array) -> Array:
    """Return log weights (chain, draw) with the mean weight 1 in each chain: chains need not have a common constant."""
    from scipy.special import logsumexp

    if logs.shape != draws.shape[:2]:
        raise DataError(f"{path}: log_weights has shape {logs.shape}, the draws are of (chain, draw) {draws.shape[:2]}")
    if np.isnan(logs).any() or not np.isfinite(logs.max(axis=1)).all():
        raise DataError(f"{path}: log_weights must be numbers or -inf, and not -inf for all draws of a chain")
    return np.asarray(logs - logsumexp(logs, axis=1, keepdims=True) + np.log(logs.shape[1]))


SHAPES = {
    "draws": "chain, draw, coordinate",
    "log_weights": "chain, draw",
    "probabilities": "row, class",
    "rows": "row",
    "classes": "row",
}
NUMBERED = ("rows", "classes")
"""Arrays of integers; the others are of floating-point numbers."""
INTEGERS = ("chain", "draw", "row", "class")
"""Columns of integers; the others are of floating-point numbers."""
RESEMBLING = {
    **dict.fromkeys(("chain", "chains", "chain_id", "chain_nr"), "chain"),
    **dict.fromkeys(("draw", "draws", "draw_id", "iteration", "iter"), "draw"),
}
"""What other software calls the columns chain and draw, in lower case and without dots."""


def _predictions(path: Path, known: dict[str, Array]) -> Submission:
    """Return the predictions, in the order of the test rows if the file has their numbers."""
    probabilities = known["probabilities"]
    for name in known.keys() & {"rows", "classes"}:
        if len(known[name]) != len(probabilities):
            raise DataError(f"{path}: {name} has {len(known[name])} entries, probabilities has {len(probabilities)}")
    wrong = ~(np.isfinite(probabilities) & (probabilities >= 0)).all(axis=1)
    with np.errstate(invalid="ignore"):
        sums = probabilities.sum(axis=1)
        wrong |= np.abs(sums - 1) > ROUNDING
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"{path}: the probabilities of row {row} are not positive numbers that add up to 1: "
            f"the least is {probabilities[row].min():.6g}, the sum {sums[row]:.6g}, which may differ from 1 by "
            f"{ROUNDING:g} (float16 is too coarse for that). The file was taken for "
            f"{Submission(probabilities=probabilities).shape}; draws of a Parquet file need the columns chain and draw"
        )
    rows, classes = known.get("rows", np.arange(len(probabilities))), known.get("classes")
    if not np.array_equal(np.sort(rows), np.arange(len(rows))):
        raise DataError(f"{path}: rows must be the numbers 0 to {len(rows) - 1} of the test rows, each of them once")
    order = np.argsort(rows)
    return Submission(
        probabilities=probabilities[order],
        classes=None if classes is None else classes[order],
        ordered="rows" in known,
    )


def _limited(path: Path, size: int) -> None:
    if size > LARGEST:
        raise DataError(f"{path} has {size:,} bytes; at most {LARGEST:,} are read")


def _check_decoded(path: Path, shapes: Iterable[Sequence[int]]) -> None:
    """Raise `DataError` if arrays of these shapes are too large as float64, however small they are in the file."""
    if (size := sum(8 * math.prod(shape) for shape in shapes)) > LARGEST:
        raise DataError(f"{path} states arrays of {size:,} bytes as float64; at most {LARGEST:,} are read")


def _npz(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        members = [name for name in SHAPES if f"{name}.npy" in archive.namelist()]
        _check_decoded(path, [_npy_shape(archive, f"{name}.npy") for name in members])
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in members}


def _npy_shape(archive: zipfile.ZipFile, member: str) -> tuple[int, ...]:
    with archive.open(member) as stream:
        headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, _ = headers[np.lib.format.read_magic(stream)](stream)
    return shape


def _safetensors(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as arrays:
            members = [name for name in arrays.keys() if name in SHAPES]  # noqa: SIM118 - it is not a mapping
            _check_decoded(path, [arrays.get_slice(name).get_shape() for name in members])
            return {name: arrays.get_tensor(name) for name in members}
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def _parquet(path: Path) -> dict[str, Any]:
    """Return the arrays of a table with columns chain, draw, and one for each coordinate; or one for each class.

    A table of predictions may also have the columns row and class.
    """
    import polars as pl

    try:
        lazy = pl.scan_parquet(path, glob=False)
        schema = lazy.collect_schema()
        for name, kind in schema.items():  # a value of another type, such as a list, can have any size
            if not (kind.is_numeric() or kind == pl.Boolean):
                raise ValueError(f"column {name!r:.80} is of type {kind}, not of numbers")
        _check_decoded(path, [(lazy.select(pl.len()).collect().item(), len(schema))])
        frame = lazy.collect()
        _check_columns(frame)
        if "chain" not in frame.columns:
            named = {"row": "rows", "class": "classes"}
            extra = {array: frame[column].to_numpy() for column, array in named.items() if column in frame.columns}
            return {"probabilities": frame.drop("row", "class", strict=False).to_numpy(), **extra}
        frame = frame.sort("chain", "draw")
        sizes = frame.group_by("chain").agg(pl.len(), pl.col("draw").n_unique().alias("different"))
        chains = len(sizes)
        if sizes["len"].n_unique() != 1 or (sizes["len"] != sizes["different"]).any():
            raise ValueError("the chains have different numbers of draws, or the same draw twice")
        values = frame.drop("chain", "draw", *(["log_weight"] if "log_weight" in frame.columns else []))
        arrays: dict[str, Any] = {"draws": values.to_numpy().reshape(chains, -1, values.width)}
        if "log_weight" in frame.columns:
            arrays["log_weights"] = frame["log_weight"].to_numpy().reshape(chains, -1)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(str(error)) from error
    return arrays


def _check_columns(frame: pl.DataFrame) -> None:
    """Raise `ValueError` if a column has empty places or a type of another meaning, or chain or draw is missing."""
    alike = {RESEMBLING[word]: name for name in frame.columns if (word := name.lower().strip("._ ")) in RESEMBLING}
    missing = [name for name in ("chain", "draw") if name not in frame.columns]
    if missing and alike:
        rename = f"rename column {alike[missing[0]]!r:.80}" if missing[0] in alike else "add it, 0 for the first one"
        raise ValueError(f"draws need the columns chain and draw, and there is no column {missing[0]}: {rename}")
    for name, column in frame.to_dict().items():
        if column.null_count():
            raise ValueError(f"column {name!r:.80} has no value in {column.null_count():,} rows")
        whole = column.dtype.is_float() and name in {"chain", "draw"} and bool((column == column.round()).all())
        if not (whole or column.dtype.is_integer() if name in INTEGERS else column.dtype.is_float()):
            wanted = "integers" if name in INTEGERS else "floating-point numbers"
            raise ValueError(f"column {name!r:.80} is of type {column.dtype}, not of {wanted}")


_READERS = {".npz": _npz, ".safetensors": _safetensors, ".parquet": _parquet}
