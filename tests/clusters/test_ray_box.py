"""The box of a job on Ray, with a cluster of our own making; what Ray itself prints."""

from __future__ import annotations

import socket
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from harness import RunError
from plugins.clusters import ray as launcher
from plugins.clusters.ray import Box, Ray


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """What a launcher sets for Ray ends with its test."""
    for name in launcher.SILENT | launcher.FEW_TRIES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


class RayError(Exception):
    pass


class ActorDiedError(RayError):
    pass


class Cluster:
    """Named actors; the first `dying` that are made die when they are asked."""

    exceptions = SimpleNamespace(RayError=RayError, ActorDiedError=ActorDiedError)

    def __init__(self, dying):
        self.dying, self.created, self.actors = dying, 0, {}

    def make(self):
        self.created += 1
        box, dies = launcher._Box(), self.created <= self.dying
        self.actors["box-x"] = actor = SimpleNamespace(
            **{name: SimpleNamespace(remote=self.call(box, name, dies)) for name in ("put", "get", "names")}
        )
        return actor

    def call(self, box, name, dies):
        return lambda *arguments: lambda: self.lost() if dies else getattr(box, name)(*arguments)

    def lost(self):
        self.actors.clear()
        raise ActorDiedError("The actor died unexpectedly")

    def get(self, asked, timeout):
        return asked()

    def get_actor(self, name, namespace):
        if name not in self.actors:
            raise ValueError(name)
        return self.actors[name]


@pytest.fixture
def box_on(monkeypatch):
    def box_on(cluster):
        monkeypatch.setattr(launcher, "EVERY_SECONDS", 0.0)
        monkeypatch.setattr(Ray, "connected", lambda _: cluster)
        monkeypatch.setattr(Box, "_new_actor", lambda _, ray: ray.make())
        return Box(Ray(), "x")

    return box_on


def test_a_box_whose_node_is_lost_is_made_again(box_on):
    cluster = Cluster(dying=2)
    box = box_on(cluster)
    box.put("job.tar", b"content")
    assert cluster.created == 3
    assert box.get("job.tar") == b"content"


def test_a_box_that_dies_each_time_is_an_error_with_a_hint(box_on):
    cluster = Cluster(dying=9)
    with pytest.raises(OSError, match="died unexpectedly Ray does not say why: look for a full disk"):
        box_on(cluster).put("job.tar", b"content")
    assert cluster.created == 3


def test_only_the_file_that_begins_a_job_makes_a_box(box_on):
    cluster = Cluster(dying=0)
    with pytest.raises(OSError, match="is gone"):
        box_on(cluster).put("attempt.tar", b"content")
    assert box_on(cluster).get("job.tar") is None
    assert cluster.created == 0


@pytest.fixture
def address():
    """Where something listens, until it is closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server, f"127.0.0.1:{server.getsockname()[1]}"


def test_of_a_cluster_that_has_ended_no_job_and_no_box_is_known(address):
    server, where = address
    server.close()
    box = Box(Ray(address=where), "x")
    assert (box.launcher.states(["x"]), box.names(), box.get("job.tar"), box.clear()) == ({}, {}, None, None)
    for name in ("job.tar", "log.json"):
        with pytest.raises(OSError, match=f"no Ray cluster at {where}|is gone"):
            box.put(name, b"content")
    with pytest.raises(RunError, match=f"no Ray cluster at {where}"):
        box.launcher.submit([])


def test_a_process_leaves_a_cluster_that_has_ended_and_one_at_another_address(address, monkeypatch):
    """Ray ends a process that goes on asking a cluster that has ended, and connects it to one cluster at a time."""
    server, where = address
    calls = []
    ray = SimpleNamespace(
        is_initialized=lambda: bool(calls) and calls[-1] != "left",
        shutdown=lambda: calls.append("left"),
        init=lambda address, **_: calls.append(address),
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(launcher, "_joined", None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        elsewhere = f"127.0.0.1:{other.getsockname()[1]}"
        for asked in (where, where, elsewhere, where):
            assert Ray(address=asked).connected() is ray
        assert calls == [where, "left", elsewhere, "left", where]
        server.close()
        with pytest.raises(launcher.GoneError, match=f"no Ray cluster at {where}"):
            Ray(address=where).connected()
        assert calls[-1] == "left"


def test_an_actor_stays_where_ray_connected_it(monkeypatch):
    ray = SimpleNamespace(is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(launcher, "_joined", None)
    assert Ray().connected() is ray


PRINTS = """
import os, sys
from plugins.clusters.ray import SILENT
os.environ.update(SILENT if sys.argv[1] == "silent" else {})
from ray._private.worker import print_to_stdstream
lines = ["The node has been marked dead\\n(1) it crashed"]
print_to_stdstream({"lines": lines, "pid": "raylet", "is_err": False}, False)
"""


@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray")
def test_what_ray_says_of_nodes_is_not_in_the_output_of_a_command():
    said = [
        subprocess.run([sys.executable, "-c", PRINTS, how], capture_output=True, text=True, check=True).stdout
        for how in ("silent", "as it comes")
    ]
    assert said[0] == ""
    assert "marked dead" in said[1]
