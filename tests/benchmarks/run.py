"""Measure everything and write docs/benchmarks.md: `nox -s benchmarks`, or `-- --quick` for a trial of all of it;
`-- --samplers` measures the update of every sampler, and nothing else, `-- --networks` a training step of a network,
`-- --study` sampling on larger posteriors; `-- --again missing memory commands predictions stores` those parts anew,
`missing` the rows that are not measured.

Each case has a process of its own on one core; the processes of a group are ready at once and are measured in turn, so
that what else the machine does meets all of them alike. All numbers are kept in docs/benchmarks/measurements.json.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import commands
import memory
import networks
import page
import samplers
import study
from cases import MANY, MODES, bare, groups, lacking_data, profiled
from setting import Case
from tables import plural
from worker import answer_of, measure_group, say

HERE = Path(__file__).parent
PEERS = ("blackjax", "jax", "jaxlib", "posteriors", "torch", "numpy")


def measure_profile(environment: Mapping[str, str], seconds: float, *, quick: bool) -> list[dict[str, Any]]:
    """Where the time goes, for each task, mode and number of chains."""
    rows = []
    for mode in MODES:
        for chains in profiled(quick=quick):
            for task in ("mixture25",) if lacking_data() or chains == MANY else ("mixture25", "blr-german"):
                say(f"parts of a block: {task}, {mode}, {plural(chains)}")
                case = json.dumps(Case("bench", "sgld", chains, mode, task).to_json())
                spent = answer_of("parts.py", case, str(seconds), environment=environment)
                if "problem" not in spent:
                    rows.append({"task": task, "mode": mode, "chains": chains, **spent})
    return rows


def measure_overhead(environment: Mapping[str, str], rounds: int, seconds: float, *, quick: bool) -> list[Any]:
    """The plain loop over bare ones, for each number of chains."""
    rows = []
    for chains in bare(quick=quick):
        say(f"loop overhead: {plural(chains)}")
        ratios = answer_of("overhead.py", str(chains), str(rounds), str(seconds), environment=environment)
        rows.append({"chains": chains, **ratios})
    return rows


def measure_memory(states: int, environment: Mapping[str, str], *, quick: bool) -> list[dict[str, Any]]:
    """Peak memory of runs that keep `states` states; one chain, whose steps are the most, compiled only."""
    rows = []
    for mode, chains in (("plain", 40), ("compiled", 40), *([] if quick else [("compiled", 1)])):
        say(f"memory: {states:,} kept states, {mode}, {plural(chains)}")
        try:
            rows.append(memory.measure(states, chains, mode, environment))
        except RuntimeError as error:
            problem = str(error).splitlines()[-1]
            rows.append({"states": states, "chains": chains, "mode": mode, "problem": problem})
    return rows


def measure_samplers(only: Sequence[str], environment: Mapping[str, str], root: Path, *, quick: bool) -> None:
    record = samplers.measure(environment, quick=quick, only=only)
    page.write_apart(samplers, record, root)
    say(f"measured {len(record['rows'])} samplers in {record['minutes']:.1f} minutes")


def measure_again(parts: Sequence[str], environment: Mapping[str, str], root: Path, *, quick: bool) -> None:
    """Some parts of the last record anew, and the page with them; memory and rows on the machine that they are of."""
    path = root / page.FOLDER / "measurements.json"
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if {"memory", "missing"} & {*parts}:
        record = _of_this_machine(path)
    if "missing" in parts:
        record["results"] = measure_missing(record, environment)
    if "memory" in parts:
        record["memory"] = measure_memory(1_000_000 if quick else 10_000_000, environment, quick=quick)
    for part in [part for part in commands.PARTS if part in parts]:
        record |= measured_commands(part, quick=quick)
    page.write(record, root)


def measure_missing(record: Mapping[str, Any], environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of a record; those of each group in which one was not measured, or not from the right law, anew."""
    names = [field.name for field in fields(Case)]
    rows = {Case(**{name: row[name] for name in names}): row for row in record["results"]}
    for cases in groups(quick=record["quick"]):
        if all(rows.get(case, {}).get("check", {}).get("right") for case in cases):
            continue
        measured = measure_group(cases, record["rounds"], record["seconds"], environment)
        rows |= dict(zip(cases, measured, strict=True))
    return [*rows.values()]


def measured_commands(part: str, *, quick: bool) -> dict[str, Any]:
    """A part of the commands, and its machine."""
    return {part: commands.PARTS[part](quick=quick), f"{part}_machine": page.machine()}


def _of_this_machine(path: Path) -> dict[str, Any]:
    """The last record in a file, whose other parts a new measurement leaves as they are."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if record["machine"] != page.machine():
        raise SystemExit("the last record is of another machine: measure all of it")
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short pass over all of it, not for the record")
    parser.add_argument("--samplers", nargs="*", metavar="NAME", help="only the update of all samplers, or of these")
    parser.add_argument("--networks", action="store_true", help="only a training step of a network")
    parser.add_argument(
        "--study", nargs="*", choices=study.TASKS, metavar="TASK",
        help="only larger posteriors, beside blackjax; of these tasks anew, the others as in the last record",
    )  # fmt: skip
    parser.add_argument(
        "--again", nargs="+", choices=("missing", "memory", *commands.PARTS), help="only these parts of the last record"
    )
    parser.add_argument("--out", type=Path, default=HERE.parents[1], help="where docs/ is")
    asked = parser.parse_args()
    began = time.time()
    rounds, seconds = (2, 0.1) if asked.quick else (5, 0.25)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    with tempfile.TemporaryDirectory() as cache:
        if not asked.quick:  # an empty cache: the times of compilation are those of a first run
            environment |= {"TORCHINDUCTOR_CACHE_DIR": cache, "BENCH_CACHE": cache}
        if asked.samplers is not None:
            measure_samplers(asked.samplers, environment, asked.out, quick=asked.quick)
            return
        if asked.networks:
            page.write_apart(networks, networks.record(environment, quick=asked.quick), asked.out)
            return
        if asked.study is not None:
            before = _of_this_machine(asked.out / page.FOLDER / study.FILE) if asked.study else None
            page.write_apart(study, study.measure(environment, asked.study, before, quick=asked.quick), asked.out)
            return
        if asked.again:
            measure_again(asked.again, environment, asked.out, quick=asked.quick)
            return
        limits = answer_of("limits.py", "1" if asked.quick else "4", environment=environment)
        results = []
        for cases in groups(quick=asked.quick):
            few = min(rounds, 3) if cases[0].chains == MANY else rounds
            results += measure_group(cases, few, seconds, environment)
        overhead = measure_overhead(environment, rounds, seconds, quick=asked.quick)
        profile = measure_profile(environment, seconds, quick=asked.quick)
        most = measure_memory(1_000_000 if asked.quick else 10_000_000, environment, quick=asked.quick)
    record: dict[str, Any] = {
        "quick": asked.quick,
        "rounds": rounds,
        "seconds": seconds,
        "lacking": lacking_data(),
        "versions": {name: importlib.metadata.version(name) for name in PEERS},
        "machine": page.machine(),
        "limits": limits,
        "results": results,
        "overhead": overhead,
        "profile": profile,
        "memory": most,
    }
    # What follows takes minutes and may fail: until it is there, the page has the commands of the last record.
    record |= page.last_commands(asked.out) | {"minutes": (time.time() - began) / 60}
    page.write(record, asked.out)
    for part in commands.PARTS:
        say(part)
        record |= measured_commands(part, quick=asked.quick) | {"minutes": (time.time() - began) / 60}
        page.write(record, asked.out)
    say(f"wrote {asked.out / page.FOLDER}.md after {record['minutes']:.1f} minutes")


if __name__ == "__main__":
    main()
