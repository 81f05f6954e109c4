"""`bench doctor`: check that everything that runs need is present. Each check is a row with what to do."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from harness import Bench, BenchError, Result
from harness.contracts import data as files
from harness.engine.stepping import execution_mode
from harness.reporting import table
from harness.reports import Store
from harness.results import Ledger
from harness.system.cpp import COMPILERS, identity
from plugins.inspection import data, plugins

IMPORTED = ("torch", "torchvision", "duckdb", "polars", "pyarrow", "scipy", "matplotlib", "safetensors")
ENOUGH = 2 * 2**30
"""Free bytes below which there is a warning. A long run with its draws and checkpoints takes a few hundred MB."""


def doctor(bench: Bench) -> Result:
    """Check versions, the results folder, data sets, plugins and GPU. Exit code 1 if there is a problem.

    On a GPU it records a step of a tiny network, as runs of networks do; the compilation takes up to a minute.

    Examples:
        bench doctor
        bench doctor --json
    """
    rows = [
        {"check": check, "state": state, "what to do": remedy, "found": fact}
        for part in (_versions(), _compiler(), _results(bench), _data(bench), _plugins(bench), _gpu())
        for check, state, fact, remedy in part
    ]
    return Result([table(rows)], rows, exit_code=int(any(row["state"] == "problem" for row in rows)))


Answer = tuple[str, str, str, str]


def _versions() -> Iterator[Answer]:
    python = platform.python_version()
    fine = Version(python) >= Version("3.11")
    yield "Python", "ok" if fine else "problem", python, "" if fine else "use Python 3.11 or newer"
    try:
        asked = map(Requirement, importlib.metadata.requires("sgmcmc-bench") or [])
        required = {r.name: r for r in asked if r.marker is None or r.marker.evaluate({"extra": ""})}
        yield "sgmcmc-bench", "ok", importlib.metadata.version("sgmcmc-bench"), ""
    except importlib.metadata.PackageNotFoundError:
        required = {}
        yield "sgmcmc-bench", "problem", "not installed", "pip install . in its folder; plugins are found through that"
    for name in IMPORTED:
        yield _version(name, required.get(name))


def _version(name: str, wanted: Requirement | None) -> Answer:
    try:
        importlib.import_module(name)
        version = importlib.metadata.version(name)
    except Exception as error:  # noqa: BLE001 - a broken installation may raise any error
        return name, "problem", f"does not import: {error}"[:200], f"pip install --force-reinstall '{wanted or name}'"
    if wanted is not None and not wanted.specifier.contains(Version(version).public, prereleases=True):
        return name, "problem", version, f"pip install '{wanted}'"
    return name, "ok", version, ""


def _results(bench: Bench) -> Iterator[Answer]:
    results = bench.results
    folder = next(folder for folder in (results, *results.parents) if folder.exists())
    elsewhere = "choose another folder by --results DIR or BENCH_RESULTS"
    writable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    shown = str(results) if folder == results else f"{results} (does not exist yet)"
    yield "results folder", "ok" if writable else "problem", shown, "" if writable else f"not writable: {elsewhere}"
    try:
        Ledger(results).check_version()
    except BenchError as error:
        yield "results layout", "problem", str(error), f"install a newer sgmcmc-bench, or {elsewhere}"
    if not folder.is_dir():
        return
    yield _space(folder)
    kind = Ledger(folder).filesystem or "unknown"
    if Ledger(folder).locks_reach():
        yield "file system", "ok", kind, ""
    else:
        twice = "commands on two machines may do a run twice, and one result counts"
        remedy = "use a launcher (docs/clusters.md), or a results folder for each machine and `bench merge`"
        yield "file system", "warning", f"{kind}, whose locks may not reach other machines: {twice}", remedy
    yield from _database(results)


def _space(folder: Path) -> Answer:
    free = shutil.disk_usage(folder).free
    remedy = "" if free >= ENOUGH else "free some space, or choose another folder by --results DIR"
    return "free space", "ok" if free >= ENOUGH else "warning", f"{free / 2**30:.1f} GiB", remedy


def _database(results: Path) -> Iterator[Answer]:

    store = Store(results)
    if not store.path.exists():
        return
    try:
        (row,) = store.rows("select count(*) as n from attempt")
    except BenchError as error:
        yield "results database", "problem", str(error), "bench ingest --rebuild"
    else:
        yield "results database", "ok", f"{row['n']} attempts in {store.path}", ""


def _data(bench: Bench) -> Iterator[Answer]:
    """Yield one row for all data sets, and one for each damaged file.

    A data set that is absent is a warning only in a folder that the user named: no task has asked for it yet.
    """
    root = files.data_root()
    named = bool(os.environ.get("BENCH_DATA"))
    where = f"{root} ({'BENCH_DATA' if named else 'the default; BENCH_DATA names another'})"
    rows = data.verify(bench).records
    absent = {row["dataset"] for row in rows if row["status"] == "missing"}
    present = len({row["dataset"] for row in rows}) - len(absent)
    missing = f"; not there: {', '.join(sorted(absent))}" if absent else ""
    remedy = "`bench data fetch NAME` downloads what a task needs" if absent else ""
    yield "data sets", "warning" if absent and named else "ok", f"{present} in {where}{missing}", remedy
    for row in rows:
        if row["status"] not in ("ok", "missing"):
            remedy = f"bench data fetch {row['dataset']}"
            yield f"data set {row['dataset']}", "warning", f"{row['path']} is {row['status']}", remedy


def _plugins(bench: Bench) -> Iterator[Answer]:
    for row in plugins.listing(bench.registry):
        what = f"plugin {row['distribution']}: {row['plugin']}"
        if row["problems"]:
            yield what, "problem", row["problems"], f"repair it, or pip uninstall {row['distribution']}"
        else:
            yield what, "ok", row["offers"], ""


def _compiler() -> Iterator[Answer]:
    why = execution_mode.obstacle()
    remedy = f"install one of {', '.join(COMPILERS)}, or set CXX" if why else ""
    state = f"long runs are not compiled: {why}" if why else str(identity()["version"])
    yield "C++ compiler", "warning" if why else "ok", state, remedy


def _gpu() -> Iterator[Answer]:
    try:
        import torch
    except Exception:  # noqa: BLE001 - `_versions` reports it
        return
    if not torch.cuda.is_available():
        built = torch.version.cuda
        remedy = "" if built is None else "runs go to the CPU; nvidia-smi must list a GPU for it to be used"
        yield "GPU", "ok", "none that torch can use", remedy
        return
    for i in range(torch.cuda.device_count()):
        yield f"GPU cuda:{i}", "ok", torch.cuda.get_device_name(i), ""
    yield "recorded steps", *_recorded("cuda:0")


def _recorded(device: str) -> tuple[str, str, str]:
    """Try to record a step, as runs of networks do on a GPU."""
    from plugins.inspection.recorded_step import try_recording

    plain = "runs of networks are slower without, by --set run.compile=plain"
    if why := execution_mode.obstacle(device):
        return "warning", why, f"install it; {plain}"
    compiler = os.environ.get("CC") or next(filter(shutil.which, execution_mode.GPU_COMPILERS))
    header = Path(sysconfig.get_path("include"), "Python.h")
    compilers = f"Triton {importlib.metadata.version('triton')} with {compiler} and {header}"
    try:
        try_recording(device)
    except Exception as error:  # noqa: BLE001 - torch, Triton or a compiler may raise any error
        said = " ".join(f"{type(error).__name__}: {error}".split())
        absent = "" if header.exists() else ", which does not exist: install python3-dev"
        return "problem", said[:500], f"compilers: {compilers}{absent}; {plain}"
    return "ok", f"a step of a network ends as a plain one; compiled by {compilers}", ""
