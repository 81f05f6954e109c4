"""Faults around a command: a full disk, others at the same work, a reader of the database, a clock that jumps."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from crash.scene import NATURAL, Scene

JUMPS = (-400 * 86400, -86400, -3600, -30, 30, 3600, 86400, 4000 * 86400)
HOLD = "import duckdb, sys; db = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == 'True'); print(db); input()"
KEEPER = 'mount -t tmpfs -o size="$2" tmpfs "$1" && echo mounted && exec sleep 3600'
MARGIN = 64 * 1024
GROUP, USERS = 65534, (65533, 65534)


def full_disk(scene):
    """A tmpfs too small for the results, in a mount namespace of its own; later it grows."""
    needed = sum(path.stat().st_size for path in scene.reference.results.rglob("*") if path.is_file())
    size = scene.rng.randrange(MARGIN, needed)
    mount = scene.site.logs / "disk"
    mount.mkdir()
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", KEEPER, "sh", str(mount), str(size)]
    with _process(words) as keeper:
        if keeper is None:
            scene.notes.append("no tmpfs can be mounted here: a limit on the size of a file stands in")
            _small_files(scene)
            return
        site = scene.site
        site.prefix = ("nsenter", f"--target={keeper.pid}", "--user", "--mount", "--preserve-credentials")
        site.results, site.seen = Path(f"/proc/{keeper.pid}/root{mount}/results"), mount / "results"
        scene.notes.append(f"a disk of {size // 1024} KiB")
        for _ in range(2):
            _finds_it_full(scene)
            process, code = scene.run(["report", "leaderboard"])
            scene.check(code in (0, 4), f"the report ended with {code}: {process.stderr()}")
        grown = ["mount", "-o", "remount,size=1g", str(mount)]
        subprocess.run([*site.prefix, *grown], check=True, capture_output=True)
        scene.run()
        shutil.copytree(site.results, site.logs.parent / "results")  # the disk ends with its keeper
        scene.move_to(site.logs.parent / "results")
        site.seen, site.prefix = None, ()


def _small_files(scene):
    """Where no file system can be mounted: no file may grow past a limit, as with a quota."""
    limit = scene.rng.randrange(1024, 200 * 1024)
    _finds_it_full(scene, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))


def _finds_it_full(scene, **more):
    scene.strikes += 1
    process = scene.start(**more)
    code = process.wait()
    scene.stages.append(str(code))
    scene.check(code in (0, 1, 4), f"exit code {code} on a full disk: {process.stderr()}")
    if code == 4:
        said = process.stderr()
        scene.check("No space left" in said or "File too large" in said, f"the full disk is not named: {said}")
    scene.ended()


@contextlib.contextmanager
def _process(words):
    """A helper that says a line once it is ready and ends at the end; None where it does not start."""
    try:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(words, text=True, **pipes)
    except FileNotFoundError:
        yield None
        return
    try:
        yield process if process.stdout.readline() else None
    finally:
        process.kill()
        process.communicate()


def launchers(scene):
    """Two to eight commands at once, each with some of the samplers and seeds."""
    count = scene.rng.choice([2, 2, 3, 3, 4, 4, 6, 8])
    scene.strikes += count
    scene.notes.append(f"{count} launchers")
    parts = [scene.command, *(scene.command.part(scene.rng) for _ in range(count - 1))]
    processes = []
    for part in parts:
        processes.append(scene.start(part.words))
        time.sleep(scene.rng.choice([0.0, 0.05, 0.5]))
    for process in processes:
        code = process.wait()
        scene.check(code in NATURAL, f"exit code {code}: {process.stderr()}")
        if code == 1 and not scene.expected_code():
            scene.check("is held by process" in process.stderr(), f"exit code 1, nothing held: {process.stderr()}")
    scene.ended()
    scene.commands = [part.words for part in dict.fromkeys(parts)]


def reader(*, read_only):
    """Another process has the database open while runs are made, ingested and reported."""

    def fault(scene):
        scene.copy_of_finished()
        key = scene.rng.choice(sorted(scene.reference.runs))
        shutil.rmtree(scene.results / "runs" / key[:2] / key)
        scene.run(["ingest"])
        scene.keep_finished()
        words = [sys.executable, "-c", HOLD, str(scene.results / "results.duckdb"), str(read_only)]
        with _process(words) as holder:
            scene.strikes += 1
            scene.check(holder is not None, "the reader did not open the database")
            process, code = scene.run()
            scene.check(code == scene.expected_code(), f"the runs ended with {code}: {process.stderr()}")
            during, code = scene.run(["report", "leaderboard", "--format", "csv"])
            scene.check(code == 0, f"the report ended with {code}: {during.stderr()}")
            scene.check("is open in process" in during.stderr(), f"the reader is not named: {during.stderr()}")
            process, code = scene.run(["ingest"])
            scene.check(code == 4, f"ingest ended with {code}, not 4: {process.stderr()}")
        after, code = scene.run(["report", "leaderboard", "--format", "csv"])
        same = (code, after.stdout()) == (0, during.stdout())
        scene.check(same, f"the report read beside the database was another: {after.stderr()}")

    return fault


def clock(scene):
    """The wall clock jumps while runs go on, between the interruption and the resumption, and while those go on."""
    file = scene.site.logs / "clock"
    file.write_text("0")
    scene.site.environment |= {"CRASH_CLOCK": str(file)}

    def jump():
        seconds = scene.rng.choice(JUMPS)
        file.write_text(str(seconds))
        scene.notes.append(f"clock off by {seconds} s")
        scene.strikes += 1

    for _ in range(scene.rng.choice([1, 2])):
        process = scene.start()
        if scene.rng.random() < 0.5 and scene.moment(process, "sampling"):
            jump()
        scene.moment(process, scene.rng.choice(["sampling", "checkpoint", "scoring"]))
        scene.send(process.pid, scene.rng.choice([signal.SIGINT, signal.SIGKILL]), group=True)
        process.wait()
        scene.ended()
        jump()


def reading_verbs(scene):
    """Ingests and reports are struck while they write the database."""
    scene.copy_of_finished()
    scene.keep_finished()
    for _ in range(4):
        words = scene.rng.choice([["ingest"], ["ingest", "--rebuild"], ["report", "leaderboard"]])
        number = scene.rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
        if scene.rng.random() < 0.5:
            scene.results.joinpath("results.duckdb").unlink(missing_ok=True)
            scene.results.joinpath("results.duckdb.wal").unlink(missing_ok=True)
        process = scene.start(words)
        if scene.rng.random() < 0.5:
            time.sleep(scene.rng.uniform(0.05, 1.5))
        else:
            while process.running() and not any(scene.results.glob("*.duckdb*.wal")):
                time.sleep(0.0005)
            time.sleep(scene.rng.choice([0, 0.001, 0.005, 0.02]))
        scene.stages.append(words[0] if process.running() else "after its end")
        scene.send(process.pid, number, group=True)
        code = process.wait()
        scene.check(code in (0, 130, -number), f"exit code {code}: {process.stderr()}")
        scene.gone()


def locks(scene):
    """Somebody deletes or replaces lock files while workers hold them, and gives the command a second time."""
    first = scene.start()
    scene.moment(first, scene.rng.choice(["set-up", "sampling", "checkpoint", "scoring"]))
    for path in sorted(scene.results.glob("locks/*.lock")):
        how = scene.rng.choice(["deleted", "replaced", "left"])
        if how != "left":
            scene.strikes += 1
            path.unlink(missing_ok=True)
        if how == "replaced":
            path.write_text("{}")
    second = scene.start()
    for process in (first, second):
        code = process.wait()
        scene.check(code in NATURAL, f"exit code {code}: {process.stderr()}")
        unfinished = "not finished" in process.stderr()
        scene.check(
            code == 1 or not unfinished, f"exit code {code} with runs that are not finished: {process.stderr()}"
        )
    scene.ended()
    scene.checkpoints.clear()  # what a worker held when its lock went may count for nothing


def namespaces(scene):
    """Two or three launchers at the same runs, each in a process-id namespace: their ids are equal."""
    prefix = ("unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        scene.notes.append("no process-id namespaces can be made here")
        return
    scene.site.prefix = prefix
    processes = [scene.start() for _ in range(scene.rng.choice([2, 3]))]
    scene.strikes += len(processes)
    if scene.rng.random() < 0.5 and scene.moment(processes[0]):
        scene.send(processes[0].pid, signal.SIGKILL, group=True)
    for process in processes:
        code = process.wait()
        scene.check(code in (*NATURAL, -signal.SIGKILL), f"exit code {code}: {process.stderr()}")
    scene.site.prefix = ()
    scene.ended()


def out_of_reach(scene):
    """Two or three commands at the same runs, as on machines whose kernel locks do not reach each other."""
    processes = []
    for _ in range(scene.rng.choice([2, 2, 3])):
        scene.site.environment |= {"CRASH_KERNEL": f"kernel {len(processes)}"}
        processes.append(scene.start())
        scene.strikes += 1
        if scene.rng.random() < 0.5:
            scene.moment(processes[-1])
    if scene.rng.random() < 0.5:
        scene.send(processes[0].pid, signal.SIGKILL, group=True)
    for process in processes:
        code = process.wait()
        scene.check(code in (*NATURAL, -signal.SIGKILL), f"exit code {code}: {process.stderr()}")
    scene.site.environment = {}
    scene.ended()
    scene.checkpoints.clear()  # each worked in attempts of its own


AS_USER = ("setpriv", "--reuid={}", f"--regid={GROUP}", "--clear-groups", "sh", "-c", 'umask 002; exec "$@"', "sh")

OUT_OF_REACH = "no other user can run this Python here"


def started_by(scene, users, moment):
    """A running command of each of these users; fewer where one cannot run this Python."""
    processes, before = [], dict(scene.site.environment)
    for user in users:
        home = str(scene.site.logs / f"home-{user}")
        scene.site.prefix = tuple(word.format(user) for word in AS_USER)
        scene.site.environment |= {"HOME": home, "BENCH_CACHE": home}
        trial = [*scene.site.prefix, sys.executable, "-c", "import torch"]
        if subprocess.run(trial, check=False, capture_output=True).returncode:
            scene.notes.append(OUT_OF_REACH)
            break
        processes.append(scene.start())
        moment(scene, processes[-1])
    scene.site.prefix, scene.site.environment = (), before
    scene.strikes += len(processes)
    return processes


def two_users(scene):
    """Two users of a group at the same runs, in a folder that the group may write; one is killed on the way."""
    scene.results.mkdir()
    for folder in scene.results.parents:
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    for folder in (scene.results, scene.site.logs):
        os.chown(folder, -1, GROUP)
        folder.chmod(0o2775)
    processes = started_by(scene, USERS, Scene.moment)
    if len(processes) == len(USERS) and scene.rng.random() < 0.7:
        scene.send(processes[0].pid, signal.SIGKILL, group=True)
    for process in processes:
        code = process.wait()
        scene.check(code in (*NATURAL, -signal.SIGKILL), f"exit code {code}: {process.stderr()}")
    scene.ended()


FAULTS = {
    "a full disk": full_disk,
    "commands whose locks do not reach each other": out_of_reach,
    "two users of a group": two_users,
    "two to eight launchers at once": launchers,
    "a reader holds the database": reader(read_only=True),
    "a writer holds the database": reader(read_only=False),
    "a clock that jumps": clock,
    "lock files deleted or replaced": locks,
    "launchers in process-id namespaces": namespaces,
    "kill -9, SIGTERM, Ctrl-C of ingest and report": reading_verbs,
}
