"""Whether the installed plugins offer what a paper's records are about."""

from __future__ import annotations

from harness import BenchError, Registry
from harness.runs import plugin_metadata, task_facts


def not_offered(registry: Registry, method: str, task: str, protocol: str, metric: str | None = None) -> str:
    """Return which of a method, a task, a protocol and a metric no installed plugin has, as a message. "" if none."""
    if task not in {offer.name for offer in registry.offers("tasks")}:
        return f"no task {task}"
    if method not in {offer.name for kind in ("samplers", "methods") for offer in registry.offers(kind)}:
        return f"no method {method}"
    try:
        offer = registry.find("tasks", task)
        stated = next((known for known in plugin_metadata.protocols(offer) if known.name == protocol), None)
        if stated is None:
            return f"{task} has no protocol {protocol}"
        settings = plugin_metadata.resolve(offer, stated.task_settings())
        metrics = {known.name for known in task_facts(offer, settings).metrics}
    except BenchError as error:
        return str(error)
    return f"{task} has no metric {metric}" if metric and metric not in metrics else ""
