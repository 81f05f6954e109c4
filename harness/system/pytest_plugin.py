"""The pytest plugin: it marks the tests that are inherited laws, so that `pytest -m "not laws"` leaves them out.

pytest loads it wherever sgmcmc-bench is installed, also in projects that have a package `plugins` or `tasks` of their
own, so it imports nothing large and none of ours.
"""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark."""
    config.addinivalue_line("markers", "laws: a law that `bench check` holds a sampler or a task to")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of classes that derive from `SamplerLaws`, `ScheduleLaws` or `TaskLaws` of `plugins.checking`."""
    for item in items:
        if getattr(getattr(item, "cls", None), "bench_laws", False):
            item.add_marker("laws")
