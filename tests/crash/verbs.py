"""Faults that strike the verbs beside `run`: a kill at a random moment, and the same verb twice at once.

Each works on a fixture of ten runs, and is given once more at the end.
"""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from crash.scene import Scene
from crash.syscalls import _garbage, _snapshot, _suite
from crash.workload import Command

from harness.results.ledger import rescored

TEN = Command(("sghmc", "sgld"), "mixture5", (0, 1, 2, 3, 4), 2, ("--budget", "steps=500", "--set", "run.thin=5"))
ENDS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
BUSY = ("another command writes to", "is held by", "a worker writes to this run", "is being run by process")
"""What a command may say of another one that does the same."""
PAUSES = (0.0, 0.0, 0.005, 0.05, 0.3)


@dataclass(frozen=True)
class Verb:
    """A verb that writes.

    words    one command, or two that are given at once; {written} is the folder that it may write to, {theirs} another
             results folder with the ten runs, {file} a file of draws
    prepare  what is done with the results folder, which has the ten runs, before
    bytes    whether what it writes to {written} is the same each time
    look     what must be the same in the results folder afterwards as if the commands had come one after the other
    """

    words: tuple[str, ...]
    prepare: Callable[[Scene], object] = lambda _: None
    bytes: bool = False
    look: Callable[[Scene], object] = lambda _: None

    def given(self, scene: Scene) -> list[list[str]]:
        """The commands of a round: each twice if there is one."""
        folder = scene.site.logs.parent
        names = {"written": scene.written, "theirs": folder / "theirs", "file": folder / "draws.npz"}
        return [shlex.split(words.format(**names)) for words in self.words * (2 // len(self.words))]


def prepared(verb, scene):
    """The fixture: the ten runs here, and again in a folder of somebody else."""
    scene.written.mkdir()
    scene.copy_of_finished()
    theirs = scene.site.logs.parent / "theirs"
    shutil.copytree(scene.reference.results, theirs)
    (theirs / "results.duckdb").unlink(missing_ok=True)
    verb.prepare(scene)
    scene.keep_finished()
    return verb.given(scene)


def kill(verb):
    """The verb is ended at a random moment, once or twice."""

    def fault(scene):
        alone, commands = _undisturbed(verb, scene), prepared(verb, scene)
        for _ in range(scene.rng.choice([1, 1, 2])):
            words, number = scene.rng.choice(commands), scene.rng.choice(ENDS)
            process = scene.start(words)
            time.sleep(scene.rng.uniform(0.05, alone.seconds))
            scene.stages.append(words[0] if process.running() else "after its end")
            scene.send(process.pid, number, group=True)
            code = process.wait()
            scene.check(code in (0, 130, -number), f"exit code {code}: {process.stderr()}")
            scene.gone()
        _ends_well(verb, scene, commands, alone)

    return fault


def twice(verb):
    """The verb twice at once; in one round of four, one of them is killed on the way."""

    def fault(scene):
        alone, commands, processes = _undisturbed(verb, scene), prepared(verb, scene), []
        for words in commands:
            processes.append(scene.start(words))
            scene.strikes += 1
            time.sleep(scene.rng.choice(PAUSES))
        if scene.rng.random() < 0.25:
            time.sleep(scene.rng.uniform(0.05, alone.seconds))
            scene.send(processes[0].pid, signal.SIGKILL, group=True)
        for process in processes:
            code, said = process.wait(), process.stderr()
            refused = code in (1, 4) and any(words in said for words in BUSY)
            scene.check(code in (0, -signal.SIGKILL) or refused, f"exit code {code}: {said}")
        scene.stages.append(f"two at once: {commands[0][0]}")
        scene.gone()
        _ends_well(verb, scene, commands, alone)

    return fault


def _ends_well(verb, scene, commands, alone):
    """Each command once more: exit code 0, and what is there then is what undisturbed commands leave."""
    scene.commands = [list(words) for words in dict.fromkeys(map(tuple, commands))]
    for words in scene.commands:
        process, code = scene.run(words)
        scene.check(code == 0, f"{words} ended with {code}: {process.stderr()}")
    scene.added |= alone.runs
    if verb.bytes:
        files = _snapshot(scene.written)
        scene.check(files == alone.written, f"{sorted(files)} was written, not {sorted(alone.written)}, or other bytes")
    seen = verb.look(scene)
    scene.check(seen == alone.seen, f"{seen} is there, not {alone.seen}")


@dataclass(frozen=True)
class Alone:
    """What a verb leaves undisturbed, and how long one command takes."""

    seconds: float
    written: dict[str, str]
    seen: object
    runs: set[str]


_alone: dict[tuple, Alone] = {}


def _undisturbed(verb, scene):
    """What the commands of a verb leave one after the other, measured once."""
    key = (scene.command, verb)
    if key not in _alone:
        folder = scene.site.logs.parent / "undisturbed"
        alone = scene.elsewhere(folder)
        commands = prepared(verb, alone)
        began = time.monotonic()
        for words in commands:
            process, code = alone.run(words)
            if code:
                raise RuntimeError(f"the undisturbed {words} ended with {code}: {process.stderr()}")
        runs = {path.name for path in alone.results.glob("runs/*/*/")} - scene.reference.runs.keys()
        seconds = (time.monotonic() - began) / len(commands)
        _alone[key] = Alone(seconds, _snapshot(alone.written), verb.look(alone), runs)
        shutil.rmtree(folder)
    return _alone[key]


# What is looked at.


def _metrics(scene):
    """The metrics of each attempt that count: those of `bench rescore`, if there are any."""
    runs = {}
    for path in sorted(scene.results.glob("runs/*/*/*/result.json")):
        newer, damage = rescored.read(path.parent)
        record = newer or json.loads(path.read_bytes())
        runs[path.parent.name] = damage, {metric["name"]: metric["value"] for metric in record["metrics"]}
    return runs


def _tuned(scene):
    record = json.loads((scene.results / "tuning" / "tuned.json").read_text())
    return [one["settings"] for one in record["tuned"]]


# What is prepared.


def _half(scene):
    """Four of the ten runs are here already; two of these without their draws."""
    for number, folder in enumerate(sorted(scene.results.glob("runs/*/*/"))):
        if number >= 4:
            shutil.rmtree(folder)
        elif number >= 2:
            for path in folder.glob("*/draws.safetensors"):
                path.unlink()


def _draws(scene):
    import numpy as np

    draws = np.random.default_rng(0).normal(size=(2, 50, 2))
    np.savez(scene.site.logs.parent / "draws.npz", draws=draws)


def _night(scene):
    """The suite of the ten runs, of which five are there."""
    _suite(scene)
    for folder in sorted(scene.results.glob("runs/*/*/"))[:5]:
        shutil.rmtree(folder)


VERBS = {
    "merge": Verb(("merge {theirs}",), _half, look=_metrics),
    "score": Verb(("score mixture5 {file} --name other --passes 10 --seed 0",), _draws),
    "rescore": Verb(("rescore --metric joint_error", "rescore --metric variance_ratio"), look=_metrics),
    "verify --into": Verb(("verify {theirs} --into {written}/board --replays 0 --salt x",), bytes=True),
    "export": Verb(("export --out {written}/out",), bytes=True),
    "site": Verb(("site --out {written}/site",)),
    "tune": Verb(
        ("tune --sampler sgld --task mixture5 --trials 2 --seeds 2 --chains 2 --budget steps=200",), look=_tuned
    ),
    "nightly": Verb(("nightly {written}/../again.toml --out {written}/site",), _night),
    "gc": Verb(("gc --delete",), _garbage),
}
FAULTS = {f"{name} ended at a random moment": kill(verb) for name, verb in VERBS.items()}
FAULTS |= {f"{name} twice at once": twice(verb) for name, verb in VERBS.items()}
