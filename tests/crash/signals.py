"""Faults that strike processes: kill -9, SIGTERM, Ctrl-C, of the launcher, a worker, the fork server, all of them."""

from __future__ import annotations

import signal
import time

from crash.scene import NATURAL

INTERRUPTED = 130
PAUSES = (0.0, 0.01, 0.1, 0.5, 1.0)


def _fault(strike, codes):
    """Once or twice: start the command, strike at a random moment, see all of it end; `codes` are what it may say."""

    def fault(scene):
        for _ in range(scene.rng.choice([1, 1, 2])):
            process = scene.start()
            scene.moment(process)
            scene.keep_finished()
            strike(scene, process)
            code = process.wait()
            scene.check(code in (*codes, scene.expected_code()), f"exit code {code}: {process.stderr()}")
            scene.ended()

    return fault


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


ENDED = (INTERRUPTED, -signal.SIGINT)
TERMINATED = (INTERRUPTED, -signal.SIGTERM)
FAULTS = {
    "kill -9 of the launcher": _fault(_launcher(signal.SIGKILL), (-signal.SIGKILL,)),
    "kill -9 of a worker": _fault(_member("worker", signal.SIGKILL), NATURAL),
    "kill -9 of the fork server": _fault(_member("forkserver", signal.SIGKILL), NATURAL),
    "kill -9 of the group": _fault(_group(signal.SIGKILL), (-signal.SIGKILL,)),
    "SIGTERM to the launcher": _fault(_launcher(signal.SIGTERM), TERMINATED),
    "SIGTERM to a worker": _fault(_member("worker", signal.SIGTERM), NATURAL),
    "SIGTERM to the group": _fault(_group(signal.SIGTERM), TERMINATED),
    "a closed terminal": _fault(_group(signal.SIGHUP), (-signal.SIGHUP,)),
    "Ctrl-C": _fault(_group(signal.SIGINT), ENDED),
    "Ctrl-C twice": _fault(_twice, ENDED),
}
