"""Law 8: restored from its checkpoint in a fresh process, a run continues as if it had never stopped."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from harness import Sampler
from harness.system.arithmetic import decides
from harness.system.import_path import command, import_path
from plugins.checking import resume
from plugins.checking.law import Broken, Law, same

PATIENCE = 300.0
"""Seconds that the other process has; importing torch on a busy machine takes most of them."""


KEPT = frozenset(
    {"PATH", "HOME", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL"}
)
"""Environment variables that the other process also has, beside those that decide the bits of a result."""


def _minimal_environment() -> dict[str, str]:
    """Return the environment without variables that a sampler might read: a run depends on its spec only."""
    return {name: value for name, value in os.environ.items() if name in KEPT or decides(name)}


class Resumption:
    """One fresh process that continues from the checkpoints of several samplers, while this process runs other laws."""

    def __init__(self, samplers: Sequence[Sampler]) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="bench-check-")
        self.expected: list[dict[str, Tensor]] = []
        self.failures: list[Exception | None] = []
        jobs = [self._prepare(i, sampler) for i, sampler in enumerate(samplers)]
        (self._path / "jobs.json").write_text(json.dumps(jobs))
        self.process = subprocess.Popen(
            command("plugins.checking.resume", str(self._path)),
            env=_minimal_environment() | import_path(),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    @property
    def _path(self) -> Path:
        return Path(self.folder.name)

    def _prepare(self, i: int, sampler: Sampler) -> dict[str, Any] | None:
        """Write the checkpoint and record how the uninterrupted run ends; return the description of the sampler."""
        self.expected.append({})
        self.failures.append(None)
        try:
            description = resume.describe(sampler)
            running = resume.start(sampler)
            running.advance_block()
            checkpoint = running.checkpoint(running.runs[0])
            safetensors.torch.save_file(checkpoint, self._path / f"{i}.safetensors")
            self.expected[i] = resume.end(running)
        except Exception as error:  # noqa: BLE001 - raised when this sampler is checked
            self.failures[i] = error
            return None
        return description

    def check(self, i: int) -> None:
        """Raise `Broken` if the i-th sampler did not continue as the uninterrupted run did."""
        failure = self.failures[i]
        if failure is not None:
            raise failure
        try:
            _, errors = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.close()
            raise Broken(f"the fresh process did not end within {PATIENCE:g} s") from None
        except ValueError:  # its output was read for an earlier sampler
            errors = ""
        if (self._path / f"{i}.error").exists():
            raise Broken(f"the fresh process fails: {(self._path / f'{i}.error').read_text()}")
        if not (self._path / f"{i}.end.safetensors").exists():
            raise Broken(f"the fresh process ends with code {self.process.returncode}: {errors.strip()[-500:]}")
        ended = safetensors.torch.load_file(self._path / f"{i}.end.safetensors")
        for name, leaf in self.expected[i].items():
            if not same(ended[name], leaf):
                gap = (ended[name].double() - leaf.double()).abs().max().item()
                raise Broken(
                    f"in a fresh process, with few environment variables, ten steps after the restore {name} "
                    f"differs by {gap:.2g} from the uninterrupted run"
                )

    def close(self) -> None:
        """End the process and remove the folder."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.folder.cleanup()


def check(sampler: Sampler) -> None:
    """Check the law for one sampler alone; the suite shares one process between many samplers."""
    resumption = Resumption([sampler])
    try:
        resumption.check(0)
    finally:
        resumption.close()


LAW = Law(
    8, "restore", check,
    "something remembered in the sampler object or module instead of the state dict",
    exemptible=False,
)  # fmt: skip
