"""`bench verify` of runs that were made on a GPU, a pretended one: repeated where there is a GPU, and nowhere else."""

import hashlib
import importlib
import json
import shutil
from dataclasses import replace

import pytest
import torch
from pretended_gpu import PretendedGPU

import harness.engine.stepping.update
from harness.cli.app import run
from harness.contracts.registry import registry
from harness.results.ledger.ledger import Ledger
from harness.runs import local
from harness.runs.child import Stop
from harness.runs.plan import RunRequest, plan
from harness.runs.worker import run as local_run
from harness.system.files import SEAL, sealed
from plugins.sharing import verifying as module

GPU = "cuda:0"
SEEDS = range(5)


@pytest.fixture(scope="module")
def plain():
    """Without compiled code, which is not pretended, and with torch's flags given back."""
    flags = torch.backends.cudnn.benchmark, torch.utils.deterministic.fill_uninitialized_memory
    mode, threads = torch.get_deterministic_debug_mode(), torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        patch.setattr(harness.engine.stepping.update, "_compile", lambda update, _: update)
        patch.setattr(harness.engine.stepping.update, "Opaque", lambda potential: potential)
        yield
    torch.backends.cudnn.benchmark, torch.utils.deterministic.fill_uninitialized_memory = flags
    torch.set_deterministic_debug_mode(mode)
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def ran(tmp_path_factory, plain):  # noqa: ARG001 - a fixture
    folder = tmp_path_factory.mktemp("made") / "r"
    ledger = Ledger(folder)
    planned = plan(registry(), RunRequest(["sgld"], ["mixture5"], SEEDS, 2, "steps=200", device="cuda"), ledger)
    ledger.prepare()
    (where,) = local.slots([GPU], None)
    with PretendedGPU():
        for job in local.jobs(planned, folder, (), ()):
            local_run(replace(job, **where._asdict()), lambda *_: None, Stop())
    assert all(ledger.standing(one.spec.key).status == "done" for one in planned)
    return folder


@pytest.fixture
def sent(ran, tmp_path):
    return shutil.copytree(ran, tmp_path / "sent", ignore=shutil.ignore_patterns("results.duckdb*", "locks"))


@pytest.fixture
def verify(tmp_path, capsys, monkeypatch):
    """The command on a machine that has these GPUs; what a child process does is done in this one."""
    repeated_on = []

    def call(function, job, *arguments, listen, seconds=None):  # noqa: ARG001 - the arguments of `call`
        module_name, _, name = function.partition(":")
        with PretendedGPU():
            if name == "rerun":
                repeated_on.append(job.device)
            return getattr(importlib.import_module(module_name), name)(job, *arguments, listen)

    def command(folder, gpus, *words):
        monkeypatch.setattr(module.environment, "gpus", lambda: gpus)
        monkeypatch.setattr(module, "call", call)
        capsys.readouterr()
        code = run(["--results", str(tmp_path / "mine"), "--json", "verify", str(folder), *words])
        (row,) = json.loads(capsys.readouterr().out)
        return code, row, repeated_on

    return command


def forge(folder, factor):
    for path in folder.glob("runs/*/*/*/result.json"):
        record = {name: value for name, value in json.loads(path.read_text()).items() if name != SEAL}
        for metric in record["metrics"]:
            if metric["name"] != "joint_error":  # which the curves would contradict
                metric["value"] = metric["value"] and metric["value"] * factor
        path.write_text(json.dumps(sealed(record)))


def without_draws(folder):
    for path in folder.glob("runs/*/*/*/draws.safetensors"):
        path.unlink()
    return folder


def of_the_cpu(folder):
    """Environments that name a CPU, as a sender can write them; what the key names is the GPU."""
    for path in folder.glob("runs/*/*/*/environment.json"):
        record = {n: v for n, v in json.loads(path.read_text()).items() if n != "id"} | {"device": "cpu", "gpu": None}
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        path.write_text(json.dumps({"id": hashlib.sha256(text.encode()).hexdigest(), **record}))
    return folder


def test_without_a_gpu_a_row_is_rescored_at_most_and_the_reason_is_said(sent, verify):
    code, row, repeated = verify(sent, [])
    assert (code, row["verified"], repeated) == (0, "rescored", [])
    assert "made on a GPU, and this machine has none" in row["how"]
    assert verify(without_draws(sent), [])[1]["verified"] == "reported"


def test_the_key_decides_where_a_run_is_repeated(sent, verify, tmp_path):
    assert run(["--results", str(of_the_cpu(sent)), "export", "--out", str(tmp_path / "out")]) == 0
    code, row, repeated = verify(tmp_path / "out", [])
    assert (code, row["verified"], repeated) == (0, "reported", [])
    assert "made on a GPU" in row["how"]


@pytest.mark.slow
def test_with_a_gpu_equal_bits_are_replayed(sent, verify):
    code, row, repeated = verify(sent, [GPU, "cuda:1"])
    assert (code, row["verified"], repeated) == (0, "run here", [GPU] * 3), row["how"]


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "level"), [(1 + 1e-9, "run here"), (1e-4, "refused")])
def test_with_a_gpu_other_bits_are_compared_with_fresh_runs(sent, verify, factor, level):
    """In an environment of equal record, too: it does not name the driver."""
    forge(without_draws(sent), factor)
    code, row, repeated = verify(sent, [GPU], "--replays", "3")
    assert (code, row["verified"]) == (int(level == "refused"), level), row["how"]
    assert repeated == [GPU] * (5 if level == "run here" else 4), "three replays, fresh runs together, moved ones"
