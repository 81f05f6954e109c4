"""One attempt at one run: a directory to which only its worker writes.

spec.json  environment.json  events.jsonl            from the start
checkpoint.safetensors  checkpoint-before.safetensors  draws.part      while unfinished, or resumable
draws.safetensors  curves.safetensors  arrays.safetensors  result.json     at the end, result.json last
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.results.ledger import seals
from harness.results.records import FAILED, FINAL, PAUSED
from harness.results.spec import RunSpec
from harness.system.errors import DataError
from harness.system.files import parse_json, read_bytes, read_record, regular, seal_holds, write_json, write_whole
from harness.system.locks import kernel

if TYPE_CHECKING:  # slow to import, and not needed by a command that finds nothing to do
    import numpy as np

DRAWN = "drawn"
"""The entry of a checkpoint that holds the SHA-256 of the draws on which the checkpoint relies."""
CHECKPOINTS = _CHECKPOINT, _BEFORE = "checkpoint.safetensors", "checkpoint-before.safetensors"
_DRAWS = "draws.part"
RESULT = "result.json"
"""The file that makes an attempt final."""
WORK = (_DRAWS, _BEFORE, _CHECKPOINT)
"""The files from which a worker resumes, in the order in which they are moved to another attempt."""
_RECORDS = ("environment.json", "spec.json")
FILE_NAMES = (
    r"(spec|environment|result|rescored)\.json|events\.jsonl|draws\.part|"
    r"(checkpoint|checkpoint-before|last-good|draws|curves|arrays|rescored-[0-9a-f]{12})\.safetensors"
)
"""A pattern for the names of all files that an attempt's folder may contain."""
NAME = re.compile(r"(a[0-9]{6}-)?[0-9]{8}T[0-9]{6,12}-[0-9a-f]{6}")
"""Matches an attempt's name. Earlier versions gave it no number; such a name sorts before those that have one."""


def now() -> str:
    """Return the time in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Attempt:
    """An attempt directory, open for writing by the worker that holds the run's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._drawn = hashlib.sha256()  # the hash of the draws on disk
        self._draw_bytes = 0

    @property
    def id(self) -> str:
        """The name of the directory. Names of one run sort in the order in which its attempts were made."""
        return self.path.name

    @property
    def copied(self) -> bool:
        """Whether the result is not one that was made here: it is marked as copied, or has no seal of this folder."""
        return self.marked or not seals.holds(self.path)

    @property
    def marked(self) -> bool:
        """Whether the attempt came from someone else. Earlier versions marked those of the same owner by "own"."""
        try:
            return self.copied_mark.read_text() != "own"
        except FileNotFoundError:
            return False

    @property
    def copied_mark(self) -> Path:
        """The file beside the directory that marks an attempt of someone else."""
        return self.path.with_name(f"{self.id}.copied")

    @classmethod
    def create(cls, runs: Path, spec: RunSpec, environment: Mapping[str, Any]) -> Attempt:
        """Make a new attempt below `runs`, as the holder of the run. It counts as one once it has spec.json.

        Its number is above those of all earlier attempts; the time in its name is information only.
        """
        run = runs / spec.key[:2] / spec.key
        run.mkdir(parents=True, exist_ok=True)
        numbers = [int(path.name[1:7]) for path in run.glob("a*") if NAME.fullmatch(path.name)]
        moment = datetime.now(UTC)
        time = f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03d}"
        attempt = cls(run / f"a{max(numbers, default=0) + 1:06d}-{time}-{secrets.token_hex(3)}")
        attempt.path.mkdir()
        attempt.set_environment(environment)
        attempt.event("created", kernel=kernel())
        attempt.describe(spec)
        return attempt

    def describe(self, spec: RunSpec) -> None:
        """Write spec.json."""
        write_json(self.path / "spec.json", spec.to_json())

    def set_environment(self, environment: Mapping[str, Any]) -> None:
        """Write environment.json."""
        write_json(self.path / "environment.json", environment)

    def event(self, name: str, **fields: Any) -> None:
        """Append one line to events.jsonl. A line that a crash cut off is ended first, so that it spoils no other."""
        path = self.path / "events.jsonl"
        line = json.dumps({"time": now(), "event": name, **fields}, allow_nan=False).encode() + b"\n"
        with path.open("ab+") as stream:
            if stream.tell():
                stream.seek(-1, 2)
                line = line if stream.read(1) == b"\n" else b"\n" + line
            stream.write(line)

    def save_checkpoint(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a checkpoint and keep the one before.

        Digests distinguish a damaged checkpoint, or damaged draws, from intact ones.
        """
        import numpy as np
        from safetensors.numpy import save

        plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        plain[DRAWN] = np.frombuffer(self._drawn.digest(), np.uint8)
        content = save(plain, metadata={"sha256": _digest(plain)})
        with suppress(FileNotFoundError):
            (self.path / _CHECKPOINT).replace(self.path / _BEFORE)
        write_whole(self.path / _CHECKPOINT, content)

    def checkpoints(self) -> Iterator[dict[str, np.ndarray]]:
        """Yield the intact checkpoints, the latest first."""
        for name in CHECKPOINTS:
            arrays = read_checkpoint(self.path / name)
            if arrays is not None:
                yield arrays

    def take_over(self, other: Attempt, *, copy: bool = False) -> None:
        """Continue from where another attempt stopped: take over its checkpoints and draws.

        They are copied if its worker may still write to it. Digests detect a file that changed in the meantime.
        """
        for name in reversed(WORK) if copy else WORK:  # draws beyond those of a checkpoint are cut off later
            with suppress(FileNotFoundError):
                if copy:
                    shutil.copyfile(other.path / name, self.path / name)
                else:
                    (other.path / name).replace(self.path / name)
        self.event("took over", attempt_before=other.id)

    def append_draws(self, draws: np.ndarray) -> None:
        """Append float32 draws (B, C, D), or (B, C, D + 1) with their log weights, to those on disk.

        Raises `DataError` if the draws on disk are not as many as were written.
        """
        import numpy as np

        content = np.ascontiguousarray(draws, dtype=np.float32).tobytes()
        with (self.path / _DRAWS).open("ab") as stream:
            if stream.tell() != self._draw_bytes:
                raise self._draws_lost()
            stream.write(content)
        self._drawn.update(content)
        self._draw_bytes += len(content)

    def drop_draws(self) -> None:
        """Delete the draws, to start again without any."""
        self._drawn, self._draw_bytes = hashlib.sha256(), 0
        (self.path / _DRAWS).unlink(missing_ok=True)

    def cut_draws(self, numbers: int, digest: bytes) -> bool:
        """Cut the draws on disk back to the first `numbers` floats; returns False if these do not match `digest`."""
        self._drawn, self._draw_bytes = hashlib.sha256(), 4 * numbers
        left = 4 * numbers
        try:
            with (self.path / _DRAWS).open("r+b") as stream:
                while left and (content := stream.read(min(left, 2**20))):
                    self._drawn.update(content)
                    left -= len(content)
                stream.truncate(4 * numbers)
        except FileNotFoundError:
            pass  # the same as an empty file
        return left == 0 and self._drawn.digest() == digest

    def seal_draws(self, chains: int, dim: int, steps: np.ndarray, *, weighted: bool = False) -> int:
        """Copy draws.part into draws.safetensors, with the steps that made the draws; returns the number of draws.

        Weighted draws also get their log weights (n, C), up to a constant. draws.part stays until `conclude`: after a
        crash before result.json, the checkpoint relies on it. Raises `DataError` if draws.part does not hold the draws
        that were written.
        """
        import numpy as np
        from safetensors.numpy import save

        path = self.path / _DRAWS
        if self._draw_bytes and not (path.exists() and checksum(path) == self._drawn.hexdigest()):
            raise self._draws_lost()
        flat = np.memmap(path, dtype=np.float32, mode="r") if self._draw_bytes else np.empty(0, np.float32)
        rows = flat.reshape(-1, chains, dim + weighted)
        arrays = {"draws": rows[:, :, :dim], "steps": steps[: len(rows)].astype(np.int64)}
        if weighted:
            arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
            arrays["log_weights"] = np.ascontiguousarray(rows[:, :, dim])
        content = save(arrays)
        write_whole(self.path / "draws.safetensors", content)
        return len(rows)

    def _draws_lost(self) -> DataError:
        return DataError(
            f"{self.path / _DRAWS} was deleted or changed while the run wrote to it; the same command starts it again"
        )

    def save_arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write NAME.safetensors, or nothing if there are no arrays."""
        if arrays:
            import numpy as np
            from safetensors.numpy import save

            plain = {key: np.asarray(array, order="C") for key, array in arrays.items()}
            write_whole(self.path / f"{name}.safetensors", save(plain))

    def result(self) -> dict[str, Any] | None:
        """Return the result, or None if the attempt is not concluded or the result is damaged."""
        return self.read_result()[0]

    def read_result(self) -> tuple[dict[str, Any] | None, str]:
        """Return the result and "", or None and what is wrong with the result; (None, "") if there is none yet."""
        try:
            record = parse_json(self.content(RESULT))
        except FileNotFoundError:
            return None, ""
        except (OSError, ValueError) as error:
            return None, f"result.json cannot be read: {error}"
        damage = result_damage(record, self.id)
        return (None, f"result.json {damage}") if damage else (record, "")

    def content(self, name: str) -> bytes:
        """Return the content of a record; raises `OSError` if there is none.

        The path is a text, because making thousands of Paths is slow.
        """
        return read_record(f"{self.path}/{name}")

    def events(self) -> list[dict[str, Any]]:
        """Return the events whose lines are intact, in order; each has at least a name and a time."""
        return [event for _, event in self.numbered_events()]

    def numbered_events(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the events with the numbers of their lines.

        A kill may cut a line short; a resumed worker writes the next one.
        """
        try:
            lines = self.content("events.jsonl").splitlines()
        except OSError:
            return
        yield from ((i, event) for i, line in enumerate(lines) if (event := _event(line)) is not None)

    def last_event(self) -> str:
        """Return the name of the last event whose line is intact, or ""."""
        events = self.events()
        return str(events[-1]["event"]) if events else ""

    def is_at_work_elsewhere(self) -> bool:
        """Return whether a worker may write to this attempt whom the locks of this kernel do not reach."""
        events = self.events()
        kernels = [event.get("kernel") for event in events if event["event"] in ("created", "started", "resumed")]
        return bool(kernels) and kernels[-1] != kernel() and events[-1]["event"] not in PAUSED

    def last_step(self) -> int:
        """Return the step of the latest checkpoint, as recorded in the events; 0 if there is none."""
        steps = [event.get("position") for event in self.events() if event["event"] == "checkpoint"]
        return max((step for step in steps if isinstance(step, int)), default=0)

    def moves(self) -> list[dict[str, Any]]:
        """Return the events of moves to other machines since the first step: what was `before`, what is `now`."""
        events = self.events()
        first = max((i for i, event in enumerate(events) if event["event"] == "started"), default=0)
        moves = [event for event in events[first:] if event["event"] == "moved"]
        return [move for move in moves if all(isinstance(move.get(side), dict) for side in ("before", "now"))]

    def started(self) -> str:
        """Return when the attempt began, however often it was resumed since: the time of its first event."""
        events = self.events()
        return str(events[0]["time"]) if events else now()


def read_checkpoint(path: Path) -> dict[str, np.ndarray] | None:
    """Return the arrays of a checkpoint, or None if it is missing or damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        content = read_bytes(path)
        arrays = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        digest = header["__metadata__"]["sha256"]
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return arrays if digest == _digest(arrays) else None


def _event(line: bytes) -> dict[str, Any] | None:
    """Return the event of a line, or None if the line was cut off or damaged."""
    try:
        record = parse_json(line)
        datetime.fromisoformat(record["time"])
        return record if isinstance(record["event"], str) else None
    except (ValueError, KeyError, TypeError):
        return None


def is_thinned(result: Mapping[str, Any]) -> bool:
    """Return whether some of the draws that a result counts as kept were not stored."""
    return bool(result.get("draws_stored") != result.get("draws_kept"))


def is_permanent(name: str) -> bool:
    """Return whether a file is part of a concluded attempt and will not change any more."""
    return name in _RECORDS or (name.endswith(".safetensors") and name not in WORK)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def result_damage(record: Mapping[str, Any], attempt: str) -> str:
    """Return what is wrong with the record of a result, or "" if nothing is."""
    if not seal_holds(record):
        return "is altered: its checksum does not match"
    if record.get("attempt") != attempt:
        return f"belongs to another attempt ({record.get('attempt')!r:.40})"
    if record.get("status") not in FINAL + FAILED:
        return f"has the status {record.get('status')!r:.40}, which is unknown"
    return ""


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    import numpy as np

    total = hashlib.sha256()
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        total.update(np.asarray(arrays[name], order="C").tobytes())
    return total.hexdigest()
