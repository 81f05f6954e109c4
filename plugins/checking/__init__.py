"""The laws for samplers, schedules and tasks, which `bench check` runs and plugin authors inherit in their own tests.

The test class of a plugin returns the object under test from one fixture, and inherits a test for every law:

    from plugins.checking import SamplerLaws

    class TestMySampler(SamplerLaws):
        @pytest.fixture
        def sampler(self):
            return MySampler()

`ScheduleLaws` with a fixture `schedule` and `TaskLaws` with a fixture `task` do the same. `SamplerLaw` is what is
claimed of a sampler beyond the declarations of its class. Importing this package imports neither torch nor pytest.
docs/checking.md says what the laws are.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from harness import Info, hook

if TYPE_CHECKING:
    from plugins.checking.inherited import SamplerLaws, ScheduleLaws, TaskLaws
    from plugins.checking.sampler_law import SamplerLaw

__all__ = ["SamplerLaw", "SamplerLaws", "ScheduleLaws", "TaskLaws"]


@hook
def bench_verbs() -> list[Info]:
    """Return the verbs of this feature."""
    return [Info("check", "plugins.checking.check:check", "Check samplers, schedules and tasks against the laws.")]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'plugins.checking' has no attribute {name!r}")
    module = "sampler_law" if name == "SamplerLaw" else "inherited"
    return getattr(importlib.import_module(f"plugins.checking.{module}"), name)
