"""What a worker is asked to do, and the preparation of its process for it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

from harness.contracts import plugin_process, user_files
from harness.contracts.data import locate
from harness.results.spec import Execution, RunSpec
from harness.runs import undeclared
from harness.system.errors import UsageError
from harness.system.locks import lock_device
from harness.system.memory import keep_freed

if TYPE_CHECKING:
    from harness.runs.unchanged import Unchanged

LOCK_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class Job:
    """The input of a worker: the runs of one block, the results folder, and the device. `name` is a launcher's job.

    `why_plain` says why the runs are not compiled although that is their default.
    """

    specs: Sequence[RunSpec]
    results: Path
    device: str
    slot: str
    threads: int = 1
    plugins: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    data: Sequence[Any] = ()
    timeout: float | None = None
    retry: bool = False
    draws: str = "some"
    name: str = ""
    why_plain: str | None = None


def prepare(job: Job) -> Unchanged | None:
    """Prepare this process for the runs of a job: check the device and the data, set torch's flags, load plugins.

    Return what measures them, if a plugin from outside is one of theirs.
    """
    import torch

    from harness.runs.unchanged import watch

    _check_device(job.device, torch.cuda.device_count())
    keep_freed()
    torch.set_num_threads(job.threads)
    torch.set_default_dtype(torch.float32)
    set_up(job.specs[0].execution, job.device)
    for path in job.plugins:
        plugin_process.add_file(Path(path))
    user_files.FOLDERS.append(job.results / user_files.FOLDER)
    undeclared.watch()
    for file in job.data:
        locate(file)
    return watch(job.specs, job.plugins)


@contextmanager
def device_held(device: str) -> Iterator[None]:
    """Hold the lock of a GPU. The CPU has no lock."""
    if device == "cpu":
        yield
        return
    import torch

    _check_device(device, torch.cuda.device_count())
    with lock_device(_gpu_identity(device), device, LOCK_TIMEOUT_SECONDS):
        yield


def _gpu_identity(device: str) -> str:
    """Return the UUID of a GPU, because CUDA_VISIBLE_DEVICES changes the numbers; without a UUID, return the number."""
    import torch

    properties = torch.cuda.get_device_properties(device)
    return str(getattr(properties, "uuid", device))


def set_up(execution: Execution, device: str) -> None:
    """Set torch's flags. If the device is a GPU, make it the current device of this process."""
    import torch

    # This sets the mode of operations only. The mode of torch's compiler, which takes a second to import, is set when
    # the compiler is used.
    torch.set_deterministic_debug_mode("warn" if execution.deterministic else "default")
    if device == "cpu":
        return
    # cuBLAS reads this when it starts. Without it torch warns that matrix products may differ from run to run.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.cuda.set_device(device)  # streams and graphs are made on the current device
    # Deterministic algorithms would fill all new memory with NaN, which costs one more kernel for each operation.
    torch.utils.deterministic.fill_uninitialized_memory = False
    with warnings.catch_warnings():
        # torch 2.9 warns about these names. If the newer names were set, reading the old ones is an error.
        warnings.simplefilter("ignore", UserWarning)
        torch.backends.cuda.matmul.allow_tf32 = execution.tf32
        torch.backends.cudnn.allow_tf32 = execution.tf32
    torch.backends.cudnn.benchmark = execution.cudnn_benchmark


def _check_device(device: str, gpus: int) -> None:
    kind, _, number = device.partition(":")
    if kind == "cuda" and int(number or 0) >= gpus:
        raise UsageError(f"{device}: torch sees {gpus} GPUs on {gethostname()}; `bench doctor` there says more")
