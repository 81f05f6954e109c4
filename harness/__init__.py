"""sgmcmc-bench: the public face of the harness, everything that a plugin author needs.

Importing this package imports neither torch nor any plugin; names are resolved when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.analysis import diagnostics, statistics
    from harness.contracts.chain_sequence import ChainSequence
    from harness.contracts.data import DataFile
    from harness.contracts.hookspecs import Info, Method, hook
    from harness.contracts.observers import MOMENT_METRICS, MomentObserver
    from harness.contracts.parameters import Configurable, near, param
    from harness.contracts.randomness import Streams
    from harness.contracts.registry import Registry, registry
    from harness.contracts.sampler import Noise, Potential, Sampler
    from harness.contracts.sampler_law import SamplerLaw
    from harness.contracts.schedule import Schedule, Trajectory
    from harness.contracts.task import Cost, Metric, Observer, Outcome, Problem, Protocol, Task, Truth
    from harness.engine import linear
    from harness.reporting.rendering import render
    from harness.reporting.report import Column, Figure, Records, Report, Request, Result, Table
    from harness.reporting.scoring import (
        UNGATED,
        Comparison,
        Estimate,
        FieldScore,
        Group,
        Run,
        check_metric,
        compare_values,
        judge,
        load_groups,
        metric_estimate,
        number,
        score_fields,
        setting_text,
        settings_from,
        typical,
        with_interval,
    )
    from harness.reporting.scoring.compare import compare
    from harness.reporting.scoring.labels import labels
    from harness.results.store import Store
    from harness.results.store.published import Published
    from harness.runs.plugin_metadata import lacking
    from harness.system.errors import BenchError, DataError, PluginError, RunError, UsageError
    from harness.system.files import write_set

_HOME = {
    "harness.contracts.chain_sequence": ("ChainSequence",),
    "harness.contracts.data": ("DataFile",),
    "harness.system.errors": ("BenchError", "DataError", "PluginError", "RunError", "UsageError"),
    "harness.contracts.hookspecs": ("Info", "Method", "hook"),
    "harness.contracts.observers": ("MOMENT_METRICS", "MomentObserver"),
    "harness.contracts.parameters": ("Configurable", "near", "param"),
    "harness.contracts.randomness": ("Streams",),
    "harness.contracts.registry": ("Registry", "registry"),
    "harness.reporting.rendering": ("render",),
    "harness.reporting.report": ("Column", "Figure", "Records", "Report", "Request", "Result", "Table"),
    "harness.reporting.scoring": (
        "UNGATED", "Comparison", "Estimate", "FieldScore", "Group", "Run", "check_metric", "compare_values", "judge",
        "load_groups", "metric_estimate", "number", "score_fields", "setting_text", "settings_from", "typical",
        "with_interval",
    ),
    "harness.reporting.scoring.compare": ("compare",),
    "harness.reporting.scoring.labels": ("labels",),
    "harness.results.store": ("Store",),
    "harness.results.store.published": ("Published",),
    "harness.runs.plugin_metadata": ("lacking",),
    "harness.system.files": ("write_set",),
    "harness.contracts.sampler": ("Noise", "Potential", "Sampler"),
    "harness.contracts.sampler_law": ("SamplerLaw",),
    "harness.contracts.schedule": ("Schedule", "Trajectory"),
    "harness.contracts.task": ("Cost", "Metric", "Observer", "Outcome", "Problem", "Protocol", "Task", "Truth"),
}  # fmt: skip
_MODULE = {name: module for module, names in _HOME.items() for name in names}
_LIBRARIES = {
    "diagnostics": "harness.analysis.diagnostics",
    "linear": "harness.engine.linear",
    "statistics": "harness.analysis.statistics",
}
"""Modules that are public as a whole."""

__all__ = [
    "MOMENT_METRICS", "UNGATED", "BenchError", "ChainSequence", "Column", "Comparison", "Configurable", "Cost",
    "DataError", "DataFile", "Estimate", "FieldScore", "Figure", "Group", "Info", "Method", "Metric",
    "MomentObserver", "Noise", "Observer", "Outcome", "PluginError", "Potential", "Problem", "Protocol", "Published",
    "Records", "Registry", "Report", "Request", "Result", "Run", "RunError", "Sampler", "SamplerLaw", "Schedule",
    "Store", "Streams", "Table", "Task", "Trajectory", "Truth", "UsageError", "check_metric", "compare",
    "compare_values", "diagnostics", "hook", "judge", "labels", "lacking", "linear", "load_groups", "metric_estimate",
    "near", "number", "param", "registry", "render", "score_fields", "setting_text", "settings_from", "statistics",
    "typical", "with_interval", "write_set",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LIBRARIES:
        return importlib.import_module(_LIBRARIES[name])
    if name not in _MODULE:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
