"""A Ray cluster of a head without cores and two nodes of one core, on one machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import tempfile
from pathlib import Path

from clusters.processes import kill, running

NAMESPACE = "sgmcmc-bench"


class Ray:
    """The cluster. Its nodes have the environment of the rounds, as nothing else gets there."""

    name = "ray"
    agent_words = "-m plugins.clusters.ray"

    def __init__(self, folder):
        self.folder = folder
        self.cluster = None
        self.nodes = []
        self.temporary = ""

    @staticmethod
    def missing():
        """Why it cannot be started here; "" where it can."""
        return "" if importlib.util.find_spec("ray") else "ray is not installed"

    @property
    def environment(self):
        return {"RAY_ADDRESS": self.cluster.address, "RAY_DEDUP_LOGS": "0"}

    @property
    def words(self):
        return ["--launcher", "ray", "--set", "launcher.jobs=2", f"launcher.address={self.cluster.address}"]

    def start(self):
        from ray.cluster_utils import Cluster

        (Path(tempfile.gettempdir()) / "ray").mkdir(exist_ok=True)  # where Ray notes the address
        (Path(os.environ["TMPDIR"]) / "ray").mkdir(exist_ok=True)
        self.temporary = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
        head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": self.temporary}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        for _ in range(2):
            self.start_node()

    def stop(self):
        import ray

        if ray.is_initialized():
            ray.shutdown()
        if self.cluster is not None:
            self.cluster.shutdown()
        shutil.rmtree(self.temporary, ignore_errors=True)

    def restart(self):
        """The cluster dies as a whole, and another is started."""
        self.stop()
        self.nodes.clear()
        self.start()

    def connected(self):
        import ray

        if not ray.is_initialized():
            ray.init(address=self.cluster.address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
        return ray

    def jobs(self):
        """The named actors of jobs and exchanges."""
        ray = self.connected()
        return sorted(each["name"] for each in ray.util.list_named_actors(all_namespaces=True))

    def hurry(self):
        """Nothing waits here."""

    # What faults do.

    def kill_node(self, node=None):
        node = node or self.nodes[0]
        self.nodes.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)
        return node

    def start_node(self, _node=None):
        self.nodes.append(self.cluster.add_node(num_cpus=1))

    def cancel(self):
        """Somebody else ends all jobs."""
        ray = self.connected()
        for name in self.jobs():
            if name.startswith("job-"):
                ray.kill(ray.get_actor(name, namespace=NAMESPACE))

    def kill_actors(self, kind):
        """kill -9 of the processes of actors."""
        pids = [pid for pid, line in running().items() if line.startswith(f"ray::{kind}")]
        for pid in pids:
            kill(pid, signal.SIGKILL)
        return len(pids)
