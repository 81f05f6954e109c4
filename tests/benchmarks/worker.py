"""The driver's side of a measurement: a process that is ready when it says a line, and answers each line with one."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Worker:
    """The process of one case: a script of this folder, given what is asked as JSON; `problem` says why it failed."""

    def __init__(
        self, name: str, script: str, asked: object, environment: Mapping[str, str], limit: float | None = None
    ) -> None:
        self.name, self.limit, self.problem = name, limit, ""
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(Path(__file__).with_name(script)), json.dumps(asked)],
            env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
        )  # fmt: skip

    def measure(self, seconds: float) -> dict[str, Any]:
        """The answer to some seconds of measurement; {} where it failed."""
        if self.problem:
            return {}
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next line, the first of which says that all is ready."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], self.limit)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return dict(json.loads(line))
        self.log.seek(0)
        lines = self.log.read().strip().splitlines() or ["no answer"]
        self.problem = lines[-1] if ready else f"not ready after {self.limit:g} s"
        sys.stderr.write(f"  {self.name}: {self.problem}\n")
        return {}

    def close(self) -> None:
        if self.process.poll() is None and self.problem:
            self.process.kill()
        self.process.communicate()
        self.log.close()
