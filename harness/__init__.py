"""sgmcmc-bench: the public face of the harness, everything that a plugin author needs.

Importing this package imports neither torch nor any plugin; names are resolved when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.contracts.chain_sequence import ChainSequence
    from harness.contracts.data import DataFile
    from harness.contracts.hookspecs import Info, Method, hook
    from harness.contracts.observers import MOMENT_METRICS, MomentObserver
    from harness.contracts.parameters import Configurable, param
    from harness.contracts.sampler import Noise, Potential, Sampler
    from harness.contracts.sampler_law import SamplerLaw
    from harness.contracts.schedule import Schedule, Trajectory
    from harness.contracts.task import Cost, Metric, Observer, Outcome, Problem, Protocol, Task, Truth
    from harness.reporting.report import Column, Figure, Report, Request, Result, Table
    from harness.system.errors import BenchError, DataError, PluginError, RunError, UsageError

_HOME = {
    "harness.contracts.chain_sequence": ("ChainSequence",),
    "harness.contracts.data": ("DataFile",),
    "harness.system.errors": ("BenchError", "DataError", "PluginError", "RunError", "UsageError"),
    "harness.contracts.hookspecs": ("Info", "Method", "hook"),
    "harness.contracts.observers": ("MOMENT_METRICS", "MomentObserver"),
    "harness.contracts.parameters": ("Configurable", "param"),
    "harness.reporting.report": ("Column", "Figure", "Report", "Request", "Result", "Table"),
    "harness.contracts.sampler": ("Noise", "Potential", "Sampler"),
    "harness.contracts.sampler_law": ("SamplerLaw",),
    "harness.contracts.schedule": ("Schedule", "Trajectory"),
    "harness.contracts.task": ("Cost", "Metric", "Observer", "Outcome", "Problem", "Protocol", "Task", "Truth"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "MOMENT_METRICS", "BenchError", "ChainSequence", "Column", "Configurable", "Cost", "DataError", "DataFile",
    "Figure", "Info", "Method", "Metric", "MomentObserver", "Noise", "Observer", "Outcome", "PluginError",
    "Potential", "Problem", "Protocol", "Report", "Request", "Result", "RunError", "Sampler", "SamplerLaw", "Schedule",
    "Table", "Task", "Trajectory", "Truth", "UsageError", "hook", "param",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
