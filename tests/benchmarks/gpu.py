"""All that needs a GPU, in parts that are recorded as they finish: what a step takes, the GPU's tests, one run a paper.

    python tests/benchmarks/gpu.py run --work /somewhere/large --out gpu-results --seconds 520

The same command again goes on where the last one stopped; it says "all done" at the end. The first parts take two
minutes and need no data: whether steps can be recorded, seconds an epoch (plain, recorded, bfloat16, TF32), memory.
A part that fails is recorded with the end of its log, and the next one begins; `--retry` tries failed parts again.
Runs get as many epochs as fit in what is left of `--minutes`, at the speed that was measured, up to those of the paper;
one that is interrupted (SIGTERM, as a scheduler does it) goes on from its checkpoint in the next call. `--work` holds
data and checkpoints and stays where it is; `--out` is small and holds results.jsonl, logs, and the attempts as
attempts.tar.gz, which another machine unpacks in a results folder and reads with `bench ingest`.

Runs need torch, NumPy, SciPy, torchvision, pluggy, typer, rich, safetensors and platformdirs; only reports need DuckDB
and polars.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LEAST_SECONDS = 45.0
"""Less than this is too little to begin a part with."""
LIMITS = {"look": 150.0, "tests": 240.0, "beside": 240.0}
"""Seconds of a part by the first word of its name; one that takes longer has failed."""
TIMEOUT = 124
"""Recorded as the exit code of such a part."""
GRACE_SECONDS = 40.0
"""For a run that is ended to write its checkpoint."""
TRAIN = 50_000
LOOKS: Mapping[str, Mapping[str, Any]] = {
    "look-recorded": {"mode": "compiled"},
    "look-plain": {"mode": "plain"},
    "look-bfloat16": {"mode": "compiled", "precision": "bfloat16"},
    "look-tf32": {"mode": "compiled", "tf32": True},
    "look-plain-bfloat16": {"mode": "plain", "precision": "bfloat16"},
    "look-network": {"mode": "network"},
    "look-network-bfloat16": {"mode": "network", "precision": "bfloat16"},
    "look-decoding": {"mode": "decoding"},
}
LOOK = {"precision": "float32", "tf32": False, "width": 64, "batch": 100, "sampler": "msgld"}
ROUNDS = 5
RUNS = {"msgld": ("cifar10@adaptive-drift", 250 * 500, 500), "csgld": ("cifar10@csgmcmc", 200 * 782, 782)}
"""The papers' runs: task, steps, steps an epoch. Published: test accuracy 93.51 +- 0.08, test error 4.29 +- 0.06."""
SPARE = 0.8
"""Share of the time that is left that the steps of a run may take; the rest is for evaluation and checkpoints."""
BENCH = [sys.executable, "-c", "from harness.cli import main; main()"]
SMALL = ("spec.json", "result.json", "environment.json", "events.jsonl", "curves.safetensors", "arrays.safetensors")
"""Files of an attempt that travel; checkpoints and draws stay."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="do what is left")
    run.add_argument("--out", type=Path, default=Path("gpu-results"))
    run.add_argument("--work", type=Path, help="large files; default: work/ in --out")
    run.add_argument("--data", type=Path, help="default: data/ in --work, else BENCH_DATA")
    run.add_argument("--seconds", type=float, default=520.0, help="after which this call ends")
    run.add_argument("--minutes", type=float, default=25.0, help="that all calls may take together")
    run.add_argument("--device", default="cuda:0")
    run.add_argument("--precision", default="bfloat16", choices=("float32", "bfloat16"), help="of the runs")
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--steps", type=int, default=100, help="of a round of a look")
    run.add_argument("--width", type=int, default=64, help="of the network of a look")
    run.add_argument("--retry", action="store_true", help="try failed parts again")
    look = verbs.add_parser("look", help="one measurement, as JSON on stdout")
    look.add_argument("asked", type=json.loads)
    asked = parser.parse_args(arguments)
    if asked.verb == "look":
        answer = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what libraries print must not mix with the answer
        answer.write(json.dumps(measure(asked.asked)) + "\n")
        answer.flush()
        return 0
    asked.work = asked.work or asked.out / "work"
    return go_on(asked)


def go_on(asked: argparse.Namespace) -> int:
    for folder in (asked.out, asked.work):
        folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + asked.seconds
    record = Record(asked.out / "results.jsonl")
    for name in parts():
        if record.ended(name, retry=asked.retry):
            continue
        left = deadline - time.monotonic() - GRACE_SECONDS
        if left < LEAST_SECONDS:
            return again(f"{name} is next")
        began = time.monotonic()
        command = command_of(name, asked, record)
        log = asked.out / f"{name}.log"
        limit = LIMITS.get(name.partition("-")[0], left)
        code = execute(command, log, min(limit, left), environment(asked))
        code = TIMEOUT if code is None and limit < left else code
        seconds = round(time.monotonic() - began, 1)
        record.add(name, code, seconds, command, findings(name, asked, log, code))
        say(f"{name}: {'interrupted' if code is None else f'exit code {code}'}, {seconds:.0f} s; {log}")
        pack(asked)
        if code is None:
            return again(f"{name} was interrupted")
    failed = [name for name in parts() if record.last(name)["code"] != 0]
    say(f"all done{'; failed: ' + ', '.join(failed) if failed else ''}")
    return int(bool(failed))


def parts() -> list[str]:
    """The names of the parts, those first that teach most."""
    return [*LOOKS, "tests", *(f"run-{method}" for method in RUNS), "beside-sgd"]


def command_of(name: str, asked: argparse.Namespace, record: Record) -> list[str]:
    kind, _, rest = name.partition("-")
    if kind == "look":
        how = {**LOOK, **LOOKS[name], "device": asked.device, "steps": asked.steps, "width": asked.width}
        return [sys.executable, "-W", "ignore", str(HERE / "gpu.py"), "look", json.dumps(how)]
    if kind == "tests":
        tests = str(ROOT / "tests/contract/test_gpu.py")
        return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    if kind == "run":
        budget = budget_of(rest, asked, record)
        how = ["--seeds", str(asked.seed), "--budget", budget, "--devices", asked.device, "--preemptible", "--yes"]
        precision = ["--set", f"task.precision={asked.precision}"] if RUNS[rest][0].startswith("cifar") else []
        task = ["--sampler", rest, "--task", RUNS[rest][0]]
        return [*BENCH, "--results", str(asked.work / "results"), "run", *task, *how, *precision]
    wanted = {"device": asked.device.partition(":")[0], "rounds": 5, "steps": 50, "precision": asked.precision}
    return [sys.executable, "-W", "ignore", str(HERE / "networks.py"), json.dumps({**wanted, "width": asked.width})]


def budget_of(method: str, asked: argparse.Namespace, record: Record) -> str:
    """The paper's budget, or the whole epochs that fit in what is left, at least one.

    The choice is kept in a file, as the budget is part of the run's key. The speed is that of the look at the wanted
    precision, else of the first look that succeeded.
    """
    file = asked.out / f"budget-{method}"
    if file.exists():
        return file.read_text()
    _, steps, epoch = RUNS[method]
    looks = ["look-bfloat16" if asked.precision == "bfloat16" else "look-recorded", *LOOKS]
    speeds = [record.last(look).get("found", {}).get("steps_per_second") for look in looks]
    speed = next(filter(None, speeds), 0.0)
    runs_left = [name for name in RUNS if not record.ended(f"run-{name}", retry=False)]
    left = (60 * asked.minutes - record.seconds()) / max(1, len(runs_left))
    fit = int(SPARE * left * speed / epoch) * epoch
    budget = "paper" if fit >= steps else f"steps={max(fit, epoch)}"
    file.write_text(budget)
    return budget


def environment(asked: argparse.Namespace) -> dict[str, str]:
    """Of a part: this checkout first on the path, with its plugins, and the data."""
    data = asked.data or (asked.work / "data" if (asked.work / "data").exists() else None)
    path = os.pathsep.join(filter(None, (str(ROOT), str(declared(asked.work)), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, **({"BENCH_DATA": str(data)} if data else {})}


def declared(work: Path) -> Path:
    """Return a folder with the metadata of an installation, where nothing can be installed: it declares the plugins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folder = work.resolve() / "plugins"
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"].items()
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items()) for group, points in groups
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder


class Record:
    """What became of each part, a line each time it ran: results.jsonl."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def add(
        self, name: str, code: int | None, seconds: float, command: Sequence[str], findings: Mapping[str, Any]
    ) -> None:
        line = {"part": name, "code": code, "seconds": seconds, "found": dict(findings), "command": list(command)}
        self.lines.append(line)
        with self.path.open("a") as stream:
            stream.write(json.dumps(line) + "\n")

    def last(self, name: str) -> dict[str, Any]:
        return next((line for line in reversed(self.lines) if line["part"] == name), {})

    def ended(self, name: str, *, retry: bool) -> bool:
        code = self.last(name).get("code")
        return code == 0 or (code is not None and not retry)

    def seconds(self) -> float:
        return sum(line["seconds"] for line in self.lines)


def findings(name: str, asked: argparse.Namespace, log: Path, code: int | None) -> dict[str, Any]:
    """What a part found: the JSON at the end of its log, the metrics of a run, else the end of its log."""
    text = log.read_text(errors="replace")
    if name.startswith("run-"):
        return {"attempts": [attempt(folder) for folder in attempts(asked, name.removeprefix("run-"))]}
    if code == 0 and name != "tests":
        return json.loads(text.splitlines()[-1])
    return {"log": text[-2000:]}


def attempts(asked: argparse.Namespace, method: str | None = None) -> Iterator[Path]:
    for path in sorted((asked.work / "results" / "runs").glob("*/*/*/spec.json")):
        if method is None or json.loads(path.read_text())["method"] == method:
            yield path.parent


def attempt(folder: Path) -> dict[str, Any]:
    """How far an attempt is, and its metrics where it is done."""
    result = folder / "result.json"
    if not result.exists():
        lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        return {"events": [{k: v for k, v in line.items() if k != "text"} for line in lines[-3:]]}
    values = json.loads(result.read_text())
    metrics = {metric["name"]: metric["value"] for metric in values["metrics"]}
    return {**{name: values[name] for name in ("status", "reason", "seconds", "steps_done")}, "metrics": metrics}


def pack(asked: argparse.Namespace) -> None:
    results = asked.work / "results"
    if not (results / "runs").is_dir():
        return
    with tarfile.open(asked.out / "attempts.tar.gz", "w:gz") as archive:
        for folder in attempts(asked):
            for path in (folder / name for name in SMALL):
                if path.exists():
                    archive.add(path, path.relative_to(results))


def measure(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Steps a second of a network of the papers on images that are noise, as a worker would do them; memory in MB."""
    sys.path[:0] = [str(ROOT), str(HERE)]
    import networks
    import torch

    from harness.results.spec import Execution
    from harness.runs.job import set_up

    asked = {**LOOK, **asked}
    if asked["mode"] == "decoding":
        return decoding(asked["steps"])
    device, on_gpu = asked["device"], asked["device"] != "cpu"
    torch.set_num_threads(1)
    kind = "cuda" if on_gpu else "cpu"
    set_up(Execution(device=kind, dtype="float32", compile=asked["mode"], tf32=asked["tf32"]), device)
    said: dict[str, Any] = {"torch": torch.__version__, "python": sys.version.split()[0], "asked": dict(asked)}
    if on_gpu:
        said["gpu"] = torch.cuda.get_device_name(device)
    began = time.perf_counter()
    loop, _ = networks.looped(asked["sampler"], asked, device)
    for _ in range(8):  # three to warm up, one recorded, and some replayed
        loop.advance_block()
    wait(device)
    said["seconds_until_ready"] = round(time.perf_counter() - began, 2)
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(asked["steps"]):
            loop.advance_block()
        wait(device)
        rounds.append(asked["steps"] / (time.perf_counter() - began))
    speed = statistics.median(rounds)
    said |= {
        "steps_per_second": speed,
        "range": [min(rounds), max(rounds)],
        "seconds_per_epoch": TRAIN / asked["batch"] / speed,
        "finite": bool(loop.theta.isfinite().all()),
        "graphs": len(getattr(loop.stage.stepper, "_graphs", ())),
    }
    if on_gpu:
        said["memory"] = torch.cuda.max_memory_allocated() / 1e6
        said["memory_reserved"] = torch.cuda.max_memory_reserved() / 1e6
    return said


def decoding(batches: int) -> dict[str, Any]:
    """Images of ImageNet's usual size that the task decodes a second, by one thread and by one a core."""
    import tempfile

    import numpy as np
    import torch
    from PIL import Image

    from harness.contracts.randomness import Streams
    from tasks.vision.imagenet import ImageNet

    torch.set_num_threads(1)
    random, speeds = np.random.default_rng(0), {}
    with tempfile.TemporaryDirectory() as folder:
        for part in ("train", "val"):
            for name in ("a", "b"):
                classes = Path(folder, part, name)
                classes.mkdir(parents=True)
                for i in range(32 if part == "train" else 1):
                    coarse = Image.fromarray(random.integers(0, 256, (24, 32, 3), dtype=np.uint8)).resize((500, 375))
                    grain = random.normal(0, 12, (375, 500, 3))
                    pixels = np.clip(np.asarray(coarse) + grain, 0, 255).astype(np.uint8)
                    Image.fromarray(pixels).save(classes / f"{i}.JPEG", quality=90)
        for threads in sorted({1, len(os.sched_getaffinity(0))}):
            task = ImageNet(folder=folder, batch=64, images=64, classes=2, threads=threads)
            problem = task.build([Streams(0, 0)], "cpu")
            began, used = time.perf_counter(), time.process_time()
            for _ in range(batches):
                batch = {name: leaf[0] for name, leaf in problem.draw_batches(1).items()}
                problem.batch_rows(0, batch, 64)
            problem.pool.shutdown()
            wall, processor = time.perf_counter() - began, time.process_time() - used
            speeds[f"{threads} threads"] = {
                "images_per_second": 64 * batches / wall, "per_core": 64 * batches / processor,
            }  # fmt: skip
    return {"asked": {"mode": "decoding", "batches": batches}, **speeds}


def wait(device: str) -> None:
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def execute(command: Sequence[str], log: Path, seconds: float, environment: Mapping[str, str]) -> int | None:
    """The exit code; None where the time was over before its end."""
    with log.open("a") as stream:
        stream.write(f"$ {' '.join(command)}\n")
        stream.flush()
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=dict(environment))
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return None


def again(why: str) -> int:
    say(f"{why}; repeat the command to resume")
    return 3


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
