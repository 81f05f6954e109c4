"""What befalls a command whose runs are on a cluster. Each fault ends when its commands have."""

from __future__ import annotations

import re
import signal
import time

from clusters.processes import kill
from clusters.surroundings import clock, exchange_disk, node_disk, two_users
from clusters.waiting import AGAIN, ATTEND_SECONDS, agents, ends, moment, workers


def launching_command(scene):
    """kill -9 of the command, Ctrl-C, or SIGTERM: the jobs go on."""
    process = scene.start()
    moment(scene, process)
    number = scene.rng.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
    scene.notes.append(number.name)
    scene.send(process.pid, number, group=True)
    code = process.wait()
    scene.check(code in (-number, 130, 0), f"exit code {code} after {number.name}: {process.stderr()[-2000:]}")
    scene.check(not re.search(r"plugin ended|SIGTERM received|Traceback", process.stderr()), process.stderr()[-2000:])
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


def killed(find, number=signal.SIGKILL, codes=(0, 1)):
    """kill -9, which is also what a kernel out of memory does, of one process or of all."""

    def fault(scene):
        process = scene.start()
        moment(scene, process, "running")
        pids = find(scene)
        for pid in pids if scene.rng.random() < 0.3 else scene.rng.sample(pids, min(1, len(pids))):
            scene.strikes += 1
            kill(pid, number)
        ends(scene, process, codes, r"exited unexpectedly .*memory|is over", AGAIN)

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


def no_start(scene):
    """Python does not start on the nodes; the message has the reason, and the output is kept."""
    scene.strikes += 1
    process = scene.start([*scene.words, "launcher.more=export=PYTHONHOME=/nowhere"])
    ends(scene, process, (1,), r"job \S+ on n[12] is over \(FAILED\)", r"No module named 'encodings'", AGAIN)
    logs = [*scene.results.glob("jobs/*.log")]
    shown, _ = scene.run(["gc", "--json"])
    scene.check(logs and all(path.name in shown.stdout() for path in logs), f"kept {logs}: {shown.stdout()}")


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
    ends(scene, process, (0, 1), r"is over|no Ray cluster", f"{AGAIN}|start one")  # the latter while it submits


BOTH = {
    "kill -9 or Ctrl-C of the command": launching_command,
    "the command's machine reboots": reboot,
    "--detach": left_alone,
    "two commands on one folder": two_commands,
    "bench cancel": bench_cancel,
    "jobs are cancelled by others": cancelled,
    "kill -9 of workers": killed(workers),
    "kill -9 of agents": killed(agents, codes=(0,)),  # they are started again
    "SIGTERM to agents": killed(agents, signal.SIGTERM),
    "a node dies and comes back": node,
    "a node dies while the command is away": node_and_command,
    "a full disk of the nodes": node_disk,
    "a clock five minutes off": clock,
}
FAULTS = {
    "slurm": BOTH | {
        "the controller dies and comes back": controller,
        "no controller": no_controller,
        "two users of a group": two_users,  # a Ray cluster is its owner's
        "jobs are queued again": requeue,
        "the time limit": time_limit,
        "Python does not start": no_start,
        "a full disk of the exchanges": exchange_disk,
    },
    "ray": BOTH | {
        "kill -9 of the exchanges": box,
        "kill -9 of the jobs' actors": actor,
        "the whole cluster dies": whole_cluster,
    },
}  # fmt: skip
