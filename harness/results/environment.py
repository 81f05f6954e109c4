"""The environment of a run: machine, versions and code. It is the environment.json of an attempt.

Nothing here starts CUDA or imports torch: torch is asked only if it is loaded already. Everything recorded is stable
from run to run on one installation: an interrupted attempt is resumed only if what is `deciding` is equal.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from harness.contracts.offers import HARNESS
from harness.engine.stepping.execution_mode import LANES
from harness.results import provenance
from harness.system import arithmetic, cpp

DRIVER = Path("/proc/driver/nvidia/gpus")
DEVICES = Path("/dev")
NEUTRAL = frozenset({"id", "code", "cores", "device"})
"""Entries that decide no bit of a result on a CPU. The run key has the plugins' code and the version of the engine."""
PROCESSORS = frozenset({"platform", "cpu", "features", "libc", "threads", "cpu_capability", "compiler", "gpu"})
"""Entries in which two machines with the same versions and flags may differ if the run is on a GPU."""
OF_GPUS = ("CUBLAS", "CUDNN", "NVIDIA", "TORCH")
"""Beginnings of the variables that choose kernels of a GPU, or their precision."""
_OF_EXTRA = re.compile(r"""; *(?:\(.*\) *and *)?extra *== *["']([^"']*)["'] *$""")
"""Matches the end of a requirement that holds under one extra only."""


def collect(device: str, distributions: Iterable[str]) -> dict[str, Any]:
    """Return the environment of runs on `device` that use the plugins of `distributions`.

    id             SHA-256 of the rest but `code`
    bench, python, torch, packages    versions: the harness, Python, torch, and all that harness and plugins require
    platform, cpu, cores, gpu, device, threads    the machine; gpu is None on a CPU or if CUDA is not started
    features, libc, variables    what else chooses the kernels: instruction sets, C library, environment variables
    cpu_capability    the instruction set that torch chose; None without torch
    deterministic, cudnn_deterministic, cudnn_benchmark, matmul_precision    torch's flags; None without torch
    cuda, cudnn    their versions, on a GPU
    compiler       the C++ compiler of steps and of sums over draws; None if there is none that works
    code           distribution -> version, commit, dirty, digest: of the harness and of each plugin. A new commit makes
                   no new environment: engine and plugin sources are in the run key
    """
    names = sorted({HARNESS, *distributions})
    packages = requirements(tuple(names))
    cpu, features = arithmetic.processor()
    record: dict[str, Any] = {
        "bench": version(HARNESS),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu,
        "features": features,
        "libc": arithmetic.libc(),
        "variables": arithmetic.variables(),
        "cores": cores(),
        "gpu": None,
        "torch": packages.get("torch"),
        "device": device,
        "threads": None,
        "cpu_capability": None,
        "deterministic": None,
        "cudnn_deterministic": None,
        "cudnn_benchmark": None,
        "matmul_precision": None,
        **_torch(device),
        "packages": packages,
        "compiler": _compiler(),
        "code": {
            name: {"version": version(name), **provenance.code(name), "digest": provenance.digest(name)}
            for name in names
        },
    }
    return {"id": identity(record), **record}


def identity(document: Mapping[str, Any]) -> str:
    """Return the id of an environment: the SHA-256 of all but `id` and `code`.

    In documents of earlier versions it covers `code` too; it is returned if it is the document's own.
    """
    rest = {name: value for name, value in document.items() if name != "id"}
    former = _digest(rest)
    return former if former == document.get("id") else _digest({n: v for n, v in rest.items() if n != "code"})


def deciding(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of an environment that must be the same for a run to continue from its checkpoint.

    On a CPU they decide the bits; the release of the operating system is left out. On a GPU they are the versions and
    flags, so that a run may continue on a GPU of another model, with the bits of that one.
    """
    if not str(document.get("device")).startswith("cuda"):
        words = str(document.get("platform")).split()
        rest = {name: value for name, value in document.items() if name not in NEUTRAL}
        return rest | {"platform": [*words[:1], *words[2:]]}
    variables = (document.get("variables") or {}).items()
    rest = {name: value for name, value in document.items() if name not in NEUTRAL | PROCESSORS}
    return rest | {"variables": {name: value for name, value in variables if name.startswith(OF_GPUS)}}


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the entries in which two environments differ, flat: "packages.torch", "code.sgmcmc-bench.commit"."""
    old, new = _flat(then), _flat(now)
    names = [name for name in dict.fromkeys([*old, *new]) if name != "id"]
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def _flat(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def _compiler() -> dict[str, Any] | None:
    """Return the identity of the C++ compiler, the width of its vectors, and whether it compiled the sums over draws.

    Without a compiler these sums, and the metrics with them, differ in rounding.
    """
    from harness.analysis.diagnostics import counting

    compiler = cpp.identity()
    return {**compiler, "lanes": LANES, "sums": counting.code() is not None} if compiler else None


def is_whole(document: Mapping[str, Any]) -> bool:
    """Return whether a stored environment is unaltered: the id is the checksum of the rest, `code` has its form."""
    code = document.get("code", {})
    return document.get("id") == identity(document) and isinstance(code, dict) and all(map(_is_code, code.values()))


def _is_code(entry: Any) -> bool:
    """Return whether an entry of `code` has its form; earlier versions recorded no digest."""
    before = entry.get("before", []) if isinstance(entry, dict) else None
    digests = [*before, entry.get("digest")] if isinstance(before, list) else [0]
    return all(one is None or isinstance(one, str) for one in digests)


def _digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _torch(device: str) -> dict[str, Any]:
    """Return what torch reports in this process, or {} if it is not loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    on_gpu = device.startswith("cuda") and torch.cuda.is_initialized()
    return {
        "torch": str(torch.__version__),
        "gpu": torch.cuda.get_device_name(device) if on_gpu else None,
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "matmul_precision": _matmul_precision(),
        **({"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()} if on_gpu else {}),
    }


def _matmul_precision() -> str:
    import torch

    with warnings.catch_warnings():  # torch 2.9 warns of a deprecated setting even if it was not set
        warnings.simplefilter("ignore")
        return str(torch.get_float32_matmul_precision())


@functools.cache
def requirements(names: tuple[str, ...], but: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return the versions of these distributions and of all that they require, transitively, by canonical name.

    If the harness is not installed, the versions of all installed distributions are returned. Distributions named in
    `but` are left out, with what only they require. Unrelated packages are left out too: installing one must not change
    the environment of a run.
    """
    if version(HARNESS) is None:
        installed = {canonicalize_name(d.name): d.version for d in importlib.metadata.distributions() if d.name}
        return dict(sorted(installed.items()))
    versions: dict[str, str] = {}
    queue = [(canonicalize_name(name), "") for name in names]
    seen = set()
    while queue:
        name, extra = requirement = queue.pop()
        if requirement in seen or name in but:
            continue
        seen.add(requirement)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        versions[name] = distribution.version
        for needed in (_requirement(line, extra) for line in distribution.requires or []):
            if needed is not None:
                queue += [(canonicalize_name(needed.name), asked) for asked in ("", *needed.extras)]
    return dict(sorted(versions.items()))


@functools.cache
def required(name: str) -> frozenset[str]:
    """Return the canonical names of what a distribution requires directly; nothing if it is not installed."""
    try:
        lines = importlib.metadata.distribution(name).requires or []
    except importlib.metadata.PackageNotFoundError:
        return frozenset()
    return frozenset(canonicalize_name(needed.name) for line in lines if (needed := _requirement(line)) is not None)


def _requirement(line: str, extra: str = "") -> Requirement | None:
    """Parse a requirement under an extra; returns None if it does not hold on this machine, or is not a requirement."""
    only = _OF_EXTRA.search(line)
    if only and canonicalize_name(only[1]) != canonicalize_name(extra):
        return None  # nine in ten lines end here; parsing them all takes three times as long
    try:
        requirement = Requirement(line)
        return requirement if requirement.marker is None or requirement.marker.evaluate({"extra": extra}) else None
    except (InvalidRequirement, UndefinedEnvironmentName):
        return None


def version(name: str) -> str | None:
    """Return the version of a distribution, or None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def cores() -> int:
    """Return the number of cores that this process may use, at most those of its task where Slurm runs it."""
    affinity = getattr(os, "sched_getaffinity", None)  # not every operating system has it
    here = len(affinity(0)) if affinity else os.cpu_count() or 1
    task = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return min(here, int(task)) if task.isdecimal() and int(task) else here


def gpus() -> list[str]:
    """Return the NVIDIA GPUs that this process may use, "cuda:0", "cuda:1", ..., without torch: CUDA is not started.

    If the driver's list is hidden, as in some containers, the device files are counted.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        count = len(list(DRIVER.iterdir()))
    except OSError:
        count = len(list(DEVICES.glob("nvidia[0-9]*")))
    if visible is not None:
        count = min(count, sum(bool(word.strip()) and word.strip() != "-1" for word in visible.split(",")))
    return [f"cuda:{i}" for i in range(count)]
