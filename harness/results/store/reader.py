"""One attempt directory -> its rows in every table. Reads the ledger's files and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.results.ledger import rescored
from harness.results.store import validation
from harness.results.store.record import Malformed, Row, dump, load, parse, pick, row
from harness.system.files import read_bytes, read_record, seal_holds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STATUSES = ("done", "diverged", "error", "out_of_memory", "timeout")
SPEC = (
    "key_version", "engine", "method", "protocol", "budget", "steps", "burn_in", "thin", "seed", "chains", "dtype",
    "deterministic",
)  # fmt: skip
OTHERWISE = ("key", "group", "compile", "origins", "sampler", "schedule", "task")
"""What of spec.json has columns in another form."""
RESULT = (
    "status", "reason", "step", "chain", "started", "finished", "steps_done", "passes", "passes_per_step",
    "draws_kept", "draws_stored", "draws_stride",
)  # fmt: skip
ENVIRONMENT = (
    "bench", "python", "platform", "cpu", "cores", "gpu", "torch", "device", "threads", "deterministic",
)  # fmt: skip
CURVES = "curves.safetensors"
MOST_BYTES_OF_CURVES = 2**29
"""Of a file of curves: its points take as much again while they are put into the database."""


@dataclass(frozen=True)
class Curve:
    """One curve of an attempt: x (n,), y (chains, n)."""

    attempt: str
    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]


@dataclass
class Record:
    """All rows of one attempt, by table, its curves as arrays, and notes on what of it could not be used."""

    attempt: str
    run_key: str
    concluded: bool
    rows: dict[str, list[Row]] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def row(self) -> Row:
        """Its row in `attempt`."""
        return self.rows["attempt"][0]

    def last(self) -> Row | None:
        """Its latest event."""
        return self.rows["event"][-1] if self.rows["event"] else None


def read(results: Path, path: str) -> Record:
    """The attempt in the directory `path` below `results`; raises `Malformed` where it is not whole.

    The status of an unfinished attempt is left "orphaned": whether a worker has it, the lock says.
    """
    folder = results / path
    place = str(folder)  # joined as text: of hundreds of attempts, making Path objects takes its time
    text = _required(f"{place}/spec.json")
    spec = load(text, "spec.json")
    concluded = _text(f"{place}/result.json")
    record = Record(folder.name, folder.parent.name, concluded is not None)
    if spec.get("key") != record.run_key:
        raise Malformed(f"spec.json is of run {spec.get('key')!r:.20}, not of the folder's")
    record.rows = {
        "run": [_run(record, spec)],
        "event": _events(record, _text(f"{place}/events.jsonl") or ""),
        **_environment(_text(f"{place}/environment.json")),
    }
    record.rows["task_version"] = [_task_version(record.rows["run"][0])]
    values: dict[str, Any] = {"path": path, "environment": _first(record.rows["environment"], "environment")}
    if concluded is None:
        values |= {"status": "orphaned", "started": _first_time(record)}
    else:
        result = load(concluded, "result.json")
        if _altered(text, pick(result, "files", dict, "result.json").get("spec.json")):
            raise Malformed("spec.json is altered: its checksum is not the one in result.json")
        values |= _result(record, result)
        record.rows["metric"] = _metrics(record, result)
        record.rows["artifact"] = _artifacts(record, result, folder)
        record.curves = _curves(record, folder / CURVES, result.get("files", {}).get(CURVES))
        _take_rescored(record, folder, concluded)
    values |= {"attempt": record.attempt, "run_key": record.run_key, "concluded": record.concluded}
    record.rows["attempt"] = [row("attempt", values, "result.json")]
    validation.check_numbers(record.row, "result.json")
    return record


def _take_rescored(record: Record, folder: Path, result: str) -> None:
    """Put what was measured anew from the kept draws in the place of the result's metrics and curves."""
    newer, damage = rescored.read(folder, result.encode())
    try:
        if newer is not None:
            files = newer["files"]
            metrics = _metrics(record, newer)
            curves = [curve for file in files for curve in _curves(record, folder / file, files[file])]
            record.rows["metric"], record.curves = metrics, curves
            record.rows["artifact"] += _artifacts(record, {"files": files}, folder)
    except Malformed as malformed:
        damage = str(malformed)
    if damage:
        record.notes.append(f"{damage}; the metrics of result.json count, and `bench rescore` measures anew")


def _altered(text: str, digest: str | None) -> bool:
    return digest is not None and hashlib.sha256(text.encode()).hexdigest() != digest


def _run(record: Record, spec: Mapping[str, Any]) -> Row:
    values: dict[str, Any] = {name: spec.get(name) for name in SPEC}
    values |= {"run_key": record.run_key, "group_key": spec.get("group"), "recorded_by": record.attempt}
    compiled = spec.get("compile")
    values["compile"] = compiled if isinstance(compiled, str) else dump(compiled)
    rest = {name: value for name, value in spec.items() if name not in SPEC and name not in OTHERWISE}
    values["execution"] = dump({"device": "cpu", **rest})
    origins = pick(spec, "origins", dict, "spec.json")
    validation.check_origins(origins)
    values["origins"] = dump(origins)
    for room in ("sampler", "schedule", "task"):
        part = pick(spec, room, dict, "spec.json")
        values |= {room: part.get("name"), f"{room}_source": part.get("source")}
        values[f"{room}_params"] = dump(pick(part, "params", dict, f"spec.json: {room}"))
    values |= {"task_version": spec["task"].get("version"), "task_data": spec["task"].get("data") or ""}
    found = row("run", values, "spec.json")
    validation.check_numbers(found, "spec.json")
    return found


def _task_version(run: Row) -> Row:
    return {
        "task": run["task"], "version": run["task_version"], "source": run["task_source"], "data": run["task_data"],
    }  # fmt: skip


@lru_cache(maxsize=64)
def _environment(text: str | None) -> dict[str, list[Row]]:
    """Hundreds of attempts share one environment: its text is parsed once."""
    if text is None:  # the worker ended before it had written it
        return {"environment": [], "plugin": []}
    document = load(text, "environment.json")
    values = {name: document.get(name) for name in ENVIRONMENT}
    rest = {name: value for name, value in document.items() if name != "id"}
    digest = hashlib.sha256(dump(rest).encode()).hexdigest()  # the id, where that is what it should be
    values |= {"environment": digest, "document": dump(document)}
    environment = row("environment", values, "environment.json")
    plugins = []
    for name, code in pick({"code": {}, **document}, "code", dict, "environment.json").items():
        if not isinstance(code, dict):
            raise Malformed(f"environment.json: code: {name!r:.40} is not an object")
        member = {"environment": environment["environment"], "distribution": name, "version": code.get("version")}
        member |= {"git_commit": code.get("commit"), "dirty": code.get("dirty")}
        plugins.append(row("plugin", member, "environment.json"))
    return {"environment": [environment], "plugin": plugins}


def _events(record: Record, text: str) -> list[Row]:
    """The lines that are whole: a kill may cut one short, and a resumed worker writes on after it."""
    rows = []
    for i, line in enumerate(text.splitlines()):
        try:
            event = parse(line)
            detail = {key: value for key, value in event.items() if key not in ("time", "event")}
            values = {"attempt": record.attempt, "i": i, "time": event.get("time"), "event": event.get("event")}
            rows.append(row("event", values | {"detail": dump(detail)}, "events.jsonl"))
        except (ValueError, AttributeError, RecursionError, Malformed):
            continue
    return rows


def _result(record: Record, result: Mapping[str, Any]) -> dict[str, Any]:
    if not seal_holds(result):
        raise Malformed("result.json is altered: its checksum is not its own; the run's command does it again")
    if (result.get("attempt"), result.get("key")) != (record.attempt, record.run_key):
        raise Malformed("result.json is of another attempt or run than the folder's")
    if result.get("status") not in STATUSES:
        raise Malformed(f"result.json: status {result.get('status')!r:.40} is not one of {', '.join(STATUSES)}")
    seconds = pick(result, "seconds", dict, "result.json")
    parts = {f"seconds_{part}": seconds.get(part) for part in ("sampling", "observing", "checkpoint", "setup")}
    return {name: result.get(name) for name in RESULT} | parts


def _metrics(record: Record, result: Mapping[str, Any]) -> list[Row]:
    rows = []
    for metric in pick(result, "metrics", list, "result.json"):
        if not isinstance(metric, dict):
            raise Malformed(f"result.json: metric {metric!r:.40} is not an object")
        values = {**metric, "attempt": record.attempt, "is_primary": metric.get("primary")}
        rows.append(row("metric", values, f"result.json: metric {metric.get('name')!r:.40}"))
    validation.check_metrics(rows)
    return rows


def _artifacts(record: Record, result: Mapping[str, Any], folder: Path) -> list[Row]:
    rows = []
    for name, digest in pick(result, "files", dict, "result.json").items():
        validation.check_file(name)
        try:
            size = (folder / name).lstat().st_size
        except OSError:  # removed since, to save space
            size = None
        values = {"attempt": record.attempt, "file": name, "sha256": digest, "bytes": size}
        rows.append(row("artifact", values, "result.json: files"))
    return rows


def _curves(record: Record, path: Path, digest: str | None) -> list[Curve]:
    from safetensors.numpy import load as load_arrays

    try:
        content = read_bytes(path, MOST_BYTES_OF_CURVES)
    except OSError as error:
        if digest is None:
            return []
        raise Malformed(f"{path.name} is missing, or not readable: {error.strerror}") from None
    if digest is not None and hashlib.sha256(content).hexdigest() != digest:
        raise Malformed(f"{path.name} is truncated or altered: its checksum is not the one in result.json")
    try:
        arrays = load_arrays(content)
    except Exception as error:  # noqa: BLE001 - the library's own error, or a header that lies
        raise Malformed(f"{path.name} does not read: {error}") from None
    names = sorted(name.removesuffix("/x") for name in arrays if name.endswith("/x"))
    return [_curve(record, name, arrays) for name in names]


def _curve(record: Record, name: str, arrays: Mapping[str, Any]) -> Curve:
    x, y = arrays[f"{name}/x"], arrays.get(f"{name}/y")
    if y is None or x.ndim != 1 or y.ndim != 2 or y.shape[1] != len(x) or not {x.dtype.kind, y.dtype.kind} <= set("fi"):
        raise Malformed(f"{CURVES}: curve {name!r:.40} is not x (n,) and y (chains, n)")
    if not y.size:  # a header can give it any number of chains
        x, y = x[:0], y.reshape(0, 0)
    return Curve(record.attempt, name, x.astype("float64"), y.astype("float64"))


def _required(path: str) -> str:
    text = _text(path)
    if text is None:
        raise Malformed(f"{path.rpartition('/')[2]} is missing")
    return text


def _text(path: str) -> str | None:
    """The text of a file; None where there is none."""
    try:
        return read_record(path).decode(errors="replace")
    except FileNotFoundError:
        return None


def _first(rows: list[Row], name: str) -> Any:
    return rows[0][name] if rows else None


def _first_time(record: Record) -> str | None:
    time = _first(record.rows["event"], "time")
    return None if time is None else time.isoformat()
