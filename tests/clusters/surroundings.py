"""Faults around the jobs of a cluster: full disks, a clock that is off, two users, a folder out of reach."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from clusters.waiting import ends, moment
from crash.surroundings import GROUP, started_by
from crash.workload import PATCHED

USERS = ("games", "nobody")
"""Accounts that every Linux has, as Slurm starts no job of a user without one."""


def two_users(scene):
    """Two users of a group at the same runs, in a folder that the group may write; one may be killed on the way."""
    opened(scene)
    processes = started_by(scene, USERS, moment)
    if len(processes) == len(USERS) and scene.rng.random() < 0.5:
        scene.notes.append("the first was killed")
        scene.send(processes[0].pid, signal.SIGKILL, group=True)
        processes[0].wait()
    for process in processes:
        if process.running() or process.wait() != -signal.SIGKILL:
            ends(scene, process, (0,))


def opened(scene):
    """Let a group write to the results and to the scratch of the nodes, and everybody reach them."""
    scene.results.mkdir()
    for folder in {*scene.results.parents, *scene.scratch.parents} - {*Path(tempfile.gettempdir()).parents}:
        if folder.stat().st_mode & 0o055 != 0o055:
            folder.chmod(0o755)
    scene.scratch.chmod(0o1777)
    for folder in (scene.results, scene.site.logs):
        os.chown(folder, -1, GROUP)
        folder.chmod(0o2775)


@contextmanager
def small(scene, size):
    """A file system of some bytes, which is taken away at the end."""
    folder = scene.site.logs.parent / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if done.returncode:
        scene.notes.append(f"no tmpfs can be mounted here: {done.stderr!r}")
    try:
        yield folder if done.returncode == 0 else None
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)


def node_disk(scene):
    """The disk of the nodes, too small for the runs."""
    with small(scene, scene.rng.choice([8192, 65536, 262144, 524288])) as folder:
        if folder is None:
            return
        scene.strikes += 1
        scene.scratch_is(folder)
        process = scene.start()
        ends(scene, process, (0, 1, 4), r"No space left|look for a full disk")
        scene.check("--results" not in process.stderr(), f"a remedy for another machine: {process.stderr()[-2000:]}")
        scene.scratch_is(None)


def exchange_disk(scene):
    """The disk of the exchanges is full: at once, or when attempts are sent; then it grows."""
    with small(scene, scene.rng.choice([4096, 65536, 262144])) as folder:
        if folder is None:
            return
        scene.strikes += 1
        words = [*scene.words, f"launcher.folder={folder}"]
        process = scene.start(words)
        time.sleep(scene.rng.choice([25, 40]))
        subprocess.run(["mount", "-o", "remount,size=1g", str(folder)], check=True, capture_output=True)
        ends(scene, process, (0, 1, 4), r"No space left")
        process = scene.start(words)
        ends(scene, process, (0,))
        scene.check(not list(folder.iterdir()), f"left in the exchange: {[*folder.iterdir()]}")


def clock(scene):
    """The clock that Python reads is five minutes off: the command's, and perhaps that of the nodes."""
    file = scene.site.logs / "clock"
    file.write_text(str(scene.rng.choice([-300, 300])))
    scene.strikes += 1
    before = dict(scene.site.environment)
    path = os.pathsep.join([str(PATCHED), *filter(None, [os.environ.get("PYTHONPATH")])])
    scene.site.environment |= {"PYTHONPATH": path, "CRASH_CLOCK": str(file)}
    ends(scene, scene.start([*scene.words, "--detach"]), (0,))
    if scene.rng.random() < 0.5:
        scene.site.environment = before
    shown, code = scene.run(["status", "--json"])
    scene.check(code == 0, f"bench status: {shown.stderr()}")
    ends(scene, scene.start(), (0,))
    scene.site.environment = before
