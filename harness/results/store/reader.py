"""One attempt directory as rows of every table, from the ledger's files alone."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.results.environment import identity
from harness.results.ledger import rescored
from harness.results.ledger.attempt import Attempt
from harness.results.records import Status, columns_of
from harness.results.spec import PARTS
from harness.system.columns import Malformed, Row, dump, pick, row
from harness.system.files import parse_json, read_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CURVES = "curves.safetensors"
ROUNDING = 1e-3
"""Largest relative difference between a metric of a run and the one of its kept draws, which are float32."""
MAX_CURVE_BYTES = 2**29
"""The largest file of curves that is read: its points take as much again while they are inserted into the database."""


@dataclass(frozen=True)
class AttemptCurve:
    """One curve of an attempt: x (n,), y (chains, n)."""

    attempt: str
    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]


@dataclass
class Record:
    """All rows of one attempt by table, its curves as arrays, and notes on what could not be used."""

    attempt: str
    run_key: str
    concluded: bool
    rows: dict[str, list[Row]] = field(default_factory=dict)
    curves: list[AttemptCurve] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def row(self) -> Row:
        """The attempt's row in `attempt`."""
        return self.rows["attempt"][0]


def read(results: Path, path: str, *, curves: bool = True) -> Record:
    """Read the attempt in the directory `path` below `results`, with or without curves.

    Raises `Malformed` if it is not intact. The status of an unfinished attempt is left "orphaned": only the lock says
    whether a worker has it.
    """
    attempt = Attempt(results / path)
    try:
        content = attempt.content("spec.json")
        spec = parse_json(content)
    except FileNotFoundError:
        raise Malformed("spec.json is missing") from None
    except ValueError as error:
        raise Malformed(f"spec.json cannot be read: {error}") from None
    result, damage = attempt.read_result()
    if damage:
        raise Malformed(f"{damage}; the run's command repeats it")
    record = Record(attempt.id, attempt.path.parent.name, result is not None)
    if spec.get("key") != record.run_key:
        raise Malformed(f"spec.json belongs to run {spec.get('key')!r:.20}, not to the folder's")
    try:
        machine, code = _environment(attempt.content("environment.json"))
    except FileNotFoundError:  # the worker ended before it wrote the file
        machine, code = [], {}
    record.rows = {"run": [_run(record, spec)], "event": [*_events(record, attempt)], "environment": machine}
    record.rows["task_version"] = [row(columns_of("task_version"), record.rows["run"][0], "spec.json")]
    given = {"attempt": record.attempt, "run_key": record.run_key, "concluded": record.concluded, "path": path}
    given |= {"environment": machine[0]["environment"] if machine else None, "code": code, "copied": attempt.copied}
    if result is None:
        started = next((event["time"].isoformat() for event in record.rows["event"]), None)
        result = {"status": str(Status.ORPHANED), "started": started, "seconds": {}}
    else:
        if result.get("key") != record.run_key:
            raise Malformed("result.json belongs to another run than the folder")
        digest = pick(result, "files", dict, "result.json").get("spec.json")
        if digest is not None and hashlib.sha256(content).hexdigest() != digest:
            raise Malformed("spec.json is altered: its checksum does not match result.json")
        record.rows["metric"] = _metrics(record, result)
        record.rows["artifact"] = _artifacts(record, result, attempt.path)
        if curves:
            record.curves = _curves(record, attempt.path / CURVES, result.get("files", {}).get(CURVES))
        _take_rescored(record, attempt.path, curves=curves)
        check_joint_error(record.rows["metric"], {curve.name: curve.y for curve in record.curves})
    record.rows["attempt"] = [row(columns_of("attempt"), result, "result.json", **given)]
    return record


def _take_rescored(record: Record, folder: Path, *, curves: bool) -> None:
    """Replace the result's metrics and curves by those computed again from the kept draws."""
    newer, damage = rescored.read(folder)
    try:
        if newer is not None:
            files = newer["files"]
            metrics = _metrics(record, newer)
            if curves:
                record.curves = [curve for file in files for curve in _curves(record, folder / file, files[file])]
            record.rows["metric"] = metrics
            record.rows["artifact"] += _artifacts(record, {"files": files}, folder)
    except Malformed as malformed:
        damage = str(malformed)
    if damage:
        record.notes.append(f"{damage}; the metrics of result.json are used; `bench rescore` computes new ones")


def check_joint_error(metrics: Iterable[Row], curves: Mapping[str, NDArray[np.float64]]) -> None:
    """Raise `Malformed` if curves (C, n), by which rows rank, give another joint error than the metric or each other.

    The metric is the greatest mean square over chains of the errors in `joint_error`; the square of each chain's
    greatest error is the end of its curve of z or z^2.
    """
    stated = [row["value"] for row in metrics if row["name"] == "joint_error"]
    if not stated or "joint_error" not in curves or not curves["joint_error"].size:
        return
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        squares = curves["joint_error"] ** 2
        pairs = [(squares.mean(axis=0).max(), np.nan if stated[0] is None else stated[0])]
    ends = [curves[name][:, -1] for name in ("joint_b2_z_max", "joint_b2_z2_max") if curves.get(name, squares[:0]).size]
    if len(ends) == 2:
        if {len(end) for end in ends} != {len(squares)}:
            raise Malformed("the curves by which rows rank have different numbers of chains")
        pairs.append((squares.max(axis=1), np.maximum(*ends)))
    for by_curve, said in pairs:
        a, b = (np.nan_to_num(side, nan=np.inf, posinf=np.inf) for side in (by_curve, said))
        if not np.allclose(a, b, rtol=ROUNDING, atol=ROUNDING**2):
            raise Malformed(f"the joint error by its curves is {np.max(a):.6g}, where it says {np.max(b):.6g}")


_RUN = columns_of("run")
_KNOWN = {"protocol", *(column.at[0] for column in _RUN.values() if column.at)}
"""The entries of spec.json that have a column; the rest says how the run was executed."""


def _run(record: Record, spec: Mapping[str, Any]) -> Row:
    rest = {name: value for name, value in spec.items() if name not in _KNOWN}
    execution = dump({"device": "cpu", **rest})
    check_origins(pick(spec, "origins", dict, "spec.json"), "spec.json")
    for part in PARTS:
        pick(pick(spec, part, dict, "spec.json"), "params", dict, f"spec.json: {part}")
    return row(_RUN, spec, "spec.json", recorded_by=record.attempt, execution=execution)


def check_origins(origins: Mapping[str, Any], where: str) -> None:
    """Raise `Malformed` unless each origin of a setting has the form that reports expect."""
    for name, origin in origins.items():
        known = isinstance(origin, dict) and "value" in origin
        if not known or not all(isinstance(origin.get(key), str) for key in ("provenance", "source")):
            raise Malformed(f"{where}: the origin of {name!r:.40} is not value, provenance and source")


@lru_cache(maxsize=64)
def _environment(content: bytes) -> tuple[list[Row], dict[str, Any]]:
    """Return the row of an environment, and the code. It is parsed once for the hundreds of attempts that share it."""
    try:
        document = parse_json(content)
    except ValueError as error:
        raise Malformed(f"environment.json cannot be read: {error}") from None
    code = pick({"code": {}, **document}, "code", dict, "environment.json")
    for name in (name for name, entry in code.items() if not isinstance(entry, dict)):
        raise Malformed(f"environment.json: code: {name!r:.40} is not an object")
    digest = identity(document)  # equal to the id, unless the file was altered
    if digest == identity({**document, "code": {}}):
        document.pop("code", None)  # it is a fact of the attempt; in earlier versions the id covers it
    given = {"environment": digest, "document": document}
    return [row(columns_of("environment"), document, "environment.json", **given)], code


def _events(record: Record, attempt: Attempt) -> Iterator[Row]:
    for i, event in attempt.numbered_events():
        detail = {key: value for key, value in event.items() if key not in ("time", "event")}
        with suppress(Malformed):
            given = {"attempt": record.attempt, "i": i, "detail": detail}
            yield row(columns_of("event"), event, "events.jsonl", **given)


def _metrics(record: Record, result: Mapping[str, Any]) -> list[Row]:
    rows = []
    for metric in pick(result, "metrics", list, "result.json"):
        if not isinstance(metric, dict):
            raise Malformed(f"result.json: metric {metric!r:.40} is not an object")
        where = f"result.json: metric {metric.get('name')!r:.40}"
        rows.append(row(columns_of("metric"), metric, where, attempt=record.attempt))
    names = Counter(row["name"] for row in rows)
    for name in (name for name, times in names.items() if times > 1):
        raise Malformed(f"result.json: metric {name!r:.40} appears twice")
    primary = sum(row["is_primary"] for row in rows)
    if primary > 1:
        raise Malformed(f"result.json: {primary} metrics are primary")
    return rows


def _artifacts(record: Record, result: Mapping[str, Any], folder: Path) -> list[Row]:
    rows = []
    for name, digest in pick(result, "files", dict, "result.json").items():
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise Malformed(f"result.json: files: {name!r:.40} is not a file of the attempt's directory")
        try:
            size = (folder / name).lstat().st_size
        except OSError:  # it was removed to save space
            size = None
        given = {"attempt": record.attempt, "file": name, "sha256": digest, "bytes": size}
        rows.append(row(columns_of("artifact"), {}, "result.json: files", **given))
    return rows


def _curves(record: Record, path: Path, digest: str | None) -> list[AttemptCurve]:
    try:
        content = read_bytes(path, MAX_CURVE_BYTES)
    except OSError as error:
        if digest is None:
            return []
        raise Malformed(f"{path.name} is missing, or not readable: {error.strerror}") from None
    if digest is not None and hashlib.sha256(content).hexdigest() != digest:
        raise Malformed(f"{path.name} is truncated or altered: its checksum does not match result.json")
    from safetensors.numpy import load as load_arrays  # imports numpy

    try:
        arrays = load_arrays(content)
    except Exception as error:  # noqa: BLE001 - the library's own error, or a wrong header
        raise Malformed(f"{path.name} cannot be read: {error}") from None
    names = sorted(name.removesuffix("/x") for name in arrays if name.endswith("/x"))
    return [_curve(record, name, arrays) for name in names]


def _curve(record: Record, name: str, arrays: Mapping[str, Any]) -> AttemptCurve:
    x, y = arrays[f"{name}/x"], arrays.get(f"{name}/y")
    if y is None or x.ndim != 1 or y.ndim != 2 or y.shape[1] != len(x) or not {x.dtype.kind, y.dtype.kind} <= set("fi"):
        raise Malformed(f"{CURVES}: curve {name!r:.40} is not x (n,) and y (chains, n)")
    if not y.size:  # the header can state any number of chains
        x, y = x[:0], y.reshape(0, 0)
    return AttemptCurve(record.attempt, name, x.astype("float64"), y.astype("float64"))
