"""sgmcmc-bench: the public face of the harness, everything that a plugin author needs.

Importing this package imports neither torch nor any plugin; names are resolved when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.analysis import diagnostics, statistics
    from harness.contracts.chain_sequence import ChainSequence, epochs
    from harness.contracts.data import DataFile, data_root, locate
    from harness.contracts.hookspecs import Info, Method, hook
    from harness.contracts.layout import Block, Layout
    from harness.contracts.models import DataProblem, DataTask, DensityProblem, DensityTask, Rows
    from harness.contracts.observers import (
        MOMENT_METRICS,
        PREDICTIVE_METRICS,
        MomentErrors,
        MomentObserver,
        PredictiveObserver,
        draw_grid,
        finite_or_none,
        from_tensors,
        pick,
        steps_of_draws,
        to_tensors,
    )
    from harness.contracts.parameters import Configurable, near, param
    from harness.contracts.randomness import Streams
    from harness.contracts.registry import Registry, load_plugin, registry
    from harness.contracts.sampler import Noise, Potential, Sampler
    from harness.contracts.sampler_law import SamplerLaw
    from harness.contracts.schedule import Schedule, Trajectory
    from harness.contracts.task import Cost, Metric, Observer, Outcome, Problem, Protocol, Task, Truth, quantile_levels
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
    from harness.runs.reference import hmc_draws, truth_record, write_truth
    from harness.system.errors import BenchError, DataError, PluginError, RunError, UsageError
    from harness.system.files import write_set

_HOME = {
    "harness.contracts.chain_sequence": ("ChainSequence", "epochs"),
    "harness.contracts.data": ("DataFile", "data_root", "locate"),
    "harness.system.errors": ("BenchError", "DataError", "PluginError", "RunError", "UsageError"),
    "harness.contracts.hookspecs": ("Info", "Method", "hook"),
    "harness.contracts.observers": (
        "MOMENT_METRICS", "MomentObserver", "PREDICTIVE_METRICS", "MomentErrors", "PredictiveObserver", "draw_grid",
        "finite_or_none", "from_tensors", "pick", "steps_of_draws", "to_tensors",
    ),
    "harness.contracts.parameters": ("Configurable", "near", "param"),
    "harness.contracts.randomness": ("Streams",),
    "harness.contracts.registry": ("Registry", "registry", "load_plugin"),
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
    "harness.contracts.task": (
        "Cost", "Metric", "Observer", "Outcome", "Problem", "Protocol", "Task", "Truth", "quantile_levels",
    ),
    "harness.contracts.layout": ("Block", "Layout"),
    "harness.contracts.models": ("DataProblem", "DataTask", "DensityProblem", "DensityTask", "Rows"),
    "harness.runs.reference": ("hmc_draws", "truth_record", "write_truth"),
}  # fmt: skip
_MODULE = {name: module for module, names in _HOME.items() for name in names}
_LIBRARIES = {
    "diagnostics": "harness.analysis.diagnostics",
    "linear": "harness.engine.linear",
    "statistics": "harness.analysis.statistics",
}
"""Modules that are public as a whole."""

__all__ = [
    "MOMENT_METRICS", "PREDICTIVE_METRICS", "UNGATED", "BenchError", "Block", "ChainSequence", "Column", "Comparison",
    "Configurable", "Cost", "DataError", "DataFile", "DataProblem", "DataTask", "DensityProblem", "DensityTask",
    "Estimate", "FieldScore", "Figure", "Group", "Info", "Layout", "Method", "Metric", "MomentErrors", "MomentObserver",
    "Noise", "Observer", "Outcome", "PluginError", "Potential", "PredictiveObserver", "Problem", "Protocol",
    "Published", "Records", "Registry", "Report", "Request", "Result", "Rows", "Run", "RunError", "Sampler",
    "SamplerLaw", "Schedule", "Store", "Streams", "Table", "Task", "Trajectory", "Truth", "UsageError", "check_metric",
    "compare", "compare_values", "data_root", "diagnostics", "draw_grid", "epochs", "finite_or_none", "from_tensors",
    "hmc_draws", "hook", "judge", "labels", "lacking", "linear", "load_groups", "load_plugin", "locate",
    "metric_estimate", "near", "number", "param", "pick", "quantile_levels", "registry", "render", "score_fields",
    "setting_text", "settings_from", "statistics", "steps_of_draws", "to_tensors", "truth_record", "typical",
    "with_interval", "write_set", "write_truth",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LIBRARIES:
        return importlib.import_module(_LIBRARIES[name])
    if name not in _MODULE:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
