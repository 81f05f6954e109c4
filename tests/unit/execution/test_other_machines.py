"""On which machines a run continues: what must agree with its checkpoint, what is recorded and said if it moves."""

import json

import numpy as np
import pytest
import torch
from pretended_gpu import PretendedGPU
from safetensors.numpy import load_file
from sessions import finish, job, session, sessions
from specs import run_spec

from harness.cli.app import run as bench
from harness.contracts.registry import registry
from harness.results import environment
from harness.results.ledger.attempt import CHECKPOINTS, Attempt
from harness.results.ledger.ledger import Ledger
from harness.runs.child import Stop
from harness.runs.job import Job
from harness.runs.plan import RunRequest, plan
from harness.runs.resume import open_attempt
from harness.runs.session import Session
from harness.runs.worker import _advance
from plugins.upkeep import replay, verification

GPU = "cuda:0"
RECORDED = {
    "cpu": {
        "bench": "0.9", "python": "3.11.7", "platform": "Linux 6.1.0-18-amd64 x86_64", "cpu": "a processor",
        "features": ["avx", "fma"], "libc": "glibc 2.36", "variables": {"MKL_CBWR": "AVX2"}, "cores": 4, "gpu": None,
        "torch": "2.11.0", "device": "cpu", "threads": 1, "cpu_capability": "AVX2", "deterministic": True,
        "cudnn_deterministic": True, "cudnn_benchmark": False, "matmul_precision": "highest",
        "packages": {"numpy": "2.3.0", "torch": "2.11.0"}, "compiler": {"version": "gcc 12", "lanes": 8},
        "code": {"sgmcmc-bench": {"version": "0.9", "commit": "a" * 40, "dirty": False, "digest": "d" * 64}},
    },
}  # fmt: skip
RECORDED["cuda"] = RECORDED["cpu"] | {
    "device": GPU, "gpu": "NVIDIA A100", "cuda": "12.8", "cudnn": 91002,
    "variables": {"MKL_CBWR": "AVX2", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
}  # fmt: skip
VERSIONS = {"bench", "python", "torch", "packages"}
FLAGS = {"deterministic", "cudnn_deterministic", "cudnn_benchmark", "matmul_precision"}
ARITHMETIC = {"cpu", "features", "libc", "variables", "threads", "cpu_capability", "compiler"}
REFUSED = {"cpu": VERSIONS | FLAGS | ARITHMETIC | {"gpu"}, "cuda": VERSIONS | FLAGS | {"cuda", "cudnn"}}
"""The fields that must be those of the checkpoint, by the kind of device."""


def another(field, value):
    """A value of a field that differs from this one, of its type; of the platform the release of the kernel."""
    if field == "platform":
        return value.replace("6.1.0", "6.8.0")
    if field == "code":
        return {name: {**entry, "digest": "e" * 64} for name, entry in value.items()}
    if isinstance(value, dict):
        return {**value, "OMP_NUM_THREADS": "3"}
    if isinstance(value, list):
        return [*value, "avx512f"]
    return not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else f"{value or ''}.1"


def machine(kind, **fields):
    record = {**RECORDED[kind], **fields}
    return {"id": environment.identity(record), **record}


def stopped(ledger, kind, there):
    """An attempt with a checkpoint at step 5."""
    attempt = Attempt.create(ledger.runs, run_spec(device=kind), there)
    attempt.event("started")
    attempt.save_checkpoint({"counters": np.array([5, 0, 0]), "draw_width": np.array(3)})
    attempt.event("checkpoint", position=5)
    attempt.event("preempted", position=5)
    return attempt


def test_every_recorded_field_is_judged_here():
    with PretendedGPU():
        assert environment.collect(GPU, ()).keys() == {"id", *RECORDED["cuda"]}
    assert environment.collect("cpu", ()).keys() == {"id", *RECORDED["cpu"]}


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, fields in RECORDED.items() for field in fields])
def test_a_checkpoint_is_used_unless_what_decides_the_numbers_differs(ledger, kind, field):
    before = machine(kind)
    after = another(field, before[field])
    left = stopped(ledger, kind, before)
    attempt, checkpoint, told = open_attempt(ledger, run_spec(device=kind), machine(kind, **{field: after}))
    names = [event["event"] for event in attempt.events()]
    if field in REFUSED[kind]:
        assert (checkpoint, names) == (None, ["created", "restarted"])
        (event,) = [event for event in attempt.events() if event["event"] == "restarted"]
        assert (event["attempt_before"], event["position"]) == (left.id, 5)
        assert event["reason"].startswith(field)
        assert told == f"starts again, not from its checkpoint at step 5: {event['reason']}"
        return
    assert (attempt.id, checkpoint["counters"][0], "restarted" in names) == (left.id, 5, False)
    moves = [(move["before"], move["now"]) for move in attempt.moves()]
    assert moves == ([] if field == "code" else [({field: before[field]}, {field: after})])
    assert told == (
        "continues on NVIDIA A100.1 after NVIDIA A100: its bits are those of two devices" if field == "gpu" else ""
    )


@pytest.mark.parametrize(
    ("kind", "field", "value", "goes_on"),
    [
        ("cpu", "platform", "Linux 6.8.0 x86_64", True),
        ("cpu", "platform", "Linux 6.1.0-18-amd64 aarch64", False),
        ("cpu", "platform", "Darwin 6.1.0-18-amd64 x86_64", False),
        ("cpu", "variables", {}, False),
        ("cuda", "platform", "Linux 6.8.0 aarch64", True),
        ("cuda", "variables", {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "OMP_NUM_THREADS": "7"}, True),
        ("cuda", "variables", {"MKL_CBWR": "AVX2"}, False),
        ("cuda", "variables", {**RECORDED["cuda"]["variables"], "NVIDIA_TF32_OVERRIDE": "1"}, False),
        ("cuda", "variables", {**RECORDED["cuda"]["variables"], "CUDNN_CONV_WSCAP_DBG": "1"}, False),
        ("cuda", "variables", {**RECORDED["cuda"]["variables"], "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}, False),
        ("cuda", "packages", {"numpy": "2.3.0", "torch": "2.11.0", "nvidia-cudnn-cu12": "9.1"}, False),
    ],
)
def test_parts_of_fields_are_judged_by_what_they_decide(ledger, kind, field, value, goes_on):
    stopped(ledger, kind, machine(kind))
    _, checkpoint, told = open_attempt(ledger, run_spec(device=kind), machine(kind, **{field: value}))
    assert (checkpoint is not None) == goes_on
    assert bool(told) != goes_on


def test_each_move_is_recorded_from_where_the_run_was_last(ledger):
    stopped(ledger, "cuda", machine("cuda"))
    for gpu, cores in (("NVIDIA H100", 4), ("NVIDIA H100", 8), ("NVIDIA A100", 8)):
        attempt, *_ = open_attempt(ledger, run_spec(device="cuda"), machine("cuda", gpu=gpu, cores=cores))
        attempt.event("resumed")
        attempt.event("preempted")
    assert [(move["before"], move["now"]) for move in attempt.moves()] == [
        ({"gpu": "NVIDIA A100"}, {"gpu": "NVIDIA H100"}),
        ({"cores": 4}, {"cores": 8}),
        ({"gpu": "NVIDIA H100"}, {"gpu": "NVIDIA A100"}),
    ]
    assert environment.is_whole(json.loads((attempt.path / "environment.json").read_text()))
    attempt.event("started")
    assert not attempt.moves()


@pytest.mark.parametrize("killed", [None, "event", "take_over"])
def test_a_move_into_a_new_attempt_is_recorded_there_whenever_it_is_killed(ledger, monkeypatch, killed):
    left = stopped(ledger, "cuda", machine("cuda"))
    left.event("resumed", kernel="of another machine")  # which did not say that it ended
    here = machine("cuda", gpu="NVIDIA H100")
    if killed:
        before = getattr(Attempt, killed)

        def kill(attempt, first, *rest, **how):
            if first in ("moved", left) or not isinstance(first, str):
                raise KeyboardInterrupt
            before(attempt, first, *rest, **how)

        with monkeypatch.context() as patch:
            patch.setattr(Attempt, killed, kill)
            with pytest.raises(KeyboardInterrupt):
                open_attempt(ledger, run_spec(device="cuda"), here)
    attempt, checkpoint, told = open_attempt(ledger, run_spec(device="cuda"), here)
    assert attempt.id != left.id
    assert checkpoint["counters"][0] == 5
    assert [move["before"] for move in attempt.moves()] == [{"gpu": "NVIDIA A100"}]
    assert ("two devices" in told) == (killed != "take_over")  # it was told before the kill


def in_environment(monkeypatch, **fields):
    """Let workers of this process find themselves in another environment."""
    record = environment.collect("cpu", ())

    def collected(*_):
        changed = {**{name: value for name, value in record.items() if name != "id"}, **fields}
        return {"id": environment.identity(changed), **changed}

    monkeypatch.setattr("harness.runs.session.environment.collect", collected)


def test_on_another_node_a_run_continues_with_the_same_bits(ledger, tmp_path, monkeypatch):
    whole = finish(session(Ledger(tmp_path / "whole")))
    block = session(ledger)
    block.advance()
    block.suspend("preempted")
    in_environment(monkeypatch, cores=77, platform="Linux 9.9 x86_64")
    resumed = session(ledger)
    assert resumed.loop.position == block.loop.position > 0
    end = finish(resumed)
    draws = [load_file(attempt.path / "draws.safetensors")["draws"] for attempt in (whole, end)]
    assert np.array_equal(*draws)
    (move,) = end.moves()
    assert (move["now"]["cores"], move["now"]["platform"]) == (77, "Linux 9.9 x86_64")
    assert not [*verification.of_attempt(end.path.parent.name, end)]


def test_a_command_says_in_one_line_why_it_starts_again(tmp_path, capsys, monkeypatch):
    ledger = Ledger(tmp_path)
    ledger.prepare()
    with monkeypatch.context() as patch:
        in_environment(patch, threads=7, deterministic=True)  # the flag as workers set it
        (block,) = sessions(ledger, job(ledger, seeds=(0, 1)))
    block.advance()
    block.suspend("cancelled")
    words = ["--sampler", "sgld", "--task", "mixture5", "--chains", "2", "--budget", "steps=3000", "--seeds", "0-1"]
    assert bench(["--results", str(tmp_path), "run", *words]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "starts again" in line]
    step = block.loop.position
    (line,) = said
    text = f"warning: sgld on mixture5, seeds 0-1: starts again, not from its checkpoint at step {step}: "
    assert line.startswith(text)
    reason = line.removeprefix(text)  # tests before this one may have left flags of torch that differ, too
    assert "threads was 7, is 1" in reason
    assert len(ledger.all_keys()) == 2
    for key in ledger.all_keys():
        before, after = ledger.attempts(key)
        (event,) = [event for event in after.events() if event["event"] == "restarted"]
        assert (event["attempt_before"], event["position"], event["reason"]) == (before.id, step, reason)


def wreck(path):
    path.write_bytes(b"cut off")


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (CHECKPOINTS, "its file is damaged"),
        (("draws.part",), "the draws on disk are not those that it refers to"),
        (("spec.json",), "the records of the attempt are damaged"),
        (("environment.json",), "the records of the attempt are damaged"),
    ],
)
def test_a_checkpoint_that_cannot_be_used_is_named(ledger, damaged, reason):
    block = session(ledger)
    while not (block.attempts[0].path / "draws.part").exists():
        block.advance()
    block.checkpoint()
    for name in damaged:
        wreck(block.attempts[0].path / name)
    told = []
    work = job(ledger)
    (again,) = sessions(ledger, work, lambda kind, payload: told.append((kind, payload.get("text"))))
    assert again.loop.position == 0
    text = f"starts again, not from its checkpoint at step {block.loop.position}: {reason}"
    assert told == [("warning", f"sgld on mixture5, seed 0: {text}")]
    names = [event["event"] for event in again.attempts[0].events()]
    assert names[-2:] == ["restarted", "started"]
    assert environment.is_whole(json.loads((again.attempts[0].path / "environment.json").read_text()))


def test_without_a_checkpoint_nothing_is_said(ledger):
    block = session(ledger)
    told = []
    (again,) = sessions(ledger, job(ledger), lambda *message: told.append(message))
    assert again.attempts[0].id == block.attempts[0].id
    assert not told
    assert "restarted" not in [event["event"] for event in again.attempts[0].events()]


def test_on_another_gpu_a_run_continues_and_the_record_names_both(ledger, monkeypatch):
    asked = RunRequest(["sgld"], ["mixture5"], [0], 2, "steps=200", device="cuda")
    (planned,) = plan(registry(), asked, ledger)
    work, told = Job([planned.spec], ledger.root, GPU, GPU), []

    def open_session():
        (block,) = Session.open_all(ledger, work.specs, work, lambda _, payload: told.append(payload.get("text")))
        return block

    with PretendedGPU():
        block = open_session()
        block.advance()
        _advance(block, Stop("preempted"), lambda *_: None)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "another GPU")
        resumed = open_session()
        assert resumed.loop.position == block.loop.position > 0
        end = finish(resumed)
    (move,) = end.moves()
    assert (move["before"], move["now"]) == ({"gpu": "a pretended GPU"}, {"gpu": "another GPU"})
    text = "continues on another GPU after a pretended GPU: its bits are those of two devices"
    assert f"sgld on mixture5, seed 0: {text}" in told
    asked = replay.request(end, registry(), anyway=False)
    why = replay.Replay(asked, {}, [], [], [], {}, {}).why()
    assert why == ["the run continued on another machine: gpu a pretended GPU -> another GPU"]
