"""Waiting for a command whose runs are on a cluster, and for moments of its jobs."""

from __future__ import annotations

import os
import re
import signal
import time

from clusters.processes import environment_of, parent_of, running

STAGES = ("submitting", "starting", "running", "running", "running", "ending")
ATTEND_SECONDS = 420.0
AGAIN = "repeat the command to resume"


def attend(scene, process):
    """Wait for a command as somebody who has the queue move; its exit code."""
    deadline = time.monotonic() + ATTEND_SECONDS
    while process.running():
        scene.cluster.hurry()
        if time.monotonic() > deadline:
            scene.check(False, f"the command did not end in {ATTEND_SECONDS:g} s: {process.stderr()[-2000:]}")
            scene.notes.append(f"queue: {scene.cluster.jobs()}")
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.5)
    return process.wait()


def moment(scene, process, stage=None):
    """Wait for a random moment of a stage of the jobs; False where the command ended before."""
    stage = stage or scene.rng.choice(STAGES)
    if stage == "submitting":
        time.sleep(scene.rng.uniform(0.5, 5))
    elif stage == "starting":
        until(process, lambda: any(scene.results.glob("jobs/*.json")))
        time.sleep(scene.rng.uniform(0, 4))
    else:
        drawn = scene.rng.uniform(0.05, 0.8) if stage == "running" else 0.999
        until(process, lambda: any(size >= drawn * scene.reference.draw_bytes for size in _drawn(scene)))
    arrived = process.running()
    scene.stages.append(stage if arrived else "after its end")
    return arrived


def _drawn(scene):
    for path in scene.scratch.glob("sgmcmc-bench-job-*/results/runs/*/*/*/draws*"):
        try:
            yield path.stat().st_size
        except FileNotFoundError:
            continue


def until(process, what):
    while process.running() and not what():
        time.sleep(0.05)


def ends(scene, process, codes, *said):
    """The command ends with one of these codes and says all of that, unless it says that all is done."""
    code = attend(scene, process)
    text = process.stderr()
    if scene.check(code in codes, f"exit code {code}, not {codes}: {text[-3000:]}") and code:
        for words in said:
            scene.check(re.search(words, text), f"exit code {code} without the words {words!r}: {text[-3000:]}")


def agents(scene):
    """The agents of jobs, by process id."""
    marks = {scene.site.mark, scene.cluster_mark}
    return [
        pid for pid, line in running().items()
        if scene.cluster.agent_words in line and "python" in line.partition(" ")[0]
        and environment_of(pid).get("CRASH_MARK") in marks
    ]  # fmt: skip


def workers(scene):
    """The workers of agents."""
    marks, lines = {scene.site.mark, scene.cluster_mark}, running()
    return [
        pid for pid, line in lines.items()
        if "forkserver" in line and "forkserver" in lines.get(parent_of(pid), "")
        and environment_of(pid).get("CRASH_MARK") in marks
    ]  # fmt: skip
