"""Warm starts: each chain of a sampler starts where an optimiser, with the chain's own streams, ended.

The optimiser has its default hyperparameters, a constant step size and the temperature 0. Its gradients count in the
budget and in the cost. `Loop` runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.contracts.hookspecs import Info
from harness.contracts.registry import Offer, Registry, registry
from harness.contracts.task import data_passes
from harness.runs import plugin_metadata
from harness.runs.source import source_hash
from harness.system.errors import RunError, UsageError

if TYPE_CHECKING:
    from harness.contracts.sampler import Sampler
    from harness.contracts.schedule import Trajectory
    from harness.contracts.task import Task
    from harness.results.spec import RunSpec


def find(plugins: Registry, name: str) -> tuple[Offer, plugin_metadata.SamplerFacts]:
    """Return the optimiser of that name and its facts. `UsageError` if the sampler is not an optimiser."""
    offer = plugins.find("samplers", name)
    facts = plugin_metadata.sampler_facts(offer, {})
    if not facts.optimiser:
        alike = (o for o in plugins.offers("samplers") if o.distribution == offer.distribution)
        known = [o.name for o in alike if isinstance(o.info, Info) and o.info.optimiser]
        raise UsageError(f"run.warm_start = {name:.80} is not an optimiser; choose one of {', '.join(known)}")
    return offer, facts


def length(passes: float, per_step: float) -> int:
    """Return the number of steps that `passes` data passes allow. `UsageError` if it is less than one."""
    steps = int(passes / per_step * (1 + 1e-12))
    if not steps:
        raise UsageError(f"run.warm_passes = {passes:g} is less than the {per_step:g} data passes of one step")
    return steps


def stage(spec: RunSpec, task: Task, files: tuple[str, ...]) -> tuple[Sampler, Trajectory] | None:
    """Return the optimiser of a run's warm start and its trajectory, or None without a warm start.

    `files` are one-off plugins. `RunError` if the optimiser's code has changed since the run was planned.
    """
    if not spec.warm_start or not spec.warm_passes:
        return None
    import numpy as np

    from harness.contracts.schedule import Trajectory

    offer = registry(files).find("samplers", spec.warm_start)
    if source_hash(offer.target) != spec.warm_source:
        raise RunError(f"the code of {offer.name} changed since this command was planned; give the command again")
    optimiser: Sampler = plugin_metadata.instance(offer.target, {})
    calls = optimiser.gradients_per_step, optimiser.full_gradients_per_step
    steps = length(spec.warm_passes, data_passes(calls, task.batch_terms(), task.priced_terms()))
    off = np.zeros(steps, dtype=bool)
    step_sizes = np.full(steps, spec.warm_step_size)
    return optimiser, Trajectory(step_sizes, np.zeros(steps), off, off, np.zeros(steps, dtype=np.int64), off)
