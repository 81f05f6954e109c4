"""Kills at system calls: strace ends a command at its n-th rename, sync or write, for every verb that writes.

What a verb writes outside the results folder is in `scene.written`. After a kill each file there must be what it was
before or what the undisturbed command writes; afterwards the same command finishes.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import random
import re
import shlex
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from crash.scene import Scene
from crash.workload import sha256

CALLS = (
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "fsync", "fdatasync",
    "ftruncate", "pwrite64", "write", "copy_file_range", "sendfile", "link", "linkat",
)  # fmt: skip
PUBLISHED = Path(__file__).parents[2] / "reports" / "published"
CONTENT = random.Random(0).randbytes(3_000_000)


@dataclass(frozen=True)
class Verb:
    """A command that writes.

    words     the command, where {written} is the folder that it may write to; without it, the scene's own
    prepare   what is done with the scene before it
    bytes     whether the files that it writes are the same each time
    """

    words: str = ""
    prepare: Callable[[Scene], object] | None = None
    bytes: bool = True


def kills(name, verb):
    """The verb is killed once or twice at a random call, then finishes."""

    def fault(scene):
        if shutil.which("strace") is None:
            scene.notes.append("no strace here")
            return
        folder = scene.written
        calls, after = _undisturbed(verb, scene)
        words = _prepared(verb, scene)
        before = _snapshot(folder)
        scene.keep_finished()
        scene.commands = [words]
        for _ in range(scene.rng.choice([1, 1, 2])):
            call = scene.rng.choice(sorted(calls))
            number = scene.rng.randint(1, calls[call])
            inject = f"--inject={call}:signal=KILL:when={number}"
            with _prefix(scene, _strace(scene, "/dev/null", inject)):
                process, code = scene.run(words)
            scene.strikes += 1
            scene.stages.append(name if code else "after its end")
            scene.notes.append(f"killed at {call} {number} of {calls[call]}: {code}")
            # Where it was a worker or a helper that was killed, the command tells.
            codes = (-signal.SIGKILL, 0, 1, 4, *([2] if name == "new" else []))  # `new` refuses a folder that is there
            scene.check(code in codes, f"exit code {code}: {process.stderr()}")
            scene.gone()
            for file, digest in _snapshot(folder).items():
                whole = digest in (before.get(file), after.get(file)) or (file in after and not verb.bytes)
                scene.check(whole, f"after the kill {file} is neither the old file nor the new one")
            if name == "run":
                scene.ended()
        if name == "new":
            scene.commands = []
        if name != "run" and not (name == "new" and _snapshot(folder) == after):
            process, code = scene.run(words)
            scene.check(code == 0, f"{words} ended with {code}: {process.stderr()}")
            digests = _snapshot(folder)
            same = digests == after if verb.bytes else digests.keys() == after.keys()
            scene.check(same, f"the same command wrote {sorted(digests)}, not {sorted(after)}, or other bytes")

    return fault


def _prepared(verb, scene):
    scene.written.mkdir()
    if verb.words:
        scene.copy_of_finished()
    if verb.prepare:
        verb.prepare(scene)
    words = verb.words.format(written=scene.written, metric=_metric(scene))
    return shlex.split(words) or scene.command.words


_seen: dict[tuple, tuple[dict[str, int], dict[str, str]]] = {}


def _undisturbed(verb, scene):
    """How often a process makes each call, at most, and what the verb writes; measured once a command."""
    key = (verb, scene.command)
    if key not in _seen:
        folder = scene.site.logs.parent / "undisturbed"
        alone = scene.elsewhere(folder)
        words = _prepared(verb, alone)
        log = folder / "calls"
        with _prefix(alone, _strace(alone, str(log), "--seccomp-bpf")):
            process, code = alone.run(words)
        if code not in (0, scene.expected_code()):
            raise RuntimeError(f"the undisturbed {words} ended with {code}: {process.stderr()}")
        traced = re.findall(r"^(\d+) +(\w+)\(", log.read_text(errors="replace"), re.MULTILINE)
        calls = {call: number for (_, call), number in sorted(Counter(traced).items(), key=lambda item: item[1])}
        _seen[key] = calls, _snapshot(alone.written)
        shutil.rmtree(folder)
    return _seen[key]


def _strace(scene, log, *more):
    scene.site.environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
    return ("strace", "-f", "-qqq", "-o", log, f"--trace={','.join(CALLS)}", *more)


@contextlib.contextmanager
def _prefix(scene, words):
    before, scene.site.prefix = scene.site.prefix, tuple(words)
    yield
    scene.site.prefix = before


def _snapshot(folder):
    """The files below a folder by their digests; those that are written aside or hold locks are not its contents."""
    files = (path for path in folder.rglob("*") if path.is_file())
    names = {path: path.relative_to(folder) for path in files}
    shown = {path: name for path, name in names.items() if not any(part[0] == "." for part in name.parts)}
    return {str(name): sha256(path) for path, name in shown.items() if path.suffix != ".lock"}


# What is prepared.


def _garbage(scene):
    """An older, interrupted attempt at each run, and what interrupted writes left in the one that finished it."""
    for number, path in enumerate(sorted(scene.results.glob("runs/*/*/*/"))):
        old = path.with_name(f"20200101T000000000-{number:06x}")
        old.mkdir()
        for name in ("spec.json", "environment.json", "events.jsonl"):
            shutil.copyfile(path / name, old / name)
        (old / "draws.part").write_bytes(CONTENT[:9999])
        (path / "draws.part").write_bytes(b"x")
        (path / ".result.json.0123456789abcdef").write_bytes(b"x")
    scene.run(["ingest"])


def _published(scene):
    """Results that were published before, in other bytes than this version would write."""
    import pyarrow.parquet

    for path in PUBLISHED.glob("*.parquet"):
        table = pyarrow.parquet.read_table(path)
        pyarrow.parquet.write_table(table, scene.written / path.name, compression="none")


def _report(scene):
    (scene.written / "table.md").write_text("of yesterday\n")


def _suite(scene):
    """The command of the scene as a suite."""
    command = scene.command
    rest = dict(zip(command.rest[::2], command.rest[1::2], strict=True))
    lines = [
        'summary = "the same"', 'reports = ["leaderboard"]', "[[run]]", f"samplers = {[*command.samplers]}",
        f'tasks = ["{command.task}"]', f'seeds = "{",".join(map(str, command.seeds))}"', f"chains = {command.chains}",
        f'budget = "{rest["--budget"]}"',
    ]  # fmt: skip
    if "--set" in rest:
        lines.append(f"settings = {{ {rest['--set'].replace('=', ' = ')} }}")
    if "--sweep" in rest:
        name, _, values = rest["--sweep"].partition("=")
        lines.append(f"sweep = {{ {name} = [{values}] }}")
    (scene.written.parent / "again.toml").write_text("\n".join(lines).replace("'", '"'))


PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar
from harness import Info, hook
from harness.tasks import DataFile, Task
FILES = tuple(DataFile("crash", f"crash/{{name}}.bin", "{digest}", {size}, ("{url}/file",)) for name in "abc")
@dataclass(frozen=True, kw_only=True)
class Crash(Task):
    datasets: ClassVar = FILES
@hook
def bench_tasks():
    return [Info("crash", "crash_plugin:Crash")]
"""


class _Server(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        with contextlib.suppress(OSError):  # the one who asked was killed
            self.wfile.write(CONTENT)

    def log_message(self, *_):
        pass


def _data(scene):
    """A task whose three files a server on this machine has; it stops with this process."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    source = PLUGIN.format(digest=hashlib.sha256(CONTENT).hexdigest(), size=len(CONTENT), url=url)
    (scene.written.parent / "crash_plugin.py").write_text(source)
    scene.site.environment |= {
        "BENCH_DATA": str(scene.written),
        "no_proxy": "127.0.0.1",
        "BENCH_CACHE": str(scene.written.parent),
    }


def _metric(scene):
    """The metric that every run of the command has."""
    result = json.loads(next(scene.reference.results.glob("runs/*/*/*/result.json")).read_bytes())
    return result["metrics"][0]["name"]


VERBS = {
    "run": Verb(),
    "ingest": Verb("ingest"),
    "ingest --rebuild": Verb("ingest --rebuild", lambda scene: scene.run(["ingest"])),
    "gc --delete": Verb("gc --delete", _garbage),
    "reproduce --export": Verb("reproduce --export {written}", _published),
    "report --out": Verb("report leaderboard --out {written}/table.md", _report),
    "nightly": Verb("nightly {written}/../again.toml --out {written}", _suite, bytes=False),
    "new": Verb("new sampler crash-sampler --into {written}"),
    "data fetch": Verb("--plugin {written}/../crash_plugin.py data fetch crash", _data),
    "rescore": Verb("rescore --metric {metric}"),
}
FAULTS = {f"kill at a system call of {name}": kills(name, verb) for name, verb in VERBS.items()}
