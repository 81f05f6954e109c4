"""sgmcmc-bench: the public face of the harness, everything that a plugin author needs.

Importing this package imports neither torch nor any plugin; names are resolved when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.chain_sequence import ChainSequence
    from harness.data import DataFile
    from harness.errors import BenchError, DataError, PluginError, RunError, UsageError
    from harness.hookspecs import Info, Method, hook
    from harness.observers import MOMENT_METRICS, MomentObserver
    from harness.parameters import Configurable, param
    from harness.report import Column, Figure, Report, Request, Result, Table
    from harness.sampler import Noise, Potential, Sampler
    from harness.sampler_law import SamplerLaw
    from harness.schedule import Schedule, Trajectory
    from harness.task import Cost, Metric, Observer, Outcome, Problem, Protocol, Task, Truth

_HOME = {
    "harness.chain_sequence": ("ChainSequence",),
    "harness.data": ("DataFile",),
    "harness.errors": ("BenchError", "DataError", "PluginError", "RunError", "UsageError"),
    "harness.hookspecs": ("Info", "Method", "hook"),
    "harness.observers": ("MOMENT_METRICS", "MomentObserver"),
    "harness.parameters": ("Configurable", "param"),
    "harness.report": ("Column", "Figure", "Report", "Request", "Result", "Table"),
    "harness.sampler": ("Noise", "Potential", "Sampler"),
    "harness.sampler_law": ("SamplerLaw",),
    "harness.schedule": ("Schedule", "Trajectory"),
    "harness.task": ("Cost", "Metric", "Observer", "Outcome", "Problem", "Protocol", "Task", "Truth"),
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
