"""The laws for schedules, which `bench check` runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from harness import Schedule, Trajectory

LENGTHS = (40, 997, 20_000)
EPOCH = 13
TEMPERATURE = 0.7


def law_one_entry_a_step(schedule: Schedule) -> None:
    """Asked for K steps, a schedule makes K steps, with step sizes above 0."""
    for steps, path in _trajectories(schedule):
        assert len(path) == steps, f"asked for {steps} steps it makes {len(path)}"
        least = int(path.step_size.argmin())
        assert path.step_size[least] > 0, f"the step size of step {least + 1} of {steps} is {path.step_size[least]}"


def law_pure(schedule: Schedule) -> None:
    """Asked twice, a schedule gives the same answer: it draws no random numbers and remembers nothing."""
    for (steps, one), (_, other) in zip(_trajectories(schedule), _trajectories(schedule), strict=True):
        for field in dataclasses.fields(one):
            same = np.array_equal(getattr(one, field.name), getattr(other, field.name))
            assert same, f"asked twice for {steps} steps it gives another {field.name}"


def law_draws_are_of_the_target(schedule: Schedule) -> None:
    """Kept draws are made at the schedule's temperature and outside the burn-in, and at least one draw is kept."""
    for steps, path in _trajectories(schedule):
        assert path.keep.any(), f"nothing of {steps} steps is kept"
        wrong = np.flatnonzero(path.keep & (path.temperature != TEMPERATURE))
        assert not len(wrong), (
            f"step {wrong[0] + 1} of {steps} is kept though it was made at T = {path.temperature[wrong[0]]:g} and the "
            f"target is that of T = {TEMPERATURE}; usual cause: draws kept during exploration"
        )
        assert not (path.keep & path.burn_in).any(), "draws are kept during the burn-in"


def law_burn_in_comes_first(schedule: Schedule) -> None:
    """Samplers adapt before the first kept draw, and never after it."""
    for _, path in _trajectories(schedule):
        last = np.flatnonzero(path.burn_in)
        first = int(path.keep.argmax())
        assert not len(last) or last[-1] < first, f"step {last[-1] + 1} adapts, and step {first + 1} is kept before it"


def law_what_is_evaluated_is_kept(schedule: Schedule) -> None:
    """A task evaluates kept draws only."""
    for _, path in _trajectories(schedule):
        extra = np.flatnonzero(path.evaluate & ~path.keep)
        assert not len(extra), f"step {extra[0] + 1} is marked to be evaluated, and is not kept"


SCHEDULE_LAWS: list[tuple[str, Callable[[Schedule], None]]] = [
    ("one entry a step", law_one_entry_a_step),
    ("pure", law_pure),
    ("draws are of the target", law_draws_are_of_the_target),
    ("burn-in comes first", law_burn_in_comes_first),
    ("what is evaluated is kept", law_what_is_evaluated_is_kept),
]


def _trajectories(schedule: Schedule) -> Iterator[tuple[int, Trajectory]]:
    at = dataclasses.replace(schedule, temperature=TEMPERATURE)
    yield from ((steps, at.trajectory(steps, EPOCH)) for steps in LENGTHS)
