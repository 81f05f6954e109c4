"""One attempt at one run: a directory that its worker alone writes to.

spec.json  environment.json  events.jsonl            from the start
checkpoint.safetensors  draws.part                   while unfinished
draws.safetensors  curves.safetensors  arrays.safetensors  result.json     at the end, result.json last
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from harness.ledger.files import read_json, write_json, write_whole
from harness.spec import RunSpec

CONTINUABLE = ("cancelled", "preempted", "orphaned")
FINAL = ("done", "diverged")
FAILED = ("error", "out_of_memory", "timeout")

_CHECKPOINT = "checkpoint.safetensors"


def now() -> str:
    """The time, UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Attempt:
    """An attempt directory, open for writing by the worker that holds the run's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def id(self) -> str:
        """The name of the directory; it sorts by time."""
        return self.path.name

    @classmethod
    def create(cls, runs: Path, spec: RunSpec, environment: Mapping[str, Any]) -> Attempt:
        """A new attempt below `runs`. spec.json comes last: a directory without it is no attempt."""
        moment = datetime.now(UTC)
        name = f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03d}-{secrets.token_hex(3)}"
        attempt = cls(runs / spec.key[:2] / spec.key / name)
        attempt.path.mkdir(parents=True)
        write_json(attempt.path / "environment.json", environment)
        write_json(attempt.path / "spec.json", spec.to_json())
        attempt.event("created")
        return attempt

    def event(self, name: str, **fields: Any) -> None:
        """Append one line to events.jsonl; a line that a crash cut off is ended first, so it spoils no other."""
        path = self.path / "events.jsonl"
        line = json.dumps({"time": now(), "event": name, **fields}, allow_nan=False).encode() + b"\n"
        with path.open("ab+") as stream:
            if stream.tell():
                stream.seek(-1, 2)
                line = line if stream.read(1) == b"\n" else b"\n" + line
            stream.write(line)

    def save_checkpoint(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Replace the checkpoint. The digest in its header tells a damaged one from a whole one."""
        plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        write_whole(self.path / _CHECKPOINT, save_arrays(plain, metadata={"sha256": _digest(plain)}))

    def load_checkpoint(self) -> dict[str, np.ndarray] | None:
        """The checkpoint; None where there is none or it is damaged."""
        try:
            content = (self.path / _CHECKPOINT).read_bytes()
            arrays = load_arrays(content)
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        except (OSError, SafetensorError, ValueError):
            return None
        return arrays if header.get("__metadata__", {}).get("sha256") == _digest(arrays) else None

    def append_draws(self, draws: np.ndarray) -> None:
        """Add float32 draws (B, C, D) to those on disk."""
        with (self.path / "draws.part").open("ab") as stream:
            stream.write(np.ascontiguousarray(draws, dtype=np.float32).tobytes())

    def truncate_draws(self, numbers: int) -> bool:
        """Cut the draws on disk back to the first `numbers` floats; False where there are fewer."""
        path = self.path / "draws.part"
        if numbers == 0:
            path.unlink(missing_ok=True)
            return True
        if not path.exists() or path.stat().st_size < 4 * numbers:
            return False
        with path.open("r+b") as stream:
            stream.truncate(4 * numbers)
        return True

    def seal_draws(self, chains: int, dim: int, steps: np.ndarray) -> int:
        """Copy draws.part into draws.safetensors with the steps that made them; returns how many there are.

        draws.part stays until `conclude`: a crash before result.json must find what its checkpoint counts on.
        """
        path = self.path / "draws.part"
        flat = np.fromfile(path, dtype=np.float32) if path.exists() else np.empty(0, np.float32)
        draws = flat.reshape(-1, chains, dim)
        content = save_arrays({"draws": draws, "steps": steps[: len(draws)].astype(np.int64)})
        write_whole(self.path / "draws.safetensors", content)
        return len(draws)

    def save_arrays(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write NAME.safetensors (nothing where there are no arrays)."""
        if arrays:
            plain = {key: np.asarray(array, order="C") for key, array in arrays.items()}
            write_whole(self.path / f"{name}.safetensors", save_arrays(plain))

    def conclude(self, result: Mapping[str, Any]) -> None:
        """Write result.json with the checksums of the other files: the attempt is final from here on."""
        if self.result() is not None:
            raise ValueError(f"{self.path} is concluded already")
        files = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.path.glob("*.safetensors"))
            if path.name != _CHECKPOINT
        }
        self.event("finished" if result["status"] in FINAL else "failed", status=result["status"])
        write_json(self.path / "result.json", {**result, "attempt": self.id, "files": files})
        (self.path / _CHECKPOINT).unlink(missing_ok=True)
        (self.path / "draws.part").unlink(missing_ok=True)

    def result(self) -> dict[str, Any] | None:
        """The result, once concluded."""
        return read_json(self.path / "result.json")

    def last_event(self) -> str:
        """The name of the last whole event."""
        try:
            lines = (self.path / "events.jsonl").read_bytes().splitlines()
        except OSError:
            return ""
        for line in reversed(lines):
            try:
                return str(json.loads(line)["event"])
            except (ValueError, KeyError, TypeError):
                continue
        return ""


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    total = hashlib.sha256()
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        total.update(np.asarray(arrays[name], order="C").tobytes())
    return total.hexdigest()
