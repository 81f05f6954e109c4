"""The laws for samplers, schedules and tasks, which `bench check` runs and plugin authors inherit in their own tests.

The test class of a plugin returns the object under test from one fixture, and inherits a test for every law:

    from plugins.laws import SamplerLaws

    class TestMySampler(SamplerLaws):
        @pytest.fixture
        def sampler(self):
            return MySampler()

`ScheduleLaws` with a fixture `schedule` and `TaskLaws` with a fixture `task` do the same. Importing this package
imports neither torch nor pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plugins.laws.inherited import SamplerLaws, ScheduleLaws, TaskLaws

__all__ = ["SamplerLaws", "ScheduleLaws", "TaskLaws"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'plugins.laws' has no attribute {name!r}")
    from plugins.laws import inherited

    return getattr(inherited, name)
