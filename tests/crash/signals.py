"""Faults that strike processes: kill -9, SIGTERM, Ctrl-C, of the launcher, a worker, the fork server, all of them."""

import signal
import time

from crash.scene import NATURAL

from harness.results.ledger.attempt import Attempt
from harness.runs.local import GRACE_SECONDS

INTERRUPTED = 130
GOES_ON = "; repeat the command to resume"
PAUSES = (0.0, 0.01, 0.1, 0.5, 1.0)


def _fault(strike, codes, *, gently=True):
    """Once or twice: start the command, strike at a random moment, see all of it end; `codes` are what it may say.

    A fault that is gentle leaves the workers the time to write checkpoints.
    """

    def fault(scene):
        for _ in range(scene.rng.choice([1, 1, 2])):
            process = scene.start()
            scene.moment(process)
            scene.keep_finished()
            strike(scene, process)
            code = process.wait()
            said = process.stderr()
            scene.check(code in (*codes, scene.expected_code()), f"exit code {code}: {said}")
            scene.check(code != INTERRUPTED or GOES_ON in said, f"it says not what to do: {said}")
            scene.ended()
            if gently:
                _suspended(scene)

    return fault


def _suspended(scene):
    """Every run under way was left with a checkpoint of where it was."""
    for attempt in map(Attempt, scene.results.glob("runs/*/*/*/")):
        if attempt.result() is None:
            last = attempt.events()[-1]
            held = scene.checkpoints.get(attempt.path, 0)
            whole = last["event"] in ("cancelled", "preempted") and last["position"] == held
            scene.check(whole, f"{attempt.path} ended with {last} and a checkpoint at {held}")


def _group(number):
    return lambda scene, process: scene.send(process.pid, number, group=True)


def _launcher(number):
    return lambda scene, process: scene.send(process.pid, number)


def _member(role, number):
    def strike(scene, process):
        while process.running():
            there = [pid for pid, (name, _) in scene.site.processes().items() if name == role]
            if there:
                scene.send(scene.rng.choice(there), number)
                return
            time.sleep(0.05)
        scene.notes.append(f"no {role} to strike any more")

    return strike


def _twice(scene, process):
    scene.send(process.pid, signal.SIGINT, group=True)
    time.sleep(scene.rng.choice(PAUSES))
    scene.send(process.pid, signal.SIGINT, group=True)


def stopped(scene):
    """Workers are stopped (SIGSTOP) before a Ctrl-C: the command ends, in little more than the grace time."""
    process = scene.start()
    scene.moment(process, scene.rng.choice(["set-up", "sampling", "checkpoint"]))
    for pid, (name, _) in scene.site.processes().items():
        if name == "worker" and scene.rng.random() < 0.8:
            scene.send(pid, signal.SIGSTOP)
    began = time.monotonic()
    scene.send(process.pid, signal.SIGINT, group=True)
    if scene.rng.random() < 0.5:
        time.sleep(scene.rng.choice(PAUSES))
        scene.send(process.pid, signal.SIGINT, group=True)
    code = process.wait()
    waited = time.monotonic() - began
    scene.check(waited < GRACE_SECONDS + 30, f"the command ended {waited:.0f} s after Ctrl-C")
    scene.check(code in (*ENDED, scene.expected_code()), f"exit code {code}: {process.stderr()}")
    scene.ended()


ENDED = (INTERRUPTED, -signal.SIGINT)
TERMINATED = (INTERRUPTED, -signal.SIGTERM)
FAULTS = {
    "kill -9 of the launcher": _fault(_launcher(signal.SIGKILL), (-signal.SIGKILL,)),
    "kill -9 of a worker": _fault(_member("worker", signal.SIGKILL), NATURAL, gently=False),
    "kill -9 of the fork server": _fault(_member("forkserver", signal.SIGKILL), NATURAL, gently=False),
    "kill -9 of the group": _fault(_group(signal.SIGKILL), (-signal.SIGKILL,), gently=False),
    "SIGTERM to the launcher": _fault(_launcher(signal.SIGTERM), TERMINATED),
    "SIGTERM to a worker": _fault(_member("worker", signal.SIGTERM), NATURAL),
    "SIGTERM to the group": _fault(_group(signal.SIGTERM), TERMINATED),
    "a closed terminal": _fault(_group(signal.SIGHUP), (-signal.SIGHUP,)),
    "Ctrl-C": _fault(_group(signal.SIGINT), ENDED),
    "Ctrl-C twice": _fault(_twice, ENDED),
    "Ctrl-C of stopped workers": stopped,
}
