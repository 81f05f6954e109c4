"""The driver's side of a measurement: a process that is ready when it says a line, and answers each line with one."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from setting import Case
from tables import plural

HERE = Path(__file__).parent
SCRIPTS = {
    "bench": "stepping.py",
    "torch": "bare.py",
    "blackjax": "peers_blackjax.py",
    "posteriors": "peers_posteriors.py",
}


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


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def measure_group(cases: Sequence[Case], rounds: int, seconds: float, environment: Mapping[str, str]) -> list[Any]:
    first = cases[0]
    say(f"{first.method} on {first.task}, {plural(first.chains)}: {', '.join(case.name for case in cases)}")
    workers, measured = [], []
    for case in cases:
        worker = Worker(case.name, SCRIPTS[case.library], case.to_json(), environment)
        workers.append(worker)
        measured.append({**case.to_json(), **worker.answer(), "rates": [], "waits": []})
    for _ in range(rounds):
        for worker, result in zip(workers, measured, strict=True):
            if answer := worker.measure(seconds):
                result["rates"].append(answer["chain_steps"] / answer["seconds"] / 1e6)
                result["waits"].append(answer["wall"] / answer["seconds"])
    for worker in workers:
        worker.close()
    return [result | {"problem": worker.problem} for worker, result in zip(workers, measured, strict=True)]


def answer_of(script: str, *arguments: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The JSON that a script of this folder prints; {"problem"} where it fails."""
    command = [sys.executable, "-W", "ignore", str(HERE / script), *arguments]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        problem = done.stderr.strip().splitlines()[-1]
        say(f"  {script} {' '.join(arguments)}: {problem}")
        return {"problem": problem}
    return dict(json.loads(done.stdout.splitlines()[-1]))
