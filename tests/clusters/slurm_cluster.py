"""A Slurm of two nodes with one core each on one machine. It needs root, and Debian's slurm-wlm and munge."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from clusters.processes import environment_of, kill, running

PORTS = (16817, 17001, 17002)
NODES = ("n1", "n2")
CONFIGURATION = """\
ClusterName=clusters
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmctldPort={ports[0]}
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobRequeue=1
KillWait=30
SlurmdTimeout=10
SchedulerParameters=sched_interval=2,bf_interval=2
NodeName=n[1-2] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}] CPUs=1 RealMemory=10000
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
"""
UP_SECONDS = 60.0


class Slurm:
    """The cluster, its daemons and its queue. A requeued job waits two minutes; `attend` has it start at once."""

    name = "slurm"
    agent_words = "submitit.core._submit"

    def __init__(self, folder):
        self.folder = folder
        self.munged = False

    @staticmethod
    def missing():
        """Why it cannot be started here; "" where it can."""
        if os.geteuid() != 0:
            return "Slurm's daemons need root"
        absent = [name for name in ("slurmctld", "slurmd", "sbatch", "munged") if not shutil.which(name, path=PATH)]
        return f"there is no {' and no '.join(absent)} (Debian: apt-get install slurm-wlm munge)" if absent else ""

    @property
    def environment(self):
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": PATH}

    @property
    def words(self):
        return ["--launcher", "slurm", "--set", "launcher.jobs=2"]

    def start(self):
        for name in ("state", *(f"spool.{node}" for node in NODES)):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(folder=self.folder, ports=PORTS))
        Path("/run/munge").mkdir(exist_ok=True)
        shutil.chown("/run/munge", "munge", "munge")
        if subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode:
            subprocess.run(["su", "-s", "/bin/sh", "munge", "-c", shutil.which("munged", path=PATH)], check=True)
            self.munged = True
        self.start_controller()
        for node in NODES:
            self.start_node(node)

    def stop(self):
        self.ask("scancel", "--user=root")
        deadline = time.monotonic() + UP_SECONDS
        while self.jobs() and time.monotonic() < deadline:
            time.sleep(1)
        for name in ("slurmctld", *(f"slurmd.{node}" for node in NODES)):
            kill(self._pid(name), signal.SIGTERM)
        if self.munged:
            with suppress(OSError):
                kill(int(Path("/run/munge/munged.pid").read_text()), signal.SIGTERM)

    def ask(self, *words):
        """The output of a command of Slurm; "" where it fails."""
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env=os.environ | self.environment, timeout=120
        )
        return done.stdout if done.returncode == 0 else ""

    def jobs(self):
        """What is in the queue: lines of name, state, reason. A job that is COMPLETING has ended; Slurm cleans up."""
        lines = self.ask("squeue", "--noheader", "--array", "--format=%i %T %r").splitlines()
        return [line for line in lines if line and " COMPLETING " not in line]

    def hurry(self):
        """Start jobs at once that were queued again: Slurm would have them wait for two minutes."""
        for line in self.jobs():
            if line.endswith(" BeginTime"):
                self.ask("scontrol", "update", f"JobId={line.split()[0]}", "StartTime=now")

    # What faults do.

    def kill_controller(self):
        kill(self._pid("slurmctld"), signal.SIGKILL)

    def start_controller(self):
        subprocess.run(["slurmctld"], env=os.environ | self.environment, check=True, capture_output=True)
        self._until(lambda: self.ask("sinfo", "-h"))

    def kill_node(self, node=None):
        """All processes of a node, without a warning; returns its name."""
        node = node or self.busy_node() or NODES[0]
        kill(self._pid(f"slurmd.{node}"), signal.SIGKILL)
        inside = [pid for pid in running() if environment_of(pid).get("SLURMD_NODENAME") == node]
        keepers = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in inside}
        for pid in sorted(keepers):
            if "slurmstepd" in running().get(pid, ""):
                kill(pid, signal.SIGKILL)
        for pid in inside:
            kill(pid, signal.SIGKILL)
        return node

    def start_node(self, node):
        (self.folder / f"slurmd.{node}.pid").unlink(missing_ok=True)
        subprocess.run(["slurmd", "-N", node], env=os.environ | self.environment, check=True, capture_output=True)
        self._until(
            lambda: any(word in self.ask("sinfo", "-h", "-n", node, "-o", "%T") for word in ("idle", "mix", "alloc"))
        )

    def busy_node(self):
        return self.ask("squeue", "--noheader", "--states=running", "--format=%N").partition("\n")[0]

    def cancel(self):
        """Somebody else ends all jobs."""
        self.ask("scancel", "--user=root")

    def requeue(self):
        for line in self.jobs():
            if " RUNNING " in line:
                self.ask("scontrol", "requeue", line.split()[0])

    def _pid(self, name):
        with suppress(OSError, ValueError):
            return int((self.folder / f"{name}.pid").read_text())
        return None

    def _until(self, what):
        deadline = time.monotonic() + UP_SECONDS
        while not what():
            if time.monotonic() > deadline:
                raise RuntimeError(f"Slurm did not start; its logs are in {self.folder}")
            time.sleep(0.5)


PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
