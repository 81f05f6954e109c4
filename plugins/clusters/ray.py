"""Jobs as actors of a Ray cluster. The machines share nothing but Ray itself."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import RunError, UsageError, param
from harness.contracts import format_error
from harness.system import errors
from harness.system.import_path import command
from plugins.clusters.agent import run_agent, scratch_folder
from plugins.clusters.launcher import LOG, OUTPUT, PARCEL, STOP, Exchange, FolderExchange, JobState, Launcher

NAMESPACE = "sgmcmc-bench"
EVERY_SECONDS, CARRY_SECONDS = 1.0, 0.3
MAKE_TRIES = 3
ANSWER_SECONDS = 30.0
LEAVE_SECONDS = 5.0
"""Seconds that an actor has to delete its folder; an agent that runs for longer deletes it itself."""
START_SECONDS = 180.0
"""Seconds that an actor has to start; on a busy machine it took 40."""
REACH_SECONDS = 5.0
OUTPUT_BYTES = 65_536
"""Most bytes of the output of an agent that its actor sends; it sends them when the agent has ended."""
REMEDY = "start one, or --set launcher.address=HOST:PORT"
CURRENT = Path("/tmp/ray/ray_current_cluster")  # noqa: S108 - Ray's own
SILENT = {"RAY_DEDUP_LOGS": "1", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}
"""Ray prints messages about its nodes to stdout, where a table or JSON of the command belongs. Ray reads the
variables when it is imported."""
FEW_TRIES = {"RAY_NUM_REDIS_GET_RETRIES": "2"}
"""Ray tries twenty times, 40 seconds each, to connect to a cluster that ends meanwhile. It also reads this once."""
MEMORY = Path("/dev/shm")  # noqa: S108
"""The parent of an agent's folder, from which files are copied to the box: an agent can report a full disk."""
_joined: str | None = None
"""The address that this process connected to, as it was given; in the processes of actors Ray itself connects."""


class GoneError(RunError):
    """Nothing listens at the address of a cluster: the cluster and all of its actors have ended."""


@dataclass(frozen=True, kw_only=True)
class Ray(Launcher):
    """Each job is an actor that outlives the command. Another actor on the command's node, the box, holds its exchange.

    If the node of a job fails, Ray starts the job again on another node, from its last checkpoint.
    """

    address: str = param("auto", "", "address of the cluster; auto: the one that this machine belongs to")

    def exchange(self, folder: Path) -> Exchange:
        """Return the box of a job."""
        return Box(self, folder.name)

    def submit(self, folders: Sequence[Path]) -> list[str]:
        """Start the actors, which wait for their resources, and return the names of their jobs."""
        ray = self.connected()
        for folder in folders:
            ray.remote(_Job).options(
                name=f"job-{folder.name}", namespace=NAMESPACE, lifetime="detached", get_if_exists=True,
                num_cpus=self.workers, num_gpus=self.gpus, max_restarts=-1, max_task_retries=-1, max_concurrency=4,
            ).remote(folder.name, self.restarts)  # fmt: skip
        return [folder.name for folder in folders]

    def restart(self, folder: Path, name: str) -> str:
        """Return ""."""
        return ""

    def states(self, names: Sequence[str]) -> Mapping[str, JobState]:
        """Return "running" for a job if its actor answers. If the cluster has ended, no job is known."""
        try:
            ray = self.connected()
        except GoneError:
            return {}
        asked = {name: actor.where.remote() for name in names if (actor := _actor(ray, f"job-{name}")) is not None}
        ready = set(ray.wait([*asked.values()], num_returns=len(asked), timeout=EVERY_SECONDS)[0]) if asked else set()
        job_states = {}
        for name, answer in asked.items():
            job_states[name] = JobState("queued", why="waits for resources, or for its node")
            if answer in ready:
                try:
                    host, over = ray.get(answer)
                    job_states[name] = JobState("ended" if over else "running", host, over)
                except ray.exceptions.RayError as error:
                    job_states[name] = JobState("ended", why=str(error).strip().partition("\n")[0])
        return job_states

    def cancel(self, names: Sequence[str]) -> None:
        """Ask the agents to stop, and kill actors that have not started yet."""
        ray = self.connected()
        states = self.states(names)
        for name in names:
            actor = _actor(ray, f"job-{name}")
            if actor is not None and states[name].status == "queued":
                ray.kill(actor)
            elif actor is not None:
                actor.stop.remote()

    def connected(self) -> Any:
        """Return the module ray, connected to the cluster; raise `RunError` if the cluster cannot be reached.

        Raise `UsageError` if ray is not installed.

        A process that makes a request to a cluster that has ended hangs, until Ray kills it after a minute. So every
        call first checks whether the cluster can be reached.
        """
        global _joined  # noqa: PLW0603 - Ray connects a process to one cluster at a time
        known = sys.modules.get("ray")
        if known is not None and known.is_initialized():
            with suppress(RunError):
                if _joined == self.address:
                    _check_reachable(self.address)
                if _joined in {None, self.address}:
                    return known
            known.shutdown()
        _check_reachable(self.address)
        os.environ.update(SILENT | FEW_TRIES)
        try:
            import ray
        except ImportError as error:
            raise UsageError('--launcher ray needs ray; run pip install "sgmcmc-bench[ray]"') from error
        before = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(address=self.address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise RunError(f"no Ray cluster at {self.address}: {error}; {REMEDY}") from error
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)  # Ray's handler prints the stack and calls sys.exit
        _joined = self.address
        return ray


@dataclass(frozen=True)
class Box:
    """The exchange of a job, in the memory of an actor that is created when the job's `job.tar` is put."""

    launcher: Ray
    name: str

    def put(self, name: str, content: bytes) -> None:
        """Write a file; raise `OSError` if there is no box."""
        if self._ask("put", name, content, tries=MAKE_TRIES * (name == PARCEL)) is None:
            raise OSError(f"the box of job {self.name} is gone")

    def get(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        return self._ask("get", name)

    def names(self) -> Mapping[str, str]:
        """Return the names of the files with the digests of their contents."""
        return self._ask("names") or {}

    def clear(self) -> None:
        """Kill the actors of the box and of its job."""
        try:
            ray = self.launcher.connected()
        except GoneError:
            return
        for kind in ("job", "box"):
            actor = _actor(ray, f"{kind}-{self.name}")
            if actor is None:
                continue
            if kind == "job":
                with suppress(ray.exceptions.RayError):
                    ray.get(actor.leave.remote(), timeout=LEAVE_SECONDS)
            ray.kill(actor)

    def _ask(self, what: str, *arguments: Any, tries: int = 0) -> Any:
        """Return the answer of the box, or None if there is no box; raise `OSError` if it does not answer.

        With `tries` above 0 the box is created if needed, and once more for each further try if its node is lost.
        """
        try:
            ray = self.launcher.connected()
        except RunError as error:
            if isinstance(error, GoneError) and not tries:
                return None
            raise OSError(str(error)) from error
        actor = _actor(ray, f"box-{self.name}") or (self._new_actor(ray) if tries else None)
        if actor is None:
            return None
        try:
            return ray.get(getattr(actor, what).remote(*arguments), timeout=START_SECONDS if tries else ANSWER_SECONDS)
        except ray.exceptions.RayError as error:
            died = isinstance(error, ray.exceptions.ActorDiedError)
            if died and tries > 1:
                time.sleep(EVERY_SECONDS)
                return self._ask(what, *arguments, tries=tries - 1)
            hint = " Ray does not say why: look for a full disk, or no memory left, on its node" if died else ""
            reason = str(error).strip().partition("\n")[0]
            raise OSError(f"the box of job {self.name}: {reason}{hint}") from error

    def _new_actor(self, ray: Any) -> Any:
        """Create an actor on this node. With `soft=True` Ray places it on another node if it starts there earlier."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        return ray.remote(_Box).options(
            name=f"box-{self.name}", namespace=NAMESPACE, lifetime="detached", get_if_exists=True, num_cpus=0,
            scheduling_strategy=here,
        ).remote()  # fmt: skip


class _Box:
    """The files of an exchange."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def put(self, name: str, content: bytes) -> bool:
        self.files[name] = content
        return True

    def get(self, name: str) -> bytes | None:
        return self.files.get(name)

    def names(self) -> dict[str, str]:
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files.items()}


class _Job:
    """An actor that runs the agent as a process, in a folder on its node, and copies files between folder and box."""

    def __init__(self, name: str, restarts: int) -> None:
        self.name, self.restarts, self.over, self.stopping = name, restarts, "", False
        self.worker = threading.Thread(target=self._work, daemon=True)
        self.worker.start()

    def where(self) -> tuple[str, str]:
        return os.uname().nodename, self.over

    def stop(self) -> None:
        self.stopping = True

    def leave(self) -> None:
        """Stop the agent; return when it has ended and its folder is deleted."""
        self.stopping = True
        self.worker.join()

    def _work(self) -> None:
        """Run the agent, again if it is killed."""
        try:
            code, again = self._agent(), 0
            while code < 0 and again < self.restarts and not self.stopping:
                code, again = self._agent(), again + 1
            self.over = errors.exit_text(code) + (f"; it was started again {again} times" if again else "")
        except Exception as error:  # noqa: BLE001 - the command reports it
            self.over = format_error(error)

    def _agent(self) -> int:
        """Run the agent and copy its files until it ends; return its exit code."""
        box = Box(Ray(), self.name)
        seen: dict[str, str | None] = {}
        with scratch_folder(MEMORY if os.access(MEMORY, os.W_OK) else None) as path:
            here = FolderExchange(path)
            for name in box.names():
                content = box.get(name)
                if content is not None and name != LOG:
                    here.put(name, content)
            seen.update(here.names())
            with (
                (path / OUTPUT).open("ab") as output,
                subprocess.Popen(
                    command("plugins.clusters.ray", str(path), self.name),
                    stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
                ) as agent,
            ):  # fmt: skip
                running, told = True, False
                while running:
                    running = agent.poll() is None
                    if self.stopping and running and not told:
                        agent.send_signal(signal.SIGTERM)
                        told = True
                    self._carry(here, box, seen)
                    time.sleep(CARRY_SECONDS)
            with suppress(OSError):
                box.put(OUTPUT, (path / OUTPUT).read_bytes()[-OUTPUT_BYTES:])
        return agent.returncode

    def _carry(self, here: FolderExchange, box: Box, seen: dict[str, str | None]) -> None:
        try:
            there = box.names()
            if PARCEL not in there:
                self.stopping = True
                return
            if STOP in there and STOP not in here.names():
                here.put(STOP, b"")
                seen[STOP] = here.names()[STOP]
            version = here.names().get(LOG)
            contents = {LOG: here.get(LOG)}  # read first, sent last: its files have arrived
            names = {**here.names(), LOG: version}
            names.pop(OUTPUT, None)
            for name in sorted(names, key=lambda name: name == LOG):
                if seen.get(name) != names[name]:
                    content = contents[name] if name in contents else here.get(name)
                    if content is not None:
                        box.put(name, content)
                    seen[name] = names[name]
        except OSError:
            return  # tried again after EVERY_SECONDS


def _check_reachable(address: str) -> None:
    """Raise `RunError` if the address of a cluster cannot be reached, `GoneError` if nothing listens there.

    Ray itself would try again for minutes.

    `auto` means the address in RAY_ADDRESS, or else that of the last cluster started on this machine, running or not.
    """
    target = address if address != "auto" else os.environ.get("RAY_ADDRESS", "")
    if not target and CURRENT.exists():
        target = CURRENT.read_text().strip()
    host, _, port = target.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # Ray finds the cluster itself, or reports what is wrong
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except OSError as error:
        kind = GoneError if isinstance(error, ConnectionRefusedError) else RunError
        raise kind(f"no Ray cluster at {target}: {error}; {REMEDY}") from error


def _actor(ray: Any, name: str) -> Any:
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return None


def _end_with_the_actor() -> None:
    """Wait until the actor is gone, then delete the folder and end the agent, which can send nothing any more."""
    while os.read(0, 4096):  # sys.stdin has a lock, and Python aborts at its end if a thread holds that
        pass
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_actor, daemon=True).start()
    sys.exit(not run_agent(FolderExchange(Path(sys.argv[1])), sys.argv[2]))
