"""What befalls a command whose runs are on a cluster. Each fault ends when its commands have."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from clusters.processes import environment_of, kill, parent_of, running
from crash.surroundings import AS_USER, CLOCK, GROUP

STAGES = ("submitting", "starting", "running", "running", "running", "ending")
ATTEND_SECONDS = 420.0
AGAIN = "repeat the command to resume"
USERS = ("games", "nobody")
"""Accounts that every Linux has, as Slurm starts no job of a user without one."""


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
        _until(process, lambda: any(scene.results.glob("jobs/*.json")))
        time.sleep(scene.rng.uniform(0, 4))
    else:
        drawn = scene.rng.uniform(0.05, 0.8) if stage == "running" else 0.999
        _until(process, lambda: any(size >= drawn * scene.reference.draw_bytes for size in _drawn(scene)))
    arrived = process.running()
    scene.stages.append(stage if arrived else "after its end")
    return arrived


def _drawn(scene):
    for path in scene.scratch.glob("sgmcmc-bench-job-*/results/runs/*/*/*/draws*"):
        try:
            yield path.stat().st_size
        except FileNotFoundError:
            continue


def _until(process, what):
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


def launching_command(scene):
    """kill -9 of the command, or Ctrl-C: the jobs go on."""
    process = scene.start()
    moment(scene, process)
    number = scene.rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT])
    scene.notes.append(number.name)
    scene.send(process.pid, number, group=True)
    code = process.wait()
    scene.check(code in (-number, 130, 0), f"exit code {code} after {number.name}: {process.stderr()[-2000:]}")
    time.sleep(scene.rng.choice([0, 1, 5]))


def reboot(scene):
    """The command's machine is away until all jobs are over."""
    process = scene.start()
    moment(scene, process, scene.rng.choice(["starting", "running"]))
    scene.send(process.pid, signal.SIGKILL, group=True)
    process.wait()
    deadline = time.monotonic() + ATTEND_SECONDS
    while agents(scene) and time.monotonic() < deadline:
        time.sleep(1)


def left_alone(scene):
    """--detach, then two commands that wait."""
    process = scene.start([*scene.words, "--detach"])
    ends(scene, process, (0,))
    scene.strikes += 1
    shown, code = scene.run(["status", "--json"])
    scene.check(code == 0 and scene.cluster.name in shown.stdout(), f"bench status: {shown.stdout()}{shown.stderr()}")
    together = [scene.start(), scene.start()]
    for each in together:
        ends(scene, each, (0,))


def two_commands(scene):
    """Two launchers on one folder, at runs of which some are the same."""
    part = [*scene.command.part(scene.rng).words, *scene.cluster.words]
    processes = [scene.start()]
    time.sleep(scene.rng.choice([0, 0.5, 3, 8]))
    processes.append(scene.start(part))
    scene.strikes += 1
    for process in processes:
        ends(scene, process, (0,))


def two_users(scene):
    """Two users of a group at the same runs, in a folder that the group may write; one may be killed on the way."""
    before = dict(scene.site.environment)
    opened(scene)
    processes = []
    for user in USERS:
        scene.site.prefix = tuple(word.format(user) for word in AS_USER)
        home = str(scene.site.logs / f"home-{user}")
        scene.site.environment |= {"HOME": home, "BENCH_CACHE": home}
        processes.append(scene.start())
        moment(scene, processes[-1])
    scene.site.prefix, scene.site.environment = (), before
    scene.strikes += len(processes)
    if scene.rng.random() < 0.5:
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


def out_of_reach(scene):
    """On a folder with leases the command stands still for a minute, and another one is given meanwhile."""
    scene.results.mkdir()
    (scene.results / "ledger.json").write_text('{"layout": 2, "locks": "leases"}')
    holder = scene.start()
    if scene.rng.random() < 0.5:  # while it holds the lease for submitting
        _until(holder, (scene.results / "locks" / "submit.lock").exists)
        time.sleep(scene.rng.uniform(0, 1))
        scene.stages.append("submitting" if holder.running() else "after its end")
    else:
        moment(scene, holder)
    scene.notes.append(f"it held {[path.name for path in scene.results.glob('locks/*')]}")
    scene.send(holder.pid, signal.SIGSTOP, group=True)
    other = scene.start()
    time.sleep(60)
    os.killpg(holder.pid, signal.SIGCONT)
    for process in (holder, other):
        ends(scene, process, (0, 1), r"is over|taken over|out of reach|is held by", AGAIN)


def bench_cancel(scene):
    """`bench cancel` from another terminal."""
    process = scene.start()
    moment(scene, process, scene.rng.choice(["starting", "running"]))
    scene.strikes += 1
    began = time.monotonic()
    cancel, code = scene.run(["cancel"])
    scene.notes.append(f"cancel took {time.monotonic() - began:.1f} s")
    scene.check(code == 0 and " ended" in cancel.stderr() + cancel.stdout(), f"bench cancel: {code} {cancel.stderr()}")
    ends(scene, process, (0, 1), AGAIN)


def cancelled(scene):
    """Somebody ends the jobs by the engine's own means."""
    process = scene.start()
    if moment(scene, process, scene.rng.choice(["starting", "running"])):
        scene.strikes += 1
        scene.cluster.cancel()
    ends(scene, process, (0, 1), r"is over|did not finish|ended by SIGTERM", AGAIN)


def killed(find, number=signal.SIGKILL):
    """kill -9, which is also what a kernel out of memory does, of one process or of all."""

    def fault(scene):
        process = scene.start()
        moment(scene, process, "running")
        pids = find(scene)
        for pid in pids if scene.rng.random() < 0.3 else scene.rng.sample(pids, min(1, len(pids))):
            scene.strikes += 1
            kill(pid, number)
        ends(scene, process, (0, 1), r"exited unexpectedly|is over", AGAIN)

    return fault


def node(scene):
    """A node dies, and comes back after a while."""
    process = scene.start()
    moment(scene, process, scene.rng.choice(["starting", "running", "running"]))
    scene.strikes += 1
    died = scene.cluster.kill_node()
    time.sleep(scene.rng.choice([1, 15]))
    scene.cluster.start_node(died)
    ends(scene, process, (0, 1), r"is over", AGAIN)


def node_and_command(scene):
    """The command is away while a node dies: its jobs are started again on the other node."""
    process = scene.start()
    moment(scene, process, "running")
    scene.send(process.pid, signal.SIGKILL, group=True)
    process.wait()
    scene.strikes += 1
    died = scene.cluster.kill_node()
    time.sleep(scene.rng.choice([5, 15]))
    scene.cluster.start_node(died)


def controller(scene):
    """The controller dies, and comes back."""
    process = scene.start()
    moment(scene, process)
    scene.strikes += 1
    scene.cluster.kill_controller()
    time.sleep(scene.rng.choice([2, 15, 25]))
    scene.cluster.start_controller()
    ends(scene, process, (0, 1), r"does not take the jobs|does not answer|is over")


def no_controller(scene):
    """The controller is away when jobs are to be submitted."""
    scene.cluster.kill_controller()
    scene.strikes += 1
    process = scene.start()
    code = process.wait()
    said = process.stderr()
    scene.check(code == 1 and "does not take the jobs" in said, f"exit code {code}: {said}")
    scene.check(not any(scene.results.glob("jobs/*")), f"left: {[*scene.results.glob('jobs/*')]}")
    scene.cluster.start_controller()


def requeue(scene):
    """`scontrol requeue` of all jobs, once or twice."""
    process = scene.start()
    for _ in range(scene.rng.choice([1, 2])):
        if moment(scene, process, scene.rng.choice(["starting", "running"])):
            scene.strikes += 1
            scene.cluster.requeue()
            time.sleep(5)
    ends(scene, process, (0,))


def time_limit(scene):
    """Slurm's signal ahead of the time limit: the job is queued again, and goes on."""
    scene.strikes += 1
    ahead = 120 - scene.rng.randint(8, 16)
    scene.words = [*scene.words, "launcher.time=2m", f"launcher.more=signal=USR2@{ahead}"]
    process = scene.start()
    ends(scene, process, (0,))


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
    path = os.pathsep.join([str(CLOCK), *filter(None, [os.environ.get("PYTHONPATH")])])
    scene.site.environment |= {"PYTHONPATH": path, "CRASH_CLOCK": str(file)}
    ends(scene, scene.start([*scene.words, "--detach"]), (0,))
    if scene.rng.random() < 0.5:
        scene.site.environment = before
    shown, code = scene.run(["status", "--json"])
    scene.check(code == 0, f"bench status: {shown.stderr()}")
    ends(scene, scene.start(), (0,))
    scene.site.environment = before


def box(scene):
    """The processes that hold the exchanges die, with all that was in them."""
    process = scene.start()
    moment(scene, process, scene.rng.choice(["starting", "running"]))
    scene.strikes += scene.cluster.kill_actors("_Box")
    ends(scene, process, (0, 1), r"is over", AGAIN)


def actor(scene):
    """The processes of jobs die, and Ray starts them again."""
    process = scene.start()
    moment(scene, process, "running")
    scene.strikes += scene.cluster.kill_actors("_Job")
    ends(scene, process, (0, 1), r"is over", AGAIN)


def whole_cluster(scene):
    """All of the cluster dies, its head too, and another is started."""
    process = scene.start()
    moment(scene, process, scene.rng.choice(["starting", "running"]))
    scene.strikes += 1
    scene.cluster.restart()
    scene.words = [*scene.command.words, *scene.cluster.words]
    ends(scene, process, (0, 1), r"is over|cannot be reached|no Ray cluster", AGAIN)


BOTH = {
    "kill -9 or Ctrl-C of the command": launching_command,
    "the command's machine reboots": reboot,
    "--detach": left_alone,
    "two commands on one folder": two_commands,
    "bench cancel": bench_cancel,
    "jobs are cancelled by others": cancelled,
    "kill -9 of workers": killed(workers),
    "kill -9 of agents": killed(agents),
    "SIGTERM to agents": killed(agents, signal.SIGTERM),
    "a node dies and comes back": node,
    "a node dies while the command is away": node_and_command,
    "a full disk of the nodes": node_disk,
    "a clock five minutes off": clock,
    "a holder of leases out of reach of its folder": out_of_reach,
}
FAULTS = {
    "slurm": BOTH | {
        "the controller dies and comes back": controller,
        "no controller": no_controller,
        "two users of a group": two_users,  # a Ray cluster is its owner's
        "jobs are queued again": requeue,
        "the time limit": time_limit,
        "a full disk of the exchanges": exchange_disk,
    },
    "ray": BOTH | {
        "kill -9 of the exchanges": box,
        "kill -9 of the jobs' actors": actor,
        "the whole cluster dies": whole_cluster,
    },
}  # fmt: skip
