"""All that needs a GPU, in parts that are recorded as they finish: measurements, the GPU's tests, one run a paper.

    python tests/benchmarks/gpu.py run --work /somewhere/large --out gpu-results --seconds 520

The same command again goes on where the last one stopped; it says "all done" at the end. First come the blocks of
gpu_blocks.py, which need no data and eleven minutes at most, each with a limit. A part that fails is recorded with the
end of its log, and the next one begins; `--retry` tries failed parts again. Runs get as many epochs as fit in what is
left of `--minutes`, at the speed that was measured, up to those of the paper; one that is interrupted (SIGTERM, as a
scheduler does it) goes on from its checkpoint in the next call. `--work` holds data and checkpoints and stays where it
is; `--out` is small and holds results.jsonl, logs, the attempts as attempts.tar.gz, which another machine unpacks in a
results folder and reads with `bench ingest`, and gpu.json, the record of them. A machine that takes no large files gets
CIFAR-10 in pieces, in the folder `--data`; runs whose images are not complete are left out:

    split -d -b 60M cifar-10-python.tar.gz cifar-10-python.tar.gz.

The record of several machines or days is one of their results.jsonl, each with its date and the version of the code:

    python tests/benchmarks/gpu.py record --out docs/benchmarks/gpu.json --session results.jsonl 2026-11-27 0045fba4

Runs need torch, NumPy, SciPy, torchvision, pluggy, typer, rich, safetensors and platformdirs; only reports need DuckDB
and polars.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
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
BLOCKS = {
    "ready": 60.0, "steps": 75.0, "network": 180.0, "profile": 40.0, "rows": 60.0, "predict": 40.0, "memory": 40.0,
    "chains": 90.0, "blackjax": 60.0,
}  # fmt: skip
"""The blocks of gpu_blocks.py, with the seconds that each may take."""
LIMITS = {**BLOCKS, "tests": 240.0, "beside": 240.0}
"""Seconds of a part by the first word of its name; one that takes longer has failed."""
TIMEOUT = 124
"""Recorded as the exit code of such a part."""
GRACE_SECONDS = 40.0
"""For a run that is ended to write its checkpoint."""
TRAIN = 50_000
RUNS = {"msgld": ("cifar10@adaptive-drift", 250 * 500, 500), "csgld": ("cifar10@csgmcmc", 200 * 782, 782)}
"""The papers' runs: task, steps, steps an epoch."""
PIECE = re.compile(r"(?P<archive>.+\.(?:tar|tar\.gz|tgz))\.(?P<number>\d+)")
RECORDED = ("key", "method", "protocol", "seed", "steps", "budget", "compile", "tf32")
"""What the record has of the spec of a run."""
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
    run.add_argument("--data", type=Path, help="files or pieces of archives; default: data/ in --work, else BENCH_DATA")
    run.add_argument("--seconds", type=float, default=520.0, help="after which this call ends")
    run.add_argument("--minutes", type=float, default=25.0, help="that all calls may take together")
    run.add_argument("--device", default="cuda:0")
    run.add_argument("--precision", default="bfloat16", choices=("float32", "bfloat16"), help="of the runs")
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--steps", type=int, default=60, help="of a round of a block")
    run.add_argument("--width", type=int, default=64, help="of the network of a block")
    run.add_argument("--retry", action="store_true", help="try failed parts again")
    record = verbs.add_parser("record", help="write the record of several sessions")
    what = "file, date, version of the code, and notes"
    record.add_argument("--session", nargs="+", action="append", default=[], metavar="FILE DATE CODE NOTE", help=what)
    record.add_argument("--attempts", type=Path, nargs="*", default=[], help="unpacked: folders with runs/")
    record.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args(arguments)
    if asked.verb == "record":
        sessions = [(Record(Path(file)).lines, *how) for file, *how in asked.session]
        write_record(asked.out, sessions, asked.attempts)
        return 0
    asked.work = asked.work or asked.out / "work"
    return go_on(asked)


def go_on(asked: argparse.Namespace) -> int:
    for folder in (asked.out, asked.work):
        folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + asked.seconds
    missing = prepare(asked)
    record = Record(asked.out / "results.jsonl")
    for name in parts():
        if record.ended(name, retry=asked.retry) or (missing and needs_images(name)):
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
        write_record(asked.out / "gpu.json", [(record.lines, time.strftime("%Y-%m-%d"), version())], [results(asked)])
        if code is None:
            return again(f"{name} was interrupted")
    failed = [name for name in parts() if record.last(name).get("code", 0) != 0]
    left_out = [name for name in parts() if not record.last(name)]
    say(f"all done{'; failed: ' + ', '.join(failed) if failed else ''}")
    if left_out:
        say(f"left out: {', '.join(left_out)}; what is missing: {', '.join(missing)}")
    return int(bool(failed))


def parts() -> list[str]:
    """The names of the parts, those first that teach most."""
    return [*BLOCKS, "tests", *(f"run-{method}" for method in RUNS), "beside-sgd"]


def command_of(name: str, asked: argparse.Namespace, record: Record) -> list[str]:
    kind, _, rest = name.partition("-")
    if kind in BLOCKS:
        how = {"device": asked.device, "steps": asked.steps, "width": asked.width}
        return [sys.executable, "-W", "ignore", str(HERE / "gpu_blocks.py"), name, json.dumps(how)]
    if kind == "tests":
        tests = str(ROOT / "tests/contract/test_gpu.py")
        return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    if kind == "run":
        budget = budget_of(rest, asked, record)
        how = ["--seeds", str(asked.seed), "--budget", budget, "--devices", asked.device, "--preemptible", "--yes"]
        precision = ["--set", f"task.precision={asked.precision}"] if RUNS[rest][0].startswith("cifar") else []
        task = ["--sampler", rest, "--task", RUNS[rest][0]]
        return [*BENCH, "--results", str(results(asked)), "run", *task, *how, *precision]
    wanted = {"device": asked.device.partition(":")[0], "rounds": 5, "steps": 50, "precision": asked.precision}
    return [sys.executable, "-W", "ignore", str(HERE / "networks.py"), json.dumps({**wanted, "width": asked.width})]


def budget_of(method: str, asked: argparse.Namespace, record: Record) -> str:
    """The paper's budget, or the whole epochs that fit in what is left, at least one.

    The choice is kept in a file, as the budget is part of the run's key. The speed is that of recorded steps at the
    wanted precision, else of the first that were measured.
    """
    file = asked.out / f"budget-{method}"
    if file.exists():
        return file.read_text()
    _, steps, epoch = RUNS[method]
    lines = [line for line in record.last("steps").get("found", {}).get("lines", ()) if line.get("ms")]
    how = {"mode": "compiled", "precision": asked.precision, "last": True, "batch": round(TRAIN / epoch)}
    lines.sort(key=lambda line: [line["asked"][name] != value for name, value in how.items()])
    speed = 1e3 / statistics.median(lines[0]["ms"]) if lines else 0.0
    runs_left = [name for name in RUNS if not record.ended(f"run-{name}", retry=False)]
    left = (60 * asked.minutes - record.seconds()) / max(1, len(runs_left))
    fit = int(SPARE * left * speed / epoch) * epoch
    budget = "paper" if fit >= steps else f"steps={max(fit, epoch)}"
    file.write_text(budget)
    return budget


def environment(asked: argparse.Namespace) -> dict[str, str]:
    """Of a part: this checkout first on the path, with its plugins."""
    path = os.pathsep.join(filter(None, (str(ROOT), str(declared(asked.work)), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def prepare(asked: argparse.Namespace) -> list[str]:
    """Unpack pieces of archives, name the folder of the data in BENCH_DATA, and return what is missing of CIFAR-10."""
    data, lost = asked.data or asked.work / "data", []
    if any(PIECE.fullmatch(path.name) for path in (data.iterdir() if data.is_dir() else ())):
        lost = unpack(data, asked.work / "unpacked")
        data = asked.work / "unpacked"
    if data.is_dir():
        os.environ["BENCH_DATA"] = str(data.resolve())
    sys.path[:0] = [str(ROOT)]
    from harness.contracts.data import problem
    from tasks.datasets.cifar import CIFAR10

    missing = [*lost, *(f"{file.path} ({wrong})" for file in CIFAR10 if (wrong := problem(file)))]
    if missing:
        say(f"no run on CIFAR-10: {', '.join(missing)}")
    return missing


def unpack(folder: Path, to: Path) -> list[str]:
    """Unpack archives from their numbered pieces, as far as there are any, and return the names of those between."""
    missing = []
    pieces: dict[str, dict[int, Path]] = {}
    for path in sorted(folder.iterdir()):
        if match := PIECE.fullmatch(path.name):
            pieces.setdefault(match["archive"], {})[int(match["number"])] = path
    for archive, numbered in pieces.items():
        width = len(next(iter(numbered.values())).name) - len(archive) - 1
        lost = [number for number in range(max(numbered)) if number not in numbered]
        missing += [f"{archive}.{number:0{width}}" for number in lost]
        to.mkdir(parents=True, exist_ok=True)
        joined = to / archive
        with joined.open("wb") as stream:
            for number in range(min([*lost, max(numbered) + 1])):
                with numbered[number].open("rb") as piece:
                    shutil.copyfileobj(piece, stream)
        try:
            with tarfile.open(joined) as whole:
                for member in whole:
                    whole.extract(member, to, filter="data")
        except (tarfile.TarError, EOFError, OSError) as error:  # it ends early: the files before are there
            say(f"{archive} is not complete: {error}")
        joined.unlink()
    return missing


def needs_images(name: str) -> bool:
    return name.startswith("run-") and RUNS[name.removeprefix("run-")][0].startswith("cifar")


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
    """What a part found: the lines of a block, the metrics of a run, the JSON of a measurement, the end of its log."""
    text = log.read_text(errors="replace").rpartition("\n$ ")[2]
    if name in BLOCKS:
        lines = [json.loads(line) for line in text.splitlines() if line.startswith('{"block"')]
        return {"lines": lines} if code == 0 else {"lines": lines, "log": text[-2000:]}
    if name.startswith("run-"):
        return {"attempts": [attempt(folder) for folder in attempts(asked, name.removeprefix("run-"))]}
    if code == 0 and name != "tests":
        return json.loads(text.splitlines()[-1])
    return {"log": text[-2000:]}


def results(asked: argparse.Namespace) -> Path:
    return Path(asked.work, "results")


def attempts(asked: argparse.Namespace, method: str | None = None) -> Iterator[Path]:
    for path in sorted((results(asked) / "runs").glob("*/*/*/spec.json")):
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
    if not (results(asked) / "runs").is_dir():
        return
    with tarfile.open(asked.out / "attempts.tar.gz", "w:gz") as archive:
        for folder in attempts(asked):
            for path in (folder / name for name in SMALL):
                if path.exists():
                    archive.add(path, path.relative_to(results(asked)))


def write_record(path: Path, sessions: Sequence[tuple[Any, ...]], folders: Sequence[Path]) -> None:
    """Write what the lines of results.jsonl have of blocks and tests, and the finished runs: docs/benchmarks/gpu.json.

    A session is the lines, the date, the version of the code, and notes for the reader.
    """
    written = []
    for lines, date, code, *notes in sessions:
        last = {line["part"]: line for line in lines}
        cases = [case for line in last.values() for case in line["found"].get("lines", ())]
        tests = last.get("tests", {}).get("found", {}).get("log", "").rstrip().rpartition("\n")[2]
        how = {"date": date, "code": code, "notes": notes, "tests": tests.strip("= ")}
        written.append({**how, "cases": cases})
    runs = [run for folder in folders for run in map(finished, sorted(folder.glob("runs/*/*/*"))) if run]
    path.write_text(json.dumps({"sessions": written, "runs": runs}, indent=1) + "\n")


def finished(folder: Path) -> dict[str, Any] | None:
    """What a reader wants to know of a finished attempt."""
    if not (folder / "result.json").exists():
        return None
    spec, result, where = (json.loads((folder / f"{n}.json").read_text()) for n in ("spec", "result", "environment"))
    by_user = {name: origin["value"] for name, origin in spec["origins"].items() if origin["provenance"] == "user"}
    metrics, code = {m["name"]: m["value"] for m in result["metrics"]}, where["code"]["sgmcmc-bench"]
    return {
        **{name: spec[name] for name in RECORDED}, "task": spec["task"]["name"], "settings": by_user,
        **{name: result[name] for name in ("status", "finished", "passes", "draws_kept", "executed", "seconds")},
        **{name: where.get(name) for name in ("gpu", "torch", "python")},
        "code": code["commit"][:8] + " with changes" * code["dirty"], "metrics": metrics,
    }  # fmt: skip


def version() -> str:
    """This checkout's commit; "" outside of a repository."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


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
