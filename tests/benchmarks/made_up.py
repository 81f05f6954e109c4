"""Results folders of any size, made up: as few files an attempt as the ledger's format allows.

python tests/benchmarks/made_up.py FOLDER --methods 50 --tasks 20 --seeds 100
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
from pathlib import Path

import numpy as np

from harness.results.spec import Component, Execution, Origin, RunSpec, recorded_key
from harness.system.files import sealed

MAX_NAMES = 30_000
"""Of one file: file systems have a limit."""
METRICS = tuple(f"metric_{i}" for i in range(10))
EVENTS = '{"time": "2026-01-02T03:04:05+00:00", "event": "created"}\n'
ENVIRONMENT = {
    "id": "e" * 64, "bench": "0.1.0", "python": "3.11.7", "platform": "Linux 6 x86_64", "cpu": "a processor",
    "cores": 2, "gpu": None, "torch": "2.9.0", "device": "cpu", "threads": 1, "deterministic": True,
    "packages": {"numpy": "2.0.0"},
    "code": {"sgmcmc-bench": {"version": "0.1.0", "commit": "a" * 40, "dirty": False}},
}  # fmt: skip


def fill(results: Path, methods: int, tasks: int, seeds: int, *, curves: bool = False) -> int:
    """Finished attempts of methods x tasks x seeds, ten metrics each; returns how many. The curves, if any, are
    those of a smoke run on a mixture: fourteen of 70 points and 4 chains, the same in every attempt.
    """
    results.mkdir(parents=True, exist_ok=True)
    (results / "ledger.json").write_text('{"layout": 1}')
    texts = {"environment.json": json.dumps(ENVIRONMENT), "events.jsonl": EVENTS}
    draw = random.Random(0)
    content = _curves() if curves else b""
    files = {"curves.safetensors": hashlib.sha256(content).hexdigest()} if curves else {}
    wanted = itertools.product(range(methods), range(tasks), range(seeds))
    number = 0
    for number, (method, task, seed) in enumerate(wanted, start=1):
        document = _spec(f"method-{method}", f"task-{task}", seed).to_json()
        attempt = f"20260102T{number:09d}-{document['key'][:6]}"
        folder = f"{results}/runs/{document['key'][:2]}/{document['key']}/{attempt}"
        os.makedirs(folder)  # noqa: PTH103 - half a million paths: text is faster
        _write(f"{folder}/spec.json", document)
        level = method / methods
        values = [level + draw.gauss(0, 0.1) for _ in METRICS]
        _write(f"{folder}/result.json", _result(attempt, document["key"], values, files))
        if curves:
            Path(folder, "curves.safetensors").write_bytes(content)
        for name, text in texts.items():
            _link(results / f".{name}-{number // MAX_NAMES}", text, f"{folder}/{name}")
    return number


def finish(results: Path, sampler: str, task: str, seeds: int) -> None:
    """Results of real runs, as a command plans them, made up: done, and nothing more."""
    from harness.contracts.registry import registry
    from harness.results.ledger.ledger import Ledger
    from harness.runs.plan import RunRequest, plan

    ledger = Ledger(results)
    ledger.prepare()
    asked = RunRequest([sampler], [task], seeds=range(seeds), chains=4, budget="smoke")
    for number, planned in enumerate(plan(registry(), asked, ledger)):
        spec = planned.spec
        attempt = f"20260102T{number:09d}-{spec.key[:6]}"
        folder = f"{ledger.runs}/{spec.key[:2]}/{spec.key}/{attempt}"
        os.makedirs(folder)  # noqa: PTH103 - as above
        _write(f"{folder}/spec.json", spec.to_json())
        _write(f"{folder}/result.json", _result(attempt, spec.key, [0.0] * len(METRICS), {}))


def arrive(results: Path) -> int:
    """What the agents of all submitted jobs send, made up: each run is done. Returns how many."""
    from plugins.clusters.launcher import LOG, PARCEL
    from plugins.clusters.parcel import pack, unpack

    number = 0
    for exchange in (path.parent for path in results.glob(f"jobs/*/{PARCEL}")):
        messages = []
        for job in json.loads(unpack((exchange / PARCEL).read_bytes())["job.json"])["jobs"]:
            for spec in job["specs"]:
                number += 1
                key = spec["key"]
                attempt = f"20260102T{number:09d}-{key[:6]}"
                result = _result(attempt, key, [0.0] * len(METRICS), {})
                files = {"spec.json": spec, "result.json": result}
                content = pack({name: json.dumps(document).encode() for name, document in files.items()})
                (exchange / f"attempt-{key}-{attempt}.tar").write_bytes(content)
                messages.append(["finished", {"key": key, "status": "done", "reason": None}])
        log = {"agent": "0", "job": "", "ended": True, "stopped": False, "messages": messages, "progress": {}}
        (exchange / LOG).write_text(json.dumps(log))
    return number


def multiply(results: Path, seeds: int) -> int:
    """Copies of the finished attempts of a results folder, real ones, for further seeds: each group has `seeds` runs
    afterwards. Keys, checksums and names are those of the new runs; metrics vary by a percent, curves and draws do not.
    Returns how many attempts were made. Keep `seeds` below 30,000: files that do not differ are links.
    """
    draw = random.Random(0)
    number = 0
    for path in sorted(results.glob("runs/*/*/*/result.json")):
        spec, result = (json.loads((path.parent / name).read_text()) for name in ("spec.json", "result.json"))
        same = [p.name for p in path.parent.iterdir() if p.name not in ("spec.json", "result.json")]
        for seed in range(seeds):
            if seed == spec["seed"]:
                continue
            number += 1
            spec_of_seed = {**spec, "seed": seed}
            spec_of_seed["key"] = recorded_key(spec_of_seed)
            attempt = f"20260102T{number:09d}-{spec_of_seed['key'][:6]}"
            folder = f"{results}/runs/{spec_of_seed['key'][:2]}/{spec_of_seed['key']}/{attempt}"
            os.makedirs(folder)  # noqa: PTH103 - as above
            for name in same:
                os.link(path.parent / name, f"{folder}/{name}")
            _write(f"{folder}/spec.json", spec_of_seed)
            digest = hashlib.sha256(Path(folder, "spec.json").read_bytes()).hexdigest()
            metrics = [
                {**metric, "value": None if metric["value"] is None else metric["value"] * draw.gauss(1, 0.01)}
                for metric in result["metrics"]
            ]
            changed = {"attempt": attempt, "key": spec_of_seed["key"], "metrics": metrics}
            changed["files"] = {**result["files"], "spec.json": digest}
            _write(f"{folder}/result.json", sealed({**result, **changed}))
    return number


def _curves() -> bytes:
    from safetensors.numpy import save

    x = np.geomspace(1.0, 1e4, 70)
    y = np.random.default_rng(0).random((4, 70))
    return save({f"curve_{i}/{axis}": part + i for i in range(14) for axis, part in (("x", x), ("y", y))})


def _spec(method: str, task: str, seed: int) -> RunSpec:
    part = {"target": "m:C", "source": "s" * 64}
    origins = {
        "schedule.step_size": Origin(0.02, "paper", "section 5.1"),
        "sampler.gradient_variance": Origin(0.0, "default", "none, as published"),
    }
    return RunSpec(
        sampler=Component(method, params={"gradient_variance": 0.0}, **part),
        schedule=Component("constant", params={"step_size": 0.02, "temperature": 1.0}, **part),
        task=Component(task, params={}, **part),
        method=method, task_version=1, protocol="paper", data="", budget="quick", steps=1000, burn_in=100, thin=1,
        seed=seed, chains=4, execution=Execution(dtype="float32"), origins=origins,
    )  # fmt: skip


def _result(attempt: str, key: str, values: list[float], files: dict[str, str]) -> dict[str, object]:
    return {
        "attempt": attempt, "key": key, "status": "done", "reason": None, "step": None, "chain": None,
        "started": "2026-01-02T03:04:05+00:00", "finished": "2026-01-02T03:05:05.250000+00:00",
        "seconds": {"sampling": 50.0, "observing": 8.0, "checkpoint": 1.0, "setup": 1.0},
        "steps_done": 1000, "passes": 1000.0, "passes_per_step": 1.0,
        "draws_kept": 900, "draws_stored": 900, "draws_stride": 1,
        "metrics": [
            {
                "name": name, "value": value, "version": 1, "unit": "1", "direction": "max", "target": None,
                "primary": name == METRICS[0],
            }
            for name, value in zip(METRICS, values, strict=True)
        ],
        "files": files,
    }  # fmt: skip


def _write(path: str, document: dict[str, object]) -> None:
    with open(path, "w", encoding="utf-8") as stream:  # noqa: PTH123 - as above
        json.dump(document, stream, sort_keys=True)


def _link(file: Path, text: str, name: str) -> None:
    """One file under many names: it takes no space."""
    try:
        os.link(file, name)
    except FileNotFoundError:
        file.write_text(text)
        os.link(file, name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for option, number in (("--methods", 50), ("--tasks", 20), ("--seeds", 100)):
        parser.add_argument(option, type=int, default=number)
    given = parser.parse_args()
    fill(given.folder, given.methods, given.tasks, given.seeds)
