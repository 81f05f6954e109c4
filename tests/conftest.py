"""What all tests share: the marks that skip, and a private cache, so that no test reads the user's."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell makes its background jobs ignore Ctrl-C, and their children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def no_fsync():
    """What a process wrote outlives it without; a loss of power is not tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def safe_convolutions():
    """Tests that differentiate narrow modules themselves do without oneDNN, as `Network.safe_kernels` does."""
    import torch

    if torch.backends.cpu.get_cpu_capability() == "AVX2":
        torch._C._set_mkldnn_enabled(False)


@pytest.fixture(autouse=True, scope="session")
def same_salt():
    """`bench verify` refuses up to one honest row of a hundred, by design; which ones depends on its random salt."""
    from plugins.sharing import verify

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "secrets", SimpleNamespace(token_hex=lambda n: "a7" * n))
        yield


def _has_data() -> bool:
    folder = os.environ.get("BENCH_DATA")
    return bool(folder) and (Path(str(folder)) / "uci").is_dir()


def _without_data() -> Iterator[None]:
    """Skip what needs a data set that is not there, also without the mark `data`: one case of many may need one."""
    try:
        return (yield)
    except Exception as error:
        from harness.contracts.data import DataFileError

        if not isinstance(error, DataFileError) or _has_data():
            raise
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    return (yield from _without_data())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    return (yield from _without_data())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    no_data = pytest.mark.skip(reason="BENCH_DATA names no folder with the data sets")
    no_gpu = pytest.mark.skip(reason="no CUDA device")
    for item in items:
        if item.get_closest_marker("data") and not _has_data():
            item.add_marker(no_data)
        if item.get_closest_marker("gpu") and not _has_gpu():
            item.add_marker(no_gpu)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@pytest.fixture(autouse=True, scope="session")
def private_cache(tmp_path_factory):
    """A cache folder of this run of the tests, which its processes share: facts about plugins take seconds."""
    before, base = os.environ.get("BENCH_CACHE"), tmp_path_factory.getbasetemp()
    os.environ["BENCH_CACHE"] = str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache")
    yield
    os.environ.pop("BENCH_CACHE")
    if before:
        os.environ["BENCH_CACHE"] = before


@pytest.fixture
def one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def ledger(tmp_path):
    """A results folder without runs."""
    from harness.results.ledger.ledger import Ledger

    empty = Ledger(tmp_path / "results")
    empty.prepare()
    return empty


@pytest.fixture
def no_hang():
    """What blocks for ever, on a pipe say, is a failure after a minute."""

    def late(*_):
        pytest.fail("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def bench(results, capsys):
    """`bench` on the folder of a test file's fixture `results`: exit code, stdout and stderr of its words."""
    from harness.cli.app import run

    def command(*words):
        code = run(["--results", str(results), *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


@pytest.fixture
def bench_json(tmp_path, capsys):
    """`bench --json` on a results folder of the test: exit code, records and stderr of its words."""
    from harness.cli.app import run

    def command(*words, folder="r"):
        capsys.readouterr()
        code = run(["--results", str(tmp_path / folder), "--json", *map(str, words)])
        said = capsys.readouterr()
        return code, json.loads(said.out or "[]"), said.err

    return command


@pytest.fixture
def bench_with(tmp_path, capsys):
    """`bench --json` with a plugin file of this module name and text: exit code, records and stderr of its words."""
    from harness.cli.app import run
    from harness.contracts.registry import registry

    modules = []

    def with_plugin(module, text):
        plugin = tmp_path / f"{module}.py"
        plugin.write_text(text)
        modules.append(module)

        def command(*words):
            code = run(["--results", str(tmp_path / "r"), "--plugin", str(plugin), "--json", *map(str, words)])
            said = capsys.readouterr()
            return code, json.loads(said.out or "[]"), said.err

        return command

    yield with_plugin
    for module in modules:
        sys.modules.pop(module, None)
    registry.cache_clear()
