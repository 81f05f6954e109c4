"""The fault campaign: round after round, a command is disturbed, given once more, and everything is looked at.

    PYTHONPATH=tests python -m crash.campaign --rounds 300 --seed 0 --out crash.json --write docs/reliability/faults.md

or `nox -s crash`. Exits with 1 where anything did not hold; the folder of such a round is kept.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from crash import damage, hostile, signals, surroundings, syscalls, verbs
from crash.figures import machine, write
from crash.invariants import COUNTS, judge
from crash.scene import Scene
from crash.workload import LONG, References, Site, available

FAULTS = {**signals.FAULTS, **damage.FAULTS, **surroundings.FAULTS, **syscalls.FAULTS, **hostile.FAULTS, **verbs.FAULTS}


def play(fault, command, references, folder, seed):
    """One round in `folder`: the fault, the same command once more, the judgement. Returns its record."""
    rng = random.Random(f"{seed} {fault}")
    (folder / "logs").mkdir(parents=True)
    site = Site(folder / "results", folder / "logs", f"{os.getpid()}-{rng.getrandbits(48):x}")
    scene = Scene(site, command, references.of(command), rng)
    scene.commands = [command.words]
    record = judged(scene, (FAULTS[fault], _once_more), Scene.bury)
    return {"fault": fault, "seed": seed, "command": " ".join(command.words), **record}


def judged(scene, steps, clear):
    """The record of a round: its steps, the judgement, and what clears up after it."""
    began = time.monotonic()
    complaints = {kind: [] for kind in COUNTS}
    try:
        for step in steps:
            step(scene)
        complaints = judge(scene)
    except Exception:  # noqa: BLE001 - what stops a round is a complaint about it, and the next one is played
        complaints["other"] += [*scene.violations, traceback.format_exc()]
    finally:
        clear(scene)
    events = [path.read_text(errors="replace") for path in scene.results.glob("runs/*/*/*/events.jsonl")]
    return {
        "strikes": scene.strikes, "stages": scene.stages, "notes": scene.notes, "runs": len(scene.reference.runs),
        "resumed": sum('"resumed"' in text for text in events), "finished_before": len(scene.finished),
        "commands": len(scene.processes), "longest_end": round(scene.longest_end, 2),
        "seconds": round(time.monotonic() - began, 1), "complaints": complaints,
        "right": not any(complaints.values()),
    }  # fmt: skip


def _once_more(scene):
    """Each command of the round once more: exit code as if nothing had happened, and nothing left to do after it."""
    for words in scene.commands:
        process, code = scene.run(words)
        if words[0] != "run":
            scene.check(code == 0, f"{words} ended with {code}: {process.stderr()}")
            continue
        rows = json.loads(process.stdout() or "[]")
        statuses = {row["run_key"]: row["status"] for row in rows}
        expected = {key: scene.reference.runs[key][0] for key in statuses}
        scene.check(statuses and statuses == expected, f"statuses {statuses}, not {expected}: {process.stderr()}")
        wanted = int(any(status != "done" for status in expected.values()))
        scene.check(code == wanted, f"the same command ended with {code}, not {wanted}: {process.stderr()}")
    scene.gone()


def schedule(rounds, seed, names=("",), declared=FAULTS):
    """The faults of the rounds: all that have one of `names` in theirs, in another order each time around."""
    rng = random.Random(seed)
    some = [fault for fault in declared if any(name in fault for name in names)]
    faults = []
    while some and len(faults) < rounds:
        faults += rng.sample(some, len(some))
    return faults[:rounds]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="decides faults, commands and moments")
    parser.add_argument("--out", type=Path, help="the record of every round, as JSON")
    parser.add_argument("--write", type=Path, help="a Markdown file whose figures are replaced")
    parser.add_argument("--folder", type=Path, help="where the rounds are played; default: a temporary one")
    parser.add_argument("--fault", nargs="+", default=[""], help="only faults whose name has one of these in it")
    parser.add_argument("--jobs", type=int, default=1, help="rounds at the same time")
    asked = parser.parse_args()
    # A shell that starts this in the background has SIGINT ignored, and every command here would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run(asked))


def run(asked):
    """All rounds; 1 where something did not hold."""
    folder = Path(tempfile.mkdtemp(prefix="crash-", dir=asked.folder))
    references, commands = References(folder), available(LONG)
    rng = random.Random(asked.seed)
    report = {"began": time.time(), "seed": asked.seed, "machine": machine(), "rounds": []}
    faults = schedule(asked.rounds, asked.seed, asked.fault)
    rounds = [
        (fault, command, folder / f"{number:04d}", asked.seed * 100_000 + number)
        for number, fault in enumerate(faults)
        for command in [verbs.TEN if fault in verbs.FAULTS else rng.choice(commands)]
    ]
    for _, command, _, _ in rounds:
        references.of(command)
    with ThreadPoolExecutor(asked.jobs) as pool:
        playing = {
            pool.submit(play, fault, command, references, round_folder, seed): round_folder
            for fault, command, round_folder, seed in rounds
        }
        for played in as_completed(playing):
            record, round_folder = played.result(), playing[played]
            report["rounds"].append(record | {"round": int(round_folder.name)})
            report["seconds"] = time.time() - report["began"]
            tell(report["rounds"][-1], round_folder)
            if record["right"]:
                shutil.rmtree(round_folder)
            if asked.out:
                asked.out.write_text(json.dumps(report, indent=1))
            if asked.write:
                write(asked.write, report)
    wrong = sum(not record["right"] for record in report["rounds"])
    if not wrong:
        shutil.rmtree(folder)
    sys.stderr.write(f"{len(report['rounds'])} rounds, {wrong} with complaints\n")
    return int(wrong > 0)


def tell(record, folder):
    """Say on stderr what a round came to."""
    said = "right" if record["right"] else f"WRONG, in {folder}"
    where, notes = ", ".join(record["stages"]), " | ".join(record["notes"])
    sys.stderr.write(f"{record['round']:4d} {record['seconds']:6.1f} s {said}: {record['fault']} ({where}) {notes}\n")
    for kind in COUNTS:
        for text in record["complaints"][kind][:3]:
            sys.stderr.write(f"       {kind}: {text[:1500]}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
