"""What all tests share: the marks that skip, and a private cache, so that no test reads the user's."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell makes its background jobs ignore Ctrl-C, and their children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def safe_convolutions():
    """Tests that differentiate narrow modules themselves do without oneDNN, as `Network.safe_kernels` does."""
    import torch

    if torch.backends.cpu.get_cpu_capability() == "AVX2":
        torch._C._set_mkldnn_enabled(False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = os.environ.get("BENCH_DATA")
    no_data = pytest.mark.skip(reason="BENCH_DATA names no folder with the data sets")
    no_gpu = pytest.mark.skip(reason="no CUDA device")
    for item in items:
        if item.get_closest_marker("data") and not (folder and (Path(folder) / "uci").is_dir()):
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
