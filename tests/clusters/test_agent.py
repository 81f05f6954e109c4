"""What travels between the machine of a command and those of its jobs: parcels, and the agent of a job."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import tarfile
import threading
from pathlib import Path

import pytest
from specs import concluded
from specs import run_spec as spec

from harness import Bench, DataError
from harness.results.ledger.attempt import Attempt
from harness.results.ledger.commit import conclude
from harness.results.ledger.ledger import Ledger
from harness.results.records import AttemptResult
from harness.runs.job import Job
from plugins.clusters import FolderExchange, agent, parcel
from plugins.clusters.launcher import LOG, PARCEL
from plugins.clusters.local import Local
from plugins.upkeep import garbage


def parcel_of(ledger):
    return agent.make_parcel([Job([spec(0)], ledger.root, "cpu", "cpu-0")], Local(), Bench(ledger.root))


def test_an_attempt_arrives_whole_once_or_not_at_all(ledger, tmp_path):
    there = Ledger(tmp_path / "there")
    there.prepare()
    attempt = concluded(there)
    files = parcel.attempt_files(attempt)
    key = spec(0).key
    with pytest.raises(DataError, match="arrived damaged: environment"):
        parcel.receive(ledger, key, attempt.id, files | {"environment.json": b"{}"})
    with pytest.raises(DataError, match="another attempt"):
        parcel.receive(ledger, key, "20200101T000000000-aaaaaa", files)
    with pytest.raises(DataError, match=r"evil\.py"):
        parcel.receive(ledger, key, attempt.id, files | {"evil.py": b""})
    assert ledger.attempts(key) == []
    killed = ledger.folder(key) / f".{attempt.id}.0123456789abcdef"
    killed.mkdir(parents=True)
    (killed / ".draws.part.0123456789abcdef").write_bytes(b"1")  # of a command that was killed meanwhile
    assert parcel.receive(ledger, key, attempt.id, files)
    before = (ledger.folder(key) / attempt.id / "result.json").stat().st_mtime_ns
    assert parcel.receive(ledger, key, attempt.id, files).id == attempt.id
    assert (ledger.folder(key) / attempt.id / "result.json").stat().st_mtime_ns == before
    assert ledger.standing(key).status == "done"
    assert {path.name for path in ledger.folder(key).iterdir()} == {
        attempt.id, f"{attempt.id}.seal", "1.json", killed.name,
    }  # fmt: skip
    assert [item.path for item in garbage.find(ledger)] == [killed]


def test_an_unfinished_attempt_is_brought_up_to_date(ledger, tmp_path):
    there = Ledger(tmp_path / "there")
    there.prepare()
    attempt, key = Attempt.create(there.runs, spec(0), {"id": "e"}), spec(0).key
    (attempt.path / "draws.part").write_bytes(b"1234")
    assert parcel.receive(ledger, key, attempt.id, parcel.attempt_files(attempt))
    (attempt.path / "draws.part").write_bytes(b"12345678")
    assert parcel.receive(ledger, key, attempt.id, parcel.attempt_files(attempt))
    here = ledger.folder(key) / attempt.id
    assert (here / "draws.part").read_bytes() == b"12345678"
    conclude(attempt, AttemptResult(run_key=key, status="done"))
    assert parcel.receive(ledger, key, attempt.id, parcel.attempt_files(attempt))
    assert not (here / "draws.part").exists()
    assert ledger.standing(key).status == "done"


def test_an_older_parcel_does_not_replace_a_newer_one(ledger):
    attempt = Attempt.create(ledger.runs, spec(0), {"id": "e"})
    older = parcel.attempt_files(attempt)
    attempt.event("checkpoint", position=3)
    parcel.receive(ledger, spec(0).key, attempt.id, older)
    assert attempt.last_step() == 3


def archive(*members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as packed:
        for name, kind in members:
            about = tarfile.TarInfo(name)
            about.type, about.linkname = kind, "/etc/passwd"
            packed.addfile(about)
    return stream.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        archive(("../escape", tarfile.REGTYPE)),
        archive(("/etc/cron.d/x", tarfile.REGTYPE)),
        archive((".hidden", tarfile.REGTYPE)),
        archive(("link", tarfile.SYMTYPE)),
        archive(("link", tarfile.LNKTYPE)),
        archive(("device", tarfile.CHRTYPE)),
        b"no archive",
        archive(("whole", tarfile.REGTYPE))[:300],
    ],
)
def test_a_parcel_with_anything_but_plain_files_is_refused(content):
    with pytest.raises(DataError, match="parcel"):
        parcel.unpack(content)


def test_the_variables_that_decide_bits_reach_the_agents_workers(ledger, tmp_path, monkeypatch):
    """Ray, for one, does not pass them on; a file to preload is of the machine that planned."""
    exchange = FolderExchange(tmp_path / "x")
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.setenv("LD_PRELOAD", "/nowhere/libm.so")
    exchange.put(PARCEL, parcel_of(ledger))
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    monkeypatch.delenv("LD_PRELOAD")
    seen = []
    monkeypatch.setattr(agent.local, "launch", lambda *_: seen.append(dict(os.environ)))
    agent.run_agent(exchange, "5")
    (variables,) = seen
    assert variables["MKL_CBWR"] == "COMPATIBLE"
    assert "LD_PRELOAD" not in variables


def test_an_agent_refuses_other_versions_by_name(ledger, tmp_path, monkeypatch):
    exchange = FolderExchange(tmp_path / "x")
    monkeypatch.setattr(agent, "versions", lambda: {"sgmcmc-bench": "9", "torch": "0"})
    exchange.put(PARCEL, parcel_of(ledger))
    monkeypatch.undo()
    assert not agent.run_agent(exchange, "5")
    assert "has other versions than the machine that planned this job: sgmcmc-bench 9 there" in failure(exchange)
    monkeypatch.setattr(agent.provenance, "digest", lambda _: "another")
    there = agent.versions()[agent.SOURCE]
    exchange.put(PARCEL, parcel_of(ledger))
    monkeypatch.undo()
    assert not agent.run_agent(exchange, "5")
    here = agent.versions()[agent.SOURCE]
    assert f"planned this job: {agent.SOURCE} {there} there and {here} here; install" in failure(exchange)


def test_other_code_of_agents_is_another_version(tmp_path, monkeypatch):
    copied = tmp_path / "clusters"
    shutil.copytree(Path(agent.__file__).parent, copied)
    here = agent.versions()
    monkeypatch.setattr(agent, "__file__", str(copied / "agent.py"))
    assert agent.versions() == here
    (copied / "parcel.py").write_text("# another way to pack\n")
    assert agent.versions() != here


def test_an_agent_whose_job_was_forgotten_ends_and_makes_no_exchange_anew(ledger, tmp_path, capsys, monkeypatch):
    agent.run_agent(FolderExchange(tmp_path / "none"), "5")
    assert not (tmp_path / "none").exists()
    assert "was cancelled or is over" in capsys.readouterr().err
    exchange = FolderExchange(tmp_path / "x")
    exchange.put(PARCEL, parcel_of(ledger))
    monkeypatch.setattr(agent, "EVERY_SECONDS", 0.05)
    asked = threading.Event()
    monkeypatch.setattr(agent.os, "kill", lambda *_: asked.set())

    def launch(_jobs, _places, hear):
        exchange.clear()
        assert asked.wait(10)
        hear("finished", {"key": spec(0).key, "status": "done"})

    monkeypatch.setattr(agent.local, "launch", launch)
    agent.run_agent(exchange, "5")
    assert not exchange.folder.exists()


def test_what_killed_agents_left_on_a_disk_is_deleted_by_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before, meanwhile = (tmp_path / f"{agent.SCRATCH}{when}" / "results" for when in ("before", "meanwhile"))
    before.mkdir(parents=True)
    with agent.scratch_folder() as one:
        assert not before.parent.exists()
        meanwhile.mkdir(parents=True)
        with agent.scratch_folder() as other:
            assert one.is_dir()
            assert other.is_dir()
            meanwhile.mkdir(parents=True)
    assert not list(tmp_path.iterdir())


def failure(exchange):
    (message,) = [payload["message"] for kind, payload in json.loads(exchange.get(LOG))["messages"] if kind == "failed"]
    return message


def test_what_an_agent_says_arrives_when_the_exchange_is_back(tmp_path, ledger, monkeypatch):
    monkeypatch.setattr(agent, "EVERY_SECONDS", 0.05)

    class Away(FolderExchange):
        def put(self, name, content):
            if away.is_set():
                raise OSError("stale file handle")
            super().put(name, content)

    away = threading.Event()
    messages = agent.Messages(Away(tmp_path / "x"), "5")
    messages.exchange.put(PARCEL, b"")
    away.set()
    messages.bench = Bench(ledger.root)
    attempt = concluded(ledger)
    threading.Timer(0.5, away.clear).start()
    with messages:
        messages.hear("finished", {"key": spec(0).key, "status": "done"})
    assert sorted(messages.exchange.names()) == [parcel.attempt_name(spec(0).key, attempt), PARCEL, LOG]
    assert json.loads(messages.exchange.get(LOG))["ended"]


@pytest.mark.parametrize("when", ["before its runs", "after them"])
def test_an_agent_that_is_told_to_end_at_any_time_leaves_nothing_behind(ledger, tmp_path, monkeypatch, when):
    """Before its runs it says that it was stopped; after them it sends what they gave."""
    (tmp_path / "node").mkdir()
    monkeypatch.setattr(agent.tempfile, "tempdir", str(tmp_path / "node"))
    exchange = FolderExchange(tmp_path / "x")
    exchange.put(PARCEL, parcel_of(ledger))
    before = signal.getsignal(signal.SIGTERM)
    end, opened, told = agent.Messages._end, agent._open, []

    def terminate(do):
        def at_once(*words):
            told.append(when)
            os.kill(os.getpid(), signal.SIGTERM)
            return do(*words)

        return at_once

    if when == "before its runs":
        monkeypatch.setattr(agent, "_open", terminate(opened))
    else:
        monkeypatch.setattr(agent.Messages, "_end", terminate(end))
    monkeypatch.setattr(agent.local, "launch", lambda *_: None)
    assert agent.run_agent(exchange, "5") == (when == "after them")
    assert told
    log = json.loads(exchange.get(LOG))
    assert (log["ended"], log["stopped"], log["messages"]) == (when == "after them", when != "after them", [])
    assert not list((tmp_path / "node").iterdir())
    assert signal.getsignal(signal.SIGTERM) == before
