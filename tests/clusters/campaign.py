"""Faults of clusters, round after round: a command whose runs are on one is disturbed, given again, and judged.

    PYTHONPATH=tests python -m clusters.campaign slurm ray --rounds 50 --write docs/reliability/clusters.md

or `nox -s clusters`. Rounds that stand in --out are not played again. Exits with 1 where anything did not hold.
A cluster that cannot be started here is skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from clusters import faults, waiting
from clusters.processes import environment_of, kill, running
from clusters.ray_cluster import Ray
from clusters.slurm_cluster import Slurm
from crash.campaign import judged, schedule, tell
from crash.figures import machine, write
from crash.scene import Scene
from crash.workload import PLAIN, Command, References, Site

CLUSTERS = {"slurm": Slurm, "ray": Ray}
COMMANDS = (
    Command(("sghmc", "sgld"), "mixture5", (0, 1), 2, ("--budget", "steps=24000", *PLAIN, "run.thin=20")),
    Command(("msgld", "sgld"), "mixture25", (3, 4), 2, ("--budget", "steps=16000", *PLAIN, "run.thin=8")),
)
SETTLE_SECONDS = 40.0
MEMORY = Path("/dev/shm")  # noqa: S108


class ClusterScene(Scene):
    """A round on a cluster. `scratch` is where its nodes have their temporary files."""

    cluster = None
    cluster_mark = ""
    scratch = Path()
    words = ()

    def start(self, words=None, **more):
        return super().start(self.words if words is None else words, **more)

    def scratch_is(self, folder):
        """Give the nodes another disk; None: the usual one."""
        usual = Path(os.environ["TMPDIR"])
        self.scratch = folder or usual
        if self.cluster.name == "slurm":
            self.site.environment["TMPDIR"] = str(self.scratch)
            return
        os.environ["TMPDIR"] = str(self.scratch)
        for node in list(self.cluster.nodes):
            self.cluster.kill_node(node)
            self.cluster.start_node()
        os.environ["TMPDIR"] = str(usual)


def play(name, cluster, command, references, folder, seed):
    """One round in `folder`: the fault, the same command once more, the judgement. Returns its record."""
    (folder / "logs").mkdir(parents=True)
    rng = random.Random(f"{seed} {name}")
    site = Site(folder / "results", folder / "logs", f"{os.getpid()}-{rng.getrandbits(48):x}")
    site.environment = dict(cluster.environment)
    scene = ClusterScene(site, command, references.of(command), rng)
    scene.cluster, scene.cluster_mark = cluster, os.environ["CRASH_MARK"]
    scene.scratch = Path(os.environ["TMPDIR"])
    scene.words = [*command.words, *cluster.words]
    steps = (faults.FAULTS[cluster.name][name], Scene.keep_finished, _once_more, _settled)
    record = judged(scene, steps, _clear)
    return {"fault": f"{cluster.name}: {name}", "seed": seed, "command": " ".join(scene.words), **record}


def _once_more(scene):
    """The command again, once: it submits what lost jobs left undone."""
    process = scene.start()
    code = waiting.attend(scene, process)
    rows = json.loads(process.stdout() or "[]")
    statuses = {row["run_key"]: row["status"] for row in rows}
    expected = {key: status for key, (status, *_) in scene.reference.runs.items()}
    scene.check((code, statuses) == (0, expected), f"{code}: {statuses}, not {expected}: {process.stderr()[-3000:]}")


def _settled(scene):
    """Nothing is left of the jobs after a while: in the queue, as processes, as files."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while left := _left(scene):
        if time.monotonic() > deadline:
            for text in left:
                scene.check(False, f"left behind: {text}")
            break
        scene.cluster.hurry()
        time.sleep(1)
    for path in scene.results.glob("jobs/*.log"):  # the output of failed jobs, which only `bench gc` deletes
        path.unlink()
    scene.gone()


def _left(scene):
    remains = [f"in the queue: {line}" for line in scene.cluster.jobs()]
    remains += [f"still alive: {running().get(pid)}" for pid in {*waiting.agents(scene), *waiting.workers(scene)}]
    remains += [str(path) for path in scene.results.glob("jobs/*") if path.suffix != ".log"]
    folders = [scene.scratch] + [MEMORY] * (scene.cluster.name == "ray")
    return remains + [_described(path) for folder in folders for path in folder.glob("sgmcmc-bench-*")]


def _described(folder):
    """A folder that was left, with what is in it and the times at which that was written."""
    inside = {path: path.lstat().st_mtime for path in [folder, *sorted(folder.rglob("*"))] if os.path.lexists(path)}
    times = (f"{path.relative_to(folder.parent)} {time.strftime('%T', time.gmtime(at))}" for path, at in inside.items())
    return f"{folder.parent}: {', '.join(times)}"


def _clear(scene):
    """End what is left, so that the next round does not have it."""
    scene.bury()
    scene.cluster.cancel()
    for pid in {*waiting.agents(scene), *waiting.workers(scene)}:
        kill(pid, signal.SIGKILL)
    for path in scene.scratch.glob("sgmcmc-bench-*"):
        shutil.rmtree(path, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clusters", nargs="*", choices=[[], *CLUSTERS], default=[], help="all by default")
    parser.add_argument("--rounds", type=int, default=4, help="on each cluster; the long form has 50")
    parser.add_argument("--seed", type=int, default=0, help="decides faults, commands and moments")
    parser.add_argument(
        "--out", type=Path, help="the record of every round, as JSON; what stands there is not repeated"
    )
    parser.add_argument("--write", type=Path, help="a Markdown file whose figures are replaced")
    parser.add_argument("--fault", nargs="+", default=[""], help="only faults whose name has one of these in it")
    parser.add_argument("--missing", action="store_true", help="only say why no cluster can be started here")
    asked = parser.parse_args()
    asked.clusters = asked.clusters or list(CLUSTERS)
    if asked.missing:
        reasons = [f"{name}: {CLUSTERS[name].missing()}" for name in asked.clusters]
        sys.stdout.write("" if any(reason.endswith(": ") for reason in reasons) else "; ".join(reasons))
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(run(asked))


def run(asked):
    """All rounds on all clusters; 1 where something did not hold."""
    report = {"began": time.time(), "seed": asked.seed, "seconds": 0.0, "machine": machine(), "rounds": []}
    if asked.out and asked.out.exists():
        report = json.loads(asked.out.read_text())
    reasons = {name: CLUSTERS[name].missing() for name in asked.clusters}
    for name, reason in reasons.items():
        if reason:
            sys.stderr.write(f"skipped: {name}: {reason}\n")
            continue
        _rounds(name, asked, report)
    if asked.write and report["rounds"]:
        write(asked.write, report)
    wrong = sum(not record["right"] for record in report["rounds"])
    sys.stderr.write(f"{len(report['rounds'])} rounds, {wrong} with complaints\n")
    return int(wrong > 0)


def _rounds(name, asked, report):
    folder = Path(tempfile.mkdtemp(prefix=f"clusters-{name}-"))
    (folder / "tmp").mkdir()
    os.environ |= {
        "CRASH_MARK": f"cluster-{folder.name}", "TMPDIR": str(folder / "tmp"), "BENCH_CHECKPOINT_SECONDS": "0.3",
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    references = References(folder)
    rng = random.Random(f"{asked.seed} {name} commands")
    plan = [
        (i, fault, rng.choice(COMMANDS))
        for i, fault in enumerate(schedule(asked.rounds, f"{asked.seed} {name}", asked.fault, faults.FAULTS[name]))
    ]
    played = {(record["fault"], record["seed"]) for record in report["rounds"]}
    left = [entry for entry in plan if (f"{name}: {entry[1]}", asked.seed * 1000 + entry[0]) not in played]
    for _, _, command in left:
        references.of(command)
    cluster = CLUSTERS[name](folder / "cluster")
    try:
        cluster.start()
        for number, fault, command in left:
            began = time.time()
            round_folder = folder / f"{number:03d}"
            record = play(fault, cluster, command, references, round_folder, asked.seed * 1000 + number)
            report["rounds"].append(record | {"round": number})
            report["seconds"] += time.time() - began
            tell(report["rounds"][-1], round_folder)
            if asked.out:
                asked.out.write_text(json.dumps(report, indent=1))
            if record["right"]:
                shutil.rmtree(round_folder)
    finally:
        cluster.stop()
        for pid in running():
            if environment_of(pid).get("CRASH_MARK") == os.environ["CRASH_MARK"] and pid != os.getpid():
                kill(pid, signal.SIGKILL)
    if all(record["right"] for record in report["rounds"]):
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
