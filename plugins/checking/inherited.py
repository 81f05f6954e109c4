"""The laws as tests that a plugin's own test class inherits: one test per law, for the object its fixture returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, ClassVar

import pytest
import torch

from harness import DataError, PluginError, Sampler, Schedule
from harness.tasks import Task
from plugins.checking.schedule_laws import SCHEDULE_LAWS
from plugins.checking.suite import LAWS, LawResult, check_sampler, check_schedule, check_task
from plugins.checking.task_laws import TASK_LAWS

Check = Callable[[Any, Collection[str]], list[LawResult]]


class Laws:
    """The common base: one thread, as in `bench check`, and the mark `laws`, so `-m "not laws"` leaves them out."""

    bench_laws: ClassVar[bool] = True

    @pytest.fixture(autouse=True)
    def _one_thread(self) -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)


class SamplerLaws(Laws):
    """The tests of a sampler. A derived class has a fixture `sampler`, an object or a class made at its defaults.

    With `params` in the fixture, every setting is held to all laws. A law that does not apply to the sampler, or from
    which the sampler declares itself exempt, is a skipped test with the reason.
    """

    @pytest.mark.parametrize("law", [law.name for law in LAWS])
    def test_law(self, sampler: Any, law: str) -> None:
        """Hold the sampler to one law."""
        _hold(_instance(sampler, Sampler), law, check_sampler)


class TaskLaws(Laws):
    """The tests of a task. A derived class has a fixture `task`, an object or a class made at its defaults."""

    @pytest.mark.parametrize("law", [name for name, _ in TASK_LAWS])
    def test_law(self, task: Any, law: str) -> None:
        """Hold the task to one law; skip the test if the data of the task are missing."""
        _hold(_instance(task, Task), law, check_task)


class ScheduleLaws(Laws):
    """The tests of a schedule. A derived class has a fixture `schedule`, an object or a class made at its defaults."""

    @pytest.mark.parametrize("law", [name for name, _ in SCHEDULE_LAWS])
    def test_law(self, schedule: Any, law: str) -> None:
        """Hold the schedule to one law."""
        _hold(_instance(schedule, Schedule), law, check_schedule)


def _instance(given: Any, base: type) -> Any:
    """Return the object that a fixture stands for: itself, or an instance of the class that it returned."""
    instance = given() if isinstance(given, type) else given
    if not isinstance(instance, base):
        kind = base.__name__.lower()
        public = f"harness.{'tasks.' * (kind == 'task')}{base.__name__}"
        pytest.fail(
            f"the fixture `{kind}` returned a {type(instance).__name__}, not a {public}",
            pytrace=False,
        )
    return instance


def _hold(instance: Any, law: str, check: Check) -> None:
    """Run one law and report the result to pytest: a failure shows the law's own message, without a traceback."""
    try:
        (result,) = check(instance, [law])
    except DataError as error:
        pytest.skip(str(error))
    except PluginError as error:
        pytest.fail(str(error), pytrace=False)
    if result.outcome == "failed":
        pytest.fail(f"{law}: {result.message}", pytrace=False)
    if result.outcome != "passed":
        pytest.skip(f"{law}: {result.outcome}: {result.message}")
